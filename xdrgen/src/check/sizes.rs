//! Computes the layout of every type, each after those it contains.

use crate::check::graph;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::ir::{Layout, Schema};

/// The most octets of memory that a type may take by itself: it is passed by value.
const LARGEST_BY_VALUE: u64 = 1 << 20;

/// The same for one that contains itself: as many of them lie on the stack at once as levels are open in a decode, 64 by
/// default, each with a copy or two, and a thread has two million octets.
const LARGEST_RECURSIVE: u64 = 1 << 12;

/// Fills in all layouts, and reports types too large to be passed by value.
pub(crate) fn compute(schema: &mut Schema, diagnostics: &mut Diagnostics) {
    let mut rank = vec![0; schema.types.len()];
    // Without the circles that indirections make, containment is an order.
    for (place, group) in graph::components(&graph::edges(schema, |indirect| !indirect)).iter().enumerate() {
        group.iter().for_each(|at| rank[*at] = place);
    }
    for mut group in graph::components(&graph::edges(schema, |_| true)) {
        group.sort_by_key(|at| rank[*at]);
        if schema.types[group[0]].layout.recursive {
            circle(schema, &group);
        } else {
            group.iter().for_each(|at| schema.types[*at].layout = schema.layout_of_kind(&schema.types[*at].kind));
        }
    }
    for definition in &schema.types {
        let largest = if definition.layout.recursive { LARGEST_RECURSIVE } else { LARGEST_BY_VALUE };
        if definition.layout.memory > largest {
            let contains = if definition.layout.recursive { ", and it contains itself" } else { "" };
            let message = format!("a `{}` takes over {largest} octets of memory by itself{contains}", definition.name);
            let diagnostic = Diagnostic::new(Code::OutOfRange, definition.span, message)
                .note("a sequence of variable length is kept apart, and can be as long");
            diagnostics.report(diagnostic);
        }
    }
}

/// Types that contain each other: unbounded, with a lifetime, and with a float if one of them has one.
fn circle(schema: &mut Schema, group: &[usize]) {
    let assumed =
        |float| Layout { max: None, lifetime: true, two_forms: true, recursive: true, float, ..Layout::default() };
    let mut float = false;
    for _ in 0..2 {
        group.iter().for_each(|at| schema.types[*at].layout = assumed(float));
        for at in group {
            let found = schema.layout_of_kind(&schema.types[*at].kind);
            float |= found.float;
            schema.types[*at].layout = Layout { min: found.min, memory: found.memory, ..assumed(float) };
        }
    }
}
