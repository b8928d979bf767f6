//! Captures of iWARP connections, as tshark decodes them: MPA, DDP and RDMAP, RPC-over-RDMA Version
//! One, and ONC RPC.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::version::Version;
use rpcrdma_transport_tests::block::{self, Block};
use rpcrdma_transport_tests::capture;
use rpcrdma_transport_tests::ends::{self, Ends};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::iwarp::{IwarpConfig, IwarpDevice};

/// The number of calls in [`traffic`].
const CALLS: usize = 7;

/// Creates both ends, with a relay between them.
fn relayed(config: &IwarpConfig) -> (Ends<IwarpDevice>, Arc<Mutex<capture::Capture>>) {
    let budgets = [Budget::new(1 << 28), Budget::new(1 << 28)];
    let driver = |budget| Driver::new(&IwarpDevice::new(config.clone()), budget, 4096).unwrap();
    let (mut near, mut far) = (driver(&budgets[0]), driver(&budgets[1]));
    let block = Block::default();
    let server = ends::serve(&mut far, ends::any_address(), Config::server(), &block);
    let (address, capture) = capture::relay(server.local_addr()).unwrap();
    let one = Config {
        max_version: Version::One,
        ..Config::client()
    };
    let client = ends::connect(&mut near, address, one);
    let ends = Ends {
        client,
        near,
        far,
        server,
        block,
        budgets,
    };
    (ends, capture)
}

/// Returns the output lines of tshark, or `None` without tshark.
fn tshark(file: &[u8], options: &[&str]) -> Option<Vec<String>> {
    let mut capture = tempfile::NamedTempFile::new().unwrap();
    capture.write_all(file).unwrap();
    let output = Command::new("tshark")
        // A random port may be one that Wireshark takes for another protocol's, such as 48898.
        .args(["-o", "tcp.try_heuristic_first:TRUE"])
        // Otherwise the second Send in a TCP segment has no RPC message.
        .args([
            "-o",
            "iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:FALSE",
            "-r",
        ])
        .arg(capture.path())
        .args(options)
        .output()
        .ok()?;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(str::to_owned).collect())
}

fn traffic(config: &IwarpConfig) {
    let (mut ends, capture) = relayed(config);
    ends.null();
    for count in [0, 4, 600, 70_000] {
        ends.echo(&block::bytes()[..count]);
    }
    ends.write(&block::bytes()[..100_001]);
    ends.read(100_001);
    let file = capture.lock().unwrap().file().to_vec();
    let wrong = "_ws.malformed || _ws.expert.severity >= 0x600000";
    let Some(wrong) = tshark(&file, &["-Y", wrong]) else {
        skipped();
        return;
    };
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_crcs(&file, config.crc);
    let operations = fields(&file, "iwarp_rdma.opcode");
    let [write, read_request, read_response, send] = ["0x00", "0x01", "0x02", "0x03"];
    assert_eq!(
        operations.keys().collect::<Vec<_>>(),
        [write, read_request, read_response, send]
    );
    // Each call and each reply, and each RPC-over-RDMA message.
    let xids = fields(&file, "rpcordma.xid");
    assert_eq!(xids.len(), CALLS, "{xids:?}");
    assert!(xids.values().all(|count| *count == 2), "{xids:?}");
    let kinds = fields(&file, "rpcordma.msg_type");
    let (in_message, by_chunks) = (kinds["0"], kinds["1"]);
    assert_eq!((in_message, by_chunks), (2 * CALLS - 2, 2));
}

/// Asserts that every FPDU has a good CRC, or that none has a CRC.
fn assert_crcs(file: &[u8], crc: bool) {
    let lines = tshark(file, &["-V", "-Y", "iwarp_mpa.fpdu"]).unwrap();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    let fpdus = count("ULPDU length:");
    assert!(fpdus > 2 * CALLS, "{fpdus}");
    assert_eq!(count("Bad CRC32"), 0);
    assert_eq!(count("Good CRC32"), if crc { fpdus } else { 0 });
}

/// Returns the values of a field, and the number of occurrences of each.
fn fields(file: &[u8], name: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for line in tshark(file, &["-T", "fields", "-e", name]).unwrap() {
        for value in line.split(',').filter(|value| !value.is_empty()) {
            *found.entry(value.to_owned()).or_default() += 1;
        }
    }
    found
}

/// Records for the summary of `.ci/run` that tshark is not installed.
fn skipped() {
    eprintln!("skipped: there is no tshark");
    if let Some(notes) = std::env::var_os("RPCRDMA_SKIPPED") {
        let notes = OpenOptions::new().create(true).append(true).open(notes);
        writeln!(notes.unwrap(), "captures: there is no tshark").unwrap();
    }
}

#[test]
fn with_crc() {
    traffic(&IwarpConfig::default());
}

#[test]
fn without_crc_in_short_segments() {
    traffic(&IwarpConfig {
        crc: false,
        max_fpdu: Some(1400),
        ..IwarpConfig::default()
    });
}
