//! What an incoming message of iWARP over TCP allocates.
#![cfg(feature = "iwarp")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "memory is registered and posted by its address")]

mod support;

use rpcrdma_verbs::provider::iwarp::{IwarpDevice, IwarpQueuePair};
use rpcrdma_verbs::provider::{
    Completion, CompletionQueue as _, MemoryRegion as _, QueuePair as _, Receive, Sge,
};
use support::{Acceptor, registered, until};

const LENGTH: u32 = 4000;

/// Posts a receive in four parts.
fn post(pair: &IwarpQueuePair, address: u64, key: u32) {
    let slices = [0, 1, 2, 3].map(|part| Sge {
        address: address + part * u64::from(LENGTH / 4),
        length: LENGTH / 4,
        key,
    });
    let receive = Receive {
        id: 1,
        slices: (0, 4),
    };
    // SAFETY: the memory is never freed, and nothing else uses it.
    unsafe { pair.post_receives(&[receive], &slices) }.unwrap();
}

#[test]
fn segments_do_not_allocate() {
    let device = IwarpDevice::default();
    let (region, address) = registered(&device, LENGTH as usize);
    let mut acceptor = Acceptor::new(&device);
    let (pair, mut peer) = acceptor.connection(None);
    peer.stream.framer().set_emss(128);
    let mut done: Vec<Completion> = Vec::with_capacity(16);
    for is_warm in [false, true] {
        post(&pair, address, region.local_key());
        peer.send_segments(&[9; LENGTH as usize]);
        let counted = allocation_counter::measure(|| {
            until("the message", || {
                acceptor.completions.poll(&mut done, 16).unwrap();
                done.pop()
            });
        });
        // There are about forty segments. A queue of completions and a timer may grow.
        assert!(!is_warm || counted.count_total < 8, "{counted:?}");
    }
}
