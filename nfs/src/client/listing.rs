//! READDIR and READDIRPLUS: a directory is read in several calls.
//!
//! A [`DirectoryStream`] owns the cookie and the verifier of the next call. The reply is untrusted:
//! each name must be a `Name`, since users build paths from names, and a cycle of cookies is an
//! error, so that no server makes a client call forever. `REPLY_SLACK` enlarges the memory for a
//! reply over RDMA, without which the replies of some servers fail.

use std::fmt;

use oncrpc::{AsyncTransport, Method, ReplyLimits};

use super::base::{Client, attributes, fault};
use super::error::{ClientError, ProtocolFault};
use super::outcome::await_success;
use crate::directory::DirEntry;
use crate::handle::{FileHandle, Object};
use crate::name::Name;
use crate::nfs3::nfs_program::nfs_v3::{Readdir, Readdirplus};
use crate::nfs3::owned::{Entry3Item, Entryplus3Item, PostOpFh3};
use crate::nfs3::{Readdir3args, Readdirplus3args};

/// The bytes that a reply may have beyond the requested count: servers count differently.
const REPLY_SLACK: u64 = 1024;

/// The entries of a directory, read in several calls: [`Client::read_dir`] and
/// [`Client::read_dir_plus`] return it. Its memory does not depend on the number of entries.
pub struct DirectoryStream<'c, T> {
    client: &'c Client<T>,
    dir: FileHandle,
    wants_objects: bool,
    cookie: u64,
    verifier: [u8; 8],
    is_done: bool,
    cycle: CycleDetector,
}

/// Detects a server whose cookies form a cycle, in constant memory (Brent's algorithm): it compares
/// each cookie with an earlier one, which it replaces at growing intervals.
struct CycleDetector {
    before: u64,
    /// The number of cookies since `before` was replaced.
    count: u64,
    limit: u64,
}

impl CycleDetector {
    /// Returns true if the cookies form a cycle.
    fn closes(&mut self, cookie: u64) -> bool {
        let closes = cookie == self.before;
        self.count += 1;
        if self.count == self.limit {
            (self.before, self.count) = (cookie, 0);
            self.limit = self.limit.saturating_mul(2);
        }
        closes
    }
}

impl<T: AsyncTransport> Client<T> {
    /// Returns the entries of a directory without objects (READDIR). Servers also list `.` and
    /// `..`.
    #[must_use]
    pub fn read_dir(&self, dir: &FileHandle) -> DirectoryStream<'_, T> {
        DirectoryStream {
            client: self,
            dir: *dir,
            wants_objects: false,
            cookie: 0,
            verifier: [0; 8],
            is_done: false,
            cycle: CycleDetector {
                before: 0,
                count: 0,
                limit: 1,
            },
        }
    }

    /// Returns the entries of a directory with their objects (READDIRPLUS). An entry has no object
    /// if the server does not return both its handle and its attributes. A server can reply
    /// NFS3ERR_NOTSUPP.
    #[must_use]
    pub fn read_dir_plus(&self, dir: &FileHandle) -> DirectoryStream<'_, T> {
        DirectoryStream {
            wants_objects: true,
            ..self.read_dir(dir)
        }
    }
}

/// The content of one reply.
struct Part<E> {
    entries: Vec<E>,
    eof: bool,
    verifier: [u8; 8],
}

impl<T: AsyncTransport> DirectoryStream<'_, T> {
    /// Returns the next entries, or `None` at the end.
    ///
    /// # Errors
    /// Fails as READDIR or READDIRPLUS does. After NFS3ERR_BAD_COOKIE, the directory has changed so
    /// much that it must be listed from the start.
    pub async fn next(&mut self) -> Result<Option<Vec<DirEntry>>, ClientError> {
        if self.is_done {
            return Ok(None);
        }
        let entries = if self.wants_objects {
            let part = self.plus_part().await?;
            self.take::<Readdirplus, _>(part)?
        } else {
            let part = self.part().await?;
            self.take::<Readdir, _>(part)?
        };
        Ok(Some(entries).filter(|entries| !entries.is_empty()))
    }

    async fn part(&self) -> Result<Part<Entry3Item>, ClientError> {
        let count = self.client.limits.listing;
        let args = Readdir3args {
            dir: self.dir.as_args(),
            cookie: self.cookie,
            cookieverf: self.verifier,
            count,
        };
        let call = self.client.stubs.readdir(&args);
        let ok = await_success(call.reply_limits(reply_limits(count))).await?;
        Ok(Part {
            entries: ok.reply.entries.into_inner(),
            eof: ok.reply.eof,
            verifier: ok.cookieverf,
        })
    }

    async fn plus_part(&self) -> Result<Part<Entryplus3Item>, ClientError> {
        let count = self.client.limits.listing;
        let args = Readdirplus3args {
            dir: self.dir.as_args(),
            cookie: self.cookie,
            cookieverf: self.verifier,
            dircount: count,
            maxcount: count,
        };
        let call = self.client.stubs.readdirplus(&args);
        let ok = await_success(call.reply_limits(reply_limits(count))).await?;
        Ok(Part {
            entries: ok.reply.entries.into_inner(),
            eof: ok.reply.eof,
            verifier: ok.cookieverf,
        })
    }

    /// Takes the entries of a reply, and advances the cookie.
    fn take<P: Method, E: Into<DirEntry>>(
        &mut self,
        part: Part<E>,
    ) -> Result<Vec<DirEntry>, ClientError> {
        let entries: Vec<DirEntry> = part.entries.into_iter().map(Into::into).collect();
        if entries.iter().any(|entry| Name::new(&entry.name).is_err()) {
            return Err(fault::<P>(ProtocolFault::Name));
        }
        let last = entries.last().map(|entry| entry.cookie);
        if !part.eof && last.is_none_or(|cookie| self.cycle.closes(cookie)) {
            return Err(fault::<P>(ProtocolFault::Cookies));
        }
        self.cookie = last.unwrap_or(self.cookie);
        self.verifier = part.verifier;
        self.is_done = part.eof;
        Ok(entries)
    }
}

fn reply_limits(count: u32) -> ReplyLimits {
    ReplyLimits::new(Some(u64::from(count) + REPLY_SLACK))
}

impl From<Entry3Item> for DirEntry {
    fn from(entry: Entry3Item) -> Self {
        Self {
            fileid: entry.fileid,
            name: entry.name.into_inner(),
            cookie: entry.cookie,
            object: None,
        }
    }
}

impl From<Entryplus3Item> for DirEntry {
    fn from(entry: Entryplus3Item) -> Self {
        let handle = match entry.name_handle {
            PostOpFh3::True(handle) => Some(FileHandle::from(&handle.data)),
            PostOpFh3::False => None,
        };
        let found = handle.zip(attributes(entry.name_attributes));
        Self {
            fileid: entry.fileid,
            name: entry.name.into_inner(),
            cookie: entry.cookie,
            object: found.map(|(handle, attributes)| Object { handle, attributes }),
        }
    }
}

impl<T> fmt::Debug for DirectoryStream<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, cookie, .. } = self;
        write!(f, "DirectoryStream({dir:?}, cookie {cookie})")
    }
}
