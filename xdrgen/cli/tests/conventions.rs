//! Tests the common behaviour of commands: JSON, `-v`, completions, manual pages, and output
//! errors.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdrgen"));
    command.args(arguments).current_dir(folder);
    command
}

fn xdrgen(arguments: &[&str]) -> Output {
    command(Path::new(WORKSPACE), arguments).output().unwrap()
}

/// Returns the JSON lines that a successful command prints.
fn json(arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = xdrgen(arguments);
    assert!(output.status.success(), "{output:?}");
    let lines = str::from_utf8(&output.stdout).unwrap().lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn lists_print_json_lines() {
    let lints = json(&["lints", "--format", "json"]);
    let lint = lints
        .iter()
        .find(|lint| lint["name"] == "consistency")
        .unwrap();
    assert_eq!(lint["level"], "warn");
    let types = json(&["decode", "--list", "--format", "json"]);
    let body = types.iter().find(|one| one["rust"] == "v2::Body").unwrap();
    assert_eq!(
        (&body["name"], &body["kind"]),
        (&"v2::rpcrdma2_body".into(), &"union".into())
    );
}

#[test]
fn verbose_names_files_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.x"), "typedef int number;\n").unwrap();
    let run = |arguments: &[&str]| {
        let output = command(folder.path(), arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(run(&["generate", "a.x", "-o", "quiet"]), "");
    let said = run(&["-v", "generate", "a.x", "-o", "out"]);
    assert!(said.contains("read a.x: 1 lines\n"), "{said}");
    assert!(
        said.ends_with("wrote out/a.owned.rs\nwrote out/xdrgen.rs\n"),
        "{said}"
    );
    assert!(run(&["check", "a.x", "--verbose"]).contains("read a.x: 1 lines\n"));
}

#[test]
fn help_fails_on_a_full_disk() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        return;
    };
    for arguments in [&["--help"][..], &["lints"], &["completions", "bash"]] {
        let mut command = command(Path::new(WORKSPACE), arguments);
        let output = command.stdout(full.try_clone().unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert!(
            command.stdout(writer).status().unwrap().success(),
            "{arguments:?}"
        );
    }
}
