//! The file systems that tests run over: one in memory, and directories of the host.
#![allow(unreachable_pub, reason = "several tests share it")]
#![allow(dead_code, reason = "no test uses all of it")]

use rpcrdma_nfs::nfs3::Nfsstat3;
use rpcrdma_nfs::{Export, FileSystem, MemoryFileSystem, Squash};

/// Properties of a file system that RFC 1813 leaves to the implementation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    pub is_memory: bool,
    /// The status of a handle that has the form of a `MemoryFileSystem` handle.
    pub unknown: Nfsstat3,
}

pub const MEMORY: Expected = Expected {
    is_memory: true,
    unknown: Nfsstat3::Stale,
};

/// Work that runs with any file system.
pub trait Work {
    type Output;

    fn on<F: FileSystem>(&self, file_system: F, expected: Expected) -> Self::Output;
}

/// Runs work with an in-memory file system, whose root belongs to user 0 and has this mode.
pub fn on_memory<W: Work>(work: &W, mode: u32) -> W::Output {
    let memory = MemoryFileSystem::new(64 << 20).root_owner(0, 0, mode);
    work.on(memory, MEMORY)
}

/// The parameters of an export.
#[derive(Clone, Debug)]
pub struct Offer {
    pub squash: Squash,
    pub anonymous: u32,
    pub path: &'static str,
    pub read_only: bool,
}

impl Offer {
    pub const OPEN: Self = Self {
        squash: Squash::None,
        anonymous: 65534,
        path: "/",
        read_only: false,
    };

    pub fn export<F: FileSystem>(&self, file_system: F) -> Export<F> {
        Export::new(file_system)
            .squash(self.squash)
            .anonymous(self.anonymous, self.anonymous)
            .path(self.path)
            .read_only(self.read_only)
    }
}

#[cfg(all(feature = "host", target_os = "linux"))]
pub mod host;
