//! Checks and lowers overlays: resolves their names, and rejects codes that select two types.
//!
//! `emit::overlays` and `wireshark` rely on the checks here: the code is an `unsigned int`, the
//! data is an opaque of variable length and no item, and both are indexes of fields of the carrier.
//! [`lower`] runs after `items`, which decides what is an item. `clashes` checks the name of the
//! enum.

use crate::check::symbols::SymbolKind;
use crate::check::{Context, OverlayInput};
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
        return invalid(
            context,
            input,
            format!("`{}` is not a struct", input.carrier),
        );
    };
    let Some(rust) = names::identifier(&input.name) else {
        let what = "its name is not a valid Rust type name".to_owned();
        return invalid(context, input, what);
    };
    if let Some(prefix) = input
        .strip
        .iter()
        .find(|prefix| !names::begins_name(prefix))
    {
        let what = format!("`strip`: no name begins with `{prefix}`");
        return invalid(context, input, what);
    }
    if input.cases.is_empty() {
        return invalid(context, input, "it has no cases".to_owned());
    }
    let (code, data) = (
        field(context, input, fields, &input.code),
        field(context, input, fields, &input.data),
    );
    let (code, data) = (code?, data?);
    if !matches!(
        schema.resolve(&fields[code].ty),
        Type::Primitive(Primitive::U32)
    ) {
        return invalid(
            context,
            input,
            format!("the field `{}` is not an `unsigned int`", input.code),
        );
    }
    if fields[data].ty.item_max().is_some() {
        let what = format!("the field `{}` is an item, by `ddp`", input.data);
        return invalid(context, input, what);
    }
    if !matches!(schema.resolve(&fields[data].ty), Type::Opaque(_)) {
        return invalid(
            context,
            input,
            format!("the field `{}` is not an `opaque<>`", input.data),
        );
    }
    let constants: Vec<&str> = input
        .cases
        .iter()
        .map(|(constant, _)| constant.as_str())
        .collect();
    let mut prefixes = vec![names::common_prefix(&constants).to_owned()];
    prefixes.retain(|prefix| !prefix.is_empty());
    prefixes.splice(0..0, input.strip.iter().cloned());
    let mut cases: Vec<OverlayCase> = Vec::new();
    for (constant, content) in &input.cases {
        let case = case(context, module, input, constant, content, &prefixes);
        if let Some(case) = case.filter(|case| !collides(context, module, &cases, case)) {
            cases.push(case);
        }
    }
    Some(OverlayDef {
        rust,
        span: input.span,
        carrier,
        code,
        data,
        empty_is_default: input.empty_is_default,
        cases,
    })
}

fn invalid<T>(context: &mut Context<'_, '_>, input: &OverlayInput, what: String) -> Option<T> {
    let message = format!("the overlay `{}`: {what}", input.name);
    let diagnostic = Diagnostic {
        span: input.span,
        ..Diagnostic::without_span(Code::OverlayInvalid, message)
    };
    context.diagnostics.report(diagnostic);
    None
}

fn ty(
    context: &mut Context<'_, '_>,
    module: usize,
    input: &OverlayInput,
    name: &str,
) -> Option<TypeId> {
    match context
        .symbols
        .lookup(context.inputs, module, name)
        .map(|entry| entry.kind)
    {
        Some(SymbolKind::Type(id)) => Some(id),
        Some(_) => invalid(context, input, format!("`{name}` is not a type")),
        None => invalid(context, input, format!("no type is named `{name}`")),
    }
}

fn field(
    context: &mut Context<'_, '_>,
    input: &OverlayInput,
    fields: &[Field],
    name: &str,
) -> Option<usize> {
    match fields.iter().position(|field| field.name == name) {
        Some(at) => Some(at),
        None => invalid(
            context,
            input,
            format!("`{}` has no field `{name}`", input.carrier),
        ),
    }
}

fn case(
    context: &mut Context<'_, '_>,
    module: usize,
    input: &OverlayInput,
    constant: &str,
    content: &str,
    prefixes: &[String],
) -> Option<OverlayCase> {
    let entry = context.symbols.lookup(context.inputs, module, constant);
    let Some(SymbolKind::Value(value)) = entry.map(|entry| entry.kind) else {
        return invalid(context, input, format!("no constant is named `{constant}`"));
    };
    let number = context.symbols.values.get(value)?;
    let Ok(code) = u32::try_from(number) else {
        return invalid(
            context,
            input,
            format!("the code `{constant}` is {number}, which does not fit in 32 bits"),
        );
    };
    // A document's own type precedes that of a prelude.
    let declared = context.symbols.lookup(context.inputs, module, content);
    let ty = match context.inputs[module].prelude(content) {
        Some(primitive) if declared.is_none() => Type::Primitive(primitive),
        _ => Type::Named(ty(context, module, input, content)?),
    };
    Some(OverlayCase {
        constant: constant.to_owned(),
        rust: names::type_name(constant, prefixes),
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
