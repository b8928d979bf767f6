//! Resolves entries of the configuration that name a type, or a part of one (`struct.field` or
//! `union.arm`), and reports invalid entries as `Code::Configuration`, at their place in the
//! manifest. An entry must name a type of its own module. A function that returns `None` has
//! reported the entry.

use crate::check::symbols::SymbolKind;
use crate::check::{Context, Entry};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Content, Schema, Type, TypeDefKind, TypeId, Union};
use crate::source::Span;
use crate::spelling::nearest;

/// A field of a struct, or an arm of a union.
pub(crate) struct Part {
    /// The struct or the union.
    pub(crate) owner: TypeId,
    /// The name in XDR.
    pub(crate) name: String,
    /// The type.
    pub(crate) ty: Type,
}

/// Reports an entry.
pub(crate) fn invalid<T>(context: &mut Context<'_, '_>, entry: &Entry, what: &str) -> Option<T> {
    context.diagnostics.report(diagnostic(entry, what));
    None
}

/// Reports an entry that names an undefined item, and suggests the most similar candidate. `before`
/// is the part of the entry before the name.
pub(crate) fn unknown<'n, T>(
    context: &mut Context<'_, '_>,
    entry: &Entry,
    what: &str,
    (before, name, after): (&str, &str, &str),
    candidates: impl Iterator<Item = &'n str>,
) -> Option<T> {
    let mut found = diagnostic(entry, what);
    if let Some(near) = nearest(name, candidates) {
        let message = format!("`{near}` exists");
        found = match entry.span {
            Some(span) => found.fix(span, format!("{before}{near}{after}"), message),
            None => found.note(message),
        };
    }
    context.diagnostics.report(found);
    None
}

/// Reports a procedure whose results have too many items.
pub(crate) fn too_many(context: &mut Context<'_, '_>, span: Span, what: &str) {
    let found = Diagnostic::new(Code::OutOfRange, span, what);
    context
        .diagnostics
        .report(found.note("list fewer of them under `ddp`"));
}

fn diagnostic(entry: &Entry, what: &str) -> Diagnostic {
    let message = format!("`{}`: {what}", entry.key);
    Diagnostic {
        span: entry.span,
        ..Diagnostic::without_span(Code::Configuration, message)
    }
}

/// Resolves `struct.field` or `union.arm`. Returns `None` if there is no such part in the module,
/// which is reported.
pub(crate) fn part(
    context: &mut Context<'_, '_>,
    schema: &Schema,
    module: usize,
    entry: &Entry,
) -> Option<Part> {
    let text = entry.text.as_str();
    let Some((of, name)) = text.split_once('.') else {
        let what = format!("`{text}` is not of the form `struct.field` or `union.arm`");
        return invalid(context, entry, &what);
    };
    let owner = owner(context, schema, module, entry, (of, &text[of.len()..]))?;
    let parts = match &schema.ty(owner).kind {
        TypeDefKind::Struct(fields) => fields
            .iter()
            .map(|field| (field.name.as_str(), &field.ty))
            .collect(),
        TypeDefKind::Union(union) => arms(union),
        TypeDefKind::Alias(_) | TypeDefKind::Enum(_) => {
            let what = format!("`{of}` is not a struct or a union");
            return invalid(context, entry, &what);
        }
    };
    let Some((_, ty)) = parts.iter().find(|(part, _)| *part == name) else {
        let what = format!("`{of}` has no field or arm `{name}`");
        let (before, names) = (format!("{of}."), parts.iter().map(|(part, _)| *part));
        return unknown(context, entry, &what, (&before, name, ""), names);
    };
    Some(Part {
        owner,
        name: name.to_owned(),
        ty: (*ty).clone(),
    })
}

/// Returns the struct or union that an entry names. `after` is the part of the entry behind the
/// name.
pub(crate) fn owner(
    context: &mut Context<'_, '_>,
    schema: &Schema,
    module: usize,
    entry: &Entry,
    (of, after): (&str, &str),
) -> Option<TypeId> {
    let symbol = context.symbols.lookup(context.inputs, module, of);
    let Some(SymbolKind::Type(id)) = symbol.map(|symbol| symbol.kind) else {
        let names = schema.modules[module].types.iter();
        let names = names.map(|id| schema.ty(*id).name.as_str());
        let what = format!("no type is named `{of}`");
        return unknown(context, entry, &what, ("", of, after), names);
    };
    let of_module = schema.ty(id).module.0 as usize;
    if of_module != module {
        let path = schema.modules[of_module].path.join("::");
        let what = format!("`{of}` is of the module `{path}`, where the entry belongs");
        return invalid(context, entry, &what);
    }
    Some(id)
}

/// Returns the arms of a union that are not void.
fn arms(union: &Union) -> Vec<(&str, &Type)> {
    let contents = union.arms.iter().map(|arm| &arm.content);
    let arm = |content| match content {
        &Some((ref name, ref ty)) => Some((String::as_str(name), ty)),
        None => None,
    };
    let contents: Vec<&Content> = contents.chain(&union.default).collect();
    contents.into_iter().filter_map(arm).collect()
}
