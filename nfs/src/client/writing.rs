//! WRITE and COMMIT: by single calls, or any number of bytes until stable.
//!
//! `write_all` writes all bytes again if the verifier of COMMIT differs from that of a WRITE (RFC
//! 1813, section 3.3.21). Requires limits of at least 1, which `TransferLimits::reduced_to`
//! ensures: with a `depth` of 0 nothing would be written, and with a `write` of 0 no call would
//! make progress.

use std::collections::VecDeque;
use std::ops::Range;

use oncrpc::xdr::Item;
use oncrpc::{AsyncTransport, ResultsFuture};

use super::base::{Client, fault};
use super::error::{ClientError, ProtocolFault};
use super::outcome::{await_success, success};
use crate::file_system::Written;
use crate::handle::FileHandle;
use crate::nfs3::nfs_program::nfs_v3::{Commit, Write};
use crate::nfs3::owned::Write3res;
use crate::nfs3::{Commit3args, StableHow, Write3args};

/// The maximum times that bytes are written until COMMIT confirms them. Each restart of the server
/// loses them once. More restarts than this in one operation are a fault of the server, for which
/// the operation must not run forever.
const MAX_ROUNDS: usize = 8;

/// The bytes to write to a file.
struct Bytes<'a> {
    file: &'a FileHandle,
    offset: u64,
    data: Item<'a>,
    stable: StableHow,
}

/// The state of bytes that were all written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WriteState {
    Stable,
    /// Some are lost if the server now has another verifier.
    Uncommitted([u8; 8]),
    /// The server changed its verifier in between.
    PerhapsLost,
}

impl WriteState {
    /// Returns the state after another WRITE.
    fn after(self, written: &Written) -> Self {
        match self {
            _ if written.committed != StableHow::Unstable => self,
            Self::Stable => Self::Uncommitted(written.verifier),
            Self::Uncommitted(verifier) if verifier == written.verifier => self,
            _ => Self::PerhapsLost,
        }
    }
}

impl Bytes<'_> {
    /// Returns a part, which shares the buffer of the bytes.
    fn part(&self, range: &Range<usize>) -> Item<'_> {
        match self.data.shared() {
            Some(shared) => shared.slice(range.clone()).unwrap_or_default().into(),
            None => self.data.get(range.clone()).unwrap_or_default().into(),
        }
    }
}

/// Checks the results of a WRITE of `len` bytes.
fn check_write(results: Write3res, len: usize, stable: StableHow) -> Result<Written, ClientError> {
    let ok = success::<Write>(results)?;
    if ok.count as usize > len {
        return Err(fault::<Write>(ProtocolFault::Count));
    }
    if ok.count == 0 && len > 0 {
        return Err(fault::<Write>(ProtocolFault::NoProgress));
    }
    if ok.committed < stable {
        return Err(fault::<Write>(ProtocolFault::Stability));
    }
    Ok(Written {
        count: ok.count,
        committed: ok.committed,
        verifier: ok.verf,
    })
}

impl<T: AsyncTransport> Client<T> {
    /// Writes bytes by one call (WRITE): as many of the first ones as one call allows.
    ///
    /// # Errors
    /// Fails as WRITE does.
    pub async fn write<'d>(
        &self,
        file: &FileHandle,
        offset: u64,
        data: impl Into<Item<'d>>,
        stable: StableHow,
    ) -> Result<Written, ClientError> {
        let bytes = Bytes {
            file,
            offset,
            data: data.into(),
            stable,
        };
        let len = bytes.data.len().min(self.limits.write as usize);
        let results = self.begin_write(&bytes, &(0..len)).await?;
        check_write(results, len, stable)
    }

    /// Begins to write a part that fits one call.
    fn begin_write(
        &self,
        bytes: &Bytes<'_>,
        range: &Range<usize>,
    ) -> ResultsFuture<T::Call, Write> {
        let args = Write3args {
            file: bytes.file.as_args(),
            offset: bytes.offset.saturating_add(range.start as u64),
            count: u32::try_from(range.len()).unwrap_or(self.limits.write),
            stable: bytes.stable,
            data: bytes.part(range),
        };
        self.stubs.write(&args).into_future()
    }

    /// Writes any number of bytes, and returns when all of them are on stable storage.
    ///
    /// With `Unstable` it sends WRITEs and then COMMIT. If the server has lost bytes in between, it
    /// writes them again. With the other levels, the server puts each part on stable storage before
    /// it replies.
    ///
    /// Bytes in a shared buffer are not copied if the transport can send from that buffer:
    /// `oncrpc::Channel::item_buf` returns such buffers.
    ///
    /// # Errors
    /// Fails as WRITE and COMMIT do. Any part of the bytes may have been written in this case.
    pub async fn write_all<'d>(
        &self,
        file: &FileHandle,
        offset: u64,
        data: impl Into<Item<'d>>,
        stable: StableHow,
    ) -> Result<(), ClientError> {
        let bytes = Bytes {
            file,
            offset,
            data: data.into(),
            stable,
        };
        if offset.checked_add(bytes.data.len() as u64).is_none() {
            return Err(ClientError::Offset);
        }
        // 0 stands for all bytes to the end of the file.
        let count = u32::try_from(bytes.data.len()).unwrap_or(0);
        for _ in 0..MAX_ROUNDS {
            let state = self.write_once(&bytes).await?;
            if state == WriteState::Stable {
                return Ok(());
            }
            // After `PerhapsLost`, COMMIT confirms nothing, but it reports an error of the storage
            // before all bytes are written again.
            let verifier = self.commit(file, offset, count).await?;
            if state == WriteState::Uncommitted(verifier) {
                return Ok(());
            }
        }
        Err(fault::<Commit>(ProtocolFault::Verifier))
    }

    /// Writes all bytes once, with several WRITEs in flight.
    async fn write_once(&self, bytes: &Bytes<'_>) -> Result<WriteState, ClientError> {
        let (mut calls, mut state, mut next) = (VecDeque::new(), WriteState::Stable, 0);
        let max_len = self.limits.write as usize;
        loop {
            while next < bytes.data.len() && calls.len() < self.limits.depth {
                let range = next..bytes.data.len().min(next.saturating_add(max_len));
                next = range.end;
                calls.push_back((self.begin_write(bytes, &range), range));
            }
            let Some((call, range)) = calls.pop_front() else {
                debug_assert_eq!(next, bytes.data.len(), "limits are at least 1");
                return Ok(state);
            };
            let written = check_write(call.await?, range.len(), bytes.stable)?;
            state = state.after(&written);
            let rest = range.start + written.count as usize..range.end;
            if !rest.is_empty() {
                calls.push_front((self.begin_write(bytes, &rest), rest));
            }
        }
    }

    /// Commits written data to stable storage (COMMIT): `count` bytes, or all bytes to the end of
    /// the file if it is 0. Returns the server's write verifier: bytes that were written with
    /// another verifier may be lost.
    ///
    /// # Errors
    /// Fails as COMMIT does.
    pub async fn commit(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<[u8; 8], ClientError> {
        let args = Commit3args {
            file: file.as_args(),
            offset,
            count,
        };
        Ok(await_success(self.stubs.commit(&args)).await?.verf)
    }
}
