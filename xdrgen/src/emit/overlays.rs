//! Typed contents of an opaque field: an enum with a variant for each known code.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::structs::inline;
use super::{Emitter, Form, docs, ident};
use crate::ir::{Layout, Overlay, Type, TypeDefKind};

impl Emitter<'_> {
    pub(super) fn overlay(&self, overlay: &Overlay) -> TokenStream {
        let name = ident(&overlay.rust);
        let lifetime = (self.form == Form::Borrowed).then(|| quote!(<'a>));
        let carrier = self.schema.ty(overlay.carrier);
        let TypeDefKind::Struct(fields) = &carrier.kind else { return TokenStream::new() };
        let (code, data) = (&fields[overlay.code], &fields[overlay.data]);
        let doc = docs::lines(&[
            format!(
                "What `{}` of a `{}` holds, as `{}` says: {}.",
                data.name,
                carrier.name,
                code.name,
                docs::place(&carrier.origin)
            ),
            String::new(),
            "The code and its content belong together: a value can't have the content of another code.".to_owned(),
        ]);
        let copy = (self.form == Form::Borrowed).then(|| quote!(Copy,));
        let float = overlay.cases.iter().any(|case| self.schema.layout_of(&case.ty).float);
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
                /// No octets at all: the default value of what a known code names.
                Default {
                    /// The code.
                    code: u32
                },
            )
        });
        let octets = self.ty(&Type::Opaque(None));
        let methods = self.overlay_methods(overlay);
        let encode = self.overlay_encode(overlay);
        quote! {
            #doc
            #[derive(Clone, #copy Debug, PartialEq #eq)]
            pub enum #name #lifetime {
                #(#variants)*
                #empty
                /// A code that is not known here, and its content as it came.
                Unknown {
                    /// The code.
                    code: u32,
                    /// The content.
                    data: #octets,
                },
            }
            #methods
            #encode
        }
    }

    fn overlay_methods(&self, overlay: &Overlay) -> TokenStream {
        let name = ident(&overlay.rust);
        let lifetime = (self.form == Form::Borrowed).then(|| quote!(<'a>));
        let generics = lifetime.clone();
        let octets = if lifetime.is_some() { quote!(&'a [u8]) } else { quote!(&[u8]) };
        let codes: Vec<_> = overlay.cases.iter().map(|case| Literal::u32_unsuffixed(case.code)).collect();
        let variants: Vec<_> = overlay.cases.iter().map(|case| ident(&case.rust)).collect();
        let empty = overlay.empty_is_default.then(|| quote!(#(#codes)|* if data.is_empty() => Self::Default { code },));
        let empty_code = overlay.empty_is_default.then(|| quote!(Self::Default { code } => *code,));
        let inline = self.overlay_inline(overlay);
        let of = self.overlay_of(overlay);
        let carry = self.overlay_carry(overlay);
        quote! {
            impl #generics #name #lifetime {
                /// Decodes the whole of `data` as the content that `code` names, within the default limits.
                ///
                /// # Errors
                /// The content of a known code is malformed, too short, or followed by something.
                #inline
                pub fn decode(code: u32, data: #octets) -> xdr::Result<Self> {
                    Self::decode_with(code, data, &xdr::Limits::DEFAULT)
                }

                /// [`Self::decode`] within other limits.
                ///
                /// # Errors
                /// As [`Self::decode`], and where a limit is reached.
                #inline
                pub fn decode_with(code: u32, data: #octets, limits: &xdr::Limits) -> xdr::Result<Self> {
                    Ok(match code {
                        #empty
                        #(#codes => Self::#variants(xdr::Decode::from_bytes_with(data, limits)?),)*
                        _ => Self::Unknown { code, data: ::core::convert::From::from(data) },
                    })
                }

                #of

                #carry

                /// The code.
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

    /// As for a union of the same contents.
    fn overlay_inline(&self, overlay: &Overlay) -> Option<TokenStream> {
        let weights = overlay.cases.iter().map(|case| self.schema.layout_of(&case.ty).weight);
        inline(&Layout { weight: weights.fold(2, u32::saturating_add), ..Layout::default() })
    }

    /// From the struct that has both fields.
    fn overlay_of(&self, overlay: &Overlay) -> TokenStream {
        let carrier = self.schema.ty(overlay.carrier);
        let TypeDefKind::Struct(fields) = &carrier.kind else { return TokenStream::new() };
        let (code, data) = (ident(&fields[overlay.code].rust), ident(&fields[overlay.data].rust));
        let name = &carrier.name;
        let doc = docs::lines(&[
            format!("Decodes the content of a `{name}`."),
            String::new(),
            "# Errors".to_owned(),
            "As [`Self::decode`].".to_owned(),
        ]);
        let path = self.path(overlay.carrier);
        let octets = match (self.form, self.schema.resolve(&fields[overlay.data].ty)) {
            (Form::Borrowed, Type::Opaque(None)) => quote!(carrier.#data),
            (Form::Borrowed, _) => quote!(carrier.#data.as_bytes()),
            (Form::Owned, _) => quote!(&carrier.#data),
        };
        let inline = self.overlay_inline(overlay);
        quote! {
            #doc
            #inline
            pub fn of(carrier: &#path) -> xdr::Result<Self> {
                Self::decode(carrier.#code, #octets)
            }
        }
    }

    /// To the two fields of the struct.
    fn overlay_carry(&self, overlay: &Overlay) -> Option<TokenStream> {
        let carrier = self.schema.ty(overlay.carrier);
        let TypeDefKind::Struct(fields) = &carrier.kind else { return None };
        let (code, data) = (&fields[overlay.code].name, &fields[overlay.data].name);
        let doc = docs::lines(&[
            format!(
                "Encodes the content into `buffer`. Returns what belongs into `{code}` and `{data}` of a `{}`.",
                carrier.name
            ),
            String::new(),
            "# Errors".to_owned(),
            "`BufferFull`, and what the content's own encoding may report.".to_owned(),
        ]);
        (self.form == Form::Borrowed).then(|| {
            quote! {
                #doc
                pub fn carry<'b>(&self, buffer: &'b mut [u8]) -> xdr::Result<(u32, &'b [u8])> {
                    let used = xdr::Encode::encode_to_slice(self, buffer)?;
                    Ok((self.code(), &buffer[..used]))
                }
            }
        })
    }

    fn overlay_encode(&self, overlay: &Overlay) -> TokenStream {
        let name = ident(&overlay.rust);
        let anonymous = (self.form == Form::Borrowed).then(|| quote!(<'_>));
        let variants = overlay.cases.iter().map(|case| ident(&case.rust));
        let empty = overlay.empty_is_default.then(|| quote!(Self::Default { .. } => Ok(()),));
        quote! {
            impl xdr::Encode for #name #anonymous {
                /// Encodes the content alone, without the code and without a length.
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
