//! Turns opaques and strings of variable length into items: those that the configuration lists
//! under `ddp`, and those that a document declares `zcopaque`. Marks the unions under
//! `item_results`.
//!
//! [`lower`] must run before `lists`, and [`lower_results`] after it. `Union::takes_item` requires
//! that each arm has at most one item: the emitted code notes one absent item for each other arm.

use crate::ast::{self, TypeKind};
use crate::check::entries::{self, Part};
use crate::check::symbols::TypeSyntax;
use crate::check::{Context, Entry};
use crate::ir::{Schema, Type, TypeDefKind, TypeId};

/// Lowers the items of all modules. It runs before the search for lists, which copies fields.
pub(crate) fn lower(context: &mut Context<'_, '_>, schema: &mut Schema) {
    for module in 0..context.inputs.len() {
        for entry in &context.inputs[module].ddp {
            if let Some((part, item)) = item(context, schema, module, entry) {
                replace(schema, &part, &item);
            }
        }
    }
    for at in 0..context.symbols.types.len() {
        zero_copy(schema, at, context.symbols.types[at].syntax);
    }
}

/// Marks the unions that the configuration lists under `item_results`. Lists are known by now, so
/// that the items of a type can be counted.
pub(crate) fn lower_results(context: &mut Context<'_, '_>, schema: &mut Schema) {
    for module in 0..context.inputs.len() {
        for entry in &context.inputs[module].item_results {
            item_result(context, schema, module, entry);
        }
    }
}

/// Marks a union as the result of an operation that consumes the memory for one item. Returns
/// `None` if the entry names no such union, which is reported.
fn item_result(
    context: &mut Context<'_, '_>,
    schema: &mut Schema,
    module: usize,
    entry: &Entry,
) -> Option<()> {
    let name = entry.text.as_str();
    let id = entries::owner(context, schema, module, entry, (name, ""))?;
    let most = match &schema.ty(id).kind {
        TypeDefKind::Union(union) if union.takes_item => {
            return entries::invalid(context, entry, &format!("`{name}` is listed twice"));
        }
        TypeDefKind::Union(union) => {
            let contents = union.arms.iter().map(|arm| &arm.content);
            let contents = contents.chain(&union.default).flatten();
            contents.map(|(_, ty)| schema.items_in(ty)).max()
        }
        _ => return entries::invalid(context, entry, &format!("`{name}` is not a union")),
    };
    let what = match most {
        Some(1) => {
            if let TypeDefKind::Union(union) = &mut schema.types[id.0 as usize].kind {
                union.takes_item = true;
            }
            return Some(());
        }
        Some(2..) => format!("an arm of `{name}` has more than one item"),
        _ => format!("no arm of `{name}` has an item that is listed under `ddp`"),
    };
    entries::invalid(context, entry, &what)
}

/// Turns the fields and arms of a type that are declared `zcopaque` into items.
fn zero_copy(schema: &mut Schema, at: usize, syntax: TypeSyntax<'_>) {
    let declarations: Vec<&ast::Declaration> = match syntax {
        TypeSyntax::Struct(body) => body.fields.iter().collect(),
        TypeSyntax::Union(body) => body.fields().collect(),
        _ => return,
    };
    let eligible = declarations
        .into_iter()
        .filter(|declared| matches!(declared.ty.kind, TypeKind::ZeroCopyOpaque));
    for declared in eligible {
        let owner = TypeId(u32::try_from(at).unwrap_or(u32::MAX));
        let part = Part {
            owner,
            name: declared.name.name.clone(),
            ty: Type::Opaque(None),
        };
        change(schema, &part, |ty| {
            if matches!(ty, Type::Opaque(_)) {
                *ty = Type::Item(Box::new(ty.clone()));
            }
        });
    }
}

/// Returns the part that an entry names, and its type as an item.
fn item(
    context: &mut Context<'_, '_>,
    schema: &Schema,
    module: usize,
    entry: &Entry,
) -> Option<(Part, Type)> {
    let part = entries::part(context, schema, module, entry)?;
    match schema.resolve(&part.ty) {
        content @ (Type::Opaque(_) | Type::String(_)) => {
            let item = Type::Item(Box::new(content.clone()));
            Some((part, item))
        }
        Type::Item(_) => {
            let what = format!("`{}` is listed twice", entry.text);
            entries::invalid(context, entry, &what)
        }
        _ => {
            let what = format!(
                "`{}` is not an opaque or a string of variable length",
                entry.text
            );
            entries::invalid(context, entry, &what)
        }
    }
}

/// Replaces the type of a part. The cases of a union that share an arm have one content each.
fn replace(schema: &mut Schema, part: &Part, item: &Type) {
    change(schema, part, |ty| *ty = item.clone());
}

fn change(schema: &mut Schema, part: &Part, change: impl Fn(&mut Type)) {
    match &mut schema.types[part.owner.0 as usize].kind {
        TypeDefKind::Struct(fields) => fields
            .iter_mut()
            .filter(|field| field.name == part.name)
            .for_each(|field| change(&mut field.ty)),
        TypeDefKind::Union(union) => {
            let contents = union.arms.iter_mut().map(|arm| &mut arm.content);
            let contents = contents.chain(&mut union.default).flatten();
            contents
                .filter(|(name, _)| *name == part.name)
                .for_each(|(_, ty)| change(ty));
        }
        TypeDefKind::Alias(_) | TypeDefKind::Enum(_) => {}
    }
}
