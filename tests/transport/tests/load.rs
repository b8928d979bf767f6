//! Calls of all kinds while connections are cut at random, clients are replaced and the server is
//! restarted: no call is stuck, and all memory is released. The test runs on the software fabric,
//! over iWARP, and on the device named in the environment.
//!
//! `RPCRDMA_SOAK_SECONDS` sets the duration (default 3), and `RPCRDMA_SOAK_SEED` the seed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

use std::time::{Duration, Instant};

use rpcrdma_transport_tests::device_source::DeviceSource;
use rpcrdma_transport_tests::on_every_device;
use rpcrdma_transport_tests::random::{Random, begin};
use rpcrdma_transport_tests::traffic::{Caller, Host, settle};
use rpcrdma_verbs::provider::Device;

/// The average time between two cuts, in milliseconds.
const CUT: u64 = 20;

fn connections_are_cut_at_random(source: &impl DeviceSource) {
    let (seed, end) = begin();
    let mut random = Random(seed);
    let mut host = Host::new(&source.open_server(), source.address());
    let address = host.server.local_addr();
    let mut callers: Vec<_> = (0..4)
        .map(|number| Caller::new(&source.open(), address, number, seed))
        .collect();
    let mut number = callers.len() as u64;
    let (mut total, mut cuts, mut restarts) = (Vec::new(), 0u32, 0u32);
    let mut next = Instant::now();
    while Instant::now() < end {
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_millis(random.below(2 * CUT));
            match random.below(16) {
                // Replaces a client, whose calls end. On iWARP, Linux destroys a connection that is
                // being established after its peer has answered or 10 seconds have passed, and the
                // peer is served by this thread.
                0 => {
                    let at = random.below(4) as usize;
                    if !callers[at].is_connecting() {
                        let new = Caller::new(&source.open(), address, number, seed);
                        total.push(std::mem::replace(&mut callers[at], new).end());
                        number += 1;
                    }
                }
                1 if random.one_in(4) => {
                    host.end();
                    host = Host::new(&source.open_server(), address);
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
    total.extend(callers.into_iter().map(Caller::end));
    host.end();
    let answered: u64 = total.iter().map(|tally| tally.answered).sum();
    let lost: u64 = total.iter().map(|tally| tally.disconnected).sum();
    println!(
        "{answered} calls answered, {cuts} cuts, {restarts} restarts of the server, {lost} \
        connections lost"
    );
    assert!(answered > 100 && lost > 0);
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
    host.server.disconnect(&mut host.driver, id);
    true
}

on_every_device! {
    connections_are_cut_at_random,
}
