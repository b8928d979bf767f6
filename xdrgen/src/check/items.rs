//! Turns the fields and arms that the configuration lists under `ddp` into items.

use crate::check::entries::{self, Part};
use crate::check::{Context, Entry};
use crate::ir::{Schema, Type, TypeDefKind};

/// Lowers the items of all modules. It precedes the search for lists, which copies fields.
pub(crate) fn lower(context: &mut Context<'_, '_>, schema: &mut Schema) {
    for module in 0..context.inputs.len() {
        for entry in &context.inputs[module].ddp {
            if let Some((part, item)) = item(context, schema, module, entry) {
                replace(schema, &part, &item);
            }
        }
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
    match &mut schema.types[part.owner.0 as usize].kind {
        TypeDefKind::Struct(fields) => fields
            .iter_mut()
            .filter(|field| field.name == part.name)
            .for_each(|field| field.ty = item.clone()),
        TypeDefKind::Union(union) => {
            let contents = union.arms.iter_mut().map(|arm| &mut arm.content);
            let contents = contents.chain(&mut union.default).flatten();
            contents
                .filter(|(name, _)| *name == part.name)
                .for_each(|(_, ty)| *ty = item.clone());
        }
        TypeDefKind::Alias(_) | TypeDefKind::Enum(_) => {}
    }
}
