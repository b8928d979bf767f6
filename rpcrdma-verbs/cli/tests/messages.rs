//! The messages about mistakes on the command line, and about addresses that are in use.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::process::Command;

/// Runs a command that fails, and returns its errors.
fn refused(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rpcrdma"));
    let command = command.args(arguments).env_remove("RUST_LOG");
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_server_without_a_file_system_names_each_kind() {
    let error = refused(&["nfs", "serve"]);
    for kind in ["DIR", "--memory", "--config <FILE>"] {
        assert!(error.contains(kind), "{kind}: {error}");
    }
}

#[test]
fn a_value_without_its_equals_sign_gets_a_hint() {
    for (arguments, hint) in [
        (
            &["nfs", "serve", "--memory", "--rdma", "7250"][..],
            "--rdma=7250",
        ),
        (&["nfs", "serve", "--rdma", "7250"], "--rdma=7250"),
        (&["nfs", "serve", "--rdma", "7250", "/usr"], "--rdma=7250"),
        (&["nfs", "ls", "--rdma", "7250", "server:/"], "--rdma=7250"),
        (
            &["serve", "--metrics", "127.0.0.1:7250"],
            "--metrics=127.0.0.1:7250",
        ),
    ] {
        let error = refused(arguments);
        assert!(error.contains(hint), "{arguments:?}: {error}");
    }
    for arguments in [
        &["nfs", "serve", "--memory", "--rdma", "/nosuch"][..],
        &["nfs", "serve", "--rdma", "/nosuch"],
        &["nfs", "serve", "--rdma", "--memory", "nosuch"],
    ] {
        let error = refused(arguments);
        assert!(!error.contains("--rdma="), "{arguments:?}: {error}");
    }
}

#[test]
fn an_address_in_use_is_reported_once() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let option = |name: &str| format!("--{name}={address}");
    let nfs = ["nfs", "serve", "--memory"];
    for (command, option) in [
        (&nfs[..], option("tcp")),
        (&[&nfs[..], &["--tcp=127.0.0.1:0"]].concat(), option("rdma")),
        (&nfs, option("metrics")),
        (&["serve"], option("bind")),
        (&["serve"], option("metrics")),
    ] {
        let error = refused(&[command, &[&option]].concat());
        assert_eq!(error.matches("in use").count(), 1, "{option}: {error}");
        assert_eq!(error.matches(&address).count(), 1, "{option}: {error}");
        assert_eq!(error.lines().count(), 1, "{option}: {error}");
    }
}

#[test]
fn a_server_that_does_not_listen_is_named_once() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let address = free.unwrap();
    let port = address.port().to_string();
    let error = refused(&["nfs", "ls", "127.0.0.1:/", "--tcp", &port]);
    assert_eq!(error.matches(&address.to_string()).count(), 1, "{error}");
}
