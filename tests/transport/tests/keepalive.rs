//! Keep-alive: idle connections stay, and connections to dead peers end.

use std::time::{Duration, Instant};

use oncrpc::PendingCall;
use rpcrdma_proto::connection::{CloseReason, Config};
use rpcrdma_proto::version::Version;
use rpcrdma_transport_tests::block::Block;
use rpcrdma_transport_tests::block1::{Client, Echo};
use rpcrdma_transport_tests::device_source::{DeviceSource, Iwarp, Software, Unacknowledging};
use rpcrdma_transport_tests::ends::{Ends, connect, devices, serve};
use rpcrdma_transport_tests::on_software_and_iwarp;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::provider::{Capabilities, Device};
use rpcrdma_verbs::{LocalChannel, LocalEvent};

const INTERVAL: Duration = Duration::from_millis(20);
/// The time after which an event has certainly not happened.
const LONG: Duration = Duration::from_millis(400);
/// The timeout for an event, even on a busy machine.
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

/// Returns the events of the client within this time.
fn events<D: Device>(ends: &mut Ends<D>, within: Duration) -> Vec<LocalEvent> {
    let began = Instant::now();
    let mut events = Vec::new();
    while let Some(left) = within.checked_sub(began.elapsed()) {
        ends.near.wait(left).unwrap();
        events.extend(std::iter::from_fn(|| ends.event()));
    }
    events
}

/// Returns true if the client's connection is lost within this time.
fn is_lost<D: Device>(ends: &mut Ends<D>, within: Duration) -> bool {
    let began = Instant::now();
    while let Some(left) = within.checked_sub(began.elapsed()) {
        ends.near.wait(left).unwrap();
        match ends.event() {
            Some(LocalEvent::Disconnected {
                reason: CloseReason::Lost,
                ..
            }) => return true,
            Some(event) => panic!("{event:?}"),
            None => {}
        }
    }
    false
}

/// Returns the number of probes of the client.
fn probes<D: Device>(near: &Driver<D>, client: &LocalChannel<D>) -> u64 {
    near.counters(client.id()).unwrap().probes
}

/// Creates two ends with a connection on which a call was answered.
fn busy(devices: [SoftwareDevice; 2]) -> Ends {
    let mut ends = Ends::on(devices, Config::client(), Config::server());
    ends.echo(b"hello");
    ends
}

/// Creates two ends on devices of a source, with a connection on which a call was answered.
fn busy_of<G: DeviceSource>(source: &G) -> Ends<G::Device> {
    let mut ends = Ends::of(source, Config::client(), Config::server());
    ends.echo(b"hello");
    ends
}

/// The server receives a call, and dies before it answers.
fn dies_with_a_call(ends: &mut Ends) -> PendingCall<Echo> {
    let call = ends.begin_echo(b"hello");
    ends.near.turn().unwrap();
    ends.far.turn().unwrap();
    ends.far.device().lose_power();
    call
}

#[test]
fn a_call_of_a_dead_server_is_answered_by_the_next() {
    for device in [Fabric::device, unacknowledging] {
        let fabric = Fabric::new();
        let mut ends = busy([device(&fabric), device(&fabric)]);
        ends.near.keep_alive(Some(INTERVAL));
        let waiting = dies_with_a_call(&mut ends);
        let channel = ends.channel();
        let Ends {
            mut near,
            far,
            server,
            ..
        } = ends;
        let address = server.local_addr();
        drop((server, far));

        let mut far = Driver::new(&fabric.device(), &Budget::new(1 << 28), 4096).unwrap();
        let mut server = serve(&mut far, address, Config::server(), &Block::default());
        let began = Instant::now();
        let mut seen = Vec::new();
        loop {
            assert!(began.elapsed() < TIME, "no answer: {seen:?}");
            near.wait(Duration::from_millis(1)).unwrap();
            far.turn().unwrap();
            server.serve(&mut far);
            match channel.poll_event(&mut near) {
                Some(LocalEvent::Completed(completed)) => {
                    let is_same = |reply: &[u8]| reply == b"hello";
                    let result = channel.read(&waiting, &completed, is_same);
                    assert!(result.expect("its reply").unwrap());
                    break;
                }
                event => seen.extend(event),
            }
        }
        let [
            LocalEvent::Disconnected {
                reason: CloseReason::Lost,
                ..
            },
            LocalEvent::Connected(_),
        ] = seen[..]
        else {
            panic!("lost, and there again: {seen:?}");
        };
        assert!(probes(&near, &channel) > 0);
    }
}

#[test]
fn disabled_keepalive_sends_no_probes() {
    let mut ends = busy(devices(&Fabric::new()));
    ends.near.keep_alive(Some(INTERVAL));
    ends.near.keep_alive(None);
    dies_with_a_call(&mut ends);
    assert!(events(&mut ends, LONG).is_empty());
    assert_eq!(probes(&ends.near, ends.client.transport()), 0);
    ends.near.keep_alive(Some(INTERVAL));
    assert!(is_lost(&mut ends, TIME));
}

#[test]
fn a_server_drops_a_dead_client() {
    let mut ends = busy(devices(&Fabric::new()));
    ends.far.keep_alive(Some(INTERVAL));
    ends.near.device().lose_power();
    let began = Instant::now();
    while !ends.server.connections().is_empty() {
        assert!(began.elapsed() < TIME, "it is never let go");
        ends.far.wait(INTERVAL).unwrap();
        ends.server.serve(&mut ends.far);
    }
}

/// A peer that does nothing keeps its connection. Its device responds although its driver is not
/// turned, except on iWARP over TCP.
fn an_idle_peer_keeps_its_connection(source: &impl DeviceSource) {
    let mut ends = busy_of(source);
    ends.near.keep_alive(Some(Duration::from_millis(5)));
    let began = Instant::now();
    while probes(&ends.near, ends.client.transport()) <= 3 {
        assert!(began.elapsed() < TIME, "it is not asked");
        if source.answers_alone() {
            assert!(events(&mut ends, INTERVAL).is_empty());
        } else {
            ends.turn();
            assert!(ends.event().is_none());
        }
    }
    let again = ends.begin_echo(b"hello");
    assert_eq!(ends.completed().xid(), again.xid());
}

#[test]
fn an_idle_peer_that_does_not_acknowledge_keeps_its_connection() {
    an_idle_peer_keeps_its_connection(&Unacknowledging(Software::new()));
}

/// Over iWARP, a process that stops does not answer: the other end gives it up.
#[test]
fn a_stopped_peer_is_lost_over_iwarp() {
    let mut ends = busy_of(&Iwarp);
    ends.near.keep_alive(Some(INTERVAL));
    assert!(is_lost(&mut ends, TIME), "the server stops");
    let mut ends = busy_of(&Iwarp);
    ends.far.keep_alive(Some(INTERVAL));
    let began = Instant::now();
    while !ends.server.connections().is_empty() {
        assert!(began.elapsed() < TIME, "the client stops");
        ends.far.wait(INTERVAL).unwrap();
        ends.server.serve(&mut ends.far);
    }
}

/// If the device does not acknowledge, the wait for an answer has a limit. Otherwise the device
/// decides when to give up.
#[test]
fn the_device_limits_the_wait_for_an_answer() {
    for (device, gives_up) in [
        (Fabric::device as fn(&_) -> _, false),
        (unacknowledging, true),
    ] {
        let fabric = Fabric::with_delay(TIME);
        let client = Config {
            max_reconnect_delay: 1_000_000,
            ..Config::client()
        };
        let devices = [device(&fabric), device(&fabric)];
        let mut ends = Ends::on(devices, client, Config::server());
        ends.near.keep_alive(Some(INTERVAL));
        let call = ends.begin_echo(b"hello");
        ends.turn();
        ends.turn();
        let within = if gives_up { TIME } else { LONG };
        assert_eq!(is_lost(&mut ends, within), gives_up);
        ends.channel().cancel(&mut ends.near, &call);
    }
}

fn a_driver_without_connections_sleeps<G: DeviceSource>(source: &G) {
    let mut ends = busy_of(source);
    ends.near.keep_alive(Some(INTERVAL));
    ends.far.turn().unwrap();
    ends.near.forget(ends.client.transport().id());
    // It ends its connection first.
    ends.near.wait(LONG).unwrap();
    let began = Instant::now();
    while began.elapsed() < TIME {
        let waits = Instant::now();
        if !ends.near.wait(LONG).unwrap() && waits.elapsed() >= LONG {
            return;
        }
    }
    panic!("there is nobody any more");
}

/// Probes need entries of the completion queue, so they are not all sent at once.
fn probes_exceed_the_completion_queue<G: DeviceSource>(source: &G) {
    const MANY: usize = 200;
    let driver = |device: &G::Device, completions| {
        Driver::new(device, &Budget::new(1 << 28), completions).unwrap()
    };
    let mut near = driver(&source.open(), 64);
    let mut far = driver(&source.open_server(), 1 << 14);
    let in_version_one = |config| Config {
        max_version: Version::One,
        ..config
    };
    let config = in_version_one(Config::server());
    let mut server = serve(&mut far, source.address(), config, &Block::default());
    let (address, config) = (server.local_addr(), in_version_one(Config::client()));
    let clients: Vec<Client<LocalChannel<G::Device>>> = (0..MANY)
        .map(|_| connect(&mut near, address, config.clone()))
        .collect();
    near.keep_alive(Some(INTERVAL));
    let is_asked = |near: &Driver<_>, client: &Client<LocalChannel<_>>| {
        let counters = near.counters(client.transport().id());
        counters.unwrap().probes > 0
    };
    let began = Instant::now();
    while !clients.iter().all(|client| is_asked(&near, client)) {
        assert!(began.elapsed() < TIME, "not all are asked");
        near.turn().unwrap();
        far.turn().unwrap();
        server.serve(&mut far);
    }
    assert_eq!(server.connections().len(), MANY);
}

on_software_and_iwarp! {
    a_driver_without_connections_sleeps,
    an_idle_peer_keeps_its_connection,
    probes_exceed_the_completion_queue,
}
