//! Tests input that the grammar accepts but XDR does not allow: each defect with its position, and
//! the position of the conflicting definition.

mod common;

use common::{check, check_with, line_and_column};
use xdrgen_build::{Code, Compilation, Config, Level, Module};

/// Returns each diagnostic as `LINE:COLUMN CODE`, followed by ` <- LINE:COLUMN` for each note with
/// a span.
fn positions(compilation: &Compilation) -> Vec<String> {
    let sources = compilation.sources();
    let shown = |span| {
        let (line, column) = line_and_column(sources, span);
        format!("{line}:{column}")
    };
    let lines = compilation.diagnostics().iter().map(|found| {
        let at = found.span.map_or_else(|| "nowhere".to_owned(), shown);
        let notes: String = found
            .notes
            .iter()
            .filter_map(|note| note.span)
            .map(|at| format!(" <- {}", shown(at)))
            .collect();
        format!("{at} {}{notes}", found.code)
    });
    lines.collect()
}

/// Asserts all diagnostics of a text, and that the compilation fails.
#[track_caller]
fn rejected(xdr: &str, expected: &[&str]) {
    let compilation = check(xdr);
    assert_eq!(
        positions(&compilation),
        expected,
        "{xdr}\n{}",
        common::report(&compilation)
    );
    assert!(compilation.has_errors(), "{xdr}");
    assert!(compilation.generate().is_err(), "{xdr}");
}

/// Asserts that a text has no diagnostics.
#[track_caller]
fn legal(xdr: &str) {
    let compilation = check(xdr);
    assert!(
        compilation.diagnostics().is_empty(),
        "{xdr}\n{}",
        common::report(&compilation)
    );
    compilation.generate().expect(xdr);
}

/// Returns a program with the numbers of the program, of two versions, and of two procedures of the
/// first version.
fn program(number: &str, versions: [&str; 2], procedures: [&str; 2]) -> String {
    let ([first, second], [null, next]) = (versions, procedures);
    format!(
        "program P {{\n version A {{\n  void NULL(void) = {null};\n  void NEXT(void) = {next};\n \
        }} = {first};\n \
         version B {{\n  void NULL(void) = 0;\n }} = {second};\n}} = {number};\n"
    )
}

#[test]
fn numbers_of_programs_versions_and_procedures() {
    legal(&program("0x20000001", ["1", "2"], ["0", "1"]));
    legal(&program(
        "0xffffffff",
        ["4294967295", "0"],
        ["0", "0xffffffff"],
    ));
    for number in [
        "-1",
        "4294967296",
        "0x100000000",
        "-9223372036854775808",
        "0xffffffffffffffff",
    ] {
        rejected(
            &program(number, ["1", "2"], ["0", "1"]),
            &["9:5 invalid-number"],
        );
        rejected(
            &program("1", [number, "2"], ["0", "1"]),
            &["5:6 invalid-number"],
        );
        rejected(
            &program("1", ["1", number], ["0", "1"]),
            &["8:6 invalid-number"],
        );
        rejected(
            &program("1", ["1", "2"], [number, "1"]),
            &["3:21 invalid-number"],
        );
        rejected(
            &program("1", ["1", "2"], ["0", number]),
            &["4:21 invalid-number"],
        );
    }
    rejected(
        &program("1", ["7", "7"], ["0", "1"]),
        &["8:6 duplicate-number <- 5:6"],
    );
    rejected(
        &program("1", ["1", "2"], ["3", "0x3"]),
        &["4:21 duplicate-number <- 3:21"],
    );
    // Numbers may be constants; their values are compared.
    rejected(
        &format!(
            "const N = 3; const M = -1;\n{}",
            program("M", ["N", "03"], ["0", "1"])
        ),
        &["9:6 duplicate-number <- 6:6", "10:5 invalid-number"],
    );
    rejected(
        &program("NONE", ["1", "2"], ["0", "1"]),
        &["9:5 undefined-constant"],
    );
    let one = "program P { version A { void NULL(void) = 0; } = 1; } = 9;\n";
    let two = "program Q { version B { void NULL(void) = 0; } = 1; } = 9;\n";
    rejected(&format!("{one}{two}"), &["2:57 duplicate-number <- 1:57"]);
}

#[test]
fn program_numbers_are_unique_per_module() {
    let one = "program P { version A { void NULL(void) = 0; } = 1; } = 9;\n";
    let module = |name: &str, file: &str, xdr: &str| Module::new(name).text(file, xdr);
    let two = one.replace("program P", "program Q");
    // Versions of a protocol, and revisions of one version (RFC 7531 and RFC 5662 both define
    // version 4 of program 100003), can be modules of one compilation, even if one uses another.
    for second in [one, &two, &one.replace("= 1;", "= 2;")] {
        let config = Config::new()
            .module(module("a", "a.x", one))
            .module(module("b", "b.x", second).uses("a"));
        let compilation = config.check();
        assert_eq!(positions(&compilation), [""; 0], "{second}");
        compilation.generate().expect(second);
        let programs = &compilation.schema().modules[1].programs;
        assert_eq!(programs[0].number, 9);
    }
    let both = Module::new("a").text("a.x", one).text("b.x", &two);
    assert_eq!(
        positions(&Config::new().module(both).check()),
        ["1:57 duplicate-number <- 1:57"]
    );
}

#[test]
fn names_of_programs_versions_and_procedures() {
    let version = "version A { void NULL(void) = 0; } = 1;";
    rejected(
        &format!("program P {{ {version} }} = 1;\nprogram P {{ {version} }} = 2;\n"),
        &["2:9 duplicate-definition <- 1:9"],
    );
    rejected(
        "program P {\n version A { void NULL(void) = 0; } = 1;\n version A { void NULL(void) = 0; \
        } = 2;\n} = 1;\n",
        &["3:10 duplicate-definition <- 2:10"],
    );
    rejected(
        "program P {\n version A {\n  void B(void) = 0;\n  int B(void) = 1;\n } = 1;\n} = 1;\n",
        &["4:7 duplicate-definition <- 3:8"],
    );
    rejected(
        "const P = 1;\nprogram P { version A { void B(void) = 0; } = 1; } = 1;\n",
        &["2:9 duplicate-definition <- 1:7"],
    );
}

#[test]
fn recursive_types_without_an_end() {
    rejected("struct a {\n int b;\n a c;\n};", &["3:4 recursive-type"]);
    rejected("struct a {\n a b[2];\n};", &["2:4 recursive-type"]);
    rejected("typedef a a;", &["1:11 recursive-type"]);
    rejected(
        "typedef b a;\ntypedef a b;",
        &["1:11 recursive-type <- 2:11"],
    );
    rejected("typedef a a[3];", &["1:11 recursive-type"]);
    rejected(
        "struct a {\n b c;\n};\nstruct b {\n int d;\n a e;\n};",
        &["2:4 recursive-type <- 6:4"],
    );
    rejected(
        "struct a {\n b c;\n};\ntypedef a b;",
        &["2:4 recursive-type <- 4:11"],
    );
    rejected(
        "struct a {\n b c;\n};\ntypedef a b[1];",
        &["2:4 recursive-type <- 4:11"],
    );
    rejected(
        "struct a {\n struct {\n  a b;\n } c;\n};",
        &["4:4 recursive-type <- 3:5"],
    );
    // A cycle with another reference, and two cycles.
    rejected(
        "struct a {\n b c;\n d e;\n};\nstruct b { int f; };\nstruct d {\n a g;\n};",
        &["3:4 recursive-type <- 7:4"],
    );
    rejected(
        "struct a {\n a b;\n};\nstruct c {\n c d;\n};",
        &["2:4 recursive-type", "5:4 recursive-type"],
    );
}

/// RFC 4506, section 4.19: "the list is ended" by the other arm.
#[test]
fn recursive_unions_with_an_end() {
    legal("union a switch (int b) {\n case 1:\n  a c;\n case 2:\n  void;\n};");
    legal("union a switch (int b) {\n case 1:\n  void;\n default:\n  a c;\n};");
    legal(
        "union a switch (int b) {\n case 1:\n  d c;\n default:\n  void;\n};\nstruct d {\n e \
        f[2];\n};\ntypedef a e;",
    );
    // The list of the RFC, and two types that contain each other.
    legal(
        "union list switch (bool more) { case TRUE: node n; case FALSE: void; };
struct node { int value; list next; };",
    );
    legal(
        "union a switch (int b) { case 1: c d[2]; };
union c switch (int b) { case 1: a d; case 2: int e; };",
    );
    // A union whose cycle also contains an optional, and an arm that contains a list node.
    legal("union a switch (int b) { case 1: a *c; case 2: a d; default: void; };");
    legal(
        "struct n { u v; n *next; };\nunion u switch (int b) { case 1: n x; case 2: n *y; \
        default: void; };",
    );
}

#[test]
fn recursive_unions_without_an_end() {
    rejected(
        "union a switch (int b) {\n case 1:\n  a c;\n};",
        &["3:5 recursive-type <- 1:7"],
    );
    // The default is unreachable, so that it does not end the recursion.
    rejected(
        "union a switch (bool b) {\n case TRUE:\n  a c;\n case FALSE:\n  a d;\n default:\n  \
        void;\n};",
        &["3:5 recursive-type <- 1:7"],
    );
    rejected(
        "union a switch (int b) {\n case 1:\n  s c;\n default:\n  a d;\n};\nstruct s {\n a e;\n};",
        &["5:5 recursive-type <- 1:7"],
    );
    // The union in its other field does not end a struct that contains itself.
    rejected(
        "struct s {\n u c;\n s d;\n};\nunion u switch (int b) {\n case 1:\n  s e;\n default:\n  \
        void;\n};",
        &["3:4 recursive-type"],
    );
}

#[test]
fn recursive_types_through_an_indirection() {
    legal("struct a { int b; a *c; };");
    legal("struct a { a b<>; };");
    legal("struct a { int b; a c<4>; };");
    legal("struct a { b c; };\nstruct b { int d; a *e; };");
    legal("typedef a *b;\nstruct a { int c; b d; };");
    legal("union a switch (int b) { case 1: a *c; default: void; };");
    legal("struct a { b c[2]; };\ntypedef a b<3>;");
}

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

/// Asserts that a text compiles, with these lints.
#[track_caller]
fn accepted(xdr: &str, expected: &[&str]) -> Compilation {
    let compilation = check(xdr);
    let report = common::report(&compilation);
    assert_eq!(positions(&compilation), expected, "{xdr}\n{report}");
    compilation.generate().expect(xdr);
    compilation
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
fn duplicate_cases() {
    rejected(
        "union a switch (int b) {\n case 1: void;\n case 1: void;\n};",
        &["3:7 duplicate-case <- 2:7"],
    );
    rejected(
        "union a switch (int b) {\n case 1:\n case 0x01: void;\n};",
        &["3:7 duplicate-case <- 2:7"],
    );
    rejected(
        "const C = 1;\nunion a switch (int b) {\n case 1: void;\n case C: void;\n};",
        &["4:7 duplicate-case <- 3:7"],
    );
    rejected(
        "enum e { A = 1, B = 2 };\nunion a switch (e b) {\n case A: void;\n case B: void;\n case \
        A: void;\n};",
        &["5:7 duplicate-case <- 3:7"],
    );
    rejected(
        "union a switch (bool b) {\n case TRUE: void;\n case FALSE: void;\n case TRUE: void;\n};",
        &["4:7 duplicate-case <- 2:7"],
    );
}

#[test]
fn cases_outside_of_the_discriminant_type() {
    let union = |case: &str| {
        format!(
            "enum e {{ A = 1, B = 2 }};\nenum f {{ C = 1, D = 7 }};\nconst ONE = 1;\nunion a \
            switch (e b) {{\n \
             case {case}: void;\n default: void;\n}};"
        )
    };
    legal(&union("A"));
    rejected(&union("3"), &["5:7 foreign-case <- 1:6"]);
    rejected(&union("-1"), &["5:7 foreign-case <- 1:6"]);
    rejected(&union("D"), &["5:7 foreign-case <- 1:6"]);
    // The enum has the value, but the name belongs to another enum.
    rejected(&union("C"), &["5:7 foreign-case <- 1:6"]);
    rejected(&union("4294967297"), &["5:7 foreign-case <- 1:6"]);
    rejected(&union("NONE"), &["5:7 undefined-constant"]);
    rejected(&union("e"), &["5:7 wrong-kind <- 1:6"]);
    for (ty, case) in [
        ("int", "2147483648"),
        ("int", "-2147483649"),
        ("unsigned int", "-1"),
        ("unsigned int", "4294967296"),
        ("bool", "2"),
        ("bool", "-1"),
    ] {
        rejected(
            &format!("union a switch ({ty} b) {{\n case {case}: void;\n default: void;\n}};"),
            &["2:7 foreign-case"],
        );
    }
    legal("union a switch (unsigned int b) { case 4294967295: void; };");
    legal("union a switch (int b) { case -2147483648: void; case 2147483647: void; };");
}

#[test]
fn invalid_discriminant_types() {
    for ty in [
        "hyper",
        "unsigned hyper",
        "float",
        "double",
        "quadruple",
        "s",
        "t",
        "u",
    ] {
        let types = "struct s { int a; };\ntypedef hyper t;\ntypedef int u[2];\n";
        rejected(
            &format!("{types}union a switch (\n{ty} b) {{ case 1: void; }};"),
            &["5:1 invalid-discriminant"],
        );
    }
    // A discriminant without a plain declaration is a syntax error.
    for declaration in ["opaque b<4>", "string b<>", "int b[2]", "int b<>", "int *b"] {
        let compilation = check(&format!(
            "union a switch ({declaration}) {{ case 1: void; }};"
        ));
        assert!(
            compilation
                .diagnostics()
                .iter()
                .any(|found| found.code == Code::Syntax && found.is_error())
        );
    }
    legal("typedef unsigned int u;\ntypedef u v;\nunion a switch (v b) { case 1: void; };");
    legal("enum e { A = 1 };\ntypedef e f;\nunion a switch (f b) { case A: void; };");
    rejected(
        "union a switch (none b) { case 1: void; };",
        &["1:17 undefined-type"],
    );
}

#[test]
fn unions_without_an_arm() {
    rejected("union a switch (int b) {\n};", &["1:7 empty-union"]);
    rejected(
        "union a switch (int b) {\n default: void;\n};",
        &["1:7 empty-union"],
    );
}

#[test]
fn bounds() {
    for (before, after) in [
        ("typedef opaque a<", ">;"),
        ("typedef opaque a[", "];"),
        ("typedef string a<", ">;"),
        ("typedef int a<", ">;"),
        ("typedef int a[", "];"),
        ("struct b { int a<", ">; };"),
        ("union c switch (int d) { case 1: opaque a<", ">; };"),
    ] {
        let at = before.len() + 1;
        let with = |bound: &str| {
            format!(
                "const BIG = 0x100000000; const LESS = -1; enum e {{ MINUS = -2 \
                }};\n{before}{bound}{after}"
            )
        };
        legal(&with("1"));
        for bound in [
            "-1",
            "4294967296",
            "0xffffffffffffffff",
            "BIG",
            "LESS",
            "MINUS",
        ] {
            rejected(&with(bound), &[&format!("2:{at} invalid-bound")]);
        }
        rejected(&with("NONE"), &[&format!("2:{at} undefined-constant")]);
        rejected(&with("e"), &[&format!("2:{at} wrong-kind <- 1:48")]);
    }
    legal(
        "typedef opaque a<4294967295>;\ntypedef string b<0xffffffff>;\nconst N = 5;\ntypedef int \
        c[N];",
    );
    legal("enum e { N = 5 };\ntypedef int a<N>;");
}

#[test]
fn constants_that_refer_to_each_other() {
    rejected("const A = A;", &["1:7 recursive-constant"]);
    rejected(
        "const A = B;\nconst B = A;",
        &["1:7 recursive-constant <- 2:7"],
    );
    rejected(
        "const A = B;\nconst B = C;\nconst C = A;",
        &["1:7 recursive-constant <- 2:7 <- 3:7"],
    );
    rejected(
        "const Z = A;\nconst A = B;\nconst B = A;",
        &["2:7 recursive-constant <- 3:7"],
    );
    rejected(
        "enum e { A = B, B = A };",
        &["1:10 recursive-constant <- 1:17"],
    );
    rejected(
        "const A = B;\nenum e { B = A };",
        &["1:7 recursive-constant <- 2:10"],
    );
    legal("const A = B;\nconst B = C;\nenum e { C = 3 };");
    rejected("const A = NONE;", &["1:11 undefined-constant"]);
    rejected(
        "struct a { int b; };\nconst A = a;",
        &["2:11 wrong-kind <- 1:8"],
    );
}

#[test]
fn values_out_of_the_range_of_their_type() {
    rejected("enum e { A = 2147483648 };", &["1:14 out-of-range"]);
    rejected("enum e { A = -2147483649 };", &["1:14 out-of-range"]);
    rejected("const int A = 2147483648;", &["1:15 out-of-range"]);
    rejected("const uint32 A = -1;", &["1:18 out-of-range"]);
    let typed = "const int A = 18446744073709551616;";
    rejected(typed, &["1:15 out-of-range", "1:15 wide-constant"]);
    let wide = "const A = 170141183460469231731687303715884105728;";
    rejected(wide, &["1:11 invalid-token"]);
    legal("const A = 18446744073709551615;\nconst B = -9223372036854775808;");
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

/// A union may leave out members of its enum; decoding rejects their values.
#[test]
fn members_without_an_arm() {
    let xdr = "enum e { A = 1, B = 2, C = 3 };\nunion a switch (e b) {\n case A: void;\n case C: \
        int d;\n};";
    legal(xdr);
    for (level, fails) in [(Level::Warn, false), (Level::Deny, true)] {
        let compilation = check_with(xdr, Code::MissingArms, level);
        assert_eq!(positions(&compilation), ["2:7 missing-arms"]);
        assert!(compilation.diagnostics()[0].message.contains("`B`"));
        assert_eq!(compilation.has_errors(), fails);
    }
    let with_default =
        "enum e { A = 1, B = 2 };\nunion a switch (e b) { case A: void; default: int d; };";
    assert!(
        check_with(with_default, Code::MissingArms, Level::Deny)
            .diagnostics()
            .is_empty()
    );
    let whole = "enum e { A = 1, B = 2 };\nunion a switch (e b) { case A: void; case B: int d; };";
    assert!(
        check_with(whole, Code::MissingArms, Level::Deny)
            .diagnostics()
            .is_empty()
    );
}

/// Invalid manifests: each defect is reported at its position.
#[test]
fn invalid_modules_and_overlays() {
    let manifest = |head: &str, overlay: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(
            folder.path().join("a.x"),
            "struct c { unsigned int k; opaque d<>; }; const ONE = 1;",
        )
        .expect("a file");
        let path = folder.path().join("xdrgen.toml");
        std::fs::write(&path, format!("{head}{overlay}")).expect("a file");
        let compilation = Config::from_manifest(&path).expect("a manifest").check();
        compilation
            .diagnostics()
            .iter()
            .map(|found| (found.code, found.message.clone()))
            .collect::<Vec<_>>()
    };
    let module = |path: &str| format!("[[module]]\npath = \"{path}\"\ndocuments = [\"a.x\"]\n");
    for path in ["xdrgen", "a::owned", "a::xdr", "a b", "type"] {
        assert!(
            manifest(&module(path), "")
                .iter()
                .any(|(code, _)| *code == Code::Configuration),
            "{path}"
        );
    }
    assert_eq!(manifest("", "")[0].0, Code::Configuration);
    let empty = "[[module]]\npath = \"a\"\ndocuments = []\n";
    assert_eq!(manifest(empty, "")[0].1, "the module `a` has no document");
    let overlay = |name: &str, code: &str, data: &str, cases: &str| {
        format!(
            "[[module.overlay]]\nname = \"{name}\"\nstruct = \"c\"\ncode = \"{code}\"\ndata = \
            \"{data}\"\ncases = {cases}\n"
        )
    };
    for name in ["", "opt-x", "Self", "type", "9"] {
        let found = manifest(&module("a"), &overlay(name, "k", "d", "[[\"ONE\", \"c\"]]"));
        assert!(
            found.iter().all(|(code, _)| *code == Code::OverlayInvalid) && found.len() == 1,
            "{name}: {found:?}"
        );
    }
    let found = manifest(
        &module("a"),
        &overlay("Content", "nocode", "nodata", "[[\"ONE\", \"c\"]]"),
    );
    assert_eq!(found.len(), 2, "both fields are reported: {found:?}");
    assert_eq!(
        manifest(&module("a"), &overlay("Content", "k", "d", "[]")).len(),
        1
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
