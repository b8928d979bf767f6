//! The constants and enum members whose values are evaluated. `symbols` adds them, and `evaluate`
//! computes each of them once. [`Values::get`] returns `None` before that, without a report.
//!
//! A value depends on at most one other value, so that `evaluate` follows chains without recursion.

use crate::ast;
use crate::ir::TypeId;
use crate::source::Span;

/// Identifies a constant or a member of an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ValueId(u32);

/// The expression of a value. It refers to at most one other value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expression<'a> {
    Number(i128),
    Name(&'a str, Span),
    /// A sum with a multiple of a named value.
    Sum(&'a str, Span, ast::Linear),
    /// One more than the previous member; zero for the first.
    After(Option<ValueId>),
}

impl<'a> Expression<'a> {
    pub(crate) fn of(value: &'a ast::ValueExpr) -> Self {
        match &value.kind {
            ast::ValueExprKind::Number(number) => Self::Number(*number),
            ast::ValueExprKind::Name(name) => Self::Name(name, value.span),
            ast::ValueExprKind::Sum(name, sum) => Self::Sum(name, value.span, *sum),
        }
    }

    /// Returns true if both are the same, as far as the syntax shows it.
    pub(crate) fn is_same_as(self, other: Self) -> bool {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one == other,
            (Self::Name(one, _), Self::Name(other, _)) => one == other,
            (Self::Sum(one, _, sum), Self::Sum(other, _, again)) => one == other && sum == again,
            _ => false,
        }
    }
}

/// A constant or a member, with its evaluation state.
#[derive(Clone, Debug)]
pub(crate) struct ValueSource<'a> {
    pub(crate) module: usize,
    pub(crate) name: &'a str,
    pub(crate) span: Span,
    pub(crate) expression: Expression<'a>,
    /// The enum that a member belongs to.
    pub(crate) parent_enum: Option<TypeId>,
    /// The type written before a constant.
    pub(crate) ty: Option<&'a ast::TypeKind>,
    /// Whether it is the number of a program, a version or a procedure. Suggestions exclude these
    /// names.
    pub(crate) is_program_number: bool,
    /// Whether a line of the preprocessor defines it.
    pub(crate) is_define: bool,
    pub(crate) state: State,
}

/// The state of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum State {
    Unknown,
    Pending,
    /// `None` if the evaluation failed, which was reported.
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
        parent_enum: Option<TypeId>,
    ) -> ValueId {
        let source = ValueSource {
            module,
            name: &name.name,
            span: name.span,
            expression,
            parent_enum,
            ty: None,
            is_program_number: false,
            is_define: false,
            state: State::Unknown,
        };
        self.0.push(source);
        ValueId(u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX))
    }

    pub(crate) fn set_type(&mut self, id: ValueId, ty: Option<&'a ast::TypeKind>) {
        self.0[id.0 as usize].ty = ty;
    }

    /// Returns the value, after `evaluate` ran. Returns `None` if the evaluation failed, which was
    /// reported.
    pub(crate) fn get(&self, id: ValueId) -> Option<i128> {
        match self.0[id.0 as usize].state {
            State::Known(value) => value,
            State::Unknown | State::Pending => None,
        }
    }

    pub(crate) fn source(&self, id: ValueId) -> &ValueSource<'a> {
        &self.0[id.0 as usize]
    }

    pub(crate) fn set_define(&mut self, id: ValueId) {
        self.0[id.0 as usize].is_define = true;
    }

    pub(crate) fn set_program_number(&mut self, id: ValueId) {
        self.0[id.0 as usize].is_program_number = true;
    }

    pub(crate) fn set_state(&mut self, id: ValueId, state: State) {
        self.0[id.0 as usize].state = state;
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.0.len()).map(|at| ValueId(u32::try_from(at).unwrap_or(u32::MAX)))
    }
}
