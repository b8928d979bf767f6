//! What an RPC costs: allocations, copies, work requests and completions, counted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "the numbers of a test are small")]

mod world;

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::Rtr;
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::client::{CallId, ClientEvent};
use rpcrdma_verbs::driver::Counters;
use rpcrdma_verbs::memory::Buf;
use world::{ECHO, NULL, READ, WRITE, World, block, call};

/// RPCs until all that grows has grown, and RPCs that are counted.
const WARM: u32 = 200;
const COUNTED: u32 = 200;

/// One end of an RPC after the other, until it is answered.
fn finish(world: &mut World, call: CallId, check: impl Fn(&[u8])) {
    for _ in 0..100 {
        world.turn();
        while let Some(event) = world.client.event(&mut world.near) {
            if let ClientEvent::Answered { call: ended, answer } = event {
                assert_eq!(ended, call);
                return check(answer.results());
            }
        }
    }
    panic!("nothing happens");
}

fn null(world: &mut World) {
    let id = world.client.call(&mut world.near, call(NULL, 0), |_| Ok(())).unwrap();
    finish(world, id, |results| assert!(results.is_empty()));
}

fn echo(world: &mut World) {
    let octets = &block()[..512];
    let id = world.client.call(&mut world.near, call(ECHO, 512), |writer| {
        writer.octets(octets);
        Ok(())
    });
    finish(world, id.unwrap(), |results| assert!(results == octets));
}

/// More octets than one Send has.
fn long_echo(world: &mut World) {
    let octets = &block()[..16_384];
    let id = world.client.call(&mut world.near, call(ECHO, 16_384), |writer| {
        writer.octets(octets);
        Ok(())
    });
    finish(world, id.unwrap(), |results| assert!(results == octets));
}

/// An argument of so many octets, in a buffer of its own: the server reads it.
fn write(octets: u32) -> impl Fn(&mut World) {
    move |world| {
        let mut item = world.near.pool().take(octets).unwrap();
        item.set_len(octets);
        let id = world.client.call(&mut world.near, call(WRITE, 4), |writer| writer.item(item).map(|_| ())).unwrap();
        finish(world, id, |results| assert_eq!(results.len(), 4));
        assert_eq!(world.client.take_memory(&mut world.near, id).items[0].len(), octets as usize);
    }
}

/// A result of so many octets: the server writes it where it belongs.
fn read(octets: u32) -> impl Fn(&mut World) {
    move |world| {
        let result: Buf = world.near.pool().take(octets).unwrap();
        let mut call = call(READ, octets + 8);
        call.results.push(result);
        let id = world.client.call(&mut world.near, call, |writer| writer.put(&octets).map(|_| ())).unwrap();
        finish(world, id, |results| assert_eq!(results, octets.to_be_bytes()));
        assert_eq!(world.client.take_memory(&mut world.near, id).results[0].len(), octets as usize);
    }
}

/// The counters of both ends.
fn counters(world: &World) -> [Counters; 2] {
    let far = world.server.connections()[0];
    [world.near.counters(world.client.id()).unwrap(), world.far.counters(far).unwrap()]
}

/// Allocations of so many RPCs in the steady state, and what they did.
fn steady(world: &mut World, rpc: impl Fn(&mut World)) -> (u64, [Counters; 2]) {
    (0..WARM).for_each(|_| rpc(world));
    let before = counters(world);
    let counted = allocation_counter::measure(|| (0..COUNTED).for_each(|_| rpc(world)));
    let mut after = counters(world);
    for (after, before) in after.iter_mut().zip(before) {
        after.sends -= before.sends;
        after.reads -= before.reads;
        after.writes -= before.writes;
        after.exposed -= before.exposed;
        after.copied -= before.copied;
    }
    (counted.count_total, after)
}

fn worlds() -> impl Iterator<Item = World> {
    [Version::One, Version::Two].into_iter().map(|highest| {
        let client = Config { highest, remote_invalidation: true, ..Config::client() };
        World::new(client, Config { invalidates: true, ..Config::server() })
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
            assert_eq!(did.map(|did| did.reads + did.writes + did.exposed), [0, 0]);
        }
    }
}

#[test]
fn arguments_apart_are_neither_copied_nor_allocated_for() {
    for mut world in worlds() {
        let mut copied = Vec::new();
        for octets in [20_000, 100_000] {
            let (allocations, did) = steady(&mut world, write(octets));
            println!("argument of {octets} octets: {allocations} allocations in {COUNTED} RPCs; {did:?}");
            assert_eq!(allocations, 0);
            assert_eq!((did[0].exposed, did[1].reads), (COUNTED.into(), COUNTED.into()));
            copied.push(did.map(|did| did.copied));
        }
        assert_eq!(copied[0], copied[1], "what is copied does not grow with the argument");
        assert!(copied[0].iter().sum::<u64>() < u64::from(COUNTED) * 256);
    }
}

#[test]
fn results_apart_are_neither_copied_nor_allocated_for() {
    for mut world in worlds() {
        let mut copied = Vec::new();
        for octets in [20_000, 100_000] {
            let (allocations, did) = steady(&mut world, read(octets));
            println!("result of {octets} octets: {allocations} allocations in {COUNTED} RPCs; {did:?}");
            assert_eq!(allocations, 0);
            assert_eq!((did[0].exposed, did[1].writes), (COUNTED.into(), COUNTED.into()));
            copied.push(did.map(|did| did.copied));
        }
        assert_eq!(copied[0], copied[1], "what is copied does not grow with the result");
        assert!(copied[0].iter().sum::<u64>() < u64::from(COUNTED) * 256);
    }
}

/// Data that the Sends place, and messages in several transmissions (rtrext-02).
#[test]
fn transmissions_are_not_allocated_for_and_placed_data_not_copied() {
    type Rpc = Box<dyn Fn(&mut World)>;
    let rpcs: [(&str, Rpc, bool); 3] = [
        ("argument", Box::new(write(1 << 16)), true),
        ("result", Box::new(read(1 << 16)), true),
        ("echo", Box::new(long_echo), false),
    ];
    for (name, rpc, placed) in rpcs {
        let rtr = if placed { world::rtr() } else { Rtr::ALL };
        let mut world = World::new(Config::client().with_rtr(rtr), Config::server().with_rtr(rtr));
        let (allocations, did) = steady(&mut world, rpc);
        println!("{name}: {allocations} allocations in {COUNTED} RPCs; {did:?}");
        assert_eq!(allocations, 0, "{name}");
        assert_eq!(did.map(|did| did.reads + did.writes + did.exposed), [0, 0], "{name}");
        let copied = did.iter().map(|did| did.copied).sum::<u64>() / u64::from(COUNTED);
        assert!(!placed || copied < 256, "{name}: {copied} octets copied");
    }
}

/// Many at once take no more: what is posted together, and signaled seldom.
#[test]
fn many_at_once_allocate_nothing() {
    for mut world in worlds() {
        let burst = |world: &mut World| {
            for _ in 0..16 {
                world.client.call(&mut world.near, call(NULL, 0), |_| Ok(())).unwrap();
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
