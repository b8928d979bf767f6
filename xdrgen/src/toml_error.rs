//! The errors of TOML in manifests and errata files, as diagnostics. For an unknown key or value,
//! the error suggests the most similar name that is expected there.

use std::ops::Range;

use crate::diagnostic::{Code, Diagnostic};
use crate::source::{SourceMap, Span, TextId};
use crate::spelling::nearest;

/// Returns the diagnostic for an error in a text.
pub(crate) fn diagnostic(sources: &SourceMap, text: TextId, error: &toml::de::Error) -> Diagnostic {
    let message = error.message();
    let range = error.span().unwrap_or(0..0);
    let found = Diagnostic::new(Code::Configuration, Span::new(text, range.clone()), message);
    match unknown(message) {
        Some((name, expected)) => {
            let place = unquoted(sources.text(text).content(), range, name);
            suggest(
                found,
                place.map(|range| Span::new(text, range)),
                name,
                expected,
            )
        }
        None => found,
    }
}

/// Adds the candidate with the most similar name, as a fix of the name at `place`.
pub(crate) fn suggest<'n>(
    found: Diagnostic,
    place: Option<Span>,
    name: &str,
    candidates: impl Iterator<Item = &'n str>,
) -> Diagnostic {
    let Some(near) = nearest(name, candidates) else {
        return found;
    };
    let message = format!("`{near}` exists");
    match place {
        Some(span) => found.fix(span, near, message),
        None => found.note(message),
    }
}

/// Returns the unknown name of a message of serde, and the names that it lists instead.
fn unknown(message: &str) -> Option<(&str, impl Iterator<Item = &str>)> {
    let rest = message
        .strip_prefix("unknown field `")
        .or_else(|| message.strip_prefix("unknown variant `"))?;
    let (name, expected) = rest.split_once("`, expected ")?;
    Some((name, expected.split('`').skip(1).step_by(2)))
}

/// Returns the range of a name that may be in quotes.
fn unquoted(content: &str, range: Range<usize>, name: &str) -> Option<Range<usize>> {
    let written = content.get(range.clone())?;
    let start = range.start + written.find(name)?;
    let quoted = written.trim_matches(['"', '\'']);
    (quoted == name).then_some(start..start + name.len())
}

#[cfg(test)]
mod tests {
    use super::unknown;

    #[test]
    fn messages_list_the_expected_names() {
        let expected = |message| {
            let (name, expected) = unknown(message)?;
            Some((name, expected.collect::<Vec<_>>()))
        };
        for (message, names) in [
            (
                "unknown field `a`, expected one of `b`, `c`, `d`",
                Some(("a", vec!["b", "c", "d"])),
            ),
            (
                "unknown variant `a`b`, expected `c` or `d`",
                Some(("a`b", vec!["c", "d"])),
            ),
            ("unknown field `a`, there are no fields", None),
            ("missing field `a`", None),
        ] {
            assert_eq!(expected(message), names, "{message}");
        }
    }
}
