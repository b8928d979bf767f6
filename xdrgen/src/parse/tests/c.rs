//! Tests constructs of C that XDR does not have: each is one error.

use super::{fixed, reported};

#[test]
fn character_constants() {
    for (written, number) in [
        ("'a'", "97"),
        ("' '", "32"),
        (r"'\n'", "10"),
        (r"'\\'", "92"),
        (r"'\''", "39"),
        (r"'\0'", "0"),
        (r"'\101'", "65"),
        (r"'\x7f'", "127"),
    ] {
        for text in [
            "const A = _;",
            "enum e { A = _, B = 300 };",
            "typedef opaque a<_>;",
        ] {
            let xdr = text.replace('_', written);
            let report = reported(&xdr);
            assert_eq!(report.lines().count(), 1, "{report}");
            assert!(report.contains("is a character constant"), "{report}");
            assert_eq!(fixed(&xdr), text.replace('_', number));
        }
        let union = format!("union u switch (int k) {{ case {written}: int x; }};");
        assert_eq!(reported(&union).lines().count(), 1);
        assert_eq!(fixed(&union), union.replace(written, number));
    }
    for other in [
        "const A = 'ab';",
        "const A = '';",
        r"const A = '\q';",
        "const A = 'é';",
        "'",
    ] {
        assert!(reported(other).contains("is not part of XDR"), "{other}");
    }
}

#[test]
fn members_without_values() {
    assert_eq!(
        fixed("enum e { A B };"),
        "enum e { A, B };",
        "{}",
        reported("enum e { A B };")
    );
    assert_eq!(fixed("enum e { A, B C, D };"), "enum e { A, B, C, D };");
    assert_eq!(fixed("enum e { A = 1, B A };"), "enum e { A = 1, B = A };");
    assert_eq!(fixed("enum e { A B = 1 };"), "enum e { A, B = 1 };");
}

#[test]
fn arrays_of_two_dimensions() {
    for (written, shown) in [
        ("[3][4]", "1:25"),
        ("<3>[N]", "1:25"),
        ("[3][4][5]", "1:25"),
    ] {
        let report = reported(&format!("struct s {{ int matrix{written}; }};"));
        let expected = "syntax XDR has no arrays of more than one dimension";
        assert_eq!(report, format!("{shown} {expected}\n"));
    }
    let report = reported("typedef opaque a[4][2];");
    assert_eq!(report.lines().count(), 1, "{report}");
}

#[test]
fn arguments_with_names() {
    let program = |arguments: &str| {
        format!("program P {{ version V {{ void A({arguments}) = 1; }} = 1; }} = 2;")
    };
    for (before, after) in [
        ("int a, string b<>", "int, string<>"),
        ("int a", "int"),
        ("int /* c */ a", "int /* c */ "),
    ] {
        assert_eq!(fixed(&program(before)), program(after));
    }
}

/// Asserts one error, as `line:column code message`, and the text after its fix.
#[track_caller]
fn one_error(xdr: &str, error: &str, after: &str) {
    let report = reported(xdr);
    let errors = report.lines().filter(|line| !line.contains("c-integer"));
    let errors: Vec<&str> = errors.collect();
    assert_eq!(errors, [error], "{xdr}");
    assert_eq!(fixed(xdr), after);
}

#[test]
fn expressions() {
    for (written, value) in [
        ("(5)", "5"),
        ("1 << 3", "8"),
        ("1<<3", "8"),
        ("256 >> 4", "16"),
        ("1 | 4", "5"),
        ("(1 | 2) & ~0", ""),
        ("N + 2", "6"),
        ("N * 2", "8"),
        ("2 * (N + 1)", "10"),
        ("N -1", "3"),
        ("N-1", "3"),
        ("10-2", "8"),
        ("-N", "-4"),
        ("-(1)", "-1"),
        ("(N)", "N"),
        ("(0x10 + 1)", "0x11"),
        ("(1U << 3)", "8"),
        ("'a' + 1", "98"),
        ("sizeof(int)", ""),
        ("(int)4", ""),
        ("UNKNOWN | 1", ""),
        ("A || B", ""),
        ("4 / 0", ""),
    ] {
        for text in [
            "const N = 4;\nconst X = _;",
            "enum e { N = 4, X = _, Y };",
            "const N = 4;\ntypedef opaque x<_>;",
            "const N = 4;\ntypedef opaque x[_];",
            "const N = 4;\nunion u switch (int k) { case _: int x; };",
            "const N = 4;\nprogram P { version V { void A(void) = _; } = 1; } = 2;",
        ] {
            let xdr = text.replace('_', written);
            let report = reported(&xdr);
            let errors = report.lines().filter(|line| line.contains(" syntax "));
            let errors: Vec<&str> = errors.collect();
            let [error] = errors[..] else {
                panic!("{xdr}\n{report}");
            };
            let expected = "an expression in the place of a number";
            assert!(error.ends_with(expected), "{report}");
            assert!(!report.contains("invalid-token"), "{report}");
            let value = if value.is_empty() { written } else { value };
            assert_eq!(fixed(&xdr), text.replace('_', value));
        }
    }
}

/// Suffixes, separators and binary constants of C have fixes.
#[test]
fn numbers_of_c() {
    for (written, value) in [
        ("5U", "5"),
        ("0x10UL", "0x10"),
        ("-5L", "-5"),
        ("1_000", "1000"),
        ("0b101", "5"),
    ] {
        let xdr = format!("const A = {written};");
        assert_eq!(reported(&xdr).lines().count(), 1, "{}", reported(&xdr));
        assert_eq!(fixed(&xdr), format!("const A = {value};"));
    }
    assert_eq!(
        reported("const A = 1.5;"),
        "1:12 invalid-token `.` is not part of XDR\n"
    );
}

#[test]
fn declarations_of_c() {
    for (written, error, after) in [
        (
            "int a __attribute__((aligned(4)));",
            "1:18 syntax an attribute of a declaration",
            "int a;",
        ),
        (
            "void *p;",
            "1:12 syntax a `void *` in a declaration",
            "opaque p<>;",
        ),
        ("int a:3;", "1:17 syntax a bit-field", "int a;"),
        (
            "int a = 5;",
            "1:18 syntax a declaration with a value",
            "int a;",
        ),
        (
            "int a, b;",
            "1:19 syntax a declaration of several names",
            "int a; int b;",
        ),
        (
            "int *a, *b;",
            "1:21 syntax a declaration of several names",
            "int *a; int *b;",
        ),
        ("int f(int x);", "1:17 syntax a function", "int f(int x);"),
        (
            "int (*f)(void);",
            "1:16 syntax a function",
            "int (*f)(void);",
        ),
        (
            "const int *a;",
            "1:12 syntax `const` before a type",
            "int *a;",
        ),
        (
            "const int a;",
            "1:12 syntax `const` before a type",
            "int a;",
        ),
        (
            "volatile foo a;",
            "1:12 syntax `volatile` before a type",
            "foo a;",
        ),
        (
            "signed int a;",
            "1:12 syntax `signed` before a type",
            "int a;",
        ),
        (
            "uint32[4] a;",
            "1:18 syntax expected a name, found `[`",
            "uint32 a[4];",
        ),
        (
            "opaque<> a;",
            "1:18 syntax expected a name, found `<`",
            "opaque a<>;",
        ),
        (
            "int a[];",
            "1:18 syntax expected a size, found `]`",
            "int a<>;",
        ),
        (
            "string a[8];",
            "1:20 syntax expected `<` after the name of `string`, found `[`",
            "string a<8>;",
        ),
        (
            "string *a;",
            "1:21 syntax expected `<` after the name of `string`, found `;`",
            "string a<>;",
        ),
    ] {
        let struct_of = |text: &str| format!("struct s {{ {text} }};\ntypedef int z;");
        one_error(&struct_of(written), error, &struct_of(after));
        let typedef = format!("typedef {written}\nstruct z {{ int a; }};");
        assert_eq!(
            reported(&typedef).lines().count(),
            1,
            "{}",
            reported(&typedef)
        );
        let arm = format!("union u switch (int k) {{ case 0: {written} case 1: int z; }};");
        assert_eq!(reported(&arm).lines().count(), 1, "{}", reported(&arm));
    }
}

#[test]
fn definitions_of_c() {
    let body = "1:1 syntax a definition without a body";
    for keyword in ["struct", "union", "enum"] {
        let after = "struct a { int b; };";
        one_error(&format!("{keyword} fwd;{after}"), body, after);
    }
    one_error(
        "struct other *x;",
        "1:14 syntax expected `{`, found `*`",
        "typedef struct other *x;",
    );
    one_error(
        "int f(int a, int *b);\nstruct a { int b; };",
        "1:1 syntax expected a definition, found `int`",
        "int f(int a, int *b);\nstruct a { int b; };",
    );
    one_error(
        "import \"a.x\";\nstruct a { int b; };",
        "1:1 syntax expected a definition, found `import`",
        "#include \"a.x\"\nstruct a { int b; };",
    );
    one_error(
        "typedef struct tag { int a; } name;",
        "1:16 syntax expected `{`, found `tag`",
        "typedef struct { int a; } name;",
    );
    for (written, column, error, after) in [
        (
            "enum class e { A = 0 };",
            6,
            "`class` after `enum`",
            "enum e { A = 0 };",
        ),
        (
            "enum e : uint8_t { A = 0 };",
            8,
            "a type after the name of a definition",
            "enum e { A = 0 };",
        ),
        (
            "struct b : public a, c { int d; };",
            10,
            "a type after the name of a definition",
            "struct b { int d; };",
        ),
        (
            "struct a { int b; } __attribute__((packed));",
            21,
            "an attribute of a declaration",
            "struct a { int b; };",
        ),
    ] {
        one_error(written, &format!("1:{column} syntax {error}"), after);
    }
    for (union, column) in [
        ("union u { int a; float b; };", 9),
        ("struct a { union { int c; } d; };", 18),
    ] {
        let error = format!("1:{column} syntax expected `switch`, found `{{`");
        one_error(union, &error, union);
    }
}

#[test]
fn arms_of_c() {
    let union = |arms: &str| format!("union u switch (int k) {{ {arms} }};");
    for (written, error, after) in [
        (
            "case 0: int a; break; case 1: void;",
            "1:41 syntax a `break` in a union",
            "case 0: int a; case 1: void;",
        ),
        (
            "default: break;",
            "1:35 syntax a `break` in a union",
            "default: void;",
        ),
        (
            "default: ;",
            "1:35 syntax expected a declaration, found `;`",
            "default: void;",
        ),
        (
            "case 0, 1: int a;",
            "1:32 syntax expected `:`, found `,`",
            "case 0: case 1: int a;",
        ),
    ] {
        one_error(&union(written), error, &union(after));
    }
}

#[test]
fn procedures_without_a_type() {
    let program = |procedure: &str| {
        format!("program P {{ version V {{ {procedure} void B(void) = 2; }} = 1; }} = 2;")
    };
    let error = "1:25 syntax expected `void` or a type, found `A`";
    one_error(
        &program("A(void) = 1;"),
        error,
        &program("void A(void) = 1;"),
    );
}

/// A `char` that may be meant as text or bytes has no fix.
#[test]
fn integers_of_c() {
    for (written, xdr) in [
        ("char", "int"),
        ("unsigned char", "unsigned int"),
        ("long", "int"),
        ("unsigned long int", "unsigned int"),
        ("long long", "hyper"),
    ] {
        let xdr = format!("struct s {{ {xdr} a; }};");
        assert_eq!(fixed(&format!("struct s {{ {written} a; }};")), xdr);
    }
    for other in ["struct s { char *a; };", "struct s { char a[8]; };"] {
        assert_eq!(reported(other).lines().count(), 1);
        assert_eq!(fixed(other), other);
    }
}

/// The rest of the line is no cascade of errors.
#[test]
fn comments_of_other_languages() {
    for comment in ["# the rest; int x", "-- the rest; int x"] {
        for text in [
            "struct s { int a; _\nint b; };",
            "enum e { A = 1, _\nB = 2 _\n};",
        ] {
            let report = reported(&text.replace('_', comment));
            let count = text.matches('_').count();
            assert_eq!(report.lines().count(), count, "{report}");
            let message = "invalid-token a comment of another language";
            assert!(
                report.lines().all(|line| line.ends_with(message)),
                "{report}"
            );
            let without = text.replace('_', "");
            assert_eq!(
                super::read(&text.replace('_', comment)),
                super::read(&without)
            );
        }
    }
}

/// Members without a value have one in expressions.
#[test]
fn implicit_members_in_expressions() {
    for (written, value) in [("C + 1", "3"), ("1 << C", "4"), ("A - 1", "-1")] {
        let xdr = |value: &str| format!("enum e {{ A, B, C, D = {value} }};");
        assert_eq!(fixed(&xdr(written)), xdr(value));
    }
}

#[test]
fn a_comma_for_a_semicolon() {
    for (written, after) in [
        ("struct s { int a, int b; };", "struct s { int a; int b; };"),
        (
            "program P { version V { int A(int) = 1, int B(int) = 2; } = 1; } = 2;",
            "program P { version V { int A(int) = 1; int B(int) = 2; } = 1; } = 2;",
        ),
    ] {
        assert_eq!(
            reported(written).lines().count(),
            1,
            "{}",
            reported(written)
        );
        assert_eq!(fixed(written), after);
    }
}
