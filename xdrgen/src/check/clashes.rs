//! XDR names that become one Rust name.

use std::collections::HashMap;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::ir::{Module, Schema, TypeDef, TypeDefKind};
use crate::source::Span;

/// Reports the clashes of all modules, types and programs.
pub(crate) fn check(schema: &Schema, diagnostics: &mut Diagnostics) {
    for module in &schema.modules {
        let mut types = Names::new("types");
        for id in &module.types {
            let definition = schema.ty(*id);
            types.add(&definition.rust, &definition.name, definition.span, diagnostics);
        }
        for overlay in &module.overlays {
            let span = overlay.span.unwrap_or(schema.ty(overlay.carrier).span);
            types.add(&overlay.rust, "the overlay", span, diagnostics);
        }
        module.types.iter().for_each(|id| parts(schema.ty(*id), diagnostics));
        let mut constants = Names::new("constants");
        for constant in &module.constants {
            constants.add(&constant.rust, &constant.name, constant.span, diagnostics);
        }
        programs(module, diagnostics);
    }
}

fn parts(definition: &TypeDef, diagnostics: &mut Diagnostics) {
    match &definition.kind {
        TypeDefKind::Alias(_) => {}
        TypeDefKind::Struct(fields) => {
            let mut names = Names::new("fields");
            fields.iter().for_each(|field| names.add(&field.rust, &field.name, field.span, diagnostics));
        }
        TypeDefKind::Enum(body) => {
            let mut names = Names::new("members");
            body.members.iter().for_each(|member| names.add(&member.rust, &member.name, member.span, diagnostics));
        }
        TypeDefKind::Union(union) => {
            let mut names = Names::new("arms");
            union.arms.iter().for_each(|arm| names.add(&arm.rust, &arm.case, arm.span, diagnostics));
        }
    }
}

fn programs(module: &Module, diagnostics: &mut Diagnostics) {
    for version in module.programs.iter().flat_map(|program| &program.versions) {
        let mut names = Names::new("procedures");
        for procedure in &version.procedures {
            names.add(&procedure.rust, &procedure.name, procedure.span, diagnostics);
        }
    }
}

struct Names<'a> {
    what: &'static str,
    seen: HashMap<&'a str, (&'a str, Span)>,
}

impl<'a> Names<'a> {
    fn new(what: &'static str) -> Self {
        Self { what, seen: HashMap::new() }
    }

    fn add(&mut self, rust: &'a str, name: &'a str, span: Span, diagnostics: &mut Diagnostics) {
        match self.seen.get(rust) {
            // The same XDR name twice is another defect, reported as such.
            Some((first, at)) if *first != name => {
                let message = format!("the {} `{first}` and `{name}` are both `{rust}` in Rust", self.what);
                let diagnostic = Diagnostic::new(Code::NameClash, span, message)
                    .note_at(*at, "the first is here")
                    .note("other prefixes to strip, or a rename in the XDR, would tell them apart");
                diagnostics.report(diagnostic);
            }
            Some(_) => {}
            None => {
                self.seen.insert(rust, (name, span));
            }
        }
    }
}
