//! The cases.

use rpcrdma_proto::connection::Role;
use rpcrdma_proto::continuation::OperationSet;
use rpcrdma_proto::version::Version;

use crate::To;
use crate::pair::{OFFSET, key, words};
use crate::raw::{
    CALL, DONE, ERROR, MSGP, OPTIONAL, REPLY, Raw, Segment, call, fixed, operation, reply,
};

/// An XID that no call has.
pub(crate) const NONE: u32 = 0x0bad_cafe;
/// A code that no operation has.
const UNKNOWN: u32 = 77;
/// Memory that belongs to no call.
pub(crate) const SEGMENT: Segment = [9, 64, 0, 4096];
pub(crate) const CONNPROP: u32 = 1;
pub(crate) const REQPROP: u32 = 2;
pub(crate) const RESPROP: u32 = 3;
pub(crate) const UPDPROP: u32 = 4;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The messages; none if the case is no case there.
    pub(crate) messages: fn(&To) -> Option<Vec<Vec<u8>>>,
    /// The key that each of them invalidates.
    pub(crate) invalidates: Option<fn(&To) -> u32>,
    /// Operations of rtrext-02 that the end does not take.
    pub(crate) lacks: OperationSet,
}

pub(crate) fn all() -> Vec<Case> {
    [
        headers(),
        payloads(),
        chunks(),
        transactions(),
        errors(),
        operations(),
        invalidation(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub(crate) const fn case(name: &'static str, messages: fn(&To) -> Option<Vec<Vec<u8>>>) -> Case {
    Case {
        name,
        messages,
        invalidates: None,
        lacks: OperationSet::NONE,
    }
}

/// The segment of a call, returned with so many bytes.
pub(crate) fn offered(xid: u32, length: u32) -> Segment {
    [key(xid, 1), length, 0, u32::try_from(OFFSET).unwrap()]
}

/// Headers that can't be read.
fn headers() -> Vec<Case> {
    vec![
        case("nothing", |_| Some(vec![Vec::new()])),
        case("15 bytes", |to| {
            Some(vec![call(to, NONE).bytes()[..15].to_vec()])
        }),
        case("a header truncated after its fixed words", |to| {
            Some(vec![call(to, NONE).bytes()[..16].to_vec()])
        }),
        case("version 3", |_| {
            Some(vec![words(&[NONE, 3, 1, 0, 0, 0, 0, 0])])
        }),
        case("version 3, in less than 28 bytes", |_| {
            Some(vec![words(&[NONE, 3, 1, 0, 0, 0])])
        }),
        case("version 3, in place of a reply", |to| {
            Some(vec![words(&[to.plain, 3, 1, 0, 0, 0, 0, 0])])
        }),
        case("an error of version 3", |_| {
            Some(vec![words(&[NONE, 3, 1, ERROR, 1, 3, 3])])
        }),
        case("an unknown procedure", |to| {
            Some(vec![fixed(to, NONE, 99, &[0, 0, 0, 0])])
        }),
        case("`RDMA_MSGP`", |to| {
            (to.version == Version::One)
                .then(|| vec![fixed(to, NONE, MSGP, &[4, 64, 0, 0, 0, NONE, CALL])])
        }),
        case("`RDMA_DONE`", |to| {
            (to.version == Version::One).then(|| vec![fixed(to, NONE, DONE, &[0, 0, 0])])
        }),
        case("a Read list without an end", |to| {
            Some(vec![
                Raw {
                    reads: vec![(0, SEGMENT)],
                    ..call(to, NONE)
                }
                .long()
                .cut(6),
            ])
        }),
        case("a list with a presence word that is not a boolean", |to| {
            Some(vec![if to.version == Version::Two {
                fixed(to, NONE, 0, &[CALL, 2, 0, 0])
            } else {
                fixed(to, NONE, 0, &[2, 0, 0])
            }])
        }),
        case("a truncated Write chunk", |to| {
            Some(vec![
                Raw {
                    writes: vec![vec![SEGMENT]],
                    ..call(to, NONE)
                }
                .cut(5),
            ])
        }),
        case("a Write chunk of more segments than there are", |to| {
            Some(vec![{
                let mut bytes = Raw {
                    writes: vec![vec![SEGMENT]],
                    ..call(to, NONE)
                }
                .bytes();
                let count = bytes.len() - 4 * (10 + 2 + 5);
                bytes[count..count + 4].copy_from_slice(&[0xff; 4]);
                bytes
            }])
        }),
        case("a truncated Reply chunk", |to| {
            Some(vec![
                Raw {
                    reply: Some(vec![SEGMENT]),
                    ..call(to, NONE)
                }
                .cut(6),
            ])
        }),
    ]
}

/// The bytes after a header, and the header's description of them.
fn payloads() -> Vec<Case> {
    vec![
        case("`MSG` without an RPC message", |to| {
            Some(vec![
                Raw {
                    payload: Vec::new(),
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("`MSG` with four bytes of an RPC message", |to| {
            Some(vec![
                Raw {
                    payload: vec![NONE],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("an RPC message of another XID", |to| {
            Some(vec![
                Raw {
                    payload: vec![NONE + 1, CALL],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("an RPC message that is neither call nor reply", |to| {
            Some(vec![
                Raw {
                    payload: vec![NONE, 2],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("`CALL` over an RPC reply", |to| {
            (to.version == Version::Two).then(|| {
                vec![
                    Raw {
                        direction: CALL,
                        ..reply(to, NONE)
                    }
                    .bytes(),
                ]
            })
        }),
        case("`REPLY` over an RPC call", |to| {
            (to.version == Version::Two).then(|| {
                vec![
                    Raw {
                        direction: REPLY,
                        ..call(to, NONE)
                    }
                    .bytes(),
                ]
            })
        }),
        case("a direction that is neither", |to| {
            (to.version == Version::Two).then(|| {
                vec![
                    Raw {
                        direction: 7,
                        ..call(to, NONE)
                    }
                    .bytes(),
                ]
            })
        }),
        case("`NOMSG` with a payload", |to| {
            Some(vec![
                Raw {
                    reads: vec![(0, SEGMENT)],
                    payload: vec![NONE, CALL],
                    ..call(to, NONE).long()
                }
                .bytes(),
            ])
        }),
        case("`NOMSG` without chunks", |to| {
            Some(vec![call(to, NONE).long().bytes()])
        }),
        case("`NOMSG` without chunks, a reply", |to| {
            (to.version == Version::Two).then(|| vec![reply(to, to.plain).long().bytes()])
        }),
    ]
}

/// Chunk lists that break a rule.
fn chunks() -> Vec<Case> {
    vec![
        case("a Position that is no multiple of four", |to| {
            Some(vec![
                Raw {
                    reads: vec![(6, SEGMENT)],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("Read chunks that overlap, out of order", |to| {
            Some(vec![
                Raw {
                    reads: vec![(32, SEGMENT), (8, SEGMENT)],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("Read chunks that overlap", |to| {
            Some(vec![
                Raw {
                    reads: vec![(8, SEGMENT), (16, SEGMENT)],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("a Position beyond the message", |to| {
            Some(vec![
                Raw {
                    reads: vec![(44, SEGMENT)],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("Position zero in `MSG`", |to| {
            Some(vec![
                Raw {
                    reads: vec![(0, SEGMENT)],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("`NOMSG` without a Position-Zero chunk", |to| {
            Some(vec![
                Raw {
                    reads: vec![(8, SEGMENT)],
                    ..call(to, NONE)
                }
                .long()
                .bytes(),
            ])
        }),
        case("`NOMSG` with a Write chunk alone", |to| {
            Some(vec![
                Raw {
                    writes: vec![vec![SEGMENT]],
                    ..call(to, NONE)
                }
                .long()
                .bytes(),
            ])
        }),
        case("257 Read segments", |to| {
            Some(vec![
                Raw {
                    reads: vec![(8, [9, 4, 0, 0]); 257],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("257 segments in a Write chunk", |to| {
            Some(vec![
                Raw {
                    writes: vec![vec![SEGMENT; 257]],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("257 segments in Write chunks together", |to| {
            Some(vec![
                Raw {
                    writes: vec![vec![SEGMENT; 128], vec![SEGMENT; 129]],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("17 Write chunks", |to| {
            Some(vec![
                Raw {
                    writes: vec![vec![SEGMENT]; 17],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("a segment beyond the address space", |to| {
            Some(vec![
                Raw {
                    reads: vec![(8, [9, 2, u32::MAX, u32::MAX])],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("a Write segment beyond the address space", |to| {
            Some(vec![
                Raw {
                    writes: vec![vec![[9, 2, u32::MAX, u32::MAX]]],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("segments whose total length exceeds 32 bits", |to| {
            Some(vec![
                Raw {
                    reads: vec![(8, [9, u32::MAX, 0, 0]); 2],
                    ..call(to, NONE)
                }
                .bytes(),
            ])
        }),
        case("a message of more bytes than are taken", |to| {
            Some(vec![
                Raw {
                    reads: vec![(0, [9, (1 << 24) + 4, 0, 0])],
                    ..call(to, NONE)
                }
                .long()
                .bytes(),
            ])
        }),
    ]
}

/// Calls and replies that match no open call.
fn transactions() -> Vec<Case> {
    vec![
        case("a call with the XID of one that is being served", |to| {
            Some(vec![call(to, to.given).bytes()])
        }),
        case("more calls than were granted", |to| {
            Some((0..40).map(|at| call(to, NONE + at).bytes()).collect())
        }),
        case("more `ROPT_REQPROP` than were granted", |to| {
            (to.version == Version::Two).then(|| {
                (0..40)
                    .map(|at| operation(to, NONE + at, CALL, REQPROP, &[0]))
                    .collect()
            })
        }),
        case("a reply to no call", |to| {
            Some(vec![reply(to, NONE).bytes()])
        }),
        case("a long reply to no call", |to| {
            Some(vec![
                Raw {
                    reply: Some(vec![SEGMENT]),
                    ..reply(to, NONE)
                }
                .long()
                .bytes(),
            ])
        }),
        case("a reply with a Read list", |to| {
            Some(vec![
                Raw {
                    reads: vec![(8, SEGMENT)],
                    ..reply(to, to.plain)
                }
                .bytes(),
            ])
        }),
        case("a reply with a Write chunk that was not offered", |to| {
            Some(vec![
                Raw {
                    writes: vec![vec![SEGMENT]],
                    ..reply(to, to.plain)
                }
                .bytes(),
            ])
        }),
        case("a reply with a Reply chunk that was not offered", |to| {
            Some(vec![
                Raw {
                    reply: Some(vec![SEGMENT]),
                    ..reply(to, to.plain)
                }
                .bytes(),
            ])
        }),
        case(
            "a Write chunk returned with more bytes than offered",
            |to| {
                (to.role == Role::Client).then(|| {
                    vec![
                        Raw {
                            writes: vec![vec![offered(to.result, 65_537)]],
                            ..reply(to, to.result)
                        }
                        .bytes(),
                    ]
                })
            },
        ),
        case("a Write chunk returned with another handle", |to| {
            (to.role == Role::Client).then(|| {
                vec![
                    Raw {
                        writes: vec![vec![offered(to.long, 4)]],
                        ..reply(to, to.result)
                    }
                    .bytes(),
                ]
            })
        }),
        case("a Write chunk returned with another offset", |to| {
            (to.role == Role::Client).then(|| {
                vec![{
                    let [handle, length, high, low] = offered(to.result, 4);
                    Raw {
                        writes: vec![vec![[handle, length, high, low + 4]]],
                        ..reply(to, to.result)
                    }
                    .bytes()
                }]
            })
        }),
        case("a Write chunk returned without its segment", |to| {
            (to.role == Role::Client).then(|| {
                vec![
                    Raw {
                        writes: vec![Vec::new()],
                        ..reply(to, to.result)
                    }
                    .bytes(),
                ]
            })
        }),
        case("a Write chunk returned with a segment more", |to| {
            (to.role == Role::Client).then(|| {
                vec![
                    Raw {
                        writes: vec![vec![offered(to.result, 4); 2]],
                        ..reply(to, to.result)
                    }
                    .bytes(),
                ]
            })
        }),
        case("a Write chunk returned twice", |to| {
            (to.role == Role::Client).then(|| {
                vec![
                    Raw {
                        writes: vec![vec![offered(to.result, 4)]; 2],
                        ..reply(to, to.result)
                    }
                    .bytes(),
                ]
            })
        }),
        case(
            "a Reply chunk returned with more bytes than offered",
            |to| {
                (to.role == Role::Client).then(|| {
                    vec![
                        Raw {
                            reply: Some(vec![offered(to.long, 9_001)]),
                            ..reply(to, to.long)
                        }
                        .long()
                        .bytes(),
                    ]
                })
            },
        ),
        case("a Reply chunk returned empty, and nothing inline", |to| {
            (to.role == Role::Client).then(|| {
                vec![
                    Raw {
                        reply: Some(vec![offered(to.long, 0)]),
                        ..reply(to, to.long)
                    }
                    .long()
                    .bytes(),
                ]
            })
        }),
        case("a long reply to a call that offered no Reply chunk", |to| {
            (to.role == Role::Client).then(|| {
                vec![
                    Raw {
                        writes: vec![vec![offered(to.result, 4)]],
                        ..reply(to, to.result)
                    }
                    .long()
                    .bytes(),
                ]
            })
        }),
        case(
            "a backward call with a Write chunk, where no chunks are taken",
            |to| {
                (to.role == Role::Client).then(|| {
                    vec![
                        Raw {
                            writes: vec![vec![SEGMENT]],
                            ..call(to, NONE)
                        }
                        .bytes(),
                    ]
                })
            },
        ),
        case("a long backward call, where no chunks are taken", |to| {
            (to.role == Role::Client).then(|| {
                vec![
                    Raw {
                        reads: vec![(0, SEGMENT)],
                        ..call(to, NONE)
                    }
                    .long()
                    .bytes(),
                ]
            })
        }),
    ]
}

/// Errors, which are answered by nothing.
fn errors() -> Vec<Case> {
    vec![
        case("an error to no call", |to| {
            Some(vec![fixed(to, NONE, ERROR, &[2])])
        }),
        case("an error to the call of the other direction", |to| {
            Some(vec![fixed(to, to.given, ERROR, &[2])])
        }),
        case("an error to an open call", |to| {
            Some(vec![fixed(to, to.plain, ERROR, &[2])])
        }),
        case("an error about versions to an open call", |to| {
            Some(vec![fixed(to, to.plain, ERROR, &[1, 1, 1])])
        }),
        case("a truncated error", |to| {
            Some(vec![fixed(to, to.plain, ERROR, &[1, 1])])
        }),
        case("an error of an unknown kind", |to| {
            Some(vec![fixed(to, to.plain, ERROR, &[99])])
        }),
        case("an error with a payload", |to| {
            Some(vec![fixed(to, to.plain, ERROR, &[2, 0])])
        }),
    ]
}

/// Operations, and the properties in them.
fn operations() -> Vec<Case> {
    vec![
        case("an unknown operation, `CALL`", |to| {
            (to.version == Version::Two).then(|| vec![operation(to, NONE, CALL, UNKNOWN, &[])])
        }),
        case("an unknown operation, `REPLY`", |to| {
            (to.version == Version::Two).then(|| vec![operation(to, NONE, REPLY, UNKNOWN, &[])])
        }),
        case("`RDMA2_OPTIONAL`", |to| {
            (to.version == Version::One).then(|| vec![fixed(to, NONE, OPTIONAL, &[CALL, 1, 0])])
        }),
        case("an operation of more bytes than there are", |to| {
            (to.version == Version::Two)
                .then(|| vec![fixed(to, NONE, OPTIONAL, &[CALL, CONNPROP, 64, 0])])
        }),
        case("`ROPT_CONNPROP` with `REPLY`", |to| {
            (to.version == Version::Two)
                .then(|| vec![operation(to, NONE, REPLY, CONNPROP, &[0, 0])])
        }),
        case("`ROPT_RESPROP` with `CALL`", |to| {
            (to.version == Version::Two)
                .then(|| vec![operation(to, NONE, CALL, RESPROP, &[0, 0, 0])])
        }),
        case("`ROPT_RESPROP` to no request", |to| {
            (to.version == Version::Two)
                .then(|| vec![operation(to, NONE, REPLY, RESPROP, &[0, 0, 0])])
        }),
        case("a truncated `ROPT_RESPROP`", |to| {
            (to.version == Version::Two).then(|| vec![operation(to, NONE, REPLY, RESPROP, &[1])])
        }),
        case("`ROPT_UPDPROP` with an RPC message", |to| {
            (to.version == Version::Two).then(|| {
                vec![{
                    let mut bytes = operation(to, NONE, CALL, UPDPROP, &[0]);
                    bytes.extend(words(&[NONE, CALL]));
                    bytes
                }]
            })
        }),
        case("`ROPT_UPDPROP` with bytes behind its values", |to| {
            (to.version == Version::Two).then(|| vec![operation(to, NONE, CALL, UPDPROP, &[0, 0])])
        }),
        case("a property whose value goes beyond the message", |to| {
            (to.version == Version::Two)
                .then(|| vec![operation(to, NONE, CALL, UPDPROP, &[1, 1, 64, 8192])])
        }),
        case("a property whose value is no value of its type", |to| {
            (to.version == Version::Two)
                .then(|| vec![operation(to, NONE, CALL, UPDPROP, &[1, 3, 4, 99])])
        }),
        case("a property whose value is too short", |to| {
            (to.version == Version::Two)
                .then(|| vec![operation(to, NONE, CALL, UPDPROP, &[1, 1, 2, 0])])
        }),
        case("a property whose value is too long", |to| {
            (to.version == Version::Two)
                .then(|| vec![operation(to, NONE, CALL, REQPROP, &[1, 2, 8, 1, 0])])
        }),
    ]
}

/// Send With Invalidate where it must not be.
fn invalidation() -> Vec<Case> {
    vec![
        Case {
            invalidates: Some(|to| key(to.result, 1)),
            ..case("a reply that invalidates another key", |to| {
                (to.role == Role::Client).then(|| vec![reply(to, to.plain).bytes()])
            })
        },
        Case {
            invalidates: Some(|to| key(to.plain, 1)),
            ..case("a reply to no call that invalidates", |to| {
                Some(vec![reply(to, NONE).bytes()])
            })
        },
        Case {
            invalidates: Some(|to| key(to.plain, 1)),
            ..case("a call that invalidates", |to| {
                Some(vec![call(to, NONE).bytes()])
            })
        },
        Case {
            invalidates: Some(|to| key(to.plain, 1)),
            ..case("an error that invalidates", |to| {
                Some(vec![fixed(to, to.plain, ERROR, &[2])])
            })
        },
        Case {
            invalidates: Some(|to| key(to.plain, 1)),
            ..case("an operation that invalidates", |to| {
                (to.version == Version::Two).then(|| vec![operation(to, NONE, CALL, UPDPROP, &[0])])
            })
        },
        Case {
            invalidates: Some(|to| key(to.plain, 1)),
            ..case("what can't be read, and invalidates", |_| {
                Some(vec![Vec::new()])
            })
        },
    ]
}
