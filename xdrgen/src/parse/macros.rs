//! The values of C macros that are constants of XDR: `4`, `(N)`, `N * 4 + 1`, `1 << 3`, `16UL`; and
//! of expressions in XDR and in `#if`.
//!
//! A value may keep one name without a value, as [`Linear`], which `check` resolves; all other
//! names must be in [`Numbers`]. `None` is no defect: the lexer then ignores the macro, and
//! `expression` reports an expression without a fix. Sums and products have at most 64 bits.

use std::collections::HashMap;

use super::number;
use crate::ast::{Linear, ValueExpr, ValueExprKind};
use crate::source::Span;

/// The names with known values: macros, and for the parser also constants and members of enums.
pub(super) type Numbers = HashMap<String, i128>;

/// The maximum depth of parentheses and signs.
const MAX_DEPTH: usize = 32;

/// The binary operators with their precedence. One that begins with another one must precede it.
const OPERATORS: [(&str, u8); 10] = [
    ("<<", 4),
    (">>", 4),
    ("|", 1),
    ("^", 2),
    ("&", 3),
    ("+", 5),
    ("-", 5),
    ("*", 6),
    ("/", 6),
    ("%", 6),
];

/// Returns the value of a macro; `None` if it is neither a number nor a multiple of one name that
/// is not in `numbers`, plus a number.
pub(super) fn value(text: &str, numbers: &Numbers) -> Option<ValueExprKind> {
    let mut parser = Parser {
        rest: text,
        numbers,
        depth: 0,
    };
    let value = parser.binary(1)?;
    skip_blanks(parser.rest).is_empty().then(|| value.kind())
}

/// Returns the value of a macro whose text is at `span`, with the position of its name.
pub(super) fn expression(text: &str, span: Span, numbers: &Numbers) -> Option<ValueExpr> {
    let kind = value(text, numbers)?;
    let span = match &kind {
        ValueExprKind::Number(_) => span,
        ValueExprKind::Name(name) | ValueExprKind::Sum(name, _) => {
            let start = span.range().start + place(text, name)?;
            Span::new(span.text, start..start + name.len())
        }
    };
    Some(ValueExpr { span, kind })
}

/// Returns the number that a value is; `None` if it has a name that is not in `numbers`.
pub(super) fn number(value: &ValueExprKind, numbers: &Numbers) -> Option<i128> {
    match value {
        ValueExprKind::Number(number) => Some(*number),
        ValueExprKind::Name(name) => numbers.get(name.as_str()).copied(),
        ValueExprKind::Sum(name, sum) => sum.of(*numbers.get(name.as_str())?),
    }
}

/// Returns the offset of a name in a text.
fn place(text: &str, name: &str) -> Option<usize> {
    let mut places = text.match_indices(name).map(|(at, _)| at);
    places.find(|at| {
        let (before, after) = (&text[..*at], &text[at + name.len()..]);
        !before.ends_with(is_inner) && !after.starts_with(is_inner)
    })
}

/// Skips blanks, comments, and the ends of lines that continue.
pub(super) fn skip_blanks(mut rest: &str) -> &str {
    let blank = |c: char| c.is_whitespace() || c == '\\';
    loop {
        rest = rest.trim_start_matches(blank);
        rest = if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, rest)| rest)
        } else if rest.starts_with("//") {
            rest.split_once('\n').map_or("", |(_, rest)| rest)
        } else {
            return rest;
        };
    }
}

fn is_inner(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A value that depends on at most one name: `factor * name + addend`.
#[derive(Clone, Copy)]
struct Term<'p> {
    name: Option<&'p str>,
    factor: i128,
    addend: i128,
}

impl<'p> Term<'p> {
    fn number(addend: i128) -> Self {
        Self {
            name: None,
            factor: 0,
            addend,
        }
    }

    fn kind(self) -> ValueExprKind {
        let Self { factor, addend, .. } = self;
        match self.name {
            None => ValueExprKind::Number(addend),
            Some(name) if (factor, addend) == (1, 0) => ValueExprKind::Name(name.to_owned()),
            Some(name) => ValueExprKind::Sum(name.to_owned(), Linear { factor, addend }),
        }
    }

    /// Returns the sum; `None` if it depends on two names.
    fn plus(self, other: Self) -> Option<Self> {
        if self.name.is_some() && other.name.is_some() && self.name != other.name {
            return None;
        }
        Self {
            name: self.name.or(other.name),
            factor: self.factor.checked_add(other.factor)?,
            addend: self.addend.checked_add(other.addend)?,
        }
        .limited()
    }

    fn times(self, number: i128) -> Option<Self> {
        Self {
            name: self.name,
            factor: self.factor.checked_mul(number)?,
            addend: self.addend.checked_mul(number)?,
        }
        .limited()
    }

    /// Returns the value if its parts have at most 64 bits.
    fn limited(self) -> Option<Self> {
        let name = self.name.filter(|_| self.factor != 0);
        (number::fits(self.factor) && number::fits(self.addend)).then_some(Self { name, ..self })
    }

    fn as_number(self) -> Option<i128> {
        self.name.is_none().then_some(self.addend)
    }

    fn resolve(self, numbers: &Numbers) -> Option<i128> {
        let Some(name) = self.name else {
            return Some(self.addend);
        };
        let value = numbers.get(name)?.checked_mul(self.factor)?;
        value
            .checked_add(self.addend)
            .filter(|it| number::fits(*it))
    }

    /// Returns the value of an operation without the values of names; `None` if it needs them.
    fn apply(self, operator: &str, right: Self) -> Option<Self> {
        match (operator, self.as_number(), right.as_number()) {
            ("+", ..) => self.plus(right),
            ("-", ..) => self.plus(right.times(-1)?),
            ("*", _, Some(number)) => self.times(number),
            ("*", Some(number), None) => right.times(number),
            ("<<", _, Some(bits)) => self.times(1 << small(bits)?),
            (_, Some(left), Some(right)) => fold(left, operator, right).map(Self::number),
            _ => None,
        }
    }
}

/// Returns the number of bits of a shift.
fn small(bits: i128) -> Option<u32> {
    u32::try_from(bits).ok().filter(|bits| *bits < 64)
}

/// Returns the value of an operation that only numbers have.
fn fold(left: i128, operator: &str, right: i128) -> Option<i128> {
    match operator {
        "/" => left.checked_div(right),
        "%" => left.checked_rem(right),
        ">>" => Some(left >> small(right)?),
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        "&" => Some(left & right),
        _ => None,
    }
}

struct Parser<'p> {
    rest: &'p str,
    numbers: &'p Numbers,
    depth: usize,
}

impl<'p> Parser<'p> {
    /// Returns the value of operands whose operators have at least this precedence.
    fn binary(&mut self, least: u8) -> Option<Term<'p>> {
        let mut left = self.unary()?;
        loop {
            self.rest = skip_blanks(self.rest);
            let mut operators = OPERATORS.iter();
            let next = operators.find(|(operator, _)| self.rest.starts_with(operator));
            let Some((operator, precedence)) = next.filter(|(_, level)| *level >= least) else {
                return Some(left);
            };
            self.rest = &self.rest[operator.len()..];
            let right = self.binary(precedence + 1)?;
            left = left.apply(operator, right).or_else(|| {
                let number = |term: Term<'_>| term.resolve(self.numbers).map(Term::number);
                number(left)?.apply(operator, number(right)?)
            })?;
        }
    }

    /// Returns the value of an operand with its signs.
    fn unary(&mut self) -> Option<Term<'p>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let value = if self.take("-") {
            self.unary()?.times(-1)?
        } else if self.take("+") {
            self.unary()?
        } else if self.take("(") {
            let value = self.binary(1)?;
            self.take(")").then_some(value)?
        } else {
            self.operand()?
        };
        self.depth -= 1;
        Some(value)
    }

    /// Takes a sign if it is next.
    fn take(&mut self, sign: &str) -> bool {
        self.rest = skip_blanks(self.rest);
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Returns the value of a number or a name.
    fn operand(&mut self) -> Option<Term<'p>> {
        if let Some((code, rest)) = number::character(self.rest) {
            self.rest = rest;
            return Some(Term::number(code));
        }
        let end = self.rest.find(|c| !is_inner(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            return (!word.is_empty()).then_some(Term {
                name: Some(word),
                factor: 1,
                addend: 0,
            });
        }
        // C allows suffixes for the type of a number.
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        number::value(digits).ok().map(Term::number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_distinguished_from_other_macros() {
        let value = |text| value(text, &Numbers::default());
        let number = |number| Some(ValueExprKind::Number(number));
        assert_eq!(value("4"), number(4));
        assert_eq!(value(" ( 0x10 ) "), number(16));
        assert_eq!(value("10UL"), number(10));
        assert_eq!(value("0x10UL"), number(16));
        assert_eq!(value("-1"), number(-1));
        assert_eq!(value("(1<<3)"), number(8));
        assert_eq!(value("1 << 63"), number(1 << 63));
        assert_eq!(value("4*1024"), number(4096));
        assert_eq!(value("1+2*3 - (4 - 2)"), number(5));
        assert_eq!(value("10 - 2 - 1"), number(7));
        assert_eq!(value("7 / 2 + 7 % 4"), number(6));
        assert_eq!(value("1 | 6 & 4 ^ 1"), number(5));
        assert_eq!(value("256 >> 4"), number(16));
        assert_eq!(value("'a' + 1"), number(98));
        assert_eq!(value("1 /* one */ + /* two */ 2 // three"), number(3));
        assert_eq!(value("(1 + \\\n\t2)"), number(3));
        for other in [
            "", "()", "(a) a", "A+B", "A*B", "A/2", "1 <<", "1 << 64", "1<<-1", "\"text\"", "a.b",
            "f(x)", "é", "-", "+", "1 / 0", "1 || 2", "09", "1.5", "(int)4", "(1", "1)",
        ] {
            assert_eq!(value(other), None, "{other}");
        }
        let deep = "(".repeat(1 << 20);
        assert_eq!(value(&deep), None);
    }

    #[test]
    fn one_name_needs_no_value() {
        let value = |text| value(text, &Numbers::default());
        let sum = |factor, addend| {
            Some(ValueExprKind::Sum(
                "A".to_owned(),
                Linear { factor, addend },
            ))
        };
        assert_eq!(value("A"), Some(ValueExprKind::Name("A".to_owned())));
        assert_eq!(value("A+1"), sum(1, 1));
        assert_eq!(value("(A - 2)"), sum(1, -2));
        assert_eq!(value("3+A"), sum(1, 3));
        assert_eq!(value("(A)+1"), sum(1, 1));
        assert_eq!(value("A * 4"), sum(4, 0));
        assert_eq!(value("2 * (A + 3) - 1"), sum(2, 5));
        assert_eq!(value("10 - A"), sum(-1, 10));
        assert_eq!(value("A << 2"), sum(4, 0));
    }

    #[test]
    fn several_names_need_their_values() {
        let numbers = Numbers::from([("A".to_owned(), 6), ("B".to_owned(), 4)]);
        let value = |text| value(text, &numbers);
        assert_eq!(value("A + B"), Some(ValueExprKind::Number(10)));
        assert_eq!(value("A * B / 5"), Some(ValueExprKind::Number(4)));
        assert_eq!(value("A | 1"), Some(ValueExprKind::Number(7)));
        assert_eq!(value("A + C"), None);
    }
}
