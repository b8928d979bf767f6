//! Queue pairs of iWARP over TCP take turns: none keeps a poll to itself, or wakes more than
//! needed.
#![cfg(feature = "iwarp")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "memory is registered and posted by its address")]

mod support;

use std::io::Read as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rpcrdma_iwarp::OutgoingKind;
use rpcrdma_verbs::provider::iwarp::{IwarpDevice, IwarpSharedReceives};
use rpcrdma_verbs::provider::{
    CompletionQueue as _, Device as _, MemoryRegion as _, QueuePair as _, Receive, Sge,
    SharedReceives as _, Status,
};
use support::{Acceptor, registered, until};

/// A peer that reads as fast as this end sends does not keep the thread that polls.
#[test]
fn one_poll_sends_a_part_of_the_responses() {
    const LENGTH: u32 = 8 << 20;
    const READS: usize = 64;
    const TOTAL: usize = LENGTH as usize * READS;
    let device = IwarpDevice::default();
    let (region, address) = registered(&device, LENGTH as usize);
    let mut acceptor = Acceptor::new(&device);
    let (_pair, mut peer) = acceptor.connection(None);
    for _ in 0..READS {
        let source = (region.remote_key(), address);
        assert!(peer.stream.push_read(1, LENGTH, source));
    }
    peer.flush_except(0);
    let received = AtomicUsize::new(0);
    let most = thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 20];
            while received.load(Ordering::Relaxed) < TOTAL {
                let count = peer.socket.read(&mut buffer).unwrap();
                assert_ne!(count, 0, "the connection has ended");
                received.fetch_add(count, Ordering::Relaxed);
            }
        });
        let mut most = 0;
        until("the responses", || {
            let before = received.load(Ordering::Relaxed);
            acceptor.completions.poll(&mut Vec::new(), 16).unwrap();
            let after = received.load(Ordering::Relaxed);
            most = most.max(after - before);
            (after >= TOTAL).then_some(most)
        })
    });
    // It sends 4 MiB, and some are in the buffers of the sockets before.
    assert!(most < 64 << 20, "{most} bytes in one poll");
}

/// Posts the receive 5.
fn post(shared: &IwarpSharedReceives, address: u64, key: u32) {
    let receive = Receive {
        id: 5,
        slices: (0, 1),
    };
    let slice = Sge {
        address,
        length: 64,
        key,
    };
    // SAFETY: the memory is never freed, and nothing else uses it.
    unsafe { shared.post(&[receive], &[slice]) }.unwrap();
}

/// A receive that a queue pair was to take goes to the next one if it ends.
#[test]
fn a_receive_goes_to_the_next_that_waits() {
    let device = IwarpDevice::default();
    let (region, address) = registered(&device, 64);
    let shared = device.shared_receives(4).unwrap();
    let mut acceptor = Acceptor::new(&device);
    let (first, mut first_peer) = acceptor.connection(Some(&shared));
    let (second, mut second_peer) = acceptor.connection(Some(&shared));
    let mut done = Vec::new();
    for peer in [&mut first_peer, &mut second_peer] {
        peer.send_except(0, b"early");
        for _ in 0..1000 {
            acceptor.completions.poll(&mut done, 16).unwrap();
            thread::yield_now();
        }
    }
    assert!(done.is_empty(), "both wait");
    post(&shared, address, region.local_key());
    assert!(first.end());
    until("the message", || {
        acceptor.completions.poll(&mut done, 16).unwrap();
        done.first().map(|_| ())
    });
    assert_eq!((done[0].id, done[0].queue_pair), (5, second.number()));
}

/// The end of a queue pair does not lose the receive of a message that has arrived in part.
#[test]
fn a_receive_in_use_returns_at_the_end() {
    let device = IwarpDevice::default();
    let (region, address) = registered(&device, 64);
    let shared = device.shared_receives(4).unwrap();
    let mut acceptor = Acceptor::new(&device);
    let (pair, mut peer) = acceptor.connection(Some(&shared));
    post(&shared, address, region.local_key());
    peer.send_except(4, b"without its CRC");
    let mut done = Vec::new();
    for _ in 0..1000 {
        acceptor.completions.poll(&mut done, 16).unwrap();
        thread::yield_now();
    }
    assert!(done.is_empty() && pair.end());
    acceptor.completions.poll(&mut done, 16).unwrap();
    let done = done.iter().map(|done| (done.id, done.status));
    assert_eq!(done.collect::<Vec<_>>(), [(5, Status::Flushed)]);
}

/// Payload that was received directly does not make short messages cost a system call each.
#[test]
fn one_poll_takes_many_requests_behind_bulk_payload() {
    const READS: usize = 64;
    /// An FPDU with a tagged header and no payload.
    const RESPONSE: usize = 20;
    let device = IwarpDevice::default();
    let (region, offset) = registered(&device, 8192);
    let mut acceptor = Acceptor::new(&device);
    let (_pair, mut peer) = acceptor.connection(None);
    let stag = region.remote_key();
    let kind = OutgoingKind::Write { stag, offset };
    assert!(peer.stream.framer().push_copied(kind, &[&[8; 8192]]));
    peer.flush_except(0);
    acceptor.poll();
    for _ in 0..READS {
        assert!(peer.stream.push_read(1, 0, (0, 0)));
    }
    peer.flush_except(0);
    peer.socket.set_nonblocking(true).unwrap();
    let received = until("responses", || {
        acceptor.completions.poll(&mut Vec::new(), 16).unwrap();
        peer.socket.read(&mut vec![0; 2 * READS * RESPONSE]).ok()
    });
    assert_eq!(received, READS * RESPONSE);
}
