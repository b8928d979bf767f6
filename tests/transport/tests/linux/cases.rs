//! Messages that violate a rule, and their effects, which `docs/linux.md` lists as a table.

#[path = "cases/headers.rs"]
mod headers;

use headers::{chunks, headers};

use crate::{NFS, null_call, words};

/// The XID of the messages.
pub(crate) const XID: u32 = 0x0bad_cafe;

const MSG: u32 = 0;
const NOMSG: u32 = 1;
const MSGP: u32 = 2;
const DONE: u32 = 3;
pub(crate) const ERROR: u32 = 4;
const OPTIONAL: u32 = 5;

/// The number of XIDs in the cases. No case has more calls than Linux grants: on soft-RoCE of Linux
/// 6.1 the effect of that differs between runs.
pub(crate) const CALLS: u32 = 2;

/// The effects of a message.
pub(crate) const SERVED: &str = "the call is answered";
pub(crate) const CHUNK: &str = "`ERR_CHUNK`";
pub(crate) const SILENCE: &str = "silence";
pub(crate) const LOST: &str = "the connection ends";
const LONG: &str = "the call is answered, in the Reply chunk";
const STALE: &str = "`ERR_CHUNK` of the XID of an earlier call";
const CHUNK_LOST: &str = "`ERR_CHUNK`; the connection ends";

/// Handle, length, and the two words of the offset.
pub(crate) type Segment = [u32; 4];

/// Returns a segment of the exposed memory, from an offset and a length. The memory begins with a
/// NULL call.
pub(crate) type Exposed<'a> = &'a dyn Fn(u32, u32) -> Segment;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) messages: fn(Exposed<'_>) -> Vec<Vec<u8>>,
    /// The effects on Linux: any of these.
    pub(crate) linux: &'static [&'static str],
    /// The effect on this crate.
    pub(crate) ours: &'static str,
    /// The reason for a difference.
    pub(crate) why: &'static str,
    /// True if Linux reads beyond the message, so that the effect depends on the previous content
    /// of its buffer.
    pub(crate) reads_old_content: bool,
}

const fn case(
    name: &'static str,
    messages: fn(Exposed<'_>) -> Vec<Vec<u8>>,
    linux: &'static [&'static str],
    ours: &'static str,
    why: &'static str,
) -> Case {
    Case {
        name,
        messages,
        linux,
        ours,
        why,
        reads_old_content: false,
    }
}

impl Case {
    /// Declares that Linux reads beyond the message. NULL calls fill its buffers before.
    const fn reading_old_content(self) -> Self {
        Self {
            reads_old_content: true,
            ..self
        }
    }
}

/// A message of Version One with its header. Initially it is a valid NULL call.
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
    Raw {
        procedure: MSG,
        credits: 32,
        reads: Vec::new(),
        writes: Vec::new(),
        reply: None,
        payload,
    }
}

impl Raw {
    /// Converts it to an `RDMA_NOMSG`.
    fn long(self) -> Self {
        Self {
            procedure: NOMSG,
            payload: Vec::new(),
            ..self
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut all = vec![XID, 1, self.credits, self.procedure];
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

    /// Returns this message only.
    fn alone(&self) -> Vec<Vec<u8>> {
        vec![self.bytes()]
    }

    /// Returns the first bytes, up to a word of the header's lists.
    fn cut(&self, words: usize) -> Vec<Vec<u8>> {
        vec![self.bytes()[..4 * (4 + words)].to_vec()]
    }
}

/// Returns a NULL call.
fn of(xid: u32) -> Vec<u8> {
    words(&[&[xid, 1, 32, MSG, 0, 0, 0][..], &null_call(xid, 3)].concat())
}

/// Returns a header with these words after the four fixed words.
fn fixed(procedure: u32, rest: &[u32]) -> Vec<Vec<u8>> {
    vec![words(&[&[XID, 1, 32, procedure][..], rest].concat())]
}

pub(crate) fn all() -> Vec<Case> {
    [good(), headers(), payloads(), chunks(), transactions()]
        .into_iter()
        .flatten()
        .collect()
}

/// Valid messages, which show that the others are rejected because of their defects.
fn good() -> Vec<Case> {
    vec![
        case("a null call", |_| call().alone(), &[SERVED], SERVED, ""),
        case(
            "a null call that requests no credits",
            |_| {
                Raw {
                    credits: 0,
                    ..call()
                }
                .alone()
            },
            &[SERVED],
            SERVED,
            "",
        ),
        case(
            "a null call in a Position-Zero chunk",
            |at| {
                Raw {
                    reads: vec![(0, at(0, 40))],
                    ..call().long()
                }
                .alone()
            },
            &[SERVED],
            SERVED,
            "",
        ),
        case(
            "a null call with a Write chunk",
            |at| {
                Raw {
                    writes: vec![vec![at(0, 4096)]],
                    ..call()
                }
                .alone()
            },
            &[SERVED],
            SERVED,
            "",
        ),
        case(
            "a null call with a Reply chunk",
            |at| {
                Raw {
                    reply: Some(vec![at(0, 4096)]),
                    ..call()
                }
                .alone()
            },
            &[LONG],
            SERVED,
            "Linux uses every Reply chunk that is offered; we use it only if the reply does not \
            fit inline",
        ),
    ]
}

/// Messages whose payload does not match the header.
fn payloads() -> Vec<Case> {
    vec![
        case(
            "`RDMA_MSG` without an RPC message",
            |_| {
                Raw {
                    payload: Vec::new(),
                    ..call()
                }
                .alone()
            },
            &[SILENCE],
            CHUNK,
            "Linux passes it to RPC, which drops it",
        ),
        case(
            "`RDMA_MSG` with four bytes of an RPC message",
            |_| {
                Raw {
                    payload: vec![XID],
                    ..call()
                }
                .alone()
            },
            &[SILENCE, SERVED],
            CHUNK,
            "Linux passes it to RPC: 6.12 drops it, 6.1 reads on in old content of its buffer",
        )
        .reading_old_content(),
        case(
            "a truncated call",
            |_| {
                Raw {
                    payload: null_call(XID, 3)[..5].to_vec(),
                    ..call()
                }
                .alone()
            },
            &[LOST],
            SERVED,
            "our engine passes it to RPC, which replies with GARBAGE_ARGS",
        ),
        case(
            "an RPC message with another XID",
            |_| {
                Raw {
                    payload: null_call(XID + 1, 3).to_vec(),
                    ..call()
                }
                .alone()
            },
            &["the call is answered, header and reply each with the XID of its own"],
            CHUNK,
            "Linux does not compare them",
        ),
        case(
            "an RPC message that is neither a call nor a reply",
            |_| {
                Raw {
                    payload: vec![XID, 2, 2, NFS, 3, 0, 0, 0, 0, 0],
                    ..call()
                }
                .alone()
            },
            &[SILENCE],
            CHUNK,
            "Linux passes it to RPC, which drops it",
        ),
        case(
            "`RDMA_NOMSG` with a payload",
            |at| {
                Raw {
                    reads: vec![(0, at(0, 40))],
                    payload: null_call(XID, 3).to_vec(),
                    ..call().long()
                }
                .alone()
            },
            &[SERVED],
            CHUNK,
            "Linux reads the chunk and ignores the payload",
        ),
        case(
            "`RDMA_NOMSG` without chunks",
            |_| call().long().alone(),
            &[SILENCE],
            CHUNK,
            "Linux passes it to RPC, which drops it",
        ),
    ]
}

/// Calls and replies that match no outstanding transaction.
fn transactions() -> Vec<Case> {
    vec![
        case(
            "two calls with the same XID",
            |_| vec![call().bytes(), call().bytes()],
            &["the call is answered, 2 times"],
            SERVED,
            "we serve a call once while it is in flight",
        ),
        case(
            "two calls at once, before any reply",
            |_| (0..CALLS).map(|at| of(XID + at)).collect(),
            &["the call is answered, 2 times"],
            "the call is answered; the connection ends: `CreditOverrun`",
            "until the first reply there is one credit, which we enforce",
        ),
        case(
            "a reply that answers no call",
            |_| {
                Raw {
                    payload: vec![XID, 1, 0, 0, 0, 0],
                    ..call()
                }
                .alone()
            },
            &[SILENCE],
            SILENCE,
            "",
        ),
    ]
}
