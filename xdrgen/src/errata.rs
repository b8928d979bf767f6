//! Corrections to published documents, as data.
//!
//! A published draft is never edited. An errata file lists what is wrong in it:
//!
//! ```toml
//! [[erratum]]
//! document = "draft-dnoveck-nfsv4-rpcrdma-xcharext-03.txt"
//! line = 966
//! old = "typedef propid          uint32;"
//! new = "typedef uint32 propid;"
//! reason = "The name and the type are swapped."
//! ```
//!
//! `old` is part of the XDR of that line, without the draft's `///`, and occurs there once. If
//! `old` has several lines, the first must be part of the line that `line` names; each further
//! line, trimmed, must be part of the next line of the text. If `new` has several lines, all of
//! them replace that one line. This module checks the form of an errata file. `extract::patch`
//! compares `old` with the document: [`crate::extract::extract`] applies errata in file order.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{SourceMap, Span, TextId, TextKind};
use crate::toml_error;

/// One correction to one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erratum {
    /// The document's file name, without folders.
    pub document: String,
    /// The line number in the document; the first line is 1.
    pub line: usize,
    /// The text to replace.
    pub old: String,
    /// The replacement.
    pub new: String,
    /// Why the document is wrong.
    pub reason: String,
    /// The position of `old` in the errata file; `None` for an erratum that a program created.
    pub span: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    erratum: Vec<Spanned<Entry>>,
}

/// An `[[erratum]]` table. Every key is required; the fields are optional so that one run reports
/// all missing keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    document: Option<Spanned<String>>,
    line: Option<Spanned<usize>>,
    old: Option<Spanned<String>>,
    new: Option<Spanned<String>>,
    reason: Option<Spanned<String>>,
}

/// Reads an errata file with the content `toml`. Reports defects as [`Code::Configuration`] and
/// leaves out defective errata.
pub fn read(
    sources: &mut SourceMap,
    name: &str,
    toml: &str,
    diagnostics: &mut Diagnostics,
) -> Vec<Erratum> {
    let document = sources.add_document(name, toml);
    let text = sources.add_document_text(document, TextKind::Other);
    // The text and not the document is parsed: its lines end in one byte, so that offsets from
    // `toml` are offsets of the text.
    match toml::from_str::<File>(sources.text(text).content()) {
        Ok(file) => {
            let mut reader = Reader { text, diagnostics };
            file.erratum
                .into_iter()
                .filter_map(|entry| reader.erratum(entry))
                .collect()
        }
        Err(error) => {
            diagnostics.report(toml_error::diagnostic(sources, text, &error));
            Vec::new()
        }
    }
}

/// Converts TOML entries to errata.
struct Reader<'d> {
    text: TextId,
    diagnostics: &'d mut Diagnostics,
}

impl Reader<'_> {
    fn erratum(&mut self, entry: Spanned<Entry>) -> Option<Erratum> {
        let table = entry.span();
        let Entry {
            document,
            line,
            old,
            new,
            reason,
        } = entry.into_inner();
        let document = self.required("document", document, &table);
        let line = self.required("line", line, &table);
        let old = self.required("old", old, &table);
        let new = self.required("new", new, &table);
        let reason = self.required("reason", reason, &table);
        let (document, line, old, new, reason) = (document?, line?, old?, new?, reason?);
        let fine = self.check(&document, &line, &old, &new);
        let span = Some(Span::new(self.text, old.span()));
        fine.then(|| Erratum {
            document: document.into_inner(),
            line: line.into_inner(),
            old: old.into_inner(),
            new: new.into_inner(),
            reason: reason.into_inner(),
            span,
        })
    }

    /// Returns the value of a key, and reports a missing key.
    fn required<T>(&mut self, key: &str, value: Option<T>, table: &Range<usize>) -> Option<T> {
        if value.is_none() {
            self.report(table.clone(), format!("the erratum has no `{key}`"));
        }
        value
    }

    /// Returns true if the values are plausible, and reports each that is not.
    fn check(
        &mut self,
        document: &Spanned<String>,
        line: &Spanned<usize>,
        old: &Spanned<String>,
        new: &Spanned<String>,
    ) -> bool {
        let file = document.get_ref();
        let rules = [
            (
                file.is_empty() || file.contains(['/', '\\']),
                document.span(),
                "`document` is a file name without folders",
            ),
            (
                *line.get_ref() == 0,
                line.span(),
                "lines are counted from one",
            ),
            (
                old.get_ref().trim().is_empty(),
                old.span(),
                "`old` is empty",
            ),
            (
                old.get_ref() == new.get_ref(),
                new.span(),
                "`old` and `new` are the same",
            ),
        ];
        let mut fine = true;
        for (_, span, message) in rules.into_iter().filter(|(broken, ..)| *broken) {
            self.report(span, message.to_owned());
            fine = false;
        }
        fine
    }

    fn report(&mut self, range: Range<usize>, message: String) {
        self.diagnostics.report(Diagnostic::new(
            Code::Configuration,
            Span::new(self.text, range),
            message,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Levels;

    fn read_all(toml: &str) -> (SourceMap, Vec<Erratum>, Vec<Diagnostic>) {
        let mut sources = SourceMap::new();
        let mut diagnostics = Diagnostics::new(Levels::default());
        let errata = read(&mut sources, "spec/errata.toml", toml, &mut diagnostics);
        let list = diagnostics.into_sorted(&sources);
        (sources, errata, list)
    }

    fn found(toml: &str) -> Vec<(usize, usize, String)> {
        let (sources, errata, list) = read_all(toml);
        assert!(errata.is_empty());
        let place = |diagnostic: &Diagnostic| {
            assert_eq!(diagnostic.code, Code::Configuration);
            let location = sources.locate(diagnostic.span.expect("a span"));
            (location.line, location.column, diagnostic.message.clone())
        };
        list.iter().map(place).collect()
    }

    #[test]
    fn errata_record_their_spans() {
        let toml = "# a\r\n[[erratum]]\r\ndocument = \"d.txt\"\r\nline = 3\r\nold = \"a\"\r\nnew \
            = 'b'\r\nreason = \"c\"\r\n";
        for toml in [toml.to_owned(), toml.replace('\r', "")] {
            let (sources, errata, list) = read_all(&toml);
            assert!(list.is_empty());
            let [erratum] = errata.as_slice() else {
                panic!("{errata:?}")
            };
            let Erratum {
                document,
                line,
                old,
                new,
                reason,
                span,
            } = erratum;
            assert_eq!(
                (document.as_str(), *line, old.as_str(), new.as_str()),
                ("d.txt", 3, "a", "b")
            );
            assert_eq!(reason, "c");
            let span = span.expect("a span");
            assert_eq!(sources.locate(span).to_string(), "spec/errata.toml:5:7");
            assert_eq!(sources.slice(span), "\"a\"");
        }
        assert!(read_all("").1.is_empty());
    }

    #[test]
    fn each_defect_is_reported_at_its_line() {
        let entry = "[[erratum]]\ndocument = \"d.txt\"\nline = 3\nold = \"a\"\nnew = \
            \"b\"\nreason = \"c\"\n";
        let same = found(&entry.replace("\"b\"", "\"a\""));
        assert_eq!(same, [(5, 7, "`old` and `new` are the same".to_owned())]);
        assert_eq!(found(&entry.replace("\"a\"", "\" \""))[0].0, 4);
        assert_eq!(found(&entry.replace("3", "0"))[0].0, 3);
        assert_eq!(found(&entry.replace("d.txt", "spec/d.txt"))[0].0, 2);
        let missing = found(&entry.replace("old = \"a\"\n", "").replace("line = 3\n", ""));
        let expected = |key: &str| (1, 1, format!("the erratum has no `{key}`"));
        assert_eq!(missing, [expected("line"), expected("old")]);
        let unknown = found(&entry.replace("reason", "cause"));
        assert_eq!((unknown[0].0, unknown[0].1), (6, 1));
        assert!(
            unknown[0].2.contains("unknown field `cause`"),
            "{}",
            unknown[0].2
        );
        assert_eq!(found(&entry.replace("= 3", "= -3"))[0].0, 3);
        assert_eq!(found("[[erratum]\n")[0].0, 1);
        assert_eq!(found("[[errata]]\n")[0].0, 1);
    }
}
