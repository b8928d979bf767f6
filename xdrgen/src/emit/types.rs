//! Types in place: `xdr::Array<'a, Segment>`, and how a borrowed value becomes an owned one.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Emitter, Form, ident, number};
use crate::ir::{ModuleId, Primitive, Shapes, Type, TypeId};

impl Emitter<'_> {
    pub(super) fn primitive(&self, primitive: Primitive) -> TokenStream {
        match primitive {
            Primitive::I32 => quote!(i32),
            Primitive::U32 => quote!(u32),
            Primitive::I64 => quote!(i64),
            Primitive::U64 => quote!(u64),
            Primitive::F32 => quote!(f32),
            Primitive::F64 => quote!(f64),
            Primitive::Quadruple => quote!(xdr::Quadruple),
            Primitive::Bool => quote!(bool),
        }
    }

    /// A type in this emitter's form.
    pub(super) fn ty(&self, ty: &Type) -> TokenStream {
        let borrowed = self.form == Form::Borrowed;
        match ty {
            Type::Primitive(primitive) => self.primitive(*primitive),
            Type::FixedOpaque(length) => array(&quote!(u8), *length),
            Type::Opaque(None) if borrowed => quote!(&'a [u8]),
            Type::Opaque(None) => quote!(xdr::heap::Vec<u8>),
            Type::Opaque(Some(max)) if borrowed => bounded(&quote!(xdr::Opaque), &[quote!('a)], Some(*max)),
            Type::Opaque(Some(max)) => bounded(&quote!(xdr::OpaqueBuf), &[], Some(*max)),
            Type::String(max) if borrowed => bounded(&quote!(xdr::Text), &[quote!('a)], *max),
            Type::String(max) => bounded(&quote!(xdr::TextBuf), &[], *max),
            Type::Fixed(element, length) => array(&self.ty(element), *length),
            Type::Array(element, max) => self.array(element, *max),
            Type::Optional(element) => {
                let boxed = !borrowed && self.schema.is_boxed(element);
                let element = self.ty(element);
                if boxed { quote!(xdr::Option<xdr::heap::Box<#element>>) } else { quote!(xdr::Option<#element>) }
            }
            Type::Recursive(id) => {
                let target = self.path(*id);
                if borrowed {
                    quote!(xdr::Option<xdr::Nested<'a, #target>>)
                } else {
                    quote!(xdr::Option<xdr::heap::Box<#target>>)
                }
            }
            Type::List(element) => {
                let element = self.ty(element);
                if borrowed { quote!(xdr::List<'a, #element>) } else { quote!(xdr::ListBuf<#element>) }
            }
            Type::Named(id) => self.path(*id),
        }
    }

    fn array(&self, element: &Type, max: Option<u32>) -> TokenStream {
        let element = self.ty(element);
        match (self.form, max) {
            (Form::Borrowed, max) => bounded(&quote!(xdr::Array), &[quote!('a), element], max),
            (Form::Owned, None) => quote!(xdr::heap::Vec<#element>),
            (Form::Owned, max) => bounded(&quote!(xdr::ArrayBuf), &[element], max),
        }
    }

    /// What a union's arm holds in this form.
    pub(super) fn content(&self, ty: &Type) -> TokenStream {
        let content = self.ty(ty);
        if self.form == Form::Owned && self.schema.is_boxed(ty) { quote!(xdr::heap::Box<#content>) } else { content }
    }

    /// The expression that decodes a field's value. A box that is there for its size alone counts no level of depth.
    pub(super) fn decode_value(&self, ty: &Type, decoder: &proc_macro2::Ident) -> TokenStream {
        match self.schema.resolve(ty) {
            Type::Optional(element) if self.form == Form::Owned && self.schema.is_boxed(element) => {
                quote!(xdr::heap::boxed(#decoder)?)
            }
            _ => quote!(xdr::Decode::decode(#decoder)?),
        }
    }

    /// The type whose `skip` accepts what the decoded field does.
    pub(super) fn skipped(&self, ty: &Type) -> TokenStream {
        match self.schema.resolve(ty) {
            Type::Optional(element) if self.form == Form::Owned && self.schema.is_boxed(element) => {
                let element = self.ty(element);
                quote!(xdr::Option<#element>)
            }
            _ => self.ty(ty),
        }
    }

    /// The path to a type, from here, with its lifetime.
    pub(super) fn path(&self, id: TypeId) -> TokenStream {
        let definition = self.schema.ty(id);
        let name = ident(&definition.rust);
        let place = self.path_to(definition.module, definition.layout.two_forms);
        let lifetime = (self.form == Form::Borrowed && definition.layout.lifetime).then(|| quote!(<'a>));
        quote!(#place #name #lifetime)
    }

    /// The path to the module in which a type of `module` stands, with its last `::`.
    pub(super) fn path_to(&self, module: ModuleId, two_forms: bool) -> TokenStream {
        let here = self.place(self.module, true);
        let there = self.place(module, two_forms);
        let shared = here.iter().zip(&there).take_while(|(a, b)| a == b).count();
        let up = (0..here.len() - shared + self.below).map(|_| quote!(super::));
        let down = there[shared..].iter().map(|part| ident(part)).map(|part| quote!(#part::));
        quote!(#(#up)* #(#down)*)
    }

    /// The path of the module in which a module's types stand in this form.
    fn place(&self, id: ModuleId, two_forms: bool) -> Vec<String> {
        let module = self.schema.module(id);
        let mut path = module.path.clone();
        if two_forms && self.form == Form::Owned && module.shapes == Shapes::Both {
            path.push("owned".to_owned());
        }
        path
    }

    /// `value`, which is of the borrowed form of `ty`, in the owned form.
    pub(super) fn owning(&self, ty: &Type, value: &TokenStream) -> TokenStream {
        let ty = self.schema.resolve(ty);
        if !self.schema.layout_of(ty).two_forms {
            return value.clone();
        }
        let item = quote!(item);
        match ty {
            Type::Opaque(None) => quote!(xdr::heap::Vec::from(#value)),
            Type::Fixed(element, _) => {
                let element = self.owning(element, &item);
                quote!(#value.map(|item| #element))
            }
            Type::Array(element, None) | Type::List(element) if !self.schema.layout_of(element).two_forms => {
                quote!(#value.iter().collect())
            }
            Type::Array(element, None) | Type::List(element) => {
                let element = self.owning(element, &item);
                quote!(#value.iter().map(|item| #element).collect())
            }
            Type::Array(element, Some(_)) if self.schema.layout_of(element).two_forms => {
                let element = self.owning(element, &item);
                quote!(xdr::ArrayBuf::from_array(#value, |item| #element))
            }
            Type::Optional(element) => {
                let boxed = self.schema.is_boxed(element);
                let element = self.owning(element, &item);
                let element = if boxed { quote!(xdr::heap::Box::new(#element)) } else { element };
                quote!(#value.map(|item| #element))
            }
            Type::Recursive(id) => {
                let element = self.owning(&Type::Named(*id), &item);
                // What was validated once decodes again: `ok` drops nothing.
                quote!(#value.and_then(|item| item.get().ok()).map(|item| xdr::heap::Box::new(#element)))
            }
            _ => quote!(#value.into()),
        }
    }
}

fn array(element: &TokenStream, length: u32) -> TokenStream {
    let length = number(u64::from(length));
    quote!([#element; #length])
}

/// `name<arguments, max>`; no bound is the type's own default.
fn bounded(name: &TokenStream, arguments: &[TokenStream], max: Option<u32>) -> TokenStream {
    let max = max.map(|max| number(u64::from(max))).map(|max| quote!(#max));
    let arguments: Vec<_> = arguments.iter().cloned().chain(max).collect();
    if arguments.is_empty() { name.clone() } else { quote!(#name<#(#arguments),*>) }
}
