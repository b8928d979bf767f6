//! Tests the positions of defects in a manifest.

mod common;

use common::Folder;
use xdrgen_build::{Config, Style};

const XDR: &str = "enum op { OP_GET = 1 };\n\
                   struct c { unsigned int k; opaque d<>; };\n\
                   const ONE = 1;\n\
                   program P { version V { c GET(c) = 1; } = 1; } = 2;\n";

/// The start of a manifest with one module.
const MODULE: &str = "[[module]]\npath = \"a\"\ndocuments = [\"a.x\"]\n";

/// Returns the report of a manifest beside [`XDR`], and its lines that have positions. Asserts that
/// the manifest is an error.
#[track_caller]
fn rejected(manifest: &str) -> (String, Vec<String>) {
    let folder = Folder::new().with("a.x", XDR).with("xdrgen.toml", manifest);
    let report = match Config::from_manifest(folder.path("xdrgen.toml")) {
        Err(error) => error.to_string(),
        Ok(config) => {
            let compilation = config.check();
            assert!(compilation.generate().is_err(), "{manifest}");
            compilation.report(Style::Plain)
        }
    };
    let report = folder.relative(&report);
    let places = report
        .lines()
        .filter_map(|line| line.trim().strip_prefix("--> "));
    let places = places.map(str::to_owned).collect();
    (report, places)
}

/// Asserts that the only error of a manifest is at a position, whichever line ends it has.
#[track_caller]
fn rejected_at(manifest: &str, place: &str, message: &str) {
    for manifest in [manifest.to_owned(), manifest.replace('\n', "\r\n")] {
        let (report, places) = rejected(&manifest);
        assert_eq!(
            places,
            [format!("xdrgen.toml:{place}")],
            "{manifest}\n{report}"
        );
        assert!(report.contains(message), "{report}");
    }
}

/// A line end is one byte of the text that positions refer to, whichever the file has.
#[test]
fn positions_do_not_depend_on_line_ends() {
    rejected_at(
        &format!("{MODULE}shape = 1\n"),
        "4:1",
        "unknown field `shape`",
    );
    rejected_at(&format!("\n{MODULE}uses = [\n"), "5:9", "");
    rejected_at(
        "\n\n[lints]\nsyntax = \"warn\"\n",
        "4:1",
        "`syntax` is an error, not a lint",
    );
    rejected_at(
        &format!("# a\n# b\n{MODULE}ddp = [\"c.d\", \"c.e\"]\n"),
        "6:16",
        "`c` has no field or arm `e`",
    );
}

/// The name of a lint may be part of another name.
#[test]
fn a_lint_is_reported_at_its_key() {
    let comment = "# Not `name-lint`, and not syntax.\n";
    rejected_at(
        &format!("{comment}prelude = []\n[lints]\n\"name-lint\" = \"deny\"\n"),
        "4:2",
        "no diagnostic is named `name-lint`",
    );
    rejected_at(
        &format!("{comment}[lints]\ntext-syntax = \"deny\"\nsyntax = \"deny\"\n"),
        "4:1",
        "`syntax` is an error, not a lint",
    );
    // The first defect is reported.
    rejected_at(
        "[lints]\nb = \"deny\"\na = \"deny\"\n",
        "2:1",
        "no diagnostic is named `b`",
    );
}
