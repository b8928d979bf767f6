//! All objects of a file system, by their numbers.
//!
//! A [`Tree`] owns the numbers, the handles and the clock. A number is never reused, so that the
//! handle of a removed object stays stale. `now` rises with each call, so that clients see each
//! change by its ctime. `add` and `forget` account for an object in the budget; `naming` accounts
//! for names, and forgets an object with its last name.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use super::budget::{Budget, shrink};
use super::node::{Content, Directory, Node};
use crate::file_system::FsResult;
use crate::handle::{FileHandle, Object};
use crate::nfs3::{Fattr3, Nfsstat3, Nfstime3};

/// The number of the root.
pub(super) const ROOT: u64 = 1;
/// The cost of an object, with its entry in the table.
const NODE_COST: u64 = 512;
/// The cost of a name beyond its bytes.
const NAME_COST: u64 = 192;

/// The objects.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: HashMap<u64, Node>,
    /// The next object number. Numbers are never reused.
    next: u64,
    pub(super) budget: Budget,
    /// Distinguishes this file system from others, and from its own earlier instances.
    instance: u64,
    /// The key of the codes in handles: a client cannot forge a handle, even if it has seen
    /// another.
    codes: RandomState,
    /// The last time that `now` returned.
    clock: Nfstime3,
}

/// Returns the cost of a name.
pub(super) fn name_cost(name: &[u8]) -> u64 {
    NAME_COST + 2 * name.len() as u64
}

impl Tree {
    /// Creates a file system with a root, which belongs to user 0.
    pub(super) fn new(limit: u64, instance: u64) -> Self {
        let mut tree = Self {
            nodes: HashMap::new(),
            next: ROOT,
            budget: Budget::new(limit),
            instance,
            codes: RandomState::new(),
            clock: Nfstime3 {
                seconds: 0,
                nseconds: 0,
            },
        };
        let now = tree.now();
        let root = Node {
            mode: 0o755,
            nlink: 2,
            uid: 0,
            gid: 0,
            atime: now,
            mtime: now,
            ctime: now,
            content: Content::Directory(Directory::new(ROOT)),
        };
        // The root exists even if the budget is 0.
        tree.nodes.insert(ROOT, root);
        tree.next += 1;
        tree
    }

    /// Returns the time. Each result is later than the one before, so that every change is visible.
    pub(super) fn now(&mut self) -> Nfstime3 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        let now = (
            u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
            since.subsec_nanos(),
        );
        let last = (self.clock.seconds, self.clock.nseconds);
        let next = match last.1 {
            999_999_999 => (last.0.saturating_add(1), 0),
            nseconds => (last.0, nseconds + 1),
        };
        let (seconds, nseconds) = now.max(next);
        self.clock = Nfstime3 { seconds, nseconds };
        self.clock
    }

    pub(super) fn len(&self) -> u64 {
        self.nodes.len() as u64
    }

    pub(super) fn handle(&self, id: u64) -> FileHandle {
        let mut bytes = [0; 16];
        let (code, number) = bytes.split_at_mut(8);
        code.copy_from_slice(&self.codes.hash_one(id).to_be_bytes());
        number.copy_from_slice(&id.to_be_bytes());
        FileHandle::from_array(bytes)
    }

    /// Returns true if a handle belongs to this file system.
    pub(super) fn owns(&self, handle: &FileHandle) -> bool {
        let bytes = <[u8; 16]>::try_from(handle.as_bytes());
        bytes
            .map(halves)
            .is_ok_and(|(code, id)| code == self.codes.hash_one(id))
    }

    /// Returns the number of a handle's object.
    pub(super) fn resolve(&self, handle: &FileHandle) -> FsResult<u64> {
        let bytes: [u8; 16] = handle
            .as_bytes()
            .try_into()
            .map_err(|_| Nfsstat3::Badhandle)?;
        let (code, id) = halves(bytes);
        if code != self.codes.hash_one(id) || !self.nodes.contains_key(&id) {
            return Err(Nfsstat3::Stale);
        }
        Ok(id)
    }

    pub(super) fn node(&self, id: u64) -> FsResult<&Node> {
        self.nodes.get(&id).ok_or(Nfsstat3::Stale)
    }

    pub(super) fn node_mut(&mut self, id: u64) -> FsResult<&mut Node> {
        self.nodes.get_mut(&id).ok_or(Nfsstat3::Stale)
    }

    /// Returns mutable references to an object and the budget.
    pub(super) fn node_and_budget(&mut self, id: u64) -> FsResult<(&mut Node, &mut Budget)> {
        let node = self.nodes.get_mut(&id).ok_or(Nfsstat3::Stale)?;
        Ok((node, &mut self.budget))
    }

    pub(super) fn directory_mut(&mut self, id: u64) -> FsResult<&mut Directory> {
        match &mut self.node_mut(id)?.content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Nfsstat3::Notdir),
        }
    }

    pub(super) fn attributes(&self, id: u64) -> FsResult<Fattr3> {
        Ok(self.node(id)?.attributes(self.instance, id))
    }

    pub(super) fn object(&self, id: u64) -> FsResult<Object> {
        Ok(Object {
            handle: self.handle(id),
            attributes: self.attributes(id)?,
        })
    }

    /// Adds an object without a name.
    pub(super) fn add(&mut self, node: Node) -> FsResult<u64> {
        self.budget.take(cost(&node))?;
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        Ok(id)
    }

    /// Removes an object, and returns its bytes to the budget.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some(node) = self.nodes.remove(&id) {
            self.budget.give_back(cost(&node));
            shrink(&mut self.nodes);
        }
    }

    /// Sets the times of the last change of the attributes and of the content.
    pub(super) fn touch(&mut self, id: u64) -> FsResult<()> {
        let now = self.now();
        let node = self.node_mut(id)?;
        (node.mtime, node.ctime) = (now, now);
        Ok(())
    }
}

/// Returns the two numbers of a handle.
fn halves(bytes: [u8; 16]) -> (u64, u64) {
    let number = |half: &[u8]| half.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let (code, id) = bytes.split_at(8);
    (number(code), number(id))
}

/// Returns the cost of an object with its content.
fn cost(node: &Node) -> u64 {
    NODE_COST
        + match &node.content {
            Content::File(data, _) => data.allocated(),
            Content::Symlink(path) => path.len() as u64,
            Content::Directory(_) | Content::Special(..) => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{Anonymous, Caller};
    use crate::name::Name;
    use crate::nfs3::{Createhow3, Sattr3, SetSize3};

    #[test]
    fn removed_objects_free_their_memory() {
        let mut tree = Tree::new(1 << 30, 1);
        let root = Caller::from(Anonymous { uid: 0, gid: 0 });
        let mut add = |_| {
            let content = Content::Directory(Directory::new(ROOT));
            let node = tree.new_node(&root, ROOT, None, 0o700, content).unwrap();
            tree.add(node).unwrap()
        };
        let added: Vec<u64> = (0..10_000).map(&mut add).collect();
        added.into_iter().for_each(|id| tree.forget(id));
        let capacity = tree.nodes.capacity();
        assert!(capacity < 1000, "{capacity}");
    }

    /// Checks the budget and the numbers of links by the objects and names that exist.
    fn check(tree: &Tree) {
        let mut used = 0;
        let mut links = HashMap::<u64, u32>::new();
        for (id, node) in &tree.nodes {
            // The root takes nothing from the budget.
            used += if *id == ROOT { 0 } else { cost(node) };
            let Ok(directory) = node.directory() else {
                continue;
            };
            for linked in [*id, directory.parent] {
                *links.entry(linked).or_default() += 1;
            }
            for (_, name, child) in directory.after(0) {
                used += name_cost(name);
                *links.entry(child).or_default() += 1;
                let child = tree.node(child).unwrap().directory();
                assert!(child.is_ok_and(|child| child.parent == *id) || child.is_err());
            }
        }
        let expected = tree.nodes.iter().map(|(id, node)| (*id, node.nlink));
        assert_eq!(links, expected.collect());
        assert_eq!(used, tree.budget.limit() - tree.budget.free());
    }

    #[test]
    fn the_budget_and_the_links_are_those_of_the_names() {
        let root = Caller::from(Anonymous { uid: 0, gid: 0 });
        let mut tree = Tree::new(12_000, 1);
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        let (mut succeeded, mut full) = ([0; 7], 0);
        for _ in 0..20_000 {
            let mut ids: Vec<u64> = tree.nodes.keys().copied().collect();
            ids.sort_unstable();
            let mut id = || ids[random(ids.len())];
            let (object, from, to) = (id(), id(), id());
            let [old, new] = [(); 2].map(|()| [b'a' + u8::try_from(random(3)).unwrap()]);
            let [old, new] = [&old, &new].map(|name| Name::new(name).unwrap());
            let size = Sattr3 {
                size: SetSize3::True(random(700) as u64),
                ..Sattr3::UNSET
            };
            let operation = random(succeeded.len());
            let result = match operation {
                0 => tree.make_dir(&root, from, old, &Sattr3::UNSET).map(drop),
                1 => {
                    let how = Createhow3::Unchecked(size);
                    tree.create(&root, from, old, &how).map(drop)
                }
                2 => tree.remove(&root, from, old),
                3 => tree.remove_dir(&root, from, old),
                4 => tree.rename(&root, (from, old), (to, new)),
                5 => tree.link(&root, object, from, old),
                _ => {
                    let (node, budget) = tree.node_and_budget(object).unwrap();
                    match &mut node.content {
                        Content::File(data, _) => {
                            let bytes = vec![1; random(700)];
                            data.write(random(700) as u64, &bytes, budget).map(drop)
                        }
                        _ => Err(Nfsstat3::Inval),
                    }
                }
            };
            succeeded[operation] += u32::from(result.is_ok());
            full += u32::from(result == Err(Nfsstat3::Nospc));
            check(&tree);
        }
        assert!(succeeded.iter().all(|count| *count > 100), "{succeeded:?}");
        assert!(full > 100, "{full}");
    }
}
