//! The cost of an RPC: exact counts of allocations, copies, work requests and completions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

mod endpoints;

use endpoints::{ECHO, NULL, READ, WRITE, World, block, call};
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::client::{CallId, ClientEvent};
use rpcrdma_verbs::driver::ConnectionCounters;
use rpcrdma_verbs::memory::Buf;

/// The number of RPCs until all allocations have grown, and the number that are counted.
const WARM: u32 = 200;
const COUNTED: u32 = 200;

/// Turns both ends alternately, until the call is answered.
fn finish(world: &mut World, call: CallId, check: impl Fn(&[u8])) {
    for _ in 0..100 {
        world.turn();
        while let Some(event) = world.client.event(&mut world.near) {
            if let ClientEvent::Answered {
                call: ended,
                answer,
            } = event
            {
                assert_eq!(ended, call);
                return check(answer.results());
            }
        }
    }
    panic!("nothing happens");
}

fn null(world: &mut World) {
    let id = world
        .client
        .call(&mut world.near, call(NULL, 0), |_| Ok(()))
        .unwrap();
    finish(world, id, |results| assert!(results.is_empty()));
}

fn echo(world: &mut World) {
    let bytes = &block()[..512];
    let id = world
        .client
        .call(&mut world.near, call(ECHO, 512), |writer| {
            writer.bytes(bytes);
            Ok(())
        });
    finish(world, id.unwrap(), |results| assert!(results == bytes));
}

/// A message longer than one Send.
fn long_echo(world: &mut World) {
    let bytes = &block()[..16_384];
    let id = world
        .client
        .call(&mut world.near, call(ECHO, 16_384), |writer| {
            writer.bytes(bytes);
            Ok(())
        });
    finish(world, id.unwrap(), |results| assert!(results == bytes));
}

/// An argument in a buffer of its own, which the server reads.
fn write(bytes: u32) -> impl Fn(&mut World) {
    move |world| {
        let mut item = world.near.pool().take(bytes).unwrap();
        item.set_len(bytes);
        let id = world
            .client
            .call(&mut world.near, call(WRITE, 4), |writer| {
                writer.item(item).map(|_| ())
            })
            .unwrap();
        finish(world, id, |results| assert_eq!(results.len(), 4));
        assert_eq!(
            world.client.take_memory(&mut world.near, id).items[0].len(),
            bytes as usize
        );
    }
}

/// A result that the server writes into the client's buffer.
fn read(bytes: u32) -> impl Fn(&mut World) {
    move |world| {
        let result: Buf = world.near.pool().take(bytes).unwrap();
        let mut call = call(READ, bytes + 8);
        call.results.push(result);
        let id = world
            .client
            .call(&mut world.near, call, |writer| {
                writer.put(&bytes).map(|_| ())
            })
            .unwrap();
        finish(world, id, |results| {
            assert_eq!(results, bytes.to_be_bytes())
        });
        assert_eq!(
            world.client.take_memory(&mut world.near, id).results[0].len(),
            bytes as usize
        );
    }
}

/// Returns the counters of both ends.
fn counters(world: &World) -> [ConnectionCounters; 2] {
    let far = world.server.connections()[0];
    [
        world.near.counters(world.client.id()).unwrap(),
        world.far.counters(far).unwrap(),
    ]
}

/// Returns the allocations of RPCs in the steady state, and their counters.
fn steady(world: &mut World, rpc: impl Fn(&mut World)) -> (u64, [ConnectionCounters; 2]) {
    (0..WARM).for_each(|_| rpc(world));
    let before = counters(world);
    let counted = allocation_counter::measure(|| (0..COUNTED).for_each(|_| rpc(world)));
    let mut after = counters(world);
    for (after, before) in after.iter_mut().zip(before) {
        after.sends -= before.sends;
        after.reads -= before.reads;
        after.writes -= before.writes;
        after.exposures -= before.exposures;
        after.copied -= before.copied;
    }
    (counted.count_total, after)
}

fn worlds() -> impl Iterator<Item = World> {
    [Version::One, Version::Two].into_iter().map(|highest| {
        let client = Config {
            max_version: highest,
            remote_invalidation: true,
            ..Config::client()
        };
        World::new(
            client,
            Config {
                send_with_invalidate: true,
                ..Config::server()
            },
        )
    })
}

#[test]
fn inline_rpcs_allocate_nothing() {
    for mut world in worlds() {
        for (name, rpc) in [("null", null as fn(&mut World)), ("echo", echo)] {
            let (allocations, did) = steady(&mut world, rpc);
            println!("{name}: {allocations} allocations in {COUNTED} RPCs; {did:?}");
            assert_eq!(allocations, 0, "{name}");
            assert_eq!(did.map(|did| did.sends), [u64::from(COUNTED); 2]);
            assert_eq!(
                did.map(|did| did.reads + did.writes + did.exposures),
                [0, 0]
            );
        }
    }
}

#[test]
fn arguments_apart_are_neither_copied_nor_allocated_for() {
    for mut world in worlds() {
        let mut copied = Vec::new();
        for bytes in [20_000, 100_000] {
            let (allocations, did) = steady(&mut world, write(bytes));
            println!(
                "argument of {bytes} bytes: {allocations} allocations in {COUNTED} RPCs; {did:?}"
            );
            assert_eq!(allocations, 0);
            assert_eq!(
                (did[0].exposures, did[1].reads),
                (COUNTED.into(), COUNTED.into())
            );
            copied.push(did.map(|did| did.copied));
        }
        assert_eq!(
            copied[0], copied[1],
            "what is copied does not grow with the argument"
        );
        assert!(copied[0].iter().sum::<u64>() < u64::from(COUNTED) * 256);
    }
}

#[test]
fn results_apart_are_neither_copied_nor_allocated_for() {
    for mut world in worlds() {
        let mut copied = Vec::new();
        for bytes in [20_000, 100_000] {
            let (allocations, did) = steady(&mut world, read(bytes));
            println!(
                "result of {bytes} bytes: {allocations} allocations in {COUNTED} RPCs; {did:?}"
            );
            assert_eq!(allocations, 0);
            assert_eq!(
                (did[0].exposures, did[1].writes),
                (COUNTED.into(), COUNTED.into())
            );
            copied.push(did.map(|did| did.copied));
        }
        assert_eq!(
            copied[0], copied[1],
            "what is copied does not grow with the result"
        );
        assert!(copied[0].iter().sum::<u64>() < u64::from(COUNTED) * 256);
    }
}

/// Placed data, and messages in several transmissions (rtrext-02).
#[test]
fn transmissions_are_not_allocated_for_and_placed_data_not_copied() {
    type Rpc = Box<dyn Fn(&mut World)>;
    let rpcs: [(&str, Rpc, bool); 3] = [
        ("argument", Box::new(write(1 << 16)), true),
        ("result", Box::new(read(1 << 16)), true),
        ("echo", Box::new(long_echo), false),
    ];
    for (name, rpc, placed) in rpcs {
        let rtr = if placed {
            endpoints::rtr()
        } else {
            RtrExtConfig::ALL
        };
        let mut world = World::new(
            Config::client().with_rtr(rtr),
            Config::server().with_rtr(rtr),
        );
        let (allocations, did) = steady(&mut world, rpc);
        println!("{name}: {allocations} allocations in {COUNTED} RPCs; {did:?}");
        assert_eq!(allocations, 0, "{name}");
        assert_eq!(
            did.map(|did| did.reads + did.writes + did.exposures),
            [0, 0],
            "{name}"
        );
        let copied = did.iter().map(|did| did.copied).sum::<u64>() / u64::from(COUNTED);
        assert!(!placed || copied < 256, "{name}: {copied} bytes copied");
    }
}

/// Many calls at once cost no more: requests are posted together, and few are signaled.
#[test]
fn many_at_once_allocate_nothing() {
    for mut world in worlds() {
        let burst = |world: &mut World| {
            for _ in 0..16 {
                world
                    .client
                    .call(&mut world.near, call(NULL, 0), |_| Ok(()))
                    .unwrap();
            }
            let mut left = 16;
            while left > 0 {
                world.turn();
                while let Some(event) = world.client.event(&mut world.near) {
                    left -= u32::from(matches!(event, ClientEvent::Answered { .. }));
                }
            }
        };
        let (allocations, did) = steady(&mut world, burst);
        println!("16 at once: {allocations} allocations in {COUNTED} bursts; {did:?}");
        assert_eq!(allocations, 0);
    }
}
