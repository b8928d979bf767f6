//! Finds the unions that get visitors: those of which a struct has a sequence. `emit::visitors`
//! emits them, and `clashes` checks their names. [`mark`] runs after `sizes`, because
//! `Schema::element_of` reads layouts.

use crate::ir::{Schema, TypeDefKind, TypeId};

/// Marks the unions of which a struct has a sequence.
pub(crate) fn mark(schema: &mut Schema) {
    let elements: Vec<TypeId> = schema
        .types
        .iter()
        .filter_map(|definition| match &definition.kind {
            TypeDefKind::Struct(fields) => Some(fields),
            _ => None,
        })
        .flatten()
        .filter_map(|field| schema.borrowed_union(schema.element_of(&field.ty)?))
        .collect();
    for id in elements {
        if let TypeDefKind::Union(union) = &mut schema.types[id.0 as usize].kind {
            union.visited = true;
        }
    }
}
