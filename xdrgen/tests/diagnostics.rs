//! Tests the output for users: a snapshot for each code, the levels, JSON, and that no input causes
//! a panic.

mod common;

use common::{Folder, check, check_with};
use xdrgen_build::{
    Code, Compilation, Config, Diagnostic, Level, Module, Style, report, useless_errata,
};

/// A minimal example of a diagnostic: its files. Those with the extension `.x` or `.txt` are
/// compiled together.
type Example = &'static [(&'static str, &'static str)];

/// A draft of two pages, with one defect that has a fix and one that has a note.
const DRAFT: &str = "\
1.  Introduction

1.1.  Points

   <CODE BEGINS>
   struct a_point {
           a_coord x;
           a_coord y;
   };
   <CODE ENDS>

Author                 Expires May 1, 2017                      [Page 1]
\u{c}
Internet-Draft                  Points                     November 2016

2.  XDR

   /// typedef a_coord uint32;
   /// struct a_point {
   ///         a_coord x;
   ///         int y;
   /// };

Author                 Expires May 1, 2017                      [Page 2]
";

const MANIFEST: &str = "\
errata = []

[[module]]
path = \"a\"
documents = [\"a.x\"]

[[module.overlay]]
name = \"Content\"
struct = \"carrier\"
code = \"kind\"
data = \"body\"
cases = [[\"POINT\", \"point\"], [\"LINE\", \"line\"]]
";

/// Returns the example for a code. A test fails for a [`Code`] without an example.
fn example(code: Code) -> Option<Example> {
    Some(match code {
        Code::AmbiguousMember => &[
            (
                "a.x",
                "enum color { NONE = 0 };\nenum shape { NONE = 1 };\nconst LIMIT = NONE;\n",
            ),
            (
                "xdrgen.toml",
                "[[module]]\npath = \"a\"\ndocuments = [\"a.x\"]\nscoped_enums = true\n",
            ),
        ],
        Code::Unreadable => &[("missing.x", "")],
        Code::Configuration => &[(
            "xdrgen.toml",
            "[lints]\nconsistency = \"deny\"\nundefined-type = \"warn\"\n",
        )],
        Code::NoXdr => &[("draft-a-00.txt", "1.  Introduction\n\n   Nothing here.\n")],
        Code::ErratumMismatch => &[
            ("draft-a-00.txt", "1.  XDR\n\n   /// const A = 1;\n"),
            (
                "errata.toml",
                "[[erratum]]\ndocument = \"draft-a-00.txt\"\nline = 3\nold = \"A = 2\"\nnew = \"A \
                = 3\"\nreason = \"a\"\n",
            ),
        ],
        Code::ErratumUseless => &[
            ("draft-a-00.txt", "1.  XDR\n\n   /// const A = 1;\n"),
            (
                "errata.toml",
                "[[erratum]]\ndocument = \"draft-a-00.txt\"\nline = 3\nold = \"A = 1\"\nnew = \"A \
                = 3\"\nreason = \"a\"\n",
            ),
        ],
        Code::OverlayCollision => &[
            ("xdrgen.toml", MANIFEST),
            (
                "a.x",
                "const POINT = 1;\nconst LINE = 1;\nstruct point { int x; };\nstruct line { point \
                ends[2]; };\n\
                 struct carrier { unsigned int kind; opaque body<>; };\n",
            ),
        ],
        Code::OverlayInvalid => &[
            ("xdrgen.toml", MANIFEST),
            (
                "a.x",
                "const POINT = 1;\nconst LINE = 2;\nstruct point { int x; };\nstruct line { point \
                ends[2]; };\n\
                 struct carrier { unsigned int kind; int body; };\n",
            ),
        ],
        Code::Consistency => &[(
            "draft-a-00.txt",
            "1.  A\n\n   <CODE BEGINS>\n   const LIMIT = 8;\n   <CODE ENDS>\n\n2.  XDR\n\n   /// \
            const LIMIT = 16;\n",
        )],
        Code::TextSyntax => &[(
            "draft-a-00.txt",
            "1.  A\n\n   <CODE BEGINS>\n   const LIMIT 16;\n   <CODE ENDS>\n\n2.  XDR\n\n   /// \
            const LIMIT = 16;\n",
        )],
        Code::UnmarkedLine => &[(
            "draft-a-00.txt",
            "1.  XDR\n\n   /// struct a_point {\n   //          int x;\n   ///         int y;\n   \
            /// };\n",
        )],
        Code::UnspacedMarker => &[(
            "draft-a-00.txt",
            "1.  XDR\n\n   /// struct a_point {\n   ///        int x;\n   ///};\n   ///\n",
        )],
        Code::ProseName => &[(
            "draft-a-00.txt",
            "1.  A\n\n   A peer sends ROPT_CONNPR first.\n\n2.  XDR\n\n   /// const ROPT_CONNPROP \
            = 1;\n",
        )],
        code => {
            return syntax(code)
                .or_else(|| names(code))
                .or_else(|| values(code))
                .or_else(|| extension(code));
        }
    })
}

/// Examples of syntax errors.
fn syntax(code: Code) -> Option<Example> {
    Some(match code {
        Code::InvalidToken => &[("a.x", "const MODE = 0894;\n")],
        Code::UnterminatedComment => &[("a.x", "/* the mode\nconst MODE = 1;\n")],
        Code::NestedComment => &[(
            "a.x",
            "enum color {\n    RED = 1, /* first\n    BLUE = 2, /* second */\n    GREEN = 3\n};\n",
        )],
        Code::Syntax => &[("a.x", "struct point {\n    int x\n    int y;\n};\n")],
        Code::SeveralDeclarations => &[(
            "a.x",
            "union result switch (int status) {\ncase 0:\n    int x;\n    int y;\ndefault:\n    \
            void;\n};\n",
        )],
        _ => return None,
    })
}

/// Examples of names.
fn names(code: Code) -> Option<Example> {
    Some(match code {
        Code::UndefinedType => &[(
            "a.x",
            "struct point { int x; };\nstruct line { piont ends[2]; };\n",
        )],
        Code::UndefinedConstant => &[("a.x", "const LIMIT = 16;\ntypedef opaque name<LIMTI>;\n")],
        Code::SwappedTypedef => &[("a.x", "typedef propid          uint32;\n")],
        Code::DuplicateDefinition => {
            &[("a.x", "enum color { RED = 1 };\nenum light { RED = 1 };\n")]
        }
        Code::DuplicateField => &[("a.x", "struct point {\n    int x;\n    int x;\n};\n")],
        Code::DuplicateArm => &[(
            "a.x",
            "union result switch (int status) {\ncase 0:\n    int value;\ncase 1:\n    hyper \
            value;\n};\n",
        )],
        Code::DuplicateCase => &[(
            "a.x",
            "enum color { RED = 1, BLUE = 2 };\nunion paint switch (color which) {\n\
             case RED:\n    void;\n\
             case BLUE:\ncase RED:\n    int shade;\n};\n",
        )],
        Code::DuplicateNumber => &[(
            "a.x",
            "program PING_PROG {\n    version PING_VERS {\n        void PING_NULL(void) = \
             0;\n        int PING_BACK(int) = 0;\n    \
             } = 1;\n} = 200000;\n",
        )],
        Code::WrongKind => &[(
            "a.x",
            "enum color { RED = 1 };\nstruct paint { struct color which; };\n",
        )],
        Code::NameClash => &[("a.x", "struct point { int read_count; int readCount; };\n")],
        _ => return None,
    })
}

/// Examples of types and values.
fn values(code: Code) -> Option<Example> {
    Some(match code {
        Code::RecursiveType => &[(
            "a.x",
            "struct tree {\n    int value;\n    branch left;\n};\nstruct branch {\n    tree \
            top;\n};\n",
        )],
        Code::RecursiveConstant => &[("a.x", "const FIRST = LAST;\nconst LAST = FIRST;\n")],
        Code::InvalidDiscriminant => &[(
            "a.x",
            "union result switch (hyper status) {\ncase 0:\n    void;\ndefault:\n    int \
            error;\n};\n",
        )],
        Code::ForeignCase => &[(
            "a.x",
            "enum color { RED = 1, BLUE = 2 };\nenum light { REDD = 1 };\nunion paint switch \
            (color which) {\n\
             case REDD:\n    void;\ndefault:\n    int shade;\n};\n",
        )],
        Code::EmptyUnion => &[(
            "a.x",
            "union result switch (int status) {\ndefault:\n    void;\n};\n",
        )],
        Code::InvalidBound => &[("a.x", "const LIMIT = -1;\ntypedef opaque name<LIMIT>;\n")],
        Code::InvalidNumber => &[(
            "a.x",
            "program PING {\n    version ONE {\n        void NULL(void) = 0;\n    } = 1;\n} = \
            0x100000000;\n",
        )],
        Code::OutOfRange => &[(
            "a.x",
            "enum color {\n    RED = 1,\n    BLUE = 0x80000000\n};\n",
        )],
        _ => return None,
    })
}

/// A program with one procedure.
macro_rules! program {
    ($procedure:literal) => {
        concat!(
            "program CALC {\n    version CALC_V1 {\n        ",
            $procedure,
            "\n    } = 1;\n} = 0x20000001;\n"
        )
    };
}

/// Examples of extensions of RFC 4506.
fn extension(code: Code) -> Option<Example> {
    Some(match code {
        Code::PreludeType => &[("a.x", "struct point { uint32 x; };\n")],
        Code::StructReference => &[(
            "a.x",
            "struct point { int x; };\nstruct line { struct point ends[2]; };\n",
        )],
        Code::TypedConstant => &[("a.x", "const uint32 LIMIT = 16;\n")],
        Code::BareUnsigned => &[("a.x", "struct point { unsigned x; };\n")],
        Code::CInteger => &[("a.x", "struct point { long x; };\n")],
        Code::LineComment => &[("a.x", "const LIMIT = 16; // bytes\n")],
        Code::ImplicitEnumValue => &[("a.x", "enum color {\n    RED = 1,\n    BLUE\n};\n")],
        Code::RepeatedTypedef => &[(
            "a.x",
            "typedef opaque handle<64>;\ntypedef opaque handle<0x40>; /* as above */\n",
        )],
        Code::DiscriminantName => &[(
            "a.x",
            "union result switch (int status) {\ncase 0:\n    void;\ndefault:\n    hyper \
            status;\n};\n",
        )],
        Code::DuplicateEnumValue => &[("a.x", "enum color {\n    RED = 1,\n    BLUE = 1\n};\n")],
        Code::NamedArgument => &[("a.x", program!("int NEGATE(int number) = 1;"))],
        Code::ProcedureDeclarator => &[("a.x", program!("string<> NAME(int) = 1;"))],
        Code::ManyArguments => &[(
            "a.x",
            program!("void SUM(int, int, int, int, int, int, int, int, int) = 1;"),
        )],
        Code::BareString => &[("a.x", "struct person {\n    string name;\n};\n")],
        Code::WideConstant => &[("a.x", "const PRIME = 18446744073709551629;\n")],
        Code::ZeroCopyOpaque => &[("a.x", "struct data {\n    zcopaque bytes<>;\n};\n")],
        Code::Package => &[("a.x", "package points;\nconst LIMIT = 16;\n")],
        Code::Passthrough => &[("a.x", "%#include <rpc/rpc.h>\nconst LIMIT = 16;\n")],
        Code::Preprocessor => &[("a.x", "#include <rpc/rpc.h>\nconst LIMIT = 16;\n")],
        Code::Namespace => &[("a.x", "namespace a {\nconst LIMIT = 16;\n}\n")],
        Code::Pragma => &[("a.x", "pragma header nfs4;\nconst LIMIT = 16;\n")],
        Code::TrailingComma => &[("a.x", "enum color {\n    RED = 1,\n    BLUE = 2,\n};\n")],
        Code::EmptyDeclaration => &[("a.x", "struct point {\n    int x;;\n};\n")],
        Code::EmptyBody => &[("a.x", "struct nothing {\n};\n")],
        Code::MissingArms => &[(
            "a.x",
            "enum color { RED = 1, BLUE = 2 };\nunion paint switch (color which) {\n\
             case RED:\n    void;\n};\n",
        )],
        _ => return None,
    })
}

/// Compiles an example with its lint enabled. Returns the error as the report if the configuration
/// fails.
fn reported(code: Code, files: Example) -> (String, Vec<Code>) {
    let mut folder = Folder::new();
    for (name, content) in files
        .iter()
        .filter(|(name, _)| !name.starts_with("missing"))
    {
        folder = folder.with(name, content);
    }
    let is_document = |name: &str| name.ends_with(".x") || name.ends_with(".txt");
    let mut config = if files.iter().any(|(name, _)| *name == "xdrgen.toml") {
        match Config::from_manifest(folder.path("xdrgen.toml")) {
            Ok(config) => config,
            Err(error) => {
                return (
                    folder.relative(&error.to_string()),
                    vec![Code::Configuration],
                );
            }
        }
    } else {
        let documents = files.iter().filter(|(name, _)| is_document(name));
        Config::new().module(documents.fold(Module::new("a"), |module, (name, _)| {
            module.document(folder.path(name))
        }))
    };
    if files.iter().any(|(name, _)| *name == "errata.toml") {
        config = config.errata(folder.path("errata.toml"));
    }
    if code.default_level() == Some(Level::Allow) {
        config = config.lint(code, Level::Warn).expect("a lint");
    }
    let compilation = if code == Code::ErratumUseless {
        useless_errata(&config)
    } else {
        config.check()
    };
    let codes = compilation
        .diagnostics()
        .iter()
        .map(|found| found.code)
        .collect();
    (folder.relative(&compilation.report(Style::Plain)), codes)
}

#[test]
fn each_code_has_an_example() {
    let without: Vec<&Code> = Code::ALL
        .iter()
        .filter(|code| example(**code).is_none())
        .collect();
    assert!(
        without.is_empty(),
        "add an example to this file for {without:?}"
    );
}

#[test]
fn each_code_is_reported() {
    for code in Code::ALL {
        let Some(files) = example(*code) else {
            continue;
        };
        let (report, codes) = reported(*code, files);
        assert_eq!(codes, [*code], "the example shows nothing else\n{report}");
        insta::assert_snapshot!(code.name(), report);
    }
}

/// Returns the page of all codes: the meaning of each, and its example with the report.
fn page() -> String {
    let mut page = PAGE_HEADER.to_owned();
    for code in Code::ALL {
        let files = example(*code).expect("each code has an example");
        page += &format!("\n## `{code}`\n\n{}\n", code.explanation());
        let level = match code.default_level() {
            None => "It is an error, whose level can't be changed.".to_owned(),
            Some(level) => format!("It is a lint; its default level is `{}`.", level.name()),
        };
        page += &format!("\n{level}\n");
        for (name, content) in files.iter().filter(|(_, content)| !content.is_empty()) {
            let language = match name.rsplit_once('.') {
                Some((_, "x")) => "xdr",
                Some((_, "toml")) => "toml",
                _ => "text",
            };
            page += &format!("\n`{name}`:\n\n```{language}\n{content}```\n");
        }
        let (report, _) = reported(*code, files);
        let report = report.trim_end();
        page += &format!("\nThe report:\n\n```text\n{report}\n```\n");
    }
    page
}

const PAGE_HEADER: &str = "\
# Codes

Each defect that `xdrgen check` reports has a code. An error fails the compilation. A lint has a
level: `allow` (not reported), `warn` or `deny` (an error), which `--allow`, `--warn`, `--deny` and
the table `[lints]` of a manifest set. `xdrgen lints` lists all codes, and `xdrgen lints --explain
CODE` prints a section of this page. The report of a lint that is allowed by default is that with
its level at `warn`.

This page is generated: `XDRGEN_UPDATE=1 cargo test -p xdrgen-build --test diagnostics page` writes
it.
";

/// The page shows the examples of this file and their current reports.
#[test]
fn the_page_of_codes_is_current() {
    const PATH: &str = "../docs/lints.md";
    let page = page();
    if std::env::var_os("XDRGEN_UPDATE").is_some() {
        std::fs::write(PATH, &page).expect(PATH);
    }
    let found = std::fs::read_to_string(PATH).unwrap_or_default();
    let different = page
        .lines()
        .zip(found.lines())
        .find(|(new, old)| new != old);
    assert!(
        found == page,
        "{PATH} is stale ({different:?}): run this test with XDRGEN_UPDATE=1"
    );
}

#[test]
fn names_and_levels_of_codes() {
    for code in Code::ALL {
        assert_eq!(code.name().parse(), Ok(*code));
        assert!(
            code.name()
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '-'),
            "{code}"
        );
        assert!(code.explanation().ends_with('.'), "{code}");
        let lint = code.default_level().is_some();
        assert_eq!(
            Config::new().lint(*code, Level::Warn).is_ok(),
            lint,
            "{code}"
        );
    }
    let error = "consistencies".parse::<Code>().expect_err("no such lint");
    assert_eq!(error.to_string(), "no diagnostic is named `consistencies`");
    let error = Config::new()
        .lint(Code::Syntax, Level::Allow)
        .expect_err("an error");
    assert_eq!(
        error.to_string(),
        "`syntax` is an error, not a lint: its level can't be changed"
    );
}

#[test]
fn each_lint_has_each_level() {
    for code in Code::ALL
        .iter()
        .filter(|code| code.default_level().is_some())
    {
        let Some(files) = example(*code) else {
            continue;
        };
        let with = |level| {
            let module = files.iter().fold(Module::new("a"), |module, (name, text)| {
                module.text(*name, *text)
            });
            Config::new()
                .lint(*code, level)
                .expect("a lint")
                .module(module)
                .check()
        };
        let (allowed, warned, denied) = (with(Level::Allow), with(Level::Warn), with(Level::Deny));
        assert!(allowed.diagnostics().is_empty(), "{code}");
        assert_eq!(warned.diagnostics().len(), 1, "{code}");
        assert!(!warned.has_errors() && warned.generate().is_ok(), "{code}");
        assert!(denied.has_errors() && denied.generate().is_err(), "{code}");
        let level = |compilation: &Compilation| compilation.diagnostics()[0].level;
        assert_eq!(
            (level(&warned), level(&denied)),
            (Level::Warn, Level::Deny),
            "{code}"
        );
        assert!(
            denied
                .report(Style::Plain)
                .starts_with(&format!("error[{code}]: "))
        );
        assert!(
            warned
                .report(Style::Plain)
                .starts_with(&format!("warning[{code}]: "))
        );
    }
}

#[test]
fn json_of_a_draft() {
    let compilation = Config::new()
        .module(Module::new("a").text("draft-a-00.txt", DRAFT))
        .check();
    insta::assert_snapshot!(
        "json",
        report::json(compilation.sources(), compilation.diagnostics())
    );
}

#[test]
fn short_format() {
    let compilation = check("struct a { b c; };\nconst A = 09;\n");
    let lines: Vec<String> = compilation
        .diagnostics()
        .iter()
        .map(|found| report::short(compilation.sources(), found))
        .collect();
    let expected = [
        "a.x:1:12: error[undefined-type]: no type is named `b`",
        "a.x:2:11: error[invalid-token]: `09` is not a number",
    ];
    assert_eq!(lines, expected);
}

/// Checks a text as XDR and as a draft, and renders all diagnostics.
fn check_all_formats(text: &str) -> usize {
    let marked: String = text
        .lines()
        .map(|line| format!("   /// {line}\n"))
        .collect();
    let copied = format!("<CODE BEGINS>\n{text}\n<CODE ENDS>\n/// const A = 1;\n");
    let found = [
        ("a.x", text),
        ("a.txt", text),
        ("b.txt", &*marked),
        ("c.txt", &*copied),
    ]
    .map(|(name, text)| {
        let config = Config::new()
            .lint(Code::ProseName, Level::Warn)
            .expect("a lint");
        render_all(&config.module(Module::new("a").text(name, text)).check())
    });
    found.iter().sum()
}

fn render_all(compilation: &Compilation) -> usize {
    let (sources, found): (_, Vec<Diagnostic>) =
        (compilation.sources(), compilation.diagnostics().to_vec());
    assert_eq!(report::json(sources, &found).lines().count(), found.len());
    assert_eq!(
        compilation.report(Style::Plain).is_empty(),
        found.is_empty()
    );
    let _ = compilation.generate();
    found.len()
}

#[test]
fn unusual_texts() {
    for text in [
        "",
        "\n",
        "\r\n\r\n",
        "/* only a comment */",
        "/* only */ // comments\n%and lines\n#for others\n",
        "\u{feff}",
        "\u{feff}const A = 1;",
        "const\tA\t=\t1;\r\n\tstruct\ta {\r\n\t\tb\tc;\r\n\t};\r\n",
        "\u{0}\u{0}const A\u{0} = 1;\u{0}",
        "struct \u{e9} { int \u{1f980}; };",
        "const A = 1;\u{c}\nconst B = \u{2028}2;",
        "const A = 1",
        "/*",
        "*/",
        "\"",
        "'",
        "-",
        "0x",
        "struct a { b c; }; \u{301}",
        "const A = 99999999999999999999999999999999999999999999999999;",
        "union a switch (int b) { case 1: case 1: case",
        "typedef opaque a<4294967295>; struct b { a c[4294967295]; };",
        "typedef opaque a[4294967295]; typedef a b[4294967295]; typedef b c[4294967295];",
        "typedef a a; typedef b c; typedef c b; struct d { d e[d]; };",
        "<CODE BEGINS>\n<CODE BEGINS>\n/// <CODE ENDS>\n<CODE ENDS>\n///\n////////\n/// @@FILE x\n",
    ] {
        check_all_formats(text);
        check_all_formats(&text.replace('\n', "\r\n"));
        check_all_formats(&text.replace('\n', "\r"));
    }
}

#[test]
fn line_ends_of_other_systems() {
    let xdr = "struct a {\n\tint b;\n\tc d;\n};\n";
    let places = |text: &str| {
        let compilation = check(text);
        let found = compilation.diagnostics().iter();
        found
            .map(|found| report::short(compilation.sources(), found))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        places(xdr),
        ["a.x:3:2: error[undefined-type]: no type is named `c`"]
    );
    assert_eq!(places(&xdr.replace('\n', "\r\n")), places(xdr));
}

#[test]
fn invalid_utf_8() {
    let folder = Folder::new()
        .with("a.x", b"/* \xe9\xff */\nstruct a { none b; };\n")
        .with("b.txt", b"\xe9\xff\n   /// const A = none;\n \xfe\n")
        .with("c.x", [0xff; 1000]);
    let check = |name: &str| {
        Config::new()
            .module(Module::new("a").document(folder.path(name)))
            .check()
    };
    let lines = |compilation: &Compilation| {
        let found = compilation.diagnostics().iter();
        found
            .map(|found| {
                compilation
                    .sources()
                    .locate(found.span.expect("a span"))
                    .line
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&check("a.x")), [2]);
    assert_eq!(lines(&check("b.txt")), [2]);
    assert!(render_all(&check("c.x")) > 0);
}

#[test]
fn long_texts() {
    let line = "?!$ garbage )( 1 2 3 @@@ lorem { ipsum;\n";
    // Ten megabytes without XDR.
    let compilation = Config::new()
        .module(Module::new("a").text("a.txt", line.repeat(10_000_000 / line.len())))
        .check();
    assert_eq!(render_all(&compilation), 1);
    let comment = format!(
        "/*\n{}*/\nconst A = none;\n",
        line.repeat(10_000_000 / line.len())
    );
    assert_eq!(render_all(&check(&comment)), 1);
    // Many lines, each with defects.
    let text = line.repeat(5_000);
    assert!(check(&text).diagnostics().len() >= 5_000);
    let marked = format!("/// {line}").repeat(5_000);
    let count = |marked: String| {
        let module = Module::new("a").text("a.txt", marked);
        Config::new().module(module).check().diagnostics().len()
    };
    assert!(count(format!("/// const A = 1;\n{marked}")) >= 5_000);
    // A text without a definition is another language.
    assert_eq!(count(marked), 1);
    assert_eq!(check(&"x".repeat(5_000_000)).diagnostics().len(), 1);
    check(&"{".repeat(100_000));
    check(&"struct a { ".repeat(20_000));
    check(&"union a switch (int b) { case 1: ".repeat(20_000));
}

/// Concatenates numbered items.
fn chain(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect()
}

#[test]
fn long_chains() {
    const LINKS: usize = 100_000;
    const LESS: usize = 20_000;
    let constants = chain(LINKS, |at| format!("const C{} = C{at};\n", at + 1));
    assert!(
        check(&format!("{constants}const C0 = 1;\n"))
            .diagnostics()
            .is_empty()
    );
    let typedefs = chain(LINKS, |at| format!("typedef t{at} t{};\n", at + 1));
    assert!(
        check(&format!("{typedefs}typedef int t0;\n"))
            .diagnostics()
            .is_empty()
    );
    for reversed in [false, true] {
        let order = |at: usize| if reversed { LESS - 1 - at } else { at };
        let constants = chain(LESS, |at| {
            format!("const C{} = C{};\n", order(at) + 1, order(at))
        });
        assert!(
            check(&format!("{constants}const C0 = 1;\n"))
                .diagnostics()
                .is_empty()
        );
        let typedefs = chain(LESS, |at| {
            format!("typedef t{} t{};\n", order(at), order(at) + 1)
        });
        assert!(
            check(&format!("{typedefs}typedef int t0;\n"))
                .diagnostics()
                .is_empty()
        );
    }
    let structs = chain(LESS, |at| format!("struct s{} {{ s{at} a; }};\n", at + 1));
    assert!(
        check(&format!("{structs}struct s0 {{ int b; }};\n"))
            .diagnostics()
            .is_empty()
    );
    // Chains that end in a cycle or in an undefined name.
    let circle = chain(LESS, |at| format!("const C{at} = C{};\n", (at + 1) % LESS));
    assert_eq!(check(&circle).diagnostics().len(), 1);
    let circle = chain(LESS, |at| {
        format!("struct s{at} {{ s{} a; }};\n", (at + 1) % LESS)
    });
    assert_eq!(check(&circle).diagnostics().len(), 1);
    let undefined = chain(5_000, |at| format!("typedef none{at} t{at};\n"));
    assert_eq!(check(&undefined).diagnostics().len(), 5_000);
}

#[test]
fn wide_definitions() {
    let members = chain(30_000, |at| format!("M{at} = {at},\n"));
    assert!(
        check_with(
            &format!("enum e {{ {members} LAST = -1 }};"),
            Code::MissingArms,
            Level::Warn
        )
        .diagnostics()
        .is_empty()
    );
    let fields = chain(30_000, |at| format!("int f{at};\n"));
    assert!(
        check(&format!("struct s {{ {fields} }};"))
            .diagnostics()
            .is_empty()
    );
    let arms = chain(30_000, |at| format!("case {at}: int a{at};\n"));
    assert!(
        check(&format!("union u switch (int d) {{ {arms} }};"))
            .diagnostics()
            .is_empty()
    );
}

#[test]
fn undefined_name_notes_the_hiding_comment() {
    let xdr =
        "enum e {\n    A = 1, /* first\n    B = 2, /* second */\n    C = 3\n};\nconst D = B;\n";
    let checked = check(xdr);
    let list: Vec<_> = checked.diagnostics().iter().collect();
    let [nested, undefined] = list[..] else {
        panic!("{}", checked.report(Style::Plain));
    };
    let place = |span| checked.sources().locate(span).to_string();
    assert_eq!(nested.code, Code::NestedComment);
    assert_eq!(nested.span.map(place).as_deref(), Some("a.x:3:12"));
    assert_eq!(undefined.code, Code::UndefinedConstant);
    let note = &undefined.notes[0];
    assert_eq!(note.span.map(place).as_deref(), Some("a.x:2:12"));
    assert_eq!(note.message, "this comment contains `B`");
}

#[test]
fn pattern_in_a_comment_opens_no_comment() {
    for comment in ["/* src/* */", "/*/* */", "/****/", "/* http://a/*.x */"] {
        assert!(
            check(&format!("{comment}\nconst A = 1;\n"))
                .diagnostics()
                .is_empty()
        );
    }
}

/// The report of an undefined name shows the includes that may define it, except those of an
/// inactive branch, and unless a comment hides the definition.
#[test]
fn includes_that_may_define_a_name() {
    let compilation = check(
        "%#include \"types.h\"\n#ifdef NEVER\n#include \"never.h\"\n#endif\n# include <sizes.x>\n\
         /* first\nconst HIDDEN = 3; /* second */\n\
         struct user { hostaddr address; opaque id[ID_SIZE]; int more[HIDDEN]; };\n",
    );
    insta::assert_snapshot!(errors(&compilation));
}

/// Returns the report of the errors alone.
fn errors(compilation: &Compilation) -> String {
    let report = compilation.report(Style::Plain);
    let errors = report
        .split("\n\n")
        .filter(|found| found.starts_with("error"));
    errors.collect::<Vec<_>>().join("\n\n")
}
