//! Headers and chunk lists that violate a rule.

use super::*;

/// Headers that cannot be decoded.
pub(super) fn headers() -> Vec<Case> {
    vec![
        case(
            "an empty message",
            |_| vec![Vec::new()],
            &[STALE],
            SILENCE,
            "Linux reads the XID and the version from old content of its buffer",
        )
        .reading_old_content(),
        case(
            "15 bytes",
            |_| vec![call().bytes()[..15].to_vec()],
            &[CHUNK],
            SILENCE,
            "we do not trust the XID of a header without its fixed words",
        ),
        case(
            "a header truncated after its fixed words",
            |_| call().cut(0),
            &[CHUNK],
            SILENCE,
            "we drop a message that is shorter than the shortest valid one",
        ),
        case(
            "version 3",
            |_| vec![words(&[XID, 3, 1, 0, 0, 0, 0, 0])],
            &["`ERR_VERS`, 1 to 1"],
            "`ERR_VERS`, 1 to 2",
            "we support both",
        ),
        case(
            "version 0",
            |_| vec![words(&[XID, 0, 1, 0, 0, 0, 0, 0])],
            &["`ERR_VERS`, 1 to 1"],
            "`ERR_VERS`, 1 to 2",
            "we support both",
        ),
        case(
            "an error of version 3",
            |_| vec![words(&[XID, 3, 1, ERROR, 1, 3, 3])],
            &["`ERR_VERS`, 1 to 1"],
            SILENCE,
            "we never answer an error, so that two ends cannot answer each other without end",
        ),
        case(
            "an unknown procedure",
            |_| fixed(99, &[0, 0, 0, 0]),
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "`RDMA_MSGP`",
            |_| fixed(MSGP, &[4, 64, 0, 0, 0, XID, 0]),
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "`RDMA_DONE`",
            |_| fixed(DONE, &[0, 0, 0]),
            &[SILENCE],
            SILENCE,
            "",
        ),
        case(
            "`RDMA2_OPTIONAL`",
            |_| fixed(OPTIONAL, &[0, 1, 0]),
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "an error that answers no call",
            |_| fixed(ERROR, &[2]),
            &[SILENCE],
            SILENCE,
            "",
        ),
        case(
            "an error of an unknown kind",
            |_| fixed(ERROR, &[99]),
            &[SILENCE],
            SILENCE,
            "",
        ),
        case(
            "a Read list without an end",
            |at| {
                Raw {
                    reads: vec![(0, at(0, 40))],
                    ..call()
                }
                .long()
                .cut(6)
            },
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "a list with a presence word that is not a boolean",
            |_| fixed(MSG, &[2, 0, 0]),
            &[CHUNK],
            CHUNK,
            "Linux rejects it only because no segment follows",
        ),
        case(
            "a Read list whose presence word is 2, with a complete segment",
            |at| {
                let mut bytes = Raw {
                    reads: vec![(40, at(0, 4))],
                    ..call()
                }
                .bytes();
                bytes[19] = 2;
                vec![bytes]
            },
            &[SERVED],
            CHUNK,
            "Linux treats every presence word except 0 as 1",
        ),
        case(
            "a truncated Write chunk",
            |at| {
                Raw {
                    writes: vec![vec![at(0, 64)]],
                    ..call()
                }
                .cut(5)
            },
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "a Write chunk whose count exceeds its segments",
            |at| {
                let mut bytes = Raw {
                    writes: vec![vec![at(0, 64)]],
                    ..call()
                }
                .bytes();
                let count = bytes.len() - 4 * (10 + 2 + 5);
                bytes[count..count + 4].copy_from_slice(&[0xff; 4]);
                vec![bytes]
            },
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "a Write chunk without segments",
            |_| {
                Raw {
                    writes: vec![Vec::new()],
                    ..call()
                }
                .alone()
            },
            &[CHUNK],
            SERVED,
            "XDR allows it, and it has room for a result of zero bytes",
        ),
        case(
            "a truncated Reply chunk",
            |at| {
                Raw {
                    reply: Some(vec![at(0, 64)]),
                    ..call()
                }
                .cut(6)
            },
            &[CHUNK],
            CHUNK,
            "",
        ),
    ]
}

/// Chunk lists that violate a rule.
pub(super) fn chunks() -> Vec<Case> {
    vec![
        case(
            "a Position that is not a multiple of four",
            |at| {
                Raw {
                    reads: vec![(6, at(0, 64))],
                    ..call()
                }
                .alone()
            },
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "Read chunks that overlap, out of order",
            |at| {
                Raw {
                    reads: vec![(32, at(0, 64)), (8, at(0, 64))],
                    ..call()
                }
                .alone()
            },
            &[CHUNK_LOST, LOST],
            CHUNK,
            "Linux detects it after the first RDMA Read",
        ),
        case(
            "Read chunks that overlap",
            |at| {
                Raw {
                    reads: vec![(8, at(0, 64)), (16, at(0, 64))],
                    ..call()
                }
                .alone()
            },
            &[CHUNK_LOST, LOST],
            CHUNK,
            "Linux detects it after the first RDMA Read",
        ),
        case(
            "a Position beyond the message",
            |at| {
                Raw {
                    reads: vec![(44, at(0, 64))],
                    ..call()
                }
                .alone()
            },
            &[CHUNK_LOST, LOST],
            CHUNK,
            "Linux detects it after the first RDMA Read",
        ),
        case(
            "a Position far beyond the message",
            |at| {
                Raw {
                    reads: vec![(4096, at(0, 64))],
                    ..call()
                }
                .alone()
            },
            &[CHUNK_LOST, LOST],
            CHUNK,
            "Linux detects it after the first RDMA Read",
        ),
        case(
            "Position zero in `RDMA_MSG`",
            |at| {
                Raw {
                    reads: vec![(0, at(0, 40))],
                    ..call()
                }
                .alone()
            },
            &[SERVED],
            CHUNK,
            "Linux reads the chunk and ignores the payload",
        ),
        case(
            "`RDMA_NOMSG` without a Position-Zero chunk",
            |at| {
                Raw {
                    reads: vec![(8, at(0, 64))],
                    ..call().long()
                }
                .alone()
            },
            &[CHUNK_LOST, LOST],
            CHUNK,
            "Linux detects it after the first RDMA Read",
        ),
        case(
            "`RDMA_NOMSG` with only a Write chunk",
            |at| {
                Raw {
                    writes: vec![vec![at(0, 64)]],
                    ..call().long()
                }
                .alone()
            },
            &[SILENCE],
            CHUNK,
            "Linux passes it to RPC, which drops it",
        ),
        case(
            "160 Read segments",
            |at| {
                Raw {
                    reads: vec![(40, at(0, 4)); 160],
                    ..call()
                }
                .alone()
            },
            &[SERVED],
            CHUNK,
            "`Config::limits` allows 64",
        ),
        case(
            "a Write segment of zero bytes",
            |at| {
                Raw {
                    writes: vec![vec![at(0, 0)]],
                    ..call()
                }
                .alone()
            },
            &[SERVED],
            SERVED,
            "",
        ),
        case(
            "segments whose total length exceeds 32 bits",
            |at| {
                Raw {
                    reads: vec![(40, [at(0, 4)[0], u32::MAX, 0, 0]); 2],
                    ..call()
                }
                .alone()
            },
            &[CHUNK],
            CHUNK,
            "",
        ),
        case(
            "240 segments in a Write chunk",
            |at| {
                Raw {
                    writes: vec![vec![at(0, 64); 240]],
                    ..call()
                }
                .alone()
            },
            &[SERVED, CHUNK],
            CHUNK,
            "`Config::limits` allows 64; Linux 6.12 has a limit too",
        ),
        case(
            "17 Write chunks",
            |at| {
                Raw {
                    writes: vec![vec![at(0, 64)]; 17],
                    ..call()
                }
                .alone()
            },
            &[SERVED],
            CHUNK,
            "we accept 16 in a call",
        ),
        case(
            "a segment beyond the address space",
            |at| {
                Raw {
                    reads: vec![(40, [at(0, 4)[0], 2, u32::MAX, u32::MAX])],
                    ..call()
                }
                .alone()
            },
            &[LOST],
            CHUNK,
            "Linux reads from it, and the RDMA Read fails",
        ),
        case(
            "a Write segment beyond the address space",
            |at| {
                Raw {
                    writes: vec![vec![[at(0, 4)[0], 2, u32::MAX, u32::MAX]]],
                    ..call()
                }
                .alone()
            },
            &[SERVED],
            CHUNK,
            "Linux checks it when it writes, and a null call has no result to write",
        ),
        case(
            "a Reply chunk that is too small",
            |at| {
                Raw {
                    reply: Some(vec![at(0, 8)]),
                    ..call()
                }
                .alone()
            },
            &[CHUNK],
            SERVED,
            "the reply fits inline, but Linux always uses the Reply chunk",
        ),
        case(
            "a message of 16 MiB",
            |at| {
                Raw {
                    reads: vec![(0, [at(0, 4)[0], (1 << 24) + 4, 0, 0])],
                    ..call()
                }
                .long()
                .alone()
            },
            &[CHUNK],
            CHUNK,
            "",
        ),
    ]
}
