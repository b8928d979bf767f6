//! Applies the fixes that diagnostics suggest.

use std::collections::BTreeMap;
use std::ops::Range;

use super::place;
use crate::diagnostic::{Diagnostic, Fix};
use crate::source::{DocumentId, SourceMap};

/// A document with fixes applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedDocument {
    /// The document's name.
    pub name: String,
    /// Its text as published.
    pub old: String,
    /// Its text with the fixes.
    pub new: String,
    /// The number of fixes.
    pub fixes: usize,
}

/// Applies the suggested fixes, and returns the documents that they change. Nothing is written.
///
/// A fix is skipped if it is one of several for its defect, changes more than one line, overlaps
/// with another fix, or applies to a line that an erratum changed.
#[must_use]
pub fn fixed_documents(sources: &SourceMap, diagnostics: &[Diagnostic]) -> Vec<FixedDocument> {
    let mut changes: BTreeMap<DocumentId, Vec<(Range<usize>, &str)>> = BTreeMap::new();
    for diagnostic in diagnostics {
        let [fix] = diagnostic.fixes.as_slice() else {
            continue;
        };
        if place::changes_one_line(sources, fix) {
            let of_document = changes.entry(sources.text(fix.span.text).document());
            let change = (sources.document_range(fix.span), fix.replacement.as_str());
            of_document.or_default().push(change);
        }
    }
    let fixed = changes.into_iter();
    fixed
        .map(|(id, mut changes)| {
            let document = sources.document(id);
            changes.sort_by_key(|(range, _)| (range.start, range.end));
            let (new, fixes) = apply(document.text(), &changes);
            FixedDocument {
                name: document.name().to_owned(),
                old: document.text().to_owned(),
                new,
                fixes,
            }
        })
        .collect()
}

/// Returns the byte range of the document that a fix replaces. Returns `None` if the fix changes
/// more than one line, or is for a line that an erratum changed.
#[must_use]
pub fn fix_range(sources: &SourceMap, fix: &Fix) -> Option<Range<usize>> {
    place::changes_one_line(sources, fix).then(|| sources.document_range(fix.span))
}

/// Applies changes, which are ascending, and returns their number. Of two that overlap or begin at
/// one place, the second is left out.
fn apply(text: &str, changes: &[(Range<usize>, &str)]) -> (String, usize) {
    let (mut new, mut copied, mut last, mut count) = (String::new(), 0, None, 0);
    for (range, replacement) in changes {
        let parts = (text.get(copied..range.start), text.get(range.clone()));
        let (Some(before), Some(_)) = parts else {
            continue;
        };
        if last == Some(range.start) {
            continue;
        }
        new.push_str(before);
        new.push_str(replacement);
        (copied, last) = (range.end, Some(range.start));
        count += 1;
    }
    new.push_str(text.get(copied..).unwrap_or_default());
    (new, count)
}

#[cfg(test)]
mod tests {
    use super::apply;

    #[test]
    fn overlapping_changes_are_skipped() {
        let text = "one two three";
        let changes = [
            (0..3, "1"),
            (0..0, "again"),
            (2..5, "overlaps"),
            (4..7, "2"),
            (7..7, "!"),
            (8..99, "beyond"),
        ];
        assert_eq!(apply(text, &changes), ("1 2! three".to_owned(), 3));
        assert_eq!(apply(text, &[]), (text.to_owned(), 0));
    }
}
