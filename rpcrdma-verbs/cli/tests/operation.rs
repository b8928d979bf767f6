//! The operation of a server: metrics, settings that change at run time, and the files of
//! `deploy/`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rpcrdma"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

fn rpcrdma(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns a port without a listener.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Prints that a test is skipped, and records it if the repository's checks request that.
fn skip(what: &str) {
    eprintln!("skipped: {what}");
    if let Some(path) = std::env::var_os("RPCRDMA_SKIPPED") {
        let mut file = fs::File::options().append(true).open(path).unwrap();
        writeln!(file, "{what}").unwrap();
    }
}

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy")
        .join(name)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A server that is killed at the end of the test.
struct Server {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn new(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Starts an NFS server with its own key. Returns it with the TCP port of its first line.
    fn nfs(folder: &Path, options: &[&str]) -> (Self, String) {
        let key = folder.join("key");
        let mut command = command(&["nfs", "serve", "--tcp", "127.0.0.1:0"]);
        if !options.contains(&"--memory") {
            command.arg("--key").arg(key);
        }
        let mut server = Self::new(command.args(options));
        let line = server.line();
        let (_, rest) = line.split_once("tcp=127.0.0.1:").unwrap();
        let port = rest.split(' ').next().unwrap().to_owned();
        (server, port)
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// Reads lines until one starts with `start`.
    fn line_with(&mut self, start: &str) -> String {
        loop {
            let line = self.line();
            if line.starts_with(start) {
                return line;
            }
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends the server, and returns its errors.
    fn end(mut self) -> String {
        self.signal("-TERM");
        self.lines.by_ref().for_each(drop);
        let mut errors = String::new();
        let stderr = self.process.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        assert!(self.process.wait().unwrap().success(), "{errors}");
        errors
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
    }
}

/// Sends bytes to a port, and returns the complete response.
fn exchange(port: u16, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // A server that refuses the request may have closed the connection.
    let _ = stream.write_all(request);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Runs `rpcrdma nfs ls` on a path, and returns true if it could be mounted.
fn lists(port: &str, path: &str) -> bool {
    let server = format!("127.0.0.1:{path}");
    let listed = rpcrdma(&["nfs", "ls", "--tcp", port, &server]);
    listed.status.success()
}

#[test]
fn stat_shows_the_metrics_of_nfs_serve() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let metrics = format!("--metrics=127.0.0.1:{port}");
    let (server, nfs) = Server::nfs(folder.path(), &["--memory", "--rdma=127.0.0.1:0", &metrics]);
    assert!(lists(&nfs, "/"));
    let address = format!("127.0.0.1:{port}");
    let output = rpcrdma(&["stat", &address]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}");
    for part in [
        "calls served",
        "MNT (MOUNT 100005.3)",
        "READDIRPLUS (NFS 100003.3)",
        "rpc_server_connections_accepted_total server=nfs",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    let arguments = [
        "stat",
        "--json",
        &address,
        "--interval",
        "50ms",
        "--count",
        "2",
    ];
    let output = rpcrdma(&arguments);
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    let metric = |line: &Value, name: &str| {
        let metrics = line["metrics"].as_array().unwrap();
        let found = metrics.iter().find(|metric| metric["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {line}")).clone()
    };
    let accepted = "rpc_server_connections_accepted_total";
    assert_eq!(metric(&lines[0], accepted)["per_second"], Value::Null);
    assert_eq!(metric(&lines[1], accepted)["per_second"], 0.0);
    assert_eq!(metric(&lines[1], accepted)["kind"], "counter");
    // The drivers publish their metrics within a second.
    let limit = metric(&lines[1], "rdma_registered_limit_bytes");
    assert_eq!(limit["labels"]["driver"], "nfs-0");
    server.end();

    let output = rpcrdma(&["stat", &address, "--timeout", "1s"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with(&format!("rpcrdma: {address}: ")));
}

#[test]
fn stat_shows_the_metrics_of_serve() {
    let (rdma, metrics) = (free_port(), free_port());
    let bind = format!("127.0.0.1:{rdma}");
    let option = format!("--metrics=127.0.0.1:{metrics}");
    let mut server = Server::new(&mut command(&["serve", "--bind", &bind, &option]));
    server.line();
    let ping = rpcrdma(&[
        "ping",
        "--connect",
        &bind,
        "--count",
        "3",
        "--interval",
        "0",
    ]);
    assert!(ping.status.success());
    let address = format!("127.0.0.1:{metrics}");
    let began = Instant::now();
    // The driver's metrics are published once a second.
    loop {
        let shown = text(&rpcrdma(&["stat", &address]).stdout);
        if shown.contains("ECHO (0x20524d41.1)") && shown.contains("rdma_sends_total driver=serve")
        {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{shown}");
    }
    server.end();
}

#[test]
fn stat_reports_servers_without_metrics() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let output = rpcrdma(&["stat", &address, "--timeout", "200ms"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("timed out"));
    let other = std::thread::spawn(move || {
        // The connection before has ended.
        drop(silent.accept().unwrap());
        let (mut stream, _) = silent.accept().unwrap();
        // Unread data would reset the connection at its end.
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    });
    let output = rpcrdma(&["stat", &address]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is not HTTP"));
    other.join().unwrap();
    assert_eq!(rpcrdma(&["stat", "a b"]).status.code(), Some(2));
    assert_eq!(rpcrdma(&["stat", "--count", "2"]).status.code(), Some(2));
}

/// No request harms the server.
#[test]
fn requests_for_metrics_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let metrics = format!("--metrics=127.0.0.1:{port}");
    let (server, _) = Server::nfs(folder.path(), &["--memory", &metrics]);
    let get = |target: &str| exchange(port, format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes());
    for (answer, start) in [
        (get("/metrics"), "HTTP/1.1 200 OK\r\n"),
        (get("/"), "HTTP/1.1 404 Not Found\r\n"),
        (
            exchange(port, b"DELETE / HTTP/1.1\r\n\r\n"),
            "HTTP/1.1 405 ",
        ),
        (exchange(port, b"\xff\xfe"), "HTTP/1.1 400 "),
        (exchange(port, b""), "HTTP/1.1 400 "),
    ] {
        assert!(answer.starts_with(start), "{start}: {answer}");
    }
    let head = exchange(port, b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    exchange(port, &vec![b'a'; 1 << 20]);
    // A silent client blocks others for at most two seconds.
    let silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert!(get("/metrics").contains("# TYPE rpc_server_connections gauge"));
    drop(silent);
    server.end();
}

/// Runs promtool of Debian's package `prometheus`, if it is installed.
fn promtool(arguments: &[&str], input: &str) -> Option<Output> {
    let program = std::env::var_os("PROMTOOL").unwrap_or_else(|| "promtool".into());
    let mut command = Command::new(program);
    let command = command.args(arguments).stdin(Stdio::piped());
    let Ok(mut process) = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    else {
        skip("operation: promtool is not installed (Debian: prometheus)");
        return None;
    };
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    Some(process.wait_with_output().unwrap())
}

#[test]
fn prometheus_accepts_metrics_and_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let metrics = format!("--metrics=127.0.0.1:{port}");
    let (server, nfs) = Server::nfs(folder.path(), &["--memory", "--rdma=127.0.0.1:0", &metrics]);
    assert!(lists(&nfs, "/"));
    let answer = exchange(port, b"GET /metrics HTTP/1.0\r\n\r\n");
    let (_, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(page.contains("rpc_server_call_seconds_bucket{"), "{page}");
    server.end();
    let (config, rules) = (deploy("prometheus.yml"), deploy("rpcrdma.rules.yml"));
    for (arguments, input) in [
        (["check", "metrics"].to_vec(), page),
        (["check", "config", config.to_str().unwrap()].to_vec(), ""),
        (["check", "rules", rules.to_str().unwrap()].to_vec(), ""),
    ] {
        let Some(output) = promtool(&arguments, input) else {
            return;
        };
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", text(&said));
    }
    // Each metric of a rule exists.
    let rules = fs::read_to_string(rules).unwrap();
    let documented = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = rules.split(|c| !is_name(c));
    let names = words.filter(|word| word.starts_with("rpc_") || word.starts_with("rdma_"));
    for name in names {
        let name = name.trim_end_matches("_bucket");
        assert!(documented.contains(name), "{name}");
    }
}

/// Writes a configuration with these export names, each of which is a folder beside the file.
fn configure(folder: &Path, limits: &str, exports: &[&str]) {
    let mut text = limits.to_owned();
    for name in exports {
        let dir = folder.join(name);
        fs::create_dir_all(&dir).unwrap();
        text += &format!("[[export]]\npath = \"/{name}\"\ndir = {dir:?}\n");
    }
    fs::write(folder.join("nfs.toml"), text).unwrap();
}

#[test]
fn a_signal_reloads_exports_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    configure(folder, "", &["a", "b"]);
    let file = folder.join("nfs.toml");
    let file = file.to_str().unwrap();
    let key = tempfile::tempdir().unwrap();
    let (mut server, port) = Server::nfs(key.path(), &["--config", file]);
    assert!(lists(&port, "/a") && lists(&port, "/b") && !lists(&port, "/c"));

    configure(folder, "", &["b", "c"]);
    server.signal("-HUP");
    assert_eq!(server.line_with("reloaded"), "reloaded exports=2");
    assert!(!lists(&port, "/a") && lists(&port, "/b") && lists(&port, "/c"));

    // Nothing is applied from a file with a mistake.
    for wrong in [
        "[limits]\nmax_conections = 1\n".to_owned(),
        "[limits]\nmax_connections = 0\n".to_owned(),
        format!(
            "[[export]]\npath = \"/d\"\ndir = {:?}\n",
            folder.join("none")
        ),
    ] {
        configure(folder, &wrong, &["a"]);
        server.signal("-HUP");
    }
    // The server has processed the earlier signals once it has processed the next one.
    let taken = Instant::now();
    while !text_of_errors(&mut server).contains("none: ") {
        assert!(taken.elapsed() < Duration::from_secs(20));
    }
    assert!(!lists(&port, "/a") && lists(&port, "/b"));

    // With a limit of one connection, a second one is closed.
    configure(folder, "[limits]\nmax_connections = 1\n", &["b"]);
    server.signal("-HUP");
    assert_eq!(server.line_with("reloaded"), "reloaded exports=1");
    let taken: u16 = port.parse().unwrap();
    let first = TcpStream::connect(("127.0.0.1", taken)).unwrap();
    let second = TcpStream::connect(("127.0.0.1", taken)).unwrap();
    second
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    assert_eq!((&second).read(&mut [0]).unwrap(), 0);
    configure(folder, "", &["b"]);
    server.signal("-HUP");
    assert_eq!(server.line_with("reloaded"), "reloaded exports=1");
    assert!(lists(&port, "/b"));
    drop(first);
    server.end();
}

#[test]
fn a_reload_refuses_a_directory_with_two_paths() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    configure(folder, "", &["a"]);
    let file = folder.join("nfs.toml");
    let key = tempfile::tempdir().unwrap();
    let options = ["--config", file.to_str().unwrap()];
    let (mut server, port) = Server::nfs(key.path(), &options);
    let dir = folder.join("a");
    let twice = format!("[[export]]\npath = \"/b\"\ndir = {dir:?}\n");
    configure(folder, &twice, &["a"]);
    let errors = BufReader::new(server.process.stderr.take().unwrap());
    let (line, lines) = mpsc::channel();
    std::thread::spawn(move || {
        errors
            .lines()
            .map_while(Result::ok)
            .try_for_each(|text| line.send(text))
    });
    server.signal("-HUP");
    let is_refused = |line: String| line.contains("have the same directory");
    while !is_refused(lines.recv_timeout(Duration::from_secs(20)).unwrap()) {}
    assert!(lists(&port, "/a") && !lists(&port, "/b"));
}

/// Reads a part of a server's standard error.
fn text_of_errors(server: &mut Server) -> String {
    let mut part = [0; 4096];
    let stderr = server.process.stderr.as_mut().unwrap();
    let count = stderr.read(&mut part).unwrap();
    text(&part[..count])
}

#[test]
fn check_config_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = folder.join("nfs.toml");
    let file = file.to_str().unwrap();
    let check = |more: &[&str]| {
        let arguments = ["nfs", "serve", "--config", file, "--check-config"];
        let output = rpcrdma(&[&arguments[..], more].concat());
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), text(&said))
    };
    configure(folder, "", &["a"]);
    let valid = "the configuration is valid: exports=1\n".to_owned();
    assert_eq!(check(&[]), (Some(0), valid));
    // Nothing was created.
    assert_eq!(fs::read_dir(folder).unwrap().count(), 2);
    let (status, said) = check(&["--memory"]);
    assert_eq!(status, Some(2), "{said}");
    let twice = format!("[[export]]\npath = \"/b\"\ndir = {:?}\n", folder.join("a"));
    configure(folder, &twice, &["a"]);
    let (status, said) = check(&[]);
    let names_both = said.contains("export /b (") && said.contains("export /a (");
    assert!(status == Some(1) && names_both, "{said}");
    configure(folder, "", &["a"]);
    fs::remove_dir(folder.join("a")).unwrap();
    let (status, said) = check(&[]);
    assert!(status == Some(1) && said.contains("No such file"), "{said}");
    configure(folder, "[limits]\nmax_bytes = \"1X\"\n", &[]);
    let (status, said) = check(&[]);
    assert!(
        status == Some(1) && said.contains("line 2, column 13"),
        "{said}"
    );
    configure(folder, "", &[]);
    assert_eq!(check(&[]).0, Some(2));
    assert_eq!(check(&["--memory"]).0, Some(0));
    let output = rpcrdma(&["nfs", "serve", "--config", "/nowhere/nfs.toml"]);
    assert_eq!(output.status.code(), Some(1));
    let output = rpcrdma(&["nfs", "serve", "--check-config", "--memory"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Arguments that a configuration file would override are errors, unless it has only limits.
#[test]
fn settings_of_the_file_are_not_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    configure(folder, "", &["a"]);
    let file = folder.join("nfs.toml");
    let serve = ["nfs", "serve", "--config"];
    // The arguments are checked before a file is read.
    let files = [file.to_str().unwrap(), "/nowhere/nfs.toml"];
    for (argument, name) in [
        ("--export=/b", "--export"),
        ("--size=1M", "--memory"),
        ("--squash=all", "--squash"),
        ("--anonuid=7", "--anonuid"),
        ("--anongid=7", "--anongid"),
        ("--read-only", "--read-only"),
        ("--network=192.0.2.1", "--network"),
        ("--async", "--async"),
    ] {
        for (file, check) in files.into_iter().zip([Some("--check-config"), None]) {
            let output = command(&serve).args([file, argument]).args(check).output();
            let output = output.unwrap();
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{argument}: {error}");
            assert!(error.contains(name), "{argument}: {error}");
        }
    }
    configure(folder, "", &[]);
    let more = ["--check-config", "--memory", "--export=/b", "--size=1M"];
    let more = [&files[..1], &more].concat();
    assert!(rpcrdma(&[&serve[..], &more].concat()).status.success());
}

#[test]
fn the_service_manager_is_notified() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut command = command(&["nfs", "serve", "--memory", "--tcp", "127.0.0.1:0"]);
    let mut server = Server::new(command.env("NOTIFY_SOCKET", &socket));
    let told = || {
        let mut state = [0; 64];
        let length = manager.recv(&mut state).unwrap();
        text(&state[..length])
    };
    server.line();
    assert_eq!(told(), "READY=1");
    server.end();
    assert_eq!(told(), "STOPPING=1");
}

#[test]
fn a_traffic_class_is_a_byte() {
    let ping = |class: &str| {
        let arguments = [
            "ping",
            "--connect",
            "::1",
            "--count",
            "1",
            "--timeout",
            "100ms",
        ];
        rpcrdma(&[&arguments[..], &["--traffic-class", class]].concat())
    };
    for class in ["256", "-1", "af11", "0x100", ""] {
        assert_eq!(ping(class).status.code(), Some(2), "{class}");
    }
    let port = free_port();
    let bind = format!("127.0.0.1:{port}");
    let mut server = Server::new(&mut command(&["serve", "--bind", &bind, "--tos", "0x68"]));
    server.line();
    let ping = [
        "ping",
        "--connect",
        &bind,
        "--count",
        "1",
        "--traffic-class",
        "104",
    ];
    assert!(rpcrdma(&ping).status.success());
    server.end();
}

#[test]
fn the_example_configuration_has_every_default() {
    let example = fs::read_to_string(deploy("nfs.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let served = folder.path().to_str().unwrap();
    for name in ["data", "public"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let local = example.replace("/srv/", &format!("{served}/"));
    let file = folder.path().join("nfs.toml");
    fs::write(&file, local).unwrap();
    let arguments = [
        "nfs",
        "serve",
        "--check-config",
        "--config",
        file.to_str().unwrap(),
    ];
    assert_eq!(
        text(&rpcrdma(&arguments).stdout),
        "the configuration is valid: exports=2\n"
    );
    // Each setting is documented on the page.
    let page = fs::read_to_string(root().join("docs/deployment.md")).unwrap();
    let settings = example.lines().filter_map(|line| line.split_once(" = "));
    for (name, _) in settings {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

/// Returns a folder with the units, which run the built command.
fn units() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let names = ["rpcrdma-nfs.service", "rpcrdma-serve.service"];
    let units = names.map(|name| {
        let unit = fs::read_to_string(deploy(name)).unwrap();
        assert!(unit.contains("=/usr/bin/rpcrdma "), "{name}");
        let unit = unit.replace("/usr/bin/rpcrdma", env!("CARGO_BIN_EXE_rpcrdma"));
        let path = folder.path().join(name);
        fs::write(&path, unit).unwrap();
        path
    });
    (folder, units.to_vec())
}

#[test]
fn units_are_valid_and_hardened() {
    let analyze = |arguments: &[&str], unit: &Path| {
        let mut command = Command::new("systemd-analyze");
        let command = command
            .args(arguments)
            .arg(unit)
            .env("SYSTEMD_PAGER", "cat");
        command.output().ok()
    };
    let (_folder, units) = units();
    for (unit, exposure) in units.iter().zip(["--threshold=35", "--threshold=20"]) {
        let Some(verified) = analyze(&["verify", "--man=no"], unit) else {
            return skip("operation: systemd-analyze is not installed (Debian: systemd)");
        };
        let said = text(&[verified.stdout, verified.stderr].concat());
        let name = unit.file_name().unwrap().to_str().unwrap();
        assert!(verified.status.success() && !said.contains(name), "{said}");
        let secured = analyze(&["security", "--offline=true", exposure], unit).unwrap();
        let said = text(&[secured.stdout, secured.stderr].concat());
        assert!(secured.status.success(), "{said}");
    }
}

/// Runs the commands of the units until they report a missing file.
#[test]
fn units_use_existing_arguments() {
    let (_folder, units) = units();
    let mut count = 0;
    for unit in units {
        let unit = fs::read_to_string(unit).unwrap();
        assert!(unit.contains("\nLimitMEMLOCK=infinity\n"));
        let lines = unit.lines().filter_map(|line| line.split_once('='));
        let lines = lines.filter(|(key, _)| key.starts_with("Exec"));
        for (_, line) in lines.filter(|(_, line)| !line.starts_with("/bin/kill")) {
            let mut words = line.split(' ');
            let output = Command::new(words.next().unwrap())
                .args(words)
                .arg("--help")
                .output();
            assert!(output.unwrap().status.success(), "{line}");
            count += 1;
        }
    }
    assert_eq!(count, 3);
}

/// No container is built here: the test checks that the named files exist.
#[test]
fn the_container_uses_existing_files() {
    let file = fs::read_to_string(deploy("Containerfile")).unwrap();
    let joined = file.replace("\\\n", " ");
    // What the checks install to build rdma-core, and what the page on devices installs.
    let checks = fs::read_to_string(root().join("tests/features.bash")).unwrap();
    let devices = fs::read_to_string(root().join("docs/devices.md")).unwrap();
    let mut packages = 0;
    for line in joined.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if words.first() == Some(&"COPY") && !words[1].starts_with("--from") {
            for path in &words[1..words.len() - 1] {
                assert!(root().join(path).exists(), "{path}");
            }
        }
        let install = words
            .windows(2)
            .position(|two| two == ["apt-get", "install"]);
        let Some(install) = install else { continue };
        let names = words[install + 2..]
            .iter()
            .take_while(|word| **word != "&&");
        for name in names.filter(|word| !word.starts_with('-')) {
            packages += 1;
            // Debian 12 has runtime libraries with these names.
            let is_known = checks.contains(name) || devices.contains(name);
            assert!(
                is_known || ["libibverbs1", "librdmacm1"].contains(name),
                "{name}"
            );
        }
    }
    assert_eq!(packages, 13);
    let (_, command) = joined.split_once("\nCMD [").unwrap();
    let command: Vec<String> = serde_json::from_str(&format!("[{}", command.trim())).unwrap();
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    assert!(
        rpcrdma(&[&command[..], &["--help"]].concat())
            .status
            .success()
    );
}
