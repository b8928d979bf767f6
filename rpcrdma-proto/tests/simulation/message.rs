//! Messages on their way, and in the buffers that hold them.

use std::ops::Range;

use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{
    CallRegion, PayloadPiece, RdmaWrite, ServedCallId, TransmissionIndex,
};

use super::spec::{Answer, Spec};

/// Bytes of the largest message.
pub(crate) const LARGEST: usize = 16_384 + 64;

/// A message, according to its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Call {
        xid: u32,
        spec: Spec,
    },
    Reply {
        xid: u32,
        call: ServedCallId,
        answer: Answer,
    },
    /// A header alone.
    Header,
    /// None of this world's sessions has sent it, or not so.
    Forged,
}

/// A message. Its payload has the right length, and bytes of the RPC message's first two words
/// alone.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Box<[u8]>,
    pub(crate) length: usize,
    pub(crate) header: usize,
    pub(crate) origin: Origin,
    /// Which bytes of the call or reply it has, in their order.
    pub(crate) parts: Vec<Part>,
    /// Which of several transmissions it is.
    pub(crate) share: Option<TransmissionIndex>,
    /// The RDMA Writes that precede it.
    pub(crate) writes: Vec<RdmaWrite>,
    /// A write: its region and offset, and the bytes of the reply.
    pub(crate) written: Vec<(CallRegion, u32, Range<u32>)>,
    pub(crate) invalidate: Option<u32>,
    pub(crate) sent_at: u64,
}

/// Bytes of a call or reply in a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// Where in the message they begin.
    pub(crate) at: u32,
    /// Where in the call or reply they are.
    pub(crate) bytes: Range<u32>,
}

impl Message {
    fn new() -> Self {
        Self {
            bytes: vec![0; LARGEST].into(),
            length: 0,
            header: 0,
            origin: Origin::Header,
            parts: Vec::new(),
            share: None,
            writes: Vec::new(),
            written: Vec::new(),
            invalidate: None,
            sent_at: 0,
        }
    }

    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// What is shown of it where receive buffers begin with a segment of so many bytes: all, if
    /// more is wanted.
    pub(crate) fn shown(&self, head: usize, suffices: impl FnOnce(&[u8]) -> bool) -> &[u8] {
        let beginning = &self.bytes()[..head.min(self.length)];
        if beginning.len() == self.length || !suffices(beginning) {
            self.bytes()
        } else {
            beginning
        }
    }

    /// A word of it, counted from its beginning.
    pub(crate) fn word(&self, number: usize) -> u32 {
        let bytes = self.bytes[4 * number..].first_chunk().copied();
        bytes.map_or(0, u32::from_be_bytes)
    }

    pub(crate) fn set_word(&mut self, number: usize, word: u32) {
        self.bytes[4 * number..][..4].copy_from_slice(&word.to_be_bytes());
    }

    /// Forgets what an earlier message had.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.writes.clear();
        self.written.clear();
        (self.share, self.invalidate) = (None, None);
    }

    /// Takes over another message.
    pub(crate) fn copy(&mut self, other: &Self) {
        self.bytes.copy_from_slice(&other.bytes);
        self.parts.clone_from(&other.parts);
        self.writes.clone_from(&other.writes);
        self.written.clone_from(&other.written);
        (self.length, self.header, self.origin) = (other.length, other.header, other.origin);
        (self.share, self.invalidate, self.sent_at) =
            (other.share, other.invalidate, other.sent_at);
    }

    /// Puts what follows the header into it.
    pub(crate) fn lay(&mut self, laid: impl Iterator<Item = PayloadPiece>) {
        let mut at = self.header as u32;
        for laid in laid {
            at += match laid {
                PayloadPiece::Zeros(count) => count,
                PayloadPiece::Bytes(bytes) | PayloadPiece::Data(bytes) => {
                    let count = bytes.end - bytes.start;
                    self.parts.push(Part { at, bytes });
                    count
                }
            };
        }
        self.length = at as usize;
    }

    /// Fills in the words behind the header: only the first two of an RPC message mean something.
    pub(crate) fn fill(&mut self, xid: u32, reply: bool) {
        for number in 0..2 {
            let at = self.header as u32 + 4 * number;
            if at as usize + 4 <= self.length {
                let word = match self.origin_of(at..at + 4) {
                    Some(0) => xid,
                    Some(4) => reply.into(),
                    Some(other) => !other,
                    None => 0,
                };
                self.set_word(at as usize / 4, word);
            }
        }
    }

    /// Bytes of the call or reply that it has.
    pub(crate) fn inline(&self) -> u32 {
        self.parts
            .iter()
            .map(|part| part.bytes.end - part.bytes.start)
            .sum()
    }

    /// Where bytes of it are in the whole call or reply; none if they are in two places, or in
    /// none.
    pub(crate) fn origin_of(&self, bytes: Range<u32>) -> Option<u32> {
        let mut found: Option<Range<u32>> = None;
        for part in &self.parts {
            let end = part.at + (part.bytes.end - part.bytes.start);
            let (from, to) = (bytes.start.max(part.at), bytes.end.min(end));
            if from >= to {
                continue;
            }
            let here = part.bytes.start + (from - part.at)..part.bytes.start + (to - part.at);
            found = match found {
                None => Some(here),
                Some(before) if before.end == here.start => Some(before.start..here.end),
                Some(_) => return None,
            };
        }
        let whole = |found: &Range<u32>| found.end - found.start == bytes.end - bytes.start;
        found.filter(whole).map(|found| found.start)
    }

    /// Where bytes of its inline stream, which is in one piece, are in the whole call.
    pub(crate) fn place(&self, from: u32, length: u32) -> Option<u32> {
        let from = self.header as u32 + from;
        self.origin_of(from..from + length)
    }

    /// Lists the segments of a reply's Writes.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Segment> {
        self.writes.iter().map(|write| &write.target)
    }
}

/// All messages of a world, in places that are used again.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    places: Vec<Message>,
    free: Vec<usize>,
}

impl Messages {
    pub(crate) fn take(&mut self) -> usize {
        if let Some(at) = self.free.pop() {
            return at;
        }
        self.places.push(Message::new());
        self.places.len() - 1
    }

    pub(crate) fn free(&mut self, at: usize) {
        self.free.push(at);
    }

    /// Another message that is the same.
    pub(crate) fn copy(&mut self, at: usize) -> usize {
        let copy = self.take();
        let [from, to] = self
            .places
            .get_disjoint_mut([at, copy])
            .expect("two places");
        to.copy(from);
        copy
    }

    /// Those that are in use.
    pub(crate) fn used(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn get(&self, at: usize) -> &Message {
        &self.places[at]
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> &mut Message {
        &mut self.places[at]
    }
}
