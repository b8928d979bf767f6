//! Reports XDR names that map to the same Rust name. `names` and `rename` decide the Rust names.
//!
//! [`check`] runs last, after all renames. `StubNames` must list every type and method that
//! `emit::client` and `emit::services` define beside those of procedures.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::ir::{ModuleDef, OverlayDef, Schema, TypeDef, TypeDefKind, Version};
use crate::names;
use crate::source::Span;

/// Reports the clashes in all modules, types and programs.
pub(crate) fn check(schema: &Schema, diagnostics: &mut Diagnostics) {
    for module in &schema.modules {
        let visitors = visitors(schema, module);
        let mut types = Names::new("types");
        for id in &module.types {
            let definition = schema.ty(*id);
            types.add(
                &definition.rust,
                &definition.name,
                definition.span,
                diagnostics,
            );
        }
        for (rust, definition) in &visitors {
            types.add(rust, "the visitor", definition.span, diagnostics);
        }
        for overlay in &module.overlays {
            let span = overlay.span.unwrap_or(schema.ty(overlay.carrier).span);
            types.add(&overlay.rust, "the overlay", span, diagnostics);
            cases(overlay, span, diagnostics);
        }
        module
            .types
            .iter()
            .for_each(|id| parts(schema.ty(*id), diagnostics));
        let mut constants = Names::new("constants");
        for constant in &module.constants {
            constants.add(&constant.rust, &constant.name, constant.span, diagnostics);
        }
        programs(schema, module, diagnostics);
    }
}

/// Returns the visitors of a module's unions, with their names in Rust.
fn visitors<'s>(schema: &'s Schema, module: &ModuleDef) -> Vec<(String, &'s TypeDef)> {
    let types = module.types.iter().map(|id| schema.ty(*id));
    types
        .filter(|definition| matches!(&definition.kind, TypeDefKind::Union(union) if union.visited))
        .map(|definition| (names::visitor(&definition.rust), definition))
        .collect()
}

fn parts(definition: &TypeDef, diagnostics: &mut Diagnostics) {
    match &definition.kind {
        TypeDefKind::Alias(_) => {}
        TypeDefKind::Struct(fields) => {
            let mut names = Names::new("fields");
            fields
                .iter()
                .for_each(|field| names.add(&field.rust, &field.name, field.span, diagnostics));
        }
        TypeDefKind::Enum(body) => {
            let mut names = Names::new("members");
            body.all_members()
                .for_each(|member| names.add(&member.rust, &member.name, member.span, diagnostics));
            if body.open {
                let what = "the variant for other values";
                names.add(body.unknown(), what, definition.span, diagnostics);
            }
        }
        TypeDefKind::Union(union) => {
            let mut names = Names::new("arms");
            union
                .arms
                .iter()
                .for_each(|arm| names.add(&arm.rust, &arm.case, arm.span, diagnostics));
        }
    }
}

/// Reports cases of an overlay with the same variant. One variant has the other contents.
fn cases(overlay: &OverlayDef, span: Span, diagnostics: &mut Diagnostics) {
    let mut names = Names::new("cases of an overlay");
    names.add("Unknown", "other contents", span, diagnostics);
    if overlay.empty_is_default {
        names.add("Default", "no content", span, diagnostics);
    }
    for case in &overlay.cases {
        names.add(&case.rust, &case.constant, span, diagnostics);
    }
}

fn programs(schema: &Schema, module: &ModuleDef, diagnostics: &mut Diagnostics) {
    let mut names = Names::new("programs");
    for program in &module.programs {
        names.add(&program.rust, &program.name, program.span, diagnostics);
        let mut names = Names::new("versions");
        for version in &program.versions {
            names.add(&version.rust, &version.name, version.span, diagnostics);
        }
    }
    for version in module.programs.iter().flat_map(|program| &program.versions) {
        let mut names = Names::new("procedures");
        for procedure in &version.procedures {
            names.add(
                &procedure.rust,
                &procedure.name,
                procedure.span,
                diagnostics,
            );
        }
        if module.stubs.any() {
            stubs(schema, module, version, diagnostics);
        }
    }
}

/// Reports procedures whose types or methods have names that the stubs use.
fn stubs(schema: &Schema, module: &ModuleDef, version: &Version, diagnostics: &mut Diagnostics) {
    let mut methods = Names::new("procedures");
    let defined = StubNames::new(schema, module, version);
    for procedure in &version.procedures {
        let (name, span) = (&procedure.name, procedure.span);
        methods.add(&procedure.method, name, span, diagnostics);
        let taken = match defined.types.contains(procedure.rust.as_str()) {
            true => Some(&procedure.rust),
            false => defined
                .methods
                .contains(procedure.method.as_str())
                .then_some(&procedure.method),
        };
        if let Some(rust) = taken {
            let message =
                format!("the procedure `{name}` is `{rust}` in Rust, which the stubs define");
            diagnostics.report(Diagnostic::new(Code::NameClash, span, message));
        }
    }
}

/// The names that the stubs of a version define.
struct StubNames {
    types: HashSet<Cow<'static, str>>,
    methods: HashSet<&'static str>,
}

impl StubNames {
    fn new(schema: &Schema, module: &ModuleDef, version: &Version) -> Self {
        const SERVER: [&str; 6] = ["LocalServer", "LocalService", "S", "Server", "Service", "T"];
        let (mut types, mut methods) = (HashSet::new(), HashSet::new());
        if module.stubs.client {
            types.extend(["Client", "T"].map(Cow::Borrowed));
            methods.extend(["new", "transport", "with_options"]);
        }
        if module.stubs.server {
            types.extend(SERVER.map(Cow::Borrowed));
            let results = version
                .procedures
                .iter()
                .filter_map(|procedure| schema.results_type(module, procedure));
            types.extend(results.map(Cow::Owned));
            methods.insert("authorize");
        }
        Self { types, methods }
    }
}

struct Names<'a> {
    what: &'static str,
    seen: HashMap<&'a str, (&'a str, Span)>,
}

impl<'a> Names<'a> {
    fn new(what: &'static str) -> Self {
        Self {
            what,
            seen: HashMap::new(),
        }
    }

    fn add(&mut self, rust: &'a str, name: &'a str, span: Span, diagnostics: &mut Diagnostics) {
        match self.seen.get(rust) {
            // A repeated XDR name is a defect of its own, which other checks report.
            Some((first, at)) if *first != name => {
                let message = format!(
                    "the {} `{first}` and `{name}` are both `{rust}` in Rust",
                    self.what
                );
                let diagnostic = Diagnostic::new(Code::NameClash, span, message)
                    .note_at(*at, "the first is here")
                    .note(
                        "strip other prefixes, or name one of them under `rename` in the manifest",
                    );
                diagnostics.report(diagnostic);
            }
            Some(_) => {}
            None => {
                self.seen.insert(rust, (name, span));
            }
        }
    }
}
