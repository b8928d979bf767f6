//! Finds the lines of a document without a marker, between lines that have one.

use crate::extract::{CodeMark, Markers, Place, UnmarkedLine, code_mark, strip_marker};
use crate::outline::page::header_footer_lines;
use crate::source::{Document, DocumentId, SourceMap, TextId};

/// Lines without a marker between two lines that have one, or after the last.
#[derive(Debug, Default)]
pub(super) struct Gap {
    /// The line before the first; 0 if no line with a marker precedes.
    pub(super) after: usize,
    /// The paragraphs, without page breaks.
    pub(super) runs: Vec<Run>,
    /// The line after the last, if it has a marker.
    pub(super) before: Option<usize>,
}

/// A paragraph: its first and its last line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) place: Place,
}

impl Gap {
    /// Adds a line to the last paragraph, or begins one.
    fn push(&mut self, number: usize, place: Place) {
        let continues = |run: &&mut Run| run.last + 1 == number && run.place == place;
        match self.runs.last_mut().filter(continues) {
            Some(run) => run.last = number,
            None => self.runs.push(Run {
                first: number,
                last: number,
                place,
            }),
        }
    }
}

/// The contents of the lines without a marker, where they are not the lines of the document.
pub(super) struct Contents<'m>(&'m [UnmarkedLine]);

impl<'m> Contents<'m> {
    pub(super) fn of(markers: &'m Markers) -> Self {
        Self(match markers {
            Markers::Blocks(lines) => lines,
            Markers::None | Markers::Lines => &[],
        })
    }

    pub(super) fn get(&self, number: usize) -> Option<&'m UnmarkedLine> {
        let at = self.0.binary_search_by_key(&number, |line| line.number);
        at.ok().and_then(|at| self.0.get(at))
    }
}

/// Returns the gaps of a document, with one before the first marker and one after the last; none
/// if its XDR has no markers.
pub(super) fn gaps(
    sources: &SourceMap,
    document: DocumentId,
    xdr: TextId,
    markers: &Markers,
) -> Vec<Gap> {
    match markers {
        Markers::None => Vec::new(),
        Markers::Lines => of_lines(sources.document(document)),
        Markers::Blocks(unmarked) => {
            let marked = sources.text(xdr).lines().map(|(number, _)| number);
            of_blocks(marked, unmarked)
        }
    }
}

/// Returns the gaps of a document in which each line with a marker is XDR.
fn of_lines(document: &Document) -> Vec<Gap> {
    let text = document.text();
    let page_breaks = header_footer_lines(text);
    let copies = copies(text);
    let mut gaps = Gaps::new();
    for (at, line) in text.lines().enumerate() {
        if strip_marker(line).is_some() {
            gaps.mark(at + 1);
            continue;
        }
        let is_blank = line.trim().is_empty();
        if !is_blank && !page_breaks[at] && code_mark(line).is_none() && !copies[at] {
            gaps.push(at + 1, Place::Text);
        }
    }
    gaps.0
}

/// Returns the gaps between the marked lines of blocks.
fn of_blocks(marked: impl Iterator<Item = usize>, unmarked: &[UnmarkedLine]) -> Vec<Gap> {
    let mut unmarked = unmarked.iter().peekable();
    let mut gaps = Gaps::new();
    for number in marked {
        while let Some(line) = unmarked.next_if(|line| line.number < number) {
            gaps.push(line.number, line.place);
        }
        gaps.mark(number);
    }
    for line in unmarked {
        gaps.push(line.number, line.place);
    }
    gaps.0
}

/// The gaps found so far.
struct Gaps(Vec<Gap>);

impl Gaps {
    fn new() -> Self {
        Self(vec![Gap::default()])
    }

    /// Ends a gap at a line with a marker.
    fn mark(&mut self, number: usize) {
        if let Some(gap) = self.0.last_mut() {
            gap.before = Some(number);
        }
        self.0.push(Gap {
            after: number,
            ..Gap::default()
        });
    }

    /// Adds a line without a marker.
    fn push(&mut self, number: usize, place: Place) {
        if let Some(gap) = self.0.last_mut() {
            gap.push(number, place);
        }
    }
}

/// Returns, for each line, whether it is in a block of code that has no marker.
fn copies(text: &str) -> Vec<bool> {
    let mut copies: Vec<bool> = text.lines().map(|_| false).collect();
    let mut open = None;
    for (at, line) in text.lines().enumerate() {
        match code_mark(line) {
            Some(CodeMark::Begins) => open = Some(at),
            Some(CodeMark::Ends) => {
                if let Some(begin) = open.take() {
                    copies[begin..at].fill(true);
                }
            }
            None if strip_marker(line).is_some() => open = None,
            None => {}
        }
    }
    copies
}
