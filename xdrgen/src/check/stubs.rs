//! Checks and lowers the settings of clients and services: `stubs`, `idempotent`, `reply_items`.
//!
//! `emit::client` and `emit::services` rely on the checks here: a module with stubs has owned types
//! that no feature disables, and procedure 0 of a served program has neither arguments nor results.
//! `reply_items` finds the items.

use crate::check::entries;
use crate::check::{Context, Entry, ModuleInput, reply_items};
use crate::ir::{Procedure, Schema, Shapes};

/// Lowers the stubs of all modules.
pub(crate) fn lower(context: &mut Context<'_, '_>, schema: &mut Schema) {
    for module in 0..context.inputs.len() {
        let input = &context.inputs[module];
        if !input.stubs.client && !input.stubs.server {
            let rules = input.reply_items.iter().map(|(item, _)| item);
            for entry in input.idempotent.iter().chain(rules) {
                let what = format!("`{}` has no effect without `stubs`", entry.text);
                entries::invalid::<()>(context, entry, &what);
            }
            continue;
        }
        schema.modules[module].stubs = input.stubs;
        check_module(context, schema, module, input);
        idempotent(context, schema, module, input);
        reply_items::lower(context, schema, module, &input.reply_items);
    }
}

/// Reports a module for which no stubs can be generated.
fn check_module(
    context: &mut Context<'_, '_>,
    schema: &Schema,
    module: usize,
    input: &ModuleInput,
) {
    let entry = Entry {
        key: "stubs",
        text: String::new(),
        span: input.stubs_span,
    };
    let path = input.path.join("::");
    if input.shapes == Shapes::Borrowed {
        let what = "a client returns owned results, and `shapes` is `borrowed`";
        entries::invalid::<()>(context, &entry, what);
    }
    if let Some(feature) = &input.owned_feature {
        let what =
            format!("a client returns owned results, which are behind the feature `{feature}`");
        entries::invalid::<()>(context, &entry, &what);
    }
    if schema.modules[module].programs.is_empty() {
        let what = format!("the module `{path}` has no program");
        entries::invalid::<()>(context, &entry, &what);
    }
    // The runtime answers procedure 0.
    let null = |procedure: &&Procedure| {
        procedure.number == 0 && !(procedure.arguments.is_empty() && procedure.reply.is_none())
    };
    if input.stubs.server {
        for procedure in procedures(schema, module).filter(null) {
            let name = &procedure.name;
            let what = format!(
                "procedure 0 has neither arguments nor results (RFC 5531, section 12.1), but \
                 `{name}` has"
            );
            entries::invalid::<()>(context, &entry, &what);
        }
    }
}

/// Returns the procedures of a module's programs.
fn procedures(schema: &Schema, module: usize) -> impl Iterator<Item = &Procedure> {
    let programs = schema.modules[module].programs.iter();
    let versions = programs.flat_map(|program| &program.versions);
    versions.flat_map(|version| &version.procedures)
}

/// Marks the procedures that `idempotent` lists.
fn idempotent(
    context: &mut Context<'_, '_>,
    schema: &mut Schema,
    module: usize,
    input: &ModuleInput,
) {
    for entry in &input.idempotent {
        let name = entry.text.as_str();
        if !procedures(schema, module).any(|procedure| procedure.name == name) {
            let what = format!("no procedure is named `{name}`");
            let names = procedures(schema, module).map(|procedure| procedure.name.as_str());
            entries::unknown::<()>(context, entry, &what, ("", name, ""), names);
            continue;
        }
        let programs = schema.modules[module].programs.iter_mut();
        let versions = programs.flat_map(|program| &mut program.versions);
        versions
            .flat_map(|version| &mut version.procedures)
            .filter(|procedure| procedure.name == name)
            .for_each(|procedure| procedure.idempotent = true);
    }
}
