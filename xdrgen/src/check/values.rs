//! The values of constants and of enums' members.

use crate::ast;
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
    pub(crate) expression: Expression<'a>,
    /// The enum whose member it is.
    pub(crate) of: Option<TypeId>,
    /// The type that is written with it.
    pub(crate) ty: Option<&'a ast::TypeKind>,
    /// Whether it is the number of a program, a version or a procedure, which nobody means by a misspelt name.
    pub(crate) of_program: bool,
    pub(crate) state: State,
}

/// How far the computation of a value is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum State {
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
        let source = ValueSource {
            module,
            name: &name.name,
            span: name.span,
            expression,
            of,
            ty: None,
            of_program: false,
            state: State::Unknown,
        };
        self.0.push(source);
        ValueId(u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX))
    }

    pub(crate) fn set_type(&mut self, id: ValueId, ty: Option<&'a ast::TypeKind>) {
        self.0[id.0 as usize].ty = ty;
    }

    /// What it comes to, once `evaluate` has run; `None` where that failed and was reported.
    pub(crate) fn get(&self, id: ValueId) -> Option<i128> {
        match self.0[id.0 as usize].state {
            State::Known(value) => value,
            State::Unknown | State::Pending => None,
        }
    }

    pub(crate) fn source(&self, id: ValueId) -> &ValueSource<'a> {
        &self.0[id.0 as usize]
    }

    pub(crate) fn set_of_program(&mut self, id: ValueId) {
        self.0[id.0 as usize].of_program = true;
    }

    pub(crate) fn set_state(&mut self, id: ValueId, state: State) {
        self.0[id.0 as usize].state = state;
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.0.len()).map(|at| ValueId(u32::try_from(at).unwrap_or(u32::MAX)))
    }
}
