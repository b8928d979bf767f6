//! Emits `struct name { T a; U b; };`. Each run of plain fields has one bounds check.
//!
//! Here are also the parts that other items share: `impl Wire` from the layout, the derives, and
//! the inlining of codecs. A type whose layout is plain must implement `xdr::Fixed` with
//! `Layout::min` bytes, because runs read such fields by it. `decode` and `skip` must accept the
//! same input.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use super::{Emitter, Shape, docs, ident, local, number};
use crate::ir::{Field, Layout, TypeDef};

/// A run of fields that are read together, or one field.
pub(super) enum Part<'f> {
    /// Adjacent plain fields, each with its offset and size, and their total size.
    Run(Vec<(&'f Field, u64, u64)>, u64),
    Single(&'f Field),
}

/// The names of a codec's local variables, which differ from all fields.
pub(super) struct Locals {
    pub(super) decoder: Ident,
    sink: Ident,
    trace: Ident,
    run: Ident,
    pub(super) each: Ident,
    pub(super) visitor: Ident,
}

impl Emitter<'_> {
    pub(super) fn structure(&self, definition: &TypeDef, fields: &[Field]) -> TokenStream {
        let doc = self.doc(definition);
        let name = ident(&definition.rust);
        let lifetime = self.lifetime(&definition.layout);
        let default = self.derives_default(fields).then(|| quote!(, Default));
        let derives = self.derives(&definition.layout, default);
        let members = fields.iter().map(|field| {
            // An XDR name that equals the Rust name needs no comment.
            let doc = (field.rust != field.name).then(|| docs::part(&field.name));
            let (name, ty) = (ident(&field.rust), self.ty(&field.ty));
            let serde = self.serde_part(&field.ty, false);
            quote!(#doc #serde pub #name: #ty)
        });
        let serde = self.serde(&definition.layout);
        let wire = self.wire(definition);
        let codec = self.struct_codec(definition, fields);
        let owned = self.struct_to_owned(definition, fields);
        let default = self.struct_default(definition, fields);
        quote! {
            #doc
            #derives
            #serde
            pub struct #name #lifetime { #(#members,)* }
            #default
            #wire
            #codec
            #owned
        }
    }

    /// Returns `<'a>` if this shape of a type has a lifetime.
    pub(super) fn lifetime(&self, layout: &Layout) -> Option<TokenStream> {
        (self.shape == Shape::Borrowed && layout.lifetime).then(|| quote!(<'a>))
    }

    pub(super) fn derives(&self, layout: &Layout, default: Option<TokenStream>) -> TokenStream {
        let copy = if self.shape == Shape::Borrowed {
            layout.copy
        } else {
            layout.copy && !layout.shapes_differ
        };
        let copy = copy.then(|| quote!(Copy,));
        let eq = (!layout.float).then(|| quote!(, Eq, Hash));
        quote!(#[derive(Clone, #copy Debug, PartialEq #eq #default)])
    }

    /// Emits `impl Wire`, the sizes.
    pub(super) fn wire(&self, definition: &TypeDef) -> TokenStream {
        let name = ident(&definition.rust);
        let layout = &definition.layout;
        let anonymous = self.lifetime(layout).map(|_| quote!(<'_>));
        let min = number(layout.min);
        // Constants that equal the trait's defaults are left out.
        let max = layout.max.map(|max| {
            let max = number(max);
            quote!(const MAX: xdr::Option<usize> = Some(#max);)
        });
        let plain = layout.plain.then(|| {
            quote!(
                const PLAIN: bool = true;
            )
        });
        quote! {
            impl xdr::Wire for #name #anonymous {
                const MIN: usize = #min;
                #max
                #plain
            }
        }
    }

    fn struct_codec(&self, definition: &TypeDef, fields: &[Field]) -> TokenStream {
        let name = ident(&definition.rust);
        let lifetime = self.lifetime(&definition.layout);
        let anonymous = lifetime.as_ref().map(|_| quote!(<'_>));
        let parts = self.parts(fields);
        let locals = Locals {
            decoder: local("decoder", fields),
            sink: local("sink", fields),
            trace: local("trace", fields),
            run: local("run", fields),
            each: local("each", fields),
            visitor: local("visitor", fields),
        };
        let Locals {
            decoder,
            sink,
            trace,
            ..
        } = &locals;
        let plain = definition.layout.plain;
        let fixed = plain.then(|| self.fixed(definition, &parts));
        let (decode, encode) = if plain {
            plain_codec(definition, &locals)
        } else {
            (
                self.decode(fields, &parts, &locals, None),
                self.encode(&parts, &locals),
            )
        };
        let skip = self.struct_skip(definition, &parts, &locals);
        let (inline, inline_skip) = (inline(&definition.layout), inline_skip(&definition.layout));
        let (decode_all, encode_all) = if plain {
            sequence_codec(definition)
        } else {
            Default::default()
        };
        let decode_each = self.decode_each(definition, fields, &parts, &locals);
        quote! {
            #fixed
            #decode_each
            impl<'a> xdr::Decode<'a> for #name #lifetime {
                #inline
                fn decode(#decoder: &mut xdr::Decoder<'a>) -> xdr::Result<Self> { #decode }
                #inline_skip
                fn skip<__Trace: xdr::Trace>(
                    #decoder: &mut xdr::Decoder<'a>, #trace: &mut __Trace
                ) -> xdr::Result<()> { #skip }
                #decode_all
            }
            impl xdr::Encode for #name #anonymous {
                #inline
                fn encode<'s, S: xdr::Sink<'s>>(&'s self, #sink: &mut S) -> xdr::Result<()> {
                    #encode
                }
                #encode_all
            }
        }
    }

    pub(super) fn parts<'f>(&self, fields: &'f [Field]) -> Vec<Part<'f>> {
        let mut parts: Vec<Part<'f>> = Vec::new();
        for field in fields {
            let layout = self.schema.layout_of(&field.ty);
            if !layout.plain {
                parts.push(Part::Single(field));
                continue;
            }
            match parts.last_mut() {
                Some(Part::Run(run, total)) => {
                    run.push((field, *total, layout.min));
                    *total += layout.min;
                }
                _ => parts.push(Part::Run(vec![(field, 0, layout.min)], layout.min)),
            }
        }
        parts
    }

    /// Emits the decoding of all fields; that of `special` by an expression of its own.
    pub(super) fn decode(
        &self,
        fields: &[Field],
        parts: &[Part<'_>],
        locals: &Locals,
        special: Option<(&Field, TokenStream)>,
    ) -> TokenStream {
        let Locals { decoder, run, .. } = locals;
        // Fields are decoded in order. A run after the first part requires the fields before it to
        // be local variables.
        let in_place = !parts
            .iter()
            .skip(1)
            .any(|part| matches!(part, Part::Run(..)));
        let mut statements = TokenStream::new();
        let mut members = Vec::new();
        for part in parts {
            match part {
                Part::Single(field) => {
                    let name = ident(&field.rust);
                    let decode = match &special {
                        Some((special, decode)) if special.name == field.name => decode.clone(),
                        _ => self.decode_value(&field.ty, decoder),
                    };
                    if in_place {
                        members.push(quote!(#name: #decode));
                    } else {
                        statements.extend(quote!(let #name = #decode;));
                        members.push(quote!(#name));
                    }
                }
                Part::Run(fields, total) => {
                    let size = number(*total);
                    statements.extend(quote!(let #run = #decoder.fixed::<#size>()?;));
                    for (field, at, size) in fields {
                        let (name, read) = (ident(&field.rust), read(run, *total, *at, *size));
                        if in_place {
                            members.push(quote!(#name: #read));
                        } else {
                            statements.extend(quote!(let #name = #read;));
                            members.push(quote!(#name));
                        }
                    }
                }
            }
        }
        let unused = fields.is_empty().then(|| quote!(let _ = #decoder;));
        quote!(#unused #statements Ok(Self { #(#members),* }))
    }

    fn encode(&self, parts: &[Part<'_>], locals: &Locals) -> TokenStream {
        let Locals { sink, run, .. } = locals;
        let statements = parts.iter().map(|part| match part {
            Part::Single(field) => {
                let name = ident(&field.rust);
                let encode = self.encode_value(&field.ty, &quote!(&self.#name), sink);
                quote!(#encode?;)
            }
            Part::Run(fields, total) => {
                let writes = fields
                    .iter()
                    .map(|(field, at, size)| write(field, run, *total, *at, *size));
                let size = number(*total);
                quote!(#sink.fixed::<#size>(|#run| { #(#writes)* })?;)
            }
        });
        let unused = parts.is_empty().then(|| quote!(let _ = #sink;));
        quote!(#unused #(#statements)* Ok(()))
    }

    /// Emits `impl Fixed`, which reads and writes all fields at once.
    fn fixed(&self, definition: &TypeDef, parts: &[Part<'_>]) -> TokenStream {
        let name = ident(&definition.rust);
        let Some(Part::Run(fields, total)) = parts.first() else {
            return TokenStream::new();
        };
        let size = number(*total);
        let bytes = proc_macro2::Ident::new("bytes", proc_macro2::Span::call_site());
        let reads = fields.iter().map(|(field, at, size)| {
            let (name, read) = (ident(&field.rust), read(&bytes, *total, *at, *size));
            quote!(#name: #read)
        });
        let writes = fields
            .iter()
            .map(|(field, at, size)| write(field, &bytes, *total, *at, *size));
        quote! {
            impl xdr::Fixed<#size> for #name {
                #[inline(always)]
                fn read(bytes: &[u8; #size]) -> Self { Self { #(#reads),* } }
                #[inline(always)]
                fn write(&self, bytes: &mut [u8; #size]) { #(#writes)* }
            }
        }
    }

    fn struct_skip(
        &self,
        definition: &TypeDef,
        parts: &[Part<'_>],
        locals: &Locals,
    ) -> TokenStream {
        let Locals { decoder, trace, .. } = locals;
        if self.has_borrowed() {
            return self.skip_as_borrowed(definition, decoder, trace);
        }
        let statements = parts.iter().map(|part| match part {
            Part::Single(field) => self.skip_part(&field.name, &field.ty, decoder, trace),
            Part::Run(fields, total) => {
                let entries = fields.iter().map(|(field, _, size)| {
                    let (name, size) = (&field.name, number(*size));
                    quote!((#name, #size))
                });
                let total = number(*total);
                quote!(#trace.run(#decoder, &[#(#entries),*], #total)?;)
            }
        });
        let unused = parts
            .is_empty()
            .then(|| quote!(let _ = (#decoder, #trace);));
        quote!(#unused #(#statements)* Ok(()))
    }

    /// Emits `skip` of an owned shape through the borrowed shape, which accepts the same input.
    pub(super) fn skip_as_borrowed(
        &self,
        definition: &TypeDef,
        decoder: &Ident,
        trace: &Ident,
    ) -> TokenStream {
        let borrowed = self.borrowed_path(definition, &quote!('a));
        quote!(<#borrowed as xdr::Decode<'a>>::skip(#decoder, #trace))
    }

    /// Returns the path from an owned shape to its borrowed shape, one module up.
    pub(super) fn borrowed_path(
        &self,
        definition: &TypeDef,
        lifetime: &TokenStream,
    ) -> TokenStream {
        let name = ident(&definition.rust);
        let lifetime = definition.layout.lifetime.then(|| quote!(<#lifetime>));
        quote!(super::#name #lifetime)
    }

    fn struct_to_owned(&self, definition: &TypeDef, fields: &[Field]) -> Option<TokenStream> {
        self.has_borrowed().then(|| {
            let fields = fields.iter().map(|field| {
                let name = ident(&field.rust);
                let value = self.owned_value(&field.ty, &quote!(borrowed.#name));
                quote!(#name: #value)
            });
            self.conversions(definition, &quote!(Self { #(#fields),* }))
        })
    }

    /// Emits the conversions: from borrowed to owned, and back through a buffer.
    pub(super) fn conversions(&self, definition: &TypeDef, body: &TokenStream) -> TokenStream {
        let name = ident(&definition.rust);
        let (any, named) = (
            self.borrowed_path(definition, &quote!('_)),
            self.borrowed_path(definition, &quote!('a)),
        );
        quote! {
            impl ::core::convert::From<#any> for #name {
                fn from(borrowed: #any) -> Self { #body }
            }
            impl xdr::Owned for #name {
                type Borrowed<'a> = #named;
            }
        }
    }
}

/// Emits the codec of a plain struct, which is read and written as one run.
fn plain_codec(definition: &TypeDef, locals: &Locals) -> (TokenStream, TokenStream) {
    let size = number(definition.layout.min);
    let Locals {
        decoder, sink, run, ..
    } = locals;
    (
        quote!(Ok(<Self as xdr::Fixed<#size>>::read(#decoder.fixed()?))),
        quote!(#sink.fixed::<#size>(|#run| xdr::Fixed::write(self, #run))),
    )
}

/// Emits the codec of sequences of a plain type, without a bounds check for each element.
fn sequence_codec(definition: &TypeDef) -> (TokenStream, TokenStream) {
    let size = number(definition.layout.min);
    (
        quote! {
            #[inline]
            fn decode_all(
                decoder: &mut xdr::Decoder<'a>,
                count: u32,
                items: &mut impl ::core::iter::Extend<Self>,
            ) -> xdr::Result<()> {
                decoder.fixed_all(count, items)
            }
        },
        quote! {
            #[inline]
            fn encode_all<'s, S: xdr::Sink<'s>>(
                items: &'s [Self], sink: &mut S
            ) -> xdr::Result<()> {
                sink.fixed_all(items, <Self as xdr::Fixed<#size>>::write)
            }
        },
    )
}

fn read(run: &Ident, total: u64, at: u64, size: u64) -> TokenStream {
    let (total, at, size) = (number(total), number(at), number(size));
    quote!(xdr::Fixed::read(xdr::part::<#total, #at, #size>(#run)))
}

fn write(field: &Field, run: &Ident, total: u64, at: u64, size: u64) -> TokenStream {
    let name = ident(&field.rust);
    let (total, at, size) = (number(total), number(at), number(size));
    quote!(xdr::Fixed::write(&self.#name, xdr::part_mut::<#total, #at, #size>(#run));)
}

/// The maximum weight of a type whose `decode` and `encode` are always inlined.
const MAX_INLINE_WEIGHT: u32 = 64;

/// Returns the inlining of `decode` and `encode`. A value that a call returns is copied: stored
/// field by field and loaded in wider pieces, which costs more than to decode it. Light codecs are
/// therefore inlined. Heavy ones (a union of many operations) would be duplicated at each use.
pub(super) fn inline(layout: &Layout) -> Option<TokenStream> {
    match layout {
        Layout {
            recursive: true, ..
        } => None,
        Layout {
            weight: ..=MAX_INLINE_WEIGHT,
            ..
        } => Some(quote!(#[inline(always)])),
        _ => inline_skip(layout),
    }
}

/// Returns the inlining of `skip`, which returns no value.
pub(super) fn inline_skip(layout: &Layout) -> Option<TokenStream> {
    (!layout.recursive && layout.memory <= 256).then(|| quote!(#[inline]))
}
