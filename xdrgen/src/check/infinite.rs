//! Finds the types without a finite value, which `graph` reports, and breaks the other cycles at
//! arms of unions. [`break_cycles`] and [`smallest`] require that all types have a finite value.
//!
//! RFC 4506, section 4.19, writes a list as a union: one arm contains the rest of the list, another
//! ends it. So a union has a finite value if one of its arms has one; a struct, if all its fields
//! do. Optionals and sequences may be empty.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::check::graph;
use crate::ir::{Content, Schema, Type, TypeDefKind, Union};

/// Returns, for each type, whether it has a finite value. `direct` are the references without an
/// indirection. Each reference is followed once, when its target is found to be finite.
pub(crate) fn finite(schema: &Schema, direct: &[Vec<usize>]) -> Vec<bool> {
    let mut users = vec![Vec::new(); direct.len()];
    for (user, used) in direct.iter().enumerate() {
        used.iter().for_each(|used| users[*used].push(user));
    }
    // For each type, the number of references whose targets must be found first.
    let needed = |(at, used): (usize, &Vec<usize>)| match &schema.types[at].kind {
        // An arm has at most one reference.
        TypeDefKind::Union(union) => usize::from(used.len() == contents(union).count()),
        _ => used.len(),
    };
    let mut needed: Vec<usize> = direct.iter().enumerate().map(needed).collect();
    let mut finite: Vec<bool> = needed.iter().map(|needed| *needed == 0).collect();
    let mut new: Vec<usize> = (0..finite.len()).filter(|at| finite[*at]).collect();
    while let Some(at) = new.pop() {
        for user in std::mem::take(&mut users[at]) {
            needed[user] = needed[user].saturating_sub(1);
            if needed[user] == 0 && !finite[user] {
                finite[user] = true;
                new.push(user);
            }
        }
    }
    finite
}

/// Returns, for each type, the size of its smallest value, in bytes. All types have a finite value.
///
/// Types are found in the order of these sizes (Knuth 1977), so that each reference is followed
/// once: no part of a value is larger than the value.
pub(crate) fn smallest(schema: &Schema) -> Vec<u64> {
    let count = schema.types.len();
    let mut users = vec![Vec::new(); count];
    let (mut sums, mut needed) = (vec![0_u64; count], vec![0_usize; count]);
    let mut found: Vec<Option<u64>> = vec![None; count];
    let mut queue = BinaryHeap::new();
    for (at, definition) in schema.types.iter().enumerate() {
        let is_union = matches!(definition.kind, TypeDefKind::Union(_));
        for (size, part) in parts(schema, &definition.kind) {
            match part {
                Some((target, times)) => {
                    users[target].push((at, times));
                    needed[at] += 1;
                }
                None if is_union => queue.push(Reverse((size, at))),
                None => sums[at] = sums[at].saturating_add(size),
            }
        }
        if !is_union && needed[at] == 0 {
            queue.push(Reverse((sums[at], at)));
        }
    }
    while let Some(Reverse((size, at))) = queue.pop() {
        if found[at].is_some() {
            continue;
        }
        found[at] = Some(size);
        for (user, times) in std::mem::take(&mut users[at]) {
            let part = size.saturating_mul(times);
            if matches!(schema.types[user].kind, TypeDefKind::Union(_)) {
                queue.push(Reverse((part.saturating_add(4), user)));
                continue;
            }
            sums[user] = sums[user].saturating_add(part);
            needed[user] -= 1;
            if needed[user] == 0 {
                queue.push(Reverse((sums[user], user)));
            }
        }
    }
    found.into_iter().map(|size| size.unwrap_or(0)).collect()
}

/// Returns the parts of a definition: the type and the number of its values, or a size. For a union
/// these are the arms, with the discriminant.
fn parts(schema: &Schema, kind: &TypeDefKind) -> Vec<(u64, Option<(usize, u64)>)> {
    let part = |ty: &Type| match repeated(ty) {
        Some((target, times)) if times > 0 => (0, Some((target, times))),
        Some(_) => (0, None),
        None => (schema.layout_of(ty).min, None),
    };
    match kind {
        TypeDefKind::Alias(ty) => vec![part(ty)],
        TypeDefKind::Enum(_) => vec![(4, None)],
        TypeDefKind::Struct(fields) => fields.iter().map(|field| part(&field.ty)).collect(),
        TypeDefKind::Union(union) => {
            let arms = contents(union).map(|content| match content {
                Some((_, ty)) => part(ty),
                None => (0, None),
            });
            arms.map(|(size, part)| (size.saturating_add(4), part))
                .collect()
        }
    }
}

/// Returns the named type that a part consists of, and how often.
fn repeated(mut ty: &Type) -> Option<(usize, u64)> {
    let mut times = 1_u64;
    loop {
        match ty {
            Type::Nested(content) => ty = content,
            Type::Fixed(element, length) => {
                times = times.saturating_mul(u64::from(*length));
                ty = element;
            }
            Type::Named(id) => return Some((id.0 as usize, times)),
            _ => return None,
        }
    }
}

/// Makes the arms in a cycle [`Type::Nested`]. Each cycle has such an arm: without a union in it,
/// its types would have no finite value.
pub(crate) fn break_cycles(schema: &mut Schema) {
    let direct = graph::edges(schema, |indirect| !indirect);
    let mut group_of = vec![usize::MAX; direct.len()];
    let groups = graph::components(&direct);
    let cycles = groups
        .iter()
        .filter(|group| graph::is_cycle(group, &direct));
    for (number, group) in cycles.enumerate() {
        group.iter().for_each(|at| group_of[*at] = number);
    }
    for (definition, own) in schema.types.iter_mut().zip(&group_of) {
        let TypeDefKind::Union(union) = &mut definition.kind else {
            continue;
        };
        let arms = union.arms.iter_mut().map(|arm| &mut arm.content);
        for (_, ty) in arms.chain(&mut union.default).flatten() {
            if *own != usize::MAX && target(ty).is_some_and(|at| group_of[at] == *own) {
                *ty = Type::Nested(Box::new(ty.clone()));
            }
        }
    }
}

/// Returns the type that a type contains without an indirection.
fn target(mut ty: &Type) -> Option<usize> {
    loop {
        match ty {
            Type::Fixed(element, _) => ty = element,
            Type::Named(id) => return Some(id.0 as usize),
            _ => return None,
        }
    }
}

fn contents(union: &Union) -> impl Iterator<Item = &Content> {
    let arms = union.arms.iter().map(|arm| &arm.content);
    arms.chain(&union.default)
}

#[cfg(test)]
mod tests {
    use super::finite;
    use crate::check::graph;
    use crate::{Config, Module};

    /// Returns the names of the types that have a finite value.
    fn finite_types(xdr: &str) -> Vec<String> {
        let module = Module::new("a").text("a.x", xdr);
        let compilation = Config::new().module(module).check();
        let schema = compilation.schema();
        let direct = graph::edges(schema, |indirect| !indirect);
        let found = finite(schema, &direct);
        let types = schema.types.iter().zip(found);
        let types = types.filter(|(_, finite)| *finite);
        types.map(|(ty, _)| ty.name.clone()).collect()
    }

    #[test]
    fn a_struct_needs_all_fields_and_a_union_one_arm() {
        // The struct `s` contains itself, so that the arm of `u` to it ends nothing, and `v` has
        // only that arm.
        let xdr = "struct s { int i; s again; u other; };
            union u switch (int which) { case 0: s x; case 1: u y; default: end z; };
            union v switch (int which) { case 0: s x; case 1: v y; };
            struct end { int i; v several<>; };";
        assert_eq!(finite_types(xdr), ["u", "end"]);
    }

    #[test]
    fn a_long_chain_costs_linear_time() {
        let link = |at: usize| {
            format!(
                "union u{at} switch (bool more) {{ case TRUE: u{} x; case FALSE: u0 y; }};",
                at + 1
            )
        };
        let last = "union u20000 switch (bool more) { case TRUE: u0 x; case FALSE: void; };";
        let xdr: String = (0..20_000).map(link).chain([last.to_owned()]).collect();
        let compilation = Config::new()
            .module(Module::new("a").text("a.x", xdr))
            .check();
        assert_eq!(compilation.diagnostics(), []);
    }
}
