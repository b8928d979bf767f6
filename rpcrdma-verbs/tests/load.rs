//! A load of calls of all kinds while connections are cut off at random, clients are replaced and the server is restarted: no
//! call is stuck, and all memory comes back. On the software fabric, and on the device that the environment names.
//!
//! `RPCRDMA_SOAK_SECONDS` says how long it takes, 3 if it does not; `RPCRDMA_SOAK_SEED` where the random numbers begin.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "the numbers of a test are small")]

mod ground;
mod world;

use std::time::{Duration, Instant};

use ground::{Ground, on_every_ground};
use rpcrdma_verbs::provider::Device;
use world::Random;
use world::traffic::{Caller, Host, begin, gone, settle};

/// Milliseconds between two cuts, on the average.
const CUT: u64 = 20;

fn connections_are_cut_at_random(ground: &impl Ground) {
    let (seed, end) = begin();
    let mut random = Random(seed);
    let mut host = Host::new(&ground.open(), ground.address());
    let address = host.server.address();
    let mut callers: Vec<_> = (0..4).map(|number| Caller::new(&ground.open(), address, number, seed)).collect();
    let mut number = callers.len() as u64;
    let (mut total, mut cuts, mut restarts) = (Vec::new(), 0u32, 0u32);
    let mut next = Instant::now();
    while Instant::now() < end {
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_millis(random.below(2 * CUT));
            match random.below(16) {
                // Another client in place of one, whose calls go with it.
                0 => {
                    let at = random.below(4) as usize;
                    let new = Caller::new(&ground.open(), address, number, seed);
                    total.push(gone(std::mem::replace(&mut callers[at], new)));
                    number += 1;
                }
                1 if random.one_in(4) => {
                    ended(host);
                    host = Host::new(&ground.open(), address);
                    restarts += 1;
                }
                _ => cuts += u32::from(cut(&mut host, &mut random)),
            }
        }
        callers.iter_mut().for_each(Caller::step);
        host.step(&mut random);
        callers.iter().for_each(Caller::assert_moving);
    }
    settle(&mut callers, &mut host, &mut random);
    total.extend(callers.into_iter().map(gone));
    ended(host);
    let answered: u64 = total.iter().map(|tally| tally.answered).sum();
    let closed: u64 = total.iter().map(|tally| tally.closed).sum();
    println!("{answered} calls answered, {cuts} cuts, {restarts} restarts of the server, {closed} connections lost");
    assert!(answered > 100 && closed > 0);
}

/// Cuts one of the server's connections off, if it has any.
fn cut<D: Device>(host: &mut Host<D>, random: &mut Random) -> bool {
    let connections = host.server.connections();
    let Some(id) = connections.get(random.below(connections.len().max(1) as u64) as usize).copied() else {
        return false;
    };
    host.server.cut(&mut host.driver, id);
    true
}

/// Drops the server: all of its memory has come back.
fn ended<D: Device>(host: Host<D>) {
    let Host { server, driver, budget, .. } = host;
    drop((server, driver));
    assert_eq!(budget.used(), 0, "of a server that is gone");
}

on_every_ground! {
    connections_are_cut_at_random,
}
