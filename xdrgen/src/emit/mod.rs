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

use crate::ir::{Field, ModuleId, Schema, Shapes, Type, TypeDef, TypeDefKind, TypeId};

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

/// A file to be: the items of a module, or the owned forms beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    pub(crate) module: ModuleId,
    /// Whether it has the owned forms of types whose borrowed forms are in the module's own file.
    pub(crate) twins: bool,
}

/// A part of a file that can be emitted by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Start,
    Constant(usize),
    Type(TypeId),
    Overlay(usize),
    Program(usize),
}

/// The files of a schema.
pub(crate) fn files(schema: &Schema) -> Vec<File> {
    let ids = (0..schema.modules.len()).map(|at| ModuleId(u32::try_from(at).unwrap_or(u32::MAX)));
    let files = |module: ModuleId| {
        let both = schema.module(module).shapes == Shapes::Both;
        let forms: &[bool] = if both { &[false, true] } else { &[false] };
        forms.iter().map(move |&twins| File { module, twins })
    };
    ids.flat_map(files).collect()
}

/// The parts of a file, in their order.
pub(crate) fn units(schema: &Schema, file: File) -> Vec<Unit> {
    let module = schema.module(file.module);
    let types = module.types.iter().filter(|id| !file.twins || schema.ty(**id).layout.two_forms);
    let mut units = vec![Unit::Start];
    if !file.twins {
        units.extend((0..module.constants.len()).map(Unit::Constant));
    }
    units.extend(types.map(|id| Unit::Type(*id)));
    units.extend((0..module.overlays.len()).map(Unit::Overlay));
    if !file.twins {
        units.extend((0..module.programs.len()).map(Unit::Program));
    }
    units
}

/// A part of a file.
pub(crate) fn unit(schema: &Schema, file: File, unit: Unit) -> TokenStream {
    let module = schema.module(file.module);
    let form = if file.twins || module.shapes == Shapes::Owned { Form::Owned } else { Form::Borrowed };
    let emitter = Emitter { schema, module: file.module, form, below: 0 };
    match unit {
        Unit::Start => emitter.start(file.twins),
        Unit::Constant(at) => emitter.constant(&module.constants[at]),
        Unit::Type(id) => emitter.definition(schema.ty(id)),
        Unit::Overlay(at) => emitter.overlay(&module.overlays[at]),
        Unit::Program(at) => emitter.program(&module.programs[at]),
    }
}

impl Emitter<'_> {
    fn definition(&self, definition: &TypeDef) -> TokenStream {
        match &definition.kind {
            TypeDefKind::Alias(ty) => self.alias(definition, ty),
            TypeDefKind::Enum(body) => self.enumeration(definition, body),
            TypeDefKind::Struct(fields) => self.structure(definition, fields),
            TypeDefKind::Union(union) => self.union(definition, union),
        }
    }

    /// What a file begins with; one of owned forms has the types that have one form only, too.
    fn start(&self, twins: bool) -> TokenStream {
        if twins {
            let types = self.schema.module(self.module).types.iter().map(|id| self.schema.ty(*id));
            let same =
                types.filter(|definition| !definition.layout.two_forms).map(|definition| ident(&definition.rust));
            let runtime = self.twins_name_the_runtime().then(|| quote!(::xdrgen_runtime as xdr)).into_iter();
            return quote! {
                #(use #runtime;)*
                #(#[doc(no_inline)] pub use super::#same;)*
            };
        }
        let abi = proc_macro2::Literal::u32_unsuffixed(crate::RUNTIME_ABI);
        quote! {
            use ::xdrgen_runtime as xdr;
            const _: () = xdr::assert_abi(#abi);
        }
    }

    /// Whether a file of owned forms has more than other names for types of elsewhere.
    fn twins_name_the_runtime(&self) -> bool {
        fn named(ty: &Type) -> bool {
            match ty {
                Type::Named(_) => true,
                Type::Fixed(element, _) => named(element),
                _ => false,
            }
        }
        let module = self.schema.module(self.module);
        let mut owned =
            module.types.iter().map(|id| self.schema.ty(*id)).filter(|definition| definition.layout.two_forms);
        let own = owned.any(|definition| !matches!(&definition.kind, TypeDefKind::Alias(ty) if named(ty)));
        own || !module.overlays.is_empty()
    }

    /// A type's documentation: that of an owned form points to the borrowed one, which shows the XDR.
    fn doc(&self, definition: &TypeDef) -> TokenStream {
        if self.has_borrowed() {
            let place = docs::place(&definition.origin);
            return docs::lines(&[format!(
                "`{}`: {place}. Owns what [`super::{}`] borrows.",
                definition.name, definition.rust
            )]);
        }
        docs::item(&definition.name, &definition.origin)
    }

    /// Whether this module also has the borrowed form of a type that is now emitted in its owned form.
    fn has_borrowed(&self) -> bool {
        self.form == Form::Owned && self.schema.module(self.module).shapes == Shapes::Both
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
fn local(base: &str, fields: &[Field]) -> Ident {
    let mut name = base.to_owned();
    while fields.iter().any(|field| field.rust == name) {
        name.push('_');
    }
    format_ident!("{name}")
}

/// A number without a suffix.
fn number(value: u64) -> proc_macro2::Literal {
    proc_macro2::Literal::u64_unsuffixed(value)
}
