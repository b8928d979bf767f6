//! The gaps of a document: its lines without a marker (`///`), between those that have one.
//!
//! The lint `unmarked-line` (the parent module) looks for XDR in them. Line numbers count from 1
//! and ascend. Each gap ends where the next one begins: its `next_marker` is the next gap's
//! `previous_marker`. A gap may have no paragraphs, for example between two adjacent marked lines.

use crate::extract::{CodeMark, Markers, Place, UnmarkedLine, code_mark, strip_marker};
use crate::outline::page::header_footer_lines;
use crate::source::{Document, DocumentId, SourceMap, TextId};

/// The lines without a marker between two lines that have one, before the first such line, or after
/// the last.
#[derive(Debug, Default)]
pub(super) struct Gap {
    /// The number of the marked line that precedes the gap; 0 if there is none.
    pub(super) previous_marker: usize,
    /// The paragraphs in ascending order. A page break divides a paragraph into two.
    pub(super) paragraphs: Vec<Paragraph>,
    /// The number of the marked line that follows the gap, if there is one.
    pub(super) next_marker: Option<usize>,
}

/// Lines in sequence that are at one kind of place: the numbers of the first and the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paragraph {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) place: Place,
}

impl Gap {
    /// Adds a line to the last paragraph, or begins one.
    fn push(&mut self, number: usize, place: Place) {
        let continues =
            |paragraph: &&mut Paragraph| paragraph.last + 1 == number && paragraph.place == place;
        match self.paragraphs.last_mut().filter(continues) {
            Some(paragraph) => paragraph.last = number,
            None => self.paragraphs.push(Paragraph {
                first: number,
                last: number,
                place,
            }),
        }
    }
}

/// The contents of the lines without a marker that were extracted from blocks; empty for a plain
/// document, whose lines are their own contents.
pub(super) struct Contents<'m>(&'m [UnmarkedLine]);

impl<'m> Contents<'m> {
    pub(super) fn of(markers: &'m Markers) -> Self {
        Self(match markers {
            Markers::Blocks(lines) | Markers::Types(lines) => lines,
            Markers::None | Markers::Lines => &[],
        })
    }

    pub(super) fn get(&self, number: usize) -> Option<&'m UnmarkedLine> {
        let at = self.0.binary_search_by_key(&number, |line| line.number);
        at.ok().and_then(|at| self.0.get(at))
    }
}

/// Returns the gaps of a document: one before the first marker, one after each marker; none if all
/// of its XDR has neither a marker nor a type. A line of a typed block without markers counts as a
/// line with a marker.
///
/// The unmarked lines of the [`Markers`] and the lines of `xdr` have the line numbers of the
/// document, in ascending order.
pub(super) fn gaps(
    sources: &SourceMap,
    document: DocumentId,
    xdr: TextId,
    markers: &Markers,
) -> Vec<Gap> {
    match markers {
        Markers::None => Vec::new(),
        Markers::Lines => of_lines(sources.document(document)),
        Markers::Blocks(unmarked) | Markers::Types(unmarked) => {
            let marked = sources.text(xdr).lines().map(|(number, _)| number);
            of_blocks(marked, unmarked)
        }
    }
}

/// Returns the gaps of a plain document, in which each line with a marker is XDR.
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

/// Returns the gaps of a document that has its XDR in blocks (markdown, RFCXML).
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
            gap.next_marker = Some(number);
        }
        self.0.push(Gap {
            previous_marker: number,
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

/// Returns, for each line, whether it is in a block of code no line of which has a marker: such a
/// block is a copy of XDR for the reader, and no gap.
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
            // The block has a marker, so that it is no copy.
            None if strip_marker(line).is_some() => open = None,
            None => {}
        }
    }
    copies
}
