//! Renders changes: for people, and as JSON for tools, which rely on the keys that [`json`]
//! documents.

use serde::Serialize;

use super::Change;
use crate::source::{SourceMap, Span};

/// Renders changes, each with its class and its positions in both schemas:
///
/// ```text
/// extending: enum `kind`: the member `LINK` = 2 was added
///   old: old.x:1:6
///   new: new.x:1:24
/// ```
#[must_use]
pub fn text(changes: &[Change], old: &SourceMap, new: &SourceMap) -> String {
    let mut text = String::new();
    for change in changes {
        text += &format!("{}: {}\n", change.class.name(), change.message);
        for (which, sources, span) in [("old", old, change.old), ("new", new, change.new)] {
            if let Some(span) = span {
                text += &format!("  {which}: {}\n", sources.locate(span));
            }
        }
    }
    text
}

/// Renders changes as JSON: one object per line, with a line end after each. The keys are `class`,
/// `message`, `old` and `new`. The last two are `null`, or objects with `file`, `line` and
/// `column`, which count from 1.
#[must_use]
pub fn json(changes: &[Change], old: &SourceMap, new: &SourceMap) -> String {
    let lines = changes.iter().filter_map(|change| {
        let line = Json {
            class: change.class.name(),
            message: &change.message,
            old: change.old.map(|span| Place::of(old, span)),
            new: change.new.map(|span| Place::of(new, span)),
        };
        // Serialization cannot fail: the object contains no maps and no custom serializers.
        Some(serde_json::to_string(&line).ok()? + "\n")
    });
    lines.collect()
}

#[derive(Serialize)]
struct Json<'s> {
    class: &'static str,
    message: &'s str,
    old: Option<Place<'s>>,
    new: Option<Place<'s>>,
}

#[derive(Serialize)]
struct Place<'s> {
    file: &'s str,
    line: usize,
    column: usize,
}

impl<'s> Place<'s> {
    fn of(sources: &'s SourceMap, span: Span) -> Self {
        let place = sources.locate(span);
        Self {
            file: sources.document_of(span).name(),
            line: place.line,
            column: place.column,
        }
    }
}
