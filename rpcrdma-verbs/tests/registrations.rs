//! Registrations for RDMA Reads on iWARP, and leaks if a device does not release memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

mod endpoints;

use std::time::{Duration, Instant};

use endpoints::{NULL, READ, WRITE, World, block, call, sum};
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::client::ClientEvent;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::provider::{Capabilities, Device};

const BYTES: u32 = 100_000;
/// The timeout of a call: a client waits before it connects again.
const PATIENCE: Duration = Duration::from_secs(20);

/// Creates both ends on devices like iWARP's.
fn world(highest: Version) -> World {
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
    World::on(
        fabric,
        devices,
        Config {
            max_version: highest,
            ..Config::client()
        },
        Config::server(),
    )
}

/// Calls WRITE, without waiting for the reply.
fn begin(world: &mut World) {
    let mut item = world.near.pool().take(BYTES).unwrap();
    item.extend_from_slice(&block()[..BYTES as usize]);
    world
        .client
        .call(&mut world.near, call(WRITE, 4), |writer| {
            writer.item(item).map(|_| ())
        })
        .unwrap();
}

/// Turns both ends until the call has ended. Returns its results, or `None` if it has failed.
fn end(world: &mut World) -> Option<Vec<u8>> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        world.turn();
        while let Some(event) = world.client.event(&mut world.near) {
            match event {
                ClientEvent::Answered { answer, .. } => return Some(answer.results().to_vec()),
                ClientEvent::Failed { .. } => return None,
                _ => {}
            }
        }
    }
    panic!("the call does not end");
}

// spec: rfc8166-8.1-a
#[test]
fn each_sink_is_registered_for_itself() {
    for highest in [Version::One, Version::Two] {
        let mut world = world(highest);
        for _ in 0..10 {
            begin(&mut world);
            assert_eq!(
                end(&mut world).unwrap(),
                sum([&block()[..BYTES as usize]]).to_be_bytes()
            );
        }
        let far = world.server.connections()[0];
        let counters = world.far.counters(far).unwrap();
        assert_eq!((counters.reads, counters.sinks), (10, 10));
    }
}

/// Memory that the device does not release is not used again, and the call is not served with it.
#[test]
fn a_sink_that_the_device_keeps_is_leaked() {
    let mut world = world(Version::Two);
    world
        .client
        .call(&mut world.near, call(NULL, 0), |_| Ok(()))
        .unwrap();
    assert_eq!(end(&mut world), Some(Vec::new()));
    let served = world.server.service().served;
    let device = world.far.device().clone();
    device.refuse_ends(true);
    begin(&mut world);
    let leaked = |world: &World| world.budgets[1].leaked();
    for _ in 0..10_000 {
        world.turn();
        if leaked(&world) > 0 {
            break;
        }
    }
    device.refuse_ends(false);
    let lost = leaked(&world);
    assert!(lost >= BYTES as usize, "{lost} bytes are leaked");
    assert_eq!(
        world.server.service().served,
        served,
        "the call is not served with memory that the device keeps"
    );
    // The call succeeds over the next connection.
    assert_eq!(
        end(&mut world).unwrap(),
        sum([&block()[..BYTES as usize]]).to_be_bytes()
    );
    assert_eq!(leaked(&world), lost);
    let budget = world.budgets[1].clone();
    drop(world);
    assert!(budget.used() >= lost, "what is leaked stays used");
}

/// A result that the device may still write is not returned: the call fails, and other results do
/// not take its place.
#[test]
fn a_result_that_the_device_keeps_fails_its_call() {
    let mut world = world(Version::Two);
    world
        .client
        .call(&mut world.near, call(NULL, 0), |_| Ok(()))
        .unwrap();
    assert_eq!(end(&mut world), Some(Vec::new()));
    let mut read = call(READ, BYTES + 8);
    read.results.push(world.near.pool().take(BYTES).unwrap());
    world
        .client
        .call(&mut world.near, read, |writer| {
            writer.put(&BYTES).map(|_| ())
        })
        .unwrap();
    world.near.device().refuse_ends(true);
    assert_eq!(end(&mut world), None);
    world.near.device().refuse_ends(false);
    assert!(world.budgets[0].leaked() >= BYTES as usize);
    // The next call has its own memory.
    begin(&mut world);
    assert!(end(&mut world).is_some());
}

/// Posted and exposed memory is leaked if the device does not release the queue pair.
#[test]
fn what_a_queue_pair_has_is_leaked_with_it() {
    let mut world = World::new(Config::client(), Config::server());
    world
        .client
        .call(&mut world.near, call(NULL, 0), |_| Ok(()))
        .unwrap();
    assert_eq!(end(&mut world), Some(Vec::new()));
    let mut read = call(READ, BYTES + 8);
    read.results.push(world.near.pool().take(BYTES).unwrap());
    world
        .client
        .call(&mut world.near, read, |writer| {
            writer.put(&BYTES).map(|_| ())
        })
        .unwrap();
    // It is exposed and sent, but not answered.
    world.near.turn().unwrap();
    let device = world.near.device().clone();
    device.refuse_ends(true);
    let far = world.server.connections()[0];
    world.server.cut(&mut world.far, far);
    world.near.turn().unwrap();
    device.refuse_ends(false);
    let leaked = world.budgets[0].leaked();
    let receives = 4096;
    assert!(
        leaked >= BYTES as usize + receives,
        "{leaked} bytes are leaked"
    );
    let budget = world.budgets[0].clone();
    drop(world);
    assert!(budget.used() >= leaked, "what is leaked stays used");
}
