//! Tests each construct of RFC 4506 and RFC 5531: parses it and renders it again.

use super::{parsed, read, reported};
use crate::source::TextKind;

/// Asserts that `xdr` parses without a diagnostic and renders to the same text, except for
/// blanks.
#[track_caller]
fn assert_unchanged(xdr: &str) {
    assert_eq!(reported(xdr), "");
    assert_eq!(read(xdr), xdr);
}

#[test]
fn constants() {
    assert_unchanged("const A = 1;");
    assert_unchanged("const A = -9223372036854775808;");
    assert_unchanged("const A = 18446744073709551615;");
    assert_eq!(
        read("const A = 0x10; const B = 010; const C = B;"),
        "const A = 16;\nconst B = 8;\nconst C = B;"
    );
}

#[test]
fn typedefs() {
    for ty in [
        "int",
        "unsigned int",
        "hyper",
        "unsigned hyper",
        "float",
        "double",
        "quadruple",
        "bool",
        "other",
    ] {
        assert_unchanged(&format!("typedef {ty} a;"));
        assert_unchanged(&format!("typedef {ty} *a;"));
        assert_unchanged(&format!("typedef {ty} a[4];"));
        assert_unchanged(&format!("typedef {ty} a<MAX>;"));
        assert_unchanged(&format!("typedef {ty} a<>;"));
    }
    assert_unchanged("typedef opaque a[4];\ntypedef opaque a<>;\ntypedef opaque a<5>;");
    assert_unchanged("typedef string a<>;\ntypedef string a<MAX>;");
    assert_unchanged(
        "typedef struct { int a; } b;\ntypedef enum { A = 1 } b;\ntypedef union switch (int a) { \
        case 1: void; } b;",
    );
}

#[test]
fn enums() {
    assert_unchanged("enum a { A = 1 };\nenum b { A = -1, B = A, C = 255 };");
}

#[test]
fn structs() {
    assert_unchanged(
        "struct a { int b; opaque c<>; string d<5>; e f[G]; struct { int h; } i; enum { J = 1 } \
        k; };",
    );
    assert_unchanged("struct a { a *next; struct { int b; } *c; };");
    assert_eq!(
        read("struct a\n{\n\tint* b;\n\tc d [ 5 ] ;\n}\n;"),
        "struct a { int *b; c d[5]; };"
    );
}

#[test]
fn unions() {
    assert_unchanged(
        "union a switch (int b) { case 1: int c; case 2: case X: void; default: opaque d[4]; };",
    );
    assert_unchanged("union a switch (unsigned int b) { default: void; };");
    assert_unchanged(
        "struct a { union switch (bool b) { case TRUE: int c; case FALSE: void; } d; };",
    );
}

#[test]
fn programs() {
    assert_unchanged(
        "program P { version V { void NULL(void) = 0; int A(int, b) = 1; } = 1; version W { c \
        D(e) = 1; } = 2; } = 9;",
    );
    assert_unchanged(
        "program P { version V { string A(string) = 1; unsigned hyper B(unsigned int, bool) = 2; \
        } = X; } = Y;",
    );
    assert_unchanged("struct program { int version; };");
}

#[test]
fn spans() {
    let (sources, _, specification, _) = parsed(
        "const A = 1;\nstruct s { hyper a<5>; };",
        TextKind::Xdr,
        true,
    );
    let text: Vec<&str> = specification
        .definitions
        .iter()
        .map(|definition| sources.slice(definition.span))
        .collect();
    assert_eq!(text, ["const A = 1;", "struct s { hyper a<5>; };"]);
    let crate::ast::DefinitionKind::Struct(body) = &specification.definitions[1].kind else {
        panic!("a struct");
    };
    assert_eq!(sources.slice(body.fields[0].span), "hyper a<5>");
    assert_eq!(sources.slice(body.fields[0].ty.span), "hyper");
    assert_eq!(sources.slice(body.fields[0].name.span), "a");
}
