//! Messages that break a rule, and what becomes of them: `docs/linux.md` has them as a table.

use crate::{NFS, null_call, words};

/// The XID of what is sent.
pub(crate) const XID: u32 = 0x0bad_cafe;

const MSG: u32 = 0;
const NOMSG: u32 = 1;
const MSGP: u32 = 2;
const DONE: u32 = 3;
pub(crate) const ERROR: u32 = 4;
const OPTIONAL: u32 = 5;

/// As many XIDs are of the cases. Many calls at once, more than Linux grants, are not among these: on soft-RoCE of 6.1 what becomes of
/// them differs from run to run.
pub(crate) const CALLS: u32 = 2;

/// What becomes of a message.
pub(crate) const SERVED: &str = "the call is answered";
pub(crate) const CHUNK: &str = "`ERR_CHUNK`";
pub(crate) const SILENCE: &str = "silence";
pub(crate) const LOST: &str = "the connection ends";
const LONG: &str = "the call is answered, in the Reply chunk";
pub(crate) const STALE: &str = "`ERR_CHUNK` of an XID that was not sent";
const CHUNK_LOST: &str = "`ERR_CHUNK`; the connection ends";

/// Handle, length, and the two words of the offset.
pub(crate) type Segment = [u32; 4];

/// Memory that is exposed: a segment of it, from a place and of a length. It begins with a null call.
pub(crate) type Exposed<'a> = &'a dyn Fn(u32, u32) -> Segment;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) messages: fn(Exposed<'_>) -> Vec<Vec<u8>>,
    /// What Linux does: any of these.
    pub(crate) linux: &'static [&'static str],
    /// What we do.
    pub(crate) ours: &'static str,
    /// Why, where it is not the same.
    pub(crate) why: &'static str,
}

const fn case(
    name: &'static str,
    messages: fn(Exposed<'_>) -> Vec<Vec<u8>>,
    linux: &'static [&'static str],
    ours: &'static str,
    why: &'static str,
) -> Case {
    Case { name, messages, linux, ours, why }
}

/// A message of Version One with its header: a good null call, to begin with.
#[derive(Clone)]
struct Raw {
    procedure: u32,
    credits: u32,
    reads: Vec<(u32, Segment)>,
    writes: Vec<Vec<Segment>>,
    reply: Option<Vec<Segment>>,
    payload: Vec<u32>,
}

fn call() -> Raw {
    let payload = null_call(XID, 3).to_vec();
    Raw { procedure: MSG, credits: 32, reads: Vec::new(), writes: Vec::new(), reply: None, payload }
}

impl Raw {
    /// The same as `RDMA_NOMSG`.
    fn long(self) -> Self {
        Self { procedure: NOMSG, payload: Vec::new(), ..self }
    }

    fn octets(&self) -> Vec<u8> {
        let mut all = vec![XID, 1, self.credits, self.procedure];
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

    /// One message alone.
    fn alone(&self) -> Vec<Vec<u8>> {
        vec![self.octets()]
    }

    /// The first octets, up to a word of the header's lists.
    fn cut(&self, words: usize) -> Vec<Vec<u8>> {
        vec![self.octets()[..4 * (4 + words)].to_vec()]
    }
}

/// A null call.
fn of(xid: u32) -> Vec<u8> {
    words(&[&[xid, 1, 32, MSG, 0, 0, 0][..], &null_call(xid, 3)].concat())
}

/// Words behind the fixed four.
fn fixed(procedure: u32, rest: &[u32]) -> Vec<Vec<u8>> {
    vec![words(&[&[XID, 1, 32, procedure][..], rest].concat())]
}

pub(crate) fn all() -> Vec<Case> {
    [good(), headers(), payloads(), chunks(), transactions()].into_iter().flatten().collect()
}

/// Nothing is wrong: so that the others are known to be refused for what is.
fn good() -> Vec<Case> {
    vec![
        case("a null call", |_| call().alone(), &[SERVED], SERVED, ""),
        case("one that asks for no credits", |_| Raw { credits: 0, ..call() }.alone(), &[SERVED], SERVED, ""),
        case(
            "one in a Position-Zero chunk",
            |at| Raw { reads: vec![(0, at(0, 40))], ..call().long() }.alone(),
            &[SERVED],
            SERVED,
            "",
        ),
        case(
            "one with a Write chunk",
            |at| Raw { writes: vec![vec![at(0, 4096)]], ..call() }.alone(),
            &[SERVED],
            SERVED,
            "",
        ),
        case(
            "one with a Reply chunk",
            |at| Raw { reply: Some(vec![at(0, 4096)]), ..call() }.alone(),
            &[LONG],
            SERVED,
            "Linux uses a Reply chunk wherever one is offered, we where the reply does not fit inline",
        ),
    ]
}

/// Headers that can't be read.
fn headers() -> Vec<Case> {
    vec![
        case(
            "nothing",
            |_| vec![Vec::new()],
            &[STALE],
            SILENCE,
            "what Linux has in its buffer is taken for XID and version",
        ),
        case(
            "15 octets",
            |_| vec![call().octets()[..15].to_vec()],
            &[CHUNK],
            SILENCE,
            "we trust no XID of a header without its fixed words",
        ),
        case(
            "a header cut after its fixed words",
            |_| call().cut(0),
            &[CHUNK],
            SILENCE,
            "we take nothing that is shorter than the shortest message",
        ),
        case(
            "version 3",
            |_| vec![words(&[XID, 3, 1, 0, 0, 0, 0, 0])],
            &["`ERR_VERS`, 1 to 1"],
            "`ERR_VERS`, 1 to 2",
            "we speak both",
        ),
        case(
            "version 0",
            |_| vec![words(&[XID, 0, 1, 0, 0, 0, 0, 0])],
            &["`ERR_VERS`, 1 to 1"],
            "`ERR_VERS`, 1 to 2",
            "we speak both",
        ),
        case(
            "an error of version 3",
            |_| vec![words(&[XID, 3, 1, ERROR, 1, 3, 3])],
            &["`ERR_VERS`, 1 to 1"],
            SILENCE,
            "we answer no error, so that two ends never go on answering each other",
        ),
        case("an unknown procedure", |_| fixed(99, &[0, 0, 0, 0]), &[CHUNK], CHUNK, ""),
        case("`RDMA_MSGP`", |_| fixed(MSGP, &[4, 64, 0, 0, 0, XID, 0]), &[CHUNK], CHUNK, ""),
        case("`RDMA_DONE`", |_| fixed(DONE, &[0, 0, 0]), &[SILENCE], SILENCE, ""),
        case("`RDMA2_OPTIONAL`", |_| fixed(OPTIONAL, &[0, 1, 0]), &[CHUNK], CHUNK, ""),
        case("an error to no call", |_| fixed(ERROR, &[2]), &[SILENCE], SILENCE, ""),
        case("an error of an unknown kind", |_| fixed(ERROR, &[99]), &[SILENCE], SILENCE, ""),
        case(
            "a Read list that does not end",
            |at| Raw { reads: vec![(0, at(0, 40))], ..call() }.long().cut(6),
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "a list with a mark that is no boolean",
            |_| fixed(MSG, &[2, 0, 0]),
            &[CHUNK],
            CHUNK,
            "though Linux only misses the segment behind it",
        ),
        case(
            "a Read list whose mark is 2, and a whole segment",
            |at| {
                let mut octets = Raw { reads: vec![(40, at(0, 4))], ..call() }.octets();
                octets[19] = 2;
                vec![octets]
            },
            &[SERVED],
            CHUNK,
            "Linux takes every mark but 0 as 1",
        ),
        case("a Write chunk cut off", |at| Raw { writes: vec![vec![at(0, 64)]], ..call() }.cut(5), &[CHUNK], CHUNK, ""),
        case(
            "a Write chunk of more segments than there are",
            |at| {
                let mut octets = Raw { writes: vec![vec![at(0, 64)]], ..call() }.octets();
                let count = octets.len() - 4 * (10 + 2 + 5);
                octets[count..count + 4].copy_from_slice(&[0xff; 4]);
                vec![octets]
            },
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "a Write chunk without segments",
            |_| Raw { writes: vec![Vec::new()], ..call() }.alone(),
            &[CHUNK],
            SERVED,
            "XDR allows it, and it has room for a result of no octets",
        ),
        case("a Reply chunk cut off", |at| Raw { reply: Some(vec![at(0, 64)]), ..call() }.cut(6), &[CHUNK], CHUNK, ""),
    ]
}

/// What follows a header, and what it says of that.
fn payloads() -> Vec<Case> {
    vec![
        case(
            "`RDMA_MSG` without an RPC message",
            |_| Raw { payload: Vec::new(), ..call() }.alone(),
            &[SILENCE],
            CHUNK,
            "Linux leaves it to RPC, which drops it",
        ),
        case(
            "`RDMA_MSG` with four octets of one",
            |_| Raw { payload: vec![XID], ..call() }.alone(),
            &[SILENCE, "the call is answered by MSG_DENIED"],
            CHUNK,
            "Linux leaves it to RPC: 6.12 drops it, 6.1 reads on in what its buffer held",
        ),
        case(
            "a call cut off",
            |_| Raw { payload: null_call(XID, 3)[..5].to_vec(), ..call() }.alone(),
            &[LOST],
            SERVED,
            "our engine leaves it to RPC, which answers GARBAGE_ARGS",
        ),
        case(
            "an RPC message of another XID",
            |_| Raw { payload: null_call(XID + 1, 3).to_vec(), ..call() }.alone(),
            &["the call is answered, header and reply each with the XID of its own"],
            CHUNK,
            "Linux does not compare them",
        ),
        case(
            "an RPC message that is neither call nor reply",
            |_| Raw { payload: vec![XID, 2, 2, NFS, 3, 0, 0, 0, 0, 0], ..call() }.alone(),
            &[SILENCE],
            CHUNK,
            "Linux leaves it to RPC, which drops it",
        ),
        case(
            "`RDMA_NOMSG` with a payload",
            |at| Raw { reads: vec![(0, at(0, 40))], payload: null_call(XID, 3).to_vec(), ..call().long() }.alone(),
            &[SERVED],
            CHUNK,
            "Linux takes the chunk and passes over the payload",
        ),
        case(
            "`RDMA_NOMSG` without chunks",
            |_| call().long().alone(),
            &[SILENCE],
            CHUNK,
            "Linux leaves it to RPC, which drops it",
        ),
    ]
}

/// Chunk lists that break a rule.
fn chunks() -> Vec<Case> {
    vec![
        case(
            "a Position that is no multiple of four",
            |at| Raw { reads: vec![(6, at(0, 64))], ..call() }.alone(),
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "Positions out of order",
            |at| Raw { reads: vec![(32, at(0, 64)), (8, at(0, 64))], ..call() }.alone(),
            &[CHUNK_LOST, LOST],
            CHUNK,
            "Linux has begun to read when it finds out",
        ),
        case(
            "Read chunks that overlap",
            |at| Raw { reads: vec![(8, at(0, 64)), (16, at(0, 64))], ..call() }.alone(),
            &[CHUNK_LOST, LOST],
            CHUNK,
            "Linux has begun to read when it finds out",
        ),
        case(
            "a Position beyond the message",
            |at| Raw { reads: vec![(44, at(0, 64))], ..call() }.alone(),
            &[CHUNK_LOST, LOST],
            CHUNK,
            "Linux has begun to read when it finds out",
        ),
        case(
            "a Position far beyond the message",
            |at| Raw { reads: vec![(4096, at(0, 64))], ..call() }.alone(),
            &[CHUNK_LOST, LOST],
            CHUNK,
            "Linux has begun to read when it finds out",
        ),
        case(
            "Position zero in `RDMA_MSG`",
            |at| Raw { reads: vec![(0, at(0, 40))], ..call() }.alone(),
            &[SERVED],
            CHUNK,
            "Linux takes the chunk and passes over the payload",
        ),
        case(
            "`RDMA_NOMSG` without a Position-Zero chunk",
            |at| Raw { reads: vec![(8, at(0, 64))], ..call().long() }.alone(),
            &[CHUNK_LOST, LOST],
            CHUNK,
            "Linux has begun to read when it finds out",
        ),
        case(
            "`RDMA_NOMSG` with a Write chunk alone",
            |at| Raw { writes: vec![vec![at(0, 64)]], ..call().long() }.alone(),
            &[SILENCE],
            CHUNK,
            "Linux leaves it to RPC, which drops it",
        ),
        case(
            "160 Read segments",
            |at| Raw { reads: vec![(40, at(0, 4)); 160], ..call() }.alone(),
            &[SERVED],
            CHUNK,
            "`Config::limits` says 64",
        ),
        case(
            "a Write segment without octets",
            |at| Raw { writes: vec![vec![at(0, 0)]], ..call() }.alone(),
            &[SERVED],
            SERVED,
            "",
        ),
        case(
            "segments of more octets together than 32 bits tell",
            |at| Raw { reads: vec![(40, [at(0, 4)[0], u32::MAX, 0, 0]); 2], ..call() }.alone(),
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "240 segments in a Write chunk",
            |at| Raw { writes: vec![vec![at(0, 64); 240]], ..call() }.alone(),
            &[SERVED, CHUNK],
            CHUNK,
            "`Config::limits` says 64; Linux 6.12 has a limit, too",
        ),
        case(
            "17 Write chunks",
            |at| Raw { writes: vec![vec![at(0, 64)]; 17], ..call() }.alone(),
            &[SERVED],
            CHUNK,
            "we take 16 in a call",
        ),
        case(
            "a segment beyond the address space",
            |at| Raw { reads: vec![(40, [at(0, 4)[0], 2, u32::MAX, u32::MAX])], ..call() }.alone(),
            &[LOST],
            CHUNK,
            "Linux reads from it, which fails",
        ),
        case(
            "a Write segment beyond the address space",
            |at| Raw { writes: vec![vec![[at(0, 4)[0], 2, u32::MAX, u32::MAX]]], ..call() }.alone(),
            &[SERVED],
            CHUNK,
            "Linux looks at it when it writes, and a null call has nothing to write",
        ),
        case(
            "a Reply chunk that is too small",
            |at| Raw { reply: Some(vec![at(0, 8)]), ..call() }.alone(),
            &[CHUNK],
            SERVED,
            "the reply fits inline, where Linux does not put it",
        ),
        case(
            "a message of 16 MiB",
            |at| Raw { reads: vec![(0, [at(0, 4)[0], (1 << 24) + 4, 0, 0])], ..call() }.long().alone(),
            &[CHUNK],
            CHUNK,
            "",
        ),
    ]
}

/// Calls and replies that do not belong to what is under way.
fn transactions() -> Vec<Case> {
    vec![
        case(
            "two calls of one XID",
            |_| vec![call().octets(), call().octets()],
            &["the call is answered, 2 times"],
            SERVED,
            "we serve a call once while it is under way",
        ),
        case(
            "two calls at once, before any reply",
            |_| (0..CALLS).map(|at| of(XID + at)).collect(),
            &["the call is answered, 2 times"],
            "the call is answered; the connection ends: `Overrun`",
            "until the first reply there is one credit, which we insist on",
        ),
        case(
            "a reply to no call",
            |_| Raw { payload: vec![XID, 1, 0, 0, 0, 0], ..call() }.alone(),
            &[SILENCE],
            SILENCE,
            "",
        ),
    ]
}
