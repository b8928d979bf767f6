//! Tests the server and the client as their users run them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// A server on ports of its own.
struct Server {
    process: Child,
    output: BufReader<ChildStdout>,
    rdma: String,
    tcp: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_kv-server"))
            .args(["--rdma", "127.0.0.1:0", "--tcp", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let line = read_line(&mut output);
        let addresses = line.strip_prefix("serving over RDMA at ").unwrap();
        let (rdma, tcp) = addresses.split_once(" on iwarp, over TCP at ").unwrap();
        Self {
            process,
            output,
            rdma: rdma.to_owned(),
            tcp: tcp.to_owned(),
        }
    }

    /// Runs the client over a transport, with an input.
    fn client(&self, transport: &str, arguments: &[&str], input: &[u8]) -> Output {
        let server = if transport == "tcp" {
            &self.tcp
        } else {
            &self.rdma
        };
        let mut process = Command::new(env!("CARGO_BIN_EXE_kv-client"))
            .args(["--transport", transport, "--server", server])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A client that does not read its input may end before it is written.
        let _ = process.stdin.take().unwrap().write_all(input);
        process.wait_with_output().unwrap()
    }

    /// Ends the server with a signal, and returns its output.
    fn end(mut self, signal: &str) -> String {
        let id = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(read_line(&mut self.output), "draining");
        let counts = read_line(&mut self.output);
        assert!(self.process.wait().unwrap().success());
        counts
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read_line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[track_caller]
fn assert_fails(output: &Output, text: &str) {
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors.lines().last(), Some(text));
}

#[test]
fn transports_share_the_store() {
    let server = Server::start(&[]);
    // Long enough to be transferred in a chunk.
    let value: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
    for (put, get) in [("rdma", "tcp"), ("tcp", "rdma")] {
        assert!(server.client(put, &["put", "a"], &value).status.success());
        let got = server.client(get, &["get", "a"], &[]);
        assert!(got.status.success() && got.stdout == value);
        // Over RDMA the client says on which device.
        let device: &[u8] = if get == "rdma" {
            b"over RDMA on iwarp\n"
        } else {
            b""
        };
        assert_eq!(got.stderr, device);
        assert!(server.client(put, &["delete", "a"], &[]).status.success());
        assert_fails(&server.client(get, &["delete", "a"], &[]), "no such key");
        assert_fails(&server.client(get, &["get", "a"], &[]), "no such key");
    }
    let counts = server.end("-TERM");
    let text = "10 connections accepted, 0 rejected; 6 calls executed, 0 answered again";
    assert_eq!(counts, text);
}

#[test]
fn full_store_keeps_its_values() {
    let server = Server::start(&["--max-mib", "1"]);
    let half = vec![7; 600_000];
    assert!(server.client("rdma", &["put", "a"], &half).status.success());
    let full = server.client("rdma", &["put", "b"], &half);
    assert_fails(&full, "the store is full");
    // A value replaces an earlier value.
    assert!(server.client("rdma", &["put", "a"], &half).status.success());
    server.end("-INT");
}
