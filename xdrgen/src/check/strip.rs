//! Reports the prefixes under `strip` with which no name of their module begins.
//!
//! The names are those that lose a prefix: the names of types, constants, fields and members.

use std::collections::BTreeSet;

use crate::check::Context;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Schema, TypeDef, TypeDefKind};
use crate::names;

/// Checks the prefixes of all modules.
pub(crate) fn check(context: &mut Context<'_, '_>, schema: &Schema) {
    let inputs = context.inputs;
    for (module, input) in inputs.iter().enumerate() {
        if input.strip.is_empty() {
            continue;
        }
        let names = names_of(schema, module);
        for (prefix, span) in input.strip.iter().zip(&input.strip_spans) {
            if names::begins_name(prefix) && begins_any(&names, prefix) {
                continue;
            }
            let what = "no type, constant, field or member begins with";
            let message = format!("`strip`: {what} `{prefix}`");
            context.diagnostics.report(Diagnostic {
                span: *span,
                ..Diagnostic::without_span(Code::Configuration, message)
            });
        }
    }
}

/// Returns true if one of the names begins with a prefix: the first that is not less than it.
fn begins_any(names: &BTreeSet<&str>, prefix: &str) -> bool {
    let first = names.range(prefix..).next();
    first.is_some_and(|name| name.starts_with(prefix))
}

fn names_of(schema: &Schema, module: usize) -> BTreeSet<&str> {
    let module = &schema.modules[module];
    let constants = module
        .constants
        .iter()
        .map(|constant| constant.name.as_str());
    let types = module.types.iter().map(|id| schema.ty(*id));
    types.flat_map(of_type).chain(constants).collect()
}

/// Returns the names of a type and its parts.
fn of_type(ty: &TypeDef) -> Vec<&str> {
    let mut names = vec![ty.name.as_str()];
    match &ty.kind {
        TypeDefKind::Alias(_) => {}
        TypeDefKind::Struct(fields) => names.extend(fields.iter().map(|field| field.name.as_str())),
        TypeDefKind::Enum(body) => {
            names.extend(body.all_members().map(|member| member.name.as_str()));
        }
        TypeDefKind::Union(union) => {
            names.push(&union.name);
            names.extend(union.arms.iter().map(|arm| arm.case.as_str()));
        }
    }
    names
}
