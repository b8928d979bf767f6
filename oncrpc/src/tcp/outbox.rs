//! Outgoing records: many are sent in one system call, and items without a copy.
//!
//! Records leave in the order of their addition. The owner passes the result of each `write` to
//! `advance` before anything else: `advance` reports the calls of which a first byte is written,
//! and `calls` must know them before it decides about a retransmission. `memory` is what
//! `connection` counts for the limits.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use xdrgen_runtime::SharedBytes;

use super::record;
use crate::message::{Body, padding};

/// The maximum number of slices in one system call. Linux allows 1,024.
const SLICES: usize = 64;
/// The size in bytes of a buffer for copied data. Longer data have their own buffer.
const BUFFER: usize = 16 << 10;

/// The outgoing records. Their headers and streams are copied into buffers, and items are sent
/// without a copy.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pieces: VecDeque<Piece>,
    /// The number of written bytes of the first piece.
    gone: usize,
    /// The number of unwritten bytes of each record, with the XID if it is a call.
    records: VecDeque<(Option<u32>, usize)>,
    /// The number of replies.
    replies: usize,
    /// Whether a part of the first record is written.
    is_begun: bool,
    /// The number of unwritten bytes.
    len: usize,
    /// The number of bytes of the pieces, with the written part of the first one.
    memory: usize,
    /// A spare buffer.
    spare: Vec<u8>,
}

#[derive(Debug)]
enum Piece {
    Buffer(Vec<u8>),
    Item(SharedBytes),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Buffer(bytes) => bytes,
            Self::Item(bytes) => bytes,
        }
    }
}

impl Outbox {
    /// Returns true if nothing is left to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the number of unwritten bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of replies that are not written completely.
    pub(crate) fn replies(&self) -> usize {
        self.replies
    }

    /// Returns the number of bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Adds a call.
    ///
    /// # Errors
    /// The record is too long; the error has the maximum size in bytes.
    pub(crate) fn push_call(&mut self, xid: u32, header: &[u8], body: &Body) -> Result<(), u64> {
        self.push(Some(xid), header, body)
    }

    /// Adds a reply.
    ///
    /// # Errors
    /// The record is too long; the error has the maximum size in bytes.
    pub(crate) fn push_reply(&mut self, header: &[u8], body: &Body) -> Result<(), u64> {
        self.push(None, header, body)?;
        self.replies += 1;
        Ok(())
    }

    fn push(&mut self, call: Option<u32>, rpc_header: &[u8], body: &Body) -> Result<(), u64> {
        let marker = record::header(rpc_header.len() + body.len());
        let marker = marker.ok_or(u64::from(u32::MAX >> 1))?;
        let len = 4 + rpc_header.len() + body.len();
        self.len += len;
        self.records.push_back((call, len));
        self.copy(&marker.to_be_bytes());
        self.copy(rpc_header);
        let (mut rest, mut at) = (body.stream(), 0);
        for item in body.items() {
            let before = (item.position as usize).saturating_sub(at).min(rest.len());
            let (stream, after) = rest.split_at(before);
            self.copy(stream);
            let padding = padding(item.bytes.len());
            at += before + item.bytes.len() + padding;
            rest = after;
            self.memory += item.bytes.len();
            self.pieces.push_back(Piece::Item(item.bytes.clone()));
            self.copy(&[0; 3][..padding]);
        }
        self.copy(rest);
        Ok(())
    }

    fn copy(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some(Piece::Buffer(buffer)) = self.pieces.back_mut()
            && bytes.len() <= buffer.capacity() - buffer.len()
        {
            return buffer.extend_from_slice(bytes);
        }
        let mut buffer = std::mem::take(&mut self.spare);
        buffer.reserve_exact(bytes.len().max(BUFFER));
        buffer.extend_from_slice(bytes);
        self.memory += buffer.capacity();
        self.pieces.push_back(Piece::Buffer(buffer));
    }

    /// Writes some bytes. Nothing is lost if the future is dropped.
    pub(crate) async fn write<W: AsyncWrite + Unpin>(&self, writer: &mut W) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut skip = self.gone;
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            let bytes = piece.bytes().get(skip..).unwrap_or_default();
            *slice = IoSlice::new(bytes);
            skip = 0;
            count += 1;
        }
        match writer.write_vectored(&slices[..count]).await? {
            0 if count > 0 => Err(io::ErrorKind::WriteZero.into()),
            written => Ok(written),
        }
    }

    /// Removes written bytes, and returns the number of records that are written completely. Calls
    /// `begun` with the XID of each call of which a first part is written.
    pub(crate) fn advance(&mut self, written: usize, mut begun: impl FnMut(u32)) -> usize {
        self.free(written);
        self.len -= written;
        let (mut rest, mut done) = (written, 0);
        while let Some((call, left)) = self.records.front_mut().filter(|_| rest > 0) {
            let begins = !std::mem::replace(&mut self.is_begun, true);
            if let Some(xid) = call.filter(|_| begins) {
                begun(xid);
            }
            let some = rest.min(*left);
            rest -= some;
            *left -= some;
            if *left == 0 {
                self.replies -= usize::from(call.is_none());
                self.records.pop_front();
                self.is_begun = false;
                done += 1;
            }
        }
        done
    }

    /// Frees the pieces that were written.
    fn free(&mut self, written: usize) {
        self.gone += written;
        while let Some(len) = self.pieces.front().map(|piece| piece.bytes().len()) {
            if self.gone < len {
                return;
            }
            self.gone -= len;
            match self.pieces.pop_front() {
                Some(Piece::Buffer(mut buffer)) => {
                    self.memory -= buffer.capacity();
                    buffer.clear();
                    if buffer.capacity() <= BUFFER {
                        self.spare = buffer;
                    }
                }
                Some(Piece::Item(item)) => self.memory -= item.len(),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{Item, SharedBytes, Sink as _};

    /// A body with an item of 1,025 bytes in the middle.
    fn body() -> Body {
        let data = Item::from(SharedBytes::from(vec![7; 1025]));
        let mut body = Body::new();
        body.encode(&1u32).unwrap();
        body.encode_with(|sink| sink.item(&data, u32::MAX)).unwrap();
        body.encode(&2u32).unwrap();
        body
    }

    #[test]
    fn any_split_of_writes_sends_the_same_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let whole = [
            &[0x80, 0, 4, 20, 1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 4, 1][..],
            &[7; 1025],
            &[0, 0, 0, 0, 0, 0, 2],
        ]
        .concat();
        assert_eq!(whole.len(), 4 + 4 + body().len());
        for step in [1, 3, 7, 1000, 5000] {
            let mut outbox = Outbox::default();
            outbox.push_call(5, &[1, 2, 3, 4], &body()).unwrap();
            outbox.push_reply(&[1, 2, 3, 4], &body()).unwrap();
            outbox.push_call(6, &[1, 2, 3, 4], &body()).unwrap();
            assert_eq!(outbox.replies(), 1);
            let (mut sent, mut begun) = (Vec::new(), Vec::new());
            while !outbox.is_empty() {
                let mut room = vec![0; step];
                let mut writer = std::io::Cursor::new(&mut room[..]);
                let count = runtime.block_on(outbox.write(&mut writer)).unwrap();
                sent.extend_from_slice(&room[..count]);
                outbox.advance(count, |xid| begun.push(xid));
            }
            assert!(
                sent == [&whole[..], &whole[..], &whole[..]].concat(),
                "{step} bytes each"
            );
            assert_eq!(begun, [5, 6]);
            assert_eq!((outbox.len(), outbox.memory(), outbox.replies()), (0, 0, 0));
        }
    }
}
