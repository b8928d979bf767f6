//! Common behaviour of the commands: units, names, signals, JSON, logs, completions and manual
//! pages.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its numbers are small"
)]

use std::io::{BufRead, BufReader, Lines, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rpcrdma_iwarp::{Framer, FramerPiece, MpaOptions, MpaResponder, OutgoingKind, OutgoingMessage};
use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rpcrdma"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

fn rpcrdma(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Returns the JSON lines of a command's output.
fn events(output: &[u8]) -> Vec<Value> {
    let lines = str::from_utf8(output).unwrap().lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns an address without a listener.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// A command that runs until it gets a signal.
struct Running {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn new(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Starts a server, and returns it with its port.
    fn server(options: &[&str]) -> (Self, String) {
        let bind = free_address().to_string();
        let mut server = command(&["serve", "--duration", "60s", "--bind", &bind]);
        let mut server = Self::new(server.args(options));
        let line = server.line();
        assert!(line.contains(&bind), "{line}");
        let (_, port) = bind.rsplit_once(':').unwrap();
        (server, port.to_owned())
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// Sends a signal. Returns the status, the remaining lines of output, and the errors.
    fn end(mut self, signal: &str) -> (Option<i32>, Vec<String>, String) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
        let rest = self.lines.by_ref().map(Result::unwrap).collect();
        let mut errors = String::new();
        let stderr = self.process.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        (self.process.wait().unwrap().code(), rest, errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
    }
}

#[test]
fn invalid_arguments_exit_with_2() {
    for (arguments, text) in [
        (&["ping"][..], "--connect <HOST[:PORT]>"),
        (&["ping", "--connect", "a b"], "is not a host"),
        (
            &["ping", "--connect", "::1", "--timeout", "10"],
            "10s are seconds",
        ),
        (
            &["ping", "--connect", "::1", "--size", "1MB"],
            "is not a number of bytes",
        ),
        (
            &["ping", "--connect", "::1", "--size", "4G"],
            "is not below 4G",
        ),
        (
            &["ping", "--connect", "::1", "--program", "0x186a3"],
            "--version <NUMBER>",
        ),
        (
            &[
                "ping",
                "--connect",
                "::1",
                "--program",
                "nfs",
                "--version",
                "3",
            ],
            "nfs is not a number, like 100003 or 0x186a3",
        ),
        (&["bench", "--duration", "3"], "3s are seconds"),
        (&["bench", "--size", "0"], "must be one or more"),
        (
            &["bench", "--working-set", "1e9"],
            "is not a number of bytes",
        ),
        (&["serve", "--bind", "nowhere"], "is not an address"),
        (&["frobnicate"], "unrecognized subcommand"),
        (
            &["nfs", "bench", "server:/", "--size", "0"],
            "one byte is the least",
        ),
        (&["nfs", "cp", "here", "there"], "is of a server"),
    ] {
        let output = rpcrdma(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(text), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_on_a_full_disk_is_a_failure() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        return;
    };
    for arguments in [["--help"], ["--version"]] {
        let output = command(&arguments)
            .stdout(full.try_clone().unwrap())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(rpcrdma(&arguments).status.success());
    }
}

#[test]
fn servers_are_found_by_name() {
    let (_server, port) = Running::server(&[]);
    let server = format!("localhost:{port}");
    let output = rpcrdma(&["ping", "--connect", &server, "--count", "1", "--size", "1K"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1024 bytes from 127.0.0.1:"), "{text}");
    let output = rpcrdma(&["ping", "--connect", "no-such-host.invalid"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        output
            .stderr
            .starts_with(b"rpcrdma: no-such-host.invalid: ")
    );
}

#[test]
fn an_interrupt_ends_ping_with_its_summary() {
    let (_server, port) = Running::server(&[]);
    let server = format!("127.0.0.1:{port}");
    let arguments = [
        "ping",
        "--connect",
        &server,
        "--count",
        "0",
        "--interval",
        "1ms",
    ];
    let mut ping = Running::new(&mut command(&arguments));
    while !ping.line().contains("call 20, ") {}
    let (status, rest, _) = ping.end("-INT");
    assert_eq!(status, Some(0), "{rest:?}");
    let [.., latency, summary] = &rest[..] else {
        panic!("{rest:?}");
    };
    assert!(latency.contains(" at the median, "), "{latency}");
    assert!(
        summary.contains(" 0 failed; 1 connection, 0 lost or failed"),
        "{summary}"
    );
}

/// Accepts an iWARP connection, and answers its first message: the server supports no version of
/// the client.
fn refuse_versions(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut mpa = MpaResponder::new();
    let request = loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        if let Some(request) = mpa.receive(&byte).unwrap() {
            break request;
        }
    };
    let options = MpaOptions {
        crc: true,
        depths: None,
        rtr: None,
        private_data: Vec::new(),
    };
    let (reply, established) = request.accept(&options).unwrap();
    stream.write_all(&reply).unwrap();
    // The length, and the header of a Send, precede the XID.
    let mut fpdu = [0; 24];
    stream.read_exact(&mut fpdu).unwrap();
    let xid = &fpdu[20..];
    let words = [2u32, 1, 4, 1, 3, 4].map(u32::to_be_bytes);
    let error = [xid, words.as_flattened()].concat();
    let mut framer = Framer::new(1448, established.crc, established.markers, false);
    let kind = OutgoingKind::Send {
        solicited: false,
        invalidate: None,
    };
    let mut message = OutgoingMessage::new(0, kind, error.len() as u32);
    assert!(framer.push_segment(&mut message, &[&error]).unwrap());
    let pieces = framer.pieces().map(|piece| match piece {
        FramerPiece::Owned(bytes) => bytes,
        FramerPiece::Payload { offset, len, .. } => &error[offset as usize..][..len],
    });
    stream
        .write_all(&pieces.collect::<Vec<_>>().concat())
        .unwrap();
    // The client closes the connection.
    let _ = stream.read_to_end(&mut Vec::new());
}

/// The session has ended, so that the next call cannot begin.
#[test]
fn a_final_error_ends_ping_with_its_summary() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let refuses = std::thread::spawn(move || refuse_versions(&listener));
    let arguments = ["ping", "--connect", &server, "--interval", "1ms", "--json"];
    let output = rpcrdma(&arguments);
    refuses.join().unwrap();
    let errors = str::from_utf8(&output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let events = events(&output.stdout);
    let failure = events.iter().find(|event| event["event"] == "failure");
    let failure = failure.unwrap();
    let why = "the two ends have no version in common";
    assert!(
        failure["error"].as_str().unwrap().contains(why),
        "{failure}"
    );
    let summary = events.last().unwrap();
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(summary["event"], "summary", "{events:?}");
    assert_eq!(["sent", "answered", "failed"].map(count), [1, 0, 1]);
    assert!(errors.starts_with("rpcrdma: "), "{errors}");
    assert!(errors.contains(why), "{errors}");
}

#[test]
fn an_interrupt_ends_ping_without_a_server() {
    let server = free_address().to_string();
    let arguments = ["ping", "--connect", &server, "--timeout", "1m"];
    let mut ping = Running::new(&mut command(&arguments));
    assert!(ping.line().starts_with("no connection: "));
    let began = Instant::now();
    let (status, rest, _) = ping.end("-INT");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(status, Some(1));
    let summary = rest.last().unwrap();
    assert!(
        summary.starts_with("1 call: 0 answered, 0 failed; 0 connections, "),
        "{summary}"
    );
}

#[test]
fn serve_names_an_address_that_the_host_does_not_have() {
    let output = rpcrdma(&["serve", "--device", "iwarp", "--bind", "192.0.2.1:20049"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    let expected = "no interface of this host has 192.0.2.1\n";
    assert!(errors.ends_with(expected), "{errors}");
}

#[test]
fn ping_prints_a_reason_once() {
    let server = free_address().to_string();
    let ping = ["ping", "--connect", &server, "--timeout", "2s", "--count"];
    let output = rpcrdma(&[&ping[..], &["1"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let reasons = text
        .lines()
        .filter(|line| line.starts_with("no connection: "));
    assert_eq!(reasons.count(), 1, "{text}");
    // It tried several times.
    let attempts = text.split("; 0 connections, ").nth(1).unwrap();
    let attempts = attempts.trim_end().strip_suffix(" lost or failed").unwrap();
    assert!(attempts.parse::<u32>().unwrap() > 1, "{text}");
}

#[test]
fn ping_calls_null_of_any_program() {
    let (_server, port) = Running::server(&[]);
    let server = format!("127.0.0.1:{port}");
    let ping = |program: &str, version: &str| {
        let arguments = ["ping", "--json", "--connect", &server, "--interval", "1ms"];
        let program = ["--program", program, "--version", version, "--count", "2"];
        let output = rpcrdma(&[&arguments[..], &program].concat());
        (output.status.code(), events(&output.stdout))
    };
    // The program number of block.x.
    let (status, found) = ping("0x20524d41", "1");
    assert_eq!(status, Some(0), "{found:?}");
    assert_eq!(found.last().unwrap()["answered"], 2);
    for (program, version, text) in [
        ("100003", "3", "does not offer the program"),
        ("0x20524d41", "7", "version"),
    ] {
        let (status, found) = ping(program, version);
        assert_eq!(status, Some(1), "{found:?}");
        let error = found[1]["error"].as_str().unwrap();
        assert!(error.contains(text), "{error}");
        assert_eq!(found.last().unwrap()["failed"], 2);
    }
}

#[test]
fn events_are_lines_of_json() {
    let (mut server, port) = Running::server(&["--json"]);
    let address = format!("127.0.0.1:{port}");
    let arguments = [
        "ping",
        "--json",
        "--connect",
        &address,
        "--count",
        "3",
        "--interval",
        "0",
    ];
    let output = rpcrdma(&arguments);
    let found = events(&output.stdout);
    let names: Vec<_> = found
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["connected", "reply", "reply", "reply", "summary"]);
    assert_eq!(
        (&found[0]["version"], &found[3]["call"]),
        (&2.into(), &3.into())
    );
    let summary = &found[4];
    assert_eq!(
        (&summary["sent"], &summary["failed"]),
        (&3.into(), &0.into())
    );
    assert!(summary["latency_us"]["p99"].as_f64() > Some(0.0));

    let connected: Value = serde_json::from_str(&server.line()).unwrap();
    assert_eq!(
        (&connected["event"], &connected["count"]),
        (&"connections".into(), &1.into())
    );
    let (status, rest, _) = server.end("-TERM");
    assert_eq!(status, Some(0));
    let end: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
    assert_eq!((&end["event"], &end["calls"]), (&"end".into(), &3.into()));
}

#[test]
fn scenes_and_devices_are_json() {
    let scenes = events(&rpcrdma(&["demo", "--json"]).stdout);
    let count = |result: &str| {
        scenes
            .iter()
            .filter(|scene| scene["result"] == result)
            .count()
    };
    assert_eq!(
        (scenes.len(), count("passed"), count("failed")),
        (20, 20, 0)
    );
    assert!(
        scenes
            .iter()
            .all(|scene| scene["messages"].as_array().is_some())
    );

    let devices: Value = serde_json::from_slice(&rpcrdma(&["devices", "--json"]).stdout).unwrap();
    assert_eq!(devices[0]["kind"], "embedded");
    assert!(devices[0]["capabilities"]["max_sge"].as_u64() > Some(0));
}

#[test]
fn logs_are_on_standard_error() {
    let server = free_address().to_string();
    let arguments = [
        "ping",
        "--connect",
        &server,
        "--count",
        "1",
        "--timeout",
        "300ms",
    ];
    let errors = |command: &mut Command| command.output().unwrap().stderr;
    assert_eq!(errors(&mut command(&arguments)), b"");
    let logged = errors(command(&arguments).arg("-v"));
    let logged = String::from_utf8(logged).unwrap();
    let text = format!("can't connect peer={server} error=");
    assert!(logged.contains(&text), "{logged}");
    assert_ne!(errors(command(&arguments).env("RUST_LOG", "info")), b"");
    assert_eq!(
        errors(command(&arguments).env("RUST_LOG", "tokio=info")),
        b""
    );
    let output = command(&arguments)
        .env("RUST_LOG", "rpcrdma=loud")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        output
            .stderr
            .starts_with(b"rpcrdma: RUST_LOG=rpcrdma=loud: ")
    );
}

#[test]
fn a_server_logs_clients_and_rejections() {
    let bind = free_address().to_string();
    let arguments = ["serve", "--bind", &bind];
    let mut server = Running::new(command(&arguments).env("RUST_LOG", "info"));
    server.line();
    let ping = ["ping", "-v", "--connect", &bind, "--count", "1"];
    let output = rpcrdma(&[&ping[..], &["--program", "100003", "--version", "3"]].concat());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains(&format!("connected peer={bind} version=2")),
        "{errors}"
    );
    let (_, _, errors) = server.end("-TERM");
    for text in [
        "listening address=",
        "connected peer=127.0.0.1:",
        "call refused peer=127.0.0.1:",
        "status=the server does not offer the program",
        "connection closed peer=127.0.0.1:",
    ] {
        assert!(errors.contains(text), "{text}: {errors}");
    }
}
