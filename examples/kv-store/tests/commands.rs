//! Tests the server and the client as their users run them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use kv_store::store::store::PROGRAM;

/// The timeout for what a server does at once.
const PATIENCE: Duration = Duration::from_secs(20);

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

    /// Asks the server to end by a signal.
    fn signal(&mut self, signal: &str) {
        let id = self.process.id().to_string();
        let mut kill = Command::new("kill");
        assert!(kill.args([signal, &id]).status().unwrap().success());
        assert_eq!(read_line(&mut self.output), "draining");
    }

    /// Waits until the server has ended, and returns the line with its counts.
    fn counts(&mut self) -> (String, ExitStatus) {
        let counts = read_line(&mut self.output);
        (counts, self.process.wait().unwrap())
    }

    /// Ends the server with a signal, and returns its counts.
    fn end(mut self, signal: &str) -> String {
        self.signal(signal);
        let (counts, status) = self.counts();
        assert!(status.success());
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

/// Returns records with calls of a procedure (RFC 5531, section 9) with a key of one letter.
fn calls(procedure: u32, key: u8, count: u32) -> Vec<u8> {
    let words = |xid| {
        [
            xid,
            0,
            2,
            PROGRAM,
            1,
            procedure,
            0,
            0,
            0,
            0,
            1,
            u32::from(key) << 24,
        ]
    };
    let records = (0..count).map(words).flat_map(|words| {
        let marker = 1 << 31 | u32::try_from(4 * words.len()).unwrap();
        [&[marker][..], &words].concat()
    });
    records.flat_map(u32::to_be_bytes).collect()
}

/// Reads the marker of a record, and returns the length of the record.
fn read_marker(stream: &mut impl Read) -> Option<usize> {
    let mut marker = [0; 4];
    stream.read_exact(&mut marker).ok()?;
    let marker = u32::from_be_bytes(marker);
    assert!(marker >> 31 == 1, "a record of one fragment");
    Some((marker & !(1 << 31)) as usize)
}

/// GET in `spec/store.x`.
const GET: u32 = 1;

/// Asserts that a client over RDMA reports this reason why the server rejects it.
#[track_caller]
fn assert_rejected(server: &Server, reason: &str) {
    let rejected = server.client("rdma", &["--timeout", "1", "get", "a"], &[]);
    let peer = &server.rdma;
    let text = format!(
        "STORE_GET of program {PROGRAM:#x} version 1 at {peer}: not done within 1s: \
        not connected: the server rejected the connection: {reason} (not executed)"
    );
    assert_fails(&rejected, &text);
}

#[test]
fn hosts_that_are_not_allowed_are_told_so() {
    let server = Server::start(&["--allow", "192.0.2.1", "--allow", "192.0.2.2"]);
    assert_rejected(&server, "this host is not allowed");
    // Over TCP a connection is closed without a reason.
    let closed = server.client("tcp", &["--timeout", "1", "get", "a"], &[]);
    assert!(!closed.status.success());
    let counts = server.end("-TERM");
    assert!(counts.starts_with("0 connections accepted, "), "{counts}");
    assert!(!counts.contains(" 0 rejected"), "{counts}");
}

#[test]
fn transports_share_the_limit_of_connections() {
    let server = Server::start(&["--max-connections", "1"]);
    let mut stream = TcpStream::connect(&server.tcp).unwrap();
    stream.write_all(&calls(GET, b'a', 1)).unwrap();
    // The connection is accepted.
    read_marker(&mut stream).unwrap();
    assert_rejected(&server, "too many connections of the peer");
    drop(stream);
    let found = server.client("rdma", &["get", "a"], &[]);
    assert_fails(&found, "no such key");
    server.end("-TERM");
}

/// Sends calls to a server whose replies, of 1 MiB each, exceed the buffers of the connection, and
/// reads the beginning of the first reply.
fn with_unread_replies(server: &Server) -> TcpStream {
    let value = vec![7; 1 << 20];
    assert!(server.client("tcp", &["put", "a"], &value).status.success());
    let mut stream = TcpStream::connect(&server.tcp).unwrap();
    stream.write_all(&calls(GET, b'a', 100)).unwrap();
    assert!(read_marker(&mut stream).unwrap() > value.len());
    // The server executes calls until the buffers are full. Nothing tells when that is so.
    std::thread::sleep(Duration::from_millis(500));
    stream
}

#[test]
fn replies_in_flight_are_sent_within_the_grace_period() {
    let mut server = Server::start(&["--grace", "60"]);
    let mut stream = with_unread_replies(&server);
    server.signal("-TERM");
    // The line comes before the listener ends.
    let began = Instant::now();
    while TcpStream::connect(&server.tcp).is_ok() {
        assert!(began.elapsed() < PATIENCE, "it still listens");
    }
    // The rest of the first reply, and all of the others.
    let mut rest = vec![0; 32 + (1 << 20)];
    stream.read_exact(&mut rest).unwrap();
    let mut replies = 1;
    while let Some(len) = read_marker(&mut stream) {
        rest.resize(len, 0);
        stream.read_exact(&mut rest).unwrap();
        replies += 1;
    }
    assert!(replies > 1);
    let (_, status) = server.counts();
    assert!(status.success());
}

#[test]
fn a_server_ends_after_the_grace_period() {
    let mut server = Server::start(&["--grace", "1"]);
    let stream = with_unread_replies(&server);
    server.signal("-TERM");
    let (_, status) = server.counts();
    assert_eq!(status.code(), Some(1));
    drop(stream);
}
