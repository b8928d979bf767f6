//! Tests of the lexer and the grammar, by what they read.

mod grammar;
mod mutation;

use crate::ast::Specification;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Level, Levels};
use crate::parse::parse;
use crate::source::{Sources, Text, TextId, TextKind};

/// Parses `xdr`, with every lint as a warning where `all`.
fn parsed(xdr: &str, kind: TextKind, all: bool) -> (Sources, TextId, Specification, Vec<Diagnostic>) {
    let mut levels = Levels::default();
    for code in Code::ALL.iter().filter(|code| all && code.default_level().is_some()) {
        levels.set(*code, Level::Warn).expect("a lint");
    }
    let mut sources = Sources::new();
    let document = sources.add_document("test.x", xdr);
    let mut text = Text::new(document, kind);
    for (at, line) in xdr.lines().enumerate() {
        text.push_line(line, at + 1, 0);
    }
    let text = sources.add_text(text);
    let mut diagnostics = Diagnostics::new(levels);
    let specification = parse(&sources, text, &mut diagnostics);
    let list = diagnostics.into_sorted(&sources);
    (sources, text, specification, list)
}
