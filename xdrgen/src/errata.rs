//! Corrections to published documents, as data: which line, the old text, the new text, and why.
//!
//! A published draft stays as it is. What is wrong in it is listed in a file of errata:
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
//! `old` is part of that line's XDR, so without the draft's `///`. Where it has several lines, the first must be part
//! of the line that `line` names, and each further one, trimmed, part of the text's next line. Where `new` has several
//! lines, all of them stand at that line. Errata are applied in their order while XDR is extracted:
//! see [`crate::extract::extract`].

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::{Sources, Span, TextId, TextKind};

/// One correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erratum {
    /// The document's file name, without folders.
    pub document: String,
    /// The line of the document, counted from one.
    pub line: usize,
    /// What stands there.
    pub old: String,
    /// What should.
    pub new: String,
    /// Why.
    pub reason: String,
    /// Where `old` stands in the file of errata; nowhere for an erratum that a program made.
    pub span: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    erratum: Vec<Spanned<Entry>>,
}

/// An `[[erratum]]`. Every key is needed, and optional here so that all that are missing are reported.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    document: Option<Spanned<String>>,
    line: Option<Spanned<usize>>,
    old: Option<Spanned<String>>,
    new: Option<Spanned<String>>,
    reason: Option<Spanned<String>>,
}

/// Reads a file of errata, whose content is `toml`, and reports what is wrong in it as [`Code::Configuration`]. An
/// erratum that is wrong is left out.
pub fn read(sources: &mut Sources, name: &str, toml: &str, diagnostics: &mut Diagnostics) -> Vec<Erratum> {
    let document = sources.add_document(name, toml);
    let text = sources.add_whole(document, TextKind::Other);
    // The text and not the file: its line ends are single octets, so that offsets are those of the text.
    match toml::from_str::<File>(sources.text(text).content()) {
        Ok(file) => {
            let mut reader = Reader { text, diagnostics };
            file.erratum.into_iter().filter_map(|entry| reader.erratum(entry)).collect()
        }
        Err(error) => {
            let message = error.message().to_owned();
            diagnostics.report(match error.span() {
                Some(range) => Diagnostic::new(Code::Configuration, Span::new(text, range), message),
                None => Diagnostic::nowhere(Code::Configuration, format!("{name}: {message}")),
            });
            Vec::new()
        }
    }
}

/// Turns entries into errata.
struct Reader<'d> {
    text: TextId,
    diagnostics: &'d mut Diagnostics,
}

impl Reader<'_> {
    fn erratum(&mut self, entry: Spanned<Entry>) -> Option<Erratum> {
        let table = entry.span();
        let Entry { document, line, old, new, reason } = entry.into_inner();
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

    /// A key's value; reports a key that is missing.
    fn required<T>(&mut self, key: &str, value: Option<T>, table: &Range<usize>) -> Option<T> {
        if value.is_none() {
            self.report(table.clone(), format!("the erratum has no `{key}`"));
        }
        value
    }

    /// Whether the values make sense; reports where they do not.
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
            (*line.get_ref() == 0, line.span(), "lines are counted from one"),
            (old.get_ref().trim().is_empty(), old.span(), "`old` is empty"),
            (old.get_ref() == new.get_ref(), new.span(), "`old` and `new` are the same"),
        ];
        let mut fine = true;
        for (_, span, message) in rules.into_iter().filter(|(broken, ..)| *broken) {
            self.report(span, message.to_owned());
            fine = false;
        }
        fine
    }

    fn report(&mut self, range: Range<usize>, message: String) {
        self.diagnostics.report(Diagnostic::new(Code::Configuration, Span::new(self.text, range), message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Levels;

    fn read_all(toml: &str) -> (Sources, Vec<Erratum>, Vec<Diagnostic>) {
        let mut sources = Sources::new();
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
    fn errata_know_where_they_stand() {
        let toml =
            "# a\r\n[[erratum]]\r\ndocument = \"d.txt\"\r\nline = 3\r\nold = \"a\"\r\nnew = 'b'\r\nreason = \"c\"\r\n";
        for toml in [toml.to_owned(), toml.replace('\r', "")] {
            let (sources, errata, list) = read_all(&toml);
            assert!(list.is_empty());
            let [erratum] = errata.as_slice() else { panic!("{errata:?}") };
            let Erratum { document, line, old, new, reason, span } = erratum;
            assert_eq!((document.as_str(), *line, old.as_str(), new.as_str()), ("d.txt", 3, "a", "b"));
            assert_eq!(reason, "c");
            let span = span.expect("a span");
            assert_eq!(sources.locate(span).to_string(), "spec/errata.toml:5:7");
            assert_eq!(sources.slice(span), "\"a\"");
        }
        assert!(read_all("").1.is_empty());
    }

    #[test]
    fn each_defect_is_reported_at_its_line() {
        let entry = "[[erratum]]\ndocument = \"d.txt\"\nline = 3\nold = \"a\"\nnew = \"b\"\nreason = \"c\"\n";
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
        assert!(unknown[0].2.contains("unknown field `cause`"), "{}", unknown[0].2);
        assert_eq!(found(&entry.replace("= 3", "= -3"))[0].0, 3);
        assert_eq!(found("[[erratum]\n")[0].0, 1);
        assert_eq!(found("[[errata]]\n")[0].0, 1);
    }
}
