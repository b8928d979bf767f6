//! Emits overlays: an enum with a variant for each known code of an opaque field. `check::overlays`
//! has checked the fields and the codes.
//!
//! An overlay implements `Encode` and no `Decode`, because the code and the content are in two
//! fields. The variants `Unknown` and, with `empty_is_default`, `Default` are beside those of the
//! codes.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::structs::inline;
use super::{Emitter, Shape, docs, ident};
use crate::ir::{Layout, OverlayDef, Type, TypeDefKind};

impl Emitter<'_> {
    pub(super) fn overlay(&self, overlay: &OverlayDef) -> TokenStream {
        let name = ident(&overlay.rust);
        let lifetime = (self.shape == Shape::Borrowed).then(|| quote!(<'a>));
        let carrier = self.schema.ty(overlay.carrier);
        let TypeDefKind::Struct(fields) = &carrier.kind else {
            return TokenStream::new();
        };
        let (code, data) = (&fields[overlay.code], &fields[overlay.data]);
        let doc = docs::lines(&[
            format!(
                "The content of `{}` in a `{}`, selected by `{}`: {}.",
                data.name,
                carrier.name,
                code.name,
                docs::position(&carrier.origin)
            ),
            String::new(),
            "A value always has the content that belongs to its code.".to_owned(),
        ]);
        let can_copy = overlay
            .cases
            .iter()
            .all(|case| self.schema.layout_of(&case.ty).copy);
        let copy = (self.shape == Shape::Borrowed && can_copy).then(|| quote!(Copy,));
        let float = overlay
            .cases
            .iter()
            .any(|case| self.schema.layout_of(&case.ty).float);
        let eq = (!float).then(|| quote!(, Eq));
        let variants = overlay.cases.iter().map(|case| {
            let ty = match &case.ty {
                Type::Named(id) => format!(", a `{}`", self.schema.ty(*id).name),
                _ => String::new(),
            };
            let doc = docs::lines(&[format!("`{}`{ty}", case.constant)]);
            let (variant, content) = (ident(&case.rust), self.content(&case.ty));
            quote!(#doc #variant(#content),)
        });
        let empty = overlay.empty_is_default.then(|| {
            quote!(
                /// Zero bytes: the default value of the content of a known code.
                Default {
                    /// The code.
                    code: u32
                },
            )
        });
        let opaque = self.ty(&Type::Opaque(None));
        let methods = self.overlay_methods(overlay);
        let encode = self.overlay_encode(overlay);
        quote! {
            #doc
            #[derive(Clone, #copy Debug, PartialEq #eq)]
            pub enum #name #lifetime {
                #(#variants)*
                #empty
                /// An unknown code, with its undecoded content.
                Unknown {
                    /// The code.
                    code: u32,
                    /// The content.
                    data: #opaque,
                },
            }
            #methods
            #encode
        }
    }

    fn overlay_methods(&self, overlay: &OverlayDef) -> TokenStream {
        let name = ident(&overlay.rust);
        let lifetime = (self.shape == Shape::Borrowed).then(|| quote!(<'a>));
        let generics = lifetime.clone();
        let bytes = if lifetime.is_some() {
            quote!(&'a [u8])
        } else {
            quote!(&[u8])
        };
        let codes: Vec<_> = overlay
            .cases
            .iter()
            .map(|case| Literal::u32_unsuffixed(case.code))
            .collect();
        let variants: Vec<_> = overlay.cases.iter().map(|case| ident(&case.rust)).collect();
        let empty = overlay
            .empty_is_default
            .then(|| quote!(#(#codes)|* if data.is_empty() => Self::Default { code },));
        let empty_code = overlay
            .empty_is_default
            .then(|| quote!(Self::Default { code } => *code,));
        let inline = self.overlay_inline(overlay);
        let of = self.overlay_of(overlay);
        let encode_fields = self.overlay_encode_fields(overlay);
        quote! {
            impl #generics #name #lifetime {
                /// Decodes all of `data` as the content for `code`, within the default limits.
                ///
                /// # Errors
                /// Returns an error if the content of a known code is malformed, too short or too
                /// long.
                #inline
                pub fn decode(code: u32, data: #bytes) -> xdr::Result<Self> {
                    Self::decode_with(code, data, &xdr::Limits::DEFAULT)
                }

                /// Decodes all of `data` as the content for `code`, within `limits`.
                ///
                /// # Errors
                /// As [`Self::decode`], and if a limit is exceeded.
                #inline
                pub fn decode_with(
                    code: u32, data: #bytes, limits: &xdr::Limits
                ) -> xdr::Result<Self> {
                    Ok(match code {
                        #empty
                        #(#codes => Self::#variants(xdr::Decode::from_bytes_with(data, limits)?),)*
                        _ => Self::Unknown { code, data: ::core::convert::From::from(data) },
                    })
                }

                #of

                #encode_fields

                /// Returns the code.
                pub const fn code(&self) -> u32 {
                    match self {
                        #(Self::#variants(_) => #codes,)*
                        #empty_code
                        Self::Unknown { code, .. } => *code,
                    }
                }
            }
        }
    }

    /// Returns the inlining of the codec, as for a union with the same contents.
    fn overlay_inline(&self, overlay: &OverlayDef) -> Option<TokenStream> {
        let weights = overlay
            .cases
            .iter()
            .map(|case| self.schema.layout_of(&case.ty).weight);
        inline(&Layout {
            weight: weights.fold(2, u32::saturating_add),
            ..Layout::default()
        })
    }

    /// Emits the decoder from the struct that contains both fields.
    fn overlay_of(&self, overlay: &OverlayDef) -> TokenStream {
        let carrier = self.schema.ty(overlay.carrier);
        let TypeDefKind::Struct(fields) = &carrier.kind else {
            return TokenStream::new();
        };
        let (code, data) = (
            ident(&fields[overlay.code].rust),
            ident(&fields[overlay.data].rust),
        );
        let name = &carrier.name;
        let doc = docs::lines(&[
            format!("Decodes the content of a `{name}`."),
            String::new(),
            "# Errors".to_owned(),
            "As [`Self::decode`].".to_owned(),
        ]);
        let path = self.path(overlay.carrier);
        let bytes = match (self.shape, self.schema.resolve(&fields[overlay.data].ty)) {
            (Shape::Borrowed, Type::Opaque(None)) => quote!(carrier.#data),
            (Shape::Borrowed, _) => quote!(carrier.#data.as_bytes()),
            (Shape::Owned, _) => quote!(&carrier.#data),
        };
        let inline = self.overlay_inline(overlay);
        quote! {
            #doc
            #inline
            pub fn of(carrier: &#path) -> xdr::Result<Self> {
                Self::decode(carrier.#code, #bytes)
            }
        }
    }

    /// Emits the encoder to the two fields of the struct.
    fn overlay_encode_fields(&self, overlay: &OverlayDef) -> Option<TokenStream> {
        let carrier = self.schema.ty(overlay.carrier);
        let TypeDefKind::Struct(fields) = &carrier.kind else {
            return None;
        };
        let (code, data) = (&fields[overlay.code].name, &fields[overlay.data].name);
        let doc = docs::lines(&[
            format!(
                "Encodes the content into `buffer`. Returns the values for `{code}` and `{data}` \
                of a `{}`.",
                carrier.name
            ),
            String::new(),
            "# Errors".to_owned(),
            "Returns `BufferFull` if `buffer` is too small, and the errors of the content's \
            encoding."
                .to_owned(),
        ]);
        (self.shape == Shape::Borrowed).then(|| {
            quote! {
                #doc
                pub fn encode_fields<'b>(
                    &self, buffer: &'b mut [u8]
                ) -> xdr::Result<(u32, &'b [u8])> {
                    let used = xdr::Encode::encode_to_slice(self, buffer)?;
                    Ok((self.code(), &buffer[..used]))
                }
            }
        })
    }

    fn overlay_encode(&self, overlay: &OverlayDef) -> TokenStream {
        let name = ident(&overlay.rust);
        let anonymous = (self.shape == Shape::Borrowed).then(|| quote!(<'_>));
        let variants = overlay.cases.iter().map(|case| ident(&case.rust));
        let empty = overlay
            .empty_is_default
            .then(|| quote!(Self::Default { .. } => Ok(()),));
        quote! {
            impl xdr::Encode for #name #anonymous {
                /// Encodes the content, without the code and without a length.
                fn encode<'s, S: xdr::Sink<'s>>(&'s self, sink: &mut S) -> xdr::Result<()> {
                    match self {
                        #(Self::#variants(content) => xdr::Encode::encode(content, sink),)*
                        #empty
                        Self::Unknown { data, .. } => sink.raw(data),
                    }
                }
            }
        }
    }
}
