//! Emits documentation comments: the position of an item's definition, and its XDR.

use proc_macro2::TokenStream;
use quote::quote;

use crate::ir::Origin;

/// Separates the lines of a comment in its one attribute: a comment of ten lines is parsed and
/// printed as one, which is faster.
const SEPARATOR: char = '\u{2424}';

/// Emits one comment line for each line. [`split`] completes them after formatting.
pub(super) fn lines(lines: &[impl AsRef<str>]) -> TokenStream {
    let lines = lines.iter().map(|line| match line.as_ref() {
        "" => String::new(),
        line => format!(" {line}"),
    });
    let lines: Vec<String> = lines.collect();
    if lines.len() < 2 || lines.iter().any(|line| line.contains(SEPARATOR)) {
        return quote!(#(#[doc = #lines])*);
    }
    let joined: String = lines.iter().flat_map(|line| [SEPARATOR_TEXT, line.as_str()]).collect();
    quote!(#[doc = #joined])
}

const SEPARATOR_TEXT: &str = "\u{2424}";

/// The start of a comment of several lines in formatted code.
const JOINED: &str = "///\u{2424}";

/// Splits the comments of several lines in formatted code. A line of text never follows `///`
/// directly, so that no text is taken for such a comment.
pub(crate) fn split(code: &str) -> String {
    let mut split = String::with_capacity(code.len() + code.len() / 8);
    let mut rest = code;
    while let Some(at) = rest.find(JOINED) {
        let (before, comment) = rest.split_at(at);
        let indent = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
        if !indent.trim_start().is_empty() {
            // The text of a comment.
            split.push_str(&rest[..at + JOINED.len()]);
            rest = &rest[at + JOINED.len()..];
            continue;
        }
        let (comment, after) = comment.split_once('\n').unwrap_or((comment, ""));
        split.push_str(&before[..before.len() - indent.len()]);
        for line in comment[JOINED.len()..].split(SEPARATOR) {
            split.push_str(indent);
            split.push_str("///");
            split.push_str(line.trim_end_matches(' '));
            split.push('\n');
        }
        rest = after;
    }
    split.push_str(rest);
    split
}

/// Emits an item's name, the position of its definition, and its XDR.
pub(super) fn item(name: &str, origin: &Origin) -> TokenStream {
    let mut text = vec![
        format!("`{name}`: {}.", position(origin)),
        String::new(),
        "```text".to_owned(),
    ];
    text.extend(
        origin
            .xdr
            .lines()
            .map(|line| line.trim_end().replace("```", "'''")),
    );
    text.push("```".to_owned());
    lines(&text)
}

/// Emits the XDR name of a part.
pub(super) fn part(name: &str) -> TokenStream {
    lines(&[format!("`{name}`")])
}

/// Returns a position such as `draft-x-01, section 4.2 (Title), page 11, line 552`.
pub(super) fn position(origin: &Origin) -> String {
    let mut position = origin.document.clone();
    if let Some((number, title)) = &origin.section {
        position.push_str(&format!(
            ", section {number} ({})",
            title.replace(['[', ']', '<', '>', '`'], "")
        ));
    }
    if let Some(page) = origin.page {
        position.push_str(&format!(", page {page}"));
    }
    format!("{position}, line {}", origin.line)
}

#[cfg(test)]
mod tests {
    use super::{lines, split};

    fn formatted(text: &[&str]) -> String {
        let doc = lines(text);
        let file = syn::parse2(quote::quote!(mod m { #doc const A: u32 = 1; })).expect("Rust");
        split(&prettyplease::unparse(&file))
    }

    #[test]
    fn comments_have_all_their_lines() {
        let code = "    const A: u32 = 1;\n}\n";
        for (text, expected) in [
            (&["a", "", "b  "][..], "    /// a\n    ///\n    /// b\n"),
            (&["a"], "    /// a\n"),
            (&["", ""], "    ///\n    ///\n"),
            (&["a \u{2424} b", "///\u{2424}"], "    /// a \u{2424} b\n    /// ///\u{2424}\n"),
            (&[], ""),
        ] {
            assert_eq!(formatted(text), format!("mod m {{\n{expected}{code}"));
        }
    }
}
