//! The emitter turns a [`Schema`] into Rust tokens, reads only the schema, and cannot fail.
//!
//! `render` emits the [`Unit`]s on several threads and joins them in order, so that a unit must not
//! depend on another one. The checks have chosen every Rust name (the fields `rust`), and [`ident`]
//! panics on a text that is no identifier. Generated code names the items of `xdrgen_runtime` as
//! `xdr::`. If generated code needs other items, `RUNTIME_ABI` and the runtime's `ABI` must change
//! together.

mod aliases;
mod client;
mod constants;
mod defaults;
mod docs;
mod enums;
mod methods;
mod overlays;
mod programs;
mod serde;
mod services;
mod structs;
mod types;
mod unions;
mod visitors;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use crate::ir::{Field, ModuleId, Schema, Shapes, Type, TypeDef, TypeDefKind, TypeId};

/// The shape of a type to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Borrowed,
    Owned,
}

/// The context in which items are emitted: a module of the schema and a shape.
#[derive(Clone, Copy)]
pub(crate) struct Emitter<'s> {
    schema: &'s Schema,
    module: ModuleId,
    shape: Shape,
    /// Whether the items are in the file of owned shapes.
    owned_file: bool,
    /// The number of modules between the types' module and the items: procedures are in the module
    /// of their version.
    module_depth: usize,
}

/// A file to emit: the items of a module, or the owned shapes of its types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputFile {
    pub(crate) module: ModuleId,
    /// Whether the file contains the owned shapes of types whose borrowed shapes are in the
    /// module's own file.
    pub(crate) owned: bool,
}

/// A part of a file that is emitted independently.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Start,
    Constant(usize),
    Type(TypeId),
    Overlay(usize),
    Program(usize),
}

/// Returns the files of a schema.
pub(crate) fn files(schema: &Schema) -> Vec<OutputFile> {
    let ids = (0..schema.modules.len()).map(|at| ModuleId(u32::try_from(at).unwrap_or(u32::MAX)));
    let files = |module: ModuleId| {
        let both = schema.module(module).shapes == Shapes::Both;
        let shapes: &[bool] = if both { &[false, true] } else { &[false] };
        shapes
            .iter()
            .map(move |&owned| OutputFile { module, owned })
    };
    ids.flat_map(files).collect()
}

/// Returns the parts of a file, in order.
pub(crate) fn units(schema: &Schema, file: OutputFile) -> Vec<Unit> {
    let module = schema.module(file.module);
    let types = module
        .types
        .iter()
        .filter(|id| !file.owned || schema.ty(**id).layout.shapes_differ);
    let mut units = vec![Unit::Start];
    if !file.owned {
        units.extend((0..module.constants.len()).map(Unit::Constant));
    }
    units.extend(types.map(|id| Unit::Type(*id)));
    units.extend((0..module.overlays.len()).map(Unit::Overlay));
    let programs = (0..module.programs.len())
        .filter(|at| !file.owned || programs::shapes_differ(schema, &module.programs[*at]));
    units.extend(programs.map(Unit::Program));
    units
}

/// Emits a part of a file.
pub(crate) fn unit(schema: &Schema, file: OutputFile, unit: Unit) -> TokenStream {
    let module = schema.module(file.module);
    let shape = if file.owned || module.shapes == Shapes::Owned {
        Shape::Owned
    } else {
        Shape::Borrowed
    };
    let emitter = Emitter {
        schema,
        module: file.module,
        shape,
        owned_file: file.owned,
        module_depth: 0,
    };
    match unit {
        Unit::Start => emitter.start(file.owned),
        Unit::Constant(at) => emitter.constant(&module.constants[at]),
        Unit::Type(id) => emitter.definition(schema.ty(id)),
        Unit::Overlay(at) => emitter.overlay(&module.overlays[at]),
        Unit::Program(at) => emitter.program(&module.programs[at]),
    }
}

impl Emitter<'_> {
    fn definition(&self, definition: &TypeDef) -> TokenStream {
        if let Some(path) = &definition.external {
            return self.external(definition, path);
        }
        match &definition.kind {
            TypeDefKind::Alias(ty) => self.alias(definition, ty),
            TypeDefKind::Enum(body) => self.enumeration(definition, body),
            TypeDefKind::Struct(fields) => self.structure(definition, fields),
            TypeDefKind::Union(union) => self.union(definition, union),
        }
    }

    /// Emits the start of a file. A file of owned shapes re-exports the types that have only one
    /// shape.
    fn start(&self, owned: bool) -> TokenStream {
        if owned {
            let types = self
                .schema
                .module(self.module)
                .types
                .iter()
                .map(|id| self.schema.ty(*id));
            let same = types
                .filter(|definition| !definition.layout.shapes_differ)
                .map(|definition| ident(&definition.rust));
            let runtime = self.owned_file_uses_runtime().then(|| self.runtime());
            return quote! {
                #runtime
                #(#[doc(no_inline)] pub use super::#same;)*
            };
        }
        let abi = proc_macro2::Literal::u32_unsuffixed(crate::RUNTIME_ABI);
        let runtime = self.runtime();
        quote! {
            #runtime
            const _: () = xdr::assert_abi(#abi);
        }
    }

    /// Emits the import of the runtime. A crate with stubs depends on `oncrpc` alone.
    fn runtime(&self) -> TokenStream {
        if self.schema.has_stubs() {
            quote!(
                use ::oncrpc::xdr;
            )
        } else {
            quote!(
                use ::xdrgen_runtime as xdr;
            )
        }
    }

    /// Returns true if a file of owned shapes refers to the runtime: it contains more than aliases
    /// of types in other modules.
    fn owned_file_uses_runtime(&self) -> bool {
        fn named(ty: &Type) -> bool {
            match ty {
                Type::Named(_) => true,
                Type::Fixed(element, _) => named(element),
                _ => false,
            }
        }
        let module = self.schema.module(self.module);
        let mut types = module
            .types
            .iter()
            .map(|id| self.schema.ty(*id))
            .filter(|definition| definition.layout.shapes_differ);
        let own = types
            .any(|definition| !matches!(&definition.kind, TypeDefKind::Alias(ty) if named(ty)));
        own || !module.overlays.is_empty()
    }

    /// Emits a type's documentation. That of an owned shape refers to the borrowed shape, which
    /// shows the XDR.
    fn doc(&self, definition: &TypeDef) -> TokenStream {
        if self.has_borrowed() {
            let position = docs::position(&definition.origin);
            return docs::lines(&[format!(
                "`{}`: {position}. The owned shape of [`super::{}`].",
                definition.name, definition.rust
            )]);
        }
        docs::item(&definition.name, &definition.origin)
    }

    /// Returns true if the type, which is emitted in its owned shape, has a borrowed shape in this
    /// module too.
    fn has_borrowed(&self) -> bool {
        self.shape == Shape::Owned && self.schema.module(self.module).shapes == Shapes::Both
    }
}

/// Returns an identifier, raw if the name has the prefix `r#`.
fn ident(name: &str) -> Ident {
    match name.strip_prefix("r#") {
        Some(raw) => Ident::new_raw(raw, Span::call_site()),
        None => format_ident!("{name}"),
    }
}

/// Returns a name for a local variable that differs from all fields.
fn local(base: &str, fields: &[Field]) -> Ident {
    let mut name = base.to_owned();
    while fields.iter().any(|field| field.rust == name) {
        name.push('_');
    }
    format_ident!("{name}")
}

/// Returns a number literal without a suffix.
fn number(value: u64) -> proc_macro2::Literal {
    proc_macro2::Literal::u64_unsuffixed(value)
}
