//! SETATTR, and the attributes of new objects.
//!
//! All checks of a SETATTR precede its first change, as `memory` requires of every operation.

use super::node::{Content, Node, SET_GID, WRITE};
use super::tree::Tree;
use crate::caller::Caller;
use crate::file_system::FsResult;
use crate::nfs3::{Nfsstat3, Nfstime3, Sattr3};
use crate::sattr::{Changes, NewTime};

/// The maximum bytes of a file.
pub(super) const MAX_SIZE: u64 = 1 << 40;

impl Changes {
    /// Returns true if the changes need write permission of a caller who is not the owner.
    fn needs_write(&self) -> bool {
        self.size.is_some() || self.atime.is_some() || self.mtime.is_some()
    }

    /// Checks that a caller may make the changes.
    fn check(&self, caller: &Caller, node: &Node) -> FsResult<()> {
        let is_owner = node.is_owner(caller);
        let gives_away = self.uid.is_some_and(|uid| uid != node.uid);
        let joins = self
            .gid
            .is_some_and(|gid| gid != node.gid && !caller.is_in(gid));
        if (gives_away || joins) && !caller.is_root() {
            return Err(Nfsstat3::Perm);
        }
        if self.needs_owner() && !is_owner {
            return Err(Nfsstat3::Perm);
        }
        if self.needs_write() && !is_owner {
            node.check(caller, WRITE)?;
        }
        self.check_values(node)
    }

    fn check_values(&self, node: &Node) -> FsResult<()> {
        self.check_times()?;
        match self.size {
            Some(_) if !matches!(node.content, Content::File(..)) => Err(Nfsstat3::Inval),
            Some(size) if size > MAX_SIZE => Err(Nfsstat3::Inval),
            _ => Ok(()),
        }
    }

    /// Applies the changes to an object. The owner has been checked.
    fn apply(&self, caller: &Caller, node: &mut Node, now: Nfstime3) {
        let time = |new| match new {
            NewTime::Server => now,
            NewTime::Client(time) => time,
        };
        // Also for user 0: a file with these bits must not run as its new owner.
        let changes_owner = (self.uid.is_some() || self.gid.is_some()) && !node.is_directory();
        let changes_content = self.size.is_some() && !caller.is_root();
        if changes_owner || changes_content {
            node.mode &= !node.id_bits_to_clear(caller);
        }
        node.uid = self.uid.unwrap_or(node.uid);
        node.gid = self.gid.unwrap_or(node.gid);
        if let Some(mode) = self.mode {
            let is_member = caller.is_root() || caller.is_in(node.gid);
            node.mode = if is_member { mode } else { mode & !SET_GID };
        }
        if self.size.is_some() {
            node.mtime = now;
        }
        node.atime = self.atime.map_or(node.atime, time);
        node.mtime = self.mtime.map_or(node.mtime, time);
        node.ctime = now;
    }
}

impl Tree {
    /// Sets attributes, if the guard matches the object's ctime.
    pub(super) fn set_attributes(
        &mut self,
        caller: &Caller,
        id: u64,
        new: &Sattr3,
        guard: Option<Nfstime3>,
    ) -> FsResult<()> {
        let (changes, now) = (Changes::from(new), self.now());
        let (node, budget) = self.node_and_budget(id)?;
        if guard.is_some_and(|ctime| ctime != node.ctime) {
            return Err(Nfsstat3::NotSync);
        }
        changes.check(caller, node)?;
        // Without a change, there is no permission to change the ctime either.
        if !changes.needs_owner() && !changes.needs_write() {
            return Ok(());
        }
        if let (Content::File(data, _), Some(size)) = (&mut node.content, changes.size) {
            data.set_size(size, budget);
        }
        changes.apply(caller, node, now);
        Ok(())
    }

    /// Returns a new object of a caller in a directory. Only user 0 sets owner and group. A
    /// directory with the set-group-ID bit passes its group on.
    pub(super) fn new_node(
        &mut self,
        caller: &Caller,
        dir: u64,
        new: Option<&Sattr3>,
        default_mode: u32,
        content: Content,
    ) -> FsResult<Node> {
        let now = self.now();
        let parent = self.node(dir)?;
        let inherits = parent.mode & SET_GID != 0;
        let mut node = Node {
            mode: default_mode,
            nlink: 1,
            uid: caller.uid,
            gid: if inherits { parent.gid } else { caller.gid },
            atime: now,
            mtime: now,
            ctime: now,
            content,
        };
        let Some(new) = new else { return Ok(node) };
        let mut changes = Changes::from(new);
        if !caller.is_root() {
            (changes.uid, changes.gid) = (None, None);
        }
        if !matches!(node.content, Content::File(..)) {
            changes.size = None;
        }
        changes.check_values(&node)?;
        changes.apply(caller, &mut node, now);
        if let (Content::File(data, _), Some(size)) = (&mut node.content, changes.size) {
            data.set_size(size, &mut self.budget);
        }
        if inherits && node.is_directory() {
            node.mode |= SET_GID;
        }
        Ok(node)
    }
}
