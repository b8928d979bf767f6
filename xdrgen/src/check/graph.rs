//! Which types contain which: circles that no value ends, and those that an indirection makes possible.

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::ir::{Schema, Type, TypeDefKind, TypeId};

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
pub(crate) fn check_circles(schema: &Schema, diagnostics: &mut Diagnostics) -> bool {
    let direct = edges(schema, |indirect| !indirect);
    let circles: Vec<Vec<usize>> = components(&direct).into_iter().filter(|group| is_circle(group, &direct)).collect();
    for group in &circles {
        report(schema, group, diagnostics);
    }
    circles.is_empty()
}

fn report(schema: &Schema, group: &[usize], diagnostics: &mut Diagnostics) {
    let mut members: Vec<_> = group.iter().map(|at| &schema.types[*at]).collect();
    members.sort_by_key(|member| member.span);
    let Some((first, others)) = members.split_first() else { return };
    let message = format!("`{}` contains itself, so no value of it ends", first.name);
    let mut diagnostic = Diagnostic::new(Code::RecursiveType, first.span, message);
    for other in others {
        diagnostic = diagnostic.note_at(other.span, format!("by way of `{}`", other.name));
    }
    diagnostics.report(diagnostic.note("an optional (`T *x`) or a sequence (`T x<>`) in between would end it"));
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
