//! Emits `union name switch (T which) { case A: U a; default: void; };`, an enum with a variant for
//! each case. `visitors` emits the same arms once more, for a visitor.
//!
//! The discriminant is decoded as 32 bits, and `decode`, `skip` and `visit` must reject the same
//! ones with the same error. Encoding rejects a default arm that holds the value of another arm. Of
//! a union with `takes_item`, each arm without an item calls `no_item`, in the decoder and in the
//! sink (RFC 8267, section 6.4.1).

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote;

use super::structs::{inline, inline_skip};
use super::{Emitter, docs, ident};
use crate::ir::{Arm, Content, Discriminant, Type, TypeDef, TypeDefKind, Union};

impl Emitter<'_> {
    pub(super) fn union(&self, definition: &TypeDef, union: &Union) -> TokenStream {
        let doc = self.doc(definition);
        let name = ident(&definition.rust);
        let lifetime = self.lifetime(&definition.layout);
        let is_derived = |arm: &Arm| Self::is_derived_default(definition, arm);
        let derived = union.arms.iter().any(is_derived).then(|| quote!(, Default));
        let derives = self.derives(&definition.layout, derived);
        let variants = union.arms.iter().map(|arm| {
            let (doc, name) = (docs::part(&arm.case), ident(&arm.rust));
            let content = arm
                .content
                .as_ref()
                .map(|(_, ty)| self.content(ty))
                .map(|ty| quote!((#ty)));
            let serde = arm
                .content
                .as_ref()
                .and_then(|(_, ty)| self.serde_part(ty, self.content_is_boxed(ty)));
            let zero = is_derived(arm).then(|| quote!(#[default]));
            quote!(#doc #serde #zero #name #content)
        });
        let serde = self.serde(&definition.layout);
        let default = union
            .default
            .as_ref()
            .map(|content| self.default_variant(union, content));
        let wire = self.wire(definition);
        let accessor = self.accessor(definition, union);
        let codec = self.union_codec(definition, union);
        let visitor = self.visitor(definition, union);
        let owned = self.union_to_owned(definition, union);
        let zero = self.union_default(definition, union, &default_name(union));
        quote! {
            #doc
            #derives
            #serde
            pub enum #name #lifetime { #(#variants,)* #default }
            #zero
            #accessor
            #wire
            #codec
            #visitor
            #owned
        }
    }

    fn default_variant(&self, union: &Union, content: &Content) -> TokenStream {
        let doc = docs::lines(&[format!(
            "The `default` arm, with a `{}` that has no arm of its own.",
            union.name
        )]);
        let name = default_name(union);
        let discriminant = self.discriminant(union);
        let content = content
            .as_ref()
            .map(|(_, ty)| self.content(ty))
            .map(|ty| quote!(, #ty));
        quote!(#doc #name(#discriminant #content),)
    }

    pub(super) fn discriminant(&self, union: &Union) -> TokenStream {
        match union.discriminant {
            Discriminant::I32 => quote!(i32),
            Discriminant::U32 => quote!(u32),
            Discriminant::Bool => quote!(bool),
            Discriminant::Enum(id) => self.path(id),
        }
    }

    /// Emits the accessor of the discriminant.
    fn accessor(&self, definition: &TypeDef, union: &Union) -> TokenStream {
        let name = ident(&definition.rust);
        let anonymous = self.lifetime(&definition.layout).map(|_| quote!(<'_>));
        let (field, ty) = (ident(&union.rust), self.discriminant(union));
        let doc = docs::lines(&[format!("Returns the discriminant, `{}`.", union.name)]);
        let arms = union.arms.iter().map(|arm| {
            let variant = ident(&arm.rust);
            let content = arm.content.as_ref().map(|_| quote!((_)));
            let value = self.value(union, arm);
            quote!(Self::#variant #content => #value,)
        });
        let default = union.default.as_ref().map(|content| {
            let name = default_name(union);
            let content = content.as_ref().map(|_| quote!(, _));
            quote!(Self::#name(which #content) => *which,)
        });
        quote! {
            impl #name #anonymous {
                #doc
                #[inline]
                #[must_use]
                pub const fn #field(&self) -> #ty {
                    match self { #(#arms)* #default }
                }
            }
        }
    }

    /// Returns an arm's discriminant as a value of its Rust type.
    fn value(&self, union: &Union, arm: &Arm) -> TokenStream {
        match union.discriminant {
            Discriminant::I32 => {
                let value = Literal::i32_unsuffixed(arm.value.cast_signed());
                quote!(#value)
            }
            Discriminant::U32 => {
                let value = Literal::u32_unsuffixed(arm.value);
                quote!(#value)
            }
            Discriminant::Bool => {
                let value = arm.value != 0;
                quote!(#value)
            }
            Discriminant::Enum(id) => {
                let member = match &self.schema.ty(id).kind {
                    TypeDefKind::Enum(body) => {
                        let mut members = body.members.iter();
                        members.find(|member| member.value.cast_unsigned() == arm.value)
                    }
                    _ => None,
                };
                // The arm may have another name in Rust than the member.
                let member = ident(member.map_or(&arm.rust, |member| &member.rust));
                let ty = self.path(id);
                quote!(#ty::#member)
            }
        }
    }

    fn union_codec(&self, definition: &TypeDef, union: &Union) -> TokenStream {
        let name = ident(&definition.rust);
        let lifetime = self.lifetime(&definition.layout);
        let anonymous = lifetime.as_ref().map(|_| quote!(<'_>));
        let (decoder, trace) = (local("decoder"), local("trace"));
        let decode = self.union_decode(union);
        let skip = if self.has_borrowed() {
            self.skip_as_borrowed(definition, &decoder, &trace)
        } else {
            self.union_skip(union)
        };
        let encode = self.union_encode(union);
        let (inline, inline_skip) = (inline(&definition.layout), inline_skip(&definition.layout));
        let unused_trace = !self.has_borrowed() && !contents(union).any(Option::is_some);
        let trace = if unused_trace {
            quote!(_)
        } else {
            quote!(#trace)
        };
        quote! {
            impl<'a> xdr::Decode<'a> for #name #lifetime {
                #inline
                fn decode(decoder: &mut xdr::Decoder<'a>) -> xdr::Result<Self> { #decode }
                #inline_skip
                fn skip<__Trace: xdr::Trace>(
                    decoder: &mut xdr::Decoder<'a>, #trace: &mut __Trace
                ) -> xdr::Result<()> { #skip }
            }
            impl xdr::Encode for #name #anonymous {
                #inline
                fn encode<'s, S: xdr::Sink<'s>>(&'s self, sink: &mut S) -> xdr::Result<()> {
                    #encode
                }
            }
        }
    }

    /// Emits the decoding of a union. Each arm returns its value, which is then built in place: out
    /// of the `match` it would be moved.
    fn union_decode(&self, union: &Union) -> TokenStream {
        let arms = self.schema.shared_arms(union).into_iter().map(|arms| {
            let content = arms[0]
                .content
                .as_ref()
                .map(|(_, ty)| self.decode_content(ty));
            let none = self.no_item(union, &arms[0].content, &quote!(decoder.no_item();));
            let (values, names) = (values(&arms), names(&arms));
            match (&names[..], content) {
                ([name], content) => {
                    let content = content.map(|value| quote!((#value)));
                    let value = quote!(Ok(Self::#name #content));
                    match none {
                        None => quote!(#(#values)|* => #value,),
                        Some(none) => quote!(#(#values)|* => { #none #value }),
                    }
                }
                ([first @ .., last], content) => {
                    let firsts = &values[..first.len()];
                    quote!(which @ (#(#values)|*) => {
                        #none
                        let content = #content;
                        match which {
                            #(#firsts => Ok(Self::#first(content)),)*
                            _ => Ok(Self::#last(content))
                        }
                    })
                }
                ([], _) => TokenStream::new(),
            }
        });
        let other = match &union.default {
            None => {
                let error = unknown();
                quote!(_ => Err(#error),)
            }
            Some(content) => {
                let (which, name) = (self.default_which(union), default_name(union));
                let none = self.no_item(union, content, &quote!(decoder.no_item();));
                let content = content
                    .as_ref()
                    .map(|(_, ty)| self.decode_content(ty))
                    .map(|value| quote!(, #value));
                quote!(other => { #which #none Ok(Self::#name(which #content)) })
            }
        };
        quote!(match decoder.u32()? { #(#arms)* #other })
    }

    /// Returns `note` for an arm without an item, if the union consumes the memory for one.
    pub(super) fn no_item(
        &self,
        union: &Union,
        content: &Content,
        note: &TokenStream,
    ) -> Option<TokenStream> {
        let items = content
            .as_ref()
            .map_or(0, |(_, ty)| self.schema.items_in(ty));
        (union.takes_item && items == 0).then(|| note.clone())
    }

    /// Returns the expression that encodes an arm's content.
    fn encode_content(&self, ty: &Type) -> TokenStream {
        self.encode_value(ty, &quote!(content), &local("sink"))
    }

    /// Returns the expression that decodes an arm's content.
    pub(super) fn decode_content(&self, ty: &Type) -> TokenStream {
        let value = self.decode_value(ty, &local("decoder"));
        let boxed = self.shape == super::Shape::Owned && self.schema.is_boxed(ty);
        if boxed {
            quote!(xdr::heap::Box::new(#value))
        } else {
            value
        }
    }

    /// Returns `let which = ..;`: the discriminant without an arm, as a value of its Rust type.
    pub(super) fn default_which(&self, union: &Union) -> TokenStream {
        match union.discriminant {
            Discriminant::I32 => quote!(let which = other.cast_signed();),
            Discriminant::U32 => quote!(let which = other;),
            Discriminant::Bool => quote!(let which = other != 0;),
            Discriminant::Enum(id) if self.schema.is_open(id) => {
                let ty = self.path(id);
                quote!(let which = #ty::from_value(other.cast_signed());)
            }
            Discriminant::Enum(id) => {
                let ty = self.path(id);
                quote! {
                    let Some(which) = #ty::from_value(other.cast_signed()) else {
                        return Err(decoder.error_before(xdr::ErrorKind::InvalidEnum, 4));
                    };
                }
            }
        }
    }

    fn union_skip(&self, union: &Union) -> TokenStream {
        let skip = |content: &Content| {
            let none = self.no_item(union, content, &quote!(decoder.no_item();));
            let part = content
                .as_ref()
                .map(|(name, ty)| self.skip_part(name, ty, &local("decoder"), &local("trace")));
            quote!({ #none #part })
        };
        // The name is part of the trace's path, so only arms of one name share code.
        let mut groups: Vec<Vec<&Arm>> = Vec::new();
        for arm in &union.arms {
            match groups
                .iter_mut()
                .find(|group| arm.content.is_some() && group[0].content == arm.content)
            {
                Some(group) => group.push(arm),
                None => groups.push(vec![arm]),
            }
        }
        let arms = groups.into_iter().map(|arms| {
            let (values, skip) = (values(&arms), skip(&arms[0].content));
            quote!(#(#values)|* => #skip)
        });
        let other = match &union.default {
            None => {
                let error = unknown();
                quote!(_ => return Err(#error),)
            }
            Some(content) => {
                let skip = skip(content);
                match union.discriminant {
                    Discriminant::Enum(id) if !self.schema.is_open(id) => {
                        let ty = self.path(id);
                        let invalid = quote!(decoder.error_before(xdr::ErrorKind::InvalidEnum, 4));
                        quote!(other => {
                            if #ty::from_value(other.cast_signed()).is_none() {
                                return Err(#invalid);
                            }
                            #skip
                        })
                    }
                    _ => quote!(_ => #skip),
                }
            }
        };
        quote!(match decoder.u32()? { #(#arms)* #other } Ok(()))
    }

    fn union_encode(&self, union: &Union) -> TokenStream {
        let arms = self.schema.shared_arms(union).into_iter().map(|arms| {
            let (values, names) = (values(&arms), names(&arms));
            let [.., value] = &values[..] else {
                return TokenStream::new();
            };
            let others = names.iter().zip(&values).take(names.len() - 1);
            let others = others.map(|(name, value)| quote!(Self::#name(_) => #value,));
            let which = if names.len() > 1 {
                quote!(match self { #(#others)* _ => #value })
            } else {
                quote!(#value)
            };
            let none = self.no_item(union, &arms[0].content, &quote!(sink.no_item()?;));
            match (&arms[0].content, none) {
                (None, None) => quote!(#(Self::#names)|* => sink.u32(#which),),
                (None, Some(_)) => {
                    quote!(#(Self::#names)|* => { sink.u32(#which)?; sink.no_item() })
                }
                (Some((_, ty)), none) => {
                    let encode = self.encode_content(ty);
                    quote!(#(Self::#names(content))|* => { sink.u32(#which)?; #none #encode })
                }
            }
        });
        let default = union.default.as_ref().map(|content| {
            let name = default_name(union);
            let bits = match union.discriminant {
                Discriminant::I32 => quote!(which.cast_unsigned()),
                Discriminant::U32 => quote!(*which),
                Discriminant::Bool => quote!(u32::from(*which)),
                Discriminant::Enum(_) => quote!(which.value().cast_unsigned()),
            };
            let taken = union
                .arms
                .iter()
                .map(|arm| Literal::u32_unsuffixed(arm.value));
            let none = self.no_item(union, content, &quote!(sink.no_item()?;));
            let (pattern, rest) = match (content, none) {
                (None, None) => (quote!(Self::#name(which)), quote!(sink.u32(bits))),
                (None, Some(_)) => (
                    quote!(Self::#name(which)),
                    quote!({
                        sink.u32(bits)?;
                        sink.no_item()
                    }),
                ),
                (Some((_, ty)), none) => {
                    let encode = self.encode_content(ty);
                    (
                        quote!(Self::#name(which, content)),
                        quote!({ sink.u32(bits)?; #none #encode }),
                    )
                }
            };
            quote! {
                #pattern => match #bits {
                    #(#taken)|* => Err(xdr::Error::arm_mismatch(sink.offset())),
                    bits => #rest,
                },
            }
        });
        quote!(match self { #(#arms)* #default })
    }

    fn union_to_owned(&self, definition: &TypeDef, union: &Union) -> Option<TokenStream> {
        let borrowed = ident(&definition.rust);
        let value = |ty| {
            let owned = self.owned_value(ty, &quote!(content));
            if self.schema.is_boxed(ty) {
                quote!(xdr::heap::Box::new(#owned))
            } else {
                owned
            }
        };
        self.has_borrowed().then(|| {
            let arms = union.arms.iter().map(|arm| {
                let name = ident(&arm.rust);
                match &arm.content {
                    None => quote!(super::#borrowed::#name => Self::#name,),
                    Some((_, ty)) => {
                        let value = value(ty);
                        quote!(super::#borrowed::#name(content) => Self::#name(#value),)
                    }
                }
            });
            let default = union.default.as_ref().map(|content| {
                let name = default_name(union);
                match content {
                    None => quote!(super::#borrowed::#name(which) => Self::#name(which),),
                    Some((_, ty)) => {
                        let value = value(ty);
                        quote! {
                            super::#borrowed::#name(which, content) => Self::#name(which, #value),
                        }
                    }
                }
            });
            self.conversions(definition, &quote!(match borrowed { #(#arms)* #default }))
        })
    }
}

/// Returns the identifier of a local variable.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}

/// Returns the discriminants of arms.
fn values(arms: &[&Arm]) -> Vec<Literal> {
    arms.iter()
        .map(|arm| Literal::u32_unsuffixed(arm.value))
        .collect()
}

/// Returns the variants of arms.
fn names(arms: &[&Arm]) -> Vec<Ident> {
    arms.iter().map(|arm| ident(&arm.rust)).collect()
}

/// Returns the contents of all arms.
fn contents(union: &Union) -> impl Iterator<Item = &Content> {
    union
        .arms
        .iter()
        .map(|arm| &arm.content)
        .chain(&union.default)
}

/// Returns the default arm's variant: `Default`, unless a case has that name.
pub(super) fn default_name(union: &Union) -> Ident {
    let taken = union.arms.iter().any(|arm| arm.rust == "Default");
    ident(if taken { "DefaultArm" } else { "Default" })
}

/// Returns the error of a discriminant without an arm.
pub(super) fn unknown() -> TokenStream {
    quote!(decoder.error_before(xdr::ErrorKind::InvalidDiscriminant, 4))
}
