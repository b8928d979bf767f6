//! The NFSv4.1 client on a session: names, attributes, and data. OPEN and delegations are in
//! `opening`.
//!
//! Each operation is one COMPOUND by `Nfs4Session::compound`, which assigns slots, and lets a
//! server execute it twice only if `Nfs4Compound::classify` finds that harmless: with a GETATTR or
//! READ before a WRITE it is not. The sizes of results that `add` and `on` get must be upper
//! bounds, since over RDMA a longer reply fails. `ROOM` must be an upper bound, too: by it the data
//! of a READ or WRITE fit in the messages of the session. `read_into` and `write_all` rely on the
//! checks of counts in `read` and `write`. Only the server limits the number of operations of a
//! COMPOUND.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use oncrpc::AsyncTransport;
use oncrpc::xdr::Item;

use super::attributes::{MASK, MAX_VALUES, Nfs4Attributes, Nfs4SetAttributes};
use super::compound::{Nfs4Compound, Nfs4Results, take};
use super::error::{Nfs4Error, Nfs4Fault};
use super::session::Nfs4Session;
use crate::nfs4::{
    Commit4args, Commit4res, NfsArgop4, NfsOpnum4, Remove4args, Setattr4args, StableHow4, Stateid4,
    Verifier4, Write4res, owned,
};

/// A client of an NFSv4.1 server, on a session.
///
/// Each operation is one COMPOUND. Any number of operations can be in flight: they wait for free
/// slots of the session. See the [module](super) for an example.
#[derive(Debug)]
pub struct Nfs4Client<T> {
    session: Nfs4Session<T>,
    root: owned::NfsFh4,
    max_read: u32,
    max_write: u32,
    lease_time: u32,
    /// The number of names of open-owners that were given out.
    owners: AtomicU64,
}

/// The results of a READ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Nfs4ReadPart {
    /// The bytes. Over RDMA they stay where the device has placed them, without a copy, unless they
    /// are few.
    pub data: Item<'static>,
    /// Whether the data reach the end of the file, or the offset is beyond it.
    pub eof: bool,
}

/// The results of a WRITE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Nfs4Written {
    /// The number of bytes that the server accepted.
    pub count: u32,
    /// The stability level, at least that of the call.
    pub committed: StableHow4,
    /// The write verifier.
    pub verifier: Verifier4,
}

/// The maximum bytes of a message beside the data of its READ or WRITE: the RPC header with
/// credentials of 400 bytes, SEQUENCE, PUTFH, and the fixed fields of READ and WRITE. It must not
/// exceed `OVERHEAD` of `session`, the requested excess of a message over `max_transfer`.
const ROOM: u32 = 900;

/// The maximum bytes of the path of a symbolic link for which a reply has memory.
const MAX_LINK: u32 = 4096;

impl<T: AsyncTransport> Nfs4Client<T> {
    /// Creates a client. Asks the server for its root and its limits (PUTROOTFH, GETFH, GETATTR).
    ///
    /// # Errors
    /// Fails as these operations do.
    pub async fn new(session: Nfs4Session<T>) -> Result<Self, Nfs4Error> {
        let mut request = Nfs4Compound::new();
        request.put_root().handle().attributes(&MASK, MAX_VALUES);
        let mut results = session.compound(request).await?;
        let root = handle(&mut results)?;
        let found = attributes(&mut results)?;
        let max_data = |message: u32, attribute: Option<u64>| {
            let in_message = message.saturating_sub(ROOM).max(1);
            let by_server = attribute.and_then(|most| u32::try_from(most).ok());
            let allowed = by_server.unwrap_or(u32::MAX).max(1);
            in_message.min(allowed).min(session.max_transfer())
        };
        Ok(Self {
            root,
            max_read: max_data(session.limits().response, found.maxread),
            max_write: max_data(session.limits().request, found.maxwrite),
            lease_time: found.lease_time.unwrap_or(0),
            session,
            owners: AtomicU64::new(0),
        })
    }

    /// Looks up a name in a directory (LOOKUP). Returns the handle and the attributes of the
    /// object.
    ///
    /// # Errors
    /// Fails as LOOKUP does.
    pub async fn lookup(
        &self,
        dir: &owned::NfsFh4,
        name: &[u8],
    ) -> Result<(owned::NfsFh4, Nfs4Attributes), Nfs4Error> {
        self.walk(dir, &[name]).await
    }

    /// Looks up each name of a path by one COMPOUND. Does not follow symbolic links.
    ///
    /// # Errors
    /// Fails as LOOKUP does, and with NFS4ERR_TOO_MANY_OPS if the LOOKUPs of the names and four
    /// other operations exceed the maximum operations of a COMPOUND.
    pub async fn lookup_path(
        &self,
        dir: &owned::NfsFh4,
        path: impl AsRef<[u8]>,
    ) -> Result<(owned::NfsFh4, Nfs4Attributes), Nfs4Error> {
        let names = path.as_ref().split(|byte| *byte == b'/');
        let names: Vec<&[u8]> = names.filter(|name| !name.is_empty()).collect();
        self.walk(dir, &names).await
    }

    async fn walk(
        &self,
        dir: &owned::NfsFh4,
        names: &[&[u8]],
    ) -> Result<(owned::NfsFh4, Nfs4Attributes), Nfs4Error> {
        let mut request = Nfs4Compound::new();
        request.put_handle(dir.as_borrowed());
        for name in names {
            request.lookup(name);
        }
        request.handle().attributes(&MASK, MAX_VALUES);
        let mut results = self.session.compound(request).await?;
        Ok((handle(&mut results)?, attributes(&mut results)?))
    }

    /// Returns attributes (GETATTR).
    ///
    /// # Errors
    /// Fails as GETATTR does.
    pub async fn attributes(&self, object: &owned::NfsFh4) -> Result<Nfs4Attributes, Nfs4Error> {
        let mut request = Nfs4Compound::new();
        request
            .put_handle(object.as_borrowed())
            .attributes(&MASK, MAX_VALUES);
        attributes(&mut self.session.compound(request).await?)
    }

    /// Sets attributes (SETATTR). A size needs the stateid of an open for writing.
    ///
    /// # Errors
    /// Fails as SETATTR does.
    pub async fn set_attributes(
        &self,
        object: &owned::NfsFh4,
        stateid: Stateid4,
        new: Nfs4SetAttributes,
    ) -> Result<(), Nfs4Error> {
        let new = new.encode();
        let args = Setattr4args {
            stateid,
            obj_attributes: new.as_args(),
        };
        self.on(object.as_borrowed(), NfsArgop4::Setattr(args), 16)
            .await
    }

    /// Reads at most `count` and at most [`max_read`](Self::max_read) bytes by one call (READ).
    ///
    /// # Errors
    /// Fails as READ does.
    pub async fn read(
        &self,
        file: &owned::NfsFh4,
        stateid: Stateid4,
        offset: u64,
        count: u32,
    ) -> Result<Nfs4ReadPart, Nfs4Error> {
        let count = count.min(self.max_read);
        let mut request = Nfs4Compound::new();
        request
            .put_handle(file.as_borrowed())
            .read(stateid, offset, count);
        let mut results = self.session.compound(request).await?;
        let ok = take!(results, Read, owned::NfsResop4::Read(owned::Read4res::Ok(ok)) => *ok)?;
        if ok.data.len() > count as usize {
            return Err(Nfs4Error::fault(NfsOpnum4::Read, Nfs4Fault::Count));
        }
        Ok(Nfs4ReadPart {
            data: ok.data,
            eof: ok.eof,
        })
    }

    /// Reads bytes into memory by successive calls, until the memory is full or the file ends.
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// Fails as READ does. The memory may have changed in this case.
    pub async fn read_into(
        &self,
        file: &owned::NfsFh4,
        stateid: Stateid4,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Nfs4Error> {
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let count = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            let at = offset.saturating_add(filled as u64);
            let part = self.read(file, stateid, at, count).await?;
            let place = rest.get_mut(..part.data.len());
            place.unwrap_or_default().copy_from_slice(&part.data);
            filled += part.data.len();
            match (part.eof, part.data.is_empty()) {
                (true, _) => break,
                (false, true) => {
                    return Err(Nfs4Error::fault(NfsOpnum4::Read, Nfs4Fault::NoProgress));
                }
                (false, false) => {}
            }
        }
        Ok(filled)
    }

    /// Writes at most [`max_write`](Self::max_write) bytes by one call (WRITE).
    ///
    /// Bytes in a shared buffer are not copied if the transport can send from that buffer:
    /// `oncrpc::Channel::item_buf` returns such buffers.
    ///
    /// # Errors
    /// Fails as WRITE does.
    pub async fn write(
        &self,
        file: &owned::NfsFh4,
        stateid: Stateid4,
        offset: u64,
        data: impl Into<Item<'_>>,
        stable: StableHow4,
    ) -> Result<Nfs4Written, Nfs4Error> {
        let data = data.into();
        let len = data.len().min(self.max_write as usize);
        let mut request = Nfs4Compound::new();
        request
            .put_handle(file.as_borrowed())
            .write(stateid, offset, stable, part(&data, 0..len));
        let mut results = self.session.compound(request).await?;
        let ok = take!(results, Write, owned::NfsResop4::Write(Write4res::Ok(ok)) => ok)?;
        let fault = |fault| Err(Nfs4Error::fault(NfsOpnum4::Write, fault));
        if ok.count as usize > len {
            return fault(Nfs4Fault::Count);
        }
        if ok.committed < stable {
            return fault(Nfs4Fault::Stability);
        }
        Ok(Nfs4Written {
            count: ok.count,
            committed: ok.committed,
            verifier: ok.writeverf,
        })
    }

    /// Writes all bytes to stable storage by successive calls.
    ///
    /// # Errors
    /// Fails as WRITE does.
    pub async fn write_all(
        &self,
        file: &owned::NfsFh4,
        stateid: Stateid4,
        offset: u64,
        data: impl Into<Item<'_>>,
    ) -> Result<(), Nfs4Error> {
        let data = data.into();
        let mut written = 0;
        while written < data.len() {
            let at = offset.saturating_add(written as u64);
            let rest = part(&data, written..data.len());
            let stable = StableHow4::FileSync4;
            let done = self.write(file, stateid, at, rest, stable).await?;
            if done.count == 0 {
                return Err(Nfs4Error::fault(NfsOpnum4::Write, Nfs4Fault::NoProgress));
            }
            written += done.count as usize;
        }
        Ok(())
    }

    /// Commits written data to stable storage (COMMIT): `count` bytes from `offset`, or all from
    /// there if `count` is 0. Returns the write verifier.
    ///
    /// # Errors
    /// Fails as COMMIT does.
    pub async fn commit(
        &self,
        file: &owned::NfsFh4,
        offset: u64,
        count: u32,
    ) -> Result<Verifier4, Nfs4Error> {
        let mut request = Nfs4Compound::new();
        request
            .put_handle(file.as_borrowed())
            .add(NfsArgop4::Commit(Commit4args { offset, count }), 8);
        let mut results = self.session.compound(request).await?;
        take!(results, Commit, owned::NfsResop4::Commit(Commit4res::Ok(ok)) => ok.writeverf)
    }

    /// Returns the path of a symbolic link (READLINK).
    ///
    /// # Errors
    /// Fails as READLINK does. Over RDMA, the reply has memory for a path of 4096 bytes.
    pub async fn read_link(&self, link: &owned::NfsFh4) -> Result<Vec<u8>, Nfs4Error> {
        let mut request = Nfs4Compound::new();
        request.put_handle(link.as_borrowed()).read_link(MAX_LINK);
        let mut results = self.session.compound(request).await?;
        let ok = take!(
            results,
            Readlink,
            owned::NfsResop4::Readlink(owned::Readlink4res::Ok(ok)) => *ok
        )?;
        Ok(ok.link.as_bytes().to_vec())
    }

    /// Removes a name from a directory (REMOVE).
    ///
    /// # Errors
    /// Fails as REMOVE does.
    pub async fn remove(&self, dir: &owned::NfsFh4, name: &[u8]) -> Result<(), Nfs4Error> {
        let args = Remove4args { target: name };
        self.on(dir.as_borrowed(), NfsArgop4::Remove(args), 20)
            .await
    }
}

impl<T> Nfs4Client<T> {
    /// Returns the name of a new open-owner: no other has it, also of another client with the same
    /// client ID, because the name contains the session.
    pub(super) fn next_owner(&self) -> [u8; 24] {
        let number = self.owners.fetch_add(1, Relaxed);
        let mut owner = [0; 24];
        let (session, rest) = owner.split_at_mut(16);
        session.copy_from_slice(&self.session.id());
        rest.copy_from_slice(&number.to_be_bytes());
        owner
    }

    /// Returns the session.
    #[must_use]
    pub const fn session(&self) -> &Nfs4Session<T> {
        &self.session
    }

    /// Returns the session, to replace its transport. The client keeps the limits of this session:
    /// create a client for another one.
    #[must_use]
    pub const fn session_mut(&mut self) -> &mut Nfs4Session<T> {
        &mut self.session
    }

    /// Returns the session, to end it.
    #[must_use]
    pub fn into_session(self) -> Nfs4Session<T> {
        self.session
    }

    /// Returns the handle of the root.
    #[must_use]
    pub const fn root(&self) -> &owned::NfsFh4 {
        &self.root
    }

    /// Returns the maximum bytes of a READ, which the session, its configuration and the server
    /// limit.
    #[must_use]
    pub const fn max_read(&self) -> u32 {
        self.max_read
    }

    /// Returns the maximum bytes of a WRITE, which the session, its configuration and the server
    /// limit.
    #[must_use]
    pub const fn max_write(&self) -> u32 {
        self.max_write
    }

    /// Returns the lease time of the server in seconds, or 0 if the server does not support the
    /// attribute.
    #[must_use]
    pub const fn lease_time(&self) -> u32 {
        self.lease_time
    }
}

/// Takes the handle that GETFH returned. `opening` also calls this and `attributes` with the
/// results up to an operation that failed.
pub(super) fn handle(results: &mut Nfs4Results) -> Result<owned::NfsFh4, Nfs4Error> {
    let result = take!(results, Getfh, owned::NfsResop4::Getfh(result) => *result)?;
    match result {
        owned::Getfh4res::Ok(ok) => Ok(ok.object),
        owned::Getfh4res::Default(_) => Err(Nfs4Error::fault(NfsOpnum4::Getfh, Nfs4Fault::Results)),
    }
}

/// Takes the attributes that GETATTR returned.
pub(super) fn attributes(results: &mut Nfs4Results) -> Result<Nfs4Attributes, Nfs4Error> {
    let ok = take!(results, Getattr, owned::NfsResop4::Getattr(owned::Getattr4res::Ok(ok)) => *ok)?;
    Nfs4Attributes::decode(&ok.obj_attributes)
}

/// Returns a part of an item; empty if the range exceeds the item. If the item is a shared buffer,
/// the part shares it, so that the transport sends from it without a copy.
fn part<'s>(data: &'s Item<'_>, range: Range<usize>) -> Item<'s> {
    let part = match data.shared() {
        Some(shared) => shared.slice(range).map(Item::from),
        None => data.get(range).map(Item::from),
    };
    part.unwrap_or_default()
}
