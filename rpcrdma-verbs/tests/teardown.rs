//! Ends are dropped at every turn of a scenario, in every order: nothing stays registered, and
//! nothing that is kept changes. Under AddressSanitizer (`.ci/asan`) this shows that no memory is
//! used after it is freed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

mod endpoints;

use endpoints::{ECHO, NULL, READ, WRITE, World, block, call};
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::client::{Answered, CallId, ClientEvent};
use rpcrdma_verbs::memory::{Buf, PostedBuf};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::software::{Fabric, Faults};

/// The number of half turns after which every scenario has ended.
const END: usize = 60;
const RESULT: u32 = 20_000;

/// What is dropped, and in which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// First the client's driver; the server continues for a while.
    Near,
    /// First the server's driver; the client continues.
    Far,
    /// The server alone; its driver stays.
    Server,
    /// The client's connection is removed, and both continue.
    Forgotten,
    /// The server's connections are removed.
    Cut,
    /// All calls are cancelled, and then the client's driver is dropped at once.
    Cancelled,
    /// The fabric, and then both at once.
    All,
}

const FATES: [Fate; 7] = [
    Fate::Near,
    Fate::Far,
    Fate::Server,
    Fate::Forgotten,
    Fate::Cut,
    Fate::Cancelled,
    Fate::All,
];

/// What the client keeps.
#[derive(Default)]
struct Kept {
    calls: Vec<CallId>,
    answers: Vec<(Answered, Vec<u8>)>,
    results: Vec<(Buf, Vec<u8>)>,
}

impl Kept {
    fn take(&mut self, world: &mut World) {
        while let Some(event) = world.client.event(&mut world.near) {
            match event {
                ClientEvent::Answered { call, answer } => {
                    let memory = world.client.take_memory(&mut world.near, call);
                    self.results.extend(
                        memory
                            .results
                            .into_iter()
                            .chain(memory.items)
                            .map(with_copy),
                    );
                    let copy = answer.results().to_vec();
                    self.answers.push((answer, copy));
                    self.calls.retain(|other| *other != call);
                }
                ClientEvent::Failed { call, .. } => {
                    let memory = world.client.take_memory(&mut world.near, call);
                    self.results.extend(
                        memory
                            .results
                            .into_iter()
                            .chain(memory.items)
                            .map(with_copy),
                    );
                    self.calls.retain(|other| *other != call);
                }
                _ => {}
            }
        }
    }

    /// Checks that what is kept has not changed.
    fn assert_untouched(&mut self) {
        for (answer, copy) in &self.answers {
            assert!(answer.results() == copy);
        }
        for (buf, copy) in &self.results {
            assert!(**buf == **copy);
        }
    }
}

fn with_copy(buf: Buf) -> (Buf, Vec<u8>) {
    let copy = buf.to_vec();
    (buf, copy)
}

fn begin(world: &mut World) -> Kept {
    let mut kept = Kept::default();
    let pool = world.near.pool().clone();
    let data = pool.clone();
    let mut read = call(READ, RESULT + 8);
    read.results.push(pool.take(RESULT).unwrap());
    let near = &mut world.near;
    let begun = [
        world.client.call(near, call(NULL, 0), |_| Ok(())),
        world
            .client
            .call(near, read, |writer| writer.put(&RESULT).map(|_| ())),
        world.client.call(near, call(WRITE, 4), |writer| {
            let mut item = data.take(RESULT).unwrap();
            item.extend_from_slice(&block()[..RESULT as usize]);
            writer.item(item).map(|_| ())
        }),
        // Both directions by chunks for the whole message.
        world.client.call(near, call(ECHO, RESULT), |writer| {
            writer.bytes(&block()[..RESULT as usize]);
            Ok(())
        }),
    ];
    kept.calls.extend(begun.into_iter().map(Result::unwrap));
    kept
}

fn meets(fate: Fate, mut world: World, mut kept: Kept) {
    match fate {
        Fate::Near | Fate::Cancelled => {
            let World {
                client,
                mut near,
                mut far,
                mut server,
                budgets,
                ..
            } = world;
            if fate == Fate::Cancelled {
                kept.calls.iter().for_each(|call| {
                    client.cancel(&mut near, *call);
                });
            }
            drop(near);
            for _ in 0..END {
                far.turn().unwrap();
                server.serve(&mut far);
            }
            kept.assert_untouched();
            drop((far, server));
            drop(kept);
            assert_eq!(budgets.map(|budget| budget.used()), [0, 0]);
        }
        Fate::Far | Fate::All => {
            let World {
                client,
                mut near,
                far,
                server,
                budgets,
                fabric,
            } = world;
            drop(fabric);
            drop((far, server));
            for _ in 0..if fate == Fate::Far { END } else { 0 } {
                near.turn().unwrap();
                while client.event(&mut near).is_some() {}
            }
            drop(near);
            kept.assert_untouched();
            drop(kept);
            assert_eq!(budgets.map(|budget| budget.used()), [0, 0]);
        }
        Fate::Server => {
            let World {
                client,
                mut near,
                mut far,
                server,
                budgets,
                ..
            } = world;
            drop(server);
            for _ in 0..END {
                near.turn().unwrap();
                far.turn().unwrap();
            }
            drop((kept, far, near, client));
            assert_eq!(budgets.map(|budget| budget.used()), [0, 0]);
        }
        Fate::Forgotten | Fate::Cut => {
            if fate == Fate::Forgotten {
                world.near.forget(world.client.id());
            } else {
                world
                    .server
                    .connections()
                    .to_vec()
                    .into_iter()
                    .for_each(|id| world.far.forget(id));
            }
            for number in 0..END {
                world.half_turn(number);
            }
            kept.assert_untouched();
            let World {
                near,
                far,
                server,
                budgets,
                ..
            } = world;
            drop((far, near, server, kept));
            assert_eq!(budgets.map(|budget| budget.used()), [0, 0]);
        }
    }
}

fn every_turn(windows: bool, highest: Version, delay: u32) {
    let mut answered = 0;
    for fate in FATES {
        for turns in 0..END {
            let fabric = Fabric::new();
            fabric.inject(Faults {
                delay,
                seed: turns as u64,
                ..Faults::default()
            });
            let mut capabilities = fabric.device().capabilities().clone();
            capabilities.windows = windows;
            let devices = [fabric.device_with(capabilities), fabric.device()];
            let client = Config {
                max_version: highest,
                remote_invalidation: windows,
                reconnect_delay: 1,
                ..Config::client()
            };
            let server = Config {
                send_with_invalidate: true,
                ..Config::server()
            };
            let mut world = World::on(fabric, devices, client, server);
            let mut kept = begin(&mut world);
            for number in 0..turns {
                world.half_turn(number);
                kept.take(&mut world);
            }
            answered = kept.answers.len().max(answered);
            meets(fate, world, kept);
        }
    }
    assert_eq!(answered, 4, "the scenario comes to its end");
}

#[test]
fn with_windows() {
    every_turn(true, Version::Two, 0);
}

/// Fences are posted and not completed when the connection ends.
// spec: rfc8166-4.5.4-a
#[test]
fn with_windows_and_delays() {
    every_turn(true, Version::Two, 3);
}

#[test]
fn without_windows() {
    every_turn(false, Version::Two, 0);
}

#[test]
fn without_windows_and_with_delays() {
    every_turn(false, Version::Two, 3);
}

#[test]
fn in_version_one() {
    every_turn(true, Version::One, 2);
}

/// A buffer outlives its pool, its driver, its device and its fabric.
#[test]
fn memory_outlives_all() {
    let mut world = World::new(Config::client(), Config::server());
    let (budget, pool) = (world.budgets[0].clone(), world.near.pool().clone());
    let mut buf = pool.take(5000).unwrap();
    buf.extend_from_slice(&[7; 5000]);
    let own = Buf::adopt(world.near.device(), &budget, vec![8; 100]).unwrap();
    for _ in 0..4 {
        world.turn();
    }
    drop((world, pool));
    assert_eq!((&*buf, &*own), ([7; 5000].as_slice(), [8; 100].as_slice()));
    let lent = PostedBuf::from(buf);
    assert!(lent.into_buf().is_ok());
    assert_eq!(own.into_vec(), Some(vec![8; 100]));
    assert_eq!(budget.used(), 0);
}
