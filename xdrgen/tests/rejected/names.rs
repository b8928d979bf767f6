//! Names: duplicates, and names of the wrong kind.

use super::*;

#[test]
fn duplicate_definitions() {
    let twice = |first: &str, second: &str, at: usize, other: usize| {
        rejected(
            &format!("{first}\n{second}"),
            &[&format!("2:{at} duplicate-definition <- 1:{other}")],
        );
    };
    twice("const A = 1;", "const A = 1;", 7, 7);
    twice("const A = 1;", "enum b { A = 1 };", 10, 7);
    twice("struct a { int b; };", "struct a { int b; };", 8, 8);
    twice(
        "struct a { int b; };",
        "union a switch (int b) { case 1: void; };",
        7,
        8,
    );
    twice("struct a { int b; };", "enum a { B = 1 };", 6, 8);
    twice("enum a { A = 1 };", "enum b { A = 2 };", 10, 10);
    twice("enum a { A = 1 };", "const A = 2;", 7, 10);
    twice("typedef int a;", "typedef unsigned int a;", 22, 13);
    twice("typedef int a;", "typedef int a[1];", 13, 13);
    twice("typedef int a<1>;", "typedef int a[1];", 13, 13);
    twice("typedef int a<1>;", "typedef int a<2>;", 13, 13);
    twice("typedef int a<1>;", "typedef int a<>;", 13, 13);
    twice("typedef int a;", "typedef int *a;", 14, 13);
    twice("typedef string a<>;", "typedef opaque a<>;", 16, 16);
    twice(
        "typedef struct { int b; } a;",
        "typedef struct { int b; } a;",
        27,
        27,
    );
    twice("typedef int a;", "typedef opaque a<4>;", 16, 13);
    twice("const a = 1;", "struct a { int b; };", 8, 7);
    twice("typedef int a;", "struct a { int b; };", 8, 13);
    rejected(
        "enum a { A = 1, A = 2 };",
        &["1:17 duplicate-definition <- 1:10"],
    );
    rejected(
        "struct a { enum { B = 1 } c; };\nconst B = 2;",
        &["2:7 duplicate-definition <- 1:19"],
    );
    rejected(
        "const A = 1;\nconst A = 2;\nconst A = 3;",
        &[
            "2:7 duplicate-definition <- 1:7",
            "3:7 duplicate-definition <- 1:7",
        ],
    );
}

#[test]
fn repeated_typedef_is_a_lint() {
    let twice = |first: &str, second: &str, at: usize, other: usize| {
        let lint = format!("2:{at} repeated-typedef <- 1:{other}");
        let compilation = accepted(&format!("{first}\n{second}"), &[&lint]);
        let names = compilation.schema().types.iter().map(|ty| ty.name.as_str());
        assert_eq!(names.filter(|name| *name == "a").count(), 1, "{first}");
    };
    twice("typedef int a;", "typedef int a;", 13, 13);
    twice("typedef int a;", "typedef  /* as above */  int\ta;", 30, 13);
    twice(
        "typedef unsigned int *a;",
        "typedef unsigned int * a;",
        24,
        23,
    );
    twice("typedef opaque a<16>;", "typedef opaque a<0x10>;", 16, 16);
    twice("typedef string a<>;", "typedef string a<>;", 16, 16);
    twice(
        "struct s { int b; }; typedef s a[2];",
        "typedef struct s a[2];",
        18,
        32,
    );
    twice(
        "const N = 3; typedef int a<N>;",
        "typedef int a<N>;",
        13,
        26,
    );
    accepted(
        "typedef int a;\ntypedef int a;\ntypedef int a;",
        &[
            "2:13 repeated-typedef <- 1:13",
            "3:13 repeated-typedef <- 1:13",
        ],
    );
    // A different typedef remains an error, and an undefined name of both is reported once.
    rejected(
        "typedef int a;\ntypedef int a;\ntypedef hyper a;",
        &[
            "2:13 repeated-typedef <- 1:13",
            "3:15 duplicate-definition <- 1:13",
        ],
    );
    rejected(
        "typedef none a;\ntypedef none a;",
        &["1:9 undefined-type", "2:14 repeated-typedef <- 1:14"],
    );
}

#[test]
fn duplicate_definitions_in_two_documents() {
    let module = Module::new("a")
        .text("a.x", "const A = 1;\n")
        .text("b.x", "\n\nconst A = 1;\n");
    let compilation = Config::new().module(module).check();
    assert_eq!(positions(&compilation), ["3:7 duplicate-definition <- 1:7"]);
    let found = &compilation.diagnostics()[0];
    let document = |span| compilation.sources().locate(span).document.to_owned();
    assert_eq!(found.span.map(document).as_deref(), Some("b.x"));
    assert_eq!(found.notes[0].span.map(document).as_deref(), Some("a.x"));
}

#[test]
fn duplicate_fields_and_arms() {
    rejected(
        "struct a {\n int b;\n hyper c;\n bool b;\n};",
        &["4:7 duplicate-field <- 2:6"],
    );
    rejected(
        "struct a { struct {\n int b;\n int b; } c; };",
        &["3:6 duplicate-field <- 2:6"],
    );
    legal("struct a { int b; struct { int b; } c; };");
    let union = |first: &str, second: &str, default: &str| {
        format!(
            "union a switch (int b) {{\n case 1:\n  int {first};\n case 2:\n  int {second};\n \
            default:\n  int {default};\n}};"
        )
    };
    legal(&union("c", "d", "e"));
    rejected(&union("c", "c", "e"), &["5:7 duplicate-arm <- 3:7"]);
    rejected(&union("c", "d", "d"), &["7:7 duplicate-arm <- 5:7"]);
    // The discriminant's name is in the scope of the union too (RFC 4506, section 6.4).
    // `rejected_reply` of RFC 5531, section 9, has such an arm: a lint.
    accepted(&union("b", "c", "d"), &["3:7 discriminant-name <- 1:21"]);
    accepted(&union("c", "d", "b"), &["7:7 discriminant-name <- 1:21"]);
    rejected(
        &union("b", "b", "d"),
        &["3:7 discriminant-name <- 1:21", "5:7 duplicate-arm <- 3:7"],
    );
}

#[test]
fn names_of_the_wrong_kind() {
    rejected(
        "const A = 1;\nstruct a { A b; };",
        &["2:12 wrong-kind <- 1:7"],
    );
    rejected(
        "enum e { A = 1 };\nstruct a { struct e b; };",
        &["2:19 wrong-kind <- 1:6"],
    );
    rejected(
        "struct a { none b; none c; };",
        &["1:12 undefined-type", "1:20 undefined-type"],
    );
    // A prelude type remains a type.
    rejected(
        "const uint32 = 1;\nstruct a { uint32 b; };",
        &["1:7 wrong-kind"],
    );
}

/// The scope of field names differs from that of types.
#[test]
fn a_field_may_have_the_name_of_a_prelude_type() {
    assert_eq!(
        check("struct a { netobj netobj; authsys_parms authsys_parms; };").diagnostics(),
        []
    );
}
