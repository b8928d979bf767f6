//! Matches types of the old schema with types of the new one: by names here, and by uses in
//! `compare`, which adds pairs. A type has at most one partner, and a pair is never removed.
//!
//! Types that `check::lists` generates from a list node have the node's span; [`ids`] keeps only
//! the first type of a span, so that reports name each definition once.

use std::collections::{HashMap, HashSet};

use crate::ir::{Content, Discriminant, Schema, Type, TypeDef, TypeDefKind, TypeId};

/// The pairs of types.
#[derive(Debug, Default)]
pub(super) struct Matching {
    new_of: HashMap<TypeId, TypeId>,
    old_of: HashMap<TypeId, TypeId>,
}

impl Matching {
    /// Matches types with equal names: in modules with the same path, or else with names that occur
    /// once in each schema.
    pub(super) fn by_names(old: &Schema, new: &Schema) -> Self {
        let mut matching = Self::default();
        for full in [true, false] {
            let (of_old, of_new) = (unique(old, full), unique(new, full));
            for id in all(old) {
                let key = key(old, id, full);
                if let (Some(Some(old)), Some(Some(new))) = (of_old.get(&key), of_new.get(&key)) {
                    matching.add(*old, *new);
                }
            }
        }
        matching
    }

    /// Adds a pair, unless one of the two has another partner.
    pub(super) fn add(&mut self, old: TypeId, new: TypeId) -> bool {
        let is_free = !self.new_of.contains_key(&old) && !self.old_of.contains_key(&new);
        if is_free {
            self.new_of.insert(old, new);
            self.old_of.insert(new, old);
        }
        is_free
    }

    pub(super) fn new_of(&self, old: TypeId) -> Option<TypeId> {
        self.new_of.get(&old).copied()
    }

    pub(super) fn old_of(&self, new: TypeId) -> Option<TypeId> {
        self.old_of.get(&new).copied()
    }
}

/// Returns the types that the documents of a schema define, in order. Lists and elements that were
/// generated from a list node are not included.
pub(super) fn ids(schema: &Schema) -> impl Iterator<Item = TypeId> {
    let mut places = HashSet::new();
    all(schema).filter(move |id| places.insert(schema.ty(*id).span))
}

fn all(schema: &Schema) -> impl Iterator<Item = TypeId> {
    let modules = schema.modules.iter();
    modules.flat_map(|module| module.types.iter().copied())
}

type Key<'s> = (Option<&'s [String]>, &'s str);

fn key(schema: &Schema, id: TypeId, full: bool) -> Key<'_> {
    let ty = schema.ty(id);
    let path = full.then(|| schema.module(ty.module).path.as_slice());
    (path, &ty.name)
}

/// Returns the types by their keys; `None` for a key that several types have.
fn unique(schema: &Schema, full: bool) -> HashMap<Key<'_>, Option<TypeId>> {
    let mut found = HashMap::new();
    for id in all(schema) {
        let entry = found.entry(key(schema, id, full));
        entry.and_modify(|id| *id = None).or_insert(Some(id));
    }
    found
}

/// Returns `struct`, `union`, `enum` or `typedef`.
pub(super) fn keyword(schema: &Schema, id: TypeId) -> &'static str {
    match schema.ty(id).kind {
        TypeDefKind::Alias(_) => "typedef",
        TypeDefKind::Enum(_) => "enum",
        TypeDefKind::Struct(_) => "struct",
        TypeDefKind::Union(_) => "union",
    }
}

/// Returns a type as reports name it, such as ``struct `READ4args` ``.
pub(super) fn named(schema: &Schema, id: TypeId) -> String {
    format!("{} `{}`", keyword(schema, id), name(schema, id))
}

/// Returns the name of a type. The element of a list has the name of its node.
pub(super) fn name(schema: &Schema, id: TypeId) -> &str {
    let ty = schema.ty(id);
    let node = ty.name.strip_suffix("_item").filter(|_| is_element(ty));
    node.unwrap_or(&ty.name)
}

/// Returns true for an element that was generated from a list node: its definition has another
/// name.
fn is_element(ty: &TypeDef) -> bool {
    !ty.origin
        .xdr
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|word| word == ty.name)
}

/// Returns the types that others refer to: other types, procedures, and overlays.
pub(super) fn parts(schema: &Schema) -> HashSet<TypeId> {
    let mut found = HashSet::new();
    for id in all(schema) {
        match &schema.ty(id).kind {
            TypeDefKind::Alias(target) => add(&mut found, target),
            TypeDefKind::Enum(_) => {}
            TypeDefKind::Struct(fields) => {
                fields.iter().for_each(|field| add(&mut found, &field.ty));
            }
            TypeDefKind::Union(body) => {
                if let Discriminant::Enum(id) = body.discriminant {
                    found.insert(id);
                }
                let arms = body.arms.iter().map(|arm| &arm.content);
                for content in arms.chain(&body.default) {
                    add_content(&mut found, content);
                }
            }
        }
    }
    for module in &schema.modules {
        let versions = module.programs.iter().flat_map(|program| &program.versions);
        for procedure in versions.flat_map(|version| &version.procedures) {
            let types = procedure.arguments.iter().chain(&procedure.reply);
            types.for_each(|ty| add(&mut found, ty));
        }
        let cases = module.overlays.iter().flat_map(|overlay| &overlay.cases);
        cases.for_each(|case| add(&mut found, &case.ty));
    }
    found
}

fn add_content(found: &mut HashSet<TypeId>, content: &Content) {
    if let Some((_, ty)) = content {
        add(found, ty);
    }
}

/// Adds the definition that a type names. It follows as many nested types as the parser allows.
fn add(found: &mut HashSet<TypeId>, ty: &Type) {
    match ty {
        Type::Named(id) | Type::Recursive(id) => {
            found.insert(*id);
        }
        Type::Item(of) | Type::Nested(of) | Type::Optional(of) | Type::List(of) => add(found, of),
        Type::Fixed(of, _) | Type::Array(of, _) => add(found, of),
        Type::Primitive(_) | Type::FixedOpaque(_) | Type::Opaque(_) | Type::String(_) => {}
    }
}
