//! Record marking: a record is one or more fragments, each behind its length (RFC 5531, section
//! 11).
//!
//! An [`Intake`] decides when a record is read: servers apply their limits (`connection`), clients
//! apply none. The memory of a record grows with the bytes that arrive, and not with the length
//! that a peer claims. A message that is longer than the maximum is discarded, except for its
//! beginning: `sending` and `connection` end its call by it, and no other call fails. The future of
//! `read_next` holds a part of a record: `connection` and `client` pin it outside their loops, and
//! keep it until the connection ends.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::task::consume_budget;
use tokio::time::{Instant, timeout_at};

use super::poll_once;
use crate::message::word;
use crate::protocol::{MsgType, RPC_VERSION};

/// The bit of a fragment's header that marks the last fragment.
const LAST: u32 = 1 << 31;
/// The maximum size of a fragment in bytes.
const MAX_FRAGMENT: usize = (LAST - 1) as usize;
/// The initial memory of a record in bytes. It grows with the received bytes.
const STEP: usize = 64 << 10;
/// The size in bytes of the buffer that reads several records in one system call.
const BUFFER: usize = 16 << 10;
/// Records up to this size in bytes fit the fixed minimum of a connection.
const SHORT: usize = 8 << 10;

/// The size in bytes of a fragment's header.
pub(crate) const MARKER: usize = 4;
/// The number of bytes of a record that is too long which are kept: with the largest verifier, a
/// reply has its status in them (RFC 5531, section 9).
const HEAD: usize = 424;
/// The number of bytes that tell a message of this version of RPC from other data.
const RECOGNIZED: usize = 12;

/// A received record.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Record {
    Whole(Vec<u8>),
    /// The beginning of a message that is longer than the maximum. The rest was discarded.
    TooLong(Vec<u8>),
}

impl Record {
    /// Returns the bytes that were kept: all, or the beginning.
    pub(crate) fn kept(&self) -> &Vec<u8> {
        match self {
            Self::Whole(bytes) | Self::TooLong(bytes) => bytes,
        }
    }

    /// Returns true if it is a message of this type.
    pub(crate) fn is(&self, message_type: MsgType) -> bool {
        is(self.kept(), message_type)
    }
}

/// Returns true if the beginning of a record is that of a message of this type.
pub(crate) fn is(record: &[u8], message_type: MsgType) -> bool {
    word(record, 1) == Some(message_type.value().cast_unsigned())
}

/// Controls when records are read, and into how much memory.
pub(crate) trait Intake {
    /// Waits until a record may be read.
    fn ready(&self) -> impl Future<Output = ()> + Send;

    /// Waits for room for this number of bytes of the record.
    fn reserve(&self, bytes: usize) -> impl Future<Output = ()> + Send;

    /// Returns how long a record may take to arrive, from its first byte on.
    fn time(&self) -> Option<Duration>;

    /// Returns the error of a record that has taken too long.
    fn timed_out(&self) -> io::Error;
}

/// Reads without limits.
impl Intake for () {
    async fn ready(&self) {}

    async fn reserve(&self, _: usize) {}

    fn time(&self) -> Option<Duration> {
        None
    }

    fn timed_out(&self) -> io::Error {
        io::ErrorKind::TimedOut.into()
    }
}

/// Returns a reader that reads several records in one system call.
pub(crate) fn buffered<R: AsyncRead>(reader: R) -> BufReader<R> {
    BufReader::with_capacity(BUFFER, reader)
}

/// Reads a record, and returns it with the reader, so that the future can own the reader.
pub(crate) async fn read_next<R: AsyncBufRead + Unpin, I: Intake>(
    mut reader: R,
    max: usize,
    intake: I,
) -> (R, io::Result<Option<Record>>) {
    let record = read(&mut reader, max, &intake).await;
    (reader, record)
}

/// Reads a record of at most `max` bytes. Returns `None` if the stream ends before a record.
///
/// # Errors
/// `InvalidData` if the record is longer and no message of RPC; `UnexpectedEof` if the stream ends
/// within it.
// spec: rfc5531-11
async fn read<R: AsyncBufRead + Unpin, I: Intake>(
    reader: &mut R,
    max: usize,
    intake: &I,
) -> io::Result<Option<Record>> {
    intake.ready().await;
    let mut record = Vec::new();
    let mut arrival = PartialRecord::new(intake);
    let mut first = true;
    loop {
        let Some(header) = read_header(reader, first, &mut arrival).await? else {
            return Ok(None);
        };
        first = false;
        let length = (header & !LAST) as usize;
        if length > max - record.len() {
            let head = discard(reader, max, header, record, &mut arrival).await?;
            return Ok(Some(Record::TooLong(head)));
        }
        let is_last = header & LAST != 0;
        let end = record.len() + length;
        arrival.reserve(end, if is_last { end } else { max }).await;
        let room = if is_last { end } else { arrival.reserved };
        read_fragment(reader, length, room, &mut record, &mut arrival).await?;
        if is_last {
            return Ok(Some(Record::Whole(record)));
        }
    }
}

/// An arriving record: its memory, and its deadline.
struct PartialRecord<'i, I> {
    intake: &'i I,
    reserved: usize,
    deadline: Option<Instant>,
}

impl<'i, I: Intake> PartialRecord<'i, I> {
    fn new(intake: &'i I) -> Self {
        Self {
            intake,
            reserved: SHORT,
            deadline: None,
        }
    }

    /// Reserves `whole` bytes if there is no room for `end` bytes yet. It reserves all at once, so
    /// that two records never wait for each other.
    async fn reserve(&mut self, end: usize, whole: usize) {
        if end <= self.reserved {
            return;
        }
        let since = Instant::now();
        self.intake.reserve(whole).await;
        self.reserved = whole;
        if let Some(deadline) = &mut self.deadline {
            *deadline += since.elapsed();
        }
    }

    /// Begins the record's time, unless it has begun. Returns when it ends.
    fn start(&mut self) -> Option<Instant> {
        let time = self.intake.time();
        let start = || time.and_then(|time| Instant::now().checked_add(time));
        self.deadline = self.deadline.or_else(start);
        self.deadline
    }

    /// Begins a fragment after the first. A peer that sends short fragments without a pause, which
    /// are always there to be read, keeps neither the thread nor the record's deadline.
    async fn begin_fragment(&mut self) -> io::Result<()> {
        consume_budget().await;
        match self.start() {
            Some(deadline) if deadline <= Instant::now() => Err(self.intake.timed_out()),
            _ => Ok(()),
        }
    }

    /// Reads before the record's deadline. The time begins when only a part of the record has
    /// arrived.
    async fn within<T>(&mut self, read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let mut read = pin!(read);
        if let Poll::Ready(done) = poll_once(read.as_mut()).await {
            return done;
        }
        match self.start() {
            None => read.await,
            Some(deadline) => timeout_at(deadline, read)
                .await
                .unwrap_or_else(|_| Err(self.intake.timed_out())),
        }
    }
}

/// Reads the header of a fragment. Returns `None` if the stream ends before it and that is allowed.
async fn read_header<R: AsyncRead + Unpin, I: Intake>(
    reader: &mut R,
    first: bool,
    arrival: &mut PartialRecord<'_, I>,
) -> io::Result<Option<u32>> {
    if !first {
        arrival.begin_fragment().await?;
    }
    let mut header = [0; MARKER];
    let mut count = 0;
    while count < header.len() {
        let may_end = count == 0 && first;
        let read = reader.read(&mut header[count..]);
        let read = if may_end {
            read.await
        } else {
            arrival.within(read).await
        };
        match read? {
            0 if may_end => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            some => count += some,
        }
    }
    Ok(Some(u32::from_be_bytes(header)))
}

/// Appends the bytes of a fragment to a record, which may have memory for `room` bytes.
async fn read_fragment<R: AsyncRead + Unpin, I: Intake>(
    reader: &mut R,
    length: usize,
    room: usize,
    record: &mut Vec<u8>,
    arrival: &mut PartialRecord<'_, I>,
) -> io::Result<()> {
    let end = record.len() + length;
    while record.len() < end {
        let missing = end - record.len();
        if record.len() == record.capacity() {
            record.reserve_exact(growth(record.len(), missing, room));
        }
        let mut rest = (&mut *reader).take(missing as u64);
        if arrival.within(rest.read_buf(record)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Returns the number of bytes by which the memory of a record grows, which lacks so many bytes of
/// a fragment.
fn growth(len: usize, missing: usize, room: usize) -> usize {
    let step = STEP.max(3 * len);
    // A small rest is reserved at once, which saves another copy.
    let grown = if missing <= 2 * step { missing } else { step };
    // If other fragments follow, the memory doubles: many short ones would be copied each time.
    grown.max(len.min(room.saturating_sub(len)))
}

/// Discards the rest of a message that is longer than the maximum, from the fragment with this
/// header on. Returns the beginning of the message.
async fn discard<R: AsyncBufRead + Unpin, I: Intake>(
    reader: &mut R,
    max: usize,
    mut header: u32,
    mut head: Vec<u8>,
    arrival: &mut PartialRecord<'_, I>,
) -> io::Result<Vec<u8>> {
    head.truncate(HEAD);
    head.shrink_to_fit();
    loop {
        let mut length = (header & !LAST) as usize;
        for end in [RECOGNIZED, HEAD] {
            let kept = length.min(end.saturating_sub(head.len()));
            read_fragment(reader, kept, HEAD, &mut head, arrival).await?;
            length -= kept;
            let is_whole = length == 0 && header & LAST != 0;
            if (is_whole || head.len() >= RECOGNIZED) && !is_message(&head) {
                let error = format!("a record is longer than {max} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        skip(reader, length, arrival).await?;
        if header & LAST != 0 {
            return Ok(head);
        }
        let next = read_header(reader, false, arrival).await?;
        header = next.ok_or(io::ErrorKind::UnexpectedEof)?;
    }
}

/// Returns true if the beginning of a record is that of a message of this version of RPC.
fn is_message(head: &[u8]) -> bool {
    let is_call = is(head, MsgType::Call) && word(head, 2) == Some(RPC_VERSION);
    is_call || is(head, MsgType::Reply)
}

/// Skips bytes of a fragment.
async fn skip<R: AsyncBufRead + Unpin, I: Intake>(
    reader: &mut R,
    mut length: usize,
    arrival: &mut PartialRecord<'_, I>,
) -> io::Result<()> {
    while length > 0 {
        let filled = async { reader.fill_buf().await.map(<[u8]>::len) };
        let count = arrival.within(filled).await?.min(length);
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        reader.consume(count);
        length -= count;
    }
    Ok(())
}

/// Returns the header of a record that is one fragment; `None` if it is too long for that.
pub(crate) fn header(length: usize) -> Option<u32> {
    let length = Some(length).filter(|length| *length <= MAX_FRAGMENT)?;
    u32::try_from(length).ok().map(|length| length | LAST)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Context;

    use tokio::io::ReadBuf;

    use super::*;

    fn read_all(bytes: &[u8], max: usize) -> io::Result<Vec<Vec<u8>>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(async {
            let mut reader = bytes;
            let mut records = Vec::new();
            while let Some(record) = read(&mut reader, max, &()).await? {
                records.push(match record {
                    Record::Whole(record) | Record::TooLong(record) => record,
                });
            }
            Ok(records)
        })
    }

    #[test]
    fn fragments_of_any_size_make_a_record() {
        let bytes = [
            &[0, 0, 0, 3][..],
            b"abc",
            &[0, 0, 0, 0, 0x80, 0, 0, 1],
            b"d",
            &[0x80, 0, 0, 0],
        ];
        let records = read_all(&bytes.concat(), 4).unwrap();
        assert_eq!(records, [b"abcd".to_vec(), Vec::new()]);
    }

    #[test]
    fn the_length_is_bounded_over_all_fragments() {
        let bytes = [&[0, 0, 0, 3][..], b"abc", &[0x80, 0, 0, 2], b"de"].concat();
        assert_eq!(read_all(&bytes, 5).unwrap(), [b"abcde"]);
        let error = read_all(&bytes, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), "a record is longer than 4 bytes");
    }

    #[test]
    fn stream_may_end_only_between_records() {
        assert!(read_all(&[], 9).unwrap().is_empty());
        for bytes in [&[0x80, 0, 0][..], &[0x80, 0, 0, 2, 1], &[0, 0, 0, 1, 1]] {
            let error = read_all(bytes, 9).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{bytes:?}");
        }
    }

    #[test]
    fn a_claimed_length_reserves_no_memory() {
        let error = read_all(&[0x7f, 255, 255, 255, 1], MAX_FRAGMENT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    /// The memory of a record of short fragments is not copied for each.
    #[test]
    fn memory_grows_in_few_steps() {
        let max = 4 << 20;
        for size in [1, 4, 1000] {
            let (mut len, mut memory, mut steps) = (0, 0, 0);
            while len + size <= max {
                let missing = len + size - memory.min(len + size);
                if missing > 0 {
                    memory += growth(memory, missing, max);
                    steps += 1;
                }
                len += size;
            }
            assert!(memory <= max, "{memory} bytes for fragments of {size}");
            assert!(steps <= 30, "{steps} steps for fragments of {size}");
        }
    }

    #[test]
    fn the_beginning_of_a_long_message_is_kept() {
        let reply = [7u32, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
        let reply = [&reply[..], &[9; 1000]].concat();
        let marker = (1 << 31 | 1024u32).to_be_bytes();
        let bytes = [&marker[..], &reply, &[0x80, 0, 0, 1, 5]].concat();
        let records = read_all(&bytes, 1023).unwrap();
        assert_eq!(records, [reply[..HEAD].to_vec(), vec![5]]);
        let records = read_all(&bytes, 1024).unwrap();
        assert_eq!(records, [reply, vec![5]]);
    }

    #[test]
    fn a_header_marks_the_last_fragment() {
        assert_eq!(header(5), Some(0x8000_0005));
        assert_eq!(header(1 << 31), None);
    }

    /// Counts how often it is read.
    struct Counting<'b>(&'b [u8], usize);

    impl AsyncRead for Counting<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.1 += 1;
            Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }

    #[test]
    fn records_that_arrived_take_one_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let bytes = [&[0x80, 0, 0, 60][..], &[7; 60]].concat().repeat(200);
            let mut reader = buffered(Counting(&bytes, 0));
            for _ in 0..200 {
                let record = read(&mut reader, 60, &()).await.unwrap();
                assert_eq!(record.unwrap(), Record::Whole(vec![7; 60]));
            }
            assert_eq!(reader.get_ref().1, 1);
        });
    }
}
