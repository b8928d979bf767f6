//! Collects the metrics of the example by HTTP, and checks them with promtool and Prometheus.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A process that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the example, and returns it with the address of its metrics.
fn start() -> (Running, String) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_kv-metrics"))
        .args(["--metrics", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = process.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("metrics at http://");
    let address = address.and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    (Running(process), address)
}

/// Returns the header and the body of a response.
fn get(address: &str, target: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// Asks repeatedly until there is an answer.
#[track_caller]
fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns a program of Debian's package `prometheus`: the one that a variable names, or the one
/// that is installed. If there is none, records that the calling test is skipped.
fn program(variable: &str, name: &str) -> Option<Command> {
    let program = std::env::var_os(variable).unwrap_or_else(|| name.into());
    let version = Command::new(&program).arg("--version").output();
    if version.is_ok_and(|output| output.status.success()) {
        return Some(Command::new(program));
    }
    let note = format!("kv-metrics: {name} is not installed (Debian: prometheus)");
    eprintln!("skipped: {note}");
    if let Some(notes) = std::env::var_os("RPCRDMA_SKIPPED") {
        let mut notes = fs::File::options().append(true).open(notes).unwrap();
        writeln!(notes, "{note}").unwrap();
    }
    None
}

#[test]
fn promtool_accepts_the_page() {
    let (_example, address) = start();
    // One call in 16 is timed, and a server publishes once per second.
    let late = [
        "rpc_server_call_seconds_bucket{program=\"536870928\"",
        "rdma_connections{driver=\"kv-0\"} 1",
    ];
    let (head, body) = wait_for("calls that are timed, and a connection", || {
        let page = get(&address, "/metrics")?;
        late.iter()
            .all(|part| page.1.contains(part))
            .then_some(page)
    });
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for part in [
        "# TYPE rpc_client_calls_total counter",
        "# TYPE rdma_registered_bytes gauge",
        "rpc_server_connections{server=\"kv\"} 2",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    let Some(mut promtool) = program("PROMTOOL", "promtool") else {
        return;
    };
    let promtool = promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    let promtool = promtool.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = promtool.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(body.as_bytes()).unwrap();
    drop(stdin);
    let output = process.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // A complaint about a metric does not always change the status.
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn clients_that_send_nothing_do_no_harm() {
    let (_example, address) = start();
    let silent = TcpStream::connect(&address).unwrap();
    drop(TcpStream::connect(&address).unwrap());
    assert!(get(&address, "/metrics").is_some());
    drop(silent);
    assert!(get(&address, "/metrics").is_some());
}

/// A server of Prometheus that collects from an address ten times per second.
struct Prometheus {
    address: String,
    _process: Running,
}

impl Prometheus {
    fn start(mut command: Command, folder: &Path, target: &str) -> Self {
        let rules = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../rpcrdma-verbs/cli/deploy/rpcrdma.rules.yml")
            .canonicalize()
            .unwrap();
        let config = format!(
            "global: {{scrape_interval: 100ms, evaluation_interval: 100ms}}\n\
            scrape_configs: [{{job_name: kv, static_configs: [{{targets: [{target:?}]}}]}}]\n\
            rule_files: [{rules:?}]\n"
        );
        let file = folder.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let option = |name: &str, value: &str| format!("--{name}={value}");
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = command
            .arg(option("config.file", file.to_str().unwrap()))
            .arg(option("storage.tsdb.path", folder.to_str().unwrap()))
            .arg(option("web.listen-address", &address))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Self {
            address,
            _process: Running(process.unwrap()),
        }
    }

    /// Returns the data of a response of its API.
    fn api(&self, target: &str) -> Option<Value> {
        let (_, body) = get(&self.address, &format!("/api/v1/{target}"))?;
        // The response has chunks where it is long: the whole is one object.
        let object = &body[body.find('{')?..=body.rfind('}')?];
        let response: Value = serde_json::from_str(object).ok()?;
        (response["status"] == "success").then(|| response["data"].clone())
    }

    /// Returns the value of a query with one result.
    fn query(&self, query: &str) -> Option<f64> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let data = self.api(&format!("query?query={encoded}"))?;
        data["result"].as_array()?.first()?["value"][1]
            .as_str()?
            .parse()
            .ok()
    }
}

#[test]
fn prometheus_collects_the_metrics() {
    let Some(command) = program("PROMETHEUS", "prometheus") else {
        return;
    };
    let (_example, address) = start();
    let folder = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(command, folder.path(), &address);
    let log = || fs::read_to_string(folder.path().join("log")).unwrap();
    let positive = |query: &str| {
        wait_for(&format!("{query}: {}", log()), || {
            prometheus.query(query).filter(|value| *value > 0.0)
        })
    };
    assert_eq!(positive("up"), 1.0);
    assert_eq!(positive("rpc_server_connections"), 2.0);
    // Two samples are in a rate, and calls of both transports: PUT and GET of two clients.
    let calls = "rpc_server_calls_total{program=\"536870928\",status=\"success\"}";
    positive(&format!("sum(rate({calls}[10s]))"));
    assert_eq!(positive(&format!("count({calls})")), 2.0);
    positive("rate(rdma_sends_total{driver=\"kv-0\"}[10s])");
    let bytes = "rpc_server_received_bytes_total";
    assert!(positive(bytes) > 10_000.0);
    let slow = "histogram_quantile(0.99,sum by (le) (rate(rpc_server_call_seconds_bucket[10s])))";
    assert!(positive(slow) < 10.0);

    // The rules of the commands are for the metrics of the libraries: each can be evaluated.
    let rules = wait_for("rules that were evaluated", || {
        let data = prometheus.api("rules")?;
        let rules = data["groups"][0]["rules"].as_array()?.clone();
        let known = |rule: &Value| rule["health"] != "unknown";
        rules.iter().all(known).then_some(rules)
    });
    assert_eq!(rules.len(), 4);
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}
