//! Turns linked lists into sequences, and marks recursive types.
//!
//! RFC 4506, section 4.19, writes a list as a struct whose last field is an optional of the struct
//! itself. Pointers to such a struct become [`Type::List`] of an element: the struct without its
//! last field. An optional in any other cycle becomes [`Type::Recursive`]. (Arms in a cycle are
//! [`Type::Nested`] before, see `check::infinite`.)
//!
//! [`find`] runs after `items`, because elements copy fields, and before `sizes`, which reads
//! `Layout::recursive`. It rewrites the arguments and replies of procedures as well. Afterwards an
//! optional is in no cycle: `Schema::items_in` and `reply_items` follow optionals without a limit.
//! The types that [`find`] adds are not in the symbol table. Their names in Rust, `NodeItem` and
//! `NodeItems`, are documented in the guide.

use std::collections::HashSet;

use crate::check::graph;
use crate::ir::{Field, Layout, ModuleId, Schema, Type, TypeDef, TypeDefKind, TypeId};

/// Rewrites all references to list nodes and to recursive types.
pub(crate) fn find(schema: &mut Schema) {
    let mut elements: Vec<Option<Type>> = (0..schema.types.len())
        .map(|at| element(schema, at))
        .collect();
    keep_recursive_elements(schema, &mut elements);
    let mut elements = split_nodes(schema, elements);
    name_elements(schema, &mut elements);
    rewrite_all(schema, |ty| as_list(ty, &elements));
    let whole = graph::edges(schema, |_| true);
    let mut group_of = vec![usize::MAX; schema.types.len()];
    for (number, group) in graph::components(&whole).into_iter().enumerate() {
        let cycle = graph::is_cycle(&group, &whole);
        for at in group {
            group_of[at] = number;
            schema.types[at].layout.recursive = cycle;
        }
    }
    mark_recursive(schema, &group_of);
}

/// Returns the element type of a list node: the fields before the last, if the last is an optional
/// of the struct itself. A single field needs no struct around it, unless it is an item: only a
/// field can have that type.
fn element(schema: &Schema, at: usize) -> Option<Type> {
    let TypeDefKind::Struct(fields) = &schema.types[at].kind else {
        return None;
    };
    let (last, before) = fields.split_last()?;
    let Type::Optional(target) = schema.resolve(&last.ty) else {
        return None;
    };
    if schema.resolve(target) != &named(at) || before.is_empty() {
        return None;
    }
    match before {
        [only] if only.ty.item_max().is_none() => Some(only.ty.clone()),
        _ => Some(named(at)),
    }
}

/// Assigns to each typedef of a list node the node's element. Each chain of typedefs is followed
/// once, so that the cost is linear.
fn name_elements(schema: &Schema, elements: &mut [Option<Type>]) {
    let mut known = vec![false; elements.len()];
    for start in 0..elements.len() {
        let mut chain = Vec::new();
        let mut at = start;
        while !known[at] {
            known[at] = true;
            let TypeDefKind::Alias(Type::Named(next)) = &schema.types[at].kind else {
                break;
            };
            chain.push(at);
            at = next.0 as usize;
        }
        let element = elements[at].clone();
        chain
            .into_iter()
            .for_each(|alias| elements[alias].clone_from(&element));
    }
}

/// The maximum number of nested lists without a named type in between.
const MAX_NESTING: usize = 16;

/// Keeps the struct around the single field of a node if the element would be infinite without it,
/// because the field refers to its own list through typedefs or other such lists, or if the element
/// would be nested too deep.
fn keep_recursive_elements(schema: &Schema, elements: &mut [Option<Type>]) {
    let edges = |(definition, element): (&TypeDef, &Option<Type>)| -> Vec<usize> {
        let ty = match &definition.kind {
            TypeDefKind::Alias(ty) => Some(ty),
            _ => element.as_ref(),
        };
        ty.and_then(referenced_type).into_iter().collect()
    };
    let edges: Vec<Vec<usize>> = schema.types.iter().zip(&*elements).map(edges).collect();
    let mut depths = vec![0; edges.len()];
    // Each component follows those that it refers to.
    for group in graph::components(&edges) {
        let cycle = graph::is_cycle(&group, &edges);
        for at in group {
            let below = edges[at].first().map_or(0, |next| depths[*next]);
            depths[at] = match &mut elements[at] {
                None => below,
                Some(element) if cycle || below == MAX_NESTING => {
                    *element = named(at);
                    0
                }
                Some(_) => below + 1,
            };
        }
    }
}

/// Returns the named type that a type is built from.
fn referenced_type(mut ty: &Type) -> Option<usize> {
    loop {
        match ty {
            Type::Fixed(element, _)
            | Type::Array(element, _)
            | Type::Optional(element)
            | Type::Nested(element)
            | Type::List(element) => {
                ty = element;
            }
            Type::Named(id) | Type::Recursive(id) => return Some(id.0 as usize),
            _ => return None,
        }
    }
}

/// Returns the reference to a definition.
fn named(at: usize) -> Type {
    Type::Named(TypeId(u32::try_from(at).unwrap_or(u32::MAX)))
}

/// Splits each list node from its list. The struct keeps its name and its link; an element of
/// several fields becomes a type of its own, and so does the list.
///
/// Therefore a struct name stands for the same bytes, whether or not the document uses it outside
/// of the list.
fn split_nodes(schema: &mut Schema, elements: Vec<Option<Type>>) -> Vec<Option<Type>> {
    let mut taken = DeclaredNames::of(schema);
    let split = |(at, element): (usize, Option<Type>)| {
        let mut element = element?;
        if element == named(at) {
            element = Type::Named(add_element(schema, at));
        }
        add_list(schema, at, &mut taken);
        Some(element)
    };
    elements.into_iter().enumerate().map(split).collect()
}

/// Names that the documents declare, which generated names must not repeat.
struct DeclaredNames {
    /// The Rust names of the types of each module.
    names: HashSet<(ModuleId, String)>,
    /// The list nodes to which a typedef of a pointer refers.
    nodes: HashSet<TypeId>,
}

impl DeclaredNames {
    fn of(schema: &Schema) -> Self {
        let names = schema.types.iter().map(|ty| (ty.module, ty.rust.clone()));
        let pointer = |ty: &TypeDef| match &ty.kind {
            TypeDefKind::Alias(Type::Optional(target)) => match **target {
                Type::Named(id) => Some(id),
                _ => None,
            },
            _ => None,
        };
        Self {
            names: names.collect(),
            nodes: schema.types.iter().filter_map(pointer).collect(),
        }
    }
}

/// Names the list of a node, unless a typedef of the document is its name, or the document uses the
/// name for another type.
fn add_list(schema: &mut Schema, at: usize, taken: &mut DeclaredNames) {
    let node = &schema.types[at];
    let rust = format!("{}Items", node.rust);
    let id = TypeId(u32::try_from(at).unwrap_or(u32::MAX));
    if taken.nodes.contains(&id) || !taken.names.insert((node.module, rust.clone())) {
        return;
    }
    let list = TypeDef {
        name: format!("*{}", node.name),
        rust,
        kind: TypeDefKind::Alias(Type::Optional(Box::new(named(at)))),
        layout: Layout::default(),
        ..node.clone()
    };
    add(schema, list);
}

/// Adds a copy of a node without its link.
fn add_element(schema: &mut Schema, at: usize) -> TypeId {
    let node = &schema.types[at];
    let fields: Vec<Field> = match &node.kind {
        TypeDefKind::Struct(fields) => fields
            .iter()
            .take(fields.len().saturating_sub(1))
            .cloned()
            .collect(),
        _ => Vec::new(),
    };
    let item = TypeDef {
        name: format!("{}_item", node.name),
        rust: format!("{}Item", node.rust),
        kind: TypeDefKind::Struct(fields),
        layout: Layout::default(),
        ..node.clone()
    };
    add(schema, item)
}

fn add(schema: &mut Schema, definition: TypeDef) -> TypeId {
    let module = definition.module.0 as usize;
    let id = TypeId(u32::try_from(schema.types.len()).unwrap_or(u32::MAX));
    schema.types.push(definition);
    schema.modules[module].types.push(id);
    id
}

/// Turns an optional of a list node into the list of the node's elements.
fn as_list(ty: &mut Type, elements: &[Option<Type>]) {
    if let Type::Optional(target) = ty
        && let Type::Named(id) = &**target
        && let Some(Some(element)) = elements.get(id.0 as usize)
    {
        *ty = Type::List(Box::new(element.clone()));
    }
}

/// Turns optionals of a type in the same cycle into recursive references.
fn mark_recursive(schema: &mut Schema, group_of: &[usize]) {
    let recursive: Vec<bool> = schema.types.iter().map(|ty| ty.layout.recursive).collect();
    for at in 0..schema.types.len() {
        if recursive[at] {
            let own = group_of[at];
            let mut kind =
                std::mem::replace(&mut schema.types[at].kind, TypeDefKind::Struct(Vec::new()));
            rewrite(&mut kind, &mut |ty| {
                if let Type::Optional(target) = ty
                    && let Type::Named(id) = **target
                    && group_of[id.0 as usize] == own
                {
                    *ty = Type::Recursive(id);
                }
            });
            schema.types[at].kind = kind;
        }
    }
}

fn rewrite_all(schema: &mut Schema, mut change: impl FnMut(&mut Type)) {
    for definition in &mut schema.types {
        rewrite(&mut definition.kind, &mut change);
    }
    let programs = schema
        .modules
        .iter_mut()
        .flat_map(|module| &mut module.programs);
    for procedure in programs
        .flat_map(|program| &mut program.versions)
        .flat_map(|version| &mut version.procedures)
    {
        procedure
            .arguments
            .iter_mut()
            .chain(&mut procedure.reply)
            .for_each(|ty| rewrite_type(ty, &mut change));
    }
}

fn rewrite(kind: &mut TypeDefKind, change: &mut impl FnMut(&mut Type)) {
    match kind {
        TypeDefKind::Alias(ty) => rewrite_type(ty, change),
        TypeDefKind::Enum(_) => {}
        TypeDefKind::Struct(fields) => fields
            .iter_mut()
            .for_each(|field| rewrite_type(&mut field.ty, change)),
        TypeDefKind::Union(union) => {
            let contents = union
                .arms
                .iter_mut()
                .map(|arm| &mut arm.content)
                .chain(&mut union.default);
            contents
                .flatten()
                .for_each(|(_, ty)| rewrite_type(ty, change));
        }
    }
}

fn rewrite_type(ty: &mut Type, change: &mut impl FnMut(&mut Type)) {
    change(ty);
    match ty {
        Type::Fixed(element, _)
        | Type::Array(element, _)
        | Type::Optional(element)
        | Type::Nested(element)
        | Type::List(element) => {
            rewrite_type(element, change);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::TypeDefKind;
    use crate::{Config, Module};

    /// Returns the names of the remaining structs, and the number of `pub type` items in the
    /// generated file.
    fn generated(xdr: &str) -> (Vec<String>, usize) {
        let compilation = Config::new()
            .module(Module::new("a").text("a.x", xdr))
            .check();
        assert_eq!(compilation.diagnostics(), [], "{xdr}");
        let structs = compilation
            .schema()
            .types
            .iter()
            .filter(|ty| matches!(ty.kind, TypeDefKind::Struct(_)));
        let structs = structs.map(|ty| ty.rust.clone()).collect();
        let files = compilation
            .generate()
            .expect("no defects, so there is Rust");
        (structs, files[0].content.matches("pub type ").count())
    }

    /// Without a named type, the element would be an infinite nesting of lists.
    #[test]
    fn recursive_element_keeps_its_struct() {
        let cases: [(&str, &[&str], usize); 6] = [
            ("struct t { t *m; t *n; };", &["T", "TItem"], 1),
            // Through a typedef.
            ("struct t { s *m; s *n; }; typedef t s;", &["T", "TItem"], 2),
            (
                "struct t { s m<>; s *n; }; typedef t s;",
                &["T", "TItem"],
                2,
            ),
            ("struct t { s m; t *n; }; typedef t *s;", &["T", "TItem"], 1),
            // Through another list.
            (
                "struct a { b *x; a *n; }; struct b { a *y; b *n; };",
                &["A", "B", "AItem", "BItem"],
                2,
            ),
            (
                "struct a { w x; a *n; }; struct b { a *y; b *n; }; typedef b *w;",
                &["A", "B", "AItem", "BItem"],
                2,
            ),
        ];
        for (xdr, structs, aliases) in cases {
            assert_eq!(
                generated(xdr),
                (
                    structs.iter().map(|name| name.to_string()).collect(),
                    aliases
                ),
                "{xdr}"
            );
        }
    }

    /// The generated list does not take a name that the document declares.
    #[test]
    fn list_name_does_not_clash_with_the_document() {
        for (xdr, aliases) in [
            ("struct n { int a; int b; n *next; };", 1),
            ("struct n { int a; n *next; };", 1),
            ("struct n { int a; n *next; }; typedef n *all;", 1),
            (
                "struct n { int a; n *next; }; struct n_items { int c; };",
                0,
            ),
        ] {
            assert_eq!(generated(xdr).1, aliases, "{xdr}");
        }
    }

    #[test]
    fn deeply_nested_lists_have_named_types_at_intervals() {
        let nodes = (0..600).map(|at| format!("struct a{at} {{ a{} *x; a{at} *n; }};", at + 1));
        let xdr: String = nodes
            .chain(["struct a600 { int x; a600 *n; };".into()])
            .collect();
        let (mut structs, _) = generated(&xdr);
        structs.retain(|name| name.ends_with("Item"));
        assert!(
            (600 / 20..600 / 10).contains(&structs.len()),
            "{}",
            structs.len()
        );
    }
}
