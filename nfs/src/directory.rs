//! The directory entries that fit a reply (RFC 1813, sections 3.3.16 and 3.3.17).
//!
//! A [`DirList`] counts the XDR bytes of the entries that `service::directories` encodes. The
//! constants and the two lengths of an entry must agree with the encoding, or a reply exceeds the
//! caller's limit. A file system pushes entries in the order of their cookies, and stops when
//! `push` returns false. `host::listing` relies on `max_entries`: no more entries than that ever
//! fit.

use crate::handle::Object;

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// The fileid of the object.
    pub fileid: u64,
    /// The name.
    pub name: Vec<u8>,
    /// The position after this entry; never 0.
    pub cookie: u64,
    /// The handle and the attributes, if [`DirList::wants_objects`] returns true.
    pub object: Option<Object>,
}

/// Collects directory entries until a reply is full.
#[derive(Debug)]
pub struct DirList {
    entries: Vec<DirEntry>,
    /// The bytes left in the reply.
    room: usize,
    /// The bytes left for names and numbers.
    directory_room: usize,
    wants_objects: bool,
}

/// The bytes of a post_op_attr with attributes.
const ATTRIBUTES: usize = 88;
/// The bytes of a READDIR3resok or READDIRPLUS3resok without entries: attributes, verifier, the end
/// of the list, and eof.
const EMPTY: usize = ATTRIBUTES + 8 + 4 + 4;

fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

impl DirEntry {
    /// Returns the bytes of the number, the name and the cookie.
    fn directory_len(&self) -> usize {
        8 + 4 + padded(self.name.len()) + 8
    }

    /// Returns the bytes of the handle and the attributes.
    fn object_len(&self) -> usize {
        match &self.object {
            Some(object) => ATTRIBUTES + 4 + 4 + padded(object.handle.as_bytes().len()),
            None => 8,
        }
    }
}

impl DirList {
    /// Creates a list for READDIR, whose results may have `count` bytes.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            entries: Vec::new(),
            room: (count as usize).saturating_sub(EMPTY),
            directory_room: usize::MAX,
            wants_objects: false,
        }
    }

    /// Creates a list for READDIRPLUS, whose results may have `maxcount` bytes, of which names and
    /// numbers are `dircount`.
    pub(crate) fn plus(dircount: u32, maxcount: u32) -> Self {
        Self {
            directory_room: dircount as usize,
            wants_objects: true,
            ..Self::new(maxcount)
        }
    }

    /// Returns true if entries need handles and attributes.
    #[must_use]
    pub fn wants_objects(&self) -> bool {
        self.wants_objects
    }

    /// Returns the number of entries that fit if each has a name of one byte and no attributes.
    #[cfg(all(feature = "host", target_os = "linux"))]
    pub(crate) fn max_entries(&self) -> usize {
        let shortest = DirEntry {
            fileid: 0,
            name: vec![b'a'],
            cookie: 0,
            object: None,
        };
        // The first entry is added even if it exceeds `dircount`.
        let by_names = (self.directory_room / shortest.directory_len()).max(1);
        by_names.min(self.room / self.len_in_reply(&shortest))
    }

    fn len_in_reply(&self, entry: &DirEntry) -> usize {
        let objects = if self.wants_objects {
            entry.object_len()
        } else {
            0
        };
        4 + entry.directory_len() + objects
    }

    /// Adds an entry. Returns false if there is no room for it: it is not added, and the file
    /// system stops.
    pub fn push(&mut self, entry: DirEntry) -> bool {
        let (directory, len) = (entry.directory_len(), self.len_in_reply(&entry));
        // The first entry is added even if it exceeds `dircount`, which is a hint.
        let wanted = self.entries.is_empty() || directory <= self.directory_room;
        if len > self.room || !wanted {
            return false;
        }
        self.room -= len;
        self.directory_room = self.directory_room.saturating_sub(directory);
        self.entries.push(entry);
        true
    }

    /// Returns the entries, in order.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = DirEntry> {
        self.entries.into_iter()
    }

    /// Returns the entries.
    #[must_use]
    pub fn entries(&self) -> &[DirEntry] {
        &self.entries
    }
}

#[cfg(all(test, feature = "host", target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_of_entries_fits() {
        let lists = [
            (4096, None),
            // A list with no entry, and with one.
            (104 + 31, None),
            (104 + 32, None),
            (4096, Some(512)),
            (4096, Some(1)),
            (512, Some(4096)),
        ];
        for (count, dircount) in lists {
            let mut list = match dircount {
                Some(dircount) => DirList::plus(dircount, count),
                None => DirList::new(count),
            };
            let most = list.max_entries();
            let entry = || DirEntry {
                fileid: 1,
                name: b"a".to_vec(),
                cookie: 1,
                object: None,
            };
            let pushed = (0..=most).map(|_| list.push(entry())).collect::<Vec<_>>();
            let fits = pushed.iter().filter(|fits| **fits).count();
            assert_eq!(fits, most, "{count} {dircount:?}");
        }
    }
}
