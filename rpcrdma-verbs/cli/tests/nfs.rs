//! `rpcrdma nfs` over TCP: the output, service and shutdown of the server, and its clients.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rpcrdma_nfs::mount3::Mountstat3;
use rpcrdma_nfs::mount3::mount_program::mount_v3;
use rpcrdma_nfs::mount3::owned::Mountres3;
use rpcrdma_nfs::nfs3::nfs_program::nfs_v3;
use rpcrdma_nfs::nfs3::{Diropargs3, Mkdir3args, NfsFh3, Nfsstat3, Sattr3};
use rpcrdma_nfs::oncrpc::xdr::{Opaque, Text};
use rpcrdma_nfs::oncrpc::{AuthSys, CallOptions, Channel, tcp};
#[cfg(target_os = "linux")]
use rpcrdma_nfs::{HandleKey, HostConfig, HostFileSystem};

fn rpcrdma() -> Command {
    Command::new(env!("CARGO_BIN_EXE_rpcrdma"))
}

/// Prints that a test is skipped, and records it if the repository's checks request that.
fn skip(what: &str) {
    eprintln!("skipped: {what}");
    if let Some(path) = std::env::var_os("RPCRDMA_SKIPPED") {
        let mut file = File::options().append(true).open(path).unwrap();
        writeln!(file, "{what}").unwrap();
    }
}

/// A server that is killed at the end of the test.
struct Running {
    process: Child,
    output: BufReader<ChildStdout>,
    address: String,
    /// The RDMA address, if RDMA is served.
    rdma: Option<String>,
}

impl Running {
    /// Starts a server at any free port, and reads its first line.
    fn new(options: &[&str]) -> Self {
        Self::by(rpcrdma(), options).unwrap()
    }

    /// Starts a server by a command that runs `rpcrdma`. Returns `None` if it prints nothing.
    fn by(mut command: Command, options: &[&str]) -> Option<Self> {
        let mut process = command
            .args(["nfs", "serve", "--export", "/data", "--tcp", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        if line.is_empty() {
            process.wait().unwrap();
            return None;
        }
        let address = line.strip_prefix("listening tcp=").unwrap();
        let (address, export) = address.split_once(' ').unwrap();
        let over_rdma = export
            .strip_prefix("rdma=")
            .map(|rest| rest.split_once(" device=iwarp ").unwrap());
        let export = over_rdma.map_or(export, |(_, export)| export);
        assert_eq!(export, "export=/data\n");
        Some(Self {
            rdma: over_rdma.map(|(rdma, _)| rdma.to_owned()),
            address: address.to_owned(),
            process,
            output,
        })
    }

    /// Returns a client of the server, and the handle of its root.
    async fn mounted(&self) -> (nfs_v3::Client<Channel>, Vec<u8>) {
        let channel = tcp::connect(&self.address).await.unwrap();
        let options = CallOptions::DEFAULT.credentials(AuthSys::new("tester"));
        let mount = mount_v3::Client::new(channel.clone()).with_options(options.clone());
        let nfs = nfs_v3::Client::new(channel).with_options(options);
        let Mountres3::Ok(root) = mount.mnt(&Text::new("/data").unwrap()).await.unwrap() else {
            panic!("can't be mounted");
        };
        (nfs, root.fhandle.into_inner())
    }

    fn terminate(mut self) -> (bool, Option<String>) {
        signal(&self.process, "-TERM");
        let last = self.output.by_ref().lines().last();
        (
            self.process.wait().unwrap().success(),
            last.map(Result::unwrap),
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
    }
}

/// Returns true if processes like this one can open kernel handles.
#[cfg(target_os = "linux")]
fn may_open_handles() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let config = HostConfig::new(HandleKey::random().unwrap());
    HostFileSystem::open(dir.path(), config)
        .unwrap()
        .keeps_handles()
}

async fn make_dir(nfs: &nfs_v3::Client<Channel>, root: &[u8], name: &str) -> Nfsstat3 {
    let args = Mkdir3args {
        r#where: Diropargs3 {
            dir: NfsFh3 {
                data: Opaque::new(root).unwrap(),
            },
            name: Text::new(name).unwrap(),
        },
        attributes: Sattr3::UNSET,
    };
    nfs.mkdir(&args).await.unwrap().status()
}

#[tokio::test]
async fn a_server_offers_mount_and_nfs_until_sigterm() {
    let server = Running::new(&["--memory"]);
    let (nfs, root) = server.mounted().await;
    assert_eq!(make_dir(&nfs, &root, "dir").await, Nfsstat3::Ok);
    // The client stays connected: the server closes its side.
    assert_eq!(server.terminate(), (true, Some("drained".to_owned())));
}

/// The server starts even without an rpcbind.
#[tokio::test]
async fn clients_of_a_network_are_squashed_to_a_user() {
    let squashed = ["--squash=all", "--anonuid=7", "--anongid=8", "--rpcbind"];
    let local = ["--memory", "--network=192.0.2.0/24", "--network=127.0.0.1"];
    let server = Running::new(&[&squashed[..], &local].concat());
    let (nfs, root) = server.mounted().await;
    // Every user may create files in the root.
    assert_eq!(make_dir(&nfs, &root, "dir").await, Nfsstat3::Ok);
    let listed = String::from_utf8(output_of(&server, "ls", &["127.0.0.1:/data"])).unwrap();
    let words: Vec<_> = listed.split_whitespace().collect();
    assert_eq!((words[2], words[3]), ("7", "8"), "{listed}");
    let elsewhere = Running::new(&["--memory", "--network=192.0.2.0/24"]);
    let channel = tcp::connect(&elsewhere.address).await.unwrap();
    let options = CallOptions::DEFAULT.credentials(AuthSys::new("tester"));
    let mount = mount_v3::Client::new(channel).with_options(options);
    let refused = mount.mnt(&Text::new("/data").unwrap()).await.unwrap();
    assert_eq!(refused, Mountres3::Default(Mountstat3::Acces));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_directory_is_served_with_the_same_handles_after_a_restart() {
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let key = state.path().join("key");
    let options = [dir.path(), "--squash=none".as_ref(), "--key".as_ref(), &key];
    let options = options.map(|option| option.to_str().unwrap());
    let mut roots = Vec::new();
    for name in ["first", "second"] {
        let server = Running::new(&options);
        let (nfs, root) = server.mounted().await;
        assert_eq!(make_dir(&nfs, &root, name).await, Nfsstat3::Ok);
        assert!(dir.path().join(name).is_dir());
        roots.push(root);
        assert!(server.terminate().0);
    }
    if may_open_handles() {
        assert_eq!(roots[0], roots[1]);
    }
    let read_only = Running::new(&[&options[..], &["--read-only"]].concat());
    let (nfs, root) = read_only.mounted().await;
    assert_eq!(make_dir(&nfs, &root, "third").await, Nfsstat3::Rofs);
}

fn refused(options: &[&str]) -> String {
    let args = ["nfs", "serve", "--tcp", "127.0.0.1:0"];
    let Output { status, stderr, .. } = rpcrdma().args(args).args(options).output().unwrap();
    assert!(!status.success());
    String::from_utf8(stderr).unwrap()
}

#[test]
fn server_errors_are_specific() {
    assert!(refused(&["--memory", "--export", "data"]).contains("data is not an absolute path"));
    assert!(refused(&["--memory", "--rdma=nowhere"]).contains("nowhere is not an address"));
    assert!(refused(&["--memory", "--spin", "50"]).contains("50 has no unit"));
    assert!(refused(&["--memory", "--device", "nosuch0"]).contains("nosuch0"));
    assert!(refused(&["--memory", "--squash", "some"]).contains("some is none of"));
    assert!(refused(&["--memory", "--network", "192.0.2.1/24"]).contains("bits beyond"));
    assert!(refused(&["--memory", "/"]).contains("--memory"));
    assert!(refused(&[]).contains("DIR"));
}

/// The options that all subcommands share are documented elsewhere.
#[test]
fn each_option_of_the_server_is_documented() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/nfs.md");
    let page = std::fs::read_to_string(page).unwrap();
    let help = rpcrdma().args(["nfs", "serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let words = help.lines().map(|line| line.trim_start());
    let options = words.filter(|line| line.starts_with("--"));
    let is_end = |c: char| c != '-' && !c.is_ascii_lowercase();
    let names: Vec<_> = options
        .map(|line| line.split(is_end).next().unwrap())
        .collect();
    assert!(names.len() > 15, "{help}");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<_> = rows.collect();
    for name in names {
        let is_named = |row: &&str| row.contains(&format!("`{name}"));
        assert!(rows.iter().any(is_named), "{name}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn directory_errors_are_specific() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (none, key) = (path("none"), path("key"));
    assert!(refused(&[&none, "--key", &key]).contains("none: No such file"));
    std::fs::write(path("bad"), "short").unwrap();
    assert!(refused(&["/usr", "--key", &path("bad")]).contains("16 bytes"));
    let inside = refused(&[dir.path().to_str().unwrap(), "--key", &key]);
    assert!(
        inside.contains("in the directory that is served"),
        "{inside}"
    );
}

/// Runs a client command with a server.
fn client(server: &Running, command: &str, arguments: &[&str]) -> Output {
    let port = server.address.rsplit_once(':').unwrap().1;
    let mut client = rpcrdma();
    client.args(["nfs", command, "--tcp", port]);
    if let Some(rdma) = &server.rdma {
        let port = rdma.rsplit_once(':').unwrap().1;
        client.arg(format!("--rdma={port}"));
    }
    client.args(arguments).output().unwrap()
}

/// Returns the output of a client command that succeeds.
fn output_of(server: &Running, command: &str, arguments: &[&str]) -> Vec<u8> {
    let output = client(server, command, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {arguments:?}: {error}");
    output.stdout
}

#[test]
fn files_are_copied_listed_and_printed() {
    assert_files_round_trip(&Running::new(&["--memory"]));
}

/// Over iWARP, which needs no device.
#[test]
fn files_are_copied_listed_and_printed_over_rdma() {
    let server = Running::new(&["--memory", "--rdma=127.0.0.1:0", "--spin", "1ms"]);
    assert!(server.rdma.is_some());
    assert_files_round_trip(&server);
}

fn assert_files_round_trip(server: &Running) {
    let here = tempfile::tempdir().unwrap();
    let path = |name: &str| here.path().join(name).to_str().unwrap().to_owned();
    // More than one window of `cp`, and a length that is not a multiple of 4.
    let content: Vec<u8> = (0..=250).cycle().take((4 << 20) + 1021).collect();
    std::fs::write(path("big"), &content).unwrap();
    std::fs::write(path("empty"), "").unwrap();
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(path("big"), readable).unwrap();
    let copied = output_of(server, "cp", &[&path("big"), "127.0.0.1:/data"]);
    assert_eq!(copied, b"4195325 bytes copied\n");
    output_of(server, "cp", &[&path("empty"), "127.0.0.1:/data/other"]);

    let listed = String::from_utf8(output_of(server, "ls", &["127.0.0.1:/data/"])).unwrap();
    let lines: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split(' ').collect())
        .collect();
    let of = |name| {
        lines
            .iter()
            .find(|line| line.last() == Some(&name))
            .unwrap()
    };
    assert_eq!(lines.len(), 2, "{listed}");
    assert_eq!(of("big")[0], "-rw-r--r--");
    assert!(
        of("big").contains(&"4195325") && of("other").contains(&"0"),
        "{listed}"
    );
    let one = String::from_utf8(output_of(server, "ls", &["127.0.0.1:/data/big"])).unwrap();
    assert!(one.ends_with(" big\n") && one.lines().count() == 1, "{one}");

    assert!(output_of(server, "cat", &["127.0.0.1:/data/big"]) == content);
    output_of(server, "cp", &["127.0.0.1:/data/big", &path("back")]);
    assert!(std::fs::read(path("back")).unwrap() == content);
    // A shorter file replaces it.
    std::fs::write(path("short"), "short").unwrap();
    output_of(server, "cp", &[&path("short"), "127.0.0.1:/data/big"]);
    assert_eq!(output_of(server, "cat", &["127.0.0.1:/data/big"]), b"short");
}

/// A client without the right to search a directory gets its names, and NFS3ERR_ACCES for the
/// attributes of each.
#[cfg(target_os = "linux")]
#[test]
fn names_without_attributes_do_not_end_a_listing() {
    use std::os::unix::fs::PermissionsExt as _;

    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let readable = std::fs::Permissions::from_mode(0o744);
    std::fs::set_permissions(dir.path(), readable).unwrap();
    for name in ["first", "second"] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    let key = state.path().join("key");
    let options = [dir.path(), "--key".as_ref(), &key];
    let server = Running::new(&options.map(|option| option.to_str().unwrap()));
    let user = ["--uid=4321", "--gid=4321"];
    let listed = client(&server, "ls", &[&["127.0.0.1:/data"], &user[..]].concat());
    let errors = String::from_utf8(listed.stderr).unwrap();
    if listed.status.success() {
        // The server cannot act as its callers.
        return skip("nfs: ls of a directory that cannot be searched needs CAP_SETUID");
    }
    for name in ["first", "second"] {
        let error = format!("rpcrdma: {name}: NFSPROC3_LOOKUP: NFS3ERR_ACCES\n");
        assert!(errors.contains(&error), "{errors}");
    }
    assert_eq!(listed.status.code(), Some(1));
}

/// The server refuses LOOKUP of a mount point below its directory.
#[cfg(target_os = "linux")]
#[test]
fn a_mount_point_does_not_end_a_listing() {
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["a", "m", "z"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let key = state.path().join("key");
    let key = ["--key", key.to_str().unwrap(), "--squash=none"];
    let options = [&[dir.path().to_str().unwrap()], &key[..]].concat();
    let mount = "mount -t tmpfs none \"$0\"/m && exec \"$@\"";
    let mut namespace = Command::new("unshare");
    let shell = ["--mount", "sh", "-c", mount];
    namespace
        .args(shell)
        .arg(dir.path())
        .arg(rpcrdma().get_program());
    let Some(server) = Running::by(namespace, &options) else {
        return skip("nfs: ls of a mount point needs unshare and CAP_SYS_ADMIN");
    };
    let listed = client(&server, "ls", &["127.0.0.1:/data"]);
    let errors = String::from_utf8(listed.stderr).unwrap();
    assert_eq!(errors, "rpcrdma: m: NFSPROC3_LOOKUP: NFS3ERR_ACCES\n");
    assert_eq!(listed.status.code(), Some(1));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut names: Vec<_> = listed.lines().map(|line| &line[line.len() - 2..]).collect();
    names.sort_unstable();
    assert_eq!(names, [" a", " z"]);
}

/// Runs `cp` with the umask 027.
fn copy_with_umask(server: &Running, from: &str, to: &str) {
    let port = server.address.rsplit_once(':').unwrap().1;
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 027 && exec \"$0\" \"$@\""]);
    shell.arg(rpcrdma().get_program());
    let copied = shell.args(["nfs", "cp", "--tcp", port, from, to]).output();
    let copied = copied.unwrap();
    assert!(copied.status.success(), "{copied:?}");
}

/// Returns the permissions that `ls` prints for a file of a server.
fn permissions(server: &Running, file: &str) -> String {
    let listed = String::from_utf8(output_of(server, "ls", &[file])).unwrap();
    listed.split(' ').next().unwrap().to_owned()
}

#[test]
fn copies_have_the_permissions_of_their_sources() {
    use std::os::unix::fs::PermissionsExt as _;

    let server = Running::new(&["--memory"]);
    let here = tempfile::tempdir().unwrap();
    for (mode, shown, local) in [
        (0o4755, "-rwxr-x---", 0o750),
        (0o644, "-rw-r-----", 0o640),
        (0o466, "-r--r-----", 0o440),
    ] {
        let path = |name: &str| here.path().join(format!("{name}{mode:o}"));
        let [from, back] = ["from", "back"].map(path);
        std::fs::write(&from, "content").unwrap();
        let permissions_of_source = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&from, permissions_of_source).unwrap();
        let remote = format!("127.0.0.1:/data/{mode:o}");
        copy_with_umask(&server, from.to_str().unwrap(), &remote);
        assert_eq!(permissions(&server, &remote), shown, "{mode:o}");
        copy_with_umask(&server, &remote, back.to_str().unwrap());
        let copied = std::fs::metadata(&back).unwrap().permissions().mode();
        assert_eq!(copied & 0o7777, local, "{mode:o}");
        assert_eq!(std::fs::read(&back).unwrap(), b"content");
    }
    // Files that exist keep their permissions.
    let [executable, plain] = ["from4755", "back644"].map(|name| here.path().join(name));
    let remote = "127.0.0.1:/data/644";
    copy_with_umask(&server, executable.to_str().unwrap(), remote);
    assert_eq!(permissions(&server, remote), "-rw-r-----");
    copy_with_umask(&server, "127.0.0.1:/data/4755", plain.to_str().unwrap());
    let copied = std::fs::metadata(&plain).unwrap().permissions().mode();
    assert_eq!(copied & 0o7777, 0o640);
}

/// Without privileges, a server cannot write to a file whose mode forbids that.
#[cfg(target_os = "linux")]
#[test]
fn a_read_only_file_is_copied_to_a_server_without_privileges() {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    let folder = tempfile::tempdir().unwrap();
    let mut command = rpcrdma();
    if id("-u") == "0" {
        chown(folder.path(), Some(4321), Some(4321)).unwrap();
        command = Command::new("setpriv");
        command.args(["--reuid=4321", "--regid=4321", "--clear-groups"]);
        command.arg(rpcrdma().get_program());
    }
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (from, served, key) = (path("from"), path("served"), path("key"));
    std::fs::create_dir(&served).unwrap();
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&served, everybody).unwrap();
    std::fs::write(&from, "content").unwrap();
    std::fs::set_permissions(&from, std::fs::Permissions::from_mode(0o444)).unwrap();
    let Some(server) = Running::by(command, &[&served, "--key", &key]) else {
        return skip("nfs: a server without privileges needs setpriv, and to execute the command");
    };
    let remote = "127.0.0.1:/data/copy";
    output_of(&server, "cp", &[&from, remote]);
    assert!(permissions(&server, remote).starts_with("-r--"));
    assert_eq!(output_of(&server, "cat", &[remote]), b"content");
}

#[test]
fn each_operation_is_measured() {
    let server = Running::new(&["--memory"]);
    let options = [
        "127.0.0.1:/data",
        "--duration",
        "20ms",
        "--depth",
        "3",
        "--json",
    ];
    let text = String::from_utf8(output_of(&server, "bench", &options)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let names: Vec<_> = lines
        .iter()
        .map(|line| line["operation"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "null",
            "getattr",
            "lookup",
            "access",
            "readdirplus",
            "write",
            "write-stable",
            "read",
            "create",
            "remove"
        ]
    );
    for line in &lines {
        assert!(line["calls"].as_u64().unwrap() >= 3, "{line}");
        let latency = &line["latency_us"];
        assert!(latency["p50"].as_f64() <= latency["max"].as_f64(), "{line}");
    }
    assert_eq!(
        lines[8]["calls"], lines[9]["calls"],
        "all that was created is removed"
    );
    assert!(output_of(&server, "ls", &["127.0.0.1:/data"]).is_empty());
    let table = String::from_utf8(output_of(&server, "bench", &options[..3])).unwrap();
    assert_eq!(table.lines().count(), 12);
}

/// Starts a benchmark that measures each operation for this time.
fn start_bench(server: &Running, duration: &str) -> (Child, BufReader<ChildStdout>) {
    let port = server.address.rsplit_once(':').unwrap().1;
    let options = ["--depth", "3", "--json", "--timeout", "2s", "--duration"];
    let mut bench = rpcrdma()
        .args(["nfs", "bench", "127.0.0.1:/data", "--tcp", port])
        .args(options)
        .arg(duration)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(bench.stdout.take().unwrap());
    (bench, lines)
}

/// Waits until a server has the directory of a benchmark.
fn wait_for_scratch_dir(server: &Running) {
    let began = Instant::now();
    while output_of(server, "ls", &["127.0.0.1:/data"]).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}

fn signal(process: &Child, signal: &str) {
    let pid = process.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
    assert!(sent.success());
}

/// Waits for the end of a benchmark, and returns its status and its errors.
fn end_of(mut bench: Child) -> (Option<i32>, String) {
    let mut errors = String::new();
    let stderr = bench.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    (bench.wait().unwrap().code(), errors)
}

#[test]
fn a_signal_ends_a_benchmark_and_removes_its_directory() {
    let server = Running::new(&["--memory"]);
    // The first operation is in progress.
    let (bench, _lines) = start_bench(&server, "1m");
    wait_for_scratch_dir(&server);
    signal(&bench, "-INT");
    let (status, errors) = end_of(bench);
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.ends_with("rpcrdma: interrupted\n"), "{errors}");
    assert!(output_of(&server, "ls", &["127.0.0.1:/data"]).is_empty());

    // CREATE is in progress.
    let (bench, lines) = start_bench(&server, "300ms");
    let mut lines = lines.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("\"read\"")));
    signal(&bench, "-TERM");
    let (status, errors) = end_of(bench);
    assert_eq!(status, Some(1), "{errors}");
    assert!(output_of(&server, "ls", &["127.0.0.1:/data"]).is_empty());
}

#[test]
fn a_failed_benchmark_removes_its_directory() {
    // There is no room for the file.
    let server = Running::new(&["--memory", "--size=16K"]);
    let options = ["127.0.0.1:/data", "--size=64K"];
    let failed = client(&server, "bench", &options);
    let errors = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(
        errors,
        "rpcrdma: 127.0.0.1:/data: NFSPROC3_WRITE: NFS3ERR_NOSPC\n"
    );
    assert_eq!(failed.status.code(), Some(1));
    assert!(output_of(&server, "ls", &["127.0.0.1:/data"]).is_empty());
}

#[test]
fn a_directory_that_a_benchmark_cannot_remove_is_named() {
    let mut server = Running::new(&["--memory"]);
    let (bench, _lines) = start_bench(&server, "1m");
    wait_for_scratch_dir(&server);
    server.process.kill().unwrap();
    let name = format!("rpcrdma-bench-{} could not be removed", bench.id());
    let (status, errors) = end_of(bench);
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains(&name), "{errors}");

    // The server does not answer; a second signal ends the benchmark at once.
    let server = Running::new(&["--memory"]);
    let (mut bench, _lines) = start_bench(&server, "1m");
    wait_for_scratch_dir(&server);
    signal(&server.process, "-STOP");
    let name = format!("rpcrdma-bench-{}", bench.id());
    let mut errors = BufReader::new(bench.stderr.take().unwrap()).lines();
    for expected in [
        format!("rpcrdma: removing {name} from the server; a second signal ends this"),
        format!("rpcrdma: interrupted: {name} remains on the server"),
    ] {
        signal(&bench, "-INT");
        assert_eq!(errors.next().unwrap().unwrap(), expected);
    }
    assert_eq!(bench.wait().unwrap().code(), Some(1));
}

/// Returns the output of `ls`, as words, of a file that `copier` copies to a server.
fn owner_after(server: &Running, name: &str, copier: &mut Command) -> (String, String) {
    let port = server.address.rsplit_once(':').unwrap().1;
    let target = format!("127.0.0.1:/data/{name}");
    let copier = copier.args(["nfs", "cp", "--tcp", port, "/dev/null", &target]);
    let copied = copier.output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let listed = String::from_utf8(output_of(server, "ls", &[&target])).unwrap();
    let mut words = listed.split_whitespace().skip(2).map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

/// Returns the number that `id` prints.
fn id(option: &str) -> String {
    let output = Command::new("id").arg(option).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_user_of_a_client_makes_its_calls() {
    let server = Running::new(&["--memory"]);
    let own = owner_after(&server, "own", &mut rpcrdma());
    assert_eq!(own, (id("-u"), id("-g")));
    // This needs privileges, and a command that the user may execute.
    let mut other = Command::new("setpriv");
    other.args(["--reuid=4321", "--regid=5432", "--clear-groups"]);
    other.arg(rpcrdma().get_program());
    let may_change = other.arg("--version").output();
    if !may_change.is_ok_and(|output| output.status.success()) {
        return skip("nfs: a client of another user needs setpriv and CAP_SETUID");
    }
    let mut other = Command::new("setpriv");
    other.args(["--reuid=4321", "--regid=5432", "--groups=6543"]);
    other.arg(rpcrdma().get_program());
    let owner = owner_after(&server, "other", &mut other);
    assert_eq!(owner, ("4321".to_owned(), "5432".to_owned()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_squashed_root_gets_a_hint() {
    use std::os::unix::fs::PermissionsExt as _;

    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), readable).unwrap();
    let key = state.path().join("key");
    let options = [dir.path(), "--key".as_ref(), &key];
    let server = Running::new(&options.map(|option| option.to_str().unwrap()));
    let copied = client(
        &server,
        "cp",
        &["/dev/null", "127.0.0.1:/data/a", "--uid=0"],
    );
    if copied.status.success() {
        return skip("nfs: cp of a squashed user needs CAP_SETUID");
    }
    let errors = String::from_utf8(copied.stderr).unwrap();
    assert_eq!(
        errors,
        "rpcrdma: 127.0.0.1:/data/a: NFSPROC3_CREATE: NFS3ERR_ACCES (servers usually treat user 0 \
         as nobody: name another user by --uid)\n"
    );
}

#[test]
fn client_errors_are_specific() {
    let server = Running::new(&["--memory"]);
    let refused = |command: &str, arguments: &[&str]| {
        let output = client(&server, command, arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("ls", &["data"]).contains("data is not like server:/path"));
    assert_eq!(
        refused("ls", &["127.0.0.1:/none"]),
        "rpcrdma: 127.0.0.1:/none: MOUNTPROC3_MNT: MNT3ERR_NOENT\n"
    );
    assert_eq!(
        refused("cat", &["127.0.0.1:/data/none"]),
        "rpcrdma: 127.0.0.1:/data/none: NFSPROC3_LOOKUP: NFS3ERR_NOENT\n"
    );
    assert!(refused("cat", &["127.0.0.1:/data"]).contains("127.0.0.1:/data: NFSPROC3_READ"));
    assert!(refused("ls", &["127.0.0.1:7:/data"]).contains("name it by --tcp=7 or --rdma=7"));
    assert!(refused("cp", &["/none", "127.0.0.1:7:/data"]).contains("name it by --tcp=7"));
    assert!(refused("cp", &["a", "b"]).contains("server:/path"));
    assert!(refused("cp", &["/none", "127.0.0.1:/data/a"]).contains("/none: No such file"));
    assert!(refused("cp", &["/usr", "127.0.0.1:/data/a"]).contains("/usr: is a directory"));
    assert!(output_of(&server, "ls", &["127.0.0.1:/data"]).is_empty());
    let device = ["127.0.0.1:/data", "--device", "nosuch0"];
    assert!(refused("ls", &device).contains("nosuch0"));
}
