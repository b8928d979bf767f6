//! Messages, receives, and their queues.

use super::TestBed;
use super::fixture::{
    CONFIG, ConnectedEnds, Host, TestEnd, TestEvent, connected, connected_with_retries, is_refused,
    pattern, until, whole_range,
};
use crate::provider::{
    Cause, CompletionQueue as _, ConnectionEvent, ConnectionManager as _, Device, Operation,
    QueuePair as _, Queues, Status,
};
use crate::queue::{BufRange, MAX_SGE, SharedReceiveQueue};

const SEND: Operation = Operation::Send { invalidate: None };

pub(super) fn messages_of_all_sizes_arrive<D: Device>(bed: &TestBed<D>) {
    let mut both = connected(bed);
    for size in [
        0, 1, 2, 3, 4, 5, 63, 64, 1023, 1024, 1025, 4095, 4096, 65_535, 65_536,
    ] {
        both.far.receives(1, 1 << 16);
        let sent = both.near.send(&pattern(size));
        let (message, invalidated) = both.far.message().expect("it arrives");
        assert_eq!(
            (&*message, invalidated),
            (&*pattern(size), None),
            "{size} bytes"
        );
        assert_eq!(both.near.wait_for(sent), Status::Success);
    }
}

pub(super) fn parts_are_gathered<D: Device>(bed: &TestBed<D>) {
    let mut both = connected(bed);
    let most = bed.near.capabilities().max_sge.min(MAX_SGE);
    for count in 1..=most {
        both.far.receives(1, 4096);
        let all = pattern(count * 37);
        let parts: Vec<BufRange> = all
            .chunks(37)
            .map(|chunk| whole_range(both.near.host.buf(chunk)))
            .collect();
        let sent = both.near.request(SEND, &parts);
        assert_eq!(
            *both.far.message().expect("it arrives").0,
            *all,
            "{count} parts"
        );
        assert_eq!(both.near.wait_for(sent), Status::Success);
    }
    // Parts of one buffer in another order.
    both.far.receives(1, 4096);
    let buf = whole_range(both.near.host.buf(b"worldhello ")).buf;
    let part = |from, length| BufRange {
        buf: buf.clone(),
        offset: from,
        length,
    };
    let parts = if most < 2 {
        vec![part(0, 5)]
    } else {
        vec![part(5, 6), part(0, 5)]
    };
    both.near.request(SEND, &parts);
    let message = both.far.message().expect("it arrives").0;
    assert_eq!(
        &*message,
        if most < 2 {
            b"world".as_slice()
        } else {
            b"hello world"
        }
    );
}

pub(super) fn more_slices_than_the_device_takes_are_refused<D: Device>(bed: &TestBed<D>) {
    let most = bed.near.capabilities().max_sge;
    if most >= MAX_SGE {
        return;
    }
    let mut both = connected(bed);
    let part = whole_range(both.near.host.buf(b"one"));
    both.near.push(SEND, &vec![part; most + 1], true);
    assert!(both.near.endpoint.post().is_err());
}

pub(super) fn messages_keep_their_order<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-5.3-e, 5040-5.3-h, 5040-5.5-e, 5040-5.5-i, 5040-5.5-l, 5041-5.3-b
    let mut both = connected(bed);
    both.far.receives(64, 1024);
    for number in 0..64u8 {
        let part = whole_range(both.near.host.buf(&[number]));
        both.near.push(SEND, &[part], true);
    }
    both.near.post();
    for number in 0..64u8 {
        assert_eq!(*both.far.message().expect("it arrives").0, [number]);
    }
    for number in 1..=64 {
        assert!(
            matches!(both.near.next(), TestEvent::Request(of, Status::Success) if of == number)
        );
    }
}

pub(super) fn receives_may_be_larger<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-5.3-d
    let mut both = connected(bed);
    both.far.receives(2, 4096);
    both.near.send(b"short");
    both.near.send(&pattern(4096));
    let message = both.far.message().expect("it arrives").0;
    assert_eq!((message.len(), message.capacity()), (5, 4096));
    assert_eq!(both.far.message().expect("it fits").0.len(), 4096);
}

pub(super) fn requests_without_completions_end_with_a_later_one<D: Device>(bed: &TestBed<D>) {
    // rfc: 5040-5.5-j
    let mut both = connected(bed);
    both.far.receives(10, 1024);
    for number in 1..=10u8 {
        let part = whole_range(both.near.host.buf(&[number]));
        both.near.push(SEND, &[part], number == 10);
    }
    both.near.post();
    for _ in 0..10 {
        both.far.message().expect("it arrives");
    }
    let mut taken = Vec::new();
    until("the one completion", || {
        both.near
            .host
            .completions
            .poll(&mut taken, 16)
            .expect("no overrun");
        (!taken.is_empty()).then_some(())
    });
    assert_eq!(taken.len(), 1, "only the last has one");
    both.near.complete(&taken[0]);
    assert_eq!(
        (both.near.events.len(), both.near.endpoint.in_flight()),
        (10, 0)
    );
}

/// A message has the bytes at the time of its completion. Later changes of its memory have no
/// effect.
pub(super) fn memory_is_free_when_its_request_is_done<D: Device>(bed: &TestBed<D>) {
    const SIZE: u32 = 1 << 16;
    let mut both = connected(bed);
    both.far.receives(17, SIZE);
    let sent: Vec<BufRange> = (0..16u8)
        .map(|number| whole_range(both.near.host.buf(&[number; SIZE as usize])))
        .collect();
    for part in &sent {
        both.near.push(SEND, std::slice::from_ref(part), false);
    }
    let last = whole_range(both.near.host.buf(b"last"));
    let last = both.near.request(SEND, &[last]);
    assert_eq!(both.near.wait_for(last), Status::Success);
    let free = |part: BufRange| part.buf.into_buf().expect("nothing uses it any more");
    let mut bufs: Vec<_> = sent.into_iter().map(free).collect();
    bufs.iter_mut().for_each(|buf| buf.as_full_mut().fill(0xff));
    for number in 0..16 {
        assert!(
            both.far
                .message()
                .expect("it arrives")
                .0
                .iter()
                .all(|byte| *byte == number),
            "message {number}"
        );
    }
}

/// The next batch reuses the memory of inline messages, long before the peer has a receive.
pub(super) fn messages_go_along_as_they_were<D: Device>(bed: &TestBed<D>) {
    let most = bed.near.capabilities().max_inline as usize;
    let mut both = connected(bed);
    both.far.receives(64, 1024);
    let size = |number: usize| (1 + number * 37 % most.max(1)).min(1024);
    for number in (0..63).filter(|_| most > 0) {
        both.near.push_inline(&pattern(size(number)), false);
        if number % 3 == 0 {
            both.near.post();
        }
    }
    let part = whole_range(both.near.host.buf(b"last"));
    let last = both.near.request(SEND, &[part]);
    for number in (0..63).filter(|_| most > 0) {
        assert_eq!(
            *both.far.message().expect("it arrives").0,
            *pattern(size(number)),
            "message {number}"
        );
    }
    assert_eq!(*both.far.message().expect("it arrives").0, *b"last");
    assert_eq!(both.near.wait_for(last), Status::Success);
    assert_eq!(
        (both.near.events.len(), both.near.endpoint.in_flight()),
        (0, 0),
        "nobody waits for the others"
    );
}

pub(super) fn more_than_the_device_takes_along_is_refused<D: Device>(bed: &TestBed<D>) {
    let most = bed.near.capabilities().max_inline as usize;
    let mut both = connected(bed);
    both.far.receives(1, 4096);
    both.near.push_inline(&pattern(most + 1), true);
    let error = both.near.endpoint.post().expect_err("it is too long");
    assert!(matches!(error.cause, Cause::Limit), "{error}");
    assert_eq!(both.near.endpoint.in_flight(), 0);
    both.near.send(b"another");
    assert_eq!(*both.far.message().expect("it still works").0, *b"another");
}

pub(super) fn a_send_queue_is_full_until_completions_are_polled<D: Device>(bed: &TestBed<D>) {
    let mut both = connected(bed);
    let message = whole_range(both.near.host.buf(b"message"));
    let mut refused = 0;
    // A device may have more entries than requested.
    for _ in 0..8 * CONFIG.sends {
        both.far
            .endpoint
            .push_receive(both.far.host.pool.take(1024).expect("memory"));
        if both.far.endpoint.post().is_err() {
            break;
        }
        both.near.push(SEND, std::slice::from_ref(&message), true);
        if let Err(error) = both.near.endpoint.post() {
            assert!(matches!(error.cause, Cause::Full), "{error}");
            refused += 1;
            break;
        }
        both.far
            .message()
            .expect("it arrives: it was done, though nobody has polled its completion");
    }
    assert_eq!(refused, 1, "it never was full");
    assert!(both.near.endpoint.in_flight() >= CONFIG.sends as usize);
    while both.near.endpoint.in_flight() > 0 {
        assert!(matches!(
            both.near.next(),
            TestEvent::Request(_, Status::Success)
        ));
    }
    let sent = both.near.request(SEND, &[message]);
    assert_eq!(
        both.near.wait_for(sent),
        Status::Success,
        "there is room again"
    );
}

pub(super) fn a_receive_queue_is_full<D: Device>(bed: &TestBed<D>) {
    let mut both = connected(bed);
    let mut posted = 0;
    let refused = until("the receive queue to be full", || {
        posted += 1;
        both.far
            .endpoint
            .push_receive(both.far.host.pool.take(1024).expect("memory"));
        both.far.endpoint.post().err()
    });
    assert!(matches!(refused.cause, Cause::Full), "{refused}");
    assert!(posted > CONFIG.receives);
    both.near.send(b"message");
    assert_eq!(
        *both.far.message().expect("the queue still works").0,
        *b"message"
    );
    both.far.receives(1, 1024);
}

pub(super) fn shared_receives_serve_several_queue_pairs<D: Device>(bed: &TestBed<D>) {
    let mut far = Host::new(&bed.far, 256);
    let to = far.manager.listen(bed.address).expect("it listens");
    let mut shared: SharedReceiveQueue<D> =
        SharedReceiveQueue::new(bed.far.shared_receives(8).expect("a shared queue"));
    let mut ends = Vec::new();
    for _ in 0..3 {
        let mut near = Host::new(&bed.near, 64);
        let first = near.connect(to, &[]).expect("it begins");
        let (request, _) = far.requested_by(&mut near);
        let queues = Queues {
            completions: &far.completions,
            receives: Some(shared.queue()),
        };
        let second = far
            .manager
            .prepare(&request, &CONFIG, queues)
            .expect("a queue pair");
        far.manager
            .accept(request, &second, &[])
            .expect("it is accepted");
        assert!(matches!(
            far.event_by(&mut near),
            ConnectionEvent::Established { .. }
        ));
        assert!(matches!(near.event(), ConnectionEvent::Established { .. }));
        ends.push((TestEnd::new(first, near), second));
    }
    for _ in 0..8 {
        shared.post([far.buf(&[0; 1024])]).expect("there is room");
    }
    assert!(shared.post([far.buf(&[0; 1024])]).is_err(), "it is full");
    let arrived = |shared: &mut SharedReceiveQueue<D>| {
        let mut taken = Vec::new();
        until("a message", || {
            far.completions.poll(&mut taken, 1).expect("no overrun");
            taken
                .first()
                .filter(|completion| completion.status == Status::Success)
                .copied()
        });
        (
            taken[0].queue_pair,
            shared
                .complete(&taken[0])
                .expect("it was posted")
                .first
                .to_vec(),
        )
    };
    for (number, (near, pair)) in ends.iter_mut().enumerate() {
        near.send(&pattern(number + 1));
        assert_eq!(arrived(&mut shared), (pair.number(), pattern(number + 1)));
    }
    // The end of one queue pair leaves the shared receives to the others.
    let (gone, _) = ends.swap_remove(0);
    drop(gone);
    for (near, pair) in &mut ends {
        near.send(b"still there");
        assert_eq!(
            arrived(&mut shared),
            (pair.number(), b"still there".to_vec())
        );
    }
    // All are used before their memory is freed.
    for _ in 0..3 {
        ends[0].0.send(b"last");
        arrived(&mut shared);
    }
    let many = ends[0].0.send(b"one too many");
    assert!(is_refused(
        &bed.near,
        ends[0].0.wait_for(many),
        Status::ReceiverNotReady
    ));
    let last = ends[0].1.number();
    until("the news of it", || {
        // A provider without a thread makes progress when it is polled.
        let _ = far.completions.poll(&mut Vec::new(), 16);
        let ended = |event: &_| matches!(event, ConnectionEvent::Disconnected { queue_pair } if *queue_pair == last);
        far.poll().filter(ended)
    });
}

pub(super) fn a_message_waits_for_a_receive<D: Device>(bed: &TestBed<D>) {
    // rfc: 5041-7.1-b, 5041-7.1-c, 5041-7.1-d
    let ConnectedEnds { mut near, mut far } = connected_with_retries(bed);
    for back in [false, true] {
        let (from, to) = if back {
            (&mut far, &mut near)
        } else {
            (&mut near, &mut far)
        };
        let sent = from.send(b"early");
        for _ in 0..1000 {
            from.turn();
            to.turn();
        }
        let is_sent = !from.host.device.capabilities().acknowledges;
        assert!(is_sent || from.events.is_empty(), "it waits");
        assert!(to.events.is_empty(), "it waits");
        to.receives(1, 1024);
        assert_eq!(*to.message().expect("it arrives").0, *b"early");
        assert_eq!(from.wait_for(sent), Status::Success);
        if from.host.device.capabilities().max_inline < 16 {
            continue;
        }
        from.push_inline(b"goes along", false);
        from.post();
        let sent = from.push_inline(b"and another", true);
        from.post();
        to.receives(2, 1024);
        assert_eq!(*to.message().expect("it arrives").0, *b"goes along");
        assert_eq!(*to.message().expect("it arrives").0, *b"and another");
        assert_eq!(from.wait_for(sent), Status::Success);
    }
}

pub(super) fn memory_of_another_device_is_refused<D: Device>(bed: &TestBed<D>) {
    let third = Host::new(&bed.third, 16);
    let ConnectedEnds { mut near, mut far } = connected(bed);
    far.receives(4, 1024);
    // Keys of two devices may coincide: choose one that does not.
    let mut ours = near.host.pool.take(1024).expect("memory");
    ours.set_len(1024);
    let ours = whole_range(ours);
    let foreign = until("a key that is not ours", || {
        let part = whole_range(Host::new(&bed.third, 16).buf(b"foreign"));
        let key = |part: &BufRange| part.buf.slice(0, 1).map(|slice| slice.key);
        (key(&part) != key(&ours)).then_some(part)
    });
    let sent = near.request(SEND, &[foreign]);
    // Soft-RoCE of Linux 6.12 reports it as flushed, like the requests after it.
    assert!(matches!(
        near.wait_for(sent),
        Status::LocalProtection | Status::Flushed
    ));
    near.wait_for_end();
    far.wait_for_end();
    drop(third);
}
