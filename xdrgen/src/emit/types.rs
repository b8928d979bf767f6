//! Emits types such as `xdr::Array<'a, Segment>`, the expressions that decode, encode and skip a
//! field, and conversions from borrowed to owned values.
//!
//! All of them must agree on which content is boxed (`Schema::is_boxed`, owned shape only), and
//! which is an item or contains one (`DdpArray` in place of `Array`). `skip` must accept exactly
//! the input that `decode` accepts: the runtime's lazy sequences rely on that.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use super::{Emitter, Shape, ident, number};
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

    /// Returns a type in this emitter's shape.
    pub(super) fn ty(&self, ty: &Type) -> TokenStream {
        let borrowed = self.shape == Shape::Borrowed;
        match ty {
            Type::Primitive(primitive) => self.primitive(*primitive),
            Type::FixedOpaque(length) => array(&quote!(u8), *length),
            Type::Opaque(None) if borrowed => quote!(&'a [u8]),
            Type::Opaque(None) => quote!(xdr::heap::Vec<u8>),
            Type::Opaque(Some(max)) if borrowed => {
                bounded(&quote!(xdr::Opaque), &[quote!('a)], Some(*max))
            }
            Type::Opaque(Some(max)) => bounded(&quote!(xdr::OpaqueBuf), &[], Some(*max)),
            Type::String(max) if borrowed => bounded(&quote!(xdr::Text), &[quote!('a)], *max),
            Type::String(max) => bounded(&quote!(xdr::TextBuf), &[], *max),
            Type::Item(_) if borrowed => quote!(xdr::Item<'a>),
            Type::Item(_) => quote!(xdr::Item<'static>),
            Type::Fixed(element, length) => array(&self.ty(element), *length),
            Type::Array(element, max) => self.array(element, *max),
            Type::Optional(element) => {
                let boxed = !borrowed && self.schema.is_boxed(element);
                let element = self.ty(element);
                if boxed {
                    quote!(xdr::Option<xdr::heap::Box<#element>>)
                } else {
                    quote!(xdr::Option<#element>)
                }
            }
            Type::Recursive(id) => {
                let target = self.path(*id);
                if borrowed {
                    let nested = self.sequence("Nested", &Type::Named(*id));
                    quote!(xdr::Option<#nested<'a, #target>>)
                } else {
                    quote!(xdr::Option<xdr::heap::Box<#target>>)
                }
            }
            Type::Nested(content) => {
                let nested = self.sequence("Nested", content);
                let content = self.ty(content);
                if borrowed {
                    quote!(#nested<'a, #content>)
                } else {
                    quote!(xdr::heap::Box<#content>)
                }
            }
            Type::List(element) => {
                let list = self.sequence("List", element);
                let element = self.ty(element);
                if borrowed {
                    quote!(#list<'a, #element>)
                } else {
                    quote!(xdr::ListBuf<#element>)
                }
            }
            Type::Named(id) => self.path(*id),
        }
    }

    /// Returns a type of borrowed sequences, or the one for elements with items: `DdpArray` for
    /// `Array`.
    fn sequence(&self, name: &str, element: &Type) -> TokenStream {
        let name = if self.schema.layout_of(element).items {
            ident(&format!("Ddp{name}"))
        } else {
            ident(name)
        };
        quote!(xdr::#name)
    }

    fn array(&self, element: &Type, max: Option<u32>) -> TokenStream {
        let array = self.sequence("Array", element);
        let element = self.ty(element);
        match (self.shape, max) {
            (Shape::Borrowed, max) => bounded(&array, &[quote!('a), element], max),
            (Shape::Owned, None) => quote!(xdr::heap::Vec<#element>),
            (Shape::Owned, max) => bounded(&quote!(xdr::ArrayBuf), &[element], max),
        }
    }

    /// Returns true if this shape boxes the content of an arm.
    pub(super) fn content_is_boxed(&self, ty: &Type) -> bool {
        self.shape == Shape::Owned && self.schema.is_boxed(ty)
    }

    /// Returns the type of an arm's content in this shape.
    pub(super) fn content(&self, ty: &Type) -> TokenStream {
        let content = self.ty(ty);
        if self.content_is_boxed(ty) {
            quote!(xdr::heap::Box<#content>)
        } else {
            content
        }
    }

    /// Returns the expression that decodes a field. A box that only limits the size of a type does
    /// not count as a level of depth.
    pub(super) fn decode_value(&self, ty: &Type, decoder: &Ident) -> TokenStream {
        if let Some(max) = ty.item_max() {
            let (max, owned) = (bound(max), self.shape == Shape::Owned);
            let to_static = owned.then(|| quote!(.to_static()));
            return quote!(#decoder.item(#max)? #to_static);
        }
        match self.schema.resolve(ty) {
            Type::Optional(element)
                if self.shape == Shape::Owned && self.schema.is_boxed(element) =>
            {
                quote!(xdr::heap::boxed(#decoder)?)
            }
            _ => quote!(xdr::Decode::decode(#decoder)?),
        }
    }

    /// Returns the expression that encodes a part, of which `value` is a reference.
    pub(super) fn encode_value(&self, ty: &Type, value: &TokenStream, sink: &Ident) -> TokenStream {
        match ty.item_max().map(bound) {
            Some(max) => quote!(#sink.item(#value, #max)),
            None => quote!(xdr::Encode::encode(#value, #sink)),
        }
    }

    /// Returns the statements that skip a part and report its name to the trace.
    pub(super) fn skip_part(
        &self,
        name: &str,
        ty: &Type,
        decoder: &Ident,
        trace: &Ident,
    ) -> TokenStream {
        if let Some(max) = ty.item_max().map(bound) {
            return quote! {
                #trace.enter(#name);
                #decoder.skip_item(#max)?;
                #trace.leave();
            };
        }
        let ty = self.skipped(ty);
        quote!(xdr::field::<#ty, __Trace>(#name, #decoder, #trace)?;)
    }

    /// Returns the type whose `skip` accepts the same input as the decoded field.
    fn skipped(&self, ty: &Type) -> TokenStream {
        match self.schema.resolve(ty) {
            Type::Optional(element)
                if self.shape == Shape::Owned && self.schema.is_boxed(element) =>
            {
                let element = self.ty(element);
                quote!(xdr::Option<#element>)
            }
            _ => self.ty(ty),
        }
    }

    /// Returns the relative path of a type, with its lifetime.
    pub(super) fn path(&self, id: TypeId) -> TokenStream {
        let definition = self.schema.ty(id);
        let name = ident(&definition.rust);
        let module = self.path_to(definition.module, definition.layout.shapes_differ);
        let lifetime =
            (self.shape == Shape::Borrowed && definition.layout.lifetime).then(|| quote!(<'a>));
        quote!(#module #name #lifetime)
    }

    /// Returns the relative path of the module that contains a type of `module`, with a final `::`.
    pub(super) fn path_to(&self, module: ModuleId, shapes_differ: bool) -> TokenStream {
        let mut here = self.schema.module(self.module).path.clone();
        if self.owned_file {
            here.push("owned".to_owned());
        }
        let there = self.module_path(module, shapes_differ);
        let shared = here.iter().zip(&there).take_while(|(a, b)| a == b).count();
        let up = (0..here.len() - shared + self.module_depth).map(|_| quote!(super::));
        let down = there[shared..]
            .iter()
            .map(|part| ident(part))
            .map(|part| quote!(#part::));
        quote!(#(#up)* #(#down)*)
    }

    /// Returns the path of the module that contains a module's types in this shape.
    fn module_path(&self, id: ModuleId, shapes_differ: bool) -> Vec<String> {
        let module = self.schema.module(id);
        let mut path = module.path.clone();
        if shapes_differ && self.shape == Shape::Owned && module.shapes == Shapes::Both {
            path.push("owned".to_owned());
        }
        path
    }

    /// Returns the expression that converts `value`, in the borrowed shape of `ty`, to the owned
    /// shape.
    pub(super) fn owned_value(&self, ty: &Type, value: &TokenStream) -> TokenStream {
        let ty = self.schema.resolve(ty);
        if !self.schema.layout_of(ty).shapes_differ {
            return value.clone();
        }
        let item = quote!(item);
        match ty {
            Type::Opaque(None) => quote!(xdr::heap::Vec::from(#value)),
            Type::Item(_) => quote!(#value.to_static()),
            Type::Fixed(element, _) => {
                let element = self.owned_value(element, &item);
                quote!(#value.map(|item| #element))
            }
            Type::Array(element, None) | Type::List(element)
                if !self.schema.layout_of(element).shapes_differ =>
            {
                quote!(#value.iter().collect())
            }
            Type::Array(element, None) | Type::List(element) => {
                let element = self.owned_value(element, &item);
                quote!(#value.iter().map(|item| #element).collect())
            }
            Type::Array(element, Some(_)) if self.schema.layout_of(element).shapes_differ => {
                let from = match self.schema.layout_of(element).items {
                    true => quote!(from_ddp_array),
                    false => quote!(from_array),
                };
                let element = self.owned_value(element, &item);
                quote!(xdr::ArrayBuf::#from(#value, |item| #element))
            }
            Type::Optional(element) => {
                let boxed = self.schema.is_boxed(element);
                let element = self.owned_value(element, &item);
                let element = if boxed {
                    quote!(xdr::heap::Box::new(#element))
                } else {
                    element
                };
                quote!(#value.map(|item| #element))
            }
            Type::Recursive(id) => {
                let element = self.owned_value(&Type::Named(*id), &item);
                // Validated bytes always decode again: `ok` drops no error.
                quote! {
                    #value
                        .and_then(|item| item.get().ok())
                        .map(|item| xdr::heap::Box::new(#element))
                }
            }
            Type::Nested(content) => {
                let nested = match self.schema.layout_of(content).items {
                    true => quote!(ddp_nested),
                    false => quote!(nested),
                };
                let content = self.owned_value(content, &item);
                quote!(xdr::heap::#nested(#value, |item| #content))
            }
            _ => quote!(#value.into()),
        }
    }
}

/// Returns the bound of an item.
fn bound(max: u32) -> TokenStream {
    if max == u32::MAX {
        return quote!(u32::MAX);
    }
    let max = number(u64::from(max));
    quote!(#max)
}

fn array(element: &TokenStream, length: u32) -> TokenStream {
    let length = number(u64::from(length));
    quote!([#element; #length])
}

/// Returns `name<arguments, max>`. Without a bound, the type's default applies.
fn bounded(name: &TokenStream, arguments: &[TokenStream], max: Option<u32>) -> TokenStream {
    let max = max
        .map(|max| number(u64::from(max)))
        .map(|max| quote!(#max));
    let arguments: Vec<_> = arguments.iter().cloned().chain(max).collect();
    if arguments.is_empty() {
        name.clone()
    } else {
        quote!(#name<#(#arguments),*>)
    }
}
