//! Calls of all kinds while connections are cut at random, clients are replaced and the server is
//! restarted: no call is stuck, and all memory is released. It runs on the software fabric, and on
//! the device that the environment names.
//!
//! `RPCRDMA_SOAK_SECONDS` sets the duration (default 3), and `RPCRDMA_SOAK_SEED` the seed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

mod endpoints;
mod fixture;

use std::time::{Duration, Instant};

use endpoints::Random;
use endpoints::traffic::{Caller, Host, begin, gone, settle};
use fixture::{Ground, on_every_ground};
use rpcrdma_verbs::provider::Device;

/// The average time between two cuts, in milliseconds.
const CUT: u64 = 20;

fn connections_are_cut_at_random(ground: &impl Ground) {
    let (seed, end) = begin();
    let mut random = Random(seed);
    let mut host = Host::new(&ground.open(), ground.address());
    let address = host.server.address();
    let mut callers: Vec<_> = (0..4)
        .map(|number| Caller::new(&ground.open(), address, number, seed))
        .collect();
    let mut number = callers.len() as u64;
    let (mut total, mut cuts, mut restarts) = (Vec::new(), 0u32, 0u32);
    let mut next = Instant::now();
    while Instant::now() < end {
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_millis(random.below(2 * CUT));
            match random.below(16) {
                // Replaces a client, whose calls end.
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
    println!(
        "{answered} calls answered, {cuts} cuts, {restarts} restarts of the server, {closed} connections lost"
    );
    assert!(answered > 100 && closed > 0);
}

/// Cuts one of the server's connections, if it has any.
fn cut<D: Device>(host: &mut Host<D>, random: &mut Random) -> bool {
    let connections = host.server.connections();
    let Some(id) = connections
        .get(random.below(connections.len().max(1) as u64) as usize)
        .copied()
    else {
        return false;
    };
    host.server.cut(&mut host.driver, id);
    true
}

/// Drops the server, and checks that all of its memory is released.
fn ended<D: Device>(host: Host<D>) {
    let Host {
        server,
        driver,
        budget,
        ..
    } = host;
    drop((server, driver));
    assert_eq!(budget.used(), 0, "of a server that is gone");
}

on_every_ground! {
    connections_are_cut_at_random,
}
