//! Messages on their way, and in the buffers that hold them.

use std::ops::Range;

use rpcrdma_proto::chunk::Segment;
use rpcrdma_proto::connection::{Region, Served, Write};

use super::spec::{Answer, Spec};

/// Octets of the largest message.
pub(crate) const LARGEST: usize = 16_384 + 64;

/// What a message is, as its sender knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Call {
        xid: u32,
        spec: Spec,
    },
    Reply {
        xid: u32,
        call: Served,
        answer: Answer,
    },
    /// A header alone.
    Header,
    /// None of this world's sessions has sent it, or not so.
    Forged,
}

/// A message. Its payload has the right length, and octets of the RPC message's first two words alone.
#[derive(Debug)]
pub(crate) struct Message {
    octets: Box<[u8]>,
    pub(crate) length: usize,
    pub(crate) header: usize,
    pub(crate) origin: Origin,
    /// Which octets of the call or reply follow the header.
    pub(crate) parts: Vec<Range<u32>>,
    /// What is written to the receiver's memory before it.
    pub(crate) writes: Vec<Write>,
    /// What was written: where in which region, and which octets of the reply.
    pub(crate) written: Vec<(Region, u32, Range<u32>)>,
    pub(crate) invalidate: Option<u32>,
    pub(crate) sent_at: u64,
}

impl Message {
    fn new() -> Self {
        Self {
            octets: vec![0; LARGEST].into(),
            length: 0,
            header: 0,
            origin: Origin::Header,
            parts: Vec::new(),
            writes: Vec::new(),
            written: Vec::new(),
            invalidate: None,
            sent_at: 0,
        }
    }

    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        &mut self.octets
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets[..self.length]
    }

    /// A word of it, counted from its beginning.
    pub(crate) fn word(&self, number: usize) -> u32 {
        let octets = self.octets[4 * number..].first_chunk().copied();
        octets.map_or(0, u32::from_be_bytes)
    }

    pub(crate) fn set_word(&mut self, number: usize, word: u32) {
        self.octets[4 * number..][..4].copy_from_slice(&word.to_be_bytes());
    }

    /// Octets of the call or reply that it has.
    pub(crate) fn inline(&self) -> u32 {
        self.parts.iter().map(|part| part.end - part.start).sum()
    }

    /// Where octets of its inline stream are in the whole call; none if they are in two places.
    pub(crate) fn place(&self, from: u32, length: u32) -> Option<u32> {
        let mut before = 0;
        for part in &self.parts {
            let octets = part.end - part.start;
            if from < before + octets {
                return (from + length <= before + octets).then_some(part.start + from - before);
            }
            before += octets;
        }
        None
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
