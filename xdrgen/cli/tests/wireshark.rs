//! Tests `xdrgen generate --wireshark`: its output, and invalid arguments.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

fn generate(output: &Path, arguments: &[&str]) -> Output {
    let drafts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec");
    Command::new(env!("CARGO_BIN_EXE_xdrgen"))
        .arg("generate")
        .arg(drafts)
        .arg("-o")
        .arg(output)
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn writes_a_dissector_instead_of_rust() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--wireshark",
        "rpcrdma2_xprt_hdr",
        "--protocol",
        "rpcrdma2",
        "--expect",
        "rdma_vers=2",
    ];
    let output = generate(folder.path(), &arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let files = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["rpcrdma2.lua"]);
    let lua = std::fs::read_to_string(folder.path().join("rpcrdma2.lua")).unwrap();
    assert!(lua.contains("\"rpcrdma2.rpcrdma2_segment.rdma_handle\""));
    assert!(lua.contains("\"v2::properties\",\n"));
}

/// `-v` names a file as written only if it was.
#[test]
fn an_unchanged_dissector_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rpcrdma2_xprt_hdr.lua");
    let said = || {
        let arguments = ["--wireshark", "rpcrdma2_xprt_hdr", "-v"];
        let output = generate(folder.path(), &arguments);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        said.lines().last().unwrap().to_owned()
    };
    let modified = || path.metadata().unwrap().modified().unwrap();
    let wrote = format!("wrote {}", path.display());
    assert_eq!(said(), wrote);
    let first = modified();
    assert_eq!(said(), format!("unchanged: {}", path.display()));
    assert_eq!(modified(), first);
    std::fs::write(&path, "other").unwrap();
    assert_eq!(said(), wrote);
}

#[test]
fn rejects_invalid_dissector_arguments() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, message) in [
        (&["--wireshark", "rpcrdma2_proc"][..], "is not a struct"),
        (&["--wireshark", "rpcrdma2_xprt"], "no type is named"),
        (
            &[
                "--wireshark",
                "rpcrdma2_xprt_hdr",
                "--expect",
                "rdma_body=1",
            ],
            "has no field `rdma_body`",
        ),
        (&["--protocol", "rpcrdma2"], "--wireshark"),
        (&["--wireshark", "a", "--expect", "b"], "there is no `=`"),
    ] {
        let output = generate(folder.path(), arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}
