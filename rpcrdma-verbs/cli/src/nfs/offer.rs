//! The file system that `rpcrdma nfs serve` exports, and its settings.
//!
//! The arguments apply to a single export. With exports in a configuration file, `has_no_settings`
//! rejects them: an argument for an export must be added there. The path of the key file must stay
//! the same between versions, since another key makes the handles of all clients invalid.

use std::path::PathBuf;
#[cfg(target_os = "linux")]
use std::{error::Error, os::unix::fs::DirBuilderExt as _, path::Path};

#[cfg(target_os = "linux")]
use rpcrdma_nfs::HostFileSystem;
use rpcrdma_nfs::{Export, FileSystem, Network, Squash};

use super::config::squash;
#[cfg(target_os = "linux")]
use super::served_dirs::{HandleKeyFile, ServedDirs};
use crate::output::UsageError;
use crate::units::size;

/// The user and the group of squashed users.
const ANONYMOUS: u32 = 65534;

#[derive(clap::Args)]
pub(super) struct Offer {
    /// Directory of this host to serve, with everything below it on the same mount.
    #[arg(value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Serve an in-memory file system instead. It is empty at the start, and lost at the end.
    #[arg(long, conflicts_with = "dir")]
    pub(super) memory: bool,
    /// Maximum bytes of the in-memory file system.
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "1G",
        requires = "memory", conflicts_with = "dir")]
    pub(super) size: u64,
    /// Users to squash to user 65534: `none`, `root` or `all`. By default user 0 is squashed if a
    /// directory is served.
    #[arg(long, value_name = "WHOSE", value_parser = squash)]
    squash: Option<Squash>,
    /// User of squashed users (default 65534).
    #[arg(long, value_name = "UID")]
    anonuid: Option<u32>,
    /// Group of squashed users (default 65534).
    #[arg(long, value_name = "GID")]
    anongid: Option<u32>,
    /// Refuse all changes.
    #[arg(long)]
    read_only: bool,
    /// Network whose clients may use the export, like 192.0.2.0/24 or 2001:db8::1; can be repeated.
    /// By default every client may use it.
    #[arg(long = "network", value_name = "NETWORK")]
    networks: Vec<Network>,
    /// File with the key of the file handles, which is created if it does not exist. The default is
    /// `nfs-handle-key` in the folder for state.
    #[arg(long, value_name = "FILE", conflicts_with = "memory")]
    key: Option<PathBuf>,
    /// Reply before changes of names and attributes are on stable storage. This is faster, but a
    /// crash of this host may undo confirmed changes.
    #[arg(long = "async", conflicts_with = "memory")]
    is_async: bool,
}

impl Offer {
    pub(super) fn export<F: FileSystem>(&self, file_system: F) -> Export<F> {
        let default = if self.memory {
            Squash::None
        } else {
            Squash::Root
        };
        Export::new(file_system)
            .squash(self.squash.unwrap_or(default))
            .anonymous(
                self.anonuid.unwrap_or(ANONYMOUS),
                self.anongid.unwrap_or(ANONYMOUS),
            )
            .networks(self.networks.clone())
            .read_only(self.read_only)
    }

    /// Checks that no argument is set that a configuration file sets for each export.
    pub(super) fn has_no_settings(&self, path: Option<&str>) -> Result<(), UsageError> {
        let arguments = [
            ("--export", path.is_some()),
            ("--squash", self.squash.is_some()),
            ("--anonuid", self.anonuid.is_some()),
            ("--anongid", self.anongid.is_some()),
            ("--read-only", self.read_only),
            ("--network", !self.networks.is_empty()),
            ("--async", self.is_async),
        ];
        let given = arguments.iter().filter(|(_, is_given)| *is_given);
        let given: Vec<_> = given.map(|(name, _)| *name).collect();
        if given.is_empty() {
            return Ok(());
        }
        let given = given.join(", ");
        let text = format!("{given}: the file of --config has these settings for each export");
        Err(UsageError(text))
    }
}

#[cfg(target_os = "linux")]
impl Offer {
    /// Opens the directory, and prints the operations that this process is not permitted to do with
    /// it.
    pub(super) fn open(&self, dir: &Path) -> Result<HostFileSystem, Box<dyn Error>> {
        HandleKeyFile(self.key_file()?).open(dir, !self.is_async)
    }

    /// Returns the directories of a configuration file. There are none at first.
    pub(super) fn dirs(&self) -> Result<ServedDirs, Box<dyn Error>> {
        let key_file = HandleKeyFile(self.key_file()?);
        Ok(ServedDirs::new(key_file))
    }

    fn key_file(&self) -> Result<PathBuf, Box<dyn Error>> {
        match &self.key {
            Some(file) => Ok(file.clone()),
            None => Ok(state_folder()?.join("nfs-handle-key")),
        }
    }
}

/// Returns the folder for the state of this user's programs, and creates it.
#[cfg(target_os = "linux")]
fn state_folder() -> Result<PathBuf, Box<dyn Error>> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let of_user = || {
        let state = variable("XDG_STATE_HOME").map(PathBuf::from);
        state.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")))
    };
    // systemd sets it for a service with `StateDirectory`.
    let folder = variable("STATE_DIRECTORY").map(PathBuf::from);
    let folder = folder.or_else(|| of_user().map(|state| state.join("rpcrdma")));
    let folder = folder.ok_or("there is no folder for the key of the file handles: use --key")?;
    let created = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    created.map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}
