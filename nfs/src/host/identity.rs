//! The user as whom a thread accesses the file system.
//!
//! An operation runs as its caller: the kernel checks permissions, and new objects belong to the
//! caller. The system calls change only the calling thread.

use std::cell::Cell;

use rustix::io::Errno;
use rustix::process::{Gid, getegid, geteuid, getgroups};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
};

use super::sys;
use crate::caller::Caller;
use crate::file_system::FsResult;
use crate::nfs3::Nfsstat3;

thread_local! {
    /// Whether this thread failed to become the server's user again.
    static TAINTED: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread currently acts as a caller.
    static IS_CALLER: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if this thread failed to become the server's user again, and so must end.
pub(super) fn is_tainted() -> bool {
    TAINTED.get()
}

/// The capabilities that exempt a thread from permission checks (CAP_NFSD_SET of Linux).
const OF_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::SYS_RESOURCE);

/// The server's user, and whether the server may act as others.
#[derive(Debug)]
pub(super) struct Identity {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    capabilities: CapabilitySets,
}

/// Makes the thread the server's user again on drop.
struct Restore<'a>(&'a Identity);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        let server = self.0;
        let restored = sys::set_fs_user(server.uid)
            & sys::set_fs_group(server.gid)
            & set_thread_groups(&server.groups).is_ok()
            & set_capabilities(None, server.capabilities).is_ok();
        if !restored {
            TAINTED.set(true);
        }
        IS_CALLER.set(false);
    }
}

impl Identity {
    /// Returns the identity of this thread.
    pub(super) fn of_thread() -> Result<Self, Errno> {
        Ok(Self {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            groups: getgroups()?,
            capabilities: capabilities(None)?,
        })
    }

    /// Returns true if work runs as its caller, and false if it runs as the server's user.
    pub(super) fn switches(&self) -> bool {
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
        self.capabilities.effective.contains(needed)
    }

    /// Runs work as a caller, if the server may act as others. Nested work does not change the user
    /// again.
    pub(super) fn run_as<T>(&self, caller: &Caller, work: impl FnOnce() -> T) -> FsResult<T> {
        if !self.switches() {
            return Ok(work());
        }
        // The end of nested work would make the thread the server's user within the outer work.
        if IS_CALLER.replace(true) {
            debug_assert!(false, "a caller within a caller");
            return Err(Nfsstat3::Serverfault);
        }
        let _restore = Restore(self);
        self.become_caller(caller).ok_or(Nfsstat3::Acces)?;
        Ok(work())
    }

    /// Returns `None` if no such user or group can exist.
    fn become_caller(&self, caller: &Caller) -> Option<()> {
        let nobody = u32::MAX;
        if caller.gids.contains(&nobody) || caller.gid == nobody || caller.uid == nobody {
            return None;
        }
        let groups: Vec<_> = caller.gids.iter().map(|gid| Gid::from_raw(*gid)).collect();
        set_thread_groups(&groups).ok()?;
        (sys::set_fs_group(caller.gid) && sys::set_fs_user(caller.uid)).then_some(())?;
        if caller.is_root() {
            return Some(());
        }
        let mut less = self.capabilities;
        less.effective = less.effective.difference(OF_ROOT);
        set_capabilities(None, less).ok()
    }
}
