//! The dissector that `xdrgen generate --wireshark` writes for Version Two, and `rpcrdma decode
//! --pcap`, on captures of the same messages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "wireshark/damage.rs"]
mod damage;
#[path = "wireshark/formats.rs"]
mod formats;
#[path = "wireshark/live.rs"]
mod live;
#[path = "wireshark/tree.rs"]
mod tree;
#[path = "wireshark/truncated.rs"]
mod truncated;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use rpcrdma_transport_tests::capture;
use serde_json::Value;
use xdrgen_build::wireshark::Dissector;
use xdrgen_build::{Config, Schema};

use tree::{Line, Packet};

/// Runs `rpcrdma`, and returns its output.
fn rpcrdma(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rpcrdma"))
        .args(arguments)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}{error}");
    said
}

/// Returns the JSON lines of the output.
fn events(arguments: &[&str]) -> Vec<Value> {
    let lines = rpcrdma(arguments);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn of_kind<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events
        .iter()
        .filter(|event| event["event"] == kind)
        .collect()
}

/// Returns the bytes of each message that `rpcrdma decode` finds.
fn decoded(file: &Path) -> Vec<Vec<u8>> {
    let events = events(&["decode", "--pcap", file.to_str().unwrap(), "--json"]);
    assert!(of_kind(&events, "lost").is_empty());
    let messages = of_kind(&events, "message");
    messages
        .iter()
        .map(|event| bytes(event["message"].as_str().unwrap()))
        .collect()
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

/// The schema of the drafts, and a folder with the dissector.
struct Fixture {
    schema: Schema,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/xdrgen.toml");
        let compilation = Config::from_manifest(manifest).unwrap().check();
        let schema = compilation.schema().clone();
        let dissector = Dissector::new("rpcrdma2_xprt_hdr").protocol("rpcrdma2");
        let dissector = dissector.expect("rdma_vers", 2).payload("rpc");
        let folder = tempfile::tempdir().unwrap();
        let lua = dissector.generate(&schema).unwrap();
        std::fs::write(folder.path().join("rpcrdma2.lua"), lua).unwrap();
        Self { schema, folder }
    }

    /// Returns the path of a new file.
    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the output of tshark, or `None` without tshark. Checks that Lua reports no error.
    fn tshark(&self, file: &Path, options: &[&str]) -> Option<String> {
        let script = format!("lua_script:{}", self.file("rpcrdma2.lua").display());
        // A random port may be one that Wireshark takes for another protocol's, such as 48898.
        let output = Command::new("tshark")
            .args(["-o", "tcp.try_heuristic_first:TRUE"])
            .args(["-X", &script, "-r"])
            .arg(file)
            .args(options)
            .output();
        let Ok(output) = output else {
            skipped("there is no tshark");
            return None;
        };
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for wrong in ["Lua Error", "lua error", "stack traceback"] {
            assert!(!text.contains(wrong) && !error.contains(wrong), "{error}");
        }
        Some(text)
    }

    /// Returns the packets of a capture that the dissector shows.
    fn packets(&self, file: &Path, options: &[&str]) -> Option<Vec<Packet>> {
        let pdml = self.tshark(file, &[&["-T", "pdml"], options].concat())?;
        Some(tree::packets(&pdml, "rpcrdma2"))
    }

    /// Returns the fields of a message of Version Two.
    fn expected(&self, message: &[u8]) -> Vec<Line> {
        let node = tree::decode(&self.schema, "rpcrdma2_xprt_hdr", message).unwrap();
        tree::expected(&self.schema, "rpcrdma2", &node)
    }

    /// Compares the dissector's fields with those of the schema's decoder, on each message of
    /// Version Two.
    fn compare(&self, messages: &[Vec<u8>], packets: &[Packet]) {
        let shown: Vec<&Vec<Line>> = packets.iter().flat_map(|packet| &packet.messages).collect();
        let two = messages
            .iter()
            .filter(|message| message[4..8] == [0, 0, 0, 2]);
        let two: Vec<_> = two.collect();
        assert_eq!(shown.len(), two.len());
        for (shown, message) in shown.iter().zip(two) {
            assert_eq!(**shown, self.expected(message));
        }
    }
}

/// Records for the summary of `.ci/run` why a test is skipped.
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
    if let Some(notes) = std::env::var_os("RPCRDMA_SKIPPED") {
        let notes = OpenOptions::new().create(true).append(true).open(notes);
        writeln!(notes.unwrap(), "the dissector: {why}").unwrap();
    }
}

/// The Sends that Wireshark's iWARP dissector ignores, and the Sends that it has reassembled.
const REASSEMBLY: [&[&str]; 2] = [
    &["-o", "iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:FALSE"],
    &["-o", "iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:TRUE"],
];

fn demo(frames: &str) {
    let fixture = Fixture::new();
    let file = fixture.file("demo.pcap");
    let name = file.to_str().unwrap();
    let scenes = events(&["demo", "--json", "--pcap", name, "--frames", frames]);
    let sent = scenes
        .iter()
        .flat_map(|scene| scene["messages"].as_array().unwrap());
    let sent: Vec<&str> = sent.map(|line| line.as_str().unwrap()).collect();
    let messages = decoded(&file);
    assert_eq!(messages.len(), sent.len());
    // The same headers in the same order. Only one scene has characteristics, whose lines differ.
    let chart = rpcrdma(&["decode", "--pcap", name]);
    let chart: Vec<&str> = chart.lines().filter(|line| line.contains("----")).collect();
    for (sent, found) in sent.iter().zip(chart) {
        let sent = sent.trim_end_matches("   (lost)");
        assert!(
            found.contains(sent) || sent.contains("XCH"),
            "{sent}\n{found}"
        );
    }
    for options in REASSEMBLY {
        // In one pass, and in two passes as Wireshark does.
        for options in [options, &[options, &["-2"]].concat()] {
            let Some(packets) = fixture.packets(&file, options) else {
                return;
            };
            assert!(packets.iter().all(|packet| packet.problems == 0));
            fixture.compare(&messages, &packets);
        }
    }
}

#[test]
fn the_demonstration_over_roce() {
    demo("roce");
}

#[test]
fn the_demonstration_over_iwarp() {
    demo("iwarp");
}

/// The scenes whose messages no device sends: two engines exchange them within the process.
const WITHOUT_DEVICE: [&str; 2] = [
    "rtrext-02: a call whose transmissions are broken",
    "rtrext-02: a reply whose transmissions are broken",
];

/// Runs the scenes over iWARP on TCP while dumpcap captures the packets. Returns the lines of the
/// messages that were sent, or `None` if this host does not permit captures.
fn captured_demo(file: &Path, address: IpAddr, options: &[&str]) -> Option<Vec<String>> {
    let capture = match live::Capture::start(file, address, options) {
        Ok(capture) => capture,
        Err(why) => {
            skipped(&why);
            return None;
        }
    };
    let bind = capture.address().to_string();
    let scenes = events(&["demo", "--json", "--device", "iwarp", "--bind", &bind]);
    capture.finish();
    let is_sent = |scene: &&Value| !WITHOUT_DEVICE.contains(&scene["scene"].as_str().unwrap());
    assert_eq!(scenes.iter().filter(is_sent).count(), scenes.len() - 2);
    assert!(scenes.iter().all(|scene| scene["result"] == "passed"));
    let sent = scenes.iter().filter(is_sent);
    let lines = sent.flat_map(|scene| scene["messages"].as_array().unwrap());
    Some(
        lines
            .map(|line| line.as_str().unwrap().to_owned())
            .collect(),
    )
}

/// Asserts that `rpcrdma decode` finds each message that was sent, and no other.
fn assert_all_found(file: &Path, sent: &[String]) -> Vec<Vec<u8>> {
    let messages = decoded(file);
    assert_eq!(messages.len(), sent.len());
    let chart = rpcrdma(&["decode", "--pcap", file.to_str().unwrap()]);
    let mut found: Vec<&str> = chart.lines().filter(|line| line.contains("----")).collect();
    // Only one scene has characteristics, whose lines differ.
    for sent in sent.iter().filter(|line| !line.contains("XCH")) {
        // Of transmissions, the demonstration counts the inline bytes of the first buffer alone.
        let sent = match sent.rsplit_once(", ") {
            Some((line, _)) if line.contains(" bytes of stream") => line,
            _ => sent,
        };
        let at = found.iter().position(|found| found.contains(sent));
        found.remove(at.unwrap_or_else(|| panic!("{sent}\n{chart}")));
    }
    messages
}

/// All messages of the demonstration, as the loopback interface carries them over IPv4 and IPv6.
#[test]
fn the_demonstration_as_packets_of_tcp() {
    let fixture = Fixture::new();
    let file = fixture.file("real.pcapng");
    for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        let Some(sent) = captured_demo(&file, address, &["-i", "lo"]) else {
            continue;
        };
        let messages = assert_all_found(&file, &sent);
        // Wireshark's own reassembly shows only the first of several Sends in a frame.
        let [options, _] = REASSEMBLY;
        for options in [options, &[options, &["-2"]].concat()] {
            let Some(packets) = fixture.packets(&file, options) else {
                return;
            };
            assert_eq!(packets.iter().filter(|packet| packet.lost > 0).count(), 0);
            fixture.compare(&messages, &packets);
        }
    }
}

/// The "cooked" formats of all interfaces, as pcap and as pcapng.
#[test]
fn the_demonstration_on_all_interfaces() {
    let fixture = Fixture::new();
    let file = fixture.file("any.pcap");
    for link in ["LINUX_SLL", "LINUX_SLL2"] {
        for format in ["-n", "-P"] {
            let options = ["-i", "any", "-y", link, format];
            let Some(sent) = captured_demo(&file, Ipv4Addr::LOCALHOST.into(), &options) else {
                return;
            };
            assert_all_found(&file, &sent);
        }
    }
}

/// Records the iWARP connection of a server and a client.
fn record(client: &[&str]) -> Vec<u8> {
    // A free port.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_rpcrdma"))
        .args(["serve", "--bind", &free.to_string(), "--duration", "60s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    // The pipe stays open: the server prints more lines.
    let mut output = BufReader::new(server.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let address = line.strip_prefix("serving at ").unwrap();
    let (address, _) = address.split_once(" on ").unwrap();
    let (address, recorded) = capture::relay(address.parse().unwrap()).unwrap();
    let mut arguments = client.to_vec();
    let address = address.to_string();
    arguments.extend(["--connect", &address]);
    rpcrdma(&arguments);
    server.kill().unwrap();
    server.wait().unwrap();
    let recorded = recorded.lock().unwrap();
    recorded.file().to_vec()
}

#[test]
fn a_server_and_a_client_over_tcp() {
    let fixture = Fixture::new();
    let clients: [&[&str]; 2] = [
        &["ping", "--count", "5", "--interval", "1ms"],
        &[
            "bench",
            "--operation",
            "write",
            "--size",
            "65536",
            "--duration",
            "0",
            "--depth",
            "1",
        ],
    ];
    for client in clients {
        let file = fixture.file("real.pcap");
        std::fs::write(&file, record(client)).unwrap();
        let messages = decoded(&file);
        // The exchange of properties, and the calls with their replies.
        assert!(messages.len() >= 10, "{}", messages.len());
        let Some(packets) = fixture.packets(&file, REASSEMBLY[0]) else {
            return;
        };
        fixture.compare(&messages, &packets);
    }
}

/// Packets of soft-RoCE between two machines: `rpcrdma ping`, `bench` with both versions, and `nfs`
/// with both servers. `tests/vm/run pair` captures them; the file is one of its captures.
#[test]
fn packets_of_soft_roce() {
    let fixture = Fixture::new();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wireshark/soft-roce.pcap");
    let file = std::env::var_os("RPCRDMA_CAPTURE").map_or(committed, Into::into);
    let all = events(&["decode", "--pcap", file.to_str().unwrap(), "--json"]);
    // Each of the client's commands connects, and `nfs` twice.
    let connections = of_kind(&all, "connection");
    assert!(connections.len() >= 5, "{connections:?}");
    for connection in connections {
        let is_client = |name: &str| name.starts_with("10.9.8.2 ");
        assert!(
            connection["client"].as_str().is_some_and(is_client),
            "{connection}"
        );
    }
    let messages = of_kind(&all, "message");
    let count = |is: &dyn Fn(&Value) -> bool| messages.iter().filter(|one| is(one)).count();
    assert_eq!(count(&|message| message["malformed"] != Value::Null), 0);
    for version in [1, 2] {
        let whole = count(&|message| message["version"] == version);
        assert!(whole >= 10, "{whole} messages of version {version}");
    }
    for list in ["reads", "writes"] {
        let with = count(&|message| message[list].as_array().is_some_and(|all| !all.is_empty()));
        assert!(with >= 4, "{with} messages with {list}");
    }
    let of_several = count(&|message| message["packets"].as_u64() > Some(1));
    assert!(of_several >= 4, "{of_several} messages in several packets");
    let Some(packets) = fixture.packets(&file, &[]) else {
        return;
    };
    assert_eq!(packets.iter().filter(|packet| packet.lost > 0).count(), 0);
    fixture.compare(&decoded(&file), &packets);
}
