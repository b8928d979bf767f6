//! The values of C macros that are constants of XDR: `4`, `(N)`, `N+1`, `1 << 3`.

use super::number;
use crate::ast::ValueExprKind;

/// Returns the value of a macro; `None` if it is more than a sum of a name and a number.
pub(super) fn value(text: &str) -> Option<ValueExprKind> {
    let text = text.trim();
    let inner = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'));
    let text = inner.unwrap_or(text).trim();
    // A sign at the start is part of a number.
    let end = text
        .char_indices()
        .find(|(at, c)| *at > 0 && !is_inner(*c))
        .map_or(text.len(), |(at, _)| at);
    let (first, rest) = text.split_at(end);
    let first = term(first)?;
    let rest = rest.trim();
    let Some(operator) = ["<<", "+", "-", "*"]
        .into_iter()
        .find(|operator| rest.starts_with(operator))
    else {
        return rest.is_empty().then_some(first);
    };
    let ValueExprKind::Number(second) = term(rest[operator.len()..].trim())? else {
        return None;
    };
    match (first, operator) {
        (ValueExprKind::Number(first), _) => {
            fold(first, operator, second).map(ValueExprKind::Number)
        }
        (ValueExprKind::Name(name), "+") => Some(ValueExprKind::Sum(name, second)),
        (ValueExprKind::Name(name), "-") => second
            .checked_neg()
            .map(|second| ValueExprKind::Sum(name, second)),
        _ => None,
    }
}

fn is_inner(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns a number or a name.
fn term(text: &str) -> Option<ValueExprKind> {
    // C allows suffixes for the type of a number.
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    if let Ok(number) = number::value(digits) {
        return (!digits.is_empty()).then_some(ValueExprKind::Number(number));
    }
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(is_inner);
    is_name.then(|| ValueExprKind::Name(text.to_owned()))
}

/// Returns the value of an operation; `None` if it has more than 64 bits.
fn fold(first: i128, operator: &str, second: i128) -> Option<i128> {
    let value = match operator {
        "+" => first.checked_add(second)?,
        "-" => first.checked_sub(second)?,
        "*" => first.checked_mul(second)?,
        _ => first.checked_mul(1 << u32::try_from(second).ok().filter(|bits| *bits < 64)?)?,
    };
    number::fits(value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_distinguished_from_other_macros() {
        let sum = |name: &str, number| Some(ValueExprKind::Sum(name.to_owned(), number));
        let number = |number| Some(ValueExprKind::Number(number));
        assert_eq!(value("4"), number(4));
        assert_eq!(value(" ( 0x10 ) "), number(16));
        assert_eq!(value("10UL"), number(10));
        assert_eq!(value("-1"), number(-1));
        assert_eq!(value("(1<<3)"), number(8));
        assert_eq!(value("1 << 63"), number(1 << 63));
        assert_eq!(value("4*1024"), number(4096));
        assert_eq!(value("A"), Some(ValueExprKind::Name("A".to_owned())));
        assert_eq!(value("A+1"), sum("A", 1));
        assert_eq!(value("(A - 2)"), sum("A", -2));
        for other in [
            "", "()", "(a) a", "A+B", "A*2", "1 <<", "1 << 64", "1<<-1", "\"text\"", "a.b", "f(x)",
            "1+1+1", "é", "-", "+",
        ] {
            assert_eq!(value(other), None, "{other}");
        }
    }
}
