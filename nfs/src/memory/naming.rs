//! Creation, lookup, renaming and removal of objects.
//!
//! All checks of an operation precede its first change, as `memory` requires. The service has
//! refused `.` and `..` as names to add or remove.

use super::data::Data;
use super::node::{Content, Directory, EXECUTE, Node, READ, STICKY, WRITE};
use super::tree::{Tree, name_cost};
use crate::caller::Caller;
use crate::directory::{DirEntry, DirList};
use crate::file_system::FsResult;
use crate::name::Name;
use crate::nfs3::{Createhow3, Nfsstat3, Sattr3, SetSize3};

/// The maximum links of an object: its names, and for a directory also its `.` and the `..` of each
/// directory in it.
pub(super) const LINK_MAX: u32 = 65_000;

impl Tree {
    /// Returns a directory, if a caller may search it.
    fn searched(&self, caller: &Caller, dir: u64) -> FsResult<(&Node, &Directory)> {
        let node = self.node(dir)?;
        let directory = node.directory()?;
        node.check(caller, EXECUTE)?;
        Ok((node, directory))
    }

    pub(super) fn lookup(&self, caller: &Caller, dir: u64, name: Name<'_>) -> FsResult<u64> {
        let (_, directory) = self.searched(caller, dir)?;
        if name.is_dot() {
            return Ok(dir);
        }
        if name.is_dot_dot() {
            return Ok(directory.parent);
        }
        directory.get(name.as_bytes()).ok_or(Nfsstat3::Noent)
    }

    /// Checks that a caller may add a name to a directory.
    fn check_addition(&self, caller: &Caller, dir: u64) -> FsResult<()> {
        let (node, _) = self.searched(caller, dir)?;
        node.check(caller, WRITE)
    }

    /// Adds a name of an object.
    fn add_name(&mut self, dir: u64, name: Name<'_>, id: u64) -> FsResult<()> {
        self.budget.take(name_cost(name.as_bytes()))?;
        self.directory_mut(dir)?.insert(name.as_bytes(), id);
        self.touch(dir)
    }

    /// Adds an object with a name that does not exist.
    fn add_named(&mut self, dir: u64, name: Name<'_>, node: Node) -> FsResult<u64> {
        let id = self.add(node)?;
        if let Err(error) = self.add_name(dir, name, id) {
            self.forget(id);
            return Err(error);
        }
        Ok(id)
    }

    /// Creates an object that is neither a directory nor a regular file.
    pub(super) fn create_other(
        &mut self,
        caller: &Caller,
        dir: u64,
        name: Name<'_>,
        attributes: &Sattr3,
        content: Content,
    ) -> FsResult<u64> {
        self.check_new(caller, dir, name)?;
        let mode = match content {
            Content::Symlink(_) => 0o777,
            _ => 0o600,
        };
        let node = self.new_node(caller, dir, Some(attributes), mode, content)?;
        self.add_named(dir, name, node)
    }

    fn check_new(&self, caller: &Caller, dir: u64, name: Name<'_>) -> FsResult<()> {
        let (_, directory) = self.searched(caller, dir)?;
        if directory.get(name.as_bytes()).is_some() {
            return Err(Nfsstat3::Exist);
        }
        self.check_addition(caller, dir)
    }

    pub(super) fn make_dir(
        &mut self,
        caller: &Caller,
        dir: u64,
        name: Name<'_>,
        attributes: &Sattr3,
    ) -> FsResult<u64> {
        self.check_new(caller, dir, name)?;
        if self.node(dir)?.nlink >= LINK_MAX {
            return Err(Nfsstat3::Nospc);
        }
        let content = Content::Directory(Directory::new(dir));
        let mut node = self.new_node(caller, dir, Some(attributes), 0o700, content)?;
        node.nlink = 2;
        let id = self.add_named(dir, name, node)?;
        self.node_mut(dir)?.nlink += 1;
        Ok(id)
    }

    pub(super) fn create(
        &mut self,
        caller: &Caller,
        dir: u64,
        name: Name<'_>,
        how: &Createhow3,
    ) -> FsResult<u64> {
        let (_, directory) = self.searched(caller, dir)?;
        if let Some(id) = directory.get(name.as_bytes()) {
            self.create_existing(caller, id, how)?;
            return Ok(id);
        }
        self.check_addition(caller, dir)?;
        let (attributes, mode, verifier) = match how {
            Createhow3::Unchecked(new) | Createhow3::Guarded(new) => (Some(new), 0o600, None),
            Createhow3::Exclusive(verifier) => (None, 0, Some(*verifier)),
        };
        let content = Content::File(Data::default(), verifier);
        let node = self.new_node(caller, dir, attributes, mode, content)?;
        self.add_named(dir, name, node)
    }

    /// Checks whether a create with an existing name succeeds, and sets the size if it does.
    fn create_existing(&mut self, caller: &Caller, id: u64, how: &Createhow3) -> FsResult<()> {
        match (&self.node(id)?.content, how) {
            (Content::File(_, Some(first)), Createhow3::Exclusive(verifier))
                if first == verifier =>
            {
                Ok(())
            }
            (Content::File(..), Createhow3::Unchecked(new)) => {
                let SetSize3::True(_) = new.size else {
                    return Ok(());
                };
                let size = Sattr3 {
                    size: new.size,
                    ..Sattr3::UNSET
                };
                self.set_attributes(caller, id, &size, None)
            }
            _ => Err(Nfsstat3::Exist),
        }
    }

    /// Checks that a caller may remove a name, and returns its object.
    fn removable(&self, caller: &Caller, dir: u64, name: Name<'_>) -> FsResult<u64> {
        let (node, directory) = self.searched(caller, dir)?;
        let id = directory.get(name.as_bytes()).ok_or(Nfsstat3::Noent)?;
        node.check(caller, WRITE)?;
        let owns = node.is_owner(caller) || self.node(id)?.is_owner(caller);
        if node.mode & STICKY != 0 && !owns {
            return Err(Nfsstat3::Acces);
        }
        Ok(id)
    }

    /// Removes a name from a directory. The object and its number of links stay.
    fn drop_name(&mut self, dir: u64, name: Name<'_>) -> FsResult<()> {
        self.directory_mut(dir)?.remove(name.as_bytes());
        self.budget.give_back(name_cost(name.as_bytes()));
        self.touch(dir)
    }

    /// Removes a link of an object, and the object if it was the last link or if it is a directory,
    /// whose parent then loses a link.
    fn unlink(&mut self, dir: u64, id: u64) -> FsResult<()> {
        let now = self.now();
        let node = self.node_mut(id)?;
        node.nlink = node.nlink.saturating_sub(1);
        node.ctime = now;
        let (is_directory, is_gone) = (node.is_directory(), node.nlink == 0);
        if is_directory {
            let parent = self.node_mut(dir)?;
            parent.nlink = parent.nlink.saturating_sub(1);
        }
        if is_directory || is_gone {
            self.forget(id);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, caller: &Caller, dir: u64, name: Name<'_>) -> FsResult<()> {
        let id = self.removable(caller, dir, name)?;
        if self.node(id)?.is_directory() {
            return Err(Nfsstat3::Isdir);
        }
        self.drop_name(dir, name)?;
        self.unlink(dir, id)
    }

    pub(super) fn remove_dir(&mut self, caller: &Caller, dir: u64, name: Name<'_>) -> FsResult<()> {
        let id = self.removable(caller, dir, name)?;
        if self.node(id)?.directory()?.len() > 0 {
            return Err(Nfsstat3::Notempty);
        }
        self.drop_name(dir, name)?;
        self.unlink(dir, id)
    }

    pub(super) fn link(
        &mut self,
        caller: &Caller,
        id: u64,
        dir: u64,
        name: Name<'_>,
    ) -> FsResult<()> {
        let node = self.node(id)?;
        if node.is_directory() {
            return Err(Nfsstat3::Inval);
        }
        if node.nlink >= LINK_MAX {
            return Err(Nfsstat3::Mlink);
        }
        self.check_new(caller, dir, name)?;
        self.add_name(dir, name, id)?;
        let now = self.now();
        let node = self.node_mut(id)?;
        node.nlink += 1;
        node.ctime = now;
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        caller: &Caller,
        (from, old): (u64, Name<'_>),
        (to, new): (u64, Name<'_>),
    ) -> FsResult<()> {
        let id = self.removable(caller, from, old)?;
        self.check_addition(caller, to)?;
        let target = self.node(to)?.directory()?.get(new.as_bytes());
        if target == Some(id) {
            return Ok(());
        }
        self.check_move(caller, id, from, to)?;
        match target {
            Some(target) => self.replace(caller, (to, new), target, id)?,
            None => {
                self.check_links(id, from, to)?;
                self.add_name(to, new, id)?;
            }
        }
        self.drop_name(from, old)?;
        self.set_parent(id, from, to)
    }

    /// Checks that a directory does not move into itself or below itself, and that the caller may
    /// write to it, since its `..` changes.
    fn check_move(&self, caller: &Caller, id: u64, from: u64, to: u64) -> FsResult<()> {
        let node = self.node(id)?;
        if !node.is_directory() || from == to {
            return Ok(());
        }
        let mut above = to;
        loop {
            if above == id {
                return Err(Nfsstat3::Inval);
            }
            let parent = self.node(above)?.directory()?.parent;
            if parent == above {
                return node.check(caller, WRITE);
            }
            above = parent;
        }
    }

    /// Checks that `to` may have another link, if a directory moves into it.
    fn check_links(&self, id: u64, from: u64, to: u64) -> FsResult<()> {
        let gains_link = from != to && self.node(id)?.is_directory();
        if gains_link && self.node(to)?.nlink >= LINK_MAX {
            return Err(Nfsstat3::Mlink);
        }
        Ok(())
    }

    /// Replaces a compatible target with another object.
    fn replace(
        &mut self,
        caller: &Caller,
        (to, new): (u64, Name<'_>),
        target: u64,
        id: u64,
    ) -> FsResult<()> {
        self.removable(caller, to, new)?;
        let (node, moved) = (self.node(target)?, self.node(id)?);
        let is_empty = node.directory().is_ok_and(|directory| directory.len() == 0);
        if node.is_directory() != moved.is_directory() || node.is_directory() && !is_empty {
            return Err(Nfsstat3::Exist);
        }
        self.directory_mut(to)?.insert(new.as_bytes(), id);
        self.unlink(to, target)?;
        self.touch(to)
    }

    /// Sets the parent of a moved object.
    fn set_parent(&mut self, id: u64, from: u64, to: u64) -> FsResult<()> {
        let now = self.now();
        let node = self.node_mut(id)?;
        node.ctime = now;
        let Content::Directory(directory) = &mut node.content else {
            return Ok(());
        };
        directory.parent = to;
        let before = self.node_mut(from)?;
        before.nlink = before.nlink.saturating_sub(1);
        self.node_mut(to)?.nlink += 1;
        Ok(())
    }

    /// Adds the entries after a cookie to a list. Returns true if there are no more.
    pub(super) fn read_dir(
        &self,
        caller: &Caller,
        dir: u64,
        cookie: u64,
        list: &mut DirList,
    ) -> FsResult<bool> {
        let node = self.node(dir)?;
        let directory = node.directory()?;
        node.check(caller, READ)?;
        if !directory.knows(cookie) {
            return Err(Nfsstat3::BadCookie);
        }
        let dots = [(1, &b"."[..], dir), (2, &b".."[..], directory.parent)];
        let dots = dots.into_iter().filter(|(at, ..)| *at > cookie);
        for (cookie, name, fileid) in dots.chain(directory.after(cookie.max(2))) {
            let object = if list.wants_objects() {
                Some(self.object(fileid)?)
            } else {
                None
            };
            let entry = DirEntry {
                fileid,
                name: name.to_vec(),
                cookie,
                object,
            };
            if !list.push(entry) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::ROOT;
    use super::*;
    use crate::caller::Anonymous;

    fn name(bytes: &[u8]) -> Name<'_> {
        Name::new(bytes).unwrap()
    }

    #[test]
    fn a_directory_moves_only_where_the_parent_can_have_another_link() {
        let root = Caller::from(Anonymous { uid: 0, gid: 0 });
        let mut tree = Tree::new(1 << 20, 1);
        let mut make = |dir, bytes| {
            tree.make_dir(&root, dir, name(bytes), &Sattr3::UNSET)
                .unwrap()
        };
        let (full, _) = (make(ROOT, b"full"), make(ROOT, b"moved"));
        make(full, b"replaced");
        tree.node_mut(full).unwrap().nlink = LINK_MAX;
        let mut rename = |new| tree.rename(&root, (ROOT, name(b"moved")), (full, name(new)));
        assert_eq!(rename(b"new"), Err(Nfsstat3::Mlink));
        assert_eq!(rename(b"replaced"), Ok(()));
        assert_eq!(tree.node(full).unwrap().nlink, LINK_MAX);
    }
}
