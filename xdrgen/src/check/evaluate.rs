//! Evaluates constants and the members of enums, and resolves the names in their expressions.
//!
//! [`evaluate`] runs directly after the symbol table is collected; all later checks read
//! `Values::get`. Each value is evaluated once, so that each defect is reported once. Ranges are
//! checked later, where the type is known: in `lower`, `unions`, `programs` and `overlays`.

use crate::ast;
use crate::check::ModuleInput;
use crate::check::symbols::{SymbolKind, SymbolTable};
use crate::check::values::{Expression, State, ValueId};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::Span;

/// Returns the value of `TRUE` and `FALSE` (RFC 4506, section 4.4).
pub(crate) fn builtin(name: &str) -> Option<i128> {
    match name {
        "TRUE" => Some(1),
        "FALSE" => Some(0),
        _ => None,
    }
}

/// Evaluates all values. An explicit stack follows chains of names, so that their length is not
/// limited.
pub(crate) fn evaluate(
    symbols: &mut SymbolTable<'_>,
    inputs: &[ModuleInput],
    diagnostics: &mut Diagnostics,
) {
    for id in symbols.values.ids() {
        let mut chain = Vec::new();
        let mut next = Next::Value(id);
        let end = loop {
            match next {
                Next::Value(id) => match symbols.values.source(id).state {
                    State::Known(value) => break value,
                    State::Pending => break cycle(symbols, &chain, id, diagnostics),
                    State::Unknown => {
                        symbols.values.set_state(id, State::Pending);
                        chain.push(id);
                        next = step(symbols, inputs, id, diagnostics);
                    }
                },
                Next::Number(value) => break value,
            }
        };
        unwind(symbols, &chain, end);
    }
}

enum Next {
    Value(ValueId),
    Number(Option<i128>),
}

/// Returns the number, or the next value that the value of `id` depends on.
fn step(
    symbols: &SymbolTable<'_>,
    inputs: &[ModuleInput],
    id: ValueId,
    diagnostics: &mut Diagnostics,
) -> Next {
    let source = symbols.values.source(id);
    match source.expression {
        Expression::Number(number) => Next::Number(Some(number)),
        // `unwind` adds one.
        Expression::After(None) => Next::Number(Some(-1)),
        Expression::After(Some(previous)) => Next::Value(previous),
        Expression::Name(name, span) | Expression::Sum(name, span, _) => {
            if let Some(found) = symbols.ambiguous(source.module, name, span) {
                diagnostics.report(found);
                return Next::Number(None);
            }
            match symbols.lookup(inputs, source.module, name) {
                Some(entry) => match entry.kind {
                    SymbolKind::Value(id) => Next::Value(id),
                    kind @ (SymbolKind::Type(_) | SymbolKind::Text) => {
                        diagnostics.report(not_a_number(name, kind, span, entry.span));
                        Next::Number(None)
                    }
                },
                None => match builtin(name) {
                    Some(value) => Next::Number(Some(value)),
                    None => {
                        diagnostics.report(undefined(symbols, inputs, source.module, name, span));
                        Next::Number(None)
                    }
                },
            }
        }
    }
}

fn unwind(symbols: &mut SymbolTable<'_>, chain: &[ValueId], mut value: Option<i128>) {
    for id in chain.iter().rev() {
        value = value.and_then(|value| match symbols.values.source(*id).expression {
            Expression::After(_) => value.checked_add(1),
            Expression::Sum(_, _, sum) => sum.of(value),
            Expression::Number(_) | Expression::Name(..) => Some(value),
        });
        symbols.values.set_state(*id, State::Known(value));
    }
}

fn cycle(
    symbols: &SymbolTable<'_>,
    chain: &[ValueId],
    id: ValueId,
    diagnostics: &mut Diagnostics,
) -> Option<i128> {
    let source = symbols.values.source(id);
    let message = format!("the value of `{}` depends on itself", source.name);
    let mut diagnostic = Diagnostic::new(Code::RecursiveConstant, source.span, message);
    let from = chain.iter().position(|at| *at == id).unwrap_or(0);
    for other in &chain[(from + 1).min(chain.len())..] {
        let other = symbols.values.source(*other);
        diagnostic = diagnostic.note_at(other.span, format!("through `{}`", other.name));
    }
    diagnostics.report(diagnostic);
    None
}

pub(crate) fn not_a_number(name: &str, kind: SymbolKind, span: Span, defined: Span) -> Diagnostic {
    let message = match kind {
        SymbolKind::Text => format!("expected a number, but `{name}` is a string"),
        _ => format!("expected a constant, but `{name}` is a type"),
    };
    Diagnostic::new(Code::WrongKind, span, message).note_at(defined, "defined here")
}

pub(crate) fn undefined(
    symbols: &SymbolTable<'_>,
    inputs: &[ModuleInput],
    module: usize,
    name: &str,
    span: Span,
) -> Diagnostic {
    let diagnostic = Diagnostic::new(
        Code::UndefinedConstant,
        span,
        format!("no constant is named `{name}`"),
    )
    .label("not defined");
    let name = ast::Ident {
        name: name.to_owned(),
        span,
    };
    symbols.explain(inputs, module, false, &name, diagnostic)
}
