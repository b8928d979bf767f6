//! The commands on the embedded fabric and over iWARP, without a device: their output, and their
//! exit status.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn rpcrdma(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rpcrdma"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Returns the output of a command that succeeds.
fn output_of(arguments: &[&str]) -> String {
    let output = rpcrdma(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_scene_of_the_demonstration_passes() {
    let text = output_of(&["demo"]);
    assert!(text.ends_with("\n20 passed, 0 failed\n"), "{text}");
    let titles = text.lines().filter(|line| line.starts_with("rtrext-02: "));
    assert_eq!(titles.count(), 8);
    // The chart shows the message of a call, and its transfer.
    assert!(text.contains("client ---->  RDMA2_MSG call 0x"), "{text}");
    assert!(text.contains("<---- server  RDMA2_MSG reply 0x"), "{text}");
}

/// Runs a benchmark of minimum duration, and returns its results.
fn bench(arguments: &[&str]) -> serde_json::Value {
    let arguments = [
        &["bench", "--json", "--duration", "0", "--working-set", "1M"],
        arguments,
    ];
    serde_json::from_str(&output_of(&arguments.concat())).unwrap()
}

#[test]
fn each_kind_of_benchmark_measures() {
    for arguments in [
        &["--depth", "1"][..],
        &["--depth", "4", "--connections", "3"],
        &["--apart"],
        &["--threads", "2"],
        &["--shared-receives", "64"],
        &["--operation", "read", "--size", "65536", "--depth", "4"],
        &["--operation", "write", "--size", "65536", "--depth", "4"],
        &[
            "--operation",
            "read",
            "--size",
            "65536",
            "--extension",
            "rtr",
        ],
        &[
            "--operation",
            "write",
            "--size",
            "65536",
            "--extension",
            "rtr",
        ],
        &["--delay", "20us"],
    ] {
        let found = bench(arguments);
        let number = |name: &str| found[name].as_f64();
        assert!(number("ns_per_rpc") > Some(0.0), "{arguments:?}: {found}");
        assert!(number("raw_ns") > Some(0.0), "{arguments:?}: {found}");
        assert_eq!(found["tokio_ns"], serde_json::Value::Null);
        assert_eq!(found["device"], serde_json::Value::Null);
    }
}

#[cfg(feature = "tokio")]
#[test]
fn a_channel_is_measured_on_one_thread_and_on_several() {
    for arguments in [&["--tokio"][..], &["--tokio", "--apart"]] {
        let found = bench(arguments);
        assert!(found["tokio_ns"].as_f64() > Some(0.0), "{found}");
    }
}

#[test]
fn invalid_settings_are_reported() {
    for (arguments, text) in [
        (
            &["bench", "--depth", "0"][..],
            "rpcrdma: size, depth, connections and threads must be one or more\n",
        ),
        (
            &["bench", "--operation", "read", "--size", "1048577"],
            "rpcrdma: a call reads or writes 1048576 bytes at most\n",
        ),
        #[cfg(feature = "tokio")]
        (
            &["bench", "--tokio", "--shared-receives", "8"],
            "rpcrdma: --tokio measures an echo of one process: not with --connect, --extension, \
             --shared-receives or another operation\n",
        ),
    ] {
        let output = rpcrdma(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(String::from_utf8_lossy(&output.stderr), text);
        assert!(output.stdout.is_empty());
    }
}

/// Two processes without a device: iWARP over TCP.
#[test]
fn processes_reach_each_other_without_a_device() {
    for any in ["127.0.0.1:0", "[::1]:0"] {
        let mut server = Command::new(env!("CARGO_BIN_EXE_rpcrdma"))
            .args(["serve", "--bind", any, "--duration", "60s"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let rest = line.strip_prefix("serving at ").unwrap();
        let (address, device) = rest.trim_end().split_once(" on ").unwrap();
        assert_eq!(device, "iwarp");
        // Port 0 selects a free port, and not the default.
        assert!(!address.ends_with(":20049"), "{address}");
        let ping = rpcrdma(&[
            "ping",
            "--connect",
            address,
            "--count",
            "3",
            "--interval",
            "1ms",
        ]);
        let output = String::from_utf8_lossy(&ping.stdout);
        assert!(ping.status.success(), "{output}");
        assert!(output.contains("3 calls"), "{output}");
        for operation in ["echo", "read", "write"] {
            let size = if operation == "echo" { "64" } else { "1048576" };
            let bench = rpcrdma(&[
                "bench",
                "--connect",
                address,
                "--operation",
                operation,
                "--size",
                size,
                "--depth",
                "4",
                "--duration",
                "0",
            ]);
            let error = String::from_utf8_lossy(&bench.stderr);
            assert!(bench.status.success(), "{operation}: {error}");
            let report = String::from_utf8_lossy(&bench.stdout);
            assert!(report.contains(", on iwarp:"), "{report}");
        }
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

/// Runs a command with output to this target.
fn run_into(output: impl Into<Stdio>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rpcrdma"));
    let command = command.args(arguments).stdout(output);
    command.stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    for arguments in [&["demo"][..], &["devices"], &["bench", "--duration", "0"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = run_into(writer, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        assert_eq!(error, "", "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        return;
    };
    for arguments in [&["demo"][..], &["devices"], &["bench", "--duration", "0"]] {
        let output = run_into(full.try_clone().unwrap(), arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        let text = "rpcrdma: the output can't be written: No space left on device (os error 28)\n";
        assert_eq!(error, text, "{arguments:?}");
    }
}

#[test]
fn invalid_messages_are_not_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        file.to_str().unwrap().to_owned()
    };
    // RFC 8166, section 4.2: XID, version 1, credits, RDMA_MSG, and no chunks.
    let words = [7u32, 1, 32, 0, 0, 0, 0, 7, 0];
    let message = words.map(u32::to_be_bytes).concat();
    let text = output_of(&["decode", &file("message", &message)]);
    assert_eq!(
        text,
        "RDMA_MSG call 0x00000007, 32 credits, 8 bytes inline\n"
    );
    let short = "a message that is too short for a header";
    for (option, bytes, error) in [
        (None, &b"\x7fELF\x02\x01\x01"[..], short.to_owned()),
        (None, &message[..20], short.to_owned()),
        (None, b"", format!("{} is empty", file("other", b""))),
        (Some("--hex"), b" \n", "no hexadecimal digits".to_owned()),
        (
            Some("--pcap"),
            b"",
            format!("{}: the file is empty", file("other", b"")),
        ),
    ] {
        let file = file("other", bytes);
        let arguments: Vec<&str> = ["decode"]
            .into_iter()
            .chain(option)
            .chain([&*file])
            .collect();
        let output = rpcrdma(&arguments);
        assert_eq!(output.status.code(), Some(1), "{bytes:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{bytes:?}");
        let expected = format!("rpcrdma: {error}\n");
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    }
    let output = rpcrdma(&["decode"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "rpcrdma: the standard input is empty\n"
    );
}
