//! The file systems that tests run over: one in memory, and directories of the host.
#![allow(unreachable_pub, reason = "several tests share it")]
#![allow(dead_code, reason = "no test uses all of it")]

use rpcrdma_nfs::nfs3::Nfsstat3;
use rpcrdma_nfs::{Export, FileSystem, MemoryFileSystem, Squash};

/// What tests expect of a file system that RFC 1813 leaves to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    pub is_memory: bool,
    /// The status of a handle that has the form of one of `MemoryFileSystem`.
    pub unknown: Nfsstat3,
}

pub const MEMORY: Expected = Expected {
    is_memory: true,
    unknown: Nfsstat3::Stale,
};

/// Work with a file system, whatever it is.
pub trait Work {
    type Output;

    fn on<F: FileSystem>(&self, file_system: F, expected: Expected) -> Self::Output;
}

/// Does work with a file system in memory, whose root belongs to user 0 and has a mode.
pub fn on_memory<W: Work>(work: &W, mode: u32) -> W::Output {
    let memory = MemoryFileSystem::new(64 << 20).root_owner(0, 0, mode);
    work.on(memory, MEMORY)
}

/// How a file system is offered.
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
