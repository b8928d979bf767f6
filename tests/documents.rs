//! Tests the form of the documents: lines have at most 100 columns, and the page of the
//! architecture stays short.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// Returns the committed documents: their paths and texts.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut git = Command::new("git");
    let output = git.args(["ls-files", "*.md"]).current_dir(root).output();
    let paths = String::from_utf8(output.unwrap().stdout).unwrap();
    let read = |path: &str| {
        (
            path.to_owned(),
            std::fs::read_to_string(root.join(path)).unwrap(),
        )
    };
    paths.lines().map(read).collect()
}

/// Code keeps its lines, and a row of a table is one line.
#[test]
fn lines_have_at_most_100_columns() {
    let documents = documents();
    assert!(documents.iter().any(|(path, _)| path == "README.md"));
    let mut long = Vec::new();
    for (path, text) in &documents {
        let mut is_code = false;
        for (index, line) in text.lines().enumerate() {
            let start = line.trim_start();
            is_code ^= start.starts_with("```");
            if !is_code && !start.starts_with('|') && line.chars().count() > 100 {
                long.push(format!("{path}:{}", index + 1));
            }
        }
    }
    assert!(long.is_empty(), "longer than 100 columns: {long:#?}");
}

#[test]
fn the_page_of_the_architecture_has_at_most_300_lines() {
    let documents = documents();
    let page = documents
        .iter()
        .find(|(path, _)| path == "docs/architecture.md");
    let lines = page.unwrap().1.lines().count();
    assert!(lines <= 300, "{lines} lines");
}
