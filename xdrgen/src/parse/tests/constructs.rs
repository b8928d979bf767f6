//! Every construct of RFC 4506 and RFC 5531, read and written again.

use super::{parsed, read, reported};
use crate::source::TextKind;

/// Asserts that `xdr` is read without a remark, as it stands but for blanks.
#[track_caller]
fn same(xdr: &str) {
    assert_eq!(reported(xdr), "");
    assert_eq!(read(xdr), xdr);
}

#[test]
fn constants() {
    same("const A = 1;");
    same("const A = -9223372036854775808;");
    same("const A = 18446744073709551615;");
    assert_eq!(read("const A = 0x10; const B = 010; const C = B;"), "const A = 16;\nconst B = 8;\nconst C = B;");
}

#[test]
fn typedefs() {
    for ty in ["int", "unsigned int", "hyper", "unsigned hyper", "float", "double", "quadruple", "bool", "other"] {
        same(&format!("typedef {ty} a;"));
        same(&format!("typedef {ty} *a;"));
        same(&format!("typedef {ty} a[4];"));
        same(&format!("typedef {ty} a<MAX>;"));
        same(&format!("typedef {ty} a<>;"));
    }
    same("typedef opaque a[4];\ntypedef opaque a<>;\ntypedef opaque a<5>;");
    same("typedef string a<>;\ntypedef string a<MAX>;");
    same("typedef struct { int a; } b;\ntypedef enum { A = 1 } b;\ntypedef union switch (int a) { case 1: void; } b;");
}

#[test]
fn enums() {
    same("enum a { A = 1 };\nenum b { A = -1, B = A, C = 255 };");
}

#[test]
fn structs() {
    same("struct a { int b; opaque c<>; string d<5>; e f[G]; struct { int h; } i; enum { J = 1 } k; };");
    same("struct a { a *next; struct { int b; } *c; };");
    assert_eq!(read("struct a\n{\n\tint* b;\n\tc d [ 5 ] ;\n}\n;"), "struct a { int *b; c d[5]; };");
}

#[test]
fn unions() {
    same("union a switch (int b) { case 1: int c; case 2: case X: void; default: opaque d[4]; };");
    same("union a switch (unsigned int b) { default: void; };");
    same("struct a { union switch (bool b) { case TRUE: int c; case FALSE: void; } d; };");
}

#[test]
fn programs() {
    same(
        "program P { version V { void NULL(void) = 0; int A(int, b) = 1; } = 1; version W { c D(e) = 1; } = 2; } = 9;",
    );
    same("program P { version V { string A(string) = 1; unsigned hyper B(unsigned int, bool) = 2; } = X; } = Y;");
    same("struct program { int version; };");
}

#[test]
fn spans() {
    let (sources, _, specification, _) = parsed("const A = 1;\nstruct s { hyper a<5>; };", TextKind::Xdr, true);
    let text: Vec<&str> = specification.definitions.iter().map(|definition| sources.slice(definition.span)).collect();
    assert_eq!(text, ["const A = 1;", "struct s { hyper a<5>; };"]);
    let crate::ast::DefinitionKind::Struct(body) = &specification.definitions[1].kind else {
        panic!("a struct");
    };
    assert_eq!(sources.slice(body.fields[0].span), "hyper a<5>");
    assert_eq!(sources.slice(body.fields[0].ty.span), "hyper");
    assert_eq!(sources.slice(body.fields[0].name.span), "a");
}
