mod simulation;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::permit::Step;

fn request(host: u8, port: u16) -> ConnectRequest<'static> {
    ConnectRequest::new(([127, 0, 0, host], port).into(), "tcp", &[])
}

fn is_ready(future: impl Future<Output = ()>) -> bool {
    let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    polled == Poll::Ready(())
}

#[test]
fn connections_are_limited_in_all_and_per_peer() {
    let limits = ServerLimits::new();
    let limits = limits.max_connections(3).max_connections_per_peer(2);
    let control = ServerControl::new(limits);
    let admit = |host| control.admit(&request(host, 700));
    let (first, second, other) = (admit(1).unwrap(), admit(1).unwrap(), admit(2).unwrap());
    assert_eq!(
        admit(3).unwrap_err(),
        RejectReason::Limit(Limit::Connections)
    );
    drop(other);
    let of_peer = RejectReason::Limit(Limit::ConnectionsPerPeer);
    assert_eq!(admit(1).unwrap_err(), of_peer);
    drop(first);
    let third = admit(1).unwrap();
    let stats = control.stats();
    assert_eq!(
        (stats.connections, stats.accepted, stats.rejected),
        (2, 4, 2)
    );
    assert_eq!(stats.reached(Limit::Connections), 1);
    assert_eq!(stats.reached(Limit::ConnectionsPerPeer), 1);
    drop((second, third));
    assert_eq!(control.stats().connections, 0);
}

/// The names are those of the settings, as in `Limit::name` and the metrics.
#[test]
fn the_text_of_the_counters_names_the_limits_that_were_reached() {
    let control = ServerControl::new(ServerLimits::new().max_connections(0));
    let text = "reached: {} }";
    assert!(format!("{:?}", control.stats()).ends_with(text));
    control.admit(&request(1, 700)).unwrap_err();
    control.admit(&request(1, 701)).unwrap_err();
    let text = format!("{:?}", control.stats());
    assert!(text.ends_with("reached: {max_connections: 2} }"), "{text}");
}

/// The calls of a connection count while it ends, too.
#[test]
fn the_number_of_calls_never_decreases() {
    const CONNECTIONS: u64 = 2000;
    let control = ServerControl::default();
    let has_ended = AtomicBool::new(false);
    // `stats` reads them first, so that later connections end meanwhile.
    let admit = |host| control.admit(&request(host, 700)).unwrap();
    let others: Vec<_> = (0..200).map(admit).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CONNECTIONS {
                let connection = admit(255);
                connection.count_call();
                // They last as long as `stats` takes.
                let _ = control.stats();
            }
            has_ended.store(true, Relaxed);
        });
        let mut before = 0;
        while !has_ended.load(Relaxed) {
            let calls = control.stats().calls;
            assert!(calls >= before, "{calls} after {before}");
            before = calls;
        }
    });
    drop(others);
    assert_eq!(control.stats().calls, CONNECTIONS);
}

#[test]
fn hook_sees_the_peer_and_its_reason_is_returned() {
    let control = ServerControl::with_hook(ServerLimits::new(), |request| {
        match (request.address.port(), request.private_data) {
            (700, []) => Ok(()),
            (port, _) => Err(format!("port {port}").into()),
        }
    });
    assert!(control.admit(&request(1, 700)).is_ok());
    let error = control.admit(&request(1, 701)).unwrap_err();
    assert_eq!(error.to_string(), "port 701");
    assert_eq!(control.stats().rejected, 1);
}

#[test]
fn hook_sees_ipv4_addresses_as_such() {
    let control = ServerControl::with_hook(ServerLimits::new(), |request| {
        let is_loopback = request.address.ip().is_loopback();
        is_loopback.then_some(()).ok_or_else(|| "no".into())
    });
    let admit = |ip: &str| {
        let address = SocketAddr::new(ip.parse().unwrap(), 700);
        control.admit(&ConnectRequest::new(address, "tcp", &[]))
    };
    assert!(admit("::ffff:127.0.0.1").is_ok());
    assert!(admit("::1").is_ok());
    assert!(admit("::ffff:192.0.2.1").is_err());
}

/// A subscriber that asks for the counters at each event.
struct Asking(ServerControl, Arc<Wakes>);

impl tracing::Subscriber for Asking {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        // `stats` takes the lock.
        assert_eq!(self.0.stats().accepted, 0);
        self.1.0.fetch_add(1, Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn subscribers_may_ask_for_the_counters() {
    let control = ServerControl::new(ServerLimits::new().max_connections(0));
    let events = Arc::new(Wakes::default());
    let subscriber = Asking(control.clone(), events.clone());
    tracing::subscriber::with_default(subscriber, || {
        assert!(control.admit(&request(1, 700)).is_err());
        assert!(control.admit(&request(1, 700)).is_err());
    });
    assert_eq!(events.0.load(Relaxed), 2);
}

#[test]
fn limits_of_connections_are_replaced_while_the_server_runs() {
    let limits = |all, peer| {
        let limits = ServerLimits::new().max_connections(all);
        limits.max_connections_per_peer(peer)
    };
    let control = ServerControl::new(limits(3, 3));
    let admit = |host| control.admit(&request(host, 700));
    let (first, second, third) = (admit(1).unwrap(), admit(1).unwrap(), admit(1).unwrap());
    // Lower limits end nothing.
    control.set_limits(limits(2, 1));
    assert_eq!(control.stats().connections, 3);
    let of_all = RejectReason::Limit(Limit::Connections);
    let of_peer = RejectReason::Limit(Limit::ConnectionsPerPeer);
    drop(first);
    assert_eq!(admit(2).unwrap_err(), of_all);
    drop(second);
    assert_eq!(admit(1).unwrap_err(), of_peer);
    let other = admit(2).unwrap();
    assert_eq!(admit(3).unwrap_err(), of_all);
    control.set_limits(limits(4, 2));
    let (fourth, fifth) = (admit(1).unwrap(), admit(2).unwrap());
    assert_eq!(admit(3).unwrap_err(), of_all);
    drop((third, other, fourth, fifth));
    assert_eq!(control.stats().connections, 0);
    assert_eq!(control.limits(), limits(4, 2));
}

/// Counts how often it was woken.
#[derive(Default)]
struct Wakes(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_wait_ends_where_limits_are_raised() {
    let limits = ServerLimits::new().max_calls_per_connection(1);
    let control = ServerControl::new(limits);
    let connection = control.admit(&request(1, 700)).unwrap();
    let call = connection.call(0);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut ready = pin!(connection.ready());
    let mut poll = || ready.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(poll(), Poll::Pending);
    control.set_limits(limits.max_calls_per_connection(2));
    assert_eq!(wakes.0.load(Relaxed), 1);
    assert_eq!(poll(), Poll::Ready(()));
    drop(call);
}

/// Calls and bytes beyond lowered limits end when they come back, and who waits for more than
/// there can ever be waits for less.
#[test]
fn budgets_shrink_as_they_are_given_back() {
    const MIB: usize = 1 << 20;
    let limits = ServerLimits::new().max_bytes(8 * MIB);
    let limits = limits.max_bytes_per_peer(8 * MIB);
    let control = ServerControl::new(limits);
    let admit = |host| control.admit(&request(host, 700)).unwrap();
    let (one, two) = (admit(1), admit(2));
    assert!(is_ready(one.wait(Step::Reserve(6 * MIB))));
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut large = Box::pin(two.wait(Step::Reserve(7 * MIB)));
    let mut poll = || large.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(poll(), Poll::Pending);
    control.set_limits(limits.max_bytes(2 * MIB));
    assert_eq!(wakes.0.load(Relaxed), 1);
    assert_eq!(poll(), Poll::Pending);
    drop(one.arrived(0));
    // A message may take the whole budget, which is smaller now.
    assert!(wakes.0.load(Relaxed) > 1);
    assert_eq!(poll(), Poll::Ready(()));
    drop(large);
    assert!(!is_ready(one.wait(Step::Reserve(MIB))));
    drop(two.arrived(0));
    assert!(is_ready(one.wait(Step::Reserve(MIB))));
    drop(one.arrived(0));
    // Raised again, all of it is there.
    control.set_limits(limits);
    assert!(is_ready(two.wait(Step::Reserve(8 * MIB))));
    assert!(!is_ready(one.wait(Step::Reserve(MIB))));
}

/// Waits that begin anew with lowered limits pass nothing on that is beyond them.
#[test]
fn cancelled_waits_pass_on_no_excess() {
    const MIB: usize = 1 << 20;
    let limits = ServerLimits::new().max_bytes(8 * MIB);
    let limits = limits.max_bytes_per_peer(8 * MIB);
    let control = ServerControl::new(limits);
    let [one, two, three] = [1, 2, 3].map(|host| control.admit(&request(host, 700)).unwrap());
    assert!(is_ready(one.wait(Step::Reserve(6 * MIB))));
    let mut waits =
        [&two, &three].map(|connection| Box::pin(connection.wait(Step::Reserve(7 * MIB))));
    let mut poll = || {
        waits.each_mut().map(|wait| {
            let mut cx = Context::from_waker(Waker::noop());
            wait.as_mut().poll(&mut cx).is_ready()
        })
    };
    assert_eq!(poll(), [false, false]);
    control.set_limits(limits.max_bytes(2 * MIB));
    for _ in 0..3 {
        assert_eq!(poll(), [false, false]);
    }
    drop(one.arrived(0));
    assert_eq!(poll().map(usize::from).iter().sum::<usize>(), 1);
}

#[test]
fn ended_connections_take_no_memory() {
    let control = ServerControl::default();
    for number in 0..10_000u16 {
        let [high, low] = number.to_be_bytes();
        let address = ([10, 0, high, low], 700).into();
        control
            .admit(&ConnectRequest::new(address, "tcp", &[]))
            .unwrap();
    }
    let table = control.lock();
    assert!(table.peers.len() <= 64 && table.connections.len() <= 64);
}

/// The limits count calls beyond the first of a connection, and are shared by connections.
#[test]
fn calls_wait_for_the_budgets_of_peer_and_server() {
    let limits = ServerLimits::new().max_calls(3).max_calls_per_peer(2);
    let control = ServerControl::new(limits);
    let [one, two, other] = [(1, 700), (1, 701), (2, 700)].map(|(host, port)| request(host, port));
    let [one, two, other] = [one, two, other].map(|request| control.admit(&request).unwrap());
    let mut calls = Vec::new();
    for (connection, reached) in [
        (&one, None),
        (&one, None),
        (&two, None),
        (&one, None),
        (&one, Some(Limit::CallsPerPeer)),
        (&two, Some(Limit::CallsPerPeer)),
        (&other, None),
        (&other, None),
        (&other, Some(Limit::Calls)),
    ] {
        let before = reached.map(|limit| control.stats().reached(limit));
        assert_eq!(
            is_ready(connection.ready()),
            reached.is_none(),
            "{reached:?}"
        );
        if let (Some(limit), Some(before)) = (reached, before) {
            assert_eq!(control.stats().reached(limit), before + 1);
            continue;
        }
        calls.push(connection.call(0));
    }
    assert_eq!(control.stats().calls_in_flight, 6);

    // A closed connection returns what its handlers do not need.
    drop(one);
    assert!(!is_ready(two.ready()));
    calls.clear();
    assert!(is_ready(two.ready()));
    assert!(is_ready(other.ready()));
    assert_eq!(control.stats().calls_in_flight, 0);
}

#[test]
fn bytes_wait_for_the_budget_and_a_cancelled_wait_takes_none() {
    const MIB: usize = 1 << 20;
    let limits = ServerLimits::new();
    let limits = limits.max_bytes(5 * MIB).max_bytes_per_peer(4 * MIB);
    let control = ServerControl::new(limits);
    let admit = |host| control.admit(&request(host, 700)).unwrap();
    let (one, two, other) = (admit(1), admit(1), admit(2));
    assert!(is_ready(one.wait(Step::Reserve(3 * MIB))));
    assert!(!is_ready(two.wait(Step::Reserve(2 * MIB))));
    assert_eq!(control.stats().reached(Limit::BytesPerPeer), 1);
    assert!(is_ready(two.wait(Step::Reserve(MIB))));
    assert!(!is_ready(other.wait(Step::Reserve(2 * MIB))));
    assert_eq!(control.stats().reached(Limit::Bytes), 1);
    assert!(is_ready(other.wait(Step::Reserve(MIB))));
    assert_eq!(control.stats().bytes, 5 * MIB);
    // Short messages continue.
    assert!(is_ready(admit(3).ready()));

    // A call that has arrived counts until its handler ends, on an open connection or not.
    let call = one.arrived(3 * MIB).begin();
    drop(one);
    assert_eq!(control.stats().bytes, 5 * MIB);
    assert!(!is_ready(two.wait(Step::Reserve(MIB))));
    drop(call);
    assert!(is_ready(two.wait(Step::Reserve(MIB))));
    assert_eq!(control.stats().bytes, 3 * MIB);
}

/// A message that is larger than the budget gets all of it.
#[test]
fn a_message_that_is_larger_than_the_budget_is_not_refused_for_ever() {
    let limits = ServerLimits::new().max_bytes(1 << 20);
    let control = ServerControl::new(limits);
    let admit = |host| control.admit(&request(host, 700)).unwrap();
    let (one, other) = (admit(1), admit(2));
    assert!(is_ready(one.wait(Step::Reserve(4 << 20))));
    assert!(!is_ready(other.wait(Step::Reserve(1 << 20))));
    drop(one.arrived(0));
    assert!(is_ready(other.wait(Step::Reserve(1 << 20))));
}

/// Limits are rounded up to units of 4 KiB, and the least is one.
#[test]
fn limits_below_a_unit_are_limits() {
    for (max, fits) in [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192)] {
        let control = ServerControl::new(ServerLimits::new().max_bytes(max));
        let admit = |host| control.admit(&request(host, 700)).unwrap();
        let (one, other) = (admit(1), admit(2));
        assert!(is_ready(one.wait(Step::Reserve(OWN + fits))));
        assert!(!is_ready(other.wait(Step::Reserve(OWN + 1))), "{max}");
        drop(one.arrived(0));
        assert!(is_ready(other.wait(Step::Reserve(OWN + 1))));
    }
}

/// Unread results block only their own connection.
#[test]
fn a_connection_is_full_of_its_own_replies() {
    let control = ServerControl::default();
    let admit = |host| control.admit(&request(host, 700)).unwrap();
    let (one, other) = (admit(1), admit(1));
    one.set_outgoing(8 << 20);
    assert!(!is_ready(one.ready()) && is_ready(other.ready()));
    assert_eq!(control.stats().reached(Limit::BytesPerConnection), 1);
    one.set_outgoing(0);
    assert!(is_ready(one.ready()));
}

/// Connections without calls hold nothing that others wait for.
#[test]
fn idle_connections_do_not_wait_for_each_other() {
    const MIB: usize = 1 << 20;
    let control = ServerControl::default();
    let connections: Vec<_> = (0..24)
        .map(|port| control.admit(&request(1, port)).unwrap())
        .collect();
    for connection in &connections {
        assert!(is_ready(connection.wait(Step::Reserve(8 * MIB / 3))));
        drop(connection.arrived(8 * MIB / 3));
    }
    assert_eq!(control.stats().bytes, 0);
    assert!(is_ready(connections[0].wait(Step::Reserve(4 * MIB))));
}

/// The same for the budget of all peers.
#[test]
fn idle_connections_of_several_peers_do_not_wait_for_each_other() {
    const MIB: usize = 1 << 20;
    let control = ServerControl::default();
    let connections: Vec<_> = (0..96)
        .map(|host| control.admit(&request(host, 700)).unwrap())
        .collect();
    for connection in &connections {
        assert!(is_ready(connection.wait(Step::Reserve(8 * MIB / 3))));
        drop(connection.arrived(8 * MIB / 3));
    }
    assert!(is_ready(connections[0].wait(Step::Reserve(4 * MIB))));
}

/// A connection with a short call in flight keeps no reserve.
#[test]
fn short_calls_in_flight_keep_nothing_of_long_ones() {
    const MIB: usize = 1 << 20;
    let control = ServerControl::new(ServerLimits::new().max_bytes_per_peer(4 * MIB));
    let admit = |port| control.admit(&request(1, port)).unwrap();
    let (one, other) = (admit(700), admit(701));
    let _short = one.call(100);
    assert!(is_ready(one.wait(Step::Reserve(MIB))));
    drop(one.arrived(MIB).begin());
    assert!(is_ready(other.wait(Step::Reserve(4 * MIB))));
}

/// Received calls that wait hold no units that the calls before them need.
#[test]
fn received_calls_do_not_wait_for_each_other() {
    const MIB: usize = 1 << 20;
    let control = ServerControl::new(ServerLimits::new().max_bytes_per_peer(4 * MIB));
    let admit = |port| control.admit(&request(1, port)).unwrap();
    let connections = [admit(700), admit(701)];
    let received = connections.each_ref().map(|connection| {
        assert!(is_ready(connection.wait(Step::Reserve(MIB))));
        let first = connection.arrived(MIB);
        // Read beyond the limits, before a reply of the client.
        assert!(!is_ready(connection.wait(Step::Reserve(3 * MIB))));
        connection.exceed(3 * MIB);
        [first, connection.arrived(3 * MIB)]
    });
    assert_eq!(control.stats().bytes, 8 * MIB);
    for (connection, calls) in connections.iter().zip(received) {
        for call in calls {
            assert!(!is_ready(connection.wait(Step::Read)));
            assert!(is_ready(connection.ready()));
            drop(call.begin());
        }
        assert!(is_ready(connection.wait(Step::Read)));
    }
    assert_eq!(control.stats().bytes, 0);
}

/// A received call does not wait for the record behind it, which a draining connection never reads
/// to its end.
#[test]
fn a_received_call_does_not_wait_for_the_next_record() {
    const MIB: usize = 1 << 20;
    let limits = ServerLimits::new().max_bytes_per_connection(MIB);
    let control = ServerControl::new(limits.max_bytes_per_peer(MIB));
    let connection = control.admit(&request(1, 700)).unwrap();
    let received = connection.arrived(100);
    connection.exceed(2 * MIB);
    assert!(is_ready(connection.ready()));
    let call = received.begin();
    assert!(!is_ready(connection.wait(Step::Reserve(1))));
    drop(call);
}

/// A record that needs more than the budget together with what its connection has waits for that.
#[test]
fn a_large_message_waits_for_its_own_connection() {
    const MIB: usize = 1 << 20;
    let control = ServerControl::new(ServerLimits::new().max_bytes_per_peer(4 * MIB));
    let admit = |port| control.admit(&request(1, port)).unwrap();
    let (one, other) = (admit(700), admit(701));
    assert!(is_ready(one.wait(Step::Reserve(2 * MIB))));
    let call = one.arrived(2 * MIB).begin();
    let mut large = Box::pin(one.wait(Step::Reserve(3 * MIB)));
    let mut poll = || large.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(poll(), Poll::Pending);
    // It waits in no queue.
    assert!(is_ready(other.wait(Step::Reserve(2 * MIB))));
    drop(other.arrived(2 * MIB));
    drop(call);
    assert_eq!(poll(), Poll::Ready(()));
}

/// The bytes that a connection may have beyond the limits.
const OWN: usize = 32 << 10;
