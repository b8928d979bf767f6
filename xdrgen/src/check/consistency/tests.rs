//! Tests comparisons of small fixtures and of the drafts of this repository.

use super::*;
use crate::extract::extract;
use crate::parse::parse;

/// Returns each finding as (line, line of the first note, message, replacement).
fn found(name: &str, text: &str) -> Vec<(usize, Option<usize>, String, Option<String>)> {
    let mut sources = SourceMap::new();
    let mut ignored = Diagnostics::default();
    let document = sources.add_document(name, text);
    let extracted = extract(&mut sources, document, &[], &mut ignored);
    let xdr = parse(&sources, extracted.xdr, &mut ignored);
    let copies: Vec<_> = extracted
        .copies
        .iter()
        .map(|id| (*id, parse(&sources, *id, &mut ignored)))
        .collect();
    let copies: Vec<_> = copies
        .iter()
        .map(|(id, specification)| (*id, specification))
        .collect();
    let mut diagnostics = Diagnostics::default();
    check(
        &sources,
        &[(extracted.xdr, &xdr)],
        &copies,
        &mut diagnostics,
    );
    let line = |span| sources.locate(span).line;
    let list = diagnostics.into_sorted(&sources);
    let list = list.into_iter().map(|diagnostic| {
        assert_eq!(diagnostic.code, Code::Consistency);
        let note = diagnostic
            .notes
            .first()
            .and_then(|note| note.span)
            .map(line);
        let fix = diagnostic.fixes.first().map(|fix| fix.replacement.clone());
        (
            diagnostic.span.map_or(0, line),
            note,
            diagnostic.message,
            fix,
        )
    });
    list.collect()
}

/// Returns the messages for a definition and its copy.
fn messages(xdr: &str, copy: &str) -> Vec<String> {
    let xdr: String = xdr.lines().map(|line| format!("   /// {line}\n")).collect();
    let text = format!("<CODE BEGINS>\n{copy}\n<CODE ENDS>\n{xdr}");
    found("d.txt", &text)
        .into_iter()
        .map(|(_, _, message, _)| message)
        .collect()
}

fn spec(name: &str) -> Vec<(usize, Option<usize>, String, Option<String>)> {
    let path = format!("{}/../spec/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    found(&path, &std::fs::read_to_string(&path).expect(&path))
}

#[test]
fn xcharext_03_differs_in_two_names() {
    let called = |own: &str, other: &str| format!("`{own}` is called `{other}` in the text");
    let expected = [
        (
            996,
            Some(421),
            called("prop_bsiz", "prop_rbsiz"),
            Some("prop_rbsiz".to_owned()),
        ),
        (
            1013,
            Some(735),
            called("ROPT_RESPRO", "ROPT_RESPROP"),
            Some("ROPT_RESPROP".to_owned()),
        ),
    ];
    assert_eq!(spec("draft-dnoveck-nfsv4-rpcrdma-xcharext-03"), expected);
}

#[test]
fn the_other_drafts_agree_with_themselves() {
    for name in [
        "draft-dnoveck-nfsv4-rpcrdma-rtrext-02",
        "draft-dnoveck-nfsv4-rpcrdma-xcharext-02",
        "draft-cel-nfsv4-rpcrdma-version-two-01",
    ] {
        assert_eq!(spec(name), [], "{name}");
    }
}

#[test]
fn notation_does_not_matter() {
    for (xdr, copy) in [
        ("const uint32 A = 0x01;", "const A = 1; /* one */"),
        (
            "enum a { A, B = 0x10, C };",
            "enum a {\n A = 0,\n B = 16,\n C = 17 };",
        ),
        (
            "struct a { struct b c; unsigned int d; };",
            "struct a { b c; unsigned d; };",
        ),
        (
            "union a switch (int b) { case 1: void; default: int c; };",
            "union a switch (int b)\n{case 01: void; default: int c;};",
        ),
        ("const B = 1; const C = 2;", "const C = 2;"),
        (
            "typedef struct { int b; } a<4>;",
            "typedef struct { int b; } a<0x4>;",
        ),
    ] {
        assert!(
            messages(xdr, copy).is_empty(),
            "{xdr}: {:?}",
            messages(xdr, copy)
        );
    }
}

#[test]
fn the_first_difference_is_reported() {
    for (xdr, copy, message) in [
        (
            "const A = 2;",
            "const uint32 A = 0x1;",
            "the copy in the text has `A = 0x1`",
        ),
        (
            "const A = 1;",
            "typedef int A;",
            "the copy in the text has `typedef int A`",
        ),
        (
            "typedef int a;",
            "typedef  hyper a;",
            "the copy in the text has `hyper a`",
        ),
        (
            "typedef opaque a<4>;",
            "typedef opaque a[4];",
            "the copy in the text has `opaque a[4]`",
        ),
        (
            "enum a { A = 1, B = 2 };",
            "enum a { A = 1, B = 3 };",
            "the copy in the text has `B = 3`",
        ),
        (
            "enum a { A = 1, B = 2 };",
            "enum a { B = 2 };",
            "the copy in the text lacks `A = 1`",
        ),
        (
            "enum a { A = 1 };",
            "enum a { B = 0, A = 1 };",
            "the copy in the text has `B = 0` in addition",
        ),
        (
            "struct a { int b; };",
            "struct a { int b; int c; };",
            "the copy in the text has `int c` in addition",
        ),
        (
            "struct a { int b; int c; };",
            "struct a { int b; };",
            "the copy in the text lacks `int c`",
        ),
        (
            "struct a { int b; };",
            "struct a { int *b; };",
            "the copy in the text has `int *b`",
        ),
        (
            "union a switch (int b) { case 1: void; };",
            "union a switch (int b) { case 2: void; };",
            "the copy in the text has `2`",
        ),
        (
            "program P { version V { void A(void) = 0; } = 1; } = 2;",
            "program P { version V { int A(void) = 0; } = 1; } = 2;",
            "the copy in the text has `int A(void) = 0;`",
        ),
        (
            "const A = 1;",
            "const B = 1; const A = 1;",
            "`B` is not in the XDR block",
        ),
        (
            "struct xyz { int b; };",
            "struct other { int b; };",
            "`xyz` is called `other` in the text",
        ),
        (
            "const A_LONG_NAME = 1;",
            "const ANOTHER = 1;",
            "`ANOTHER` is not in the XDR block",
        ),
    ] {
        assert_eq!(messages(xdr, copy), [message], "{xdr}");
    }
}
