//! Constants: RFC 4506, section 6.2, rules 4 to 6.
//!
//! This module decides what a number is and which [`Defect`] another word has. The lexer reports
//! the defect; `parse::value` then takes [`guess`] silently. [`fits`] is the limit of 64 bits,
//! which `definition::width` reports as a lint, because `i128` also holds constants that no type
//! has.

use std::fmt;

/// A defect of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// A character that is not a digit of the base.
    Digit(char, &'static str),
    /// `0x` without digits.
    NoDigits,
    /// A negative hexadecimal or octal constant: `-0x1`.
    NegativeBase,
    /// Digit separators: `1'000`, `1_000`.
    Separators,
    /// A suffix for the type: `16UL`.
    Suffix,
    /// A binary constant: `0b101`.
    Binary,
    /// More than 127 bits.
    TooLarge,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digit(digit, base) => write!(f, "`{digit}` is not a digit of {base} constant"),
            Self::NoDigits => f.write_str("expected hexadecimal digits after `0x`"),
            Self::NegativeBase => f.write_str("only a decimal constant can be negative"),
            Self::Suffix => f.write_str("a constant of XDR has no suffix for its type"),
            Self::Binary => f.write_str("XDR has no binary constants"),
            Self::Separators => f.write_str("XDR has no digit separators"),
            Self::TooLarge => f.write_str("more than 127 bits"),
        }
    }
}

impl Defect {
    /// Returns the likely intended number.
    pub(super) fn corrected(self, word: &str) -> Option<String> {
        match self {
            Self::Separators => Some(without_separators(word)),
            Self::Suffix => Some(word.trim_end_matches(SUFFIXES).to_owned()),
            Self::Binary => binary(word).map(|number| number.to_string()),
            _ => None,
        }
    }
}

/// Returns the value of a number.
pub(super) fn value(word: &str) -> Result<i128, Defect> {
    let (negative, digits) = word
        .strip_prefix('-')
        .map_or((false, word), |digits| (true, digits));
    let bare = without_separators(digits);
    if bare != digits {
        return Err(value(&bare).err().unwrap_or(Defect::Separators));
    }
    if binary(digits).is_some() {
        return Err(Defect::Binary);
    }
    let unsuffixed = digits.trim_end_matches(SUFFIXES);
    if unsuffixed.len() < digits.len() && !unsuffixed.is_empty() {
        return Err(value(unsuffixed).err().unwrap_or(Defect::Suffix));
    }
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let (digits, radix, base) = match hexadecimal {
        Some(digits) => (digits, 16, "a hexadecimal"),
        None if digits.len() > 1 && digits.starts_with('0') => (digits, 8, "an octal"),
        None => (digits, 10, "a decimal"),
    };
    if let Some(digit) = digits.chars().find(|digit| !digit.is_digit(radix)) {
        return Err(Defect::Digit(digit, base));
    }
    if digits.is_empty() {
        return Err(Defect::NoDigits);
    }
    let magnitude = i128::from_str_radix(digits, radix).map_err(|_| Defect::TooLarge)?;
    match negative {
        false => Ok(magnitude),
        true if radix != 10 => Err(Defect::NegativeBase),
        true => Ok(-magnitude),
    }
}

/// The letters of the suffixes of C for the type of a number.
const SUFFIXES: [char; 4] = ['u', 'U', 'l', 'L'];

fn without_separators(word: &str) -> String {
    word.replace(['\'', '_'], "")
}

/// Returns the value of a binary constant of C.
fn binary(word: &str) -> Option<i128> {
    let digits = word
        .strip_prefix("0b")
        .or_else(|| word.strip_prefix("0B"))?;
    i128::from_str_radix(digits, 2)
        .ok()
        .filter(|number| fits(*number))
}

/// Returns the value of the character constant of C at the start of a text, such as `'a'` or
/// `'\\n'`, and the text after it.
pub(super) fn character(text: &str) -> Option<(i128, &str)> {
    let quoted = text.strip_prefix('\'')?;
    let (code, rest) = match quoted.strip_prefix('\\') {
        Some(escape) => escaped(escape)?,
        None => {
            let first = quoted.chars().next()?;
            let is_plain = first.is_ascii() && !first.is_ascii_control() && first != '\'';
            (is_plain.then_some(u32::from(first))?, &quoted[1..])
        }
    };
    Some((code.into(), rest.strip_prefix('\'')?))
}

/// Returns the character of an escape sequence after its backslash, and the text after it.
fn escaped(text: &str) -> Option<(u32, &str)> {
    let digits = |text: &str, radix: u32, most: usize| {
        let digits = text.chars().take(most).take_while(|c| c.is_digit(radix));
        digits.count()
    };
    let (start, radix, count) = match text.strip_prefix('x') {
        Some(text) => (1, 16, digits(text, 16, 2)),
        None => (0, 8, digits(text, 8, 3)),
    };
    if count > 0 {
        let (number, rest) = text[start..].split_at(count);
        let code = u32::from_str_radix(number, radix).ok()?;
        return Some((code, rest)).filter(|_| code < 0x100);
    }
    let first = text.chars().next()?;
    let code = match first {
        'a' => 7,
        'b' => 8,
        't' => 9,
        'n' => 10,
        'v' => 11,
        'f' => 12,
        'r' => 13,
        '\\' | '\'' | '"' | '?' => u32::from(first),
        _ => return None,
    };
    Some((code, &text[1..]))
}

/// Returns the likely value of a malformed number.
pub(super) fn guess(word: &str) -> i128 {
    if let Some((code, _)) = character(word) {
        return code;
    }
    let (negative, digits) = word
        .strip_prefix('-')
        .map_or((false, word), |it| (true, it));
    let bare = without_separators(digits);
    let magnitude = binary(&bare).or_else(|| value(bare.trim_end_matches(SUFFIXES)).ok());
    let magnitude = magnitude.unwrap_or_default();
    if negative { -magnitude } else { magnitude }
}

/// Returns true if a number fits in 64 bits, signed or unsigned.
pub(super) fn fits(number: i128) -> bool {
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number)
}
