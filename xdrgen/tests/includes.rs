//! Tests definitions from outside of a document: constants of `#define`, and included files.

mod common;

use common::{Folder, check};
use xdrgen_build::diagnostic::Diagnostic;
use xdrgen_build::{Code, Compilation, Config, Module, Style};

/// Returns the only error of a compilation.
fn only_error(compilation: &Compilation) -> &Diagnostic {
    let found = compilation.diagnostics().iter();
    let found: Vec<_> = found.filter(|found| found.is_error()).collect();
    let [error] = found[..] else {
        panic!("{}", compilation.report(Style::Plain));
    };
    error
}

/// Returns the constants of the only module, with their values.
fn constants(compilation: &Compilation) -> Vec<(String, i128)> {
    assert!(
        !compilation.has_errors(),
        "{}",
        compilation.report(Style::Plain)
    );
    let modules = &compilation.schema().modules;
    let constants = modules.iter().flat_map(|module| &module.constants);
    constants
        .map(|constant| {
            let value = constant.value.number().expect("a number");
            (constant.name.clone(), value)
        })
        .collect()
}

/// Returns the codes of the errors.
fn errors(compilation: &Compilation) -> Vec<Code> {
    let found = compilation.diagnostics().iter();
    found
        .filter(|found| found.is_error())
        .map(|found| found.code)
        .collect()
}

/// A `%#define` is for the C code of rpcgen. It becomes a constant if a document uses its name and
/// no document defines it.
#[test]
fn a_define_for_c_is_a_constant_where_it_is_used() {
    let compilation = check(
        "%#define GUARD_H\n%#define NAME_MAX 0x10 /* characters */\n%#define PATH_MAX NAME_MAX+1\n\
         %# define FLAG (1 << 3)\n%#define UNUSED no_constant\n%#define CALL(a) a\n\
         %#define TAKEN 7\nconst TAKEN = 8;\n\
         struct user { string name<NAME_MAX>; opaque path[PATH_MAX]; int more[FLAG]; };\n",
    );
    let found = constants(&compilation);
    let expected = [
        ("TAKEN", 8),
        ("NAME_MAX", 16),
        ("PATH_MAX", 17),
        ("FLAG", 8),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (name, value) in expected {
        assert!(found.contains(&(name.to_owned(), value)), "{found:?}");
    }
}

/// The number of a program may be a `#define`, and a `#define` may be a sum.
#[test]
fn a_define_is_the_number_of_a_program() {
    let compilation = check(
        "%#define BASE 0x20000000\n#define NUMBER (BASE + 5)\n\
         program P { version V { void NULLPROC(void) = 0; } = 1; } = NUMBER;\n",
    );
    assert!(
        !compilation.has_errors(),
        "{}",
        compilation.report(Style::Plain)
    );
    let number = compilation.schema().modules[0].programs[0].number;
    assert_eq!(number, 0x2000_0005);
}

/// Two different values of one name are an error, because the value in C depends on lines that are
/// not evaluated. Equal values are accepted.
#[test]
fn defines_that_contradict_each_other() {
    let with = |second: &str| {
        check(&format!(
            "%#ifdef A\n%#define N 4\n%#else\n%#define N {second}\n%#endif\ntypedef int a[N];\n"
        ))
    };
    assert_eq!(errors(&with("8")), [Code::DuplicateDefinition]);
    assert_eq!(constants(&with("4")), [("N".to_owned(), 4)]);
}

/// A value that is not a constant is reported at its use. A chain may have any length, but no
/// cycle.
#[test]
fn defines_without_a_value() {
    assert_eq!(
        errors(&check("%#define N other\ntypedef int a[N];\n")),
        [Code::UndefinedConstant]
    );
    assert_eq!(
        errors(&check("%#define N M+1\n%#define M N\ntypedef int a[N];\n")),
        [Code::RecursiveConstant]
    );
    let chain: String = (0..20_000)
        .map(|at| format!("%#define N{at} N{}+1\n", at + 1))
        .collect();
    let compilation = check(&format!("{chain}%#define N20000 1\ntypedef int a[N0];\n"));
    let found = constants(&compilation);
    assert!(found.contains(&("N0".to_owned(), 20_001)));
}

/// Compiles `a.x` of a folder.
fn compile(folder: &Folder) -> Compilation {
    let module = Module::new("a").document(folder.path("a.x"));
    Config::new().module(module).check()
}

/// Returns the names of all types and constants of a module.
fn names(compilation: &Compilation, module: usize) -> Vec<String> {
    assert!(
        !compilation.has_errors(),
        "{}",
        compilation.report(Style::Plain)
    );
    let schema = compilation.schema();
    let module = &schema.modules[module];
    let types = module.types.iter().map(|id| schema.ty(*id).name.clone());
    let constants = module.constants.iter().map(|one| one.name.clone());
    let mut names: Vec<String> = types.chain(constants).collect();
    names.sort();
    names
}

/// `%#include "b.h"` names the header that rpcgen generates from `b.x`. A module takes the
/// definitions that it uses, and those that they use.
#[test]
fn an_include_for_c_supplies_what_is_used() {
    let b = "%#define SIZE 4\nstruct far { near n[SIZE]; };\nenum kind { ONE = 1, TWO = 2 };\n\
             struct unused { int a; };\n%#include \"sub/c.h\"\n\
             program P { version V { void NULLPROC(void) = 0; } = 1; } = 7;\n";
    let folder = Folder::new()
        .with(
            "a.x",
            "%#include \"b.h\"\n%#include <sys/none.h>\nstruct user { far f; opaque id[TWO]; };\n",
        )
        .with("b.x", b)
        .with("c.x", "struct near { int a; };\nstruct other { int a; };\n");
    let compilation = compile(&folder);
    assert_eq!(
        names(&compilation, 0),
        ["SIZE", "far", "kind", "near", "user"]
    );
    assert!(compilation.schema().modules[0].programs.is_empty());
}

/// A file of `#include` is part of the document, as it is for rpcgen.
#[test]
fn an_include_for_rpcgen_is_part_of_the_document() {
    let folder = Folder::new()
        .with("a.x", "#include \"b.x\"\nstruct user { near n; };\n")
        .with(
            "b.x",
            "struct near { int a; };\nstruct unused { int a; };\n",
        );
    assert_eq!(names(&compile(&folder), 0), ["near", "unused", "user"]);
}

/// Returns the configuration of `a.x` in a folder with one erratum, which replaces `old` by `new`.
fn with_erratum(a: &str, (line, old, new): (usize, &str, &str)) -> (Folder, Config) {
    let errata = format!(
        "[[erratum]]\ndocument = \"a.x\"\nline = {line}\nold = '''{old}'''\nnew = '''{new}'''\n\
         reason = \"r\"\n"
    );
    let folder = Folder::new()
        .with("a.x", a)
        .with("b.x", "struct near { int a; };\n")
        .with("errata.toml", errata);
    let module = Module::new("a").document(folder.path("a.x"));
    let config = Config::new()
        .module(module)
        .errata(folder.path("errata.toml"));
    (folder, config)
}

/// A document is as an erratum makes it, also where it includes others.
#[test]
fn an_erratum_may_insert_an_include() {
    for include in ["%#include \"b.h\"", "#include \"b.x\""] {
        let new = format!("{include}\nconst A = 1;");
        let a = "const A = 1;\nstruct user { near n; };\n";
        let (_folder, config) = with_erratum(a, (1, "const A = 1;", &new));
        assert_eq!(names(&config.check(), 0), ["A", "near", "user"]);
    }
}

/// The files of a document without an erratum are those that it includes then.
#[test]
fn an_erratum_of_an_include_is_useful() {
    let inactive = "#ifdef NEVER\n%#include \"b.h\"\n#endif\nstruct user { near n; };\n";
    let twice = "#include \"b.x\"\nstruct near { int a; };\n";
    let unused = "%#include \"b.h\"\nstruct user { int a; };\n";
    for (a, erratum, useless) in [
        (inactive, (1, "#ifdef", "#ifndef"), false),
        (twice, (1, "#include \"b.x\"", ""), false),
        (unused, (1, "%#include \"b.h\"", ""), true),
    ] {
        let (_folder, config) = with_erratum(a, erratum);
        let found = xdrgen_build::useless_errata(&config);
        let report = found.report(Style::Plain);
        let expected: &[Code] = if useless {
            &[Code::ErratumUseless]
        } else {
            &[]
        };
        assert_eq!(errors(&found), expected, "{report}");
    }
}

/// Files may include each other, themselves, and one file twice.
#[test]
fn cyclic_and_repeated_includes() {
    for sign in ["", "%"] {
        let all =
            format!("{sign}#include \"a.x\"\n{sign}#include \"./b.h\"\n{sign}#include \"b.x\"\n");
        let folder = Folder::new()
            .with("a.x", format!("{all}struct user {{ near n; }};\n"))
            .with("b.x", format!("{all}struct near {{ int a; }};\n"));
        assert_eq!(names(&compile(&folder), 0), ["near", "user"]);
    }
}

/// The length of a chain of includes is limited.
#[test]
fn a_long_chain_of_includes() {
    let chain = |length: usize| {
        let folder = Folder::new().with("a.x", "#include \"c0.x\"\nstruct user { last l; };\n");
        let folder = (0..length).fold(folder, |folder, at| {
            folder.with(&format!("c{at}.x"), format!("#include \"c{}.x\"\n", at + 1))
        });
        compile(&folder.with(&format!("c{length}.x"), "typedef int last;\n"))
    };
    assert_eq!(names(&chain(31), 0), ["last", "user"]);
    let long = chain(40);
    assert!(errors(&long).contains(&Code::Unreadable));
    let report = long.report(Style::Plain);
    assert!(report.contains("32"), "{report}");
}

/// Other folders are searched after the document's own; a manifest names them too.
#[test]
fn folders_of_includes() {
    let other = Folder::new()
        .with("b.x", "typedef int near;\n")
        .with("c.x", "typedef int far;\n");
    let folder = Folder::new()
        .with(
            "a.x",
            "%#include <b.h>\n%#include <c.h>\nstruct user { near n; far f; };\n",
        )
        .with("b.x", "typedef hyper near;\n");
    let module = || Module::new("a").document(folder.path("a.x"));
    let without = Config::new().module(module()).check();
    insta::assert_snapshot!(folder.relative(&without.report(Style::Plain)));
    let with = Config::new()
        .include_dir(other.path(""))
        .module(module())
        .check();
    assert_eq!(names(&with, 0), ["far", "near", "user"]);
    let near = with.schema().find("near").expect("a type");
    assert_eq!(with.schema().ty(near).layout.max, Some(8));

    let manifest = format!(
        "include = [{:?}]\n[[module]]\npath = \"a\"\ndocuments = [\"a.x\"]\n",
        other.path("")
    );
    let folder = folder.with("xdrgen.toml", manifest);
    let config = Config::from_manifest(folder.path("xdrgen.toml")).expect("a manifest");
    assert_eq!(names(&config.check(), 0), ["far", "near", "user"]);
}

/// A module that uses another module takes the types of that module, and does not define them
/// again.
#[test]
fn an_include_of_a_module_in_use() {
    for sign in ["", "%"] {
        let folder = Folder::new()
            .with(
                "a.x",
                format!("{sign}#include \"b.x\"\nstruct user {{ near n; }};\n"),
            )
            .with("b.x", "struct near { int a; };\n");
        let b = Module::new("b").document(folder.path("b.x"));
        let a = Module::new("a").document(folder.path("a.x")).uses("b");
        let compilation = Config::new().module(b).module(a).check();
        assert_eq!(names(&compilation, 1), ["user"]);
    }
}

/// A document's own definitions take precedence, and an inactive branch includes nothing.
#[test]
fn includes_that_are_not_needed() {
    let folder = Folder::new()
        .with(
            "a.x",
            "%#include \"b.h\"\n#ifdef NEVER\n#include \"never.x\"\n#endif\ntypedef int near;\n",
        )
        .with("b.x", "typedef hyper near;\nthis is no XDR\n")
        .with("never.x", "typedef hyper near;\n");
    assert_eq!(names(&compile(&folder), 0), ["near"]);
}

/// A defect of an included file is reported in that file.
#[test]
fn a_defect_of_an_included_file() {
    let folder = Folder::new()
        .with("a.x", "%#include \"b.h\"\nstruct user { near n; };\n")
        .with("b.x", "struct near { lost a; };\n");
    let report = folder.relative(&compile(&folder).report(Style::Plain));
    assert!(report.contains("b.x:1:15"), "{report}");
}

/// The preludes contain the types that rpcgen takes from C headers: `netbuf` of RFC 1833, and the
/// types of AUTH_UNIX and AUTH_DES (RFC 1057, section 9).
#[test]
fn preludes_of_c_headers() {
    let compilation = check(
        "struct user { netbuf a; des_block b; authunix_parms c; string d<MAXNETNAMELEN>; bool_t \
         e;\n\
         enum_t f; };\n",
    );
    let found = names(&compilation, 0);
    let expected = [
        "MAXNETNAMELEN",
        "authsys_parms",
        "authunix_parms",
        "des_block",
        "netbuf",
        "user",
    ];
    assert_eq!(found, expected);
    let schema = compilation.schema();
    let size = |name: &str| {
        let layout = schema.ty(schema.find(name).expect(name)).layout;
        (layout.min, layout.max)
    };
    assert_eq!(size("netbuf"), (8, None));
    assert_eq!(size("des_block"), (8, Some(8)));
    assert_eq!(size("authunix_parms"), size("authsys_parms"));
}

/// `#define` and `%#define` have the same values, which are those of C.
#[test]
fn a_define_may_have_operators() {
    for percent in ["", "%"] {
        let define = |line: &str| format!("{percent}#define {line}\n");
        let lines = [
            "MAX_NAME 16",
            "MAX_NAMES (MAX_NAME * 4)",
            "FIRST 3+MAX_NAME",
            "NEXT (FIRST)+1",
            "BOTH MAX_NAME*FIRST-A_1",
            "LONG 16L",
            "HEX 0x10UL",
            "A_1 1",
            "HALF (MAX_NAMES / 2) /* half */",
        ];
        let lines: String = lines.into_iter().map(define).collect();
        let compilation = check(&format!(
            "{lines}struct s {{ opaque a[MAX_NAMES]; opaque b[NEXT]; opaque c[LONG]; \
             opaque d[HEX]; opaque e[HALF]; }};\n"
        ));
        let found = constants(&compilation);
        for (name, value) in [
            ("MAX_NAMES", 64),
            ("FIRST", 19),
            ("NEXT", 20),
            ("LONG", 16),
            ("HEX", 16),
            ("HALF", 32),
        ] {
            assert!(found.contains(&(name.to_owned(), value)), "{found:?}");
        }
    }
}

/// A `#define` whose value XDR has no use for is an error only if a document uses it. The error
/// points to the line, and has no fix.
#[test]
fn a_define_without_a_use_is_no_error() {
    for value in [
        "A-1",
        "opaque",
        "u_int",
        "unsigned int",
        "\"1.0\"",
        "sizeof(int)",
        "09",
        "f(x) x",
        "",
        "1.5",
    ] {
        let text = format!("#define X {value}\nconst XA = 3;\nstruct s {{ int a; }};\n");
        let compilation = check(&text);
        assert_eq!(errors(&compilation), [], "{value}");
    }
    for (line, text) in [
        ("#define SIZES sizeof(int)", "opaque a[SIZES];"),
        ("%#define SIZES sizeof(int)", "opaque a[SIZES];"),
        ("#define SIZES(a) a", "opaque a[SIZES];"),
        ("#define SIZES 09", "opaque a[SIZES];"),
        ("#define SIZES unsigned int", "SIZES a;"),
        ("#define SIZES opaque", "SIZES a;"),
        ("#define SIZES u_int", "SIZES a;"),
        ("#define SIZES size", "SIZES a;"),
    ] {
        let xdr = format!(
            "{line}\nconst SIZE = 3;\ntypedef int SIZED;\ntypedef int size;\n\
             struct s {{ {text} }};\n"
        );
        let compilation = check(&xdr);
        let report = compilation.report(Style::Plain);
        let error = only_error(&compilation);
        assert!(error.fixes.is_empty(), "{report}");
        let place = error.notes[0].span.expect("a place");
        assert_eq!(compilation.sources().slice(place), "SIZES", "{report}");
    }
}

/// The fix of a name in a `#define` replaces the name alone.
#[test]
fn a_name_in_a_define_has_a_place() {
    let compilation =
        check("#define MAX_NAME 16\n#define DOUBLE (2 * MAX_NAM)\ntypedef opaque name[DOUBLE];\n");
    let error = only_error(&compilation);
    let place = error.fixes[0].span;
    assert_eq!(compilation.sources().slice(place), "MAX_NAM");
}

/// A `#define` within a definition is no part of it.
#[test]
fn a_define_may_be_in_a_definition() {
    let compilation = check("enum e {\n#define FIRST 1\n    A = FIRST,\n    B = 2\n};\n");
    assert_eq!(constants(&compilation), [("FIRST".to_owned(), 1)]);
}

/// The error of an undefined name points to the condition whose lines define it.
#[test]
fn a_condition_hides_a_definition() {
    for (condition, text) in [
        (
            "#if defined(RPC_HDR) || defined(RPC_XDR)",
            "struct hdr { int a; };",
        ),
        ("#ifdef WITH_EXT", "typedef int hdr;"),
        (
            "#ifdef WITH_EXT",
            "#if 1\nunion hdr switch (int a) { default: void; };\n#endif",
        ),
        ("#ifndef WITH_EXT\n#else", "enum hdr { A = 1 };"),
        ("#ifdef WITH_EXT", "#define OTHER 1\nenum hdr { A = 1 };"),
    ] {
        let xdr = format!("{condition}\n{text}\n#endif\nstruct hdx {{ hdr a; }};\n");
        let compilation = check(&xdr);
        let report = compilation.report(Style::Plain);
        let error = only_error(&compilation);
        assert_eq!(error.code, Code::UndefinedType);
        assert!(error.fixes.is_empty(), "{report}");
        let place = error.notes[0].span.expect("a place");
        let first = condition.lines().next();
        assert_eq!(Some(compilation.sources().slice(place)), first, "{report}");
    }
}

/// The error of an undefined name points to the line that defines it for C.
#[test]
fn a_line_for_c_is_no_definition() {
    for (line, text) in [
        ("%typedef struct foo foo_t;", "%typedef struct foo foo_t;"),
        ("%struct foo_t { int a; };", "%struct foo_t { int a; };"),
        ("%} foo_t;", "%typedef struct {\n%\tint a;\n%} foo_t;"),
        (
            "%struct foo_t {",
            "%/* The type. */\n%struct foo_t {\n%  int a;\n%};",
        ),
        (
            "%typedef int foo_t[4];",
            "%#include \"a.h\"\n%typedef int foo_t[4];",
        ),
        (
            "%typedef struct foo foo_t;",
            "%extern void show(foo_t *);\n%typedef struct foo foo_t;\n%extern foo_t first;\n\
             %typedef foo_t bar_t;",
        ),
        (
            "%typedef struct foo foo_t;",
            "%typedef struct foo foo_t;\nconst A = 1;\n%typedef struct foo foo_t;",
        ),
    ] {
        let xdr = format!("{text}\nstruct foo_s {{ int b; }};\nstruct s {{ foo_t a; }};\n");
        let compilation = check(&xdr);
        let report = compilation.report(Style::Plain);
        let error = only_error(&compilation);
        assert_eq!(error.code, Code::UndefinedType);
        assert!(error.fixes.is_empty(), "{report}");
        let place = error.notes[0].span.expect("a place");
        assert_eq!(compilation.sources().slice(place), line, "{report}");
        assert!(report.contains("`[extern]`"), "{report}");
    }
}

/// C allows a `#define` again, with the same value.
#[test]
fn a_define_may_be_repeated() {
    for (lines, value) in [
        ("#define N 4\n#define N 4\n", 4),
        ("#define N (2 + 2)\n#define N 4 /* as above */\n", 4),
        ("const M = 4;\n#define N M\n#define N M\n", 4),
    ] {
        let compilation = check(&format!("{lines}typedef opaque a<N>;\n"));
        assert_eq!(errors(&compilation), [], "{lines}");
        let found = constants(&compilation);
        let found = found.iter().filter(|(name, _)| name == "N");
        let found: Vec<_> = found.map(|(_, value)| *value).collect();
        assert_eq!(found, [value], "{lines}");
        compilation.generate().expect(lines);
    }
    for lines in [
        "#define N 4\n#define N 5\n",
        "#define N 4\nconst N = 4;\n",
        "const N = 4;\n#define N 4\n",
    ] {
        let compilation = check(&format!("{lines}typedef opaque a<N>;\n"));
        let found: Vec<_> = compilation
            .diagnostics()
            .iter()
            .filter(|found| found.is_error())
            .map(|found| found.code)
            .collect();
        assert_eq!(found, [Code::DuplicateDefinition], "{lines}");
    }
}

/// The error of a type of C shows the type of XDR.
#[test]
fn types_of_c_have_fixes() {
    for (name, xdr) in [
        ("size_t", "unsigned hyper"),
        ("time_t", "hyper"),
        ("uid_t", "unsigned int"),
        ("u8", "unsigned int"),
        ("__be64", "unsigned hyper"),
        ("boolean", "bool"),
    ] {
        let compilation = check(&format!("struct s {{ {name} a; }};\n"));
        let report = compilation.report(Style::Plain);
        let [error] = compilation.diagnostics() else {
            panic!("{report}");
        };
        assert_eq!(error.code, Code::UndefinedType);
        let fixes: Vec<_> = error.fixes.iter().map(|fix| &fix.replacement).collect();
        assert_eq!(fixes, [xdr], "{report}");
        assert_eq!(
            report.contains("`[extern]`"),
            name.ends_with("_t"),
            "{report}"
        );
    }
}
