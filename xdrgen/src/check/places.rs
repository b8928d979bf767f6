//! Where names without a definition occur: in comments, `#define` lines, lines for C, and lines
//! that are not active.

use std::collections::HashMap;

use crate::check::ModuleInput;
use crate::diagnostic::Diagnostic;
use crate::source::{SourceMap, Span};

/// Where the undefined names of a module occur.
#[derive(Debug, Default)]
pub(crate) struct Places<'a> {
    /// The words of comments that contain a `/*`, before it, with the start of the comment.
    hidden: HashMap<&'a str, Span>,
    /// The names in the `#define` lines.
    defines: HashMap<&'a str, Span>,
    /// The names that lines for C define, with the first line that does.
    passed: HashMap<&'a str, Span>,
    /// The names that lines define that are not active, with the line of the condition.
    inactive: HashMap<&'a str, Span>,
}

impl<'a> Places<'a> {
    pub(crate) fn of(sources: &'a SourceMap, input: &'a ModuleInput) -> Self {
        let mut places = Self::default();
        for (_, specification) in &input.specifications {
            for span in &specification.hidden {
                let start = span.start as usize;
                let mark = Span::new(span.text, start..start + 2);
                for word in words(sources.slice(*span)) {
                    places.hidden.entry(word).or_insert(mark);
                }
            }
            for define in &specification.defines {
                places.defines.entry(&define.name).or_insert(define.span);
            }
            for lines in blocks(&specification.passed) {
                places.add_passed(sources, lines);
            }
            for lines in &specification.inactive {
                for (_, name) in defined(sources.slice(lines.lines)) {
                    places.inactive.entry(name).or_insert(lines.condition);
                }
            }
        }
        places
    }

    /// Adds the names that adjacent lines for C define.
    fn add_passed(&mut self, sources: &'a SourceMap, lines: &[Span]) {
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
            return;
        };
        for (at, name) in defined(sources.slice(first.to(*last))) {
            let at = first.start as usize + at;
            let line = lines.partition_point(|line| line.range().end <= at);
            if let Some(line) = lines.get(line) {
                self.passed.entry(name).or_insert(*line);
            }
        }
    }

    /// Adds where an undefined name may be defined: in a comment that hides its definition, in a
    /// line of the preprocessor, or in a file that a document of the module includes. Returns true
    /// for a line of the preprocessor or a `%` line, which the compiler does not read as XDR: then
    /// no other spelling is suggested.
    pub(crate) fn note(
        &self,
        input: &ModuleInput,
        name: &str,
        types: bool,
        found: Diagnostic,
    ) -> (Diagnostic, bool) {
        if let Some(span) = self.hidden.get(name) {
            let note = format!("this comment contains `{name}`");
            return (found.note_at(*span, note), false);
        }
        if let Some(span) = self.defines.get(name) {
            let note = format!("this line defines `{name}` for C alone: its value is not a number");
            return (found.note_at(*span, note), true);
        }
        if let Some(span) = self.passed.get(name) {
            let found = found.note_at(*span, format!("this line defines `{name}` for C alone"));
            let supply = "define it in XDR, too, or name its Rust type under `[extern]` in the \
                          manifest";
            return (if types { found.note(supply) } else { found }, true);
        }
        if let Some(span) = self.inactive.get(name) {
            let note = format!("a definition of `{name}` is in lines that this condition excludes");
            return (found.note_at(*span, note), true);
        }
        (note_includes(input, name, found), false)
    }
}

/// Adds included files that were not found and may define a name, at most three.
fn note_includes(input: &ModuleInput, name: &str, found: Diagnostic) -> Diagnostic {
    /// A longer list of includes would not help the reader.
    const MAX_INCLUDES: usize = 3;
    let specifications = input.specifications.iter();
    let includes = specifications.flat_map(|(_, specification)| &specification.includes);
    let mut noted = found;
    let mut some = false;
    for span in includes.take(MAX_INCLUDES) {
        some = true;
        noted = noted.note_at(*span, format!("`{name}` may come from this file"));
    }
    if some {
        noted = noted.note(
            "no XDR of that include is beside the document: `--include DIR`, or `include` in the \
             manifest, names other folders",
        );
    }
    noted
}

/// Splits lines into those that are adjacent: between two of them is only the end of a line.
fn blocks(lines: &[Span]) -> impl Iterator<Item = &[Span]> {
    lines.chunk_by(|one, next| next.start.saturating_sub(one.end) <= 2)
}

fn is_word(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let pieces = pieces(text).map(|(_, piece)| piece);
    pieces.filter(|piece| is_word(piece))
}

/// Splits a text into its words and signs, each with its offset.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let first = rest.chars().next()?;
        let word = rest.find(|c| !inner(c)).unwrap_or(rest.len());
        let at = text.len() - rest.len();
        let (piece, after) = rest.split_at(if word > 0 { word } else { first.len_utf8() });
        rest = after;
        Some((at, piece))
    })
}

/// Returns the names that a text appears to define, with their offsets: the text is XDR with lines
/// of the preprocessor and for C, and its comments count as text.
fn defined(text: &str) -> Vec<(usize, &str)> {
    let pieces: Vec<(usize, &str)> = pieces(text).filter(|(_, piece)| *piece != "%").collect();
    let at = |at: usize| pieces.get(at).map_or("", |(_, piece)| *piece);
    let mut names = Vec::new();
    let mut in_typedef = false;
    for (place, (offset, name)) in pieces
        .iter()
        .enumerate()
        .filter(|(_, (_, piece))| is_word(piece))
    {
        let before = place.checked_sub(1).map_or("", at);
        in_typedef = *name == "typedef" || in_typedef && before != ";";
        let is_defined = match (before, at(place + 1)) {
            ("const" | "define", _) | (_, "=") => true,
            ("struct" | "enum", next) => next == "{",
            ("union", next) => next == "switch",
            ("program", next) => next == "{",
            (_, ";" | "[" | "<") => in_typedef,
            _ => false,
        };
        if is_defined {
            names.push((*offset, *name));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_without_a_parser() {
        let text = "\n#define M 3\nstruct s { struct t a; opaque b<M>; };\nconst C = D;\n\
                    typedef T u<N>; typedef opaque v[4]; enum e { A = 1 };\n\
                    %typedef struct {\n%} q;\n\
                    union w switch (int k) { case A: void; };\nprogram P { } = 4;\nu x;\n";
        let found = defined(text);
        assert!(found.iter().all(|(at, name)| text[*at..].starts_with(name)));
        let names: Vec<&str> = found.iter().map(|(_, name)| *name).collect();
        assert_eq!(names, ["M", "s", "C", "u", "v", "e", "A", "q", "w", "P"]);
    }
}
