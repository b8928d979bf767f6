//! Tests extraction from small fixtures and from the drafts of this repository.

use super::*;
use crate::diagnostic::Levels;
use crate::outline::outline;

const XCHAREXT_03: &str = "draft-dnoveck-nfsv4-rpcrdma-xcharext-03.txt";

fn spec(name: &str) -> String {
    let path = format!("{}/../spec/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).expect(&path)
}

struct Run {
    sources: SourceMap,
    document: DocumentId,
    extracted: Extraction,
    list: Vec<Diagnostic>,
}

fn run(name: &str, text: &str, errata: &[Erratum]) -> Run {
    let mut sources = SourceMap::new();
    let mut diagnostics = Diagnostics::new(Levels::default());
    let document = sources.add_document(format!("spec/{name}"), text);
    let extracted = extract(&mut sources, document, errata, &mut diagnostics);
    let list = diagnostics.into_sorted(&sources);
    Run {
        sources,
        document,
        extracted,
        list,
    }
}

impl Run {
    fn xdr(&self) -> String {
        xdr_of(&self.sources, self.extracted.xdr)
    }

    fn line(&self, number: usize) -> Vec<&str> {
        let texts =
            std::iter::once(self.extracted.xdr).chain(self.extracted.copies.iter().copied());
        let lines = texts.flat_map(|id| self.sources.text(id).lines());
        lines
            .filter(|(line, _)| *line == number)
            .map(|(_, content)| content)
            .collect()
    }
}

fn erratum(document: &str, line: usize, old: &str, new: &str) -> Erratum {
    let [document, old, new] = [document, old, new].map(str::to_owned);
    Erratum {
        document,
        line,
        old,
        new,
        reason: "test".to_owned(),
        span: None,
    }
}

#[test]
fn drafts_have_the_expected_counts() {
    let expected = [
        ("draft-cel-nfsv4-rpcrdma-version-two-01.txt", 129, 0, 26, 16),
        ("draft-dnoveck-nfsv4-rpcrdma-rtrext-02.txt", 301, 14, 49, 0),
        ("draft-dnoveck-nfsv4-rpcrdma-xcharext-02.txt", 108, 0, 29, 0),
        (XCHAREXT_03, 108, 8, 29, 23),
    ];
    for (name, lines, copies, sections, pages) in expected {
        let text = spec(name);
        let run = run(name, &text, &[]);
        assert_eq!(run.list, [], "{name}");
        assert_eq!(
            run.sources.text(run.extracted.xdr).lines().count(),
            lines,
            "{name}"
        );
        assert_eq!(run.extracted.copies.len(), copies, "{name}");
        let outline = outline(&text);
        assert_eq!(
            (outline.sections.len(), outline.pages.len()),
            (sections, pages),
            "{name}: {:#?}",
            outline.sections
        );
    }
}

#[test]
fn lines_of_a_draft_have_a_page_and_a_section() {
    let run = run(XCHAREXT_03, &spec(XCHAREXT_03), &[]);
    let document = run.sources.document(run.document);
    let at = |line| {
        (
            document.page(line),
            document
                .section(line)
                .map(|section| section.number.as_str()),
        )
    };
    assert_eq!(at(966), (Some(18), Some("5.2")));
    assert_eq!(at(421), (Some(8), Some("3.1")));
    assert_eq!(at(1), (Some(1), None));
    assert_eq!(at(1220), (Some(22), Some("A")));
    assert_eq!(run.line(966), ["typedef propid          uint32;"]);
    assert_eq!(run.line(194), ["   typedef propid          uint32;"]);
}

#[test]
fn errata_are_applied_in_order() {
    let text = "   /// typedef a uint32;\n   <CODE BEGINS>\n   typedef a uint32;\n   const B \
                =\n   1;\n   <CODE ENDS>\n";
    let errata = [
        erratum("d.txt", 1, "a uint32", "uint32 a"),
        erratum("d.txt", 1, "uint32 a;", "uint32 b;\ntypedef b a;"),
        erratum("d.txt", 4, "const B =\n1;", "const B = 1;"),
        erratum("other.txt", 1, "x", "y"),
    ];
    let run = run("d.txt", text, &errata);
    assert_eq!(run.list, []);
    assert_eq!(run.line(1), ["typedef uint32 b;", "typedef b a;"]);
    assert_eq!(run.line(4), ["   const B = 1;"]);
    assert_eq!(run.line(5), ["   "]);
    let end = run.xdr().len();
    let span = crate::source::Span::new(run.extracted.xdr, end - 3..end - 1);
    assert_eq!(run.sources.slice(span), "a;");
    assert_eq!(run.sources.locate(span).to_string(), "spec/d.txt:1:18");
}

#[test]
fn errata_that_do_not_match_are_reported() {
    let text = "prose\n   /// const A = 1, A = 1;\n";
    let cases = [
        (
            2,
            "const B",
            "the erratum's old text is not on line 2 of `d.txt`",
            Some("line 2 contains `const A = 1, A = 1;`"),
        ),
        (
            2,
            "A = 1",
            "the erratum's old text is on line 2 of `d.txt` more than once",
            None,
        ),
        (
            1,
            "prose",
            "line 1 of `d.txt` contains no XDR",
            Some("line 1 is not part of the XDR"),
        ),
        (
            2,
            "const\nA",
            "`d.txt` has no line 3",
            Some("it has 2 lines"),
        ),
        (9, "x", "`d.txt` has no line 9", Some("it has 2 lines")),
        (
            usize::MAX,
            "x",
            "`d.txt` has no line 18446744073709551615",
            None,
        ),
    ];
    for (line, old, message, note) in cases {
        let run = run("d.txt", text, &[erratum("d.txt", line, old, "new")]);
        let [diagnostic] = run.list.as_slice() else {
            panic!("{:?}", run.list)
        };
        assert_eq!(
            (diagnostic.code, diagnostic.message.as_str()),
            (Code::ErratumMismatch, message)
        );
        if let Some(note) = note {
            assert_eq!(diagnostic.notes[0].message, note);
        }
        if line == 2 && diagnostic.notes[0].span.is_some() {
            let span = diagnostic.notes[0].span.expect("a span");
            assert_eq!(run.sources.locate(span).to_string(), "spec/d.txt:2:4");
        }
        assert_eq!(run.xdr(), "const A = 1, A = 1;\n");
    }
}

#[test]
fn the_format_depends_on_the_name_and_then_on_the_content() {
    let xdr = "/* c */\nconst A = 1;\n";
    let x = run("a.x", "/// const A = 1;\n", &[]);
    assert_eq!((x.xdr().as_str(), x.list.len()), ("/// const A = 1;\n", 0));
    assert_eq!(run("a", xdr, &[]).xdr(), xdr);
    assert_eq!(run("a", "const\n/// int a;\n", &[]).xdr(), "int a;\n");
    for (name, text) in [("a.txt", xdr), ("a", "prose"), ("a.txt", "")] {
        let run = run(name, text, &[]);
        assert_eq!(run.list.len(), 1, "{name}");
        assert_eq!((run.list[0].code, run.list[0].span), (Code::NoXdr, None));
        assert!(run.list[0].message.contains(&format!("`spec/{name}`")));
        assert_eq!(run.xdr(), "");
    }
}

#[test]
fn page_breaks_and_line_ends_are_removed() {
    let text = "/// struct a {\r\n\r\nN   [Page 1]\r\n\u{c}\r\nRFC 1   T   1999\r\n\r\n   ///   \
        int b;\r\n/// };\r\n\
                <CODE BEGINS>\r\nstruct a {\r\nN   [Page 2]\r\n\u{c}RFC 1   T   1999\r\n\
                \tint b;\r\n};\r\n<CODE ENDS>\r\n";
    let run = run("d.txt", text, &[]);
    assert_eq!(run.xdr(), "struct a {\n  int b;\n};\n");
    assert_eq!(
        xdr_of(&run.sources, run.extracted.copies[0]),
        "struct a {\n\tint b;\n};\n"
    );
    let at = run.xdr().find('b').expect("a b");
    let span = crate::source::Span::new(run.extracted.xdr, at..at + 1);
    let location = run.sources.locate(span);
    assert_eq!(
        (location.line, location.column, location.page),
        (7, 14, Some(2))
    );
}

#[test]
fn truncated_documents_can_be_extracted() {
    let text = spec(XCHAREXT_03);
    let errata = [
        erratum(XCHAREXT_03, 966, "uint32", ""),
        erratum(XCHAREXT_03, 194, "typedef\n", "\n"),
    ];
    for end in (0..text.len())
        .step_by(397)
        .filter(|end| text.is_char_boundary(*end))
    {
        let run = run(XCHAREXT_03, &text[..end], &errata);
        let lines = run.sources.text(run.extracted.xdr).lines();
        assert!(
            lines
                .into_iter()
                .all(|(line, _)| line <= run.sources.document(run.document).line_count())
        );
    }
}
