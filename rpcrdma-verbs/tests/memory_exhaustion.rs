//! Memory is exhausted at every turn of a scenario, at either end: every call ends, nothing is sent
//! that was not written, and everything continues when there is memory again.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod endpoints;

use std::time::{Duration, Instant};

use endpoints::{ECHO, NULL, READ, WRITE, World, block, call, sum};
use rpcrdma_proto::connection::{CallFailure, CloseReason, Config};
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::transfer::{MethodPreference, ResultPlacement};
use rpcrdma_verbs::client::{CallId, ClientError, ClientEvent};
use rpcrdma_verbs::memory::{Budget, Buf};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::software::{Fabric, Faults};

/// The number of half turns after which every scenario has ended.
const END: usize = 40;
/// The number of half turns without memory.
const WANT: usize = 6;
const OCTETS: u32 = 20_000;
const BUDGET: usize = 1 << 26;

/// Takes all memory that an end could take.
fn hoard(world: &World, end: usize) -> Vec<Buf> {
    let driver = [&world.near, &world.far][end];
    let budget = &world.budgets[end];
    let left = BUDGET - budget.used();
    let mut all = vec![Buf::adopt(driver.device(), budget, vec![0; left]).unwrap()];
    for size in (6..=20).map(|bits| 1 << bits) {
        all.extend(std::iter::from_fn(|| driver.pool().take(size).ok()));
    }
    all
}

/// The expected result of a call.
enum Wanted {
    Results(Vec<u8>),
    Placed,
}

fn begin(world: &mut World) -> Vec<(CallId, Wanted)> {
    let data = &block()[..OCTETS as usize];
    let pool = world.near.pool().clone();
    let mut read = call(READ, OCTETS + 8);
    read.results.push(pool.take(OCTETS).unwrap());
    let mut item = pool.take(OCTETS).unwrap();
    item.extend_from_slice(data);
    let near = &mut world.near;
    let bytes =
        |writer: &mut rpcrdma_verbs::driver::Writer<'_>| writer.bytes(data).put(&0u32).map(|_| ());
    let begun = [
        (
            world.client.call(near, call(NULL, 0), |_| Ok(())),
            Wanted::Results(Vec::new()),
        ),
        (
            world
                .client
                .call(near, read, |writer| writer.put(&OCTETS).map(|_| ())),
            Wanted::Placed,
        ),
        (
            world
                .client
                .call(near, call(WRITE, 4), |writer| writer.item(item).map(|_| ())),
            Wanted::Results(sum([data]).to_be_bytes().to_vec()),
        ),
        (
            world.client.call(near, call(ECHO, OCTETS + 4), bytes),
            Wanted::Results([data, &[0; 4]].concat()),
        ),
    ];
    begun
        .into_iter()
        .map(|(begun, wanted)| (begun.unwrap(), wanted))
        .collect()
}

/// Returns how many calls have failed for lack of memory, or with their connection.
fn events(world: &mut World, open: &mut Vec<(CallId, Wanted)>, what: &str) -> usize {
    let mut felt = 0;
    while let Some(event) = world.client.event(&mut world.near) {
        match event {
            ClientEvent::Answered { call, answer } => {
                let at = open.iter().position(|(open, _)| *open == call).unwrap();
                let memory = world.client.take_memory(&mut world.near, call);
                match open.remove(at).1 {
                    Wanted::Results(results) => assert!(answer.results() == results, "{what}"),
                    Wanted::Placed => assert!(
                        memory.results[0][..] == block()[..OCTETS as usize],
                        "{what}"
                    ),
                }
            }
            ClientEvent::Failed { call, why } => {
                let at = open.iter().position(|(open, _)| *open == call).unwrap();
                open.remove(at);
                world.client.take_memory(&mut world.near, call);
                match why {
                    ClientError::Transport(
                        CallFailure::Memory | CallFailure::ReplyMemory | CallFailure::Peer(_),
                    )
                    | ClientError::Reply(_) => felt += 1,
                    why => panic!("{what}: {why}"),
                }
            }
            ClientEvent::Closed { why, .. } => {
                assert!(
                    matches!(why, CloseReason::Lost | CloseReason::Unreachable),
                    "{what}: {why}"
                );
                felt += 1;
            }
            _ => {}
        }
    }
    felt
}

/// Turns until all calls have ended, and returns the number of failures.
fn finish(world: &mut World, open: &mut Vec<(CallId, Wanted)>, what: &str) -> usize {
    let began = Instant::now();
    let mut felt = 0;
    while !open.is_empty() {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{what}: a call is stuck"
        );
        world.turn();
        felt += events(world, open, what);
    }
    felt
}

/// Returns the number of failures over all turns.
fn every_turn(windows: bool, config: impl Fn(Config) -> Config) -> usize {
    let mut felt = 0;
    for (end, turns) in (0..2).flat_map(|end| (0..END).map(move |turns| (end, turns))) {
        let what = format!(
            "{} without memory after {turns} half turns",
            ["the client", "the server"][end]
        );
        let fabric = Fabric::new();
        fabric.inject(Faults {
            delay: 2,
            seed: turns as u64,
            ..Faults::default()
        });
        let mut capabilities = fabric.device().capabilities().clone();
        capabilities.windows = windows;
        let devices = [fabric.device_with(capabilities), fabric.device()];
        let client = Config {
            reconnect_delay: 1,
            ..config(Config::client())
        };
        let budgets = [Budget::new(BUDGET), Budget::new(BUDGET)];
        let mut world = World::within(budgets, fabric, devices, client, config(Config::server()));
        // What is advertised for rtrext-02 applies from the second reply on.
        for _ in 0..2 {
            let call = world
                .client
                .call(&mut world.near, call(NULL, 0), |_| Ok(()))
                .unwrap();
            assert_eq!(
                finish(
                    &mut world,
                    &mut vec![(call, Wanted::Results(Vec::new()))],
                    &what
                ),
                0
            );
        }
        let mut open = begin(&mut world);
        for number in 0..turns {
            world.half_turn(number);
            events(&mut world, &mut open, &what);
        }
        let hoarded = hoard(&world, end);
        for number in turns..turns + WANT {
            world.half_turn(number);
            felt += events(&mut world, &mut open, &what);
        }
        drop(hoarded);
        felt += finish(&mut world, &mut open, &what);
        let mut again = begin(&mut world);
        assert_eq!(
            finish(&mut world, &mut again, &what),
            0,
            "{what}: it does not go on"
        );
        let World {
            near,
            far,
            server,
            budgets,
            ..
        } = world;
        drop((near, far, server));
        assert_eq!(budgets.map(|budget| budget.used()), [0, 0], "{what}");
    }
    felt
}

// spec: rfc8166-4.5.4-b
#[test]
fn with_chunks() {
    assert!(every_turn(true, |config| config) > 0);
    assert!(every_turn(false, |config| config) > 0);
}

#[test]
fn with_data_that_the_sends_place() {
    assert!(
        every_turn(true, |config| config.with_rtr(RtrExtConfig {
            preference: MethodPreference::Groups,
            ..endpoints::rtr()
        })) > 0
    );
}

#[test]
fn with_transmissions_and_memory_that_is_exposed() {
    let explicit = RtrExtConfig {
        preference: MethodPreference::Groups,
        placement: ResultPlacement::Explicit,
        ..RtrExtConfig::ALL
    };
    assert!(every_turn(false, |config| config.with_rtr(explicit)) > 0);
}
