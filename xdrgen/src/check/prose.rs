//! Finds names in a draft's running text that resemble XDR names of the document but are not
//! defined.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::extract::{CodeMark, code_mark, strip_marker};
use crate::outline::page::header_footer_lines;
use crate::source::{Document, DocumentId, SourceMap, Span, TextKind};
use crate::spelling::nearest;

/// Reports each word in the running text of a document that has the same prefix, up to the first
/// `_`, as one of `names` and is not one of them. The nearest name is the suggested fix. A plural
/// in `s` is accepted.
///
/// Running text excludes XDR, code, the table of contents, references, and the header and footer of
/// a page.
pub(crate) fn check(
    sources: &mut SourceMap,
    document: DocumentId,
    names: &BTreeSet<String>,
    diagnostics: &mut Diagnostics,
) {
    if !diagnostics.is_enabled(Code::ProseName) {
        return;
    }
    let text = sources.add_document_text(document, TextKind::Other);
    let mut start = 0;
    let mut suggestions = HashMap::new();
    let running = running_lines(sources.document(document));
    for (line, runs) in sources.text(text).content().lines().zip(running) {
        for range in words(line).filter(|_| runs) {
            let word = &line[range.clone()];
            let Some(family) = family(word, names) else {
                continue;
            };
            let span = Span::new(text, start + range.start..start + range.end);
            let nearest = *suggestions
                .entry(word)
                .or_insert_with(|| nearest(word, family));
            diagnostics.report(diagnostic(word, span, nearest));
        }
        start += line.len() + 1;
    }
}

fn diagnostic(word: &str, span: Span, nearest: Option<&str>) -> Diagnostic {
    let diagnostic = Diagnostic::new(
        Code::ProseName,
        span,
        format!("the XDR does not define `{word}`"),
    );
    match nearest {
        Some(name) => diagnostic.label(format!("did you mean `{name}`?")).fix(
            span,
            name,
            format!("the XDR defines `{name}`"),
        ),
        None => diagnostic,
    }
}

/// Returns the names with the same prefix, up to the first `_`, as a word. Returns `None` if the
/// word is a name, or no name has the prefix.
fn family<'n>(
    word: &str,
    names: &'n BTreeSet<String>,
) -> Option<impl Iterator<Item = &'n str> + use<'n>> {
    let prefix = word[..=word.find('_')?].to_owned();
    let known = |word: &str| names.contains(word);
    if prefix.len() == 1
        || prefix.len() == word.len()
        || known(word)
        || word.strip_suffix('s').is_some_and(known)
    {
        return None;
    }
    let after = names.range(prefix.clone()..);
    let mut family = after
        .map(String::as_str)
        .take_while(move |name| name.starts_with(&prefix))
        .peekable();
    family.peek().is_some().then_some(family)
}

/// Returns the words of a line that may be XDR names: they contain a `_`, and are not part of a
/// path, an address or a pattern.
fn words(line: &str) -> impl Iterator<Item = Range<usize>> {
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 0;
    let pieces = line
        .split_inclusive(move |c: char| !in_word(c))
        .map(move |piece| {
            let start = at;
            at += piece.len();
            start..start + piece.trim_end_matches(|c: char| !in_word(c)).len()
        });
    pieces.filter(move |range| {
        let word = &line[range.clone()];
        let after = &line[range.end..];
        let file = after
            .strip_prefix('.')
            .is_some_and(|rest| rest.starts_with(in_word));
        let part = line[..range.start].ends_with(['/', '@', '#', '%', '.', '*']);
        word.contains('_')
            && !word.ends_with('_')
            && !part
            && !file
            && !after.starts_with(['/', '@', '*', '['])
    })
}

/// Returns, for each line of a document, whether it is running text.
fn running_lines(document: &Document) -> Vec<bool> {
    let page_breaks = header_footer_lines(document.text());
    let mut in_code = false;
    let mut in_contents = false;
    let of_line = |(at, line): (usize, &str)| {
        let section = document.section(at + 1);
        in_contents = section.is_none() && (in_contents || line.trim() == "Table of Contents");
        let mark = code_mark(line);
        match mark {
            Some(CodeMark::Begins) => in_code = true,
            Some(CodeMark::Ends) => in_code = false,
            None => {}
        }
        let references = section.is_some_and(|section| section.title.contains("References"));
        let other =
            page_breaks.get(at) == Some(&true) || strip_marker(line).is_some() || mark.is_some();
        !(in_code || in_contents || references || other)
    };
    document.text().lines().enumerate().map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Level, Levels};

    fn found(text: &str, names: &[&str], level: Level) -> Vec<(String, String, Option<String>)> {
        let mut levels = Levels::default();
        levels.set(Code::ProseName, level).expect("a lint");
        let mut diagnostics = Diagnostics::new(levels);
        let mut sources = SourceMap::new();
        let document = sources.add_document("d.txt", text);
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        check(&mut sources, document, &names, &mut diagnostics);
        let list = diagnostics
            .into_sorted(&sources)
            .into_iter()
            .map(|diagnostic| {
                let span = diagnostic.span.expect("a span");
                let fix = diagnostic.fixes.first().map(|fix| fix.replacement.clone());
                (
                    sources.locate(span).to_string(),
                    sources.slice(span).to_owned(),
                    fix,
                )
            });
        list.collect()
    }

    fn words_found(text: &str, names: &[&str]) -> Vec<String> {
        found(text, names, Level::Warn)
            .into_iter()
            .map(|(_, word, _)| word)
            .collect()
    }

    #[test]
    fn misspelled_names_are_found_with_a_suggestion() {
        let names = ["ROPT_CONNPROP", "ROPT_REQPROP", "optr_a"];
        let text =
            "1. A\r\n\r\n   Prose ROPT_CONNPR, ROPT_REQPROP's.\r\n(optr_long_name) RDMA_MSG\r\n";
        let expected = [
            (
                "d.txt:3:10".to_owned(),
                "ROPT_CONNPR".to_owned(),
                Some("ROPT_CONNPROP".to_owned()),
            ),
            ("d.txt:4:2".to_owned(), "optr_long_name".to_owned(), None),
        ];
        assert_eq!(found(text, &names, Level::Warn), expected);
        assert!(found(text, &names, Level::Allow).is_empty());
    }

    #[test]
    fn parts_of_paths_and_patterns_are_not_names() {
        let text = "a_b a_bs a_ _ __ a_x.x a_x/ /a_x @a_x a_*  *a_x a_x[qs] \u{e9}a_b a_c. a_d";
        assert_eq!(words_found(text, &["a_b"]), ["a_c", "a_d"]);
    }

    #[test]
    fn only_running_text_is_checked() {
        let text = "Abstract a_1\nTable of Contents\n1. a_2 . . . 1\n a_3\n\n1. A\n\n a_4\n/// \
            a_5\n<CODE BEGINS> a_6\na_7\n\
                    <CODE ENDS>\na_8\nN a_9   [Page 1]\n\nRFC 1 a_10\na_11\n\n2. References\n\n\
                    a_12\n\n3. B\n\na_13\n";
        assert_eq!(
            words_found(text, &["a_0b"]),
            ["a_1", "a_4", "a_8", "a_11", "a_13"]
        );
    }

    #[test]
    fn the_misspellings_of_xcharext_03_are_found() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../spec/draft-dnoveck-nfsv4-rpcrdma-xcharext-03.txt"
        );
        let text = std::fs::read_to_string(path).expect(path);
        let names = [
            "ROPT_CONNPROP",
            "ROPT_REQPROP",
            "ROPT_RESPROP",
            "ROPT_UPDPROP",
            "PROP_RBSIZ",
            "PROP_REQREMINV",
        ];
        let lines: Vec<(String, String)> = found(&text, &names, Level::Warn)
            .into_iter()
            .map(|(place, word, fix)| (place, format!("{word} {}", fix.unwrap_or_default())))
            .collect();
        let expected = [
            ("495", "ROPT_INITPROP ROPT_CONNPROP"),
            ("655", "ROPT_CONNPR ROPT_CONNPROP"),
            ("677", "ROPT_CONNPR ROPT_CONNPROP"),
            ("1070", "ROPT_INITXCH "),
            ("1070", "ROPT_UPDXCH "),
        ];
        let lines: Vec<(&str, &str)> = lines
            .iter()
            .map(|(place, words)| (place.split(':').nth(1).unwrap_or_default(), words.as_str()))
            .collect();
        assert_eq!(lines, expected);
    }
}
