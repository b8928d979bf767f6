//! Documentation comments: where an item comes from, and its XDR.

use proc_macro2::TokenStream;
use quote::quote;

use crate::ir::Origin;

/// One comment line each.
pub(super) fn lines(lines: &[impl AsRef<str>]) -> TokenStream {
    let lines = lines.iter().map(|line| match line.as_ref() {
        "" => String::new(),
        line => format!(" {line}"),
    });
    quote!(#(#[doc = #lines])*)
}

/// An item's name, where it is defined, and its XDR.
pub(super) fn item(name: &str, origin: &Origin) -> TokenStream {
    let mut text = vec![format!("`{name}`: {}.", place(origin)), String::new(), "```text".to_owned()];
    text.extend(origin.xdr.lines().map(|line| line.trim_end().replace("```", "'''")));
    text.push("```".to_owned());
    lines(&text)
}

/// A part's name in XDR.
pub(super) fn part(name: &str) -> TokenStream {
    lines(&[format!("`{name}`")])
}

/// `draft-x-01, section 4.2 (Title), page 11, line 552`
pub(super) fn place(origin: &Origin) -> String {
    let mut place = origin.document.clone();
    if let Some((number, title)) = &origin.section {
        place.push_str(&format!(", section {number} ({})", title.replace(['[', ']', '<', '>', '`'], "")));
    }
    if let Some(page) = origin.page {
        place.push_str(&format!(", page {page}"));
    }
    format!("{place}, line {}", origin.line)
}
