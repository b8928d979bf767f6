//! Evaluates the expressions of `#if` and `#elif`: integers, macros, `defined`, parentheses, and
//! the operators of C except division, shifts, those of bits and `?:`. The value of a macro may
//! have them: `macros` evaluates it. `preprocessor` treats a condition that is an error here as
//! true. The limits bound the stack and the time, so that no input can exhaust either.

use std::collections::HashMap;

use super::{macros, number};
use crate::ast::ValueExprKind;

/// The macros of a text with their values.
pub(super) type Macros<'t> = HashMap<&'t str, &'t str>;

/// The maximum depth of parentheses and signs, and of macros whose value is a macro.
const MAX_DEPTH: usize = 32;

/// The maximum length of the value of a macro that is a number: a value is read at each use.
const MAX_VALUE: usize = 64;

/// The binary operators with their precedence. Those that begin with another one precede it.
const OPERATORS: [(&str, u8); 11] = [
    ("||", 1),
    ("&&", 2),
    ("==", 3),
    ("!=", 3),
    ("<=", 4),
    (">=", 4),
    ("<", 4),
    (">", 4),
    ("+", 5),
    ("-", 5),
    ("*", 6),
];

/// Returns the value of a condition, in which an undefined macro is 0, as in C, and the macro
/// `predefined` is 1.
///
/// # Errors
/// Returns what is not understood.
pub(super) fn evaluate(
    condition: &str,
    macros: &Macros<'_>,
    predefined: Option<&str>,
) -> Result<bool, String> {
    let mut parser = Parser {
        rest: condition,
        macros,
        predefined,
        depth: 0,
    };
    let value = parser.binary(1)?;
    parser.skip_blanks();
    if parser.rest.is_empty() {
        return Ok(value != 0);
    }
    Err(format!("`{}` is not understood", parser.shown()))
}

struct Parser<'p> {
    rest: &'p str,
    macros: &'p Macros<'p>,
    predefined: Option<&'p str>,
    depth: usize,
}

impl<'p> Parser<'p> {
    fn skip_blanks(&mut self) {
        self.rest = macros::skip_blanks(self.rest);
    }

    /// Returns the rest for a message.
    fn shown(&self) -> String {
        let line = self.rest.chars().take_while(|c| *c != '\n');
        line.take(32).collect()
    }

    /// Takes a sign if it is next.
    fn take(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes a name or a number; it is empty if another character is next.
    fn word(&mut self) -> &'p str {
        self.skip_blanks();
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    /// Returns the value of operands whose operators have at least this precedence.
    fn binary(&mut self, least: u8) -> Result<i128, String> {
        let mut left = self.unary()?;
        loop {
            self.skip_blanks();
            let next = OPERATORS
                .iter()
                .find(|(operator, _)| self.rest.starts_with(operator));
            let Some((operator, precedence)) = next.filter(|(_, level)| *level >= least) else {
                return Ok(left);
            };
            // A longer sign, such as `<<`, has no operand here.
            self.rest = &self.rest[operator.len()..];
            let right = self.binary(precedence + 1)?;
            left = apply(left, operator, right).ok_or("a value has more than 127 bits")?;
        }
    }

    /// Returns the value of an operand with its signs.
    fn unary(&mut self) -> Result<i128, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("it is nested too deep".to_owned());
        }
        let value = if self.take("!") {
            i128::from(self.unary()? == 0)
        } else if self.take("-") {
            let value = self.unary()?.checked_neg();
            value.ok_or("a value has more than 127 bits")?
        } else if self.take("+") {
            self.unary()?
        } else if self.take("(") {
            let value = self.binary(1)?;
            self.close()?;
            value
        } else {
            self.operand()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn close(&mut self) -> Result<(), String> {
        if self.take(")") {
            return Ok(());
        }
        Err(match self.rest.is_empty() {
            true => "a `(` has no `)`".to_owned(),
            false => format!("`{}` is not understood", self.shown()),
        })
    }

    /// Returns the value of a number, a macro, or `defined`.
    fn operand(&mut self) -> Result<i128, String> {
        self.skip_blanks();
        let shown = self.shown();
        let word = self.word();
        if word == "defined" {
            let in_parentheses = self.take("(");
            let name = self.word();
            if !is_name(name) {
                return Err("`defined` has no name".to_owned());
            }
            if in_parentheses {
                self.close()?;
            }
            return Ok(i128::from(self.macro_value(name).is_some()));
        }
        if self.rest.starts_with('(') {
            return Err(format!("`{shown}` is not understood"));
        }
        match word {
            "" if shown.is_empty() => Err("a value is missing".to_owned()),
            "" => Err(format!("`{shown}` is not understood")),
            _ => self.value_of(word),
        }
    }

    /// Returns the value of a macro; `None` if it is not defined.
    fn macro_value(&self, name: &str) -> Option<&'p str> {
        if self.predefined == Some(name) {
            return Some("1");
        }
        self.macros.get(name).copied()
    }

    /// Returns the value of a number or a macro.
    fn value_of(&self, word: &str) -> Result<i128, String> {
        let mut value = word;
        for _ in 0..MAX_DEPTH {
            if value.len() > MAX_VALUE {
                break;
            }
            let joined = value.replace("\\\r\n", " ").replace("\\\n", " ");
            let joined = joined.trim();
            if let Some(number) = integer(joined).or_else(|| constant(joined)) {
                return Ok(number);
            }
            if !is_name(joined) {
                break;
            }
            match self.macro_value(joined) {
                None => return Ok(0),
                Some(next) => value = next,
            }
        }
        Err(format!("the value of `{word}` is not a number"))
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the value of a number, which may have a suffix for its type.
fn integer(word: &str) -> Option<i128> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    is_number.then(|| number::value(digits).ok()).flatten()
}

/// Returns the value of a macro such as `1 << 3`.
fn constant(value: &str) -> Option<i128> {
    match macros::value(value, &macros::Numbers::default())? {
        ValueExprKind::Number(number) => Some(number),
        ValueExprKind::Name(_) | ValueExprKind::Sum(..) => None,
    }
}

fn apply(left: i128, operator: &str, right: i128) -> Option<i128> {
    let holds = match operator {
        "||" => left != 0 || right != 0,
        "&&" => left != 0 && right != 0,
        "==" => left == right,
        "!=" => left != right,
        "<=" => left <= right,
        ">=" => left >= right,
        "<" => left < right,
        ">" => left > right,
        "+" => return left.checked_add(right),
        "-" => return left.checked_sub(right),
        _ => return left.checked_mul(right),
    };
    Some(i128::from(holds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(condition: &str) -> Result<bool, String> {
        let macros = [
            ("A", "1"),
            ("V", "2"),
            ("W", "V"),
            ("E", ""),
            ("X", "X"),
            ("F", "f(1)"),
            ("S", "1 << 3"),
            ("L", "\\\n  2"),
        ];
        evaluate(condition, &macros.into_iter().collect(), None)
    }

    #[test]
    fn conditions_are_evaluated_as_in_c() {
        for holds in [
            "1",
            "A",
            "!B",
            "A || B",
            "B||A",
            "V >= 2",
            "W == 2",
            "V>1 && !defined(B)",
            "defined A",
            "defined ( A ) && ! defined B",
            "(A && B) || V != 3",
            "B && C || A",
            "1 + 2 * 3 == 7",
            "5 - 2 - 1 == 2",
            "-1 < 0",
            "0x10u == 16L",
            "010 < 9",
            "A \\\n && V",
            "defined E",
            "S == 8",
            "L == 2",
            "B /* || B */ || A // && B",
        ] {
            assert_eq!(value(holds), Ok(true), "{holds}");
        }
        for fails in [
            "0",
            "B",
            "!A",
            "A && B",
            "V < 2",
            "V<=1",
            "!(A)",
            "defined(B)",
        ] {
            assert_eq!(value(fails), Ok(false), "{fails}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for (condition, message) in [
            ("", "a value is missing"),
            ("A ||", "a value is missing"),
            ("A ? 1 : 0", "`? 1 : 0` is not understood"),
            ("V << 1", "`< 1` is not understood"),
            ("V(2)", "`V(2)` is not understood"),
            (
                "__has_include(<a.h>)",
                "`__has_include(<a.h>)` is not understood",
            ),
            ("(A", "a `(` has no `)`"),
            ("A)", "`)` is not understood"),
            ("(V & 1)", "`& 1)` is not understood"),
            ("A B", "`B` is not understood"),
            ("E", "the value of `E` is not a number"),
            ("X", "the value of `X` is not a number"),
            ("F", "the value of `F` is not a number"),
            ("09", "the value of `09` is not a number"),
            ("'a'", "`'a'` is not understood"),
            ("defined", "`defined` has no name"),
            (
                "170141183460469231731687303715884105727 + 1",
                "a value has more than 127 bits",
            ),
        ] {
            assert_eq!(value(condition), Err(message.to_owned()), "{condition}");
        }
    }

    /// The depth is bounded, and long conditions take linear time.
    #[test]
    fn long_conditions_are_safe() {
        for deep in ["!", "(", "- "] {
            let deep = format!("{}1", deep.repeat(1 << 20));
            assert_eq!(value(&deep), Err("it is nested too deep".to_owned()));
        }
        assert_eq!(value(&format!("{}1", "A || ".repeat(1 << 18))), Ok(true));
        assert!(value(&"1 ".repeat(1 << 20)).is_err());
    }
}
