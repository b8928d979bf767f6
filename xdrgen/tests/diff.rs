//! Tests the comparison of revisions. The expected classes were determined by hand.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use common::{SPEC, XCHAREXT_02, XCHAREXT_03, check, note_skipped};
use xdrgen_build::diff::{Class, diff, json, text};
use xdrgen_build::{Compilation, Config, Module, Style};

/// Returns the changes as `C message`, `E message` or `B message`.
#[track_caller]
fn changes(old: &str, new: &str) -> Vec<String> {
    let [old, new] = [old, new].map(check);
    for side in [&old, &new] {
        assert!(!side.has_errors(), "{}", side.report(Style::Plain));
        assert_eq!(diff(side.schema(), side.schema()), [], "the same document");
    }
    let found = diff(old.schema(), new.schema());
    let found = found.into_iter().map(|change| {
        let class = match change.class {
            Class::Compatible => 'C',
            Class::Extending => 'E',
            Class::Breaking => 'B',
        };
        format!("{class} {}", change.message)
    });
    found.collect()
}

#[track_caller]
fn assert_changes(old: &str, new: &str, expected: &[&str]) {
    assert_eq!(changes(old, new), expected, "from\n{old}\nto\n{new}");
}

#[test]
fn constants() {
    assert_changes(
        "const A = 1;",
        "const A = 2;",
        &["B const `A`: the value is 2, it was 1"],
    );
    assert_changes(
        "const A = 1; const B = 2;",
        "const A = 1; const C = 3;",
        &[
            "C const `B`: it was removed",
            "C const `C`: it was added, with the value 3",
        ],
    );
    assert_changes(
        "const A = \"a\"; const B = \"1\"; const C = \"c\";",
        "const A = \"b\"; const B = 1; const D = \"d\";",
        &[
            "B const `A`: the value is \"b\", it was \"a\"",
            "B const `B`: the value is 1, it was \"1\"",
            "C const `C`: it was removed",
            "C const `D`: it was added, with the value \"d\"",
        ],
    );
}

/// Modules may have constants of one name.
#[test]
fn constants_of_two_modules() {
    let compiled = |values: [u32; 2]| {
        let [one, two] = values.map(|value| format!("const A = {value};"));
        let config = Config::new().module(Module::new("one").text("one.x", one));
        config.module(Module::new("two").text("two.x", two)).check()
    };
    let [old, new] = [[1, 2], [1, 3]].map(compiled);
    assert_eq!(diff(old.schema(), old.schema()), []);
    let changes = diff(old.schema(), new.schema());
    let [change] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert!(change.class == Class::Breaking && change.message.contains("it was 2"));
}

#[test]
fn bounds() {
    assert_changes(
        "const MAX = 8; struct s { opaque a<MAX>; string b<9>; int c<>; };",
        "const MAX = 9; struct s { opaque a<MAX>; string b<8>; int c<5>; };",
        &[
            "B const `MAX`: the value is 9, it was 8",
            "B struct `s`: the field `c`: the type is `int<5>`, it was `int<>`",
            "B struct `s`: the field `b`: the type is `string<8>`, it was `string<9>`",
            "E struct `s`: the field `a`: the type is `opaque<9>`, it was `opaque<8>`",
        ],
    );
    assert_changes(
        "typedef opaque id[16];",
        "typedef opaque id[12];",
        &["B typedef `id`: the type is `opaque[12]`, it was `opaque[16]`"],
    );
}

#[test]
fn equal_encodings_are_compatible() {
    let same = [
        ("struct s { opaque a<9>; };", "struct s { string a<9>; };"),
        ("struct s { int *a; };", "struct s { int a<1>; };"),
        (
            "typedef unsigned int u; struct s { u a; };",
            "typedef unsigned int u; struct s { unsigned int a; };",
        ),
    ];
    for (old, new) in same {
        assert_changes(
            old,
            new,
            &["C struct `s`: the text has changed, the messages have not"],
        );
    }
}

#[test]
fn types_of_fields() {
    let old = "typedef unsigned int count; struct s { count n; int i; bool b; };";
    assert_changes(
        old,
        "typedef unsigned hyper count; struct s { count n; unsigned int i; int b; };",
        &[
            "B typedef `count`: the type is `unsigned hyper`, it was `unsigned int`",
            "E struct `s`: the field `b`: the type is `int`, it was `bool`",
            "B struct `s`: the field `i`: the type is `unsigned int`, it was `int`",
        ],
    );
}

#[test]
fn fields() {
    let old = "struct s { int a; hyper b; };";
    assert_changes(
        old,
        "struct s { int a; hyper c; };",
        &["C struct `s`: the field `b`: it was renamed to `c`"],
    );
    assert_changes(
        old,
        "struct s { hyper b; int a; };",
        &[
            "B struct `s`: the field `a`: the field `b` is in its place",
            "B struct `s`: the field `b`: the field `a` is in its place",
        ],
    );
    assert_changes(
        old,
        "struct s { int a; hyper b; int c; };",
        &["B struct `s`: the field `c`: the field was added"],
    );
    assert_changes(
        old,
        "struct s { int a; };",
        &["B struct `s`: the field `b`: the field was removed"],
    );
}

#[test]
fn enums() {
    let old = "enum e { A = 1, B = 2, C = 3 };";
    assert_changes(
        old,
        "enum e { A = 1, B = 5, D = 3, F = 9 };",
        &[
            "B enum `e`: the member `B`: the value is 5, it was 2",
            "C enum `e`: the member `C`: it was renamed to `D`",
            "E enum `e`: the member `F` = 9 was added",
        ],
    );
    assert_changes(
        old,
        "enum e { A = 1, B = 2 };",
        &["B enum `e`: the member `C`: it was removed"],
    );
}

#[test]
fn unions() {
    let old = "union u switch (unsigned int n) { case 1: int a; case 2: void; case 4: hyper h; };";
    assert_changes(
        old,
        "union u switch (unsigned int n) { case 1: int b; case 3: void; case 4: void; };",
        &[
            "C union `u`: the arm `1`: its field `a` was renamed to `b`",
            "B union `u`: the arm `2`: it was removed",
            "B union `u`: the arm `4`: it is void, it had the field `h`",
            "E union `u`: the arm `3`: it was added",
        ],
    );
    // With a default arm, the value had a content before.
    let old = "union u switch (unsigned int n) { case 1: int a; default: void; };";
    assert_changes(
        old,
        "union u switch (unsigned int n) { case 1: int a; case 2: int b; case 3: void; default: \
         void; };",
        &[
            "B union `u`: the arm `2`: it was added",
            "C union `u`: the arm `3`: it was added",
        ],
    );
    assert_changes(
        old,
        "union u switch (unsigned int n) { case 1: int a; };",
        &["B union `u`: the arm `default`: it was removed"],
    );
    assert_changes(
        "union u switch (int n) { case 1: int a; case 2: void; case 3: hyper b; };",
        "union u switch (int n) { case 1: int a; default: void; };",
        &[
            "C union `u`: the arm `2`: it falls under `default` now",
            "B union `u`: the arm `3`: it falls under `default` now",
            "E union `u`: the arm `default`: it was added",
        ],
    );
    // A bool has two arms, whether they are cases or a default.
    assert_changes(
        "union u switch (bool b) { case TRUE: int a; case FALSE: void; };",
        "union u switch (bool b) { case TRUE: int a; default: void; };",
        &["C union `u`: the text has changed, the messages have not"],
    );
    // A new member of an enum was not a value before.
    let over = |members: &str, arms: &str| {
        format!(
            "enum e {{ {members} }}; union u switch (e n) {{ case A: int a; {arms} default: void; \
             }};"
        )
    };
    assert_changes(
        &over("A = 0, B = 1", ""),
        &over("A = 0, B = 1, C = 2", "case C: hyper c;"),
        &[
            "E enum `e`: the member `C` = 2 was added",
            "E union `u`: the arm `C`: it was added",
        ],
    );
}

#[test]
fn renamed_types() {
    assert_changes(
        "struct a { int x; }; struct s { a f; };",
        "struct b { int x; }; struct s { b f; };",
        &["C struct `a`: it was renamed to `b`"],
    );
    // An unused type is matched by its content.
    assert_changes(
        "struct a { int x; hyper y; };",
        "struct b { int x; hyper y; };",
        &["C struct `a`: it was renamed to `b`"],
    );
    assert_changes(
        "struct a { int x; }; struct s { a f; };",
        "struct b { hyper x; }; struct s { b f; };",
        &[
            "C struct `a`: it was renamed to `b`",
            "B struct `a`: the field `x`: the type is `hyper`, it was `int`",
        ],
    );
    // A change between types that both exist before and after.
    let both = "struct a { int x; }; struct b { int x; }; struct c { hyper x; };";
    assert_changes(
        &format!("{both} struct s {{ a f; a g; }};"),
        &format!("{both} struct s {{ b f; c g; }};"),
        &[
            "B struct `s`: the field `g`: the type is `c`, it was `a`",
            "C struct `s`: the field `f`: the type is `b`, it was `a`",
        ],
    );
}

#[test]
fn added_and_removed_types() {
    assert_changes(
        "struct a { int x; }; struct s { a *f; };",
        "struct a { int x; };",
        &["B struct `s`: it was removed"],
    );
    assert_changes(
        "struct a { int x; };",
        "struct a { int x; }; struct part { int y; }; struct whole { part p; };",
        &[
            "C struct `part`: it was added",
            "E struct `whole`: it was added",
        ],
    );
}

#[test]
fn lists_and_recursive_types() {
    let list = |content: &str| {
        format!("struct node {{ {content} x; node *next; }}; struct s {{ node *all; }};")
    };
    assert_changes(
        &list("int"),
        &list("hyper"),
        &[
            "B struct `node`: the field `next`: the type is `hyper`, it was `int`",
            "B struct `node`: the field `x`: the type is `hyper`, it was `int`",
            "B struct `s`: the field `all`: the type is `hyper`, it was `int`",
        ],
    );
    let tree = |name: &str| {
        format!(
            "struct {name} {{ int x; {name} *left; {name} *right; }}; struct s {{ {name} all<>; }};"
        )
    };
    assert_changes(
        &tree("a"),
        &tree("b"),
        &["C struct `a`: it was renamed to `b`"],
    );
}

#[test]
fn programs() {
    let program = |versions: &str| format!("program P {{ {versions} }} = 0x20000001;");
    assert_changes(
        &program("version V { int A(int) = 1; void B(void) = 2; } = 1;"),
        &program(
            "version V { hyper A(int) = 1; void C(void) = 2; void D(void) = 3; } = 1;
             version W { void A(void) = 1; } = 2;",
        ),
        &[
            "C program `P`, version `V`: procedure `B`: it was renamed to `C`",
            "E program `P`, version `V`: procedure `D`: it was added",
            "E program `P`, version `W`: it was added",
            "B program `P`, version `V`: procedure `A`, results: the type is `hyper`, it was `int`",
        ],
    );
    assert_changes(
        &program("version V { int A(int) = 1; void B(void) = 2; } = 1;"),
        &program("version V { int A(int, int) = 1; } = 1;"),
        &[
            "B program `P`, version `V`: procedure `A`: it has 2 arguments, it had 1",
            "B program `P`, version `V`: procedure `B`: it was removed",
        ],
    );
}

/// A procedure is called by its number: another number is another procedure to a peer in the old
/// form.
#[test]
fn procedures_with_another_number() {
    let version =
        |procedures: &str| format!("program P {{ version V {{ {procedures} }} = 1; }} = 2;");
    let site = "program `P`, version `V`: procedure";
    for (old, new, expected) in [
        (
            "void A(void) = 1; int B(int) = 2;",
            "void A(void) = 1; int B(int) = 4;",
            vec![format!("B {site} `B`: the number is 4, it was 2")],
        ),
        // One is inserted before the last.
        (
            "void A(void) = 1; void B(void) = 2;",
            "void A(void) = 1; void C(void) = 2; void B(void) = 3;",
            vec![
                format!("B {site} `B`: the number is 3, it was 2"),
                format!("E {site} `C`: it was added"),
            ],
        ),
        (
            "void A(void) = 1; void B(void) = 2;",
            "void B(void) = 1; void A(void) = 2;",
            vec![
                format!("B {site} `A`: the number is 2, it was 1"),
                format!("B {site} `B`: the number is 1, it was 2"),
            ],
        ),
        // Its results changed, too.
        (
            "int A(void) = 1;",
            "hyper A(void) = 3;",
            vec![
                format!("B {site} `A`: the number is 3, it was 1"),
                format!("B {site} `A`, results: the type is `hyper`, it was `int`"),
            ],
        ),
        (
            "void A(void) = 1; void B(void) = 2;",
            "void B(void) = 1;",
            vec![
                format!("B {site} `A`: it was removed"),
                format!("B {site} `B`: the number is 1, it was 2"),
            ],
        ),
    ] {
        assert_eq!(
            changes(&version(old), &version(new)),
            expected,
            "{old} {new}"
        );
    }
}

/// Deep and wide schemas are compared quickly and without recursion.
#[test]
fn long_chains_are_compared() {
    let chain = |name: &str, last: &str| {
        let mut xdr = format!("typedef {last} {name}0;");
        for at in 1..20_000 {
            xdr += &format!("typedef {name}{} {name}{at}<3>;", at - 1);
        }
        xdr + &format!("struct s {{ {name}19999 x; }};")
    };
    let found = changes(&chain("a", "int"), &chain("b", "hyper"));
    let breaking: Vec<_> = found
        .iter()
        .filter(|change| change.starts_with('B'))
        .collect();
    assert_eq!(
        breaking,
        ["B typedef `a0`: the type is `hyper`, it was `int`"]
    );
    assert_eq!(found.len(), 20_001);
}

fn compile(config: Config, path: &str) -> Compilation {
    let compilation = config.module(Module::new("m").document(path)).check();
    let report = compilation.report(Style::Plain);
    assert!(!compilation.has_errors(), "{report}");
    compilation
}

/// Consecutive revisions of a draft, both with their errata.
#[test]
fn revisions_of_a_draft() {
    let [old, new] = [XCHAREXT_02, XCHAREXT_03].map(|name| {
        let config = Config::new().errata(format!("{SPEC}/errata.toml"));
        compile(config, &format!("{SPEC}/{name}"))
    });
    let changes = diff(old.schema(), new.schema());
    let text = text(&changes, old.sources(), new.sources());
    insta::assert_snapshot!("xcharext", text);
    let json = json(&changes, old.sources(), new.sources());
    assert_eq!(json.lines().count(), changes.len());
}

/// NFSv4.1 and NFSv4.2: the second adds operations, errors and attributes to the first.
#[test]
fn minor_versions_of_nfs() {
    if !Path::new("../../shared/rfc").is_dir() {
        return note_skipped("minor_versions_of_nfs needs shared/rfc beside the checkout");
    }
    let paths = ["rfc5662", "rfc7863"].map(|name| format!("../../shared/rfc/{name}.txt"));
    let [old, new] = paths.map(|path| compile(Config::new(), &path));
    let changes = diff(old.schema(), new.schema());
    let text = text(&changes, old.sources(), new.sources());
    insta::assert_snapshot!("nfs", text);
}
