//! Items that a Send places, where they belong, and what a call directs about its reply.

use super::{BYSIZE, CHOICE, EXRW, TBSN, client, one};
use crate::cases::{Case, NONE, SEGMENT, case};
use crate::raw::{At, BULK, CALL, NO_ITEM, TOO_SHORT, Transmission, request, response};

/// Items that the Send places.
pub(super) fn placements() -> Vec<Case> {
    vec![
        case("a target that does not exist", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(8, 64, At::Targets(0, vec![1]))
            })
        }),
        case("a target of a transmission behind the last", |_| {
            let first = request(NONE).of(2).item(8, 64, At::Targets(0, vec![2]));
            Some(vec![first.bytes(), first.more(1).bytes()])
        }),
        case("a target with the highest number", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(8, 64, At::Targets(0, vec![u32::MAX]))
            })
        }),
        case("a target that has not come", |_| {
            one(&request(NONE).item(8, 64, At::Targets(0, vec![0])))
        }),
        case("a target of which less has come", |_| {
            one(&Transmission {
                data: 60,
                ..request(NONE).item(8, 64, At::Targets(0, vec![0]))
            })
        }),
        case("a target that holds the Payload stream", |_| {
            let long = Transmission {
                payload: vec![NONE; 1100],
                ..request(NONE)
            };
            let mut long = Transmission {
                data: 64,
                ..long.item(8, 64, At::Targets(0, vec![0]))
            };
            long.payload[1] = CALL;
            one(&long)
        }),
        case("a target of a transmission that has none of it", |_| {
            let first = request(NONE).of(2).item(8, 64, At::Targets(0, vec![1]));
            Some(vec![first.bytes(), first.more(1).bytes()])
        }),
        case("an offset beyond its target", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(8, 4, At::Targets(BULK, vec![0]))
            })
        }),
        case("an offset that is no multiple of four", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(8, 4, At::Targets(2, vec![0]))
            })
        }),
        case("an item longer than its targets", |_| {
            one(&Transmission {
                data: 65_536,
                ..request(NONE).item(8, BULK + 1, At::Targets(0, vec![0]))
            })
        }),
        case("an item without targets", |_| {
            one(&request(NONE).item(8, 64, At::Targets(0, vec![])))
        }),
        case("a target named twice by one item", |_| {
            let item = At::Targets(0, vec![0, 0]);
            one(&Transmission {
                data: 65_536,
                ..request(NONE).item(8, BULK + 4, item)
            })
        }),
        case("two items at the same bytes of a target", |_| {
            let first = request(NONE).item(8, 64, At::Targets(0, vec![0]));
            one(&Transmission {
                data: 128,
                ..first.item(100, 64, At::Targets(32, vec![0]))
            })
        }),
        case(
            "an item of the reply at a target that does not exist",
            |to| {
                one(&Transmission {
                    data: 64,
                    ..response(to.result).item(8, 64, At::Targets(0, vec![1]))
                })
            },
        ),
        case("an item of the reply at a target that has not come", |to| {
            one(&response(to.result).item(8, 64, At::Targets(0, vec![0])))
        }),
    ]
}

/// Where items belong, and what they are.
pub(super) fn items() -> Vec<Case> {
    const AT: fn() -> At = || At::Targets(0, vec![0]);
    vec![
        case("an item at a position that is no multiple of four", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(6, 64, AT())
            })
        }),
        case("an item beyond the message", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(44, 64, AT())
            })
        }),
        case("an item in place of the RPC message's direction", |_| {
            one(&Transmission {
                data: 64,
                ..request(NONE).item(4, 64, AT())
            })
        }),
        case("items out of order", |_| {
            let first = request(NONE).item(80, 8, AT());
            one(&Transmission {
                data: 64,
                ..first.item(8, 8, At::Targets(8, vec![0]))
            })
        }),
        case("items that overlap", |_| {
            let first = request(NONE).item(8, 8, AT());
            one(&Transmission {
                data: 64,
                ..first.item(12, 8, At::Targets(8, vec![0]))
            })
        }),
        case("an item of `XMPTYPE_TOOSHORT`, in a call", |_| {
            one(&request(NONE).item(8, 4, At::Type(TOO_SHORT)))
        }),
        case("an item of `XMPTYPE_NOITEM`, in a call", |_| {
            one(&request(NONE).item(0, 0, At::Type(NO_ITEM)))
        }),
        case("an item of fewer bytes of memory than it has", |_| {
            one(&request(NONE).item(8, 4097, At::Memory(vec![SEGMENT])))
        }),
        case("an item in 257 segments", |_| {
            one(&request(NONE).item(8, 4, At::Memory(vec![[9, 4, 0, 0]; 257])))
        }),
        case("an item beyond the address space", |_| {
            one(&request(NONE).item(8, 2, At::Memory(vec![[9, 2, u32::MAX, u32::MAX]])))
        }),
        case("a call of more bytes than are taken", |_| {
            one(&request(NONE).item(8, 1 << 25, At::Memory(vec![[9, 1 << 25, 0, 0]])))
        }),
        case(
            "an item that is to be read, where no chunks are taken",
            |to| {
                client(to, || {
                    one(&request(NONE).item(8, 4096, At::Memory(vec![SEGMENT])))
                })
            },
        ),
    ]
}

/// The directions of a call about its reply.
pub(super) fn directions() -> Vec<Case> {
    vec![
        case("a range that ends before it begins", |_| {
            one(&request(NONE).range(8, 4, &[&[0, TBSN]]))
        }),
        case("ranges out of order", |_| {
            one(&request(NONE)
                .range(20, 40, &[&[0, TBSN]])
                .range(0, 20, &[&[0, TBSN]]))
        }),
        case("ranges that overlap", |_| {
            one(&request(NONE)
                .range(0, 24, &[&[0, TBSN]])
                .range(20, 40, &[&[0, TBSN]]))
        }),
        case("17 directions", |_| {
            let all: [&[u32]; 17] = [&[0, TBSN]; 17];
            one(&request(NONE).range(0, 40, &all))
        }),
        case("a direction with 257 segments", |_| {
            let segments = [[9, 4, 0, 0]; 257];
            let words = [&[0, EXRW, 257][..], segments.as_flattened()].concat();
            one(&request(NONE).range(0, 40, &[&words]))
        }),
        case("a direction with memory beyond the address space", |_| {
            one(&request(NONE).range(0, 40, &[&[0, EXRW, 1, 9, 2, u32::MAX, u32::MAX]]))
        }),
        case(
            "a direction with more bytes of memory than 32 bits tell",
            |_| {
                one(&request(NONE).range(
                    0,
                    40,
                    &[&[0, BYSIZE, 64, 2, 9, u32::MAX, 0, 0, 9, u32::MAX, 0, 0]],
                ))
            },
        ),
        case("a direction with memory, where no chunks are taken", |to| {
            client(to, || {
                one(&request(NONE).range(0, 40, &[&[0, CHOICE, 1, 9, 64, 0, 0]]))
            })
        }),
    ]
}
