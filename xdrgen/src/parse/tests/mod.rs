//! Tests of the lexer and the grammar.

mod c;
mod constructs;
mod defects;
mod extensions;
mod grammar;
mod lexing;
mod mutation;
mod render;
mod robustness;

use crate::ast::Specification;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Level, Levels};
use crate::parse::parse;
use crate::source::{SourceMap, Text, TextId, TextKind};

/// Parses `xdr`. If `all` is true, every lint is a warning.
fn parsed(
    xdr: &str,
    kind: TextKind,
    all: bool,
) -> (SourceMap, TextId, Specification, Vec<Diagnostic>) {
    let mut levels = Levels::default();
    for code in Code::ALL
        .iter()
        .filter(|code| all && code.default_level().is_some())
    {
        levels.set(*code, Level::Warn).expect("a lint");
    }
    let mut sources = SourceMap::new();
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

/// Returns the diagnostics of `xdr`, with every lint, as lines `line:column code message`.
fn reported(xdr: &str) -> String {
    let (sources, _, _, list) = parsed(xdr, TextKind::Xdr, true);
    let lines = list.iter().filter_map(|diagnostic| {
        let place = sources.locate(diagnostic.span?);
        Some(format!(
            "{}:{} {} {}\n",
            place.line, place.column, diagnostic.code, diagnostic.message
        ))
    });
    lines.collect()
}

/// Returns the syntax of `xdr`, rendered.
fn read(xdr: &str) -> String {
    render::specification(&parsed(xdr, TextKind::Xdr, true).2)
}

/// Returns `xdr` with the fixes of its diagnostics applied.
fn fixed(xdr: &str) -> String {
    let (sources, text, _, list) = parsed(xdr, TextKind::Xdr, true);
    let mut fixes: Vec<_> = list
        .iter()
        .flat_map(|diagnostic| &diagnostic.fixes)
        .collect();
    fixes.sort_by_key(|fix| std::cmp::Reverse((fix.span.start, fix.span.end)));
    let mut fixed = sources.text(text).content().trim_end().to_owned();
    for fix in fixes {
        fixed.replace_range(fix.span.range(), &fix.replacement);
    }
    fixed
}
