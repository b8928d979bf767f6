//! Turns opaques and strings of variable length into items ([`Type::Item`]): those that the
//! configuration lists under `ddp`, and those that a document declares `zcopaque`. Marks the unions
//! under `item_results` (`Union::takes_item`).
//!
//! Only a field or an arm becomes an item, never a typedef: `lists` and `reply_items` rely on it.
//! An item contains the resolved type, not an alias.
//!
//! [`lower`] must run before `lists`, which copies fields, and while types have the same indexes in
//! the symbol table and in the schema. [`lower_results`] must run after `lists`, because
//! `Schema::items_in` does not terminate on a list node. A marked union must have at most one item
//! in each arm: in an arm without one, the emitted code calls `no_item` once, so that later items
//! keep their places.

use crate::ast::{self, TypeKind};
use crate::check::entries::{self, Part};
use crate::check::symbols::TypeSyntax;
use crate::check::{Context, Entry};
use crate::ir::{Schema, Type, TypeDefKind, TypeId};

/// Lowers the items of all modules. The entries under `ddp` come first: a part that is listed and
/// also declared `zcopaque` is accepted, and would otherwise count as listed twice.
pub(crate) fn lower(context: &mut Context<'_, '_>, schema: &mut Schema) {
    for module in 0..context.inputs.len() {
        for entry in &context.inputs[module].ddp {
            if let Some((part, item)) = listed_item(context, schema, module, entry) {
                change_part(schema, &part, |ty| *ty = item.clone());
            }
        }
    }
    for at in 0..context.symbols.types.len() {
        lower_zero_copy(schema, at, context.symbols.types[at].syntax);
    }
}

/// Marks the unions that the configuration lists under `item_results`.
pub(crate) fn lower_results(context: &mut Context<'_, '_>, schema: &mut Schema) {
    for module in 0..context.inputs.len() {
        for entry in &context.inputs[module].item_results {
            mark_item_result(context, schema, module, entry);
        }
    }
}

/// Marks the union that an entry names: the result of one operation, each value of which consumes
/// the memory for one item. Returns `None` if it cannot be marked, which is reported.
fn mark_item_result(
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

/// Turns the fields and arms of a type that are declared `zcopaque` into items, if their length is
/// variable.
fn lower_zero_copy(schema: &mut Schema, at: usize, syntax: TypeSyntax<'_>) {
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
            // Not used: the declaration determines which parts change.
            ty: Type::Opaque(None),
        };
        change_part(schema, &part, |ty| {
            if matches!(ty, Type::Opaque(_)) {
                *ty = Type::Item(Box::new(ty.clone()));
            }
        });
    }
}

/// Returns the part that an entry under `ddp` names, and its type as an item.
fn listed_item(
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

/// Changes the type of a part, by its name. Several arms may have the name: cases that share a
/// declaration are one arm each.
fn change_part(schema: &mut Schema, part: &Part, change: impl Fn(&mut Type)) {
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
