//! `enum name { A = 1 };`

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use super::{Emitter, docs, ident};
use crate::ir::{Enum, TypeDef};

impl Emitter<'_> {
    pub(super) fn enumeration(&self, definition: &TypeDef, body: &Enum) -> TokenStream {
        let doc = docs::item(&definition.name, &definition.origin);
        let name = ident(&definition.rust);
        let members: Vec<_> = body
            .members
            .iter()
            .map(|member| ident(&member.rust))
            .collect();
        let values: Vec<_> = body
            .members
            .iter()
            .map(|member| Literal::i32_unsuffixed(member.value))
            .collect();
        let names: Vec<_> = body.members.iter().map(|member| &member.name).collect();
        let docs = names.iter().map(|name| docs::part(name));
        let aliases = body.aliases.iter().map(|(xdr, rust, first)| {
            let (doc, rust, first) = (
                docs::part(xdr),
                ident(rust),
                ident(&body.members[*first].rust),
            );
            quote!(#doc #[allow(non_upper_case_globals)] pub const #rust: Self = Self::#first;)
        });
        let codec = enum_codec(&name);
        quote! {
            #doc
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            #[repr(i32)]
            pub enum #name { #(#docs #members = #values,)* }

            impl #name {
                #(#aliases)*

                /// All members, in document order.
                pub const ALL: &'static [Self] = &[#(Self::#members),*];

                /// Returns the member with a value, or `None` if there is none.
                #[inline]
                pub const fn from_value(value: i32) -> xdr::Option<Self> {
                    Some(match value {
                        #(#values => Self::#members,)*
                        _ => return None,
                    })
                }

                /// Returns the encoded value.
                #[inline]
                pub const fn value(self) -> i32 {
                    self as i32
                }

                /// Returns the name in XDR.
                pub const fn name(self) -> &'static str {
                    match self { #(Self::#members => #names,)* }
                }
            }
            #codec
        }
    }
}

fn enum_codec(name: &proc_macro2::Ident) -> TokenStream {
    quote! {
        impl ::core::fmt::Display for #name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl xdr::Wire for #name {
            const MIN: usize = 4;
            const MAX: xdr::Option<usize> = Some(4);
        }

        impl<'a> xdr::Decode<'a> for #name {
            #[inline(always)]
            fn decode(decoder: &mut xdr::Decoder<'a>) -> xdr::Result<Self> {
                match Self::from_value(decoder.i32()?) {
                    Some(member) => Ok(member),
                    None => {
                        Err(decoder.error_before(xdr::ErrorKind::InvalidEnum, 4))
                    }
                }
            }

            #[inline]
            fn skip<__Trace: xdr::Trace>(decoder: &mut xdr::Decoder<'a>, _: &mut __Trace) -> xdr::Result<()> {
                Self::decode(decoder).map(|_| ())
            }
        }

        impl xdr::Encode for #name {
            #[inline(always)]
            fn encode<'s, S: xdr::Sink<'s>>(&'s self, sink: &mut S) -> xdr::Result<()> {
                sink.i32(self.value())
            }
        }
    }
}
