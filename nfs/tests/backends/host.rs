//! Directories of the host.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rpcrdma_nfs::nfs3::Nfsstat3;
use rpcrdma_nfs::{HandleKey, HostConfig, HostFileSystem};
use tempfile::TempDir;

use super::{Expected, Work};

pub const HOST: Expected = Expected {
    is_memory: false,
    unknown: Nfsstat3::Badhandle,
};

/// Records that a test was skipped. The summary of `.ci/run` counts these records.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test}: {why}");
    if let Some(notes) = std::env::var_os("RPCRDMA_SKIPPED") {
        let mut notes = OpenOptions::new()
            .create(true)
            .append(true)
            .open(notes)
            .unwrap();
        writeln!(notes, "{test}: {why}").unwrap();
    }
}

/// Returns true if this process can act as any user. Otherwise the test is skipped.
pub fn is_root() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let config = HostConfig::new(HandleKey::random().unwrap());
    let all = HostFileSystem::open(dir.path(), config).is_ok_and(|host| {
        host.acts_as_callers() && std::fs::metadata("/proc/self").unwrap().uid() == 0
    });
    if !all {
        skipped("it needs user 0, who may act as every user");
    }
    all
}

/// A served directory, which is removed after the test.
pub struct HostDir {
    pub path: PathBuf,
    _parent: TempDir,
}

impl HostDir {
    fn at(parent: TempDir, mode: u32) -> Self {
        let path = parent.path().join("export");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let _parent = parent;
        Self { path, _parent }
    }

    /// Creates a directory in the directory for temporary files.
    pub fn new(mode: u32) -> Self {
        Self::at(tempfile::tempdir().unwrap(), mode)
    }

    /// Creates a directory in memory (tmpfs), if the host supports it.
    pub fn in_memory(mode: u32) -> Option<Self> {
        let parent = tempfile::tempdir_in("/dev/shm").ok()?;
        Some(Self::at(parent, mode))
    }

    pub fn config() -> HostConfig {
        // Synchronizing each change is slow, and these tests do not crash.
        HostConfig::new(HandleKey::random().unwrap()).sync(false)
    }

    pub fn open(&self) -> HostFileSystem {
        HostFileSystem::open(&self.path, Self::config()).unwrap()
    }
}

/// Returns true if the link count of a directory includes its subdirectories, as tests expect it.
fn counts_directories(dir: &Path) -> bool {
    let links = || std::fs::metadata(dir).unwrap().nlink();
    let before = links();
    std::fs::create_dir(dir.join("probe")).unwrap();
    let after = links();
    std::fs::remove_dir(dir.join("probe")).unwrap();
    (before, after) == (2, 3)
}

/// Runs work with a directory of the host, with kernel handles or numbers. Returns `None`, and
/// records a skipped test, if the host does not support it.
pub fn on_host<W: Work>(work: &W, mode: u32, kernel_handles: bool) -> Option<W::Output> {
    if !is_root() {
        return None;
    }
    let dir = match HostDir::in_memory(mode) {
        Some(in_memory) if !kernel_handles => in_memory,
        _ => HostDir::new(mode),
    };
    if !counts_directories(&dir.path) {
        skipped("the file system of temporary files does not count directories");
        return None;
    }
    // In memory, short operations execute in place.
    let config = HostDir::config().kernel_handles(kernel_handles);
    let config = config.in_place(!kernel_handles);
    let host = HostFileSystem::open(&dir.path, config).unwrap();
    assert_eq!(host.keeps_handles(), kernel_handles);
    Some(work.on(host, HOST))
}
