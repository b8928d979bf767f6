//! The manners that all subcommands share: closed pipes, full disks, JSON, completions and manual
//! pages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../tests/manners/mod.rs"]
mod manners;

use std::fs;

use manners::{Entry, Manners, Printed};

const HIDDEN: [&str; 2] = ["completions", "man"];

/// A document with a lint, and one that has another name for its type.
const DOCUMENTS: [(&str, &str); 2] = [
    ("a.x", "struct point {\n\tint x;;\n};\n"),
    ("b.x", "struct place {\n\tint x;\n};\n"),
];

/// Returns what an editor sends that starts the server and ends it.
fn editor() -> Vec<u8> {
    let messages = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"shutdown"}"#,
        r#"{"jsonrpc":"2.0","method":"exit"}"#,
    ];
    let framed = messages.map(|text| format!("Content-Length: {}\r\n\r\n{text}", text.len()));
    framed.concat().into_bytes()
}

fn entries() -> Vec<Entry> {
    const JSON: Printed = Printed::TextOrJson(&["--format", "json"]);
    let point = ["--schema", "a.x", "--type", "point", "--hex"];
    vec![
        Entry::new("extract", &["a.x"], Printed::Format),
        Entry::new("check", &["a.x"], JSON),
        Entry::new("generate", &["a.x", "-o", "out"], Printed::Nothing),
        Entry::new("decode", &point, JSON).input(b"00 00 00 07"),
        Entry::new("diff", &["a.x", "b.x"], JSON),
        Entry::new("lsp", &[], Printed::Format).input(&editor()),
        Entry::new("fmt", &["b.x"], Printed::Nothing),
        Entry::new("lints", &[], JSON),
        Entry::new("completions", &["bash"], Printed::Format),
        Entry::new("man", &["pages"], Printed::Nothing),
    ]
}

/// Runs a test with the table and the documents that it needs.
fn with_manners(test: impl FnOnce(&Manners<'_>)) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in DOCUMENTS {
        fs::write(folder.path().join(name), text).unwrap();
    }
    test(&Manners {
        program: env!("CARGO_BIN_EXE_xdrgen"),
        folder: folder.path(),
        entries: entries(),
    });
}

#[test]
fn every_subcommand_is_tested() {
    with_manners(|manners| manners.assert_complete(&HIDDEN));
}

#[test]
fn wrong_arguments_exit_with_2() {
    with_manners(|manners| manners.assert_usage());
}

#[test]
fn closed_pipes_are_successes_and_full_disks_failures() {
    with_manners(|manners| manners.assert_output());
}

#[test]
fn output_is_also_json() {
    with_manners(|manners| manners.assert_json());
}

#[test]
fn shells_accept_completions() {
    with_manners(|manners| manners.assert_completions(&["errata"]));
}

#[test]
fn manual_pages_are_valid() {
    with_manners(|manners| manners.assert_pages());
}
