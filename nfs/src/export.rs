//! Exports: how a file system is offered to clients.
//!
//! An [`Export`] has a file system and the rules for its clients. It decides what a client
//! may do, and its users must ask it: `ExportTable` asks `admits` for each MNT and each NFS
//! procedure, and each NFS procedure that changes something asks `check_writable`. `ExportTable`
//! also compares paths by components, so `pub` and `/pub/` are the same as `/pub`, and finds the
//! export of a file handle by the file system that owns the handle.

use std::net::IpAddr;
use std::sync::Arc;

use crate::caller::{Anonymous, Caller, Squash};
use crate::file_system::FileSystem;
use crate::network::Network;
use crate::nfs3::Nfsstat3;

use oncrpc::{Context, RpcError};

/// The user and group "nobody".
const NOBODY: u32 = 65534;

/// How a file system is offered: its path, the clients that may use it, and the user for whom each
/// call is executed.
///
/// ```
/// use rpcrdma_nfs::{Export, ExportSettings, MemoryFileSystem, Squash};
///
/// let settings = ExportSettings {
///     path: "/pub".to_owned(),
///     read_only: true,
///     squash: Squash::All,
///     networks: vec!["192.0.2.0/24".parse()?],
///     ..ExportSettings::default()
/// };
/// let export = Export::with_settings(MemoryFileSystem::new(1 << 30), settings);
/// # Ok::<(), rpcrdma_nfs::NetworkError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportSettings {
    /// The path that clients mount. It is compared by components, so a `/` at its beginning
    /// or end makes no difference.
    pub path: String,
    /// Whether the server rejects changes with NFS3ERR_ROFS.
    pub read_only: bool,
    /// Which callers are served as the anonymous user.
    pub squash: Squash,
    /// The anonymous user.
    pub anonymous_uid: u32,
    /// The group of the anonymous user.
    pub anonymous_gid: u32,
    /// The networks whose clients may use the export; if empty, every client may use it. Other
    /// clients, and those of a transport without addresses, get MNT3ERR_ACCES from MNT and
    /// NFS3ERR_STALE from NFS.
    pub networks: Vec<Network>,
}

/// Offers the path `/` to every client, for reading and writing, with [`Squash::Root`] and user
/// 65534.
impl Default for ExportSettings {
    fn default() -> Self {
        Self {
            path: "/".to_owned(),
            read_only: false,
            squash: Squash::Root,
            anonymous_uid: NOBODY,
            anonymous_gid: NOBODY,
            networks: Vec::new(),
        }
    }
}

/// A file system that is offered to clients at a path.
#[derive(Debug)]
pub struct Export<F> {
    pub(crate) file_system: Arc<F>,
    settings: ExportSettings,
}

/// A clone offers the same file system.
impl<F> Clone for Export<F> {
    fn clone(&self) -> Self {
        Self {
            file_system: self.file_system.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl<F: FileSystem> Export<F> {
    /// Offers a file system at the path `/`, for reading and writing, with [`Squash::Root`].
    pub fn new(file_system: F) -> Self {
        Self::with_settings(file_system, ExportSettings::default())
    }

    /// Offers a file system with settings.
    pub fn with_settings(file_system: F, settings: ExportSettings) -> Self {
        Self::of_shared(Arc::new(file_system), settings)
    }

    /// Offers a file system that other exports can share, at other paths or for other networks. An
    /// NFS call has the settings of the first export of its file system that admits the client,
    /// whatever path the client has mounted.
    pub fn of_shared(file_system: Arc<F>, settings: ExportSettings) -> Self {
        Self {
            file_system,
            settings,
        }
    }

    /// Returns the file system.
    #[must_use]
    pub fn file_system(&self) -> &Arc<F> {
        &self.file_system
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &ExportSettings {
        &self.settings
    }

    /// Sets the path that clients mount (default `/`). It should begin with `/`.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.settings.path = path.into();
        self
    }

    /// Sets whether the server rejects changes with NFS3ERR_ROFS.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.settings.read_only = read_only;
        self
    }

    /// Sets which callers are served as the anonymous user.
    #[must_use]
    pub fn squash(mut self, squash: Squash) -> Self {
        self.settings.squash = squash;
        self
    }

    /// Sets the anonymous user and group (default 65534).
    #[must_use]
    pub fn anonymous(mut self, uid: u32, gid: u32) -> Self {
        self.settings.anonymous_uid = uid;
        self.settings.anonymous_gid = gid;
        self
    }

    /// Sets the networks whose clients may use the export; if empty, every client may use it.
    #[must_use]
    pub fn networks(mut self, networks: impl Into<Vec<Network>>) -> Self {
        self.settings.networks = networks.into();
        self
    }

    /// Returns the user as whom the server executes a call. Fails with AUTH_TOOWEAK if the call has
    /// no AUTH_SYS credentials.
    pub(crate) fn caller(&self, cx: &Context) -> Result<Caller, RpcError> {
        let anonymous = Anonymous {
            uid: self.settings.anonymous_uid,
            gid: self.settings.anonymous_gid,
        };
        Caller::new(cx.credentials(), self.settings.squash, anonymous)
    }

    /// Returns true if a client may use the export. `client` is its address, or `None` if the
    /// transport has no addresses.
    pub(crate) fn admits(&self, client: Option<IpAddr>) -> bool {
        let networks = &self.settings.networks;
        let is_in = |client| networks.iter().any(|network| network.contains(client));
        networks.is_empty() || client.is_some_and(is_in)
    }

    /// Checks that changes are allowed: fails with NFS3ERR_ROFS if the export is read-only.
    pub(crate) fn check_writable(&self) -> Result<(), Nfsstat3> {
        if self.settings.read_only {
            return Err(Nfsstat3::Rofs);
        }
        Ok(())
    }

    /// Returns true if the export is read-only: ACCESS then grants nothing that changes it.
    pub(crate) fn is_read_only(&self) -> bool {
        self.settings.read_only
    }
}
