//! Establishing and ending connections.

use super::TestBed;
use super::fixture::{CONFIG, Event, Host, TestEnd, connect_hosts, connected, pattern, until};
use crate::provider::{
    Cause, ConnectionEvent, ConnectionManager, Device, MAX_PRIVATE_DATA, Operation, QueuePair,
    QueuePairConfig, Status,
};

fn hosts<D: Device>(bed: &TestBed<D>) -> (Host<D>, Host<D>, std::net::SocketAddr) {
    let (near, mut far) = (Host::new(&bed.near, 64), Host::new(&bed.far, 64));
    let to = far.manager.listen(bed.address).expect("it listens");
    (near, far, to)
}

/// A connection manager may pad private data with zeros.
fn is_padded(said: &[u8], meant: &[u8]) -> bool {
    said.strip_prefix(meant)
        .is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
}

fn established<D: Device>(event: Event<D>, pair: &D::QueuePair) -> Box<[u8]> {
    match event {
        ConnectionEvent::Established {
            queue_pair,
            private_data,
        } if queue_pair == pair.number() => private_data,
        _ => panic!("it should be established"),
    }
}

/// Returns whether the peer has rejected the connection, and its private data.
fn failed<D: Device>(event: Event<D>, pair: &D::QueuePair) -> (bool, Box<[u8]>) {
    match event {
        ConnectionEvent::Failed {
            queue_pair,
            rejected,
            private_data,
            ..
        } if queue_pair == pair.number() => (rejected, private_data),
        _ => panic!("it should have failed"),
    }
}

pub(super) fn private_data_of_every_size_arrives<D: Device>(bed: &TestBed<D>) {
    // rfc: 5044-7.1.1-q, 5044-7.1.1-s, 5044-7.1.2-b, 5044-7.1.2-j
    let (mut near, mut far, to) = hosts(bed);
    for size in 0..=MAX_PRIVATE_DATA {
        let (there, back) = (pattern(size), pattern(MAX_PRIVATE_DATA - size));
        let first = near.connect(to, &there).expect("it begins");
        let (request, said) = far.requested_by(&mut near);
        assert!(is_padded(&said, &there), "{size} bytes there");
        let second = far.prepare(&request).expect("a queue pair");
        far.manager
            .accept(request, &second, &back)
            .expect("it is accepted");
        established::<D>(far.event_by(&mut near), &second);
        let said = established::<D>(near.event(), &first);
        assert!(is_padded(&said, &back), "{} bytes back", back.len());
        drop((first, second));
        while near.poll().is_some() || far.poll().is_some() {}
    }
}

pub(super) fn too_much_private_data_is_refused<D: Device>(bed: &TestBed<D>) {
    // rfc: 5044-7.1.1-q, 5044-7.1.1-s
    let (mut near, mut far, to) = hosts(bed);
    let much = pattern(MAX_PRIVATE_DATA + 1);
    assert!(matches!(
        near.connect(to, &much).expect_err("too much").cause,
        Cause::PrivateData
    ));
    let first = near.connect(to, &[]).expect("it begins");
    let (request, _) = far.requested_by(&mut near);
    let second = far.prepare(&request).expect("a queue pair");
    let refused = far
        .manager
        .accept(request, &second, &much)
        .expect_err("too much");
    assert!(matches!(refused.cause, Cause::PrivateData));
    assert!(
        failed::<D>(near.event(), &first).0,
        "what can't be accepted is rejected"
    );
}

pub(super) fn a_rejection_is_told_with_its_data<D: Device>(bed: &TestBed<D>) {
    // rfc: 5044-7.1.2-e, 5044-7.1.2-m, 5044-7.1.2-n
    let (mut near, mut far, to) = hosts(bed);
    for size in [0, 1, MAX_PRIVATE_DATA] {
        let first = near.connect(to, &[]).expect("it begins");
        let (request, _) = far.requested_by(&mut near);
        far.manager.reject(request, &pattern(size));
        let (rejected, said) = failed::<D>(near.event(), &first);
        assert!(rejected && is_padded(&said, &pattern(size)), "{size} bytes");
    }
}

pub(super) fn a_dropped_request_is_a_rejection<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far, to) = hosts(bed);
    let first = near.connect(to, &[]).expect("it begins");
    drop(far.requested_by(&mut near));
    assert!(failed::<D>(near.event(), &first).0);
    // A request that was not polled is rejected when its manager is dropped.
    let second = near.connect(to, &[]).expect("it begins");
    drop(far.requested_by(&mut near));
    drop(far);
    assert!(failed::<D>(near.event(), &second).0);
}

pub(super) fn nobody_listens<D: Device>(bed: &TestBed<D>) {
    let (mut near, far, to) = hosts(bed);
    drop(far);
    // The answer may arrive at once, or later.
    match near.connect(to, &[]) {
        Ok(pair) => assert!(
            !failed::<D>(near.event(), &pair).0,
            "there is nobody who could have rejected it"
        ),
        Err(error) => assert!(matches!(error.cause, Cause::Unreachable(_)), "{error}"),
    }
}

pub(super) fn an_address_is_taken_once<D: Device>(bed: &TestBed<D>) {
    let (_near, far, to) = hosts(bed);
    let mut other = Host::new(&bed.third, 64);
    let refused = other.manager.listen(to).expect_err("it is taken");
    assert!(
        matches!(refused.cause, Cause::AddressInUse(address) if address == to),
        "{refused}"
    );
    let free = other.manager.listen(bed.address).expect("any other");
    assert_ne!(free, to);
    drop(far);
    assert_eq!(other.manager.listen(to).expect("it is free again"), to);
}

/// A closed listener accepts nothing, its connections stay, and its address is free.
pub(super) fn who_listens_no_more_is_not_found<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far) = (Host::new(&bed.near, 16), Host::new(&bed.far, 16));
    let to = far.manager.listen(bed.address).expect("it listens");
    let (first, second) = connect_hosts(&mut near, &mut far, to);
    far.manager.unlisten(to);
    let pair = near.connect(to, &[]).expect("it begins");
    match near.event() {
        ConnectionEvent::Failed { queue_pair, .. } => assert_eq!(queue_pair, pair.number()),
        _ => panic!("nothing listens"),
    }
    let (mut near, mut far) = (TestEnd::new(first, near), TestEnd::new(second, far));
    far.receives(1, 64);
    near.send(b"still there");
    assert_eq!(*far.message().expect("it arrives").0, *b"still there");
    assert_eq!(far.host.manager.listen(to).expect("it is free"), to);
}

pub(super) fn a_request_is_prepared_once<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far, to) = hosts(bed);
    let first = near.connect(to, &[]).expect("it begins");
    let (request, _) = far.requested_by(&mut near);
    let second = far.prepare(&request).expect("a queue pair");
    assert!(matches!(
        far.prepare(&request).expect_err("it has one").cause,
        Cause::State
    ));
    far.manager
        .accept(request, &second, &[])
        .expect("it is accepted");
    established::<D>(near.event(), &first);
}

pub(super) fn a_request_is_accepted_by_another_manager<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far, to) = hosts(bed);
    let mut other = Host::new(&bed.far, 64);
    let first = near.connect(to, b"there").expect("it begins");
    let (request, _) = far.requested_by(&mut near);
    let second = other.prepare(&request).expect("a queue pair");
    let mut second = TestEnd::new(second, other);
    second.receives(1, 64);
    let accepted = second
        .host
        .manager
        .accept(request, second.endpoint.pair(), b"back");
    accepted.expect("it is accepted");
    established::<D>(second.host.event_by(&mut near), second.endpoint.pair());
    let said = established::<D>(near.event(), &first);
    assert!(is_padded(&said, b"back"));
    // Its listener may be gone, and the connection stays.
    drop(far);
    let mut first = TestEnd::new(first, near);
    first.send(b"still there");
    assert_eq!(*second.message().expect("it arrives").0, *b"still there");
    first.endpoint.pair().disconnect();
    second.wait_for_end();
}

pub(super) fn a_request_is_accepted_with_its_own_queue_pair<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far, to) = hosts(bed);
    let first = near.connect(to, &[]).expect("it begins");
    let (one, _) = far.requested_by(&mut near);
    let another = near.connect(to, &[]).expect("it begins");
    let (other, _) = far.requested_by(&mut near);
    let _mine = far.prepare(&one).expect("a queue pair");
    let foreign = far.prepare(&other).expect("a queue pair");
    assert!(far.manager.accept(one, &foreign, &[]).is_err());
    assert!(failed::<D>(near.event(), &first).0);
    far.manager.accept(other, &foreign, &[]).expect("its own");
    established::<D>(near.event(), &another);
}

pub(super) fn what_the_acceptor_gives_up_is_rejected<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far, to) = hosts(bed);
    for disconnects in [false, true] {
        let first = near.connect(to, &[]).expect("it begins");
        let (request, _) = far.requested_by(&mut near);
        let second = far.prepare(&request).expect("a queue pair");
        if disconnects {
            second.disconnect();
        }
        drop(second);
        assert!(near.poll().is_none(), "the request can still be answered");
        drop(request);
        assert!(failed::<D>(near.event(), &first).0);
    }
}

pub(super) fn what_the_initiator_gives_up_is_not_accepted<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far, to) = hosts(bed);
    for prepares_first in [false, true] {
        let first = near.connect(to, &[]).expect("it begins");
        let (request, _) = far.requested_by(&mut near);
        let early = prepares_first.then(|| far.prepare(&request).expect("a queue pair"));
        drop(first);
        let Some(second) = early.or_else(|| far.prepare(&request).ok()) else {
            continue;
        };
        // The failure is reported at once, or as a disconnection: the event may still be in flight.
        if far.manager.accept(request, &second, &[]).is_ok() {
            until("its end", || {
                near.advance();
                far.poll().filter(|event| {
                    matches!(
                        event,
                        ConnectionEvent::Disconnected { .. } | ConnectionEvent::Failed { .. }
                    )
                })
            });
        }
    }
}

pub(super) fn work_waits_for_the_connection<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far, to) = hosts(bed);
    let pair = near.connect(to, &[]).expect("it begins");
    let mut first = TestEnd::new(pair, near);
    first.receives(4, 1024);
    let part = super::fixture::whole_range(first.host.buf(b"early"));
    let refused = first.push(
        Operation::Send { invalidate: None },
        std::slice::from_ref(&part),
        true,
    );
    assert!(matches!(
        first.endpoint.post().expect_err("not connected").cause,
        Cause::State
    ));
    let (request, _) = far.requested_by(&mut first.host);
    let pair = far.prepare(&request).expect("a queue pair");
    let mut second = TestEnd::new(pair, far);
    second.receives(4, 1024);
    second
        .host
        .manager
        .accept(request, second.endpoint.pair(), &[])
        .expect("it is accepted");
    established::<D>(first.host.event(), first.endpoint.pair());
    let sent = first.request(Operation::Send { invalidate: None }, &[part]);
    assert_eq!(*second.message().expect("it arrives").0, *b"early");
    assert_eq!(first.wait_for(sent), Status::Success);
    assert_eq!(
        first.endpoint.close().collect::<Vec<_>>(),
        [refused],
        "what was given up ends with the queue pair"
    );
}

pub(super) fn both_ends_are_told_of_the_end<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-7.1-a, 5041-3-j, 5041-3-k, 5041-6.2-a, 5041-6.2-b, 5041-7-a, 5044-7.2-a
    for by_drop in [false, true] {
        let mut both = connected(bed);
        if by_drop {
            drop(both.near);
        } else {
            both.near.endpoint.pair().disconnect();
            both.near.wait_for_end();
        }
        both.far.wait_for_end();
    }
}

pub(super) fn more_reads_than_the_device_has_are_refused<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-5.2.2-c, 5040-6.1-b, 5040-6.1-c, 5040-8.1.1-m
    let (mut near, _far, to) = hosts(bed);
    let config = QueuePairConfig {
        reads: bed.near.capabilities().max_reads + 1,
        ..CONFIG
    };
    let queues = crate::provider::Queues {
        completions: &near.completions,
        receives: None,
    };
    assert!(near.manager.connect(to, &config, queues, &[]).is_err());
}
