//! Tests `xdrgen check`: its machine-readable formats, filters, and fixes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// An error and a warning, each with a fix.
const BROKEN: &str = "struct point { int x; };\nstruct line {\n    piont ends[2];;\n};\n";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// Returns the exit code, the output and the errors of `xdrgen check`.
fn check(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdrgen"));
    command.arg("check").args(arguments).current_dir(folder);
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    (output.status.code().unwrap(), out, err)
}

fn sarif(folder: &Path, file: &str) -> Value {
    let (_, out, err) = check(folder, &[file, "--format", "sarif"]);
    assert_eq!((out.lines().count(), err.as_str()), (1, ""));
    serde_json::from_str(&out).unwrap()
}

/// A position as in SARIF 2.1.0, section 3.30.
fn region(line: u32, column: u32, end_column: u32) -> Value {
    json!({ "startLine": line, "startColumn": column, "endLine": line, "endColumn": end_column })
}

#[test]
fn prints_sarif() {
    let files = folder(&[("a b.x", BROKEN), ("clean.x", "struct a { int b; };\n")]);
    let log = sarif(files.path(), "a b.x");
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "xdrgen");
    let rules = driver["rules"].as_array().unwrap();
    assert_eq!(rules.len(), xdrgen_build::Code::ALL.len());
    let rule = rules.iter().find(|one| one["id"] == "unspaced-marker");
    assert_eq!(rule.unwrap()["defaultConfiguration"]["level"], "none");
    let results = run["results"].as_array().unwrap();
    let codes: Vec<_> = results.iter().map(|one| &one["ruleId"]).collect();
    assert_eq!(codes, ["undefined-type", "empty-declaration"]);
    let error = &results[0];
    assert_eq!(error["level"], "error");
    assert_eq!(error["message"]["text"], "no type is named `piont`");
    let place = &error["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "a%20b.x");
    assert_eq!(place["region"], region(3, 5, 10));
    let change = &error["fixes"][0]["artifactChanges"][0];
    assert_eq!(change["artifactLocation"]["uri"], "a%20b.x");
    let replacement = json!({
        "deletedRegion": region(3, 5, 10),
        "insertedContent": { "text": "point" },
    });
    assert_eq!(change["replacements"][0], replacement);
    // A log without results means that nothing was found.
    assert_eq!(
        sarif(files.path(), "clean.x")["runs"][0]["results"],
        json!([])
    );
}

#[test]
fn prints_github_annotations() {
    let files = folder(&[("a,b.x", BROKEN)]);
    let (code, out, _) = check(files.path(), &["a,b.x", "--format", "github"]);
    assert_eq!(code, 1);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    let error = "::error file=a%2Cb.x,line=3,endLine=3,col=5,endColumn=10,\
                 title=xdrgen(undefined-type)::no type is named `piont`%0A";
    assert!(lines[0].starts_with(error), "{out}");
    assert!(lines[0].ends_with(": `point`"), "{out}");
    assert!(
        lines[1].starts_with("::warning file=a%2Cb.x,line=3,"),
        "{out}"
    );
}

#[test]
fn prints_short_reports() {
    let broken = "struct a { b c;; };\nstruct d { e f; };\nstruct g { h i; };\n";
    let files = folder(&[("a.x", broken), ("warned.x", "struct a { int b;; };\n")]);
    let short = |more: &[&str]| {
        let arguments = [&["a.x", "--format", "short"], more].concat();
        let (code, out, _) = check(files.path(), &arguments);
        assert_eq!(code, 1, "what is left out counts");
        out.lines().count()
    };
    assert_eq!(short(&[]), 4);
    assert_eq!(short(&["--quiet"]), 3);
    assert_eq!(short(&["--max-errors", "2"]), 3);
    assert_eq!(short(&["--quiet", "--max-errors", "0"]), 0);
    let (_, out, _) = check(files.path(), &["a.x", "--max-errors=1"]);
    assert!(
        out.ends_with("\n3 errors, 1 warning (2 errors not shown)\n"),
        "{out}"
    );
    assert_eq!(
        check(files.path(), &["warned.x", "-q"]),
        (0, String::new(), String::new())
    );
}

/// Each command folds and limits its report as `check` does.
#[test]
fn all_commands_report_as_check_does() {
    let uses: String = (0..3).map(|at| format!("typedef lost a{at};\n")).collect();
    let other: String = (0..30)
        .map(|at| format!("typedef none_{at} b{at};\n"))
        .collect();
    let files = folder(&[("a.x", &(uses + &other))]);
    let (_, expected, _) = check(files.path(), &["a.x"]);
    assert!(
        expected.ends_with("\n33 errors, 0 warnings (13 errors not shown)\n"),
        "{expected}"
    );
    for arguments in [
        &["generate", "a.x", "-o", "out"][..],
        &["generate", "--wireshark", "a0", "a.x", "-o", "out"],
        &["decode", "--schema", "a.x", "--type", "a0", "a.x"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xdrgen"));
        let output = command.args(arguments).current_dir(files.path()).output();
        let report = String::from_utf8(output.unwrap().stderr).unwrap();
        assert_eq!(report, expected, "{arguments:?}");
    }
}

#[test]
fn fixes_are_applied() {
    let files = folder(&[("a.x", BROKEN), ("clean.x", "struct a { int b; };\n")]);
    let path = files.path().join("a.x");
    let (code, out, err) = check(files.path(), &["a.x", "--fix"]);
    assert_eq!((code, err.as_str()), (0, "a.x: 2 fixes\n"), "{out}");
    assert_eq!(out, "1 document: no defects\n");
    let fixed = "struct point { int x; };\nstruct line {\n    point ends[2];\n};\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), fixed);
    // Nothing is left to fix, and no temporary file remains.
    assert_eq!(
        check(files.path(), &["a.x", "--fix"]),
        (0, out, String::new())
    );
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 2);
}

/// Fixes change a draft within its `///` lines. Lines that an erratum changes are left as
/// published.
#[test]
fn fixes_apply_to_drafts() {
    let draft = "1.  XDR\n\n   /// struct point { int x; };\n   /// struct line {\n   ///   piont \
                 a;\n   \
                 ///   pint b;\n   /// };\n";
    let errata = "[[erratum]]\ndocument = \"a.txt\"\nline = 6\nold = \"pint b\"\nnew = \"poin b\"\n\
                  reason = \"a trial\"\n";
    let files = folder(&[("a.txt", draft), ("errata.toml", errata)]);
    let arguments = [
        "a.txt",
        "--errata",
        "errata.toml",
        "--fix",
        "--format",
        "short",
    ];
    let (code, out, err) = check(files.path(), &arguments);
    assert_eq!((code, err.as_str()), (1, "a.txt: 1 fix\n"), "{out}");
    let fixed = draft.replace("piont", "point");
    assert_eq!(
        fs::read_to_string(files.path().join("a.txt")).unwrap(),
        fixed
    );
    assert!(out.starts_with("a.txt:6:"), "{out}");
}

/// The XDR of `x.h` is `x.x`, beside the document and then in each folder of `--include`.
#[test]
fn finds_includes_beside_the_document_and_in_folders() {
    for include in ["#include \"x.h\"", "%#include \"x.h\"", "%#include <x.x>"] {
        let text = format!("{include}\nstruct user {{ near n; }};\n");
        let files = folder(&[("a.x", &text)]);
        fs::create_dir(files.path().join("dir")).unwrap();
        let dir = files.path().join("dir/x.x");
        fs::write(&dir, "struct near { int a; };\n").unwrap();

        let (code, report, _) = check(files.path(), &["a.x"]);
        assert_eq!(code, 1, "{report}");
        for part in [
            "error[undefined-type]: no type is named `near`",
            "note: `near` may come from this file\n --> a.x:1:1\n",
            include,
            "`--include DIR`",
        ] {
            assert!(report.contains(part), "{part}: {report}");
        }
        let other = files.path().join("other");
        fs::create_dir(&other).unwrap();
        let folders = ["a.x", "--include", "other", "--include", "dir"];
        let (code, report, _) = check(files.path(), &folders);
        assert_eq!(code, 0, "{report}");
        // The first folder that has the file supplies it.
        fs::write(other.join("x.x"), "struct far { int a; };\n").unwrap();
        let (code, report, _) = check(files.path(), &folders);
        assert_eq!(code, 1, "{report}");
        assert!(report.contains("no type is named `near`"), "{report}");
        // The document's own folder comes first.
        fs::copy(&dir, files.path().join("x.x")).unwrap();
        let (code, report, _) = check(files.path(), &folders);
        assert_eq!(code, 0, "{report}");
    }
}
