//! Emits documentation comments: the position of an item's definition, and its XDR.

use proc_macro2::TokenStream;
use quote::quote;

use crate::ir::Origin;

/// Emits one comment line for each line.
pub(super) fn lines(lines: &[impl AsRef<str>]) -> TokenStream {
    let lines = lines.iter().map(|line| match line.as_ref() {
        "" => String::new(),
        line => format!(" {line}"),
    });
    quote!(#(#[doc = #lines])*)
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
