//! The user as whom a thread accesses the file system.
//!
//! An operation runs as its caller: the kernel checks permissions, and new objects belong to the
//! caller. The system calls change only the calling thread.
//!
//! To change the user takes up to eleven system calls. So a thread keeps its user until other work
//! needs another: what depends on the user runs within [`Identity::run_as`] or
//! [`Identity::run_as_server`].

use std::cell::{Cell, RefCell};

use rustix::io::Errno;
use rustix::process::{Gid, getegid, geteuid, getgroups};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
};

use super::{in_place, sys};
use crate::caller::Caller;
use crate::file_system::FsResult;
use crate::nfs3::Nfsstat3;

thread_local! {
    /// Whether this thread failed to become the server's user again.
    static TAINTED: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is within work whose user was chosen.
    static RUNS: Cell<bool> = const { Cell::new(false) };
    /// The user of this thread. A new thread has that of the thread that started it.
    static USER: RefCell<User> = const { RefCell::new(User::Unknown) };
}

/// The user of a thread.
#[derive(PartialEq, Eq, Debug)]
enum User {
    Unknown,
    Server,
    Caller(Caller),
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

/// The capabilities with which groups give no further access.
const UNCHECKED: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// The server's user, and whether the server may act as others.
#[derive(Debug)]
pub(super) struct Identity {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    capabilities: CapabilitySets,
}

/// Work whose user was chosen, until it is dropped.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        RUNS.set(false);
    }
}

/// Checks that the user of this thread was chosen for what it does.
pub(super) fn assert_chosen() {
    debug_assert!(RUNS.get(), "as whom?");
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

    /// Runs work as a caller, if the server may act as others.
    pub(super) fn run_as<T>(&self, caller: &Caller, work: impl FnOnce() -> T) -> FsResult<T> {
        self.run(Some(caller), work)
    }

    /// Runs work as the server's user.
    pub(super) fn run_as_server<T>(&self, work: impl FnOnce() -> T) -> FsResult<T> {
        self.run(None, work)
    }

    /// Runs work as a caller, or as the server's user. Nested work is refused: its user would
    /// remain that of the outer work.
    fn run<T>(&self, caller: Option<&Caller>, work: impl FnOnce() -> T) -> FsResult<T> {
        if RUNS.replace(true) {
            debug_assert!(false, "a user within a user");
            return Err(Nfsstat3::Serverfault);
        }
        let _running = Running;
        if self.switches() {
            USER.with_borrow_mut(|user| self.switch(user, caller))?;
        }
        Ok(work())
    }

    /// Changes the user of this thread, unless it is the wanted one.
    fn switch(&self, user: &mut User, caller: Option<&Caller>) -> FsResult<()> {
        let caller = caller.filter(|caller| !self.is(caller));
        match (&user, caller) {
            (_, None) if in_place::is_running() => return Ok(()),
            (_, Some(_)) if in_place::is_running() => return Err(Nfsstat3::Serverfault),
            (User::Server, None) => return Ok(()),
            (User::Caller(now), Some(caller)) if now == caller => return Ok(()),
            (User::Server, Some(_)) => {}
            // Both lack the same capabilities, which the kernel changes only for user 0.
            (User::Caller(now), Some(caller)) if !now.is_root() && !caller.is_root() => {
                *user = User::Unknown;
                set_ids(caller).ok_or(Nfsstat3::Acces)?;
                *user = User::Caller(caller.clone());
                return Ok(());
            }
            _ => {
                *user = User::Unknown;
                if !self.become_server() {
                    TAINTED.set(true);
                    return Err(Nfsstat3::Serverfault);
                }
                *user = User::Server;
            }
        }
        if let Some(caller) = caller {
            *user = User::Unknown;
            self.become_caller(caller).ok_or(Nfsstat3::Acces)?;
            *user = User::Caller(caller.clone());
        }
        Ok(())
    }

    /// Makes this thread the server's user again, before it does something else.
    pub(super) fn leave(&self) {
        if self.switches() {
            // A failure is noted for the thread.
            let _ = USER.with_borrow_mut(|user| self.switch(user, None));
        }
    }

    /// Returns true if work of a caller runs as the server's user. The groups of user 0 do not
    /// matter: they give no access that its capabilities do not give. Those of the server might, to
    /// objects of a user who is unknown in its namespace, so it has none.
    pub(super) fn is(&self, caller: &Caller) -> bool {
        let has_all = self.capabilities.effective.contains(UNCHECKED)
            && self.groups.iter().all(|group| group.as_raw() == self.gid);
        let is_same = caller.is_root() && (self.uid, self.gid) == (caller.uid, caller.gid);
        !self.switches() || (is_same && has_all)
    }

    fn become_server(&self) -> bool {
        sys::set_fs_user(self.uid)
            & sys::set_fs_group(self.gid)
            & set_thread_groups(&self.groups).is_ok()
            & set_capabilities(None, self.capabilities).is_ok()
    }

    /// Makes this thread, which is the server's user, a caller. Returns `None` if no such user or
    /// group can exist.
    fn become_caller(&self, caller: &Caller) -> Option<()> {
        set_ids(caller)?;
        if caller.is_root() {
            return Some(());
        }
        let mut less = self.capabilities;
        less.effective = less.effective.difference(OF_ROOT);
        set_capabilities(None, less).ok()
    }
}

/// Sets the user and the groups of this thread. Returns `None` if no such user or group can exist.
fn set_ids(caller: &Caller) -> Option<()> {
    let nobody = u32::MAX;
    if caller.gids.contains(&nobody) || caller.gid == nobody || caller.uid == nobody {
        return None;
    }
    let groups: Vec<_> = caller.gids.iter().map(|gid| Gid::from_raw(*gid)).collect();
    set_thread_groups(&groups).ok()?;
    (sys::set_fs_group(caller.gid) && sys::set_fs_user(caller.uid)).then_some(())
}
