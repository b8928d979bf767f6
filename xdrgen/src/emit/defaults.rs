//! Emits `Default`, which returns the zero of a type, for types that have a zero. `Layout::zero`
//! (`layout`) decides which have one.
//!
//! `Default` is derived where the standard library allows it, and implemented otherwise. `structs`,
//! `unions` and `enums` emit the derive, so that exactly one of derive and impl must exist.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Emitter, ident, number};
use crate::ir::{Arm, Discriminant, Field, Type, TypeDef, TypeDefKind, Union};

/// The greatest length of an array that implements `Default`.
const MAX_DEFAULT_LENGTH: u32 = 32;

impl Emitter<'_> {
    /// Returns true if the fields of a struct implement `Default`, so that it can be derived.
    pub(super) fn derives_default(&self, fields: &[Field]) -> bool {
        let mut types = fields.iter().map(|field| &field.ty);
        types.all(|ty| self.layout_zero(ty) && !self.is_long_array(ty))
    }

    fn layout_zero(&self, ty: &Type) -> bool {
        self.schema.layout_of(ty).zero
    }

    /// Returns true for an array for which the standard library does not implement `Default`.
    pub(super) fn is_long_array(&self, ty: &Type) -> bool {
        match self.schema.resolve(ty) {
            Type::FixedOpaque(length) => *length > MAX_DEFAULT_LENGTH,
            Type::Fixed(element, length) => {
                *length > MAX_DEFAULT_LENGTH || self.is_long_array(element)
            }
            _ => false,
        }
    }

    /// Returns the zero of a type.
    fn zero(&self, ty: &Type) -> TokenStream {
        match self.schema.resolve(ty) {
            Type::FixedOpaque(length) if *length > MAX_DEFAULT_LENGTH => {
                let length = number(u64::from(*length));
                quote!([0; #length])
            }
            Type::Fixed(element, _) if self.is_long_array(ty) => {
                let element = self.zero(element);
                quote!(::core::array::from_fn(|_| #element))
            }
            _ => quote!(::core::default::Default::default()),
        }
    }

    /// Emits `Default` of a struct for which it cannot be derived.
    pub(super) fn struct_default(
        &self,
        definition: &TypeDef,
        fields: &[Field],
    ) -> Option<TokenStream> {
        if !definition.layout.zero || self.derives_default(fields) {
            return None;
        }
        let fields = fields.iter().map(|field| {
            let (name, zero) = (ident(&field.rust), self.zero(&field.ty));
            quote!(#name: #zero)
        });
        Some(self.default(definition, &quote!(Self { #(#fields),* })))
    }

    /// Returns true for the arm of a union for which `Default` is derived: a void arm for zero.
    pub(super) fn is_derived_default(definition: &TypeDef, arm: &Arm) -> bool {
        definition.layout.zero && arm.value == 0 && arm.content.is_none()
    }

    /// Emits `Default` of a union for which it cannot be derived: the arm for zero.
    pub(super) fn union_default(
        &self,
        definition: &TypeDef,
        union: &Union,
        default_arm: &proc_macro2::Ident,
    ) -> Option<TokenStream> {
        let is_derived = |arm: &Arm| Self::is_derived_default(definition, arm);
        if !definition.layout.zero || union.arms.iter().any(is_derived) {
            return None;
        }
        let zero = |ty: &Type| {
            let zero = self.zero(ty);
            let boxed = self.is_long_array(ty) && self.content_is_boxed(ty);
            match boxed {
                true => quote!(xdr::heap::Box::new(#zero)),
                false => zero,
            }
        };
        let value = match union.arms.iter().find(|arm| arm.value == 0) {
            Some(arm) => {
                let name = ident(&arm.rust);
                let content = arm.content.as_ref().map(|(_, ty)| zero(ty));
                let content = content.map(|content| quote!((#content)));
                quote!(Self::#name #content)
            }
            None => {
                let content = union.default.clone().flatten();
                let content = content.map(|(_, ty)| zero(&ty)).map(|zero| quote!(, #zero));
                let discriminant = match union.discriminant {
                    Discriminant::I32 | Discriminant::U32 => quote!(0),
                    _ => quote!(::core::default::Default::default()),
                };
                quote!(Self::#default_arm(#discriminant #content))
            }
        };
        Some(self.default(definition, &value))
    }

    fn default(&self, definition: &TypeDef, value: &TokenStream) -> TokenStream {
        let name = ident(&definition.rust);
        let anonymous = self.lifetime(&definition.layout).map(|_| quote!(<'_>));
        quote! {
            impl ::core::default::Default for #name #anonymous {
                fn default() -> Self { #value }
            }
        }
    }

    /// Emits `Default` of an open enum without a member for zero. With such a member it is derived.
    pub(super) fn enum_default(&self, definition: &TypeDef) -> Option<TokenStream> {
        let TypeDefKind::Enum(body) = &definition.kind else {
            return None;
        };
        if !body.open || body.members.iter().any(|member| member.value == 0) {
            return None;
        }
        let unknown = ident(body.unknown());
        Some(self.default(definition, &quote!(Self::#unknown(0))))
    }
}
