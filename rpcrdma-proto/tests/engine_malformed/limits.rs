//! Limits on a call in transmissions: a call at the limit is served, and one beyond it is not.

use rpcrdma_proto::chunk::ChunkLimits;
use rpcrdma_proto::connection::{CallLocation, Config, Event};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};

use crate::cases::NONE;
use crate::pair::{End, settled};
use crate::raw::{At, CALL, Segment, Transmission, request};

const TBSN: u32 = 2;
const EXRW: u32 = 1;
/// Targets of a receive buffer.
const TARGETS: u32 = 15;
/// Bytes of a target.
const PAGE: u32 = 4096;

/// A server that takes calls of up to 64 transmissions, with four segments at most.
fn server() -> End {
    let segment = |length, target| BufferSegment {
        length,
        align: 8,
        target,
    };
    let mut segments = vec![segment(PAGE, true); TARGETS as usize];
    segments.insert(0, segment(16_384, false));
    let rtr = RtrExtConfig {
        structure: Some(BufferStructure::new(&segments).unwrap()),
        request_limit: 64,
        ..RtrExtConfig::ALL
    };
    let limits = ChunkLimits {
        max_segments: 4,
        ..ChunkLimits::DEFAULT
    };
    let config = |config: Config| {
        Config {
            limits,
            credits: 16,
            ..config
        }
        .with_rtr(rtr)
    };
    settled(config(Config::client()), config(Config::server())).1
}

/// Whether a call is served; it is refused otherwise.
fn is_served(call: &Transmission) -> bool {
    let mut server = server();
    server.receive(&call.bytes());
    let is_served = !server.arrived().is_empty();
    let refused = u64::from(!is_served);
    assert_eq!(server.session.counters().refused, refused);
    is_served
}

const SEGMENT: Segment = [9, 4, 0, 0];

#[test]
fn the_segments_of_an_item_are_limited() {
    let call = |count: u32| {
        let memory = At::Memory(vec![SEGMENT; count as usize]);
        request(NONE).item(8, 4 * count, memory)
    };
    assert!(is_served(&call(4)) && !is_served(&call(5)));
}

#[test]
fn the_items_of_a_call_are_limited() {
    let call = |count: u32| {
        (0..count).fold(request(NONE), |call, at| {
            call.item(8 + 4 * at, 4, At::Memory(vec![SEGMENT]))
        })
    };
    assert!(is_served(&call(4)) && !is_served(&call(5)));
}

#[test]
fn the_segments_of_a_direction_are_limited() {
    let call = |count: u32| {
        let segments = vec![SEGMENT; count as usize];
        let words = [&[0, EXRW, count][..], segments.as_flattened()].concat();
        request(NONE).range(0, 40, &[&words])
    };
    assert!(is_served(&call(4)) && !is_served(&call(5)));
}

/// A range may be of no bytes: nothing answers it.
// spec: rtr-7.4-aa
#[test]
fn empty_range_is_accepted() {
    assert!(is_served(&request(NONE).range(8, 8, &[&[0, TBSN]])));
}

/// The XID and the direction are all that a message must have.
#[test]
fn message_of_two_words_is_accepted() {
    assert!(is_served(&Transmission {
        payload: vec![NONE, CALL],
        ..request(NONE)
    }));
}

/// A message has at most 1,024 places, however many targets it names.
#[test]
fn the_places_of_a_call_are_limited() {
    let all = 64 * TARGETS;
    for (more, refused) in [(1024 - all, 0), (1025 - all, 1)] {
        let call = request(NONE)
            .of(64)
            .item(8, all * PAGE, At::Targets(0, (0..all).collect()))
            .item(
                8 + all * PAGE,
                more * PAGE,
                At::Targets(0, (0..more).collect()),
            );
        let mut server = server();
        server.receive(&call.bytes());
        assert_eq!(server.session.counters().refused, refused, "{more} more");
    }
}

/// A transmission without a part of the Payload stream adds no section to the message.
// spec: rtr-9.1-i
#[test]
fn empty_section_is_accepted() {
    let mut server = server();
    let first = Transmission {
        payload: Vec::new(),
        ..request(NONE).of(2)
    };
    let last = Transmission {
        payload: request(NONE).payload,
        ..first.more(1)
    };
    server.receive(&first.bytes());
    server.receive(&last.bytes());
    let sections = server.events.iter().find_map(|event| match event {
        Event::CallArrived {
            message: CallLocation::Reassembled(message),
            ..
        } => Some(message.stream.len()),
        _ => None,
    });
    assert_eq!(sections, Some(1));
}
