//! Tests that incorrect uses of generated types do not compile: each case in `cases/` is an example
//! that fails with the errors of its snapshot. The wording of rustc changes between releases:
//! `INSTA_UPDATE=always` accepts it, and the difference is reviewed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Returns the names of the cases.
fn cases() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let files = fs::read_dir(folder).unwrap();
    let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<String> = files.map(|file| stem(&file.unwrap().path())).collect();
    names.sort();
    names
}

/// Returns a line for an error: its position in the case, its code, its message and its label. Only
/// the last message of rustc, which counts the errors, has no position.
fn line(message: &Value) -> Option<String> {
    let spans = message["spans"].as_array().unwrap();
    let mut span = spans.iter().find(|span| span["is_primary"] == true)?;
    // An error in a macro of another file is where the case uses the macro.
    while !span["expansion"].is_null() {
        span = &span["expansion"]["span"];
    }
    let (line, column) = (&span["line_start"], &span["column_start"]);
    let code = message["code"]["code"].as_str().unwrap_or("none");
    let text = message["message"].as_str().unwrap();
    let label = span["label"].as_str();
    let label = label.map_or_else(String::new, |label| format!("; {label}"));
    Some(format!("{line}:{column} {code}: {text}{label}\n"))
}

/// All cases are built by one command, with the features that the tests of the workspace have, so
/// that cargo builds no dependency again.
#[test]
fn misuse_does_not_compile() {
    let cases = cases();
    assert!(!cases.is_empty());
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--workspace", "--keep-going", "--offline"]);
    cargo.args(["--features", "xdrgen-compile-fail/cases"]);
    cargo.arg("--message-format=json");
    for case in &cases {
        cargo.args(["--example", case]);
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let output = String::from_utf8(output.stdout).unwrap();
    let mut errors: BTreeMap<&str, String> = BTreeMap::new();
    let messages: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for message in &messages {
        let target = message["target"]["name"].as_str().unwrap_or_default();
        if message["reason"] == "compiler-message" && message["message"]["level"] == "error" {
            let line = line(&message["message"]).unwrap_or_default();
            errors.entry(target).or_default().push_str(&line);
        }
    }
    for case in &cases {
        let errors = errors.get(case.as_str());
        let errors = errors.unwrap_or_else(|| panic!("{case} compiles:\n{log}"));
        insta::assert_snapshot!(case.as_str(), errors);
    }
}
