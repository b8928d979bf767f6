//! Finds the pages and sections of a document: reports and the documentation of generated code name
//! them, and manifests select sections by number.
//!
//! `Syntax::of` alone decides the syntax of a file, by its name; `extract` reads the XDR by the
//! same answer. Lines of pages and sections ascend, because `source::Document` bisects them.

pub(crate) mod markdown;
pub(crate) mod page;
mod text;
pub(crate) mod xml;

/// A section heading of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The line number of the heading; the first line is 1.
    pub line: usize,
    /// The section number, such as `4.2`.
    pub number: String,
    /// The title, on one line.
    pub title: String,
}

/// The pages and sections of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The first line and the number of each page, ascending; empty if the file has no page breaks.
    pub pages: Vec<(usize, u32)>,
    /// The section headings, in document order.
    pub sections: Vec<Section>,
}

/// The syntax of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// Plain text, as the RFC Editor prints it, and all files that are neither of the others.
    Text,
    /// RFCXML (RFC 7991).
    Xml,
    /// Markdown, whose code blocks are fences.
    Markdown,
}

impl Syntax {
    /// Returns the syntax of a file, by its name.
    pub(crate) fn of(file_name: &str) -> Self {
        let name = file_name.to_ascii_lowercase();
        if name.ends_with(".xml") {
            Self::Xml
        } else if [".md", ".mkd", ".markdown"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            Self::Markdown
        } else {
            Self::Text
        }
    }

    /// Finds the pages and sections of a document.
    pub(crate) fn outline(self, text: &str) -> Outline {
        let sections = match self {
            Self::Text => return outline(text),
            Self::Xml => xml::sections(text),
            Self::Markdown => markdown::sections(text),
        };
        Outline {
            pages: Vec::new(),
            sections,
        }
    }
}

/// Finds the pages and sections of a document of plain text.
///
/// The number of a heading must be a plausible successor of the previous heading's number; this
/// distinguishes headings from items of a list. A table of contents is recognized by its dot
/// leaders. One without them looks like headings, which are dropped when the first of them appears
/// again.
#[must_use]
pub fn outline(text: &str) -> Outline {
    Outline {
        pages: page::pages(text),
        sections: text::sections(text),
    }
}
