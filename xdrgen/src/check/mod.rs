//! From syntax to [`Schema`]: names, constants, types, unions, programs, circles, overlays.
//!
//! Each check reports what it finds and goes on, so that one run shows every defect.

mod clashes;
pub(crate) mod consistency;
mod evaluate;
mod graph;
mod lists;
mod lower;
mod overlays;
mod programs;
pub(crate) mod prose;
mod sizes;
pub(crate) mod spelling;
mod symbols;
mod unions;
mod values;

use crate::ast::Specification;
use crate::diagnostic::Diagnostics;
use crate::ir::{Primitive, Schema, Shapes};
use crate::prelude::Prelude;
use crate::source::{Sources, Span, TextId};

/// A module to be, with the syntax of its documents.
#[derive(Debug)]
pub(crate) struct Input {
    /// Its path, as `["v2", "rtr"]`.
    pub(crate) path: Vec<String>,
    /// The modules whose names it sees, all of them before it.
    pub(crate) uses: Vec<usize>,
    /// Which forms are emitted.
    pub(crate) shapes: Shapes,
    /// The cargo feature that the owned forms need.
    pub(crate) owned_feature: Option<String>,
    /// The prefixes that Rust names go without.
    pub(crate) strip: Vec<String>,
    /// The types that need no declaration.
    pub(crate) prelude: Vec<Prelude>,
    /// Its documents' XDR.
    pub(crate) specifications: Vec<(TextId, Specification)>,
    /// The typed contents of its opaque fields.
    pub(crate) overlays: Vec<OverlayInput>,
}

impl Input {
    /// What a name stands for that no document declares.
    pub(crate) fn prelude(&self, name: &str) -> Option<Primitive> {
        self.prelude.iter().find_map(|prelude| prelude.get(name))
    }
}

/// An overlay as it was asked for.
#[derive(Debug)]
pub(crate) struct OverlayInput {
    /// Where, in the manifest.
    pub(crate) span: Option<Span>,
    /// The enum's name in Rust.
    pub(crate) name: String,
    /// The struct with both fields.
    pub(crate) carrier: String,
    /// The field with the code.
    pub(crate) code: String,
    /// The opaque field.
    pub(crate) data: String,
    /// Whether no octets stand for the default value.
    pub(crate) empty_is_default: bool,
    /// Each code's constant and its content's type.
    pub(crate) cases: Vec<(String, String)>,
    /// The prefixes that the variants' names go without.
    pub(crate) strip: Vec<String>,
}

/// What all checks share.
pub(crate) struct Context<'a, 'c> {
    pub(crate) sources: &'c Sources,
    pub(crate) inputs: &'a [Input],
    pub(crate) symbols: &'c symbols::Symbols<'a>,
    pub(crate) diagnostics: &'c mut Diagnostics,
}

/// Checks all modules and lowers them. The schema is complete only if no error was reported.
pub(crate) fn analyze(sources: &Sources, inputs: &[Input], diagnostics: &mut Diagnostics) -> Schema {
    let mut symbols = symbols::Symbols::collect(sources, inputs, diagnostics);
    evaluate::evaluate(&mut symbols, inputs, diagnostics);
    let mut context = Context { sources, inputs, symbols: &symbols, diagnostics };
    let mut schema = lower::lower(&mut context);
    unions::lower(&mut context, &mut schema);
    programs::lower(&mut context, &mut schema);
    // Everything below follows references between types, and would go round in circles through a faulty one.
    if graph::check_circles(&mut context, &schema) {
        lists::find(&mut schema);
        sizes::compute(&mut schema, context.diagnostics);
        overlays::lower(&mut context, &mut schema);
        clashes::check(&schema, context.diagnostics);
    }
    schema
}
