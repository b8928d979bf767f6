//! Tests XDR extensions of other compilers, each of which is a lint, and the settings that change
//! the meaning of a document.

mod common;

use common::{Folder, check, check_with};
use xdrgen_build::{Code, Compilation, Config, Level, Module, Style};

/// Returns the code of the only module.
fn generated(compilation: &Compilation) -> String {
    let report = compilation.report(Style::Plain);
    let files = compilation
        .generate()
        .unwrap_or_else(|_| panic!("{report}"));
    files.iter().map(|file| file.content.as_str()).collect()
}

/// Checks that an extension is a lint: it causes a warning, which can be denied, and code is
/// generated.
fn accepted(xdr: &str, code: Code, expected: &[&str]) {
    let checked = check(xdr);
    let report = checked.report(Style::Plain);
    assert!(!checked.has_errors(), "{report}");
    let found = checked.diagnostics().iter().any(|found| found.code == code);
    assert!(found, "{code}: {report}");
    assert!(check_with(xdr, code, Level::Deny).has_errors(), "{code}");
    let generated = generated(&checked);
    for expected in expected {
        assert!(generated.contains(expected), "{expected}: {generated}");
    }
}

fn program(procedures: &str) -> String {
    format!("struct s {{ int a; }}; program P {{ version V {{ {procedures} }} = 1; }} = 200;")
}

#[test]
fn arguments_may_have_names() {
    let xdr = program("int GET(s first, unsigned second) = 1;");
    accepted(
        &xdr,
        Code::NamedArgument,
        &["type Args<'a> = (super::super::S, u32)"],
    );
}

#[test]
fn procedures_may_have_declarators() {
    let xdr = program("s *GET(string<>, opaque d<8>, int x[2]) = 1; opaque<> READ(s *) = 2;");
    let expected = [
        "type Args<'a> = (xdr::Text<'a>, xdr::Opaque<'a, 8>, [i32; 2]);",
        "type Reply<'a> = xdr::Option<super::super::S>;",
        "type Args<'a> = xdr::Option<super::super::S>;",
        "type Reply<'a> = &'a [u8];",
    ];
    accepted(&xdr, Code::ProcedureDeclarator, &expected);
}

/// A pointer to a node is a list here, as in a struct.
#[test]
fn a_pointer_to_a_node_is_a_list() {
    let xdr = "struct node { int value; node *next; }; program P { version V { node *ALL(void) = \
               1; } = 1; } = 2;";
    let generated = generated(&check(xdr));
    assert!(
        generated.contains("type Reply<'a> = xdr::List<'a, i32>;"),
        "{generated}"
    );
}

#[test]
fn many_arguments_are_a_struct() {
    let types = ["int"; 9].join(", ");
    let xdr = program(&format!(
        "void PUT({types}) = 1; void NAMED(int a, {types}) = 2;"
    ));
    let expected = [
        "type Args<'a> = super::super::PutArgs;",
        "pub arg9: i32",
        "pub a: i32",
    ];
    accepted(&xdr, Code::ManyArguments, &expected);
    let eight = program(&format!("void PUT({}) = 1;", ["int"; 8].join(", ")));
    assert!(check(&eight).diagnostics().is_empty());
}

#[test]
fn a_string_may_lack_its_bound() {
    let expected = ["pub x: xdr::Text<'a>"];
    accepted("struct s { string x; };", Code::BareString, &expected);
}

#[test]
fn a_constant_may_be_a_string() {
    let xdr = "const HEXMODULUS = \"d4a0ba02\"; const EMPTY = \"\";";
    let expected = [
        "pub const HEXMODULUS: &str = \"d4a0ba02\";",
        "pub const EMPTY: &str = \"\";",
    ];
    accepted(xdr, Code::StringConstant, &expected);
    let opaque = "const TEXT = \"a\"; typedef opaque a[TEXT];";
    insta::assert_snapshot!(check(opaque).report(Style::Plain));
    for used in [
        "typedef string a<TEXT>;",
        "enum e { A = TEXT };",
        "const OTHER = TEXT;",
        "union u switch (int a) { case TEXT: void; };",
        "program P { version V { void NULLPROC(void) = TEXT; } = 1; } = 1;",
    ] {
        let report = check(&format!("const TEXT = \"a\"; {used}")).report(Style::Plain);
        let message = "error[wrong-kind]: expected a number, but `TEXT` is a string";
        assert!(report.contains(message), "{used}: {report}");
    }
    for (wrong, message) in [
        ("const A = \"a\\n\";", "a `\\` in a string"),
        ("enum e { A = \"a\" };", "quoted text is not a number"),
        ("const int A = \"a\";", "quoted text is not a number"),
        ("struct s { int \"a\"; };", "expected a name, found `\"a\"`"),
        ("const A = \"a;", "`\\\"` is not part of XDR"),
        ("const A = \"a\"; const A = \"b\";", "`A` is defined twice"),
        ("const A = \"a\"; typedef A b;", "`A` is not a type"),
    ] {
        let report = check(wrong).report(Style::Plain);
        assert!(report.contains(message), "{wrong}: {report}");
    }
}

#[test]
fn a_constant_may_have_more_than_64_bits() {
    let xdr = "const P = 0xffffffff00000001000000000000ffff; const Q = -9223372036854775809;";
    let wide = xdr.replace("0xffff", "0x7fff");
    let expected = [
        "pub const P: u128 =",
        "pub const Q: i128 = -9223372036854775809;",
    ];
    accepted(&wide, Code::WideConstant, &expected);
    let used = "const P = 18446744073709551616; typedef int a<P>;";
    let report = check(used).report(Style::Plain);
    assert!(report.contains("error[invalid-bound]"), "{report}");
    let typed = "const int P = 18446744073709551616;";
    assert!(check(typed).has_errors());
    // The largest Rust type limits the value.
    assert!(check(xdr).has_errors());
}

#[test]
fn a_package_is_ignored() {
    accepted(
        "package nfs;\nconst A = 1;",
        Code::Package,
        &["pub const A: u32 = 1;"],
    );
    // A type may be named `package`.
    assert!(!check("typedef int package; struct a { package b; };").has_errors());
}

#[test]
fn zcopaque_is_an_item() {
    let xdr = "struct data { zcopaque bytes<16>; zcopaque key[4]; }; typedef zcopaque raw<>;\n\
               union res switch (int status) { case 0: zcopaque bytes<>; };";
    let expected = [
        "pub bytes: xdr::Item<'a>",
        "pub key: [u8; 4]",
        "pub type Raw<'a> = &'a [u8];",
    ];
    accepted(xdr, Code::ZeroCopyOpaque, &expected);
    assert!(!check("typedef int zcopaque; struct a { zcopaque b; };").has_errors());
}

fn scoped(xdr: &str) -> Compilation {
    let module = Module::new("a").text("a.x", xdr).scoped_enums(true);
    Config::new().module(module).check()
}

#[test]
fn members_are_scoped_by_their_enum() {
    let xdr = "enum a { NONE = 0, A = 1 }; enum b { B = 0, NONE = 1 };\n\
               union u switch (a k) { case NONE: int i; default: void; };\n\
               union v switch (b k) { case NONE: int i; default: void; };\n";
    assert!(check(xdr).has_errors());
    let checked = scoped(xdr);
    let schema = checked.schema();
    assert!(!checked.has_errors(), "{}", checked.report(Style::Plain));
    let value = |name| {
        let id = schema.find(name).expect(name);
        match &schema.ty(id).kind {
            xdrgen_build::ir::TypeDefKind::Union(union) => union.arms[0].value,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((value("u"), value("v")), (0, 1));
}

#[test]
fn member_of_several_enums_is_ambiguous() {
    let enums = "enum a { NONE = 0 }; enum b { NONE = 1 };";
    for use_of in ["typedef int c<NONE>;", "const C = NONE;"] {
        let report = scoped(&format!("{enums} {use_of}")).report(Style::Plain);
        assert!(report.contains("error[ambiguous-member]"), "{report}");
    }
    let twice = scoped("enum a { NONE = 0, NONE = 1 };").report(Style::Plain);
    assert!(twice.contains("error[duplicate-definition]"), "{twice}");
    let once = scoped("enum a { NONE = 0, A = 3 }; typedef int c<A>;");
    assert!(!once.has_errors(), "{}", once.report(Style::Plain));
    let constant = scoped("enum a { NONE = 0 }; const NONE = 1;");
    assert!(constant.has_errors());
}

fn external(xdr: &str, name: &str, path: &str) -> Compilation {
    let module = Module::new("a").text("a.x", xdr);
    Config::new().module(module).extern_type(name, path).check()
}

#[test]
fn a_type_of_a_c_header_is_supplied() {
    let xdr = "struct entry { time_t when; opaque name<>; time_t *last; };\n\
               union one switch (int k) { case 0: time_t at; };\n";
    let generated = generated(&external(xdr, "time_t", "crate::Time"));
    for expected in [
        "pub type TimeT = crate::Time;",
        "pub when: TimeT",
        "pub last: xdr::Option<xdr::heap::Box<super::TimeT>>",
        "#[derive(Clone, Debug, PartialEq)]\npub struct Entry<'a>",
        "pub use super::TimeT;",
    ] {
        assert!(generated.contains(expected), "{expected}: {generated}");
    }
}

#[test]
fn external_type_replaces_a_declared_type() {
    let xdr = "struct fh { opaque data<64>; }; struct args { fh object; };";
    let generated = generated(&external(xdr, "fh", "::handles::Handle"));
    assert!(
        generated.contains("pub type Fh = ::handles::Handle;"),
        "{generated}"
    );
    assert!(!generated.contains("pub struct Fh"), "{generated}");
}

/// A Rust number has a known encoding. The setting takes precedence over the preludes.
#[test]
fn external_type_can_be_a_number() {
    let checked = external("struct entry { uint32_t when; };", "uint32_t", "u64");
    let generated = generated(&checked);
    assert!(generated.contains("pub type Uint32T = u64;"), "{generated}");
    let id = checked.schema().find("entry").expect("a struct");
    assert_eq!(checked.schema().ty(id).layout.max, Some(8));
}

/// What a prelude supplies uses a name of the configuration.
#[test]
fn external_type_is_supplied_to_a_prelude() {
    let xdr = "struct mount { authunix_parms caller; };";
    let generated = generated(&external(xdr, "authsys_parms", "crate::Caller"));
    assert!(
        generated.contains("pub type AuthsysParms = crate::Caller;"),
        "{generated}"
    );
}

#[test]
fn wrong_external_types_are_reported() {
    for (name, path, expected) in [
        (
            "time_t",
            "Time",
            "not the path of a type that begins with `crate` or `::`",
        ),
        ("time_t", "crate::", "not the path of a type"),
        ("tme_t", "crate::Time", "no document uses a type `tme_t`"),
        (
            "entry",
            "u64",
            "a document declares `entry`, which cannot become a number",
        ),
    ] {
        let checked = external("struct entry { time_t when; };", name, path);
        let report = checked.report(Style::Plain);
        assert!(report.contains(expected), "{report}");
        assert!(checked.has_errors());
    }
    let discriminant = "enum e { A = 0 }; union u switch (e k) { case A: void; };";
    assert!(external(discriminant, "e", "crate::E").has_errors());
}

#[test]
fn an_external_type_is_not_decoded_without_its_code() {
    use xdrgen_build::value::{DecodeErrorKind, Limits, decode};
    let checked = external("struct entry { time_t when; };", "time_t", "crate::Time");
    let id = checked.schema().find("entry").expect("a struct");
    let ty = xdrgen_build::ir::Type::Named(id);
    let error = decode(checked.schema(), &ty, &[0; 8], &Limits::DEFAULT).expect_err("an error");
    assert_eq!(error.kind, DecodeErrorKind::ExternalType);
}

#[test]
fn the_manifest_has_external_types_renames_and_scopes() {
    let folder = Folder::new()
        .with(
            "a.x",
            "enum a { NONE = 0 }; enum b { NONE = 0 }; struct c { time_t d; };",
        )
        .with(
            "xdrgen.toml",
            "[extern]\ntime_t = \"crate::Time\"\n[[module]]\npath = \"a\"\ndocuments = [\"a.x\"]\n\
             scoped_enums = true\n[module.rename]\nc = \"Entry\"\n\"c.d\" = \"when\"\n\
             \"a.NONE\" = \"Nothing\"\n",
        );
    let config = Config::from_manifest(folder.path("xdrgen.toml")).expect("a manifest");
    let generated = generated(&config.check());
    for expected in ["pub struct Entry", "pub when: TimeT", "Nothing = 0"] {
        assert!(generated.contains(expected), "{expected}: {generated}");
    }
}

#[test]
fn names_in_rust_can_be_set() {
    let xdr = "struct a_b { int c; }; struct aB { int c; }; const D = 1;\n\
               union u switch (int k) { case 1: int i; };\n\
               program P { version V { void GET(a_b) = 1; } = 1; } = 2;";
    let clash = check(xdr).report(Style::Plain);
    assert!(clash.contains("under `rename` in the manifest"), "{clash}");
    let module = Module::new("a").text("a.x", xdr);
    let renames = [
        ("aB", "Other"),
        ("D", "DEPTH"),
        ("u.1", "First"),
        ("GET", "Fetch"),
    ];
    let module = renames
        .iter()
        .fold(module, |module, (xdr, rust)| module.rename(*xdr, *rust));
    let checked = Config::new().module(module.clone()).check();
    let generated = generated(&checked);
    for expected in [
        "pub struct Other",
        "pub const DEPTH",
        "First(i32)",
        "pub struct Fetch",
    ] {
        assert!(generated.contains(expected), "{expected}: {generated}");
    }
    for (xdr, rust, expected) in [
        ("a_c", "C", "nothing of the module is named `a_c`"),
        ("a_b.d", "e", "nothing of the module is named `a_b.d`"),
        ("aB", "b c", "`b c` is not a name in Rust"),
    ] {
        let wrong = Config::new()
            .module(module.clone().rename(xdr, rust))
            .check();
        let report = wrong.report(Style::Plain);
        assert!(report.contains(expected), "{report}");
    }
}

/// A document's own type precedes that of a prelude, in overlays as elsewhere.
#[test]
fn an_overlay_has_the_documents_own_type() {
    use xdrgen_build::ir::{Primitive, Type};
    for (own, expected) in [("", None), ("typedef hyper uint32;", Some("uint32"))] {
        let xdr = format!("{own} const ONE = 1; struct c {{ unsigned int k; opaque d<>; }};");
        let overlay = xdrgen_build::Overlay {
            name: "Content".into(),
            carrier: "c".into(),
            code: "k".into(),
            data: "d".into(),
            cases: vec![("ONE".into(), "uint32".into())],
            ..Default::default()
        };
        let module = Module::new("a").text("a.x", &xdr).overlay(overlay);
        let checked = Config::new().module(module).check();
        assert!(!checked.has_errors(), "{}", checked.report(Style::Plain));
        let schema = checked.schema();
        let expected = expected.map(|name| Type::Named(schema.find(name).expect(name)));
        let expected = expected.unwrap_or(Type::Primitive(Primitive::U32));
        assert_eq!(schema.modules[0].overlays[0].cases[0].ty, expected, "{xdr}");
    }
}
