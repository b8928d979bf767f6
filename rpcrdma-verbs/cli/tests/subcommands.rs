//! The manners that all subcommands share: closed pipes, full disks, JSON, units and names.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../tests/manners/mod.rs"]
mod manners;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use manners::{Entry, Manners, Printed};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rpcrdma");
const HIDDEN: [&str; 2] = ["completions", "man"];

/// A server that is killed at the end of the test.
struct Server(Child);

impl Server {
    /// Starts a server, and waits for its first line.
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        let command = command.args(arguments).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let output = process.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert!(line.contains("127.0.0.1"), "{line}");
        Self(process)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a port without a listener.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

/// Returns the table. The ports are those of `serve`, of its metrics, and of `nfs serve`.
fn entries([rdma, metrics, nfs]: &[String; 3]) -> Vec<Entry> {
    const JSON: Printed = Printed::TextOrJson(&["--json"]);
    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/wireshark/soft-roce.pcap"
    );
    let [server, bind] = [
        format!("localhost:{rdma}"),
        format!("127.0.0.1:{}", free_port()),
    ];
    let metrics = format!("localhost:{metrics}");
    let brief = ["--duration", "1ms"];
    let of_nfs = |arguments: &[&'static str]| [&["--tcp", nfs], arguments].concat();
    vec![
        Entry::new("demo", &[], JSON),
        Entry::new(
            "bench",
            &[&brief[..], &["--working-set", "1M"]].concat(),
            JSON,
        ),
        Entry::new("serve", &["--bind", &bind], JSON).until_signal(),
        Entry::new(
            "ping",
            &["--connect", &server, "--count", "1", "--size", "1K"],
            JSON,
        ),
        Entry::new("stat", &[&metrics, "--timeout", "10s"], JSON),
        Entry::new("nfs serve", &["--memory", "--tcp", "127.0.0.1:0"], JSON).until_signal(),
        Entry::new("nfs ls", &of_nfs(&["localhost:/"]), JSON),
        Entry::new("nfs cat", &of_nfs(&["localhost:/file"]), Printed::Format),
        Entry::new("nfs cp", &of_nfs(&["localhost:/file", "copy"]), JSON),
        Entry::new(
            "nfs bench",
            &[&of_nfs(&["localhost:/"])[..], &brief].concat(),
            JSON,
        ),
        Entry::new("decode", &["--pcap", capture], JSON),
        Entry::new("devices", &[], JSON),
        Entry::new("completions", &["bash"], Printed::Format),
        Entry::new("man", &["pages"], Printed::Nothing),
    ]
}

/// Runs a test with the table and the servers that it needs.
fn with_manners(test: impl FnOnce(&Manners<'_>)) {
    let ports = [free_port(), free_port(), free_port()];
    let [rdma, metrics, nfs] = ports.each_ref().map(|port| format!("127.0.0.1:{port}"));
    let option = format!("--metrics={metrics}");
    let _serve = Server::start(&["serve", "--bind", &rdma, &option]);
    let _nfs = Server::start(&["nfs", "serve", "--memory", "--tcp", &nfs]);
    let folder = tempfile::tempdir().unwrap();
    put_file(folder.path(), &ports[2]);
    test(&Manners {
        program: PROGRAM,
        folder: folder.path(),
        entries: entries(&ports),
    });
}

/// Copies a file to the NFS server.
fn put_file(folder: &Path, port: &str) {
    let file = folder.join("file");
    fs::write(&file, "content").unwrap();
    let put = [
        "nfs",
        "cp",
        file.to_str().unwrap(),
        "localhost:/",
        "--tcp",
        port,
    ];
    assert!(
        Command::new(PROGRAM)
            .args(put)
            .output()
            .unwrap()
            .status
            .success()
    );
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
    with_manners(|manners| manners.assert_completions(&["program", "working-set"]));
}

#[test]
fn manual_pages_are_valid() {
    with_manners(|manners| manners.assert_pages());
}

#[test]
fn values_have_units_and_names() {
    let no_server = "is not a host";
    with_manners(|manners| {
        manners.assert_units(&[
            (
                "TIME",
                "10",
                "10s are seconds",
                &["delay", "duration", "interval", "timeout"],
            ),
            (
                "BYTES",
                "1X",
                "is not a number of bytes",
                &["size", "working-set"],
            ),
            ("HOST[:PORT]", "a b", no_server, &["connect"]),
            ("SERVER:/PATH", "a", "is not like server:/path", &[]),
            ("ADDR", "nowhere", "is not an address", &["bind", "metrics"]),
        ]);
    });
}
