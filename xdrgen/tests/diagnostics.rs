//! Tests the output for users: a snapshot for each code, the levels, JSON, and that no input causes
//! a panic.

mod common;
#[path = "diagnostics/examples.rs"]
mod examples;
#[path = "diagnostics/robustness.rs"]
mod robustness;

use common::{Folder, check, check_with};
use examples::{DRAFT, Example, example};
use xdrgen_build::{
    Code, Compilation, Config, Diagnostic, Level, Module, Style, report, useless_errata,
};

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

/// Divides a sentence into lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let (mut wrapped, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let width = word.chars().count();
        if column + 1 + width > 100 {
            wrapped.push('\n');
            column = 0;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped += word;
        column += width;
    }
    wrapped
}

/// Returns the page of all codes: the meaning of each, and its example with the report.
fn page() -> String {
    let mut page = PAGE_HEADER.to_owned();
    for code in Code::ALL {
        let files = example(*code).expect("each code has an example");
        page += &format!("\n## `{code}`\n\n{}\n", wrapped(code.explanation()));
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
        let folder = files.iter().fold(Folder::new(), |folder, (name, text)| {
            folder.with(name, text)
        });
        let config = if files.iter().any(|(name, _)| *name == "xdrgen.toml") {
            Config::from_manifest(folder.path("xdrgen.toml")).expect("a manifest")
        } else {
            Config::new().module(files.iter().fold(Module::new("a"), |module, (name, text)| {
                module.text(*name, *text)
            }))
        };
        let with = |level| config.clone().lint(*code, level).expect("a lint").check();
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
