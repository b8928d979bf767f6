//! Checks syntax and lowers it to a [`Schema`]: names, constants, types, unions, programs, cycles,
//! overlays. Each check reports what it finds and continues, so that one run shows every defect.
//!
//! [`analyze`] decides the order of the steps. Before `lists` adds types, a type has the same index
//! in the symbol table and in the schema; `graph`, `items` and `unions` rely on that. `sizes` must
//! precede every step that reads layouts. `Compilation::generate` rejects the schema if an error
//! was reported.
//!
//! `compilation` calls `consistency`, `prose` and `unmarked`, which read documents and no schema.

mod c_types;
mod clashes;
pub(crate) mod consistency;
mod entries;
mod evaluate;
pub(crate) mod external;
mod graph;
mod infinite;
mod items;
mod lists;
mod lower;
mod open;
mod overlays;
mod places;
mod programs;
pub(crate) mod prose;
mod rename;
mod reply_items;
mod sizes;
mod strip;
mod stubs;
mod symbols;
mod unions;
pub(crate) mod unmarked;
mod values;
mod visitors;

use crate::ast::Specification;
use crate::diagnostic::Diagnostics;
use crate::ir::{Primitive, Schema, Shapes, Stubs};
use crate::prelude::Prelude;
use crate::source::{SourceMap, Span, TextId};

/// A module to lower, with the syntax of its documents.
#[derive(Debug)]
pub(crate) struct ModuleInput {
    /// The path, such as `["v2", "rtr"]`.
    pub(crate) path: Vec<String>,
    /// The indexes of the modules whose names are visible. All precede this one.
    pub(crate) uses: Vec<usize>,
    /// The shapes to emit.
    pub(crate) shapes: Shapes,
    /// The cargo feature that enables the owned shapes.
    pub(crate) owned_feature: Option<String>,
    /// The cargo feature that enables serde.
    pub(crate) serde_feature: Option<String>,
    /// The prefixes to strip from Rust names.
    pub(crate) strip: Vec<String>,
    /// The span of each of these prefixes in the manifest.
    pub(crate) strip_spans: Vec<Option<Span>>,
    /// The preludes.
    pub(crate) prelude: Vec<Prelude>,
    /// The definitions of each document.
    pub(crate) specifications: Vec<(TextId, Specification)>,
    /// The overlays.
    pub(crate) overlays: Vec<OverlayInput>,
    /// The fields and arms that are items.
    pub(crate) ddp: Vec<Entry>,
    /// The unions that consume the memory for one item each.
    pub(crate) item_results: Vec<Entry>,
    /// The enums whose unknown values are accepted.
    pub(crate) open: Vec<Entry>,
    /// The stubs to emit for each version of a program.
    pub(crate) stubs: Stubs,
    /// The span of `stubs` in the manifest.
    pub(crate) stubs_span: Option<Span>,
    /// The procedures that may be executed twice without harm.
    pub(crate) idempotent: Vec<Entry>,
    /// The items of results whose length an argument limits, each with that argument.
    pub(crate) reply_items: Vec<(Entry, Entry)>,
    /// The names whose Rust type the configuration supplies, each with the path of that type.
    pub(crate) externs: Vec<(Entry, Entry)>,
    /// The XDR names that the configuration renames, each with its Rust name.
    pub(crate) rename: Vec<(Entry, Entry)>,
    /// Whether enums scope their members.
    pub(crate) scoped_enums: bool,
}

/// An entry of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The key in the manifest.
    pub(crate) key: &'static str,
    /// The text, such as `struct.field`.
    pub(crate) text: String,
    /// The span of the text in the manifest.
    pub(crate) span: Option<Span>,
}

impl ModuleInput {
    /// Returns the primitive type that the preludes supply for a name.
    pub(crate) fn prelude(&self, name: &str) -> Option<Primitive> {
        self.prelude.iter().find_map(|prelude| prelude.get(name))
    }
}

/// An overlay as configured.
#[derive(Debug)]
pub(crate) struct OverlayInput {
    /// The enum's name in Rust.
    pub(crate) name: Entry,
    /// The struct that contains both fields.
    pub(crate) carrier: Entry,
    /// The code field.
    pub(crate) code: Entry,
    /// The opaque field.
    pub(crate) data: Entry,
    /// Whether zero bytes stand for the default value.
    pub(crate) empty_is_default: bool,
    /// The name of each code's constant and its content's type.
    pub(crate) cases: Vec<(Entry, Entry)>,
    /// The prefixes to strip from variant names.
    pub(crate) strip: Vec<Entry>,
}

/// The state that all checks share.
pub(crate) struct Context<'a, 'c> {
    pub(crate) sources: &'c SourceMap,
    pub(crate) inputs: &'a [ModuleInput],
    pub(crate) symbols: &'c symbols::SymbolTable<'a>,
    pub(crate) diagnostics: &'c mut Diagnostics,
}

/// Checks all modules and lowers them. The schema is complete only if no error was reported.
pub(crate) fn analyze(
    sources: &SourceMap,
    inputs: &[ModuleInput],
    diagnostics: &mut Diagnostics,
) -> Schema {
    let mut symbols = symbols::SymbolTable::collect(sources, inputs, diagnostics);
    evaluate::evaluate(&mut symbols, inputs, diagnostics);
    let mut context = Context {
        sources,
        inputs,
        symbols: &symbols,
        diagnostics,
    };
    let mut schema = lower::lower(&mut context);
    external::lower(&mut context, &mut schema);
    open::lower(&mut context, &mut schema);
    rename::members(&mut context, &mut schema);
    unions::lower(&mut context, &mut schema);
    programs::lower(&mut context, &mut schema);
    // The steps below follow references between types. They do not terminate on a cycle without an
    // indirection.
    let direct = graph::edges(&schema, |indirect| !indirect);
    let finite = infinite::finite(&schema, &direct);
    if graph::check_cycles(&mut context, &schema, direct, &finite) {
        infinite::break_cycles(&mut schema);
        items::lower(&mut context, &mut schema);
        lists::find(&mut schema);
        sizes::compute(&mut schema, context.diagnostics);
        overlays::lower(&mut context, &mut schema);
        items::lower_results(&mut context, &mut schema);
        rename::others(&mut context, &mut schema);
        strip::check(&mut context, &schema);
        // With the names of fields in Rust.
        stubs::lower(&mut context, &mut schema);
        visitors::mark(&mut schema);
        clashes::check(&schema, context.diagnostics);
    }
    schema
}
