//! Selects the XDR among the blocks of an RFCXML or markdown document.
//!
//! `markup` finds the blocks and their languages. This module decides, for the whole document,
//! whether its XDR has the marker `///`. With markers, only marked lines are XDR, and unmarked
//! blocks that begin with a definition are copies. Without markers, each block of the type `xdr` is
//! XDR. The other lines of the selected blocks go to [`Markers`], from which `check::unmarked`
//! reports lost markers. `check` does not see a line that is dropped here.

use super::line::{Blocks, Line, Markers, Place, UnmarkedLine};
use super::txt::{code_mark, names_a_file, strip_marker};
use super::x;

/// The types of blocks that name no language.
const PLAIN_TYPES: [&str; 7] = [
    "text",
    "txt",
    "plain",
    "plaintext",
    "text/plain",
    "ascii",
    "ascii-art",
];

/// The language of a block, according to the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Xdr,
    /// The document names no language.
    Unnamed,
    Other,
    /// The lines are running text.
    Text,
}

impl Language {
    /// Returns the language that the type of a block of code names.
    pub(super) fn of_type(word: &str) -> Self {
        let is = |name: &&str| word.eq_ignore_ascii_case(name);
        if is(&"xdr") {
            Self::Xdr
        } else if !word.starts_with(char::is_alphabetic) || PLAIN_TYPES.iter().any(is) {
            Self::Unnamed
        } else {
            Self::Other
        }
    }
}

/// A block of code, or a paragraph of running text.
#[derive(Clone, Debug)]
pub(super) struct Block {
    language: Language,
    pub(super) lines: Vec<Line>,
}

impl Block {
    pub(super) fn new(language: Language) -> Self {
        Self {
            language,
            lines: Vec::new(),
        }
    }

    /// Returns true if a line has the marker `///`.
    fn is_marked(&self) -> bool {
        let mut lines = self.lines.iter();
        lines.any(|line| strip_marker(&line.content).is_some())
    }

    /// Returns the lines as lines without a marker.
    fn unmarked(&self, place: Place) -> impl Iterator<Item = UnmarkedLine> {
        self.lines
            .iter()
            .filter_map(move |line| line.unmarked(place))
    }

    fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| line.content.as_str());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the place of the lines without a marker, if the XDR has markers; `None` for a copy.
    /// `is_code` says whether the block was between `<CODE BEGINS>` and `<CODE ENDS>`.
    fn place(&self, is_code: bool) -> Option<Place> {
        match self.language {
            Language::Text => Some(Place::Unnamed),
            _ if self.is_marked() => Some(Place::BesideMarked),
            Language::Unnamed if !is_code => Some(Place::Unnamed),
            _ => (!x::looks_like(&self.text())).then_some(Place::Block),
        }
    }

    /// Returns true if the block may contain XDR.
    pub(super) fn is_candidate(&self) -> bool {
        match self.language {
            Language::Xdr | Language::Unnamed => !self.lines.is_empty(),
            Language::Other | Language::Text => self.is_marked(),
        }
    }
}

/// Which blocks of a document are XDR.
struct Selection {
    has_typed: bool,
    /// Whether a block without a language has markers.
    has_unnamed: bool,
    /// Whether the XDR has markers.
    has_markers: bool,
    /// Whether a paragraph of running text has markers.
    has_text: bool,
}

impl Selection {
    fn of(blocks: &[Block]) -> Self {
        let of = |language| {
            blocks
                .iter()
                .filter(move |block| block.language == language)
        };
        let has_typed = of(Language::Xdr).next().is_some();
        let has_unnamed = of(Language::Unnamed).any(Block::is_marked);
        Self {
            has_typed,
            has_unnamed,
            has_markers: !has_typed || has_unnamed || of(Language::Xdr).any(Block::is_marked),
            has_text: of(Language::Text).next().is_some(),
        }
    }

    /// Returns true if a block is XDR, or may have lost its markers.
    fn contains(&self, block: &Block) -> bool {
        match block.language {
            Language::Xdr => true,
            // Without a marker, it may be a figure, a copy, or a block that has lost its markers.
            Language::Unnamed => true,
            // Where the XDR has no markers, a `///` in running text speaks of them.
            Language::Text => self.has_markers,
            // A document may name the language of its XDR `c`.
            Language::Other => !self.has_typed && !self.has_unnamed && !self.has_text,
        }
    }
}

/// Divides the blocks of a document: if the XDR has the marker `///`, blocks without it are copies.
pub(super) fn select(blocks: Vec<Block>) -> Blocks {
    let selection = Selection::of(&blocks);
    let mut found = Blocks::default();
    let mut unmarked = Vec::new();
    for mut block in blocks.into_iter().filter(|block| selection.contains(block)) {
        let count = block.lines.len();
        block
            .lines
            .retain(|line| code_mark(&line.content).is_none());
        let is_code = block.lines.len() < count;
        if !selection.has_markers {
            match block.language {
                Language::Xdr => found.xdr.extend(block.lines),
                _ => unmarked.extend(block.unmarked(Place::Untyped)),
            }
            continue;
        }
        let Some(place) = block.place(is_code) else {
            // A block between marks is a copy, wherever it is.
            if !is_code {
                unmarked.extend(block.unmarked(Place::Copy));
            }
            found.copies.push(block.lines);
            continue;
        };
        for line in block.lines {
            match without_marker(&line) {
                Some(line) if names_a_file(&line.content) => {}
                Some(line) => found.xdr.push(line),
                None => unmarked.extend(line.unmarked(place)),
            }
        }
    }
    found.markers = match selection.has_markers {
        true => Markers::Blocks(unmarked),
        false if unmarked.is_empty() => Markers::None,
        false => Markers::Types(unmarked),
    };
    found
}

/// Removes the marker of a line; `None` if it has none.
fn without_marker(line: &Line) -> Option<Line> {
    let (removed, content) = strip_marker(&line.content)?;
    let shifts = line.shifts.iter().filter(|(at, _)| *at > removed);
    Some(Line {
        number: line.number,
        column: line.column_at(removed),
        shifts: shifts.map(|(at, column)| (at - removed, *column)).collect(),
        content: content.to_owned(),
    })
}
