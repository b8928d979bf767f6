//! Compares the definitions of a draft with the copies of them in its running text.

mod parts;

use std::collections::{HashMap, HashSet};

use crate::ast::{Definition, DefinitionKind, Specification};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{SourceMap, TextId};
use crate::spelling::nearest;
use parts::{Part, parts};

/// Compares each definition in the copies of a document with the definition of the same name in
/// that document's XDR. Reports the first difference: in kind, names, values, types, lengths or
/// order. A definition without a copy is not reported.
///
/// Notation does not matter: blanks, comments, `0x01` for `1`, `struct T` for `T`, the type of a
/// constant.
pub(crate) fn check(
    sources: &SourceMap,
    xdr: &[(TextId, &Specification)],
    copies: &[(TextId, &Specification)],
    diagnostics: &mut Diagnostics,
) {
    if !diagnostics.is_enabled(Code::Consistency) {
        return;
    }
    let comparison = Comparison::new(sources, xdr, copies);
    for copy in definitions(copies) {
        let difference = match comparison.compiled.get(copy.name.name.as_str()) {
            Some(compiled) => comparison.difference(compiled, copy),
            None => Some(comparison.missing(copy)),
        };
        if let Some(difference) = difference {
            diagnostics.report(difference);
        }
    }
}

fn definitions<'a>(
    texts: &'a [(TextId, &'a Specification)],
) -> impl Iterator<Item = &'a Definition> {
    texts
        .iter()
        .flat_map(|(_, specification)| &specification.definitions)
}

/// The definitions of a document, prepared for comparison.
struct Comparison<'a> {
    sources: &'a SourceMap,
    /// The compiled definitions, the first of each name.
    compiled: HashMap<&'a str, &'a Definition>,
    /// The compiled definitions without a copy, in document order.
    without_copy: Vec<&'a Definition>,
}

impl<'a> Comparison<'a> {
    fn new(
        sources: &'a SourceMap,
        xdr: &'a [(TextId, &'a Specification)],
        copies: &'a [(TextId, &'a Specification)],
    ) -> Self {
        let copied: HashSet<&str> = definitions(copies)
            .map(|copy| copy.name.name.as_str())
            .collect();
        let mut compiled = HashMap::new();
        for definition in definitions(xdr) {
            compiled
                .entry(definition.name.name.as_str())
                .or_insert(definition);
        }
        let without_copy = definitions(xdr)
            .filter(|definition| !copied.contains(definition.name.name.as_str()))
            .collect();
        Self {
            sources,
            compiled,
            without_copy,
        }
    }

    /// Returns the first difference between two definitions of one name.
    fn difference(&self, compiled: &Definition, copy: &Definition) -> Option<Diagnostic> {
        let (own, other) = (parts(compiled), parts(copy));
        let at = own
            .iter()
            .zip(&other)
            .take_while(|(own, other)| own.key == other.key)
            .count();
        let (mut of_own, mut of_other) = (own.get(at), other.get(at));
        if let (Some(first), Some(second)) = (of_own, of_other) {
            // If one side has an additional part, the other continues with the next.
            if at > 0 && own[at..].iter().any(|part| part.key == second.key) {
                of_other = None;
            } else if at > 0 && other[at..].iter().any(|part| part.key == first.key) {
                of_own = None;
            }
        }
        let diagnostic = |span, message| Diagnostic::new(Code::Consistency, span, message);
        Some(match (of_own, of_other) {
            (None, None) => return None,
            (Some(part), Some(copied)) => {
                let message = format!("the copy in the text has `{}`", self.source_line(copied));
                diagnostic(part.span, message)
                    .label("differs")
                    .note_at(copied.span, "the copy")
            }
            (Some(part), None) => {
                let message = format!("the copy in the text lacks `{}`", self.source_line(part));
                diagnostic(part.span, message).note_at(copy.name.span, "the copy")
            }
            (None, Some(copied)) => {
                let message = format!(
                    "the copy in the text has `{}` in addition",
                    self.source_line(copied)
                );
                diagnostic(compiled.name.span, message).note_at(copied.span, "the copy")
            }
        })
    }

    /// Reports a copy whose name no compiled definition has. A compiled definition may have a
    /// misspelled name.
    fn missing(&self, copy: &Definition) -> Diagnostic {
        let name = copy.name.name.as_str();
        let Some(original) = self.likely_original(copy) else {
            return Diagnostic::new(
                Code::Consistency,
                copy.name.span,
                format!("`{name}` is not in the XDR block"),
            );
        };
        let message = format!("`{}` is called `{name}` in the text", original.name.name);
        Diagnostic::new(Code::Consistency, original.name.span, message)
            .note_at(copy.name.span, "the copy")
            .fix(original.name.span, name, "use the name in the text")
    }

    /// Finds the definition of the copy's kind that has no copy and that has a similar name or the
    /// same body.
    fn likely_original(&self, copy: &Definition) -> Option<&'a Definition> {
        let kind = std::mem::discriminant(&copy.kind);
        let same_kind = || {
            self.without_copy
                .iter()
                .copied()
                .filter(|other| std::mem::discriminant(&other.kind) == kind)
        };
        let spelled = nearest(
            &copy.name.name,
            same_kind().map(|definition| definition.name.name.as_str()),
        );
        let named = |name| same_kind().find(|definition| definition.name.name == name);
        // The body of a constant or a typedef identifies nothing: many have the same value or type.
        let has_body = !matches!(
            copy.kind,
            DefinitionKind::Const { .. } | DefinitionKind::Text { .. } | DefinitionKind::Typedef(_)
        );
        let same_body =
            || same_kind().find(|other| has_body && bodies_equal(&parts(other), &parts(copy)));
        spelled.and_then(named).or_else(same_body)
    }

    /// Returns the source of a part on one line.
    fn source_line(&self, part: &Part) -> String {
        self.sources
            .slice(part.span)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Returns true if two definitions are equal except for their names.
fn bodies_equal(own: &[Part], other: &[Part]) -> bool {
    let keys = |parts: &[Part]| {
        parts
            .iter()
            .skip(1)
            .map(|part| part.key.clone())
            .collect::<Vec<_>>()
    };
    own.len() > 1 && keys(own) == keys(other)
}

#[cfg(test)]
mod tests;
