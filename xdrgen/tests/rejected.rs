//! Tests input that the grammar accepts but XDR does not allow: each defect with its position, and
//! the position of the conflicting definition.

mod common;
#[path = "rejected/names.rs"]
mod names;
#[path = "rejected/programs.rs"]
mod programs;
#[path = "rejected/recursion.rs"]
mod recursion;
#[path = "rejected/unions.rs"]
mod unions;

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
    for path in ["xdrgen", "a::owned", "a::xdr", "a::u32", "a b", "type"] {
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
