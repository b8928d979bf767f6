//! As whom a thread uses the file system.
//!
//! An operation runs as its caller: the kernel checks permissions, and new objects belong to the
//! caller. The calls change the calling thread alone.

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
    /// Whether this thread could not become the server's user again.
    static TAINTED: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is a caller now.
    static IS_CALLER: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread could not become the server's user again, and so must end.
pub(super) fn is_tainted() -> bool {
    TAINTED.get()
}

/// The capabilities by which a thread does what its user may not (CAP_NFSD_SET of Linux).
const OF_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::SYS_RESOURCE);

/// Who the server is, and whether it may be somebody else.
#[derive(Debug)]
pub(super) struct Identity {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    capabilities: CapabilitySets,
}

/// Makes the thread the server's again when it is dropped.
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
    /// Returns who this thread is.
    pub(super) fn of_thread() -> Result<Self, Errno> {
        Ok(Self {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            groups: getgroups()?,
            capabilities: capabilities(None)?,
        })
    }

    /// Returns whether work is done as its caller, and not as the server's user.
    pub(super) fn switches(&self) -> bool {
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
        self.capabilities.effective.contains(needed)
    }

    /// Does work as a caller, if the server may. Work within the work does not change the caller
    /// again.
    pub(super) fn run_as<T>(&self, caller: &Caller, work: impl FnOnce() -> T) -> FsResult<T> {
        if !self.switches() {
            return Ok(work());
        }
        // The end of the inner one would make the thread the server's within the outer one.
        if IS_CALLER.replace(true) {
            debug_assert!(false, "a caller within a caller");
            return Err(Nfsstat3::Serverfault);
        }
        let _restore = Restore(self);
        self.become_caller(caller).ok_or(Nfsstat3::Acces)?;
        Ok(work())
    }

    /// Returns `None` if there can be no such user or group.
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
