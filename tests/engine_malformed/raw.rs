//! Messages as octets, with whatever is wrong in them.

use rpcrdma_proto::version::Version;

use crate::To;
use crate::pair::words;

pub(crate) const CALL: u32 = 0;
pub(crate) const REPLY: u32 = 1;

pub(crate) const MSG: u32 = 0;
pub(crate) const NOMSG: u32 = 1;
pub(crate) const MSGP: u32 = 2;
pub(crate) const DONE: u32 = 3;
pub(crate) const ERROR: u32 = 4;
pub(crate) const OPTIONAL: u32 = 5;

/// Handle, length, and the two words of the offset.
pub(crate) type Segment = [u32; 4];

/// An RPC message with its header: a good one, to begin with.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) version: Version,
    pub(crate) xid: u32,
    pub(crate) procedure: u32,
    pub(crate) direction: u32,
    /// Positions and segments.
    pub(crate) reads: Vec<(u32, Segment)>,
    pub(crate) writes: Vec<Vec<Segment>>,
    pub(crate) reply: Option<Vec<Segment>>,
    /// The words that follow the header.
    pub(crate) payload: Vec<u32>,
}

/// A call of 40 octets.
pub(crate) fn call(to: &To, xid: u32) -> Raw {
    message(to, xid, CALL)
}

/// A reply of 24 octets.
pub(crate) fn reply(to: &To, xid: u32) -> Raw {
    Raw { payload: vec![xid, REPLY, 0, 0, 0, 0], ..message(to, xid, REPLY) }
}

fn message(to: &To, xid: u32, direction: u32) -> Raw {
    Raw {
        version: to.version,
        xid,
        procedure: MSG,
        direction,
        reads: Vec::new(),
        writes: Vec::new(),
        reply: None,
        payload: vec![xid, direction, 0, 0, 0, 0, 0, 0, 0, 0],
    }
}

impl Raw {
    /// The same as `NOMSG`.
    pub(crate) fn long(self) -> Self {
        Self { procedure: NOMSG, payload: Vec::new(), ..self }
    }

    pub(crate) fn octets(&self) -> Vec<u8> {
        let mut all = vec![self.xid, self.version.number(), 1, self.procedure];
        if self.version == Version::Two {
            all.push(self.direction);
        }
        for (position, segment) in &self.reads {
            all.extend([1, *position]);
            all.extend(segment);
        }
        all.push(0);
        let chunk = |segments: &Vec<Segment>| {
            let count = u32::try_from(segments.len()).unwrap();
            [1, count].into_iter().chain(segments.iter().flatten().copied()).collect::<Vec<_>>()
        };
        all.extend(self.writes.iter().flat_map(chunk));
        all.push(0);
        all.extend(self.reply.as_ref().map_or(vec![0], chunk));
        all.extend(&self.payload);
        words(&all)
    }

    /// The first octets, up to a word of the header's lists.
    pub(crate) fn cut(&self, words: usize) -> Vec<u8> {
        let fixed = if self.version == Version::Two { 5 } else { 4 };
        self.octets()[..4 * (fixed + words)].to_vec()
    }
}

/// Words behind the fixed four.
pub(crate) fn fixed(to: &To, xid: u32, procedure: u32, rest: &[u32]) -> Vec<u8> {
    words(&[&[xid, to.version.number(), 1, procedure][..], rest].concat())
}

/// An operation: its direction, its code, and what it says in words.
pub(crate) fn operation(to: &To, xid: u32, direction: u32, code: u32, info: &[u32]) -> Vec<u8> {
    let octets = u32::try_from(4 * info.len()).unwrap();
    fixed(to, xid, OPTIONAL, &[&[direction, code, octets][..], info].concat())
}
