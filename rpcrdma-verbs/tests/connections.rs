//! A thousand connections: what memory each end of one takes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::net::SocketAddr;

use rpcrdma_proto::chunk::Limits;
use rpcrdma_proto::connection::{Config, Role};
use rpcrdma_verbs::client::{Client, ClientEvent};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::rpc::Credentials;
use rpcrdma_verbs::server::Server;
use world::{Block, NULL, PROGRAM, call};

const CREDITS: u16 = 32;
/// Octets of a page, on the machines that this is run on.
const PAGE: usize = 4096;

/// Octets of this process that are in memory; none where the system does not say so in this way.
fn resident() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    pages.split(' ').nth(1)?.parse::<usize>().ok()?.checked_mul(PAGE)
}

/// Octets that are registered for one end, and octets in memory of one end, when each connection has had as many calls under
/// way as it has credits.
fn octets_per_end(connections: usize, client: &Config, server: Config) -> (usize, Option<usize>) {
    let fabric = Fabric::new();
    let budgets = [Budget::new(1 << 30), Budget::new(1 << 30)];
    let mut near = Driver::new(&fabric.device(), &budgets[0], 1 << 17).unwrap();
    let mut far = Driver::new(&fabric.device(), &budgets[1], 1 << 17).unwrap();
    let block = Block::new(far.pool());
    let mut server = Server::bind(&mut far, SocketAddr::from(([127, 0, 0, 1], 0)), server, block).unwrap();
    let before = resident();
    let clients: Vec<Client> = (0..connections)
        .map(|_| Client::connect(&mut near, server.address(), client.clone(), Credentials::none()).unwrap())
        .collect();
    for client in &clients {
        for _ in 0..CREDITS {
            client.call(&mut near, call(NULL, 0), |_| Ok(())).unwrap();
        }
    }
    let mut left = connections * usize::from(CREDITS);
    while left > 0 {
        near.turn().unwrap();
        far.turn().unwrap();
        server.serve(&mut far);
        for client in &clients {
            while let Some(event) = client.event(&mut near) {
                match event {
                    ClientEvent::Answered { .. } => left -= 1,
                    ClientEvent::Ready(_) => {}
                    other => panic!("{PROGRAM:x}: {other:?}"),
                }
            }
        }
    }
    assert_eq!(server.connections().len(), connections);
    let registered = budgets.each_ref().map(Budget::used);
    let resident = resident().zip(before).map(|(after, before)| (after - before) / (2 * connections));
    println!("registered octets of each end's driver: {registered:?}");
    (registered.into_iter().max().unwrap() / connections, resident)
}

#[test]
fn a_thousand_connections_are_small() {
    // What a call may have of segments takes memory for each call that there may be.
    let limits = Limits { segments: 8, ..Limits::DEFAULT };
    let few = Config { segments: 8, limits, reserve: 2, ..Config::client() };
    let client = Config { calls: CREDITS, credits: CREDITS.into(), serve: 0, ..few.clone() };
    let server = Config { role: Role::Server, calls: 0, credits: 0, serve: CREDITS, ..few };
    let (registered, resident) = octets_per_end(1000, &client, server);
    println!("{registered} octets registered for one end of a connection, {resident:?} in memory");
    assert!(registered < 160 << 10, "{registered}");
    // All that is in memory, what is registered included.
    assert!(resident.is_none_or(|resident| resident < 288 << 10), "{resident:?}");
    // As it is set up without being asked: 8 backward calls, and up to 256 segments in each call.
    let (registered, resident) = octets_per_end(100, &Config::client(), Config::server());
    println!("with the default settings: {registered} octets registered, {resident:?} in memory");
}
