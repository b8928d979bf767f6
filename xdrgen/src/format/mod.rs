//! Formats `.x` files: indentation, blanks and line breaks. Every token and every comment keeps its
//! place in the order.
//!
//! `pieces.rs` splits a text into tokens, comments and lines for other tools; `layout.rs` arranges
//! them in lines; `lines.rs` aligns and prints these. [`format`] parses the result again and
//! compares its pieces with those of the input, so that no defect of this module can change the
//! meaning of a file.
//!
//! A formatted text must not change when it is formatted again: `xdrgen fmt --check` and the
//! language server compare a text with its result. Only tests check this (`assert_formatted`).

mod layout;
mod lines;
mod pieces;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::error::Error;
use crate::parse::{self, lexer};
use crate::source::{SourceMap, TextId, TextKind};
use pieces::{Piece, PieceKind};

/// Formats the XDR of an `.x` file. `name` is for error messages.
///
/// The bodies of definitions are indented by four blanks and have one field, member or case on each
/// line. The `=` of the members of an enum are aligned, and so are comments after code. Blank lines
/// are kept, at most one in a row. Lines that begin with `%` or `#`, and lines that a condition of
/// the preprocessor excludes, are not changed. If a line ends with CR and LF, all lines of the
/// result do. A byte order mark is removed.
///
/// ```
/// let formatted = xdrgen_build::format("a.x", "struct point{int x;int y;};")?;
/// assert_eq!(formatted, "struct point {\n    int x;\n    int y;\n};\n");
/// # Ok::<(), xdrgen_build::Error>(())
/// ```
///
/// # Errors
/// Returns a report if the text has a syntax error, or if the result would not have the same tokens
/// and comments, which is a defect of this function.
pub fn format(name: &str, text: &str) -> Result<String, Error> {
    let (sources, id) = as_xdr(name, text);
    check_syntax(&sources, id)?;
    let unix = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let pieces = pieces::split(&unix);
    let mut formatted = lines::print(layout::arrange(&pieces));
    let (again, again_id) = as_xdr(name, &formatted);
    let is_valid = check_syntax(&again, again_id).is_ok();
    if !is_valid || !is_same(&pieces, &pieces::split(&formatted)) {
        let message = format!("`{name}` can't be formatted without a change of its meaning");
        let found = Diagnostic::without_span(Code::Syntax, message);
        return Err(Error::of(&SourceMap::new(), &[found]));
    }
    if text.contains("\r\n") {
        formatted = formatted.replace('\n', "\r\n");
    }
    Ok(formatted)
}

/// Returns a source map with one document, all of whose lines are XDR.
fn as_xdr(name: &str, text: &str) -> (SourceMap, TextId) {
    let mut sources = SourceMap::new();
    let document = sources.add_document(name, text);
    let id = sources.add_document_text(document, TextKind::Xdr);
    (sources, id)
}

/// Returns the syntax errors of a text as an error. Lints do not count.
fn check_syntax(sources: &SourceMap, id: TextId) -> Result<(), Error> {
    let mut diagnostics = Diagnostics::default();
    parse::parse(sources, id, &mut diagnostics);
    let mut found = diagnostics.into_sorted(sources);
    found.retain(|diagnostic| diagnostic.code.default_level().is_none());
    if found.is_empty() {
        Ok(())
    } else {
        Err(Error::of(sources, &found))
    }
}

/// Returns true if the texts of these pieces differ only in blanks and line breaks. Those within a
/// comment may differ, too.
fn is_same(old: &[Piece<'_>], new: &[Piece<'_>]) -> bool {
    let is_equal = |(old, new): (&Piece<'_>, &Piece<'_>)| {
        old.kind == new.kind
            && match old.kind {
                PieceKind::Comment => old.text.split_whitespace().eq(new.text.split_whitespace()),
                _ => old.text == new.text,
            }
    };
    old.len() == new.len() && old.iter().zip(new).all(is_equal)
}

/// Returns the tokens of a text, and the lines that conditions exclude.
fn lex(text: &str) -> lexer::LexOutput<'_> {
    // The lexer needs a text for its spans. Only their ranges are used.
    let (_, id) = as_xdr("", "");
    lexer::lex(text, id)
}

#[cfg(test)]
mod tests;
