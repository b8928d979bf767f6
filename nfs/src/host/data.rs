//! READ, WRITE and COMMIT (RFC 1813, sections 3.3.6, 3.3.7 and 3.3.21).
//!
//! WRITEs of a file run beside each other, and COMMIT takes no lock of it, so their results have no
//! attributes before. A WRITE shares the lock of the file while it writes, or it could be between
//! the attributes before and after a change such as SETATTR. WRITE takes the verifier before it
//! writes, and COMMIT after it synchronizes. Bytes that are not stable must be written while a
//! `Writing` of `stability` exists, or their loss may go unnoticed.
//! `open_file` checks permissions, and `opened` keeps files open.

use std::os::fd::OwnedFd;

use oncrpc::ItemAllocator;
use rustix::fs::{Access, OFlags, fstat};
use rustix::io::{Errno, fcntl_dupfd_cloexec, pread, pwrite};

use super::attributes::size;
use super::errno::{status, status_without_perm};
use super::table::Id;
use super::tree::{ObjectFd, Tree};
use crate::caller::Caller;
use crate::file_system::{FsResult, ReadData, Written};
use crate::handle::FileHandle;
use crate::nfs3::{Nfsstat3, StableHow};
use crate::wcc::Wcc;

/// Reads until a buffer is full or the file ends.
fn read_full(file: &OwnedFd, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    transfer_full(bytes.len(), |done| {
        let rest = bytes.get_mut(done..).unwrap_or_default();
        pread(file, rest, offset + done as u64)
    })
}

/// Writes until all bytes are written or an error occurs.
fn write_full(file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    transfer_full(bytes.len(), |done| {
        let rest = bytes.get(done..).unwrap_or_default();
        pwrite(file, rest, offset + done as u64)
    })
}

/// Calls `transfer`, with the number of bytes done, until it has transferred `length` bytes,
/// transfers none, or fails. Returns the number of bytes done, or the error if that is zero.
fn transfer_full(
    length: usize,
    mut transfer: impl FnMut(usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut done = 0;
    while done < length {
        match transfer(done) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

impl Tree {
    /// Opens a regular file as its caller.
    ///
    /// The owner may always read and write, whatever the mode is, because the client checked the
    /// mode when it opened the file. A user with execute permission may read the file, because the
    /// client reads it to execute it.
    pub(super) fn open_file(
        &self,
        caller: &Caller,
        file: &ObjectFd,
        flags: OFlags,
    ) -> FsResult<OwnedFd> {
        let opened = self.identity.run_as(caller, || {
            self.reopen(&file.fd, flags).map_err(|error| {
                let executes = flags == OFlags::RDONLY && self.may(file, Access::EXEC_OK);
                (error, executes)
            })
        })?;
        match opened {
            Err((Errno::ACCESS, executes)) if executes || file.is_owner(caller) => {
                let reopen = || self.reopen(&file.fd, flags);
                self.identity.run_as_server(reopen)?
            }
            opened => opened.map_err(|(error, _)| error),
        }
        .map_err(status_without_perm)
    }

    pub(super) fn read(
        &self,
        caller: &Caller,
        file: &FileHandle,
        (offset, count): (u64, u32),
        buffers: &ItemAllocator,
    ) -> FsResult<ReadData> {
        if let Some(read) = self.read_kept(caller, file, (offset, count), buffers) {
            return Ok(read);
        }
        let found = self.resolve(file)?.file()?;
        let opened = self.reader(caller, &found)?;
        let left = size(&found.stat).saturating_sub(offset);
        let count = usize::try_from(left.min(count.into())).map_err(|_| Nfsstat3::Inval)?;
        let mut buffer = buffers.alloc(count);
        let read = if count == 0 {
            0
        } else {
            read_full(&opened, &mut buffer, offset).map_err(status_without_perm)?
        };
        let stat = fstat(&opened).map_err(status)?;
        Ok(ReadData {
            data: buffer.into_item(read),
            eof: offset.saturating_add(read as u64) >= size(&stat),
            attributes: self.attributes(&stat),
        })
    }

    /// Reads from a file that the caller has read before, with one system call less: the attributes
    /// after the bytes were read show that the caller still may read them. Returns `None` if they
    /// do not, or if they show more bytes than were expected.
    fn read_kept(
        &self,
        caller: &Caller,
        file: &FileHandle,
        (offset, count): (u64, u32),
        buffers: &ItemAllocator,
    ) -> Option<ReadData> {
        let opened = self.kept_reader(caller, file)?;
        let expected = opened.seen_size().checked_sub(offset)?.min(count.into());
        let expected = usize::try_from(expected).ok().filter(|count| *count > 0)?;
        let mut buffer = buffers.alloc(expected);
        let read = read_full(&opened.file, &mut buffer, offset).ok()?;
        let stat = fstat(&opened.file).ok()?;
        let end = offset.saturating_add(read as u64);
        let is_short = read < count as usize && end < size(&stat);
        if stat.st_nlink == 0 || is_short || !opened.is_good(&stat) {
            return None;
        }
        Some(ReadData {
            data: buffer.into_item(read),
            eof: end >= size(&stat),
            attributes: self.attributes(&stat),
        })
    }

    /// Writes bytes. The results have no attributes before the write, because processes of the host
    /// write at the same time: a client would take their bytes for its own, and would not read
    /// them.
    pub(super) fn write(
        &self,
        caller: &Caller,
        file: &FileHandle,
        (offset, data): (u64, &[u8]),
        stable: StableHow,
        wcc: &mut Wcc,
    ) -> FsResult<Written> {
        let found = self.resolve(file)?;
        wcc.set_after(&self.attributes(&found.stat));
        let found = found.file()?;
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > self.max_size) {
            return Err(Nfsstat3::Fbig);
        }
        let opened = self.writer(caller, &found)?;
        let verifier = self.stability.verifier();
        let count = if stable == StableHow::Unstable && !self.stability.is_volatile() {
            self.write_unstable(caller, &found, &opened, (offset, data))?
        } else {
            self.write_as(caller, found.id(), &opened, (offset, data))?
        };
        match stable {
            StableHow::Unstable => {}
            StableHow::DataSync => self.synchronize(|| self.stability.sync_data(&opened))?,
            StableHow::FileSync => self.synchronize(|| self.stability.sync(&opened))?,
        }
        self.set_after(&found, wcc);
        Ok(Written {
            count: u32::try_from(count).map_err(|_| Nfsstat3::Serverfault)?,
            committed: stable,
            verifier,
        })
    }

    /// Writes as a caller, so that the caller's quotas apply and the kernel clears the set-user-ID
    /// and set-group-ID bits.
    fn write_as(
        &self,
        caller: &Caller,
        id: Id,
        file: &OwnedFd,
        (offset, data): (u64, &[u8]),
    ) -> FsResult<usize> {
        let write = || write_full(file, data, offset);
        let written = || self.identity.run_as(caller, write);
        let written = self.locks.with_shared(id, written)?;
        written.map_err(status_without_perm)
    }

    /// Synchronizes as the server's user, whose rights to space that is reserved apply.
    fn synchronize(&self, sync: impl FnOnce() -> FsResult<()>) -> FsResult<()> {
        if self.stability.is_volatile() {
            return sync();
        }
        self.identity.run_as_server(sync)?
    }

    fn write_unstable(
        &self,
        caller: &Caller,
        found: &ObjectFd,
        opened: &OwnedFd,
        write: (u64, &[u8]),
    ) -> FsResult<usize> {
        // A descriptor open for writing would prevent the host from executing the file.
        let keep = || {
            let reopen = || self.reopen(&found.fd, OFlags::RDONLY);
            match self.identity.run_as_server(reopen) {
                Ok(Ok(opened_again)) => Ok(opened_again),
                _ => fcntl_dupfd_cloexec(opened, 0),
            }
        };
        let _writing = self.stability.begin(found.id(), keep).map_err(status)?;
        self.write_as(caller, found.id(), opened, write)
    }

    pub(super) fn commit(
        &self,
        caller: &Caller,
        file: &FileHandle,
        wcc: &mut Wcc,
    ) -> FsResult<[u8; 8]> {
        let found = self.resolve(file)?;
        wcc.set_after(&self.attributes(&found.stat));
        let found = found.file()?;
        let opened = self.writer(caller, &found)?;
        let committed = self.synchronize(|| {
            let committed = self.stability.commit(found.id());
            committed.unwrap_or_else(|| self.stability.sync(&opened))
        });
        // A client commits when it closes the file.
        self.open_files.end_writing(found.id());
        self.set_after(&found, wcc);
        committed.map(|()| self.stability.verifier())
    }
}
