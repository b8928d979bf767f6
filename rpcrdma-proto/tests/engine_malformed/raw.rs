//! Messages as bytes, with their defects.

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

/// A call of 40 bytes.
pub(crate) fn call(to: &To, xid: u32) -> Raw {
    message(to, xid, CALL)
}

/// A reply of 24 bytes.
pub(crate) fn reply(to: &To, xid: u32) -> Raw {
    Raw {
        payload: vec![xid, REPLY, 0, 0, 0, 0],
        ..message(to, xid, REPLY)
    }
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
        Self {
            procedure: NOMSG,
            payload: Vec::new(),
            ..self
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
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
            [1, count]
                .into_iter()
                .chain(segments.iter().flatten().copied())
                .collect::<Vec<_>>()
        };
        all.extend(self.writes.iter().flat_map(chunk));
        all.push(0);
        all.extend(self.reply.as_ref().map_or(vec![0], chunk));
        all.extend(&self.payload);
        words(&all)
    }

    /// The first bytes, up to a word of the header's lists.
    pub(crate) fn cut(&self, words: usize) -> Vec<u8> {
        let fixed = if self.version == Version::Two { 5 } else { 4 };
        self.bytes()[..4 * (fixed + words)].to_vec()
    }
}

/// Words behind the fixed four.
pub(crate) fn fixed(to: &To, xid: u32, procedure: u32, rest: &[u32]) -> Vec<u8> {
    words(&[&[xid, to.version.number(), 1, procedure][..], rest].concat())
}

/// An operation: its direction, its code, and its content in words.
pub(crate) fn operation(to: &To, xid: u32, direction: u32, code: u32, info: &[u32]) -> Vec<u8> {
    let bytes = u32::try_from(4 * info.len()).unwrap();
    fixed(
        to,
        xid,
        OPTIONAL,
        &[&[direction, code, bytes][..], info].concat(),
    )
}

// ---- Transmissions of rtrext-02
// -------------------------------------------------------------------------------------

pub(crate) const XMTREQ: u32 = 5;
pub(crate) const XMTRESP: u32 = 6;
pub(crate) const XMTCONT: u32 = 7;
pub(crate) const REPTERR: u32 = 8;

/// Where the target of a receive buffer begins, and its bytes.
pub(crate) const TARGET: usize = 4096;
pub(crate) const BULK: u32 = 65_536;

/// Where an item is.
#[derive(Clone)]
pub(crate) enum At {
    Memory(Vec<Segment>),
    /// The offset in the first target, and the targets.
    Targets(u32, Vec<u32>),
    /// A type that has nothing more.
    Type(u32),
}

pub(crate) const TOO_SHORT: u32 = 5;
pub(crate) const NO_ITEM: u32 = 6;

/// Position, length and place of an item.
pub(crate) type Item = (u32, u32, At);

/// A transmission: a good one, to begin with.
#[derive(Clone)]
pub(crate) struct Transmission {
    pub(crate) xid: u32,
    pub(crate) direction: u32,
    pub(crate) code: u32,
    pub(crate) items: Vec<Item>,
    /// Begin and end of each range, and its directions: the least length, the type, and what
    /// follows it.
    pub(crate) ranges: Vec<(u32, u32, Vec<Vec<u32>>)>,
    pub(crate) count: u32,
    pub(crate) reserve: u32,
    /// Of a continuation: its number, and the operation that it continues.
    pub(crate) number: u32,
    pub(crate) opener: u32,
    /// Bytes of the section, where they are not those of the payload.
    pub(crate) section: Option<u32>,
    pub(crate) payload: Vec<u32>,
    /// Bytes of data in the target.
    pub(crate) data: usize,
}

/// A call in one transmission.
pub(crate) fn request(xid: u32) -> Transmission {
    Transmission {
        xid,
        direction: CALL,
        code: XMTREQ,
        items: Vec::new(),
        ranges: Vec::new(),
        count: 1,
        reserve: 0,
        number: 0,
        opener: XMTREQ,
        section: None,
        payload: vec![xid, CALL, 0, 0, 0, 0, 0, 0, 0, 0],
        data: 0,
    }
}

/// A reply in one transmission.
pub(crate) fn response(xid: u32) -> Transmission {
    let payload = vec![xid, REPLY, 0, 0, 0, 0];
    Transmission {
        direction: REPLY,
        code: XMTRESP,
        opener: XMTRESP,
        payload,
        ..request(xid)
    }
}

impl Transmission {
    /// The transmission of this number that goes on with it.
    pub(crate) fn more(&self, number: u32) -> Self {
        Self {
            code: XMTCONT,
            number,
            payload: vec![0; 4],
            data: 0,
            section: None,
            ..self.clone()
        }
    }

    pub(crate) fn of(self, count: u32) -> Self {
        Self { count, ..self }
    }

    pub(crate) fn item(mut self, position: u32, length: u32, at: At) -> Self {
        self.items.push((position, length, at));
        self
    }

    /// A range of the call, with directions about results of it.
    pub(crate) fn range(mut self, begin: u32, end: u32, directions: &[&[u32]]) -> Self {
        self.ranges.push((
            begin,
            end,
            directions.iter().map(|words| words.to_vec()).collect(),
        ));
        self
    }

    /// The content of the operation, in words.
    pub(crate) fn info(&self) -> Vec<u32> {
        let section = self.section.unwrap_or(4 * count(&self.payload));
        if self.code == XMTCONT {
            return vec![self.number, self.opener, section];
        }
        let mut all = vec![count(&self.items)];
        for (position, length, at) in &self.items {
            all.extend([*position, *length]);
            match at {
                At::Memory(segments) => {
                    all.extend([1, count(segments)]);
                    all.extend(segments.iter().flatten());
                }
                At::Targets(offset, targets) => {
                    all.extend([2, *offset, count(targets)]);
                    all.extend(targets);
                }
                At::Type(code) => all.push(*code),
            }
        }
        if self.code == XMTRESP {
            all.extend([self.count, section]);
            return all;
        }
        all.push(count(&self.ranges));
        for (begin, end, directions) in &self.ranges {
            all.extend([*begin, *end, count(directions)]);
            all.extend(directions.iter().flatten());
        }
        all.extend([self.count, self.reserve, section]);
        all
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let info = self.info();
        let fixed = [
            self.xid,
            2,
            1,
            OPTIONAL,
            self.direction,
            self.code,
            4 * count(&info),
        ];
        let mut bytes = words(&[&fixed[..], &info, &self.payload].concat());
        if self.data > 0 {
            bytes.resize(bytes.len().max(TARGET) + self.data, 0);
        }
        bytes
    }

    /// The operation without its last word.
    pub(crate) fn cut(&self) -> Vec<u8> {
        let info = self.info();
        self.saying(&info[..info.len() - 1])
    }

    /// With a word more in the operation.
    pub(crate) fn lengthened(&self) -> Vec<u8> {
        self.saying(&[&self.info()[..], &[0]].concat())
    }

    fn saying(&self, info: &[u32]) -> Vec<u8> {
        let fixed = [
            self.xid,
            2,
            1,
            OPTIONAL,
            self.direction,
            self.code,
            4 * count(info),
        ];
        words(&[&fixed[..], info, &self.payload].concat())
    }
}

fn count<T>(of: &[T]) -> u32 {
    u32::try_from(of.len()).unwrap()
}

/// As many as each end wants: a report grants what replies do.
const CREDITS: u32 = 32;

/// A ROPT_REPTERR about a transmission of this XID, direction and number.
pub(crate) fn report(
    direction: u32,
    bad: [u32; 3],
    lead: Option<[u32; 3]>,
    why: &[u32],
) -> Vec<u8> {
    let lead = lead.map_or(vec![0], |lead| [&[1], &lead[..]].concat());
    let info = [&bad[..], &lead, why].concat();
    words(
        &[
            &[
                bad[0],
                2,
                CREDITS,
                OPTIONAL,
                direction,
                REPTERR,
                4 * count(&info),
            ][..],
            &info,
        ]
        .concat(),
    )
}
