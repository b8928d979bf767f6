//! READ: one call, or a range of any length.
//!
//! `part` checks each reply against its call. A [`ReadStream`] keeps several calls in flight,
//! returns their data in the order of the offsets, and reads the rest of a short reply by a new
//! call at the front. A call stays in the queue until its results have arrived, so that dropping
//! the future of `next` loses no bytes.

use std::collections::VecDeque;
use std::fmt;

use oncrpc::xdr::Item;
use oncrpc::{AsyncTransport, ResultsFuture};

use super::base::{Client, attributes, fault};
use super::error::{ClientError, ProtocolFault};
use super::outcome::success;
use crate::handle::FileHandle;
use crate::nfs3::nfs_program::nfs_v3::Read;
use crate::nfs3::owned::Read3res;
use crate::nfs3::{Fattr3, Read3args};

/// The results of one READ.
#[derive(Clone, Debug)]
pub struct ReadPart {
    /// The bytes. Over RDMA they are in the memory where the device placed them, unless they are
    /// few. They count against the memory of the channel until they are dropped.
    pub data: Item<'static>,
    /// Whether the data reach the end of the file, or the offset is beyond it.
    pub eof: bool,
    /// The attributes of the file, if the server returns them.
    pub attributes: Option<Fattr3>,
}

impl<T: AsyncTransport> Client<T> {
    /// Reads at most `count` bytes by one call (READ). The limit of one call applies.
    ///
    /// # Errors
    /// Fails as READ does.
    pub async fn read(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadPart, ClientError> {
        let count = count.min(self.limits.read);
        let results = self.begin_read(file, offset, count).await?;
        part(results, count)
    }

    fn begin_read(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> ResultsFuture<T::Call, Read> {
        let args = Read3args {
            file: file.as_args(),
            offset,
            count,
        };
        self.stubs.read(&args).into_future()
    }

    /// Reads bytes into memory, until it is full or the file ends. Returns the number of bytes.
    ///
    /// # Errors
    /// Fails as READ does. The memory may have changed in this case.
    pub async fn read_into(
        &self,
        file: &FileHandle,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, ClientError> {
        let mut stream = self.read_stream(file, offset, into.len() as u64);
        let mut filled = 0;
        while let Some(data) = stream.next().await? {
            // The stream returns no more than requested.
            let place = into.get_mut(filled..filled + data.len());
            place.unwrap_or_default().copy_from_slice(&data);
            filled += data.len();
        }
        Ok(filled)
    }

    /// Returns the bytes of a range in order, as parts that are not copied. The range ends at the
    /// end of the file: a length of `u64::MAX` reads the whole rest.
    #[must_use]
    pub fn read_stream(&self, file: &FileHandle, offset: u64, len: u64) -> ReadStream<'_, T> {
        ReadStream {
            client: self,
            file: *file,
            next: offset,
            end: offset.saturating_add(len),
            calls: VecDeque::new(),
        }
    }
}

/// Checks the results of a READ of `count` bytes.
fn part(results: Read3res, count: u32) -> Result<ReadPart, ClientError> {
    let ok = *success::<Read>(results)?;
    if ok.count > count || ok.data.len() != ok.count as usize {
        return Err(fault::<Read>(ProtocolFault::Count));
    }
    Ok(ReadPart {
        data: ok.data,
        eof: ok.eof,
        attributes: attributes(ok.file_attributes),
    })
}

/// The bytes of a range of a file: [`Client::read_stream`] returns it. Several READs are in flight;
/// dropping the stream cancels them.
pub struct ReadStream<'c, T: AsyncTransport> {
    client: &'c Client<T>,
    file: FileHandle,
    /// The offset of the next call.
    next: u64,
    end: u64,
    /// The calls in flight, in the order of their offsets.
    calls: VecDeque<PendingRead<T::Call>>,
}

struct PendingRead<F> {
    offset: u64,
    count: u32,
    call: ResultsFuture<F, Read>,
}

impl<T: AsyncTransport> ReadStream<'_, T> {
    /// Returns the next bytes (at least one), or `None` at the end. If the future is dropped, no
    /// bytes are lost.
    ///
    /// # Errors
    /// Fails as READ does. The stream ends after an error.
    pub async fn next(&mut self) -> Result<Option<Item<'static>>, ClientError> {
        self.begin();
        let Some(first) = self.calls.front_mut() else {
            return Ok(None);
        };
        let results = (&mut first.call).await;
        let taken = self.take_first(results.map_err(ClientError::from));
        if !matches!(taken, Ok(Some(_))) {
            self.finish();
        }
        taken
    }

    /// Begins calls, up to the limit of calls in flight.
    fn begin(&mut self) {
        while self.next < self.end && self.calls.len() < self.client.limits.depth {
            let left = self.end - self.next;
            let most = self.client.limits.read;
            let count = u32::try_from(left).map_or(most, |left| left.min(most));
            let pending = self.read(self.next, count);
            self.calls.push_back(pending);
            self.next += u64::from(count);
        }
    }

    fn read(&self, offset: u64, count: u32) -> PendingRead<T::Call> {
        PendingRead {
            offset,
            count,
            call: self.client.begin_read(&self.file, offset, count),
        }
    }

    /// Takes the results of the first call. If they are short, reads the rest again.
    fn take_first(
        &mut self,
        results: Result<Read3res, ClientError>,
    ) -> Result<Option<Item<'static>>, ClientError> {
        let Some(PendingRead { offset, count, .. }) = self.calls.pop_front() else {
            return Ok(None);
        };
        let ReadPart { data, eof, .. } = part(results?, count)?;
        // `part` has checked that it is not more than `count`.
        let got = u32::try_from(data.len()).unwrap_or(count);
        if eof {
            self.finish();
        } else if got == 0 {
            return Err(fault::<Read>(ProtocolFault::NoProgress));
        } else if got < count {
            let rest = self.read(offset.saturating_add(got.into()), count - got);
            self.calls.push_front(rest);
        }
        Ok(Some(data).filter(|data| !data.is_empty()))
    }

    /// Cancels the calls in flight.
    fn finish(&mut self) {
        self.calls.clear();
        self.end = self.next;
    }
}

impl<T: AsyncTransport> fmt::Debug for ReadStream<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, next, .. } = self;
        write!(f, "ReadStream({file:?}, next {next})")
    }
}
