//! Checks and lowers overlays: resolves their names, and rejects codes that select two types.
//!
//! `emit::overlays` and `wireshark` rely on the checks here: the code is an `unsigned int`, the
//! data is an opaque of variable length and no item, and both are indexes of fields of the carrier.
//! [`lower`] runs after `items`, which decides what is an item. `clashes` checks the name of the
//! enum.

use crate::check::symbols::SymbolKind;
use crate::check::{Context, Entry, OverlayInput};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Field, OverlayCase, OverlayDef, Primitive, Schema, Type, TypeDefKind, TypeId};
use crate::names;

/// Lowers the overlays of all modules.
pub(crate) fn lower(context: &mut Context<'_, '_>, schema: &mut Schema) {
    for module in 0..context.inputs.len() {
        for input in &context.inputs[module].overlays {
            if let Some(overlay) = overlay(context, schema, module, input) {
                schema.modules[module].overlays.push(overlay);
            }
        }
    }
}

fn overlay(
    context: &mut Context<'_, '_>,
    schema: &Schema,
    module: usize,
    input: &OverlayInput,
) -> Option<OverlayDef> {
    let carrier = ty(context, module, input, &input.carrier)?;
    let TypeDefKind::Struct(fields) = &schema.ty(carrier).kind else {
        let what = format!("`{}` is not a struct", input.carrier.text);
        return invalid(context, input, &input.carrier, &what);
    };
    let Some(rust) = names::identifier(&input.name.text) else {
        let what = "its name is not a valid Rust type name";
        return invalid(context, input, &input.name, what);
    };
    if input.cases.is_empty() {
        return invalid(context, input, &input.name, "it has no cases");
    }
    check_strip(context, input);
    let (code, data) = (
        field(context, input, fields, &input.code),
        field(context, input, fields, &input.data),
    );
    let (code, data) = (code?, data?);
    check_code(context, schema, input, &fields[code])?;
    check_data(context, schema, input, &fields[data])?;
    let cases = cases(context, module, input);
    Some(OverlayDef {
        rust,
        span: input.name.span,
        carrier,
        code,
        data,
        empty_is_default: input.empty_is_default,
        cases,
    })
}

/// Reports the prefixes with which the name of no case begins.
fn check_strip(context: &mut Context<'_, '_>, input: &OverlayInput) {
    let begins = |prefix: &str| {
        let mut cases = input.cases.iter();
        names::begins_name(prefix) && cases.any(|(case, _)| case.text.starts_with(prefix))
    };
    for prefix in input.strip.iter().filter(|prefix| !begins(&prefix.text)) {
        let what = format!("`strip`: no case begins with `{}`", prefix.text);
        invalid::<()>(context, input, prefix, &what);
    }
}

fn check_code(
    context: &mut Context<'_, '_>,
    schema: &Schema,
    input: &OverlayInput,
    code: &Field,
) -> Option<()> {
    if let Type::Primitive(Primitive::U32) = schema.resolve(&code.ty) {
        return Some(());
    }
    let what = format!("the field `{}` is not an `unsigned int`", code.name);
    invalid(context, input, &input.code, &what)
}

fn check_data(
    context: &mut Context<'_, '_>,
    schema: &Schema,
    input: &OverlayInput,
    data: &Field,
) -> Option<()> {
    let what = match schema.resolve(&data.ty) {
        _ if data.ty.item_max().is_some() => "an item, by `ddp`",
        Type::Opaque(_) => return Some(()),
        _ => "not an `opaque<>`",
    };
    let what = format!("the field `{}` is {what}", data.name);
    invalid(context, input, &input.data, &what)
}

fn cases(context: &mut Context<'_, '_>, module: usize, input: &OverlayInput) -> Vec<OverlayCase> {
    let constants = input.cases.iter().map(|(case, _)| case.text.as_str());
    let shared = names::common_prefix(&constants.collect::<Vec<_>>()).to_owned();
    let strip = input.strip.iter().map(|prefix| prefix.text.clone());
    let shared = Some(shared).filter(|prefix| !prefix.is_empty());
    let prefixes: Vec<String> = strip.chain(shared).collect();
    let mut cases: Vec<OverlayCase> = Vec::new();
    for (constant, content) in &input.cases {
        let case = case(context, module, input, (constant, content), &prefixes);
        if let Some(case) = case.filter(|case| !collides(context, module, &cases, case)) {
            cases.push(case);
        }
    }
    cases
}

/// Reports a text of an overlay.
fn invalid<T>(
    context: &mut Context<'_, '_>,
    input: &OverlayInput,
    at: &Entry,
    what: &str,
) -> Option<T> {
    let message = format!("the overlay `{}`: {what}", input.name.text);
    let diagnostic = Diagnostic {
        span: at.span,
        ..Diagnostic::without_span(Code::OverlayInvalid, message)
    };
    context.diagnostics.report(diagnostic);
    None
}

fn ty(
    context: &mut Context<'_, '_>,
    module: usize,
    input: &OverlayInput,
    entry: &Entry,
) -> Option<TypeId> {
    let name = &entry.text;
    let symbol = context.symbols.lookup(context.inputs, module, name);
    let what = match symbol.map(|symbol| symbol.kind) {
        Some(SymbolKind::Type(id)) => return Some(id),
        Some(_) => format!("`{name}` is not a type"),
        None => format!("no type is named `{name}`"),
    };
    invalid(context, input, entry, &what)
}

fn field(
    context: &mut Context<'_, '_>,
    input: &OverlayInput,
    fields: &[Field],
    entry: &Entry,
) -> Option<usize> {
    let found = fields.iter().position(|field| field.name == entry.text);
    if found.is_some() {
        return found;
    }
    let what = format!("`{}` has no field `{}`", input.carrier.text, entry.text);
    invalid(context, input, entry, &what)
}

fn case(
    context: &mut Context<'_, '_>,
    module: usize,
    input: &OverlayInput,
    (constant, content): (&Entry, &Entry),
    prefixes: &[String],
) -> Option<OverlayCase> {
    let name = &constant.text;
    let entry = context.symbols.lookup(context.inputs, module, name);
    let Some(SymbolKind::Value(value)) = entry.map(|entry| entry.kind) else {
        let what = format!("no constant is named `{name}`");
        return invalid(context, input, constant, &what);
    };
    let number = context.symbols.values.get(value)?;
    let Ok(code) = u32::try_from(number) else {
        let what = format!("the code `{name}` is {number}, which does not fit in 32 bits");
        return invalid(context, input, constant, &what);
    };
    // A document's own type precedes that of a prelude.
    let declared = context
        .symbols
        .lookup(context.inputs, module, &content.text);
    let ty = match context.inputs[module].prelude(&content.text) {
        Some(primitive) if declared.is_none() => Type::Primitive(primitive),
        _ => Type::Named(ty(context, module, input, content)?),
    };
    Some(OverlayCase {
        constant: name.clone(),
        rust: names::type_name(name, prefixes),
        code,
        ty,
    })
}

/// Returns true if a previous case has the same code, and reports it at the constant.
fn collides(
    context: &mut Context<'_, '_>,
    module: usize,
    before: &[OverlayCase],
    case: &OverlayCase,
) -> bool {
    let Some(other) = before.iter().find(|other| other.code == case.code) else {
        return false;
    };
    let place = |name: &str| {
        context
            .symbols
            .lookup(context.inputs, module, name)
            .map(|entry| entry.span)
    };
    let message = format!(
        "`{}` and `{}` are both {}",
        other.constant, case.constant, case.code
    );
    let (first, second) = (place(&other.constant), place(&case.constant));
    let mut diagnostic = Diagnostic {
        span: second,
        ..Diagnostic::without_span(Code::OverlayCollision, message)
    };
    if let Some(first) = first {
        diagnostic = diagnostic.note_at(first, "the first is here");
    }
    context
        .diagnostics
        .report(diagnostic.label("the same code as another case"));
    true
}
