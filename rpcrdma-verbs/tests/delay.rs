//! Calls over a fabric with a delay. Each end sleeps in its own thread.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

mod endpoints;

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use endpoints::{Block, NULL, WRITE, World, block, call};
use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::client::{Client, ClientEvent};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::Credentials;
use rpcrdma_verbs::server::Server;

const DELAY: Duration = Duration::from_millis(1);
/// The maximum time that an end sleeps, so long that a call that waits for it is noticed.
const NAP: Duration = Duration::from_secs(30);

fn serve(device: &SoftwareDevice, address: &mpsc::Sender<SocketAddr>) {
    let mut driver = Driver::new(device, &Budget::new(1 << 26), 4096).unwrap();
    let block = Block::new(driver.pool());
    let mut server = Server::bind(
        &mut driver,
        ([127, 0, 0, 1], 0).into(),
        Config::server(),
        block,
    )
    .unwrap();
    address.send(server.address()).unwrap();
    loop {
        driver.wait(NAP).unwrap();
        server.serve(&mut driver);
    }
}

/// Makes a call, and sleeps until it is answered. Returns the duration.
fn answered(driver: &mut Driver<SoftwareDevice>, client: &mut Client, number: u32) -> Duration {
    let mut item = driver.pool().take(20_000).unwrap();
    item.extend_from_slice(&block()[..20_000]);
    let began = Instant::now();
    let begun = client.call(driver, call(number, 4), |writer| match number {
        WRITE => writer.item(item).map(|_| ()),
        _ => Ok(()),
    });
    begun.unwrap();
    driver.turn().unwrap();
    loop {
        while let Some(event) = client.event(driver) {
            match event {
                ClientEvent::Answered { .. } => return began.elapsed(),
                ClientEvent::Failed { why, .. } => panic!("{why}"),
                _ => {}
            }
        }
        driver.wait(NAP).unwrap();
    }
}

/// `wait` does not sleep over events that came about without a turn.
#[test]
fn what_was_flushed_is_told_before_anybody_sleeps() {
    let fabric = Fabric::new();
    let (sender, address) = mpsc::channel();
    let device = fabric.device();
    thread::spawn(move || serve(&device, &sender));
    let mut driver = Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096).unwrap();
    let config = Config {
        max_segments: 1,
        max_segment_len: 4096,
        ..Config::client()
    };
    let mut client = Client::connect(
        &mut driver,
        address.recv().unwrap(),
        config,
        Credentials::none(),
    )
    .unwrap();
    answered(&mut driver, &mut client, NULL);
    let began = Instant::now();
    // Its reply needs more segments than there are.
    client
        .call(&mut driver, call(NULL, 1 << 20), |_| Ok(()))
        .unwrap();
    driver.flush();
    assert!(driver.wait(NAP).unwrap() && began.elapsed() < NAP);
    assert!(matches!(
        client.event(&mut driver),
        Some(ClientEvent::Failed { .. })
    ));
}

/// Replies are sent when they are made, whenever their driver is turned next.
#[test]
fn replies_do_not_wait_for_a_turn() {
    let mut world = World::new(Config::client(), Config::server());
    for _ in 0..3 {
        let begun = world
            .client
            .call(&mut world.near, call(NULL, 0), |_| Ok(()));
        begun.unwrap();
        let mut answered = false;
        for _ in 0..10 {
            world.near.turn().unwrap();
            world.far.turn().unwrap();
            if world.server.serve(&mut world.far) > 0 {
                world.near.turn().unwrap();
                while let Some(event) = world.client.event(&mut world.near) {
                    answered |= matches!(event, ClientEvent::Answered { .. });
                }
                break;
            }
        }
        assert!(answered, "the server's driver was not turned again");
    }
}

#[test]
fn who_sleeps_is_woken_and_calls_take_their_round_trips() {
    let fabric = Fabric::with_delay(DELAY);
    let (sender, address) = mpsc::channel();
    let device = fabric.device();
    thread::spawn(move || serve(&device, &sender));
    let mut driver = Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096).unwrap();
    let address = address.recv().unwrap();
    let mut client =
        Client::connect(&mut driver, address, Config::client(), Credentials::none()).unwrap();
    let began = Instant::now();
    answered(&mut driver, &mut client, NULL);
    for _ in 0..10 {
        assert!(
            answered(&mut driver, &mut client, NULL) >= 2 * DELAY,
            "there and back"
        );
        assert!(
            answered(&mut driver, &mut client, WRITE) >= 4 * DELAY,
            "and the data are fetched"
        );
    }
    assert!(began.elapsed() < NAP, "nobody has slept to the end");
}
