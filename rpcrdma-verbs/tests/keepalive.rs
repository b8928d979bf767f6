//! Keep-alive: idle connections stay, and connections to dead peers end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

mod endpoints;

use std::time::{Duration, Instant};

use endpoints::{Block, ECHO, World, call};
use rpcrdma_proto::connection::{CloseReason, Config};
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::client::{CallId, Client, ClientEvent};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::provider::{Capabilities, Device};
use rpcrdma_verbs::rpc::Credentials;
use rpcrdma_verbs::server::Server;

const INTERVAL: Duration = Duration::from_millis(20);
/// The time after which an event has certainly not happened.
const LONG: Duration = Duration::from_millis(400);
/// The timeout for an event, however busy the machine is.
const TIME: Duration = Duration::from_secs(20);

/// A device that does not acknowledge, like iWARP devices.
fn unacknowledging(fabric: &std::sync::Arc<Fabric>) -> SoftwareDevice {
    let capabilities = fabric.device().capabilities().clone();
    fabric.device_with(Capabilities {
        acknowledges: false,
        rnr_retry: false,
        ..capabilities
    })
}

fn echo(client: &Client, driver: &mut Driver<SoftwareDevice>) -> CallId {
    client
        .call(driver, call(ECHO, 64), |writer| {
            writer.bytes(b"hello");
            Ok(())
        })
        .unwrap()
}

/// Returns the events of the client until this time.
fn told(
    client: &Client,
    driver: &mut Driver<SoftwareDevice>,
    within: Duration,
) -> Vec<ClientEvent> {
    let began = Instant::now();
    let mut told = Vec::new();
    while let Some(left) = within.checked_sub(began.elapsed()) {
        driver.wait(left).unwrap();
        told.extend(std::iter::from_fn(|| client.event(driver)));
    }
    told
}

/// Returns true if the client's connection is lost within this time.
fn is_lost(client: &Client, driver: &mut Driver<SoftwareDevice>, within: Duration) -> bool {
    let began = Instant::now();
    while let Some(left) = within.checked_sub(began.elapsed()) {
        driver.wait(left).unwrap();
        match client.event(driver) {
            Some(ClientEvent::Closed {
                why: CloseReason::Lost,
                ..
            }) => return true,
            Some(event) => panic!("{event:?}"),
            None => {}
        }
    }
    false
}

/// Creates two ends with a connection that has answered a call.
fn busy(fabric: std::sync::Arc<Fabric>, devices: [SoftwareDevice; 2]) -> World {
    let mut world = World::on(fabric, devices, Config::client(), Config::server());
    let first = echo(&world.client, &mut world.near);
    let began = Instant::now();
    while began.elapsed() < TIME {
        world.turn();
        match world.client.event(&mut world.near) {
            Some(ClientEvent::Answered { call, .. }) if call == first => return world,
            _ => {}
        }
    }
    panic!("no answer");
}

/// The server takes a call, and dies before it answers.
fn dies_with_a_call(world: &mut World) -> CallId {
    let call = echo(&world.client, &mut world.near);
    world.near.turn().unwrap();
    world.far.turn().unwrap();
    world.far.device().lose_power();
    call
}

#[test]
fn a_call_that_a_dead_server_has_taken_is_answered_by_the_next() {
    for device in [Fabric::device, unacknowledging] {
        let fabric = Fabric::new();
        let mut world = busy(fabric.clone(), [device(&fabric), device(&fabric)]);
        world.near.keep_alive(Some(INTERVAL));
        let waiting = dies_with_a_call(&mut world);
        let World {
            client,
            mut near,
            far,
            server,
            ..
        } = world;
        let address = server.address();
        drop((server, far));

        let mut far = Driver::new(&fabric.device(), &Budget::new(1 << 28), 4096).unwrap();
        let block = Block::new(far.pool());
        let mut server = Server::bind(&mut far, address, Config::server(), block).unwrap();
        let began = Instant::now();
        let mut seen = Vec::new();
        while began.elapsed() < TIME {
            near.wait(Duration::from_millis(1)).unwrap();
            far.turn().unwrap();
            server.serve(&mut far);
            match client.event(&mut near) {
                Some(ClientEvent::Answered { call, answer }) => {
                    assert_eq!((call, answer.results()), (waiting, &b"hello"[..]));
                    break;
                }
                event => seen.extend(event),
            }
        }
        let [
            ClientEvent::Closed {
                why: CloseReason::Lost,
                ..
            },
            ClientEvent::Ready(_),
        ] = seen[..]
        else {
            panic!("lost, and there again: {seen:?}");
        };
        assert!(near.counters(client.id()).unwrap().probes > 0);
    }
}

#[test]
fn nobody_asks_who_was_told_not_to() {
    let fabric = Fabric::new();
    let mut world = busy(fabric.clone(), [fabric.device(), fabric.device()]);
    world.near.keep_alive(Some(INTERVAL));
    world.near.keep_alive(None);
    dies_with_a_call(&mut world);
    assert!(told(&world.client, &mut world.near, LONG).is_empty());
    assert_eq!(world.near.counters(world.client.id()).unwrap().probes, 0);
    world.near.keep_alive(Some(INTERVAL));
    assert!(is_lost(&world.client, &mut world.near, TIME));
}

#[test]
fn a_server_lets_go_of_a_client_that_has_died() {
    let fabric = Fabric::new();
    let mut world = busy(fabric.clone(), [fabric.device(), fabric.device()]);
    world.far.keep_alive(Some(INTERVAL));
    world.near.device().lose_power();
    let began = Instant::now();
    while !world.server.connections().is_empty() {
        assert!(began.elapsed() < TIME, "it is never let go");
        world.far.wait(INTERVAL).unwrap();
        world.server.serve(&mut world.far);
    }
}

#[test]
fn who_is_there_and_says_nothing_is_kept() {
    for device in [Fabric::device, unacknowledging] {
        let fabric = Fabric::new();
        let mut world = busy(fabric.clone(), [device(&fabric), device(&fabric)]);
        world.near.keep_alive(Some(Duration::from_millis(5)));
        // Its device answers although nothing turns its driver.
        let began = Instant::now();
        while world.near.counters(world.client.id()).unwrap().probes <= 3 {
            assert!(began.elapsed() < TIME, "it is not asked");
            assert!(told(&world.client, &mut world.near, INTERVAL).is_empty());
        }
        let again = echo(&world.client, &mut world.near);
        world.turn();
        world.turn();
        let events: Vec<_> = std::iter::from_fn(|| world.client.event(&mut world.near)).collect();
        assert!(
            matches!(events[..], [ClientEvent::Answered { call, .. }] if call == again),
            "{events:?}"
        );
    }
}

/// If the device does not acknowledge, the wait for an answer has a limit. If it does, the device
/// decides when to give up.
#[test]
fn an_answer_is_waited_for_where_the_device_gives_up_by_itself() {
    for (device, ends) in [
        (Fabric::device as fn(&_) -> _, false),
        (unacknowledging, true),
    ] {
        let fabric = Fabric::with_delay(TIME);
        let mut world = World::on(
            fabric.clone(),
            [device(&fabric), device(&fabric)],
            Config {
                max_reconnect_delay: 1_000_000,
                ..Config::client()
            },
            Config::server(),
        );
        world.near.keep_alive(Some(INTERVAL));
        let call = echo(&world.client, &mut world.near);
        world.turn();
        world.turn();
        assert_eq!(
            is_lost(
                &world.client,
                &mut world.near,
                if ends { TIME } else { LONG }
            ),
            ends
        );
        world.client.cancel(&mut world.near, call);
    }
}

#[test]
fn who_has_nobody_to_ask_sleeps() {
    let fabric = Fabric::new();
    let World {
        client,
        mut near,
        mut far,
        ..
    } = busy(fabric.clone(), [fabric.device(), fabric.device()]);
    near.keep_alive(Some(INTERVAL));
    far.turn().unwrap();
    let sleeps = |driver: &mut Driver<SoftwareDevice>| {
        let began = Instant::now();
        assert!(!driver.wait(LONG).unwrap(), "nothing happens");
        began.elapsed() >= LONG
    };
    near.forget(client.id());
    sleeps(&mut near);
    assert!(sleeps(&mut near), "there is nobody any more");
}

/// Probes need entries of the completion queue, so they are not all sent at once.
#[test]
fn more_are_asked_than_the_completion_queue_has_places() {
    const MANY: usize = 200;
    let fabric = Fabric::new();
    let driver =
        |completions| Driver::new(&fabric.device(), &Budget::new(1 << 28), completions).unwrap();
    let (mut near, mut far) = (driver(64), driver(1 << 14));
    let config = Config {
        max_version: Version::One,
        ..Config::server()
    };
    let block = Block::new(far.pool());
    let mut server = Server::bind(&mut far, ([127, 0, 0, 1], 0).into(), config, block).unwrap();
    let config = Config {
        max_version: Version::One,
        ..Config::client()
    };
    let connect = |near: &mut _| {
        Client::connect(near, server.address(), config.clone(), Credentials::none()).unwrap()
    };
    let clients: Vec<_> = (0..MANY).map(|_| connect(&mut near)).collect();
    near.keep_alive(Some(INTERVAL));
    let asked = |near: &Driver<_>| {
        clients
            .iter()
            .filter(|client| near.counters(client.id()).unwrap().probes > 0)
            .count()
    };
    let began = Instant::now();
    while asked(&near) < MANY {
        assert!(began.elapsed() < TIME, "not all are asked");
        near.turn().unwrap();
        far.turn().unwrap();
        server.serve(&mut far);
    }
    assert_eq!(server.connections().len(), MANY);
}
