//! Emits the decoding of sequences in one pass: element by element, and arm by arm for unions.
//! `check::visitors` selects the unions, and `names::visitor` names their traits.
//!
//! `Visit::visit` must accept exactly the input that `decode` in `unions` accepts, because the
//! resulting sequence decodes the same bytes again on access.

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::structs::{Locals, Part};
use super::unions::{default_name, unknown};
use super::{Emitter, Shape, docs, ident};
use crate::ir::{Content, Field, TypeDef, TypeId, Union};
use crate::names;

/// The method of a visitor for one variant.
struct Method {
    name: Ident,
    /// The variant, and the pattern of its discriminant.
    variant: Ident,
    pattern: TokenStream,
    doc: String,
    /// What precedes the value: the discriminant of the default arm.
    which: Option<(TokenStream, TokenStream)>,
    content: Content,
}

impl Emitter<'_> {
    /// Emits `decode_each_field` for each sequence of a struct whose elements have no fixed size,
    /// and `visit_field` if they are unions.
    pub(super) fn decode_each(
        &self,
        definition: &TypeDef,
        fields: &[Field],
        parts: &[Part<'_>],
        locals: &Locals,
    ) -> Option<TokenStream> {
        if self.shape == Shape::Owned {
            return None;
        }
        let name = ident(&definition.rust);
        let methods: Vec<TokenStream> = fields
            .iter()
            .filter_map(|field| {
                let each = self.decode_each_of(fields, parts, locals, field)?;
                let visit = self.visit_of(fields, parts, locals, field);
                Some(quote!(#each #visit))
            })
            .collect();
        (!methods.is_empty()).then(|| quote!(impl<'a> #name<'a> { #(#methods)* }))
    }

    fn decode_each_of(
        &self,
        fields: &[Field],
        parts: &[Part<'_>],
        locals: &Locals,
        field: &Field,
    ) -> Option<TokenStream> {
        let Locals { decoder, each, .. } = locals;
        let element = self.ty(self.schema.element_of(&field.ty)?);
        let method = format_ident!("decode_each_{}", unescaped(field));
        let doc = format!(
            " Decodes a value, and passes each element of `{}` to a function as soon as it is \
             decoded: one pass, where [`decode`](xdr::Decode::decode) and an iterator are two. \
             The function also gets the elements before an invalid one.",
            unescaped(field)
        );
        let ty = self.ty(&field.ty);
        let special = quote!(<#ty>::decode_each(#decoder, #each)?);
        let decode = self.decode(fields, parts, locals, Some((field, special)));
        Some(quote! {
            #[doc = #doc]
            ///
            /// # Errors
            /// As [`decode`](xdr::Decode::decode).
            #[inline]
            pub fn #method(
                #decoder: &mut xdr::Decoder<'a>,
                #each: impl ::core::ops::FnMut(&#element),
            ) -> xdr::Result<Self> { #decode }
        })
    }

    fn visit_of(
        &self,
        fields: &[Field],
        parts: &[Part<'_>],
        locals: &Locals,
        field: &Field,
    ) -> Option<TokenStream> {
        let Locals {
            decoder, visitor, ..
        } = locals;
        let union = self
            .schema
            .borrowed_union(self.schema.element_of(&field.ty)?)?;
        let trait_path = self.visitor_path(union);
        let method = format_ident!("visit_{}", unescaped(field));
        let doc = format!(
            " As [`decode_each_{}`](Self::decode_each_{}), with a method for each arm: no element \
             is built, only the content of its arm.",
            unescaped(field),
            unescaped(field)
        );
        let ty = self.ty(&field.ty);
        let special = quote!(<#ty>::visit_each(#decoder, #visitor)?);
        let decode = self.decode(fields, parts, locals, Some((field, special)));
        Some(quote! {
            #[doc = #doc]
            ///
            /// # Errors
            /// As [`decode`](xdr::Decode::decode).
            #[inline]
            pub fn #method(
                #decoder: &mut xdr::Decoder<'a>,
                #visitor: &mut (impl #trait_path + ?::core::marker::Sized),
            ) -> xdr::Result<Self> { #decode }
        })
    }

    /// Returns the path of a union's visitor.
    fn visitor_path(&self, union: TypeId) -> TokenStream {
        let definition = self.schema.ty(union);
        let module = self.path_to(definition.module, definition.layout.shapes_differ);
        let name = ident(&names::visitor(&definition.rust));
        let lifetime = self.lifetime(&definition.layout);
        quote!(#module #name #lifetime)
    }

    /// Emits the visitor of a union of which a struct has a sequence.
    pub(super) fn visitor(&self, definition: &TypeDef, union: &Union) -> Option<TokenStream> {
        if self.shape == Shape::Owned || !union.visited {
            return None;
        }
        let name = ident(&definition.rust);
        let lifetime = self.lifetime(&definition.layout);
        let visitor = ident(&names::visitor(&definition.rust));
        let methods = self.methods(union);
        let handlers = methods
            .iter()
            .map(|method| self.handler(&name, &lifetime, method));
        let arms = methods.iter().map(|method| self.visit_arm(union, method));
        let other = union.default.is_none().then(|| {
            let error = unknown();
            quote!(_ => return Err(#error),)
        });
        let doc = format!(
            " What is done with a [`{}`] that is decoded: a method for each arm, which has its \
             content.",
            definition.rust
        );
        Some(quote! {
            #[doc = #doc]
            pub trait #visitor #lifetime {
                /// Handles a value whose arm's own method is not implemented.
                fn other(&mut self, value: #name #lifetime);
                #(#handlers)*
            }
            impl<'a, __Visitor> xdr::Visit<'a, __Visitor> for #name #lifetime
            where
                __Visitor: #visitor #lifetime + ?::core::marker::Sized,
            {
                #[inline(always)]
                fn visit(
                    decoder: &mut xdr::Decoder<'a>,
                    visitor: &mut __Visitor,
                ) -> xdr::Result<()> {
                    match decoder.u32()? { #(#arms)* #other }
                    Ok(())
                }
            }
        })
    }

    /// Returns the methods of a visitor. Their names differ, whatever the arms' names are.
    fn methods(&self, union: &Union) -> Vec<Method> {
        let mut taken = HashSet::from(["other".to_owned()]);
        let mut name = |variant: &str| {
            let mut name = names::snake(variant.trim_start_matches("r#"));
            while !taken.insert(name.clone()) {
                name = format!("{}_", name.trim_start_matches("r#"));
            }
            ident(&name)
        };
        let mut methods: Vec<Method> = union
            .arms
            .iter()
            .map(|arm| {
                let value = proc_macro2::Literal::u32_unsuffixed(arm.value);
                Method {
                    name: name(&arm.rust),
                    variant: ident(&arm.rust),
                    pattern: quote!(#value),
                    doc: arm.case.clone(),
                    which: None,
                    content: arm.content.clone(),
                }
            })
            .collect();
        if let Some(content) = &union.default {
            let variant = default_name(union);
            methods.push(Method {
                name: name(&variant.to_string()),
                variant,
                pattern: quote!(other),
                doc: "default".to_owned(),
                which: Some((self.discriminant(union), self.default_which(union))),
                content: content.clone(),
            });
        }
        methods
    }

    /// Emits the method of a visitor, which passes the whole value on by default.
    fn handler(
        &self,
        union: &Ident,
        lifetime: &Option<TokenStream>,
        method: &Method,
    ) -> TokenStream {
        let Method { name, variant, .. } = method;
        let doc = docs::part(&method.doc);
        let which = method.which.as_ref().map(|(ty, _)| quote!(which: #ty,));
        let content = method.content.as_ref().map(|(_, ty)| {
            let ty = self.content(ty);
            quote!(content: #ty,)
        });
        let parts = self.method_parts(method);
        quote! {
            #doc
            #[inline]
            fn #name(&mut self, #which #content) {
                self.other(<#union #lifetime>::#variant #parts);
            }
        }
    }

    /// Returns the names of a method's arguments as the parts of its variant.
    fn method_parts(&self, method: &Method) -> Option<TokenStream> {
        let which = method.which.as_ref().map(|_| quote!(which,));
        let content = method.content.as_ref().map(|_| quote!(content));
        (which.is_some() || content.is_some()).then(|| quote!((#which #content)))
    }

    /// Emits the arm of the `match` that decodes a union for a visitor.
    fn visit_arm(&self, union: &Union, method: &Method) -> TokenStream {
        let Method { name, pattern, .. } = method;
        let none = self.no_item(union, &method.content, &quote!(decoder.no_item();));
        let (argument, let_which) = match &method.which {
            Some((_, let_which)) => (Some(quote!(which,)), Some(let_which)),
            None => (None, None),
        };
        let content = method
            .content
            .as_ref()
            .map(|(_, ty)| self.decode_content(ty));
        quote!(#pattern => { #let_which #none visitor.#name(#argument #content); })
    }
}

/// Returns a field's name as a part of another name, which needs no escape.
fn unescaped(field: &Field) -> &str {
    field.rust.trim_start_matches("r#")
}
