//! Reads plain XDR, where every line of the file is XDR. [`looks_like`] also decides, for the other
//! formats, whether unmarked text is XDR: `super` selects the format of a file with an unknown
//! extension by it, and `txt` and `blocks` the copies of definitions.

use super::line::{Blocks, Line, Markers};

/// The keywords that begin a definition.
pub(crate) const KEYWORDS: [&str; 6] = ["typedef", "const", "struct", "enum", "union", "program"];

/// The byte order mark, which some editors write at the start of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns the lines of a plain XDR file.
pub(super) fn read(text: &str) -> Blocks {
    let lines = text.lines().enumerate().map(|(at, line)| {
        let content = line.trim_start_matches(BYTE_ORDER_MARK);
        Line {
            number: at + 1,
            column: line.len() - content.len(),
            shifts: Vec::new(),
            content: content.to_owned(),
        }
    });
    Blocks {
        xdr: lines.collect(),
        copies: Vec::new(),
        markers: Markers::default(),
    }
}

/// Returns true if a text begins with a definition, after comments and lines for other tools.
pub(super) fn looks_like(text: &str) -> bool {
    let rest = after_comments(text);
    let word = rest
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next()
        .unwrap_or_default();
    KEYWORDS.contains(&word) || word == "namespace" || word == "pragma"
}

/// Skips the comments, `%` lines and `#` lines at the start of a text.
fn after_comments(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == BYTE_ORDER_MARK);
        rest = if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else if rest.starts_with("//") || rest.starts_with(['%', '#']) {
            rest.split_once('\n').map_or("", |(_, after)| after)
        } else {
            return rest;
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xdr_is_distinguished_from_prose() {
        for xdr in [
            "const A = 1;",
            "\u{feff}/* a */ /* b */\n%#include <x.h>\n#if 0\n// c\n  struct a {",
            "union\nx",
        ] {
            assert!(looks_like(xdr), "{xdr}");
        }
        for prose in [
            "",
            "Network File System",
            "/* open",
            "structure of the file",
            "#!/bin/sh\ngrep",
        ] {
            assert!(!looks_like(prose), "{prose}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_removed_and_counts_as_a_column() {
        let lines = read("\u{feff}const A = 1;\r\n\r\nconst B = 2;").xdr;
        assert_eq!(lines.len(), 3);
        assert_eq!(
            (lines[0].column, lines[0].content.as_str()),
            (3, "const A = 1;")
        );
        assert_eq!((lines[2].number, lines[2].column), (3, 0));
    }
}
