//! Tests each kind of syntax error: one diagnostic, its position, and the recovered syntax.

use super::{fixed, parsed, read, reported};
use crate::source::TextKind;

/// Asserts the only diagnostic of `xdr`.
#[track_caller]
fn assert_one(xdr: &str, diagnostic: &str) {
    assert_eq!(reported(xdr), format!("{diagnostic}\n"));
}

/// Asserts the only diagnostic of `xdr`, and the text after its fix.
#[track_caller]
fn assert_fix(xdr: &str, diagnostic: &str, fixed_text: &str) {
    assert_one(xdr, diagnostic);
    assert_eq!(fixed(xdr), fixed_text);
    assert_eq!(reported(fixed_text), "");
}

#[test]
fn missing_semicolons() {
    let missing = "struct a {\n  int b\n  int c;\n};";
    assert_fix(
        missing,
        "2:8 syntax expected `;`, found `int`",
        "struct a {\n  int b;\n  int c;\n};",
    );
    assert_eq!(read(missing), "struct a { int b; int c; };");
    assert_fix(
        "enum a { A = 1 }\n\nunion b switch (int c) { case 1: void; };",
        "1:17 syntax expected `;`, found `union`",
        "enum a { A = 1 };\n\nunion b switch (int c) { case 1: void; };",
    );
    assert_fix(
        "const A = 1\nconst B = 2;",
        "1:12 syntax expected `;`, found `const`",
        "const A = 1;\nconst B = 2;",
    );
    assert_fix(
        "typedef int a",
        "1:14 syntax expected `;`, found the end of the text",
        "typedef int a;",
    );
    assert_fix(
        "union a switch (int b) { case 1: int c case 2: void; };",
        "1:39 syntax expected `;`, found `case`",
        "union a switch (int b) { case 1: int c; case 2: void; };",
    );
}

#[test]
fn missing_braces() {
    assert_fix(
        "union a switch(b c)\n\n  case 1:\n    void;\n};",
        "1:20 syntax expected `{`, found `case`",
        "union a switch(b c) {\n\n  case 1:\n    void;\n};",
    );
    assert_fix(
        "struct a\n int b;\n};",
        "1:9 syntax expected `{`, found `int`",
        "struct a {\n int b;\n};",
    );
    assert_fix(
        "enum a A = 1 };",
        "1:7 syntax expected `{`, found `A`",
        "enum a { A = 1 };",
    );
    assert_fix(
        "struct a { int b;\n;\nstruct c { int d; };",
        "2:1 syntax expected `}`, found `;`",
        "struct a { int b;\n};\nstruct c { int d; };",
    );
    assert_eq!(
        read("struct a { int b;\nstruct c { int d; };\ntypedef int e;"),
        "struct a { int b; };\nstruct c { int d; };\ntypedef int e;"
    );
    assert_one(
        "enum a { A = 1\ntypedef int b;",
        "1:15 syntax expected `}`, found `typedef`",
    );
    assert_one(
        "struct a { int b;",
        "1:18 syntax expected `}`, found the end of the text",
    );
    assert_one("const A = 1; }\nconst B = 2;", "1:14 syntax unmatched `}`");
    assert_one(
        "namespace a { const A = 1;",
        "1:1 namespace a namespace\n1:27 syntax expected `}`, found the end of the text",
    );
}

#[test]
fn names_and_types() {
    assert_one("typedef int;", "1:12 syntax expected a name, found `;`");
    assert_one(
        "struct { int a; };",
        "1:8 syntax expected a name for the struct, found `{`",
    );
    assert_one("typedef ;", "1:9 syntax expected a type, found `;`");
    assert_one(
        "typedef int int a;",
        "1:13 syntax expected a name, found `int`",
    );
    assert_one(
        "struct a { 5 b; int c; };",
        "1:12 syntax expected a field, found `5`",
    );
    assert_one(
        "typedef unsigned b c;",
        "1:18 syntax expected `int` or `hyper` after `unsigned`, found `b`",
    );
    assert_fix(
        "struct a { struct b { int c; } d; };",
        "1:19 syntax expected `{`, found `b`",
        "struct a { struct { int c; } d; };",
    );
    assert_eq!(
        read("typedef uint32[4] a; typedef uint32<> b;"),
        "typedef uint32 a[4];\ntypedef uint32 b<>;"
    );
    assert_fix(
        "struct a {\n int b;\n c; d;\n};",
        "3:3 syntax expected a name, found `;`",
        "struct a {\n int b;\n c d;\n};",
    );
    assert_eq!(read("struct a { c; d; };"), "struct a { c d; };");
}

#[test]
fn shapes() {
    assert_fix(
        "typedef string a;",
        "1:16 bare-string a string without `<>`",
        "typedef string a<>;",
    );
    assert_fix(
        "typedef opaque a;",
        "1:17 syntax expected `[` or `<` after the name of `opaque`, found `;`",
        "typedef opaque a<>;",
    );
    assert_one(
        "typedef string a[5];",
        "1:17 syntax expected `<` after the name of `string`, found `[`",
    );
    assert_one(
        "typedef int *a<5>;",
        "1:15 syntax an optional value can't be an array too",
    );
    assert_one("typedef int a[];", "1:15 syntax expected a size, found `]`");
    assert_one("typedef int a[5;", "1:16 syntax expected `]`, found `;`");
    assert_one("typedef int a<5;", "1:16 syntax expected `>`, found `;`");
    assert_one(
        "typedef int a, b;",
        "1:16 syntax a declaration of several names",
    );
}

#[test]
fn enums() {
    assert_fix(
        "enum a { A = 1\n B = 2 };",
        "1:15 syntax expected `,`, found `B`",
        "enum a { A = 1,\n B = 2 };",
    );
    assert_one("enum a { };", "1:10 syntax expected a name, found `}`");
    assert_fix(
        "enum a { A = 1; B = 2 };",
        "1:15 syntax expected `,` or `}`, found `;`",
        "enum a { A = 1, B = 2 };",
    );
    assert_fix(
        "enum a { A 1, B = 2 };",
        "1:12 syntax expected `=`, found `1`",
        "enum a { A = 1, B = 2 };",
    );
    assert_eq!(
        reported("enum a { A 1,\n B 2,\n = 3,\n D = };")
            .lines()
            .count(),
        4
    );
}

#[test]
fn unions() {
    assert_one(
        "union a switch (int b) { case 1: int c; int d; int e; case 2: void; };",
        "1:34 several-declarations an arm with several declarations",
    );
    assert_eq!(
        read("union a switch (int b) { case 1: int c; int d; };"),
        "union a switch (int b) { case 1: struct { int c; int d; } c; };"
    );
    assert_fix(
        "union a switch (int b) { 1: void; };",
        "1:26 syntax expected `case`, found `1`",
        "union a switch (int b) { case 1: void; };",
    );
    assert_fix(
        "union a switch (int b) { case 1 void; };",
        "1:33 syntax expected `:`, found `void`",
        "union a switch (int b) { case 1: void; };",
    );
    assert_fix(
        "union a switch (int b) { case 1: };",
        "1:34 syntax expected a declaration, found `}`",
        "union a switch (int b) { case 1: void; };",
    );
    assert_one(
        "union a switch () { case 1: void; };",
        "1:17 syntax expected a type, found `)`",
    );
    assert_one(
        "union a { int b; };",
        "1:9 syntax expected `switch`, found `{`",
    );
    assert_one(
        "union a switch (int b) { default: void; default: void; };",
        "1:41 syntax a union has one `default`",
    );
    assert_one(
        "union a switch (int b) { default: void; case 1: void; };",
        "1:46 syntax a case after `default`",
    );
}

#[test]
fn programs() {
    let body = |body: &str| format!("program P {{ version V {{ {body} }} = 1; }} = 1;");
    assert_fix(
        &body("void A() = 1;"),
        "1:32 syntax expected `void` or a type, found `)`",
        &body("void A(void) = 1;"),
    );
    assert_fix(
        &body("A(void) = 1;"),
        "1:25 syntax expected `void` or a type, found `A`",
        &body("void A(void) = 1;"),
    );
    assert_one(
        &body("void A(void) 1;"),
        "1:38 syntax expected `=`, found `1`",
    );
    let unnumbered = "program P { version V { void A(void) = 1; } = 1; }";
    let end = unnumbered.len() + 1;
    for (next, found) in [
        (
            "program Q { version R { void B(void) = 1; } = 1; } = 2;",
            "`program`",
        ),
        ("struct s { int a; };", "`struct`"),
    ] {
        assert_one(
            &format!("{unnumbered}\n{next}"),
            &format!("1:{end} syntax expected `=` and a program number, found {found}"),
        );
    }
    assert_one(
        &body("void A(int, , int) = 1;"),
        "1:37 syntax expected a type, found `,`",
    );
    assert_one(
        &body("void A(opaque) = 1;"),
        "1:32 syntax `opaque` without a length",
    );
    assert_one(
        &body("void A(int b) = 1;"),
        "1:36 named-argument the argument `b` has a name",
    );
    assert_one(
        &body("void A(int b c) = 1;"),
        "1:36 named-argument the argument `b` has a name\n1:38 syntax expected `)`, found `c`",
    );
    assert_one(
        &body("void A(void) = 1"),
        "1:41 syntax expected `;`, found `}`",
    );
    assert_one(
        "program P { version V { void A(void) = 1; = 1; } = 1;",
        "1:43 syntax expected `}`, found `=`",
    );
    assert_one(
        "program P { V { void A(void) = 1; } = 1; } = 1;",
        "1:13 syntax expected `version`, found `V`",
    );
    assert_one(
        "program { version V { void A(void) = 1; } = 1; } = 1;",
        "1:9 syntax expected a name for the program, found `{`",
    );
}

#[test]
fn misspelled_keywords() {
    assert_fix(
        "stuct a { int b; };",
        "1:1 syntax expected a definition, found `stuct`",
        "struct a { int b; };",
    );
    assert_fix(
        "Typedef int b;",
        "1:1 syntax expected a definition, found `Typedef`",
        "typedef int b;",
    );
    assert_fix(
        "cosnt A = 1;",
        "1:1 syntax expected a definition, found `cosnt`",
        "const A = 1;",
    );
    assert_fix(
        "a { A = 1, B = 2 };",
        "1:1 syntax expected a definition, found `a`",
        "enum a { A = 1, B = 2 };",
    );
    assert_fix(
        "a switch (int b) { case 1: void; };",
        "1:1 syntax expected a definition, found `a`",
        "union a switch (int b) { case 1: void; };",
    );
    assert_fix(
        "A = 1;",
        "1:1 syntax expected a definition, found `A`",
        "const A = 1;",
    );
    assert_fix(
        "int b;",
        "1:1 syntax expected a definition, found `int`",
        "typedef int b;",
    );
    assert_eq!(read("clasp a { int b; };"), "struct a { int b; };");
}

#[test]
fn many_defects_are_all_reported() {
    let lines = "struct a {\n uint32;\n uint32;\n uint32 b c;\n uint32 d c;\n ;\n opaque \
        e;\n};\nstruct f {\n int 5;\n int g h;\n}\nconst A 5;\nconst B 6;\n";
    let found = reported(lines);
    let at: Vec<&str> = found
        .lines()
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(
        at,
        ["2", "3", "4", "5", "6", "7", "10", "11", "12", "13", "14"]
    );
    let (_, _, specification, _) = parsed(lines, TextKind::Xdr, true);
    assert_eq!(specification.definitions.len(), 4);
}
