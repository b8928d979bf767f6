//! The graph of which types contain which. Finds cycles that make values infinite, and cycles
//! through an indirection. `infinite` decides which types have a finite value.
//!
//! Nodes are indexes of [`Schema::types`]. `sizes` and `lists` rely on the order of [`components`].
//! If [`check_cycles`] returns false, `analyze` skips all later steps, which follow references
//! without a guard.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::ast;
use crate::check::Context;
use crate::check::symbols::TypeSyntax;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Schema, Type, TypeDefKind, TypeId};
use crate::source::Span;

/// Collects the types that a definition refers to. The flag is true if an optional or a sequence of
/// variable length is in between, or if the content of an arm is [`Type::Nested`].
pub(crate) fn references(kind: &TypeDefKind, found: &mut Vec<(TypeId, bool)>) {
    match kind {
        TypeDefKind::Alias(ty) => type_references(ty, false, found),
        TypeDefKind::Enum(_) => {}
        TypeDefKind::Struct(fields) => fields
            .iter()
            .for_each(|field| type_references(&field.ty, false, found)),
        TypeDefKind::Union(union) => {
            let contents = union
                .arms
                .iter()
                .map(|arm| &arm.content)
                .chain(&union.default);
            contents
                .flatten()
                .for_each(|(_, ty)| type_references(ty, false, found));
        }
    }
}

fn type_references(ty: &Type, indirect: bool, found: &mut Vec<(TypeId, bool)>) {
    match ty {
        Type::Primitive(_)
        | Type::FixedOpaque(_)
        | Type::Opaque(_)
        | Type::String(_)
        | Type::Item(_) => {}
        Type::Fixed(element, _) => type_references(element, indirect, found),
        Type::Array(element, _)
        | Type::Optional(element)
        | Type::Nested(element)
        | Type::List(element) => type_references(element, true, found),
        Type::Recursive(id) => found.push((*id, true)),
        Type::Named(id) => found.push((*id, indirect)),
    }
}

/// Reports types without a finite value, and cycles of typedefs. Returns true if there are none.
/// `direct` are the references without an indirection.
pub(crate) fn check_cycles(
    context: &mut Context<'_, '_>,
    schema: &Schema,
    mut direct: Vec<Vec<usize>>,
    finite: &[bool],
) -> bool {
    // Each type without a finite value refers to another, so their references have cycles.
    for (at, targets) in direct.iter_mut().enumerate() {
        targets.retain(|target| !finite[at] && !finite[*target]);
    }
    let cycles: Vec<Vec<usize>> = components(&direct)
        .into_iter()
        .filter(|group| is_cycle(group, &direct))
        .collect();
    for group in &cycles {
        report(context, schema, &cycle(schema, group, &direct));
    }
    let of_typedefs = typedef_cycles(schema, &cycles);
    for at in &of_typedefs {
        let definition = &schema.types[*at];
        let message = format!("`{}` is a typedef of itself", definition.name);
        context.diagnostics.report(Diagnostic::new(
            Code::RecursiveType,
            definition.span,
            message,
        ));
    }
    cycles.is_empty() && of_typedefs.is_empty()
}

/// Returns the first typedef of each cycle of typedefs, with or without indirections. Such a cycle
/// contains no struct or union and so defines no type. Skips the cycles in `reported`.
fn typedef_cycles(schema: &Schema, reported: &[Vec<usize>]) -> Vec<usize> {
    let is_typedef = |at: usize| matches!(schema.types[at].kind, TypeDefKind::Alias(_));
    let mut edges = edges(schema, |_| true);
    for (at, targets) in edges.iter_mut().enumerate() {
        targets.retain(|target| is_typedef(at) && is_typedef(*target));
    }
    let cycles = components(&edges)
        .into_iter()
        .filter(|group| is_cycle(group, &edges));
    let new = cycles.filter(|group| !reported.iter().flatten().any(|at| group.contains(at)));
    new.filter_map(|group| group.into_iter().min_by_key(|at| schema.types[*at].span))
        .collect()
}

/// Returns a shortest path from the first type of a component, in document order, back to it.
fn cycle(schema: &Schema, group: &[usize], edges: &[Vec<usize>]) -> Vec<usize> {
    let Some(first) = group
        .iter()
        .copied()
        .min_by_key(|at| schema.types[*at].span)
    else {
        return Vec::new();
    };
    let members: HashSet<usize> = group.iter().copied().collect();
    let mut reached_from = HashMap::new();
    let mut queue = VecDeque::from([first]);
    while let Some(at) = queue.pop_front() {
        for next in edges[at]
            .iter()
            .copied()
            .filter(|next| members.contains(next))
        {
            // The first path to a type is kept: a later one may pass through this type.
            if let Entry::Vacant(unreached) = reached_from.entry(next) {
                unreached.insert(at);
                queue.push_back(next);
            }
            if next == first {
                let before = |at: &usize| reached_from.get(at).copied().filter(|at| *at != first);
                let mut path: Vec<usize> =
                    std::iter::successors(Some(at).filter(|at| *at != first), before).collect();
                path.push(first);
                path.reverse();
                return path;
            }
        }
    }
    vec![first]
}

/// Reports a cycle at the position where its first type refers to the next, with a note at each
/// other reference.
fn report(context: &mut Context<'_, '_>, schema: &Schema, cycle: &[usize]) {
    let Some((first, others)) = cycle.split_first() else {
        return;
    };
    let target = |place: usize| cycle[(place + 1) % cycle.len()];
    let name = |at: usize| &schema.types[at].name;
    let message = format!(
        "`{}` contains itself, so its values are infinite",
        name(*first)
    );
    let span = reference(context, schema, *first, target(0));
    let mut diagnostic = Diagnostic::new(Code::RecursiveType, span, message);
    if !others.is_empty() {
        diagnostic = diagnostic.label(format!("contains `{}`", name(target(0))));
    }
    for (place, other) in others.iter().enumerate() {
        let next = target(place + 1);
        let span = reference(context, schema, *other, next);
        diagnostic = diagnostic.note_at(
            span,
            format!("`{}` contains `{}` here", name(*other), name(next)),
        );
    }
    for at in cycle.iter().filter(|at| is_union(schema, **at)) {
        let message = format!("no arm of the union `{}` has a finite value", name(*at));
        diagnostic = diagnostic.note_at(schema.types[*at].span, message);
    }
    let help = if cycle.iter().any(|at| is_union(schema, *at)) {
        "use an optional (`T *x`), a sequence (`T x<>`) or an arm that ends it to break the cycle"
    } else {
        "use an optional (`T *x`) or a sequence (`T x<>`) to break the cycle"
    };
    context.diagnostics.report(diagnostic.note(help));
}

fn is_union(schema: &Schema, at: usize) -> bool {
    matches!(schema.types[at].kind, TypeDefKind::Union(_))
}

/// Returns the span at which one type refers to another.
fn reference(context: &Context<'_, '_>, schema: &Schema, from: usize, to: usize) -> Span {
    let refers = |ty: &Type| {
        let mut found = Vec::new();
        type_references(ty, false, &mut found);
        found
            .iter()
            .any(|(id, indirect)| id.0 as usize == to && !indirect)
    };
    let definition = &schema.types[from];
    let found = match &definition.kind {
        TypeDefKind::Struct(fields) => fields
            .iter()
            .find(|field| refers(&field.ty))
            .map(|field| field.span),
        TypeDefKind::Union(union) => {
            let mut contents = union
                .arms
                .iter()
                .map(|arm| &arm.content)
                .chain(&union.default)
                .flatten();
            contents
                .find(|(_, ty)| refers(ty))
                .and_then(|(name, _)| arm_span(context, from, name))
        }
        TypeDefKind::Alias(_) | TypeDefKind::Enum(_) => None,
    };
    found.unwrap_or(definition.span)
}

/// Returns the span of the arm with a name.
fn arm_span(context: &Context<'_, '_>, union: usize, name: &str) -> Option<Span> {
    let TypeSyntax::Union(body) = context.symbols.types.get(union)?.syntax else {
        return None;
    };
    let bodies = body
        .arms
        .iter()
        .map(|arm| &arm.body)
        .chain(body.default.iter().map(|(_, body)| body));
    bodies.into_iter().find_map(|body| match body {
        ast::ArmBody::Field(field) if field.name.name == name => Some(field.name.span),
        _ => None,
    })
}

/// Returns, for each type, the types that it refers to, filtered by the flag of [`references`].
pub(crate) fn edges(schema: &Schema, include: impl Fn(bool) -> bool) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let of = |ty: &crate::ir::TypeDef| {
        found.clear();
        references(&ty.kind, &mut found);
        found
            .iter()
            .filter(|(_, indirect)| include(*indirect))
            .map(|(id, _)| id.0 as usize)
            .collect()
    };
    schema.types.iter().map(of).collect()
}

/// Returns true if a component contains a cycle: it has several members, or one that refers to
/// itself.
pub(crate) fn is_cycle(group: &[usize], edges: &[Vec<usize>]) -> bool {
    group.len() > 1 || group.iter().any(|at| edges[*at].contains(at))
}

/// Returns the strongly connected components, each after those that it refers to (Tarjan 1972). The
/// stack is explicit: a document may chain any number of types.
pub(crate) fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut state = Tarjan {
        edges,
        index: vec![usize::MAX; edges.len()],
        low: vec![0; edges.len()],
        on_stack: vec![false; edges.len()],
        stack: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for node in 0..edges.len() {
        if state.index[node] == usize::MAX {
            state.visit(node);
        }
    }
    state.found
}

struct Tarjan<'e> {
    edges: &'e [Vec<usize>],
    index: Vec<usize>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl Tarjan<'_> {
    fn visit(&mut self, root: usize) {
        let mut path = vec![(root, 0)];
        self.enter(root);
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            match self.edges[node].get(*edge) {
                Some(&target) => {
                    *edge += 1;
                    if self.index[target] == usize::MAX {
                        self.enter(target);
                        path.push((target, 0));
                    } else if self.on_stack[target] {
                        self.low[node] = self.low[node].min(self.index[target]);
                    }
                }
                None => {
                    path.pop();
                    self.leave(node);
                    if let Some((parent, _)) = path.last() {
                        self.low[*parent] = self.low[*parent].min(self.low[node]);
                    }
                }
            }
        }
    }

    fn enter(&mut self, node: usize) {
        self.index[node] = self.next;
        self.low[node] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.on_stack[node] = true;
    }

    fn leave(&mut self, node: usize) {
        if self.low[node] != self.index[node] {
            return;
        }
        let mut group = Vec::new();
        while let Some(member) = self.stack.pop() {
            self.on_stack[member] = false;
            group.push(member);
            if member == node {
                break;
            }
        }
        self.found.push(group);
    }
}

#[cfg(test)]
mod tests {
    use super::components;
    use crate::{Code, Config, Module};

    #[test]
    fn typedef_cycles_are_errors() {
        let found = |xdr: &str| -> Vec<String> {
            let compilation = Config::new()
                .module(Module::new("a").text("a.x", xdr))
                .check();
            assert!(
                compilation
                    .diagnostics()
                    .iter()
                    .all(|found| found.code == Code::RecursiveType)
            );
            compilation
                .diagnostics()
                .iter()
                .map(|found| found.message.clone())
                .collect()
        };
        for xdr in [
            "typedef a *a;",
            "typedef a a<>;",
            "typedef b *a; typedef a *b;",
            "typedef b a<2>; typedef a b[2];",
        ] {
            assert_eq!(found(xdr), ["`a` is a typedef of itself"], "{xdr}");
        }
        assert_eq!(
            found("typedef a a;"),
            ["`a` contains itself, so its values are infinite"]
        );
        let none: [&str; 0] = [];
        assert_eq!(found("typedef b a<>; struct b { a x; };"), none);
        assert_eq!(
            found("struct n { int x; list next; }; typedef n *list;"),
            none
        );
    }

    #[test]
    fn nested_cycles_terminate() {
        let xdr = "typedef s a; struct s { s b; a c; };";
        let compilation = Config::new()
            .module(Module::new("a").text("a.x", xdr))
            .check();
        let found: Vec<&str> = compilation
            .diagnostics()
            .iter()
            .map(|found| found.message.as_str())
            .collect();
        assert_eq!(found, ["`a` contains itself, so its values are infinite"]);
    }

    #[test]
    fn components_follow_their_references() {
        let edges = vec![vec![1], vec![2], vec![1, 3], vec![]];
        let mut found = components(&edges);
        found.iter_mut().for_each(|group| group.sort_unstable());
        assert_eq!(found, vec![vec![3], vec![1, 2], vec![0]]);
    }

    #[test]
    fn long_chains_do_not_recurse() {
        let edges: Vec<Vec<usize>> = (0..200_000)
            .map(|at| if at == 0 { vec![] } else { vec![at - 1] })
            .collect();
        assert_eq!(components(&edges).len(), 200_000);
    }
}
