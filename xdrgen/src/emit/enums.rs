//! Emits `enum name { A = 1 };`: a Rust enum whose members are variants. A member that repeats a
//! value is a constant. An open enum has one more variant (`Enum::unknown`) for other values.
//!
//! The impls of `Wire` state 4 bytes, as `layout` does, and an enum is never plain: `decode` checks
//! the value of a closed one.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::quote;

use super::{Emitter, docs, ident};
use crate::ir::{Enum, Member, TypeDef};

impl Emitter<'_> {
    pub(super) fn enumeration(&self, definition: &TypeDef, body: &Enum) -> TokenStream {
        let doc = docs::item(&definition.name, &definition.origin);
        let name = ident(&definition.rust);
        let parts = Parts::of(body);
        let (ty, from_value) = if body.open {
            (
                open_type(&name, body, &parts),
                quote!(Ok(Self::from_value(decoder.i32()?))),
            )
        } else {
            let decode = quote! {
                match Self::from_value(decoder.i32()?) {
                    Some(member) => Ok(member),
                    None => {
                        Err(decoder.error_before(xdr::ErrorKind::InvalidEnum, 4))
                    }
                }
            };
            (closed_type(&name, &parts), decode)
        };
        let codec = enum_codec(&name, &from_value);
        let default = self.enum_default(definition);
        let serde = self.serde(&definition.layout);
        quote! {
            #doc
            #serde
            #ty
            #default
            #codec
        }
    }
}

/// The members of an enum as tokens.
struct Parts<'a> {
    members: Vec<Ident>,
    values: Vec<Literal>,
    names: Vec<&'a String>,
    docs: Vec<TokenStream>,
    /// The constants of the members that repeat a value.
    aliases: Vec<TokenStream>,
    /// Derives `Default`, if a member is zero.
    default: Option<TokenStream>,
}

impl<'a> Parts<'a> {
    fn of(body: &'a Enum) -> Self {
        let names: Vec<_> = body.members.iter().map(|member| &member.name).collect();
        let value = |value| Literal::i32_unsuffixed(value);
        let aliases = body.aliases.iter().map(|alias| {
            let (doc, rust, first) = (
                docs::part(&alias.member.name),
                ident(&alias.member.rust),
                ident(&body.members[alias.first].rust),
            );
            quote!(#doc #[allow(non_upper_case_globals)] pub const #rust: Self = Self::#first;)
        });
        let zero = |member: &Member| (member.value == 0).then(|| quote!(#[default]));
        let default = body.members.iter().find_map(zero);
        Self {
            default: default.map(|_| quote!(, Default)),
            members: body
                .members
                .iter()
                .map(|member| ident(&member.rust))
                .collect(),
            values: body
                .members
                .iter()
                .map(|member| value(member.value))
                .collect(),
            docs: body
                .members
                .iter()
                .map(|member| {
                    let (doc, default) = (docs::part(&member.name), zero(member));
                    quote!(#doc #default)
                })
                .collect(),
            aliases: aliases.collect(),
            names,
        }
    }
}

fn closed_type(name: &Ident, parts: &Parts<'_>) -> TokenStream {
    let Parts {
        members,
        values,
        names,
        docs,
        aliases,
        default,
    } = parts;
    quote! {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash #default)]
        #[repr(i32)]
        pub enum #name { #(#docs #members = #values,)* }

        impl #name {
            #(#aliases)*

            /// All members, in document order.
            pub const ALL: &'static [Self] = &[#(Self::#members),*];

            /// Returns the member with a value, or `None` if there is none.
            #[inline]
            #[must_use]
            pub const fn from_value(value: i32) -> xdr::Option<Self> {
                Some(match value {
                    #(#values => Self::#members,)*
                    _ => return None,
                })
            }

            /// Returns the encoded value.
            #[inline]
            #[must_use]
            pub const fn value(self) -> i32 {
                self as i32
            }

            /// Returns the name in XDR.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { #(Self::#members => #names,)* }
            }
        }

        impl ::core::fmt::Display for #name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.name())
            }
        }
    }
}

/// Two values are equal if their encoded values are, so that `Unknown` with the value of a member
/// equals the member.
fn open_type(name: &Ident, body: &Enum, parts: &Parts<'_>) -> TokenStream {
    let Parts {
        members,
        values,
        names,
        docs,
        aliases,
        default,
    } = parts;
    let unknown = ident(body.unknown());
    let comparisons = comparisons(name);
    quote! {
        #[derive(Clone, Copy, Debug #default)]
        pub enum #name {
            #(#docs #members,)*
            /// A value without a member.
            #unknown(i32),
        }

        impl #name {
            #(#aliases)*

            /// All members, in document order.
            pub const ALL: &'static [Self] = &[#(Self::#members),*];

            /// Returns the member with a value, or the value itself if there is none.
            #[inline]
            #[must_use]
            pub const fn from_value(value: i32) -> Self {
                match value {
                    #(#values => Self::#members,)*
                    other => Self::#unknown(other),
                }
            }

            /// Returns the encoded value.
            #[inline]
            #[must_use]
            pub const fn value(self) -> i32 {
                match self {
                    #(Self::#members => #values,)*
                    Self::#unknown(value) => value,
                }
            }

            /// Returns the name in XDR, or `None` for a value without a member.
            #[must_use]
            pub const fn name(self) -> xdr::Option<&'static str> {
                match Self::from_value(self.value()) {
                    #(Self::#members => Some(#names),)*
                    Self::#unknown(_) => None,
                }
            }
        }

        impl ::core::fmt::Display for #name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => ::core::fmt::Display::fmt(&self.value(), f),
                }
            }
        }
        #comparisons
    }
}

fn comparisons(name: &Ident) -> TokenStream {
    quote! {
        impl ::core::cmp::PartialEq for #name {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                self.value() == other.value()
            }
        }
        impl ::core::cmp::Eq for #name {}
        impl ::core::cmp::PartialOrd for #name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> xdr::Option<::core::cmp::Ordering> {
                Some(::core::cmp::Ord::cmp(self, other))
            }
        }
        impl ::core::cmp::Ord for #name {
            #[inline]
            fn cmp(&self, other: &Self) -> ::core::cmp::Ordering {
                ::core::cmp::Ord::cmp(&self.value(), &other.value())
            }
        }
        impl ::core::hash::Hash for #name {
            #[inline]
            fn hash<H: ::core::hash::Hasher>(&self, state: &mut H) {
                ::core::hash::Hash::hash(&self.value(), state);
            }
        }
    }
}

fn enum_codec(name: &Ident, decode: &TokenStream) -> TokenStream {
    quote! {
        impl xdr::Wire for #name {
            const MIN: usize = 4;
            const MAX: xdr::Option<usize> = Some(4);
        }

        impl<'a> xdr::Decode<'a> for #name {
            #[inline(always)]
            fn decode(decoder: &mut xdr::Decoder<'a>) -> xdr::Result<Self> {
                #decode
            }

            #[inline]
            fn skip<__Trace: xdr::Trace>(
                decoder: &mut xdr::Decoder<'a>, _: &mut __Trace
            ) -> xdr::Result<()> {
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
