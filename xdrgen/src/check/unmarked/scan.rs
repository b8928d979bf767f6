//! Finds the constructs of the XDR that lines without a marker interrupt.

use super::gaps::Gap;
use crate::parse::Preprocessor;
use crate::source::{SourceMap, Span, TextId};

/// The words that begin a definition or an arm.
const BEGINNINGS: [&str; 8] = [
    "typedef", "const", "struct", "enum", "union", "program", "case", "default",
];

/// A construct that has not ended: a brace, a comment, or a declaration.
#[derive(Clone, Copy, Debug)]
struct Open {
    what: &'static str,
    start: usize,
    length: usize,
}

/// Returns, for each gap, the start of the construct that its lines interrupt. `fragments` says
/// whether the document has members and arms without a definition around them.
pub(super) fn interruptions(
    sources: &SourceMap,
    xdr: TextId,
    gaps: &[Gap],
    fragments: bool,
) -> Vec<Option<(&'static str, Span)>> {
    let text = sources.text(xdr);
    let mut scan = Scan::new(text.content(), fragments);
    let mut lines = text.lines().peekable();
    let mut offset = 0;
    let of_gap = |gap: &Gap| {
        while let Some((_, line)) = lines.next_if(|(number, _)| *number <= gap.previous_marker) {
            scan.line(line, offset);
            offset += line.len() + 1;
        }
        let open = scan.open()?;
        Some((
            open.what,
            Span::new(xdr, open.start..open.start + open.length),
        ))
    };
    gaps.iter().map(of_gap).collect()
}

/// The constructs that are open in the XDR that was read so far.
#[derive(Debug, Default)]
struct Scan<'t> {
    content: &'t str,
    /// Whether members and arms may be outside of a definition.
    fragments: bool,
    preprocessor: Preprocessor<'t>,
    /// The start of a directive that the next line continues.
    directive: Option<usize>,
    comment: Option<usize>,
    braces: Vec<usize>,
    /// The first word of a definition without its `;`.
    pending: Option<Open>,
}

impl<'t> Scan<'t> {
    fn new(content: &'t str, fragments: bool) -> Self {
        Self {
            content,
            fragments,
            ..Self::default()
        }
    }

    fn open(&self) -> Option<Open> {
        let sign = |what, start, length| Open {
            what,
            start,
            length,
        };
        let comment = self.comment.map(|at| sign("this comment", at, 2));
        let brace = self.braces.last().map(|at| sign("this `{`", *at, 1));
        // No sign ends the last member of a fragment.
        let is_member = |open: &Open| self.fragments && !BEGINNINGS.contains(&self.word(*open));
        let pending = self.pending.filter(|open| !is_member(open));
        comment.or(brace).or(pending)
    }

    /// Returns the text of a construct's start.
    fn word(&self, open: Open) -> &'t str {
        let word = self.content.get(open.start..open.start + open.length);
        word.unwrap_or_default()
    }

    /// Reads one line at `offset` of the text.
    fn line(&mut self, line: &str, offset: usize) {
        if self.comment.is_none() && self.is_for_another_tool(line, offset) {
            return;
        }
        let mut at = 0;
        while let Some(first) = line[at..].chars().next() {
            let rest = &line[at..];
            if self.comment.is_some() {
                let Some(end) = rest.find("*/") else { return };
                self.comment = None;
                at += end + 2;
            } else if rest.starts_with("/*") {
                self.comment = Some(offset + at);
                at += 2;
            } else if rest.starts_with("//") {
                return;
            } else {
                self.sign(first, rest, offset + at);
                at += first.len_utf8();
            }
        }
    }

    /// Returns true for a directive, a `%` line, and a line of a condition that does not hold.
    fn is_for_another_tool(&mut self, line: &str, offset: usize) -> bool {
        let first = line.trim_start();
        if self.directive.is_none() && !first.starts_with('#') {
            return first.starts_with('%') || !self.preprocessor.is_active();
        }
        let start = *self.directive.get_or_insert(offset);
        if !line.trim_end().ends_with('\\') {
            self.directive = None;
            let lines = self.content.get(start..offset + line.len());
            self.preprocessor
                .line(lines.unwrap_or_default().trim_start());
        }
        true
    }

    /// Returns true if the first word of a definition without its `;` is `namespace`.
    fn is_namespace(&self) -> bool {
        self.pending
            .is_some_and(|open| self.word(open) == "namespace")
    }

    fn sign(&mut self, first: char, rest: &str, start: usize) {
        match first {
            // A namespace ends without a `;`, and is not one definition.
            '{' if self.braces.is_empty() && self.is_namespace() => self.pending = None,
            '{' => self.braces.push(start),
            '}' => {
                self.braces.pop();
            }
            ';' if self.braces.is_empty() => self.pending = None,
            ',' if self.braces.is_empty() && self.fragments => self.pending = None,
            _ if first.is_whitespace() || self.pending.is_some() => {}
            _ => {
                let length = rest
                    .find(|c: char| !c.is_alphanumeric())
                    .unwrap_or(rest.len());
                self.pending.get_or_insert(Open {
                    what: "this definition",
                    start,
                    length: length.max(first.len_utf8()),
                });
            }
        }
    }
}
