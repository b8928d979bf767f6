//! Constants: RFC 4506, section 6.2, rules 4 to 6.

use std::fmt;

/// What is wrong with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// A character that the base does not have.
    Digit(char, &'static str),
    /// `0x` alone.
    NoDigits,
    /// `-0x1`.
    NegativeBase,
    /// Separators, as `1'000`.
    Separators,
    /// Over 64 bits.
    TooLarge,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digit(digit, base) => write!(f, "`{digit}` is no digit of {base} constant"),
            Self::NoDigits => f.write_str("expected hexadecimal digits after `0x`"),
            Self::NegativeBase => f.write_str("only a decimal constant can be negative"),
            Self::Separators => f.write_str("XDR has no digit separators"),
            Self::TooLarge => f.write_str("over 64 bits"),
        }
    }
}

impl Defect {
    /// The number as it was likely meant.
    pub(super) fn mended(self, word: &str) -> Option<String> {
        (self == Self::Separators).then(|| word.replace('\'', ""))
    }
}

/// The value of a number as written.
pub(super) fn value(word: &str) -> Result<i128, Defect> {
    let (negative, digits) = word.strip_prefix('-').map_or((false, word), |digits| (true, digits));
    if let Some(bare) = Defect::Separators.mended(digits).filter(|bare| bare != digits) {
        return Err(value(&bare).err().unwrap_or(Defect::Separators));
    }
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
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
    let magnitude = i128::from(u64::from_str_radix(digits, radix).map_err(|_| Defect::TooLarge)?);
    match negative {
        false => Ok(magnitude),
        true if radix != 10 => Err(Defect::NegativeBase),
        true if magnitude > i128::from(i64::MAX) + 1 => Err(Defect::TooLarge),
        true => Ok(-magnitude),
    }
}

/// The value of a malformed number, as near as can be told.
pub(super) fn guess(word: &str) -> i128 {
    value(&word.replace('\'', "")).unwrap_or_default()
}
