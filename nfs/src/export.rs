//! How a file system is offered.

use crate::caller::{Anonymous, Caller, Squash};
use crate::file_system::FileSystem;
use crate::nfs3::Nfsstat3;

use oncrpc::{Context, RpcError};

/// The user and group "nobody".
const NOBODY: u32 = 65534;

/// A file system that is offered to clients at a path.
#[derive(Debug)]
pub struct Export<F> {
    pub(crate) file_system: F,
    pub(crate) path: String,
    read_only: bool,
    squash: Squash,
    anonymous: Anonymous,
}

impl<F: FileSystem> Export<F> {
    /// Offers a file system at the path `/`, for reading and writing, with [`Squash::Root`].
    pub fn new(file_system: F) -> Self {
        Self {
            file_system,
            path: "/".to_owned(),
            read_only: false,
            squash: Squash::Root,
            anonymous: Anonymous {
                uid: NOBODY,
                gid: NOBODY,
            },
        }
    }

    /// Sets the path that clients mount, `/` by default. It begins with `/`.
    #[must_use]
    pub fn path(self, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { path, ..self }
    }

    /// Sets whether changes are refused by NFS3ERR_ROFS.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Sets whose calls are served as those of the anonymous user.
    #[must_use]
    pub fn squash(self, squash: Squash) -> Self {
        Self { squash, ..self }
    }

    /// Sets the anonymous user and group, 65534 by default.
    #[must_use]
    pub fn anonymous(self, uid: u32, gid: u32) -> Self {
        let anonymous = Anonymous { uid, gid };
        Self { anonymous, ..self }
    }

    /// Returns as whom a call is served.
    pub(crate) fn caller(&self, cx: &Context) -> Result<Caller, RpcError> {
        Caller::new(cx.credentials(), self.squash, self.anonymous)
    }

    /// Checks that changes are allowed.
    pub(crate) fn check_writable(&self) -> Result<(), Nfsstat3> {
        if self.read_only {
            return Err(Nfsstat3::Rofs);
        }
        Ok(())
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }
}
