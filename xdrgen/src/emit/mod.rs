//! From [`Schema`] to Rust, as tokens. Emitters see the schema alone, and none of them can fail.

mod aliases;
mod constants;
mod docs;
mod enums;
mod overlays;
mod programs;
mod structs;
mod types;
mod unions;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use crate::ir::{ModuleId, Schema, Shapes, TypeDef, TypeDefKind};

/// Which of a type's two forms is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Borrowed,
    Owned,
}

/// Where items are emitted: a module of the schema, and the form of its types.
#[derive(Clone, Copy)]
pub(crate) struct Emitter<'s> {
    schema: &'s Schema,
    module: ModuleId,
    form: Form,
    /// How many modules deep below the place of the types: procedures stand in their version's.
    below: usize,
}

/// The items of one module.
pub(crate) fn module(schema: &Schema, id: ModuleId) -> TokenStream {
    let module = schema.module(id);
    let form = if module.shapes == Shapes::Owned { Form::Owned } else { Form::Borrowed };
    let emitter = Emitter { schema, module: id, form, below: 0 };
    let abi = xdrgen_abi();
    let constants = module.constants.iter().map(|constant| emitter.constant(constant));
    let types = module.types.iter().map(|ty| emitter.definition(schema.ty(*ty)));
    let overlays = module.overlays.iter().map(|overlay| emitter.overlay(overlay));
    let programs = module.programs.iter().map(|program| emitter.program(program));
    let owned = (module.shapes == Shapes::Both).then(|| emitter.owned_module());
    quote! {
        use ::xdrgen_runtime as xdr;
        const _: () = xdr::assert_abi(#abi);
        #(#constants)*
        #(#types)*
        #(#overlays)*
        #(#programs)*
        #owned
    }
}

/// The version of the contract between generated code and its runtime.
fn xdrgen_abi() -> proc_macro2::Literal {
    proc_macro2::Literal::u32_unsuffixed(crate::RUNTIME_ABI)
}

impl<'s> Emitter<'s> {
    fn definition(&self, definition: &TypeDef) -> TokenStream {
        match &definition.kind {
            TypeDefKind::Alias(ty) => self.alias(definition, ty),
            TypeDefKind::Enum(body) => self.enumeration(definition, body),
            TypeDefKind::Struct(fields) => self.structure(definition, fields),
            TypeDefKind::Union(union) => self.union(definition, union),
        }
    }

    /// The owned forms of what has two, beside the borrowed.
    fn owned_module(self) -> TokenStream {
        let module = self.schema.module(self.module);
        let emitter = Self { form: Form::Owned, ..self };
        let two = |definition: &&TypeDef| definition.layout.two_forms;
        let (both, one): (Vec<_>, Vec<_>) = module.types.iter().map(|id| self.schema.ty(*id)).partition(two);
        let types = both.iter().map(|definition| emitter.definition(definition));
        let overlays = module.overlays.iter().map(|overlay| emitter.overlay(overlay));
        let same = one.iter().map(|definition| ident(&definition.rust));
        let doc = docs::lines(&["The types of the module around this one, in forms that own what they hold."]);
        let feature = module.owned_feature.as_ref().map(|feature| quote!(#[cfg(feature = #feature)]));
        quote! {
            #doc
            #feature
            pub mod owned {
                use ::xdrgen_runtime as xdr;
                #(#[doc(no_inline)] pub use super::#same;)*
                #(#types)*
                #(#overlays)*
            }
        }
    }

    /// Whether this module also has the borrowed form of a type that is now emitted in its owned form.
    fn has_borrowed(&self) -> bool {
        self.form == Form::Owned && self.schema.module(self.module).shapes == Shapes::Both
    }

    /// The same place, seen from the borrowed types.
    fn borrowed(&self) -> Self {
        Self { form: Form::Borrowed, below: self.below + usize::from(self.has_borrowed()), ..*self }
    }
}

/// An identifier, raw where its name says so.
fn ident(name: &str) -> Ident {
    match name.strip_prefix("r#") {
        Some(raw) => Ident::new_raw(raw, Span::call_site()),
        None => format_ident!("{name}"),
    }
}

/// A name for a local variable that none of the fields has.
fn local<'a>(base: &str, mut fields: impl Iterator<Item = &'a str> + Clone) -> Ident {
    let mut name = base.to_owned();
    while fields.clone().any(|field| field == name) {
        name.push('_');
    }
    let _ = fields.next();
    format_ident!("{name}")
}

/// A number without a suffix.
fn number(value: u64) -> proc_macro2::Literal {
    proc_macro2::Literal::u64_unsuffixed(value)
}
