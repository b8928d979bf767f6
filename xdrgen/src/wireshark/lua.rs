//! Lua values, and their source text. All text from documents passes through `quote`, so that no
//! text can end its string in the script. The keys of `Record` are written as they are and must be
//! Lua names.

use std::fmt;

/// A constant Lua expression.
#[derive(Clone, Debug)]
pub(super) enum LuaValue {
    Bool(bool),
    Integer(i128),
    Text(String),
    /// A table with the keys 1, 2, ...
    List(Vec<Self>),
    /// A table with names as keys.
    Record(Vec<(&'static str, Self)>),
    /// A table from numbers to texts.
    Names(Vec<(i128, String)>),
}

impl LuaValue {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns a Lua index, which starts at 1.
    pub(super) fn index(index: usize) -> Self {
        Self::Integer(i128::try_from(index).unwrap_or(i128::MAX) + 1)
    }

    pub(super) fn optional(bound: Option<u32>) -> Self {
        bound.map_or(Self::Bool(false), |bound| Self::Integer(bound.into()))
    }
}

impl fmt::Display for LuaValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Text(text) => quote(text, f),
            Self::List(values) => {
                f.write_str("{ ")?;
                for value in values {
                    write!(f, "{value}, ")?;
                }
                f.write_str("}")
            }
            Self::Record(entries) => {
                f.write_str("{ ")?;
                for (key, value) in entries {
                    write!(f, "{key} = {value}, ")?;
                }
                f.write_str("}")
            }
            Self::Names(names) => {
                f.write_str("{ ")?;
                for (number, name) in names {
                    write!(f, "[{number}] = ")?;
                    quote(name, f)?;
                    f.write_str(", ")?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Writes a Lua string. Bytes that are not printable ASCII are escaped.
fn quote(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
            b' '..=b'~' => write!(f, "{}", char::from(byte))?,
            _ => write!(f, "\\{byte:03}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::LuaValue;

    #[test]
    fn text_is_escaped() {
        let text = LuaValue::text("a\"b\\c\nd\u{e9}\0");
        assert_eq!(text.to_string(), r#""a\"b\\c\010d\195\169\000""#);
    }

    #[test]
    fn tables_are_written_as_constructors() {
        let names = LuaValue::Names(vec![(-1, "MINUS".into()), (2, "TWO".into())]);
        let record = LuaValue::Record(vec![
            ("at", LuaValue::index(0)),
            ("max", LuaValue::optional(None)),
            ("names", names),
            ("of", LuaValue::List(vec![LuaValue::Bool(true)])),
        ]);
        assert_eq!(
            record.to_string(),
            r#"{ at = 1, max = false, names = { [-1] = "MINUS", [2] = "TWO", }, of = { true, }, }"#
        );
    }
}
