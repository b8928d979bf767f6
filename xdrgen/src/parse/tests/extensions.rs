//! Tests the extensions of real files: each is reported as a lint and parsed.

use super::{fixed, parsed, read, reported};
use crate::diagnostic::Code;
use crate::source::TextKind;

/// Asserts the lints, as `line:column code`, and the parsed syntax.
#[track_caller]
fn lints(xdr: &str, places: &[&str], meaning: &str) {
    let found = reported(xdr);
    let found: Vec<String> = found
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(found, places);
    assert_eq!(read(xdr), meaning);
}

#[test]
fn references() {
    let at = [
        "1:12 struct-reference",
        "1:25 struct-reference",
        "1:35 struct-reference",
    ];
    lints(
        "struct a { struct b *c; enum d e; union f g<>; };",
        &at,
        "struct a { struct b *c; enum d e; union f g<>; };",
    );
    lints(
        "typedef struct foo *bar;",
        &["1:9 struct-reference"],
        "typedef struct foo *bar;",
    );
    lints(
        "typedef struct foo bar;",
        &["1:9 struct-reference"],
        "typedef struct foo bar;",
    );
    assert_eq!(fixed("typedef struct foo bar;"), "typedef foo bar;");
}

#[test]
fn constants() {
    lints(
        "const uint32 A = 1;",
        &["1:7 typed-constant"],
        "const uint32 A = 1;",
    );
    lints(
        "const unsigned int A = 1;",
        &["1:7 typed-constant"],
        "const unsigned int A = 1;",
    );
}

#[test]
fn integers() {
    lints(
        "typedef unsigned a;",
        &["1:9 bare-unsigned"],
        "typedef unsigned int a;",
    );
    lints(
        "typedef unsigned *a;",
        &["1:9 bare-unsigned"],
        "typedef unsigned int *a;",
    );
    let as_c = |ty: &str, meant: &str| {
        lints(
            &format!("typedef {ty} a;"),
            &["1:9 c-integer"],
            &format!("typedef {meant} a;"),
        );
    };
    for ty in ["char", "short", "long", "short int", "long int"] {
        as_c(ty, "int");
        as_c(&format!("unsigned {ty}"), "unsigned int");
    }
    for ty in ["long long", "long long int"] {
        as_c(ty, "hyper");
        as_c(&format!("unsigned {ty}"), "unsigned hyper");
    }
    as_c("longlong_t", "hyper");
    as_c("u_longlong_t", "unsigned hyper");
    lints(
        "typedef int32_t a; typedef u_int b;",
        &[],
        "typedef int32_t a;\ntypedef u_int b;",
    );
}

#[test]
fn enums() {
    lints(
        "enum a { A, B = 5, C };",
        &["1:10 implicit-enum-value", "1:20 implicit-enum-value"],
        "enum a { A, B = 5, C };",
    );
    lints(
        "enum a { A = 1, };",
        &["1:15 trailing-comma"],
        "enum a { A = 1 };",
    );
}

#[test]
fn namespaces() {
    let xdr = "namespace a { namespace b::c {\nconst A = x::B;\n}; struct s { a::t u; }; }\nunion \
        u switch (int a) { case ::A: void; };";
    let meaning = "const A = B;\nstruct s { t u; };\nunion u switch (int a) { case A: void; };";
    let at = [
        "1:1 namespace",
        "1:15 namespace",
        "2:11 namespace",
        "3:15 namespace",
        "4:31 namespace",
    ];
    lints(xdr, &at, meaning);
}

#[test]
fn pragmas() {
    lints(
        "pragma header nfs4;\npragma public a;\nconst A = 1;",
        &["1:1 pragma", "2:1 pragma"],
        "const A = 1;",
    );
}

#[test]
fn empty_declarations_and_bodies() {
    lints("struct a { };", &["1:10 empty-body"], "struct a { };");
    lints("struct a { void; };", &["1:10 empty-body"], "struct a { };");
    lints(
        ";const A = 1;;",
        &["1:1 empty-declaration", "1:14 empty-declaration"],
        "const A = 1;",
    );
    lints(
        "struct a { int b;; };",
        &["1:18 empty-declaration"],
        "struct a { int b; };",
    );
    lints(
        "union a switch (int b) { case 1: void;; };",
        &["1:39 empty-declaration"],
        "union a switch (int b) { case 1: void; };",
    );
    lints(
        "program p { version v { void a(b,) = 1; } = 1; } = 1;",
        &["1:33 trailing-comma"],
        "program p { version v { void a(b) = 1; } = 1; } = 1;",
    );
}

#[test]
fn copies() {
    let xdr = "const uint32 A = 1; // one\nstruct a { unsigned b; int; };\nunion u switch (int a) \
        { case 08: int b; int c; };/*";
    let (_, _, specification, found) = parsed(xdr, TextKind::Copy, true);
    assert_eq!(specification.definitions.len(), 3);
    let codes: Vec<Code> = found.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, [Code::TextSyntax; 4]);
    assert!(found.iter().all(|diagnostic| !diagnostic.is_error()));
}
