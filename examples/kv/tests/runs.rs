//! Runs the example.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn the_example_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_kv")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "the same service, over TCP and over RDMA\n");
}
