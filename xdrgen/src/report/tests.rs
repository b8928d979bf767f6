//! Tests reports of small documents.

use super::*;
use crate::diagnostic::Code;
use crate::source::{DocumentId, TextId, TextKind};

const DRAFT: &str = "1. A\n\n5. Wrong\n\n1.1.  B\n\n   ///typedef propid          uint32;\n   /// \
    const B = 1;\n\nN   [Page 18]\n";

fn draft() -> (SourceMap, DocumentId, TextId) {
    let mut sources = SourceMap::new();
    let document = sources.add_document("spec/d.txt", DRAFT);
    let mut diagnostics = crate::diagnostic::Diagnostics::default();
    let erratum = crate::errata::Erratum {
        document: "d.txt".into(),
        line: 8,
        old: "B = 1".into(),
        new: "C = 2".into(),
        reason: "r".into(),
        span: None,
    };
    let text = crate::extract::extract(&mut sources, document, &[erratum], &mut diagnostics).xdr;
    assert!(!diagnostics.has_errors());
    (sources, document, text)
}

fn span(sources: &SourceMap, text: TextId, of: &str) -> Span {
    let at = sources.text(text).content().find(of).expect(of);
    Span::new(text, at..at + of.len())
}

#[test]
fn report_has_the_style_of_rustc() {
    let (sources, _, text) = draft();
    let whole = span(&sources, text, "typedef propid          uint32");
    let name = span(&sources, text, "uint32");
    let diagnostic = Diagnostic::new(
        Code::SwappedTypedef,
        whole,
        "`uint32` is defined as `propid`, which nothing defines",
    )
    .label("the type comes first")
    .note("RFC 4506, section 4.18")
    .note_at(name, "the name is here")
    .fix(whole, "typedef uint32 propid", "swap the name and the type");
    let expected = "\
error[swapped-typedef]: `uint32` is defined as `propid`, which nothing defines
 --> spec/d.txt:7:7
  |
7 |    ///typedef propid          uint32;
  |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ the type comes first
  |
  = note: section 1.1 (B), page 18
  = note: RFC 4506, section 4.18
note: the name is here
 --> spec/d.txt:7:31
  |
7 |    ///typedef propid          uint32;
  |                               ^^^^^^
help: swap the name and the type
  |
7 -    ///typedef propid          uint32;
7 +    ///typedef uint32 propid;
  |
";
    assert_eq!(
        human(&sources, std::slice::from_ref(&diagnostic), Style::Plain),
        expected
    );
    let two = human(
        &sources,
        &[diagnostic.clone(), diagnostic.clone()],
        Style::Plain,
    );
    assert_eq!(two, format!("{expected}\n{expected}"));
    assert!(human(&sources, &[diagnostic], Style::Coloured).contains("\u{1b}["));
    assert_eq!(human(&sources, &[], Style::Plain), "");
}

#[test]
fn a_line_that_an_erratum_changed_has_a_note() {
    let (sources, _, text) = draft();
    let name = span(&sources, text, "C");
    let diagnostic = Diagnostic::new(Code::TypedConstant, name, "a").fix(name, "D", "write");
    let expected = "\
note[typed-constant]: a
 --> spec/d.txt:8:14
  |
8 |    /// const B = 1;
  |              ^
  |
  = note: with errata and markup applied, this line is `const C = 2;`
  = note: section 1.1 (B), page 18
help: write: `D`
";
    assert_eq!(human(&sources, &[diagnostic], Style::Plain), expected);
}

#[test]
fn a_diagnostic_may_have_no_span() {
    let sources = SourceMap::new();
    let diagnostic = Diagnostic::without_span(Code::NoXdr, "`a.txt` has\n no XDR").note("look");
    assert_eq!(
        short(&sources, &diagnostic),
        "error[no-xdr]: `a.txt` has no XDR"
    );
    let diagnostic = Diagnostic::without_span(Code::NoXdr, "`a.txt` has no XDR").note("look");
    let expected = "error[no-xdr]: `a.txt` has no XDR\n |\n = note: look\n";
    assert_eq!(
        human(&sources, std::slice::from_ref(&diagnostic), Style::Plain),
        expected
    );
    let expected = r#"{"code":"no-xdr","level":"error","message":"`a.txt` has no XDR","file":null,"line":null,"column":null,"end_line":null,"end_column":null,"page":null,"section":null,"label":"","notes":[{"file":null,"line":null,"column":null,"message":"look"}],"fixes":[]}"#;
    assert_eq!(json(&sources, &[diagnostic]), format!("{expected}\n"));
}

#[test]
fn json_has_all_keys() {
    let (sources, _, text) = draft();
    let name = span(&sources, text, "uint32");
    let diagnostic = Diagnostic::new(Code::Consistency, name, "a \"b\"")
        .label("c")
        .note_at(name, "d")
        .fix(name, "e", "f");
    assert_eq!(
        short(&sources, &diagnostic),
        "spec/d.txt:7:31: warning[consistency]: a \"b\""
    );
    let expected = r#"{"code":"consistency","level":"warning","message":"a \"b\"","file":"spec/d.txt","line":7,"column":31,"end_line":7,"end_column":37,"page":18,"section":"1.1","label":"c","notes":[{"file":"spec/d.txt","line":7,"column":31,"message":"d"}],"fixes":[{"file":"spec/d.txt","line":7,"column":31,"end_line":7,"end_column":37,"replacement":"e","message":"f"}]}"#;
    assert_eq!(json(&sources, &[diagnostic]), format!("{expected}\n"));
}

#[test]
fn every_span_can_be_rendered() {
    let contents = [
        "",
        "\n",
        "é\tü\u{c}\r\n\u{feff}x\n",
        "a",
        "\n\n\nb\n\n",
        "\u{202e}x\u{0}y",
        &"x\n".repeat(14),
    ];
    for content in contents {
        for name in ["", "a.x", "é\n.x"] {
            let mut sources = SourceMap::new();
            let document = sources.add_document(name, content);
            let text = sources.add_document_text(document, TextKind::Xdr);
            let ends = (0..=content.len() + 2).chain([usize::MAX]);
            for (start, end) in ends
                .clone()
                .flat_map(|start| ends.clone().map(move |end| (start, end)))
            {
                let span = Span::new(text, start..end);
                for replacement in ["", "a", "a\nb", "x"] {
                    let diagnostic = Diagnostic::new(Code::Syntax, span, "m\nn")
                        .label("l\tl")
                        .note_at(span, "")
                        .fix(span, replacement, "f");
                    let list = [diagnostic];
                    assert!(!human(&sources, &list, Style::Plain).is_empty());
                    assert!(json(&sources, &list).ends_with("}\n"));
                    assert!(!short(&sources, &list[0]).contains('\n') || name.contains('\n'));
                }
            }
        }
    }
}
