//! Computes the layout of every type, each after those that it contains.
//!
//! `analyze` calls it once cycles without an indirection have been rejected: else it would not
//! terminate. The later steps and the emitters rely on the layouts.

use crate::check::{graph, infinite};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::ir::{Layout, Schema};

/// The maximum size in memory, in bytes, of a type: values are passed by value.
const MAX_SIZE: u64 = 1 << 20;

/// The maximum size in memory, in bytes, of a type that contains itself. While a value is decoded,
/// the stack holds one or two copies for each level of depth (64 by default), and a thread's stack
/// has 2 MiB.
const MAX_RECURSIVE_SIZE: u64 = 1 << 12;

/// Computes all layouts, and reports types that are too large to be passed by value.
pub(crate) fn compute(schema: &mut Schema, diagnostics: &mut Diagnostics) {
    let smallest = infinite::smallest(schema);
    let mut rank = vec![0; schema.types.len()];
    // Without the cycles that indirections make, containment is a partial order.
    for (place, group) in graph::components(&graph::edges(schema, |indirect| !indirect))
        .iter()
        .enumerate()
    {
        group.iter().for_each(|at| rank[*at] = place);
    }
    for mut group in graph::components(&graph::edges(schema, |_| true)) {
        group.sort_by_key(|at| rank[*at]);
        if schema.types[group[0]].layout.recursive {
            cycle(schema, &group, &smallest);
        } else {
            group.iter().for_each(|at| {
                let definition = &schema.types[*at];
                schema.types[*at].layout = match definition.external {
                    Some(_) => Layout::external(),
                    None => schema.layout_of_kind(&definition.kind),
                }
            });
        }
    }
    for definition in &schema.types {
        let max = if definition.layout.recursive {
            MAX_RECURSIVE_SIZE
        } else {
            MAX_SIZE
        };
        if definition.layout.memory > max {
            let contains = if definition.layout.recursive {
                " and contains itself"
            } else {
                ""
            };
            let message = format!(
                "a `{}` takes more than {max} bytes of memory{contains}",
                definition.name
            );
            let diagnostic = Diagnostic::new(Code::OutOfRange, definition.span, message)
                .note("use a sequence of variable length, which is allocated on the heap");
            diagnostics.report(diagnostic);
        }
    }
}

/// Computes the layouts of types that contain each other: unbounded, with a lifetime, and with a
/// float or an item if one of them has one.
fn cycle(schema: &mut Schema, group: &[usize], smallest: &[u64]) {
    let assumed = |float, items| Layout {
        max: None,
        inline_max: None,
        lifetime: true,
        shapes_differ: true,
        recursive: true,
        float,
        items,
        // A type that contains itself has a zero only if an optional ends the recursion.
        zero: false,
        ..Layout::default()
    };
    let (mut float, mut items) = (false, false);
    for _ in 0..2 {
        group.iter().for_each(|at| {
            schema.types[*at].layout = Layout {
                min: smallest[*at],
                ..assumed(float, items)
            }
        });
        for at in group {
            let found = schema.layout_of_kind(&schema.types[*at].kind);
            float |= found.float;
            items |= found.items;
            schema.types[*at].layout = Layout {
                min: found.min,
                memory: found.memory,
                copy: found.copy,
                zero: found.zero,
                ..assumed(float, items)
            };
        }
    }
}
