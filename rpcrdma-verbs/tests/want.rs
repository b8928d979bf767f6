//! Want of memory at every turn of a scenario, at either end: every call ends, nothing is sent that was not written, and when there is
//! memory again all goes on.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test fails by panicking")]

mod world;

use std::time::{Duration, Instant};

use rpcrdma_proto::connection::{Config, Failure, Reason};
use rpcrdma_proto::continuation::Rtr;
use rpcrdma_proto::travel::{Direct, Prefer};
use rpcrdma_verbs::client::{CallId, ClientError, ClientEvent};
use rpcrdma_verbs::memory::{Budget, Buf};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::software::{Fabric, Faults};
use world::{ECHO, NULL, READ, WRITE, World, block, call, sum};

/// Half turns after which every scenario is at its end.
const END: usize = 40;
/// Half turns for which there is no memory.
const WANT: usize = 6;
const OCTETS: u32 = 20_000;
const BUDGET: usize = 1 << 26;

/// Takes all that an end could still take.
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

/// What a call is to bring.
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
    let octets = |writer: &mut rpcrdma_verbs::driver::Writer<'_>| writer.octets(data).put(&0u32).map(|_| ());
    let begun = [
        (world.client.call(near, call(NULL, 0), |_| Ok(())), Wanted::Results(Vec::new())),
        (world.client.call(near, read, |writer| writer.put(&OCTETS).map(|_| ())), Wanted::Placed),
        (
            world.client.call(near, call(WRITE, 4), |writer| writer.item(item).map(|_| ())),
            Wanted::Results(sum([data]).to_be_bytes().to_vec()),
        ),
        (world.client.call(near, call(ECHO, OCTETS + 4), octets), Wanted::Results([data, &[0; 4]].concat())),
    ];
    begun.into_iter().map(|(begun, wanted)| (begun.unwrap(), wanted)).collect()
}

/// What has become of the calls since: how often one has failed for want of memory, or the connection was given up.
fn events(world: &mut World, open: &mut Vec<(CallId, Wanted)>, what: &str) -> usize {
    let mut felt = 0;
    while let Some(event) = world.client.event(&mut world.near) {
        match event {
            ClientEvent::Answered { call, answer } => {
                let at = open.iter().position(|(open, _)| *open == call).unwrap();
                let memory = world.client.take_memory(&mut world.near, call);
                match open.remove(at).1 {
                    Wanted::Results(results) => assert!(answer.results() == results, "{what}"),
                    Wanted::Placed => assert!(memory.results[0][..] == block()[..OCTETS as usize], "{what}"),
                }
            }
            ClientEvent::Failed { call, why } => {
                let at = open.iter().position(|(open, _)| *open == call).unwrap();
                open.remove(at);
                world.client.take_memory(&mut world.near, call);
                match why {
                    ClientError::Transport(Failure::Memory | Failure::Peer(_)) | ClientError::Reply(_) => felt += 1,
                    why => panic!("{what}: {why}"),
                }
            }
            ClientEvent::Closed { why, .. } => {
                assert!(matches!(why, Reason::Lost | Reason::Unreachable), "{what}: {why}");
                felt += 1;
            }
            _ => {}
        }
    }
    felt
}

/// Until all calls have ended: how often the want was felt.
fn finish(world: &mut World, open: &mut Vec<(CallId, Wanted)>, what: &str) -> usize {
    let began = Instant::now();
    let mut felt = 0;
    while !open.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: a call is stuck");
        world.turn();
        felt += events(world, open, what);
    }
    felt
}

/// How often the want is felt over all turns.
fn every_turn(windows: bool, config: impl Fn(Config) -> Config) -> usize {
    let mut felt = 0;
    for (end, turns) in (0..2).flat_map(|end| (0..END).map(move |turns| (end, turns))) {
        let what = format!("{} without memory after {turns} half turns", ["the client", "the server"][end]);
        let fabric = Fabric::new();
        fabric.inject(Faults { delay: 2, seed: turns as u64, ..Faults::default() });
        let mut capabilities = fabric.device().capabilities().clone();
        capabilities.windows = windows;
        let devices = [fabric.device_with(capabilities), fabric.device()];
        let client = Config { retry: 1, ..config(Config::client()) };
        let budgets = [Budget::new(BUDGET), Budget::new(BUDGET)];
        let mut world = World::within(budgets, fabric, devices, client, config(Config::server()));
        // What is told of rtrext-02 holds from the second reply on.
        for _ in 0..2 {
            let call = world.client.call(&mut world.near, call(NULL, 0), |_| Ok(())).unwrap();
            assert_eq!(finish(&mut world, &mut vec![(call, Wanted::Results(Vec::new()))], &what), 0);
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
        assert_eq!(finish(&mut world, &mut again, &what), 0, "{what}: it does not go on");
        let World { near, far, server, budgets, .. } = world;
        drop((near, far, server));
        assert_eq!(budgets.map(|budget| budget.used()), [0, 0], "{what}");
    }
    felt
}

#[test]
fn with_chunks() {
    assert!(every_turn(true, |config| config) > 0);
    assert!(every_turn(false, |config| config) > 0);
}

#[test]
fn with_data_that_the_sends_place() {
    assert!(every_turn(true, |config| config.with_rtr(Rtr { prefer: Prefer::Groups, ..world::rtr() })) > 0);
}

#[test]
fn with_transmissions_and_memory_that_is_exposed() {
    let explicit = Rtr { prefer: Prefer::Groups, direct: Direct::Explicit, ..Rtr::ALL };
    assert!(every_turn(false, |config| config.with_rtr(explicit)) > 0);
}
