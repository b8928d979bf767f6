//! Processes over iWARP that are killed at random: their peers continue, and lose no calls.
//! `RPCRDMA_KILL_SECONDS=60` selects the long form; `.ci/soak` has more kinds of load.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rpcrdma"));
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// Starts a server, and returns once it serves.
fn serve(address: &str) -> Child {
    let arguments = ["serve", "--bind", address, "--device", "iwarp", "--json"];
    let mut child = command(&arguments).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let serving: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(serving["device"], "iwarp");
    child
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Returns an address without a listener.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn duration() -> Duration {
    let seconds = std::env::var("RPCRDMA_KILL_SECONDS");
    Duration::from_secs(seconds.map_or(4, |seconds| seconds.parse().unwrap()))
}

/// Returns a random time below `most`.
fn below(most: Duration) -> Duration {
    most.mul_f64(RandomState::new().hash_one(0) as f64 / u64::MAX as f64)
}

/// Starts a client that calls every 10 ms for the duration.
fn ping(address: &str) -> Child {
    let count = (duration().as_millis() / 10).to_string();
    let arguments = [
        "ping",
        "--json",
        "--connect",
        address,
        "--count",
        &count,
        "--interval",
        "10ms",
        "--device",
        "iwarp",
        "--timeout",
        "30s",
    ];
    command(&arguments).spawn().unwrap()
}

/// Waits for the end of a client. Returns its summary: every call was answered.
fn assert_answered(mut ping: Child) -> Value {
    let out = BufReader::new(ping.stdout.take().unwrap());
    let last = out.lines().map(Result::unwrap).last().unwrap();
    let summary: Value = serde_json::from_str(&last).unwrap();
    assert!(ping.wait().unwrap().success(), "{summary}");
    assert_eq!(summary["failed"], 0, "{summary}");
    assert_eq!(summary["answered"], summary["sent"], "{summary}");
    summary
}

#[test]
fn a_client_loses_no_call_of_a_killed_server() {
    let address = free();
    let mut server = serve(&address);
    let ping = ping(&address);
    let (began, mut kills) = (Instant::now(), 0);
    while began.elapsed() + Duration::from_secs(1) < duration() {
        sleep(Duration::from_millis(200) + below(Duration::from_millis(800)));
        kill(&mut server);
        kills += 1;
        server = serve(&address);
    }
    let summary = assert_answered(ping);
    assert!(
        kills > 0 && summary["connections"].as_u64() > Some(1),
        "{kills}: {summary}"
    );
    kill(&mut server);
}

#[test]
fn a_server_survives_killed_clients() {
    let address = free();
    let mut server = serve(&address);
    let ping = ping(&address);
    let loads: [&[&str]; 3] = [
        &["--size", "64", "--depth", "32"],
        &["--operation", "read", "--size", "65536"],
        &["--operation", "write", "--size", "65536"],
    ];
    let (began, mut kills) = (Instant::now(), 0);
    while began.elapsed() + Duration::from_secs(1) < duration() {
        let all = [
            "bench",
            "--device",
            "iwarp",
            "--working-set",
            "4M",
            "--duration",
            "1000s",
            "--connect",
            &address,
        ];
        let mut load = command(&[&all, loads[kills % 3]].concat()).spawn().unwrap();
        sleep(below(Duration::from_millis(800)));
        kill(&mut load);
        kills += 1;
    }
    // The client had one connection.
    assert_eq!(assert_answered(ping)["connections"], 1);
    kill(&mut server);
}
