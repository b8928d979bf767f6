//! The served directories: each is opened once, even if settings change.
//!
//! A reload keeps the `HostFileSystem` of a directory whose key (`DirKey`) is the same, since
//! handles without the kernel's are valid only for this value. `exports` changes nothing after an
//! error, on which the reload of `serve` relies. The key of the handles must not be in a served
//! directory, where clients could read it.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rpcrdma_nfs::{Export, HandleKey, HostConfig, HostFileSystem};

use super::config::DirExport;

/// The file with the key of all file handles.
pub(super) struct HandleKeyFile(pub(super) PathBuf);

fn at(path: &Path, error: io::Error) -> String {
    format!("{}: {error}", path.display())
}

impl HandleKeyFile {
    /// Opens a directory, and prints the operations that this process is not permitted to do with
    /// it.
    pub(super) fn open(&self, dir: &Path, sync: bool) -> Result<HostFileSystem, Box<dyn Error>> {
        let key_file = &self.0;
        let served = dir.canonicalize().map_err(|error| at(dir, error))?;
        let is_served = |path: &Path| path.canonicalize().is_ok_and(|at| at.starts_with(&served));
        if is_served(key_file) || key_file.parent().is_some_and(is_served) {
            let key = key_file.display();
            return Err(format!("{key} is in the directory that is served: name another").into());
        }
        let key = HandleKey::from_file(key_file).map_err(|error| at(key_file, error))?;
        // The command's threads serve, and do nothing else.
        let config = HostConfig::new(key).sync(sync).in_place(true);
        let host = HostFileSystem::open(dir, config).map_err(|error| at(dir, error))?;
        if !host.acts_as_callers() {
            let lacks = "without CAP_SETUID and CAP_SETGID";
            eprintln!("rpcrdma: {lacks} every client acts as the user of this process");
        }
        if !host.keeps_handles() {
            let lacks = "without CAP_DAC_READ_SEARCH, or by a file system without handles,";
            eprintln!("rpcrdma: {lacks} clients have to mount again after a restart");
        }
        Ok(host)
    }
}

/// The identity of a directory (path, device and inode), and whether it is served with `sync`.
type DirKey = (PathBuf, u64, u64, bool);

/// The open directories.
pub(super) struct ServedDirs {
    key_file: HandleKeyFile,
    open: HashMap<DirKey, Arc<HostFileSystem>>,
}

impl ServedDirs {
    pub(super) fn new(key_file: HandleKeyFile) -> Self {
        Self {
            key_file,
            open: HashMap::new(),
        }
    }

    /// Returns the exports of a configuration. Directories that were open before stay open, so that
    /// clients keep their mounts; those that are not in the configuration are closed. After an
    /// error, nothing changes.
    pub(super) fn exports(
        &mut self,
        exports: &[DirExport],
    ) -> Result<Vec<Export<HostFileSystem>>, Box<dyn Error>> {
        if exports.is_empty() {
            return Err("there is no export in the configuration, and no directory".into());
        }
        let mut open = HashMap::new();
        let mut made = Vec::new();
        for export in exports {
            let key = key(export).map_err(|error| at(&export.dir, error))?;
            let known = open.get(&key).or_else(|| self.open.get(&key)).cloned();
            let host = match known {
                Some(host) => host,
                None => Arc::new(self.key_file.open(&export.dir, export.sync)?),
            };
            open.insert(key, host.clone());
            made.push(Export::of_shared(host, export.settings.clone()));
        }
        self.open = open;
        Ok(made)
    }
}

fn key(export: &DirExport) -> io::Result<DirKey> {
    let dir = export.dir.canonicalize()?;
    let metadata = dir.metadata()?;
    Ok((dir, metadata.dev(), metadata.ino(), export.sync))
}
