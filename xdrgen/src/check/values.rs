//! The values of constants and of enums' members.

use crate::ast;
use crate::check::Input;
use crate::check::symbols::{Meaning, Symbols};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::ir::TypeId;
use crate::source::Span;

/// Identifies a constant or a member of an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ValueId(u32);

/// What a value is computed from: never more than one other value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expression<'a> {
    Number(i128),
    Name(&'a str, Span),
    /// One more than the member before; zero for the first.
    After(Option<ValueId>),
}

impl<'a> Expression<'a> {
    pub(crate) fn of(value: &'a ast::Value) -> Self {
        match &value.kind {
            ast::ValueKind::Number(number) => Self::Number(*number),
            ast::ValueKind::Name(name) => Self::Name(name, value.span),
        }
    }
}

/// A constant or a member, and what it comes to.
#[derive(Clone, Debug)]
pub(crate) struct ValueSource<'a> {
    pub(crate) module: usize,
    pub(crate) name: &'a str,
    pub(crate) span: Span,
    expression: Expression<'a>,
    /// The enum whose member it is.
    pub(crate) of: Option<TypeId>,
    /// The type that is written with it.
    pub(crate) ty: Option<&'a ast::TypeKind>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Unknown,
    Pending,
    /// `None`: it has no value, and that was reported.
    Known(Option<i128>),
}

/// All constants and members.
#[derive(Debug, Default)]
pub(crate) struct Values<'a>(Vec<ValueSource<'a>>);

impl<'a> Values<'a> {
    pub(crate) fn add(
        &mut self,
        module: usize,
        name: &'a ast::Ident,
        expression: Expression<'a>,
        of: Option<TypeId>,
    ) -> ValueId {
        let source =
            ValueSource { module, name: &name.name, span: name.span, expression, of, ty: None, state: State::Unknown };
        self.0.push(source);
        ValueId(u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX))
    }

    pub(crate) fn set_type(&mut self, id: ValueId, ty: Option<&'a ast::TypeKind>) {
        self.0[id.0 as usize].ty = ty;
    }

    /// What it comes to, once [`evaluate`] has run; `None` where that failed and was reported.
    pub(crate) fn get(&self, id: ValueId) -> Option<i128> {
        match self.0[id.0 as usize].state {
            State::Known(value) => value,
            State::Unknown | State::Pending => None,
        }
    }

    pub(crate) fn source(&self, id: ValueId) -> &ValueSource<'a> {
        &self.0[id.0 as usize]
    }

    fn ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.0.len()).map(|at| ValueId(u32::try_from(at).unwrap_or(u32::MAX)))
    }
}

/// What `TRUE` and `FALSE` come to (RFC 4506, section 4.4).
pub(crate) fn builtin(name: &str) -> Option<i128> {
    match name {
        "TRUE" => Some(1),
        "FALSE" => Some(0),
        _ => None,
    }
}

/// Computes all values. Chains of names are followed with a stack of our own, however long they are.
pub(crate) fn evaluate(symbols: &mut Symbols<'_>, inputs: &[Input], diagnostics: &mut Diagnostics) {
    for id in symbols.values.ids() {
        let mut chain = Vec::new();
        let mut next = Next::Value(id);
        let end = loop {
            match next {
                Next::Value(id) => match symbols.values.source(id).state {
                    State::Known(value) => break value,
                    State::Pending => break cycle(symbols, &chain, id, diagnostics),
                    State::Unknown => {
                        symbols.values.0[id.0 as usize].state = State::Pending;
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

/// What the value of `id` depends on.
fn step(symbols: &Symbols<'_>, inputs: &[Input], id: ValueId, diagnostics: &mut Diagnostics) -> Next {
    let source = symbols.values.source(id);
    match source.expression {
        Expression::Number(number) => Next::Number(Some(number)),
        // `unwind` adds one.
        Expression::After(None) => Next::Number(Some(-1)),
        Expression::After(Some(previous)) => Next::Value(previous),
        Expression::Name(name, span) => match symbols.lookup(inputs, source.module, name) {
            Some(entry) => match entry.meaning {
                Meaning::Value(id) => Next::Value(id),
                Meaning::Type(_) => {
                    diagnostics.report(not_a_value(name, span, entry.span));
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
        },
    }
}

fn unwind(symbols: &mut Symbols<'_>, chain: &[ValueId], mut value: Option<i128>) {
    for id in chain.iter().rev() {
        let source = &mut symbols.values.0[id.0 as usize];
        if matches!(source.expression, Expression::After(_)) {
            value = value.map(|value| value + 1);
        }
        source.state = State::Known(value);
    }
}

fn cycle(symbols: &Symbols<'_>, chain: &[ValueId], id: ValueId, diagnostics: &mut Diagnostics) -> Option<i128> {
    let source = symbols.values.source(id);
    let message = format!("the value of `{}` depends on itself", source.name);
    let mut diagnostic = Diagnostic::new(Code::RecursiveConstant, source.span, message);
    let from = chain.iter().position(|at| *at == id).unwrap_or(0);
    for other in &chain[(from + 1).min(chain.len())..] {
        let other = symbols.values.source(*other);
        diagnostic = diagnostic.note_at(other.span, format!("by way of `{}`", other.name));
    }
    diagnostics.report(diagnostic);
    None
}

pub(crate) fn not_a_value(name: &str, span: Span, defined: Span) -> Diagnostic {
    Diagnostic::new(Code::WrongKind, span, format!("`{name}` is a type, and a constant is needed here"))
        .note_at(defined, "defined here")
}

pub(crate) fn undefined(symbols: &Symbols<'_>, inputs: &[Input], module: usize, name: &str, span: Span) -> Diagnostic {
    let candidates = symbols.visible(inputs, module, false);
    let diagnostic =
        Diagnostic::new(Code::UndefinedConstant, span, format!("no constant is called `{name}`")).label("not defined");
    match crate::check::spelling::nearest(name, candidates.into_iter()) {
        Some(near) => diagnostic.fix(span, near, format!("a constant `{near}` exists")),
        None => diagnostic,
    }
}
