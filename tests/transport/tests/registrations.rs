//! Registrations for RDMA Reads on iWARP, and leaks if a device does not release memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

use std::time::{Duration, Instant};

use oncrpc::{Method, PendingCall};
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::version::Version;
use rpcrdma_transport_tests::block::bytes;
use rpcrdma_transport_tests::ends::Ends;
use rpcrdma_verbs::LocalEvent;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::provider::{Capabilities, Device};

const COUNT: u32 = 100_000;
/// The timeout of a call: a client waits before it connects again.
const PATIENCE: Duration = Duration::from_secs(20);

/// Creates both ends on devices with iWARP's restrictions.
fn ends(highest: Version) -> Ends {
    let fabric = Fabric::new();
    let device = || {
        let capabilities = fabric.device().capabilities().clone();
        fabric.device_with(Capabilities {
            windows: false,
            max_sge: 6,
            max_read_sge: 1,
            read_sink_needs_remote_write: true,
            rnr_retry: false,
            acknowledges: false,
            ..capabilities
        })
    };
    let devices = [device(), device()];
    let client = Config {
        max_version: highest,
        ..Config::client()
    };
    Ends::on(devices, client, Config::server())
}

fn block() -> &'static [u8] {
    &bytes()[..COUNT as usize]
}

/// Turns both ends until a call has ended. Returns true if it was answered.
fn is_answered<P: Method>(ends: &mut Ends, call: &PendingCall<P>) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        ends.turn();
        while let Some(event) = ends.event() {
            if let LocalEvent::Completed(completed) = event {
                let result = ends.client.transport().read(call, &completed, |_| ());
                return result.expect("its end").is_ok();
            }
        }
    }
    panic!("the call does not end");
}

// spec: rfc8166-8.1-a
#[test]
fn each_sink_is_registered_separately() {
    for highest in [Version::One, Version::Two] {
        let mut ends = ends(highest);
        for _ in 0..10 {
            ends.write(block());
        }
        let [_, far] = ends.counters();
        assert_eq!((far.reads, far.sinks), (10, 10));
    }
}

/// Memory that the device does not release is not reused, and the call is not served with it.
#[test]
fn a_sink_kept_by_the_device_is_leaked() {
    let mut ends = ends(Version::Two);
    ends.null();
    let served = ends.block.served();
    let device = ends.far.device().clone();
    device.refuse_ends(true);
    let call = ends.begin_write(block());
    let leaked = |ends: &Ends| ends.budgets[1].leaked();
    for _ in 0..10_000 {
        ends.turn();
        if leaked(&ends) > 0 {
            break;
        }
    }
    device.refuse_ends(false);
    let lost = leaked(&ends);
    assert!(lost >= COUNT as usize, "{lost} bytes are leaked");
    assert_eq!(
        ends.block.served(),
        served,
        "the call is not served with memory that the device keeps"
    );
    // The call succeeds over the next connection.
    assert!(is_answered(&mut ends, &call));
    assert!(ends.block.take_last().unwrap().as_bytes() == block());
    assert_eq!(leaked(&ends), lost);
    let budget = ends.budgets[1].clone();
    drop(ends);
    assert!(budget.used() >= lost, "what is leaked stays used");
}

/// A result that the device may still write is not returned: the call fails, and other results do
/// not take its place.
#[test]
fn a_result_kept_by_the_device_fails_its_call() {
    let mut ends = ends(Version::Two);
    ends.null();
    let call = ends.begin_read(COUNT);
    ends.near.device().refuse_ends(true);
    assert!(!is_answered(&mut ends, &call));
    ends.near.device().refuse_ends(false);
    assert!(ends.budgets[0].leaked() >= COUNT as usize);
    // The next call has its own memory.
    let call = ends.begin_write(block());
    assert!(is_answered(&mut ends, &call));
}

/// Posted and exposed memory is leaked if the device does not release the queue pair.
#[test]
fn memory_of_a_leaked_queue_pair_is_leaked() {
    let mut ends = Ends::new(Config::client(), Config::server());
    ends.null();
    ends.begin_read(COUNT);
    // The call is exposed and sent, but not answered.
    ends.near.turn().unwrap();
    let device = ends.near.device().clone();
    device.refuse_ends(true);
    let far = ends.far_id();
    ends.server.disconnect(&mut ends.far, far);
    ends.near.turn().unwrap();
    device.refuse_ends(false);
    let leaked = ends.budgets[0].leaked();
    let receives = 4096;
    assert!(
        leaked >= COUNT as usize + receives,
        "{leaked} bytes are leaked"
    );
    let budget = ends.budgets[0].clone();
    drop(ends);
    assert!(budget.used() >= leaked, "what is leaked stays used");
}
