//! Calls over a fabric with a delay, with ends that sleep: each on a thread of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "the numbers of a test are small")]

mod world;

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::client::{Client, ClientEvent};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::Credentials;
use rpcrdma_verbs::server::Server;
use world::{Block, NULL, WRITE, World, block, call};

const DELAY: Duration = Duration::from_millis(1);
/// How long an end sleeps at most: so long that calls which had to wait for it would be seen.
const NAP: Duration = Duration::from_secs(30);

fn serve(device: &SoftwareDevice, address: &mpsc::Sender<SocketAddr>) {
    let mut driver = Driver::new(device, &Budget::new(1 << 26), 4096).unwrap();
    let block = Block::new(driver.pool());
    let mut server = Server::bind(&mut driver, ([127, 0, 0, 1], 0).into(), Config::server(), block).unwrap();
    address.send(server.address()).unwrap();
    loop {
        driver.wait(NAP).unwrap();
        server.serve(&mut driver);
    }
}

/// Makes a call, sleeping until it is answered: how long that took.
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

/// What came about without a turn is not slept over.
#[test]
fn what_was_flushed_is_told_before_anybody_sleeps() {
    let fabric = Fabric::new();
    let (sender, address) = mpsc::channel();
    let device = fabric.device();
    thread::spawn(move || serve(&device, &sender));
    let mut driver = Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096).unwrap();
    let config = Config { segments: 1, segment: 4096, ..Config::client() };
    let mut client = Client::connect(&mut driver, address.recv().unwrap(), config, Credentials::none()).unwrap();
    answered(&mut driver, &mut client, NULL);
    let began = Instant::now();
    // Its reply takes more segments than there are.
    client.call(&mut driver, call(NULL, 1 << 20), |_| Ok(())).unwrap();
    driver.flush();
    assert!(driver.wait(NAP).unwrap() && began.elapsed() < NAP);
    assert!(matches!(client.event(&mut driver), Some(ClientEvent::Failed { .. })));
}

/// The replies leave when they are given, whenever their driver is turned next.
#[test]
fn replies_do_not_wait_for_a_turn() {
    let mut world = World::new(Config::client(), Config::server());
    for _ in 0..3 {
        let begun = world.client.call(&mut world.near, call(NULL, 0), |_| Ok(()));
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
    let mut client = Client::connect(&mut driver, address, Config::client(), Credentials::none()).unwrap();
    let began = Instant::now();
    answered(&mut driver, &mut client, NULL);
    for _ in 0..10 {
        assert!(answered(&mut driver, &mut client, NULL) >= 2 * DELAY, "there and back");
        assert!(answered(&mut driver, &mut client, WRITE) >= 4 * DELAY, "and the data are fetched");
    }
    assert!(began.elapsed() < NAP, "nobody has slept to the end");
}
