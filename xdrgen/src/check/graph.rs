//! Which types contain which: circles that no value ends, and those that an indirection makes possible.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::ast;
use crate::check::Context;
use crate::check::symbols::Syntax;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Schema, Type, TypeDefKind, TypeId};
use crate::source::Span;

/// The types that a definition's parts name. `indirect` says for each whether an optional or a sequence of variable
/// length stands between.
pub(crate) fn references(kind: &TypeDefKind, found: &mut Vec<(TypeId, bool)>) {
    match kind {
        TypeDefKind::Alias(ty) => of_type(ty, false, found),
        TypeDefKind::Enum(_) => {}
        TypeDefKind::Struct(fields) => fields.iter().for_each(|field| of_type(&field.ty, false, found)),
        TypeDefKind::Union(union) => {
            let contents = union.arms.iter().map(|arm| &arm.content).chain(&union.default);
            contents.flatten().for_each(|(_, ty)| of_type(ty, false, found));
        }
    }
}

fn of_type(ty: &Type, indirect: bool, found: &mut Vec<(TypeId, bool)>) {
    match ty {
        Type::Primitive(_) | Type::FixedOpaque(_) | Type::Opaque(_) | Type::String(_) => {}
        Type::Fixed(element, _) => of_type(element, indirect, found),
        Type::Array(element, _) | Type::Optional(element) | Type::List(element) => of_type(element, true, found),
        Type::Recursive(id) => found.push((*id, true)),
        Type::Named(id) => found.push((*id, indirect)),
    }
}

/// Reports types that contain themselves without an indirection. Returns whether there are none.
pub(crate) fn check_circles(context: &mut Context<'_, '_>, schema: &Schema) -> bool {
    let direct = edges(schema, |indirect| !indirect);
    let circles: Vec<Vec<usize>> = components(&direct).into_iter().filter(|group| is_circle(group, &direct)).collect();
    for group in &circles {
        report(context, schema, &circle(schema, group, &direct));
    }
    let endless = circles_of_typedefs(schema, &circles);
    for at in &endless {
        let definition = &schema.types[*at];
        let message = format!("`{}` is a typedef of itself, and of nothing else", definition.name);
        context.diagnostics.report(Diagnostic::new(Code::RecursiveType, definition.span, message));
    }
    circles.is_empty() && endless.is_empty()
}

/// The first of each circle of typedefs, whatever lies between them: without a struct or a union there is no type that
/// it is about. Those in `reported` are left out.
fn circles_of_typedefs(schema: &Schema, reported: &[Vec<usize>]) -> Vec<usize> {
    let is_typedef = |at: usize| matches!(schema.types[at].kind, TypeDefKind::Alias(_));
    let mut edges = edges(schema, |_| true);
    for (at, targets) in edges.iter_mut().enumerate() {
        targets.retain(|target| is_typedef(at) && is_typedef(*target));
    }
    let circles = components(&edges).into_iter().filter(|group| is_circle(group, &edges));
    let new = circles.filter(|group| !reported.iter().flatten().any(|at| group.contains(at)));
    new.filter_map(|group| group.into_iter().min_by_key(|at| schema.types[*at].span)).collect()
}

/// A shortest way from the first member of a component, in the order of the documents, back to it.
fn circle(schema: &Schema, group: &[usize], edges: &[Vec<usize>]) -> Vec<usize> {
    let Some(first) = group.iter().copied().min_by_key(|at| schema.types[*at].span) else { return Vec::new() };
    let members: HashSet<usize> = group.iter().copied().collect();
    let mut reached_from = HashMap::new();
    let mut queue = VecDeque::from([first]);
    while let Some(at) = queue.pop_front() {
        for next in edges[at].iter().copied().filter(|next| members.contains(next)) {
            // The first way to a type stays: a later one may come from where it leads.
            if let Entry::Vacant(unreached) = reached_from.entry(next) {
                unreached.insert(at);
                queue.push_back(next);
            }
            if next == first {
                let before = |at: &usize| reached_from.get(at).copied().filter(|at| *at != first);
                let mut way: Vec<usize> = std::iter::successors(Some(at).filter(|at| *at != first), before).collect();
                way.push(first);
                way.reverse();
                return way;
            }
        }
    }
    vec![first]
}

/// Reports a circle: at the place where its first type refers to the next, with the places where the others do.
fn report(context: &mut Context<'_, '_>, schema: &Schema, circle: &[usize]) {
    let Some((first, others)) = circle.split_first() else { return };
    let target = |place: usize| circle[(place + 1) % circle.len()];
    let name = |at: usize| &schema.types[at].name;
    let message = format!("`{}` contains itself, so no value of it ends", name(*first));
    let span = reference(context, schema, *first, target(0));
    let mut diagnostic = Diagnostic::new(Code::RecursiveType, span, message);
    if !others.is_empty() {
        diagnostic = diagnostic.label(format!("contains `{}`", name(target(0))));
    }
    for (place, other) in others.iter().enumerate() {
        let next = target(place + 1);
        let span = reference(context, schema, *other, next);
        diagnostic = diagnostic.note_at(span, format!("`{}` contains `{}` here", name(*other), name(next)));
    }
    let mend = "an optional (`T *x`) or a sequence (`T x<>`) in between would end it";
    context.diagnostics.report(diagnostic.note(mend));
}

/// Where a type is written to contain another.
fn reference(context: &Context<'_, '_>, schema: &Schema, from: usize, to: usize) -> Span {
    let refers = |ty: &Type| {
        let mut found = Vec::new();
        of_type(ty, false, &mut found);
        found.iter().any(|(id, indirect)| id.0 as usize == to && !indirect)
    };
    let definition = &schema.types[from];
    let found = match &definition.kind {
        TypeDefKind::Struct(fields) => fields.iter().find(|field| refers(&field.ty)).map(|field| field.span),
        TypeDefKind::Union(union) => {
            let mut contents = union.arms.iter().map(|arm| &arm.content).chain(&union.default).flatten();
            contents.find(|(_, ty)| refers(ty)).and_then(|(name, _)| arm_place(context, from, name))
        }
        TypeDefKind::Alias(_) | TypeDefKind::Enum(_) => None,
    };
    found.unwrap_or(definition.span)
}

/// Where a union's arm of a name is declared.
fn arm_place(context: &Context<'_, '_>, union: usize, name: &str) -> Option<Span> {
    let Syntax::Union(body) = context.symbols.types.get(union)?.syntax else { return None };
    let bodies = body.arms.iter().map(|arm| &arm.body).chain(body.default.iter().map(|(_, body)| body));
    bodies.into_iter().find_map(|body| match body {
        ast::ArmBody::Field(field) if field.name.name == name => Some(field.name.span),
        _ => None,
    })
}

/// For each type the types it refers to, of those references that `wanted(indirect)` wants.
pub(crate) fn edges(schema: &Schema, wanted: impl Fn(bool) -> bool) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let of = |ty: &crate::ir::TypeDef| {
        found.clear();
        references(&ty.kind, &mut found);
        found.iter().filter(|(_, indirect)| wanted(*indirect)).map(|(id, _)| id.0 as usize).collect()
    };
    schema.types.iter().map(of).collect()
}

/// Whether a component has a circle: more than one member, or one that refers to itself.
pub(crate) fn is_circle(group: &[usize], edges: &[Vec<usize>]) -> bool {
    group.len() > 1 || group.iter().any(|at| edges[*at].contains(at))
}

/// The strongly connected components, each after those it refers to (Tarjan 1972), with a stack of our own: a document
/// may chain any number of types.
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
    fn typedefs_of_each_other_are_circles_whatever_lies_between() {
        let found = |xdr: &str| -> Vec<String> {
            let compilation = Config::new().module(Module::new("a").text("a.x", xdr)).check();
            assert!(compilation.diagnostics().iter().all(|found| found.code == Code::RecursiveType));
            compilation.diagnostics().iter().map(|found| found.message.clone()).collect()
        };
        for xdr in ["typedef a *a;", "typedef a a<>;", "typedef b *a; typedef a *b;", "typedef b a<2>; typedef a b[2];"]
        {
            assert_eq!(found(xdr), ["`a` is a typedef of itself, and of nothing else"], "{xdr}");
        }
        assert_eq!(found("typedef a a;"), ["`a` contains itself, so no value of it ends"]);
        let none: [&str; 0] = [];
        assert_eq!(found("typedef b a<>; struct b { a x; };"), none);
        assert_eq!(found("struct n { int x; list next; }; typedef n *list;"), none);
    }

    #[test]
    fn a_circle_within_a_circle_ends() {
        let xdr = "typedef s a; struct s { s b; a c; };";
        let compilation = Config::new().module(Module::new("a").text("a.x", xdr)).check();
        let found: Vec<&str> = compilation.diagnostics().iter().map(|found| found.message.as_str()).collect();
        assert_eq!(found, ["`a` contains itself, so no value of it ends"]);
    }

    #[test]
    fn components_come_after_what_they_refer_to() {
        let edges = vec![vec![1], vec![2], vec![1, 3], vec![]];
        let mut found = components(&edges);
        found.iter_mut().for_each(|group| group.sort_unstable());
        assert_eq!(found, vec![vec![3], vec![1, 2], vec![0]]);
    }

    #[test]
    fn a_chain_of_any_length_is_no_recursion() {
        let edges: Vec<Vec<usize>> = (0..200_000).map(|at| if at == 0 { vec![] } else { vec![at - 1] }).collect();
        assert_eq!(components(&edges).len(), 200_000);
    }
}
