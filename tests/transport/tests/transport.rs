//! A client and a server with separate drivers, as in a program that embeds them. The tests run on
//! the software fabric, and with the feature `ibverbs` on the device named in the environment
//! (`RPCRDMA_DEVICE`, listening at `RPCRDMA_ADDRESS`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use oncrpc::xdr::SharedBytes;
use oncrpc::{CallError, Router};
use rpcrdma_proto::connection::{CallFailure, CloseReason, Config};
use rpcrdma_proto::version::Version;
use rpcrdma_transport_tests::block::{self, Block, Callback};
use rpcrdma_transport_tests::device_source::{DeviceSource, Software, Unacknowledging};
use rpcrdma_transport_tests::ends::{self, Ends, PATIENCE};
use rpcrdma_transport_tests::schema::{BLOCK_SIZE, ReadArgs, Region};
use rpcrdma_transport_tests::traffic::failure;
use rpcrdma_transport_tests::{callback1, on_every_device};
use rpcrdma_verbs::memory::Frozen;
use rpcrdma_verbs::{LocalChannel, LocalEvent};

fn assert_failed<T: std::fmt::Debug>(result: Result<T, CallError>, text: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(text), "{error}");
}

fn a_null_call_is_answered_in_each_version(source: &impl DeviceSource) {
    for (max_version, version) in [(Version::One, Version::One), (Version::Two, Version::Two)] {
        let client = Config {
            max_version,
            ..Config::client()
        };
        let mut ends = Ends::of(source, client, Config::server());
        let call = ends.client.null().begin(&mut ends.near).unwrap();
        let connected = ends.next_event();
        assert!(
            matches!(connected, LocalEvent::Connected(settled) if settled == version),
            "{connected:?}"
        );
        ends.finish(&call, |()| ()).unwrap();
    }
}

fn bytes_round_trip(source: &impl DeviceSource) {
    let mut ends = Ends::of(source, Config::client(), Config::server());
    for count in [0, 1, 4, 64, 900, 3000, 5000, 70_000] {
        ends.echo(&block::bytes()[7..][..count]);
    }
}

fn data_are_placed_directly(source: &impl DeviceSource) {
    let mut ends = Ends::of(source, Config::client(), Config::server());
    let bytes = &block::bytes()[..300_001];
    ends.write(bytes);
    let written = ends.block.take_last().unwrap();
    assert!(written.as_bytes() == bytes);
    // The data stay where the device placed them, and so does a result.
    let read = ends.read(300_001);
    for placed in [&written, &read] {
        let frozen = rpcrdma_verbs::memory::Frozen::from_shared(placed);
        assert!(frozen.is_some(), "registered memory");
    }
}

fn denials_are_reported(source: &impl DeviceSource) {
    let mut ends = Ends::of(source, Config::client(), Config::server());
    let other = callback1::Client::new(ends.channel());
    let call = other.echo(&&b"hello"[..]).begin(&mut ends.near).unwrap();
    let result = ends.finish(&call, |_| ());
    assert_failed(result, "the server does not offer the program");
    let too_much = ReadArgs {
        count: BLOCK_SIZE + 1,
    };
    let call = ends.client.read(&too_much).begin(&mut ends.near).unwrap();
    let result = ends.finish(&call, |_| ());
    assert_failed(result, "the server failed");
}

/// A call that reuses the slot of a cancelled one, before the cancellation is reported, keeps its
/// message.
fn a_cancelled_call_does_not_affect_its_successor(source: &impl DeviceSource) {
    let mut ends = Ends::of(source, Config::client(), Config::server());
    let cancelled = ends.begin_write(&block::bytes()[..5000]);
    let channel = ends.channel();
    assert!(channel.cancel(&mut ends.near, &cancelled));
    let call = ends.begin_echo(b"bytes..");
    let result = ends.finish(&cancelled, |_| ());
    assert_failed(result, "it was cancelled (not executed)");
    let is_same = ends.finish(&call, |reply| reply == b"bytes..");
    assert!(is_same.unwrap());
}

/// A failed call keeps no item of its arguments.
fn a_cancelled_call_releases_its_items(source: &impl DeviceSource) {
    let mut ends = Ends::of(source, Config::client(), Config::server());
    let mut buf = ends.near.pool().take(5000).unwrap();
    buf.extend_from_slice(&block::bytes()[..5000]);
    let mut bytes = SharedBytes::from(Frozen::from(buf));
    let region = Region {
        bytes: bytes.clone().into(),
    };
    let call = ends.client.write(&region).begin(&mut ends.near).unwrap();
    drop(region);
    assert!(bytes.get_mut().is_none());
    let channel = ends.channel();
    assert!(channel.cancel(&mut ends.near, &call));
    let result = ends.finish(&call, |_| ());
    assert_failed(result, "it was cancelled (not executed)");
    assert!(bytes.get_mut().is_some());
}

/// A write of the server for a cancelled call is rejected, which ends the connection: the other
/// calls are retransmitted.
fn a_write_for_a_cancelled_call_ends_the_connection(source: &impl DeviceSource) {
    let client = Config {
        reconnect_delay: 1000,
        ..Config::client()
    };
    let mut ends = Ends::of(source, client, Config::server());
    ends.null();
    let channel = ends.channel();
    let cancelled = ends.begin_read(100_000);
    let other = ends.client.null().begin(&mut ends.near).unwrap();
    ends.near.turn().unwrap();
    assert!(channel.cancel(&mut ends.near, &cancelled));
    // Its memory is fenced before the server is turned.
    let fenced = loop {
        ends.near.turn().unwrap();
        if let Some(event) = ends.event() {
            break event;
        }
    };
    let LocalEvent::Completed(completed) = fenced else {
        panic!("{fenced:?}");
    };
    let result = channel.read(&cancelled, &completed, |_| ()).unwrap();
    let failed = failure(&result.unwrap_err());
    assert_eq!(failed, Some(CallFailure::Cancelled));
    // The other call may be answered before the connection ends, or over the next one.
    let (mut lost, mut answered) = (false, false);
    while !(lost && answered) {
        match ends.next_event() {
            LocalEvent::Disconnected { is_final, .. } => {
                assert!(!is_final);
                lost = true;
            }
            LocalEvent::Completed(completed) => {
                let result = channel.read(&other, &completed, |()| ());
                result.expect("its reply").unwrap();
                answered = true;
            }
            _ => {}
        }
    }
}

/// A client offers a service, and its server calls it once the client has reported that it is
/// ready.
fn a_server_calls_its_client(source: &impl DeviceSource) {
    let mut ends = Ends::of(source, Config::client(), Config::server());
    let (callback, address) = (Callback::default(), ends.server.local_addr());
    let services = Router::new().add_service(callback1::serve_local(callback.clone()));
    let config = Config::client();
    let channel =
        LocalChannel::connect_with_services(&mut ends.near, address, config, services).unwrap();
    ends.client = ends::client(channel);
    ends.null();
    let call = ends.client.ready().begin(&mut ends.near).unwrap();
    ends.finish(&call, |()| ()).unwrap();
    let connection = ends.block.take_ready().unwrap();
    let back = ends.server.caller(connection).unwrap();
    let back = callback1::Client::new(back);
    let call = back.echo(&&[7; 64][..]).begin(&mut ends.far).unwrap();
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < PATIENCE, "no answer");
        ends.turn();
        let event = ends.event();
        assert!(event.is_none(), "{event:?}");
        if let Some(event) = back.transport().poll_event(&mut ends.far) {
            let LocalEvent::Completed(completed) = event else {
                panic!("{event:?}");
            };
            let result = back
                .transport()
                .read(&call, &completed, |reply| reply == [7; 64]);
            assert!(result.expect("its reply").unwrap());
            break;
        }
    }
    assert_eq!(callback.served(), 1);
}

fn servers_of_one_driver_have_their_own_clients(source: &impl DeviceSource) {
    let first = Config {
        max_served: 3,
        ..Config::server()
    };
    let mut ends = Ends::of(source, Config::client(), first);
    let config = Config {
        max_served: 5,
        ..Config::server()
    };
    let of_second = Block::of(&[0xee; 16]);
    let mut second = ends::serve(&mut ends.far, source.address(), config, &of_second);
    let other = ends::connect(&mut ends.near, second.local_addr(), Config::client());
    let read = ReadArgs { count: 8 };
    let to_first = ends.client.read(&read).begin(&mut ends.near).unwrap();
    let to_second = other.read(&read).begin(&mut ends.near).unwrap();
    let (mut found, began) = ([None, None], Instant::now());
    while found.contains(&None) {
        assert!(began.elapsed() < PATIENCE, "{found:?}");
        ends.turn();
        second.serve(&mut ends.far);
        let clients = [(&ends.client, &to_first), (&other, &to_second)];
        for (found, (client, call)) in found.iter_mut().zip(clients) {
            while let Some(event) = client.transport().poll_event(&mut ends.near) {
                if let LocalEvent::Completed(completed) = event {
                    let read = client
                        .transport()
                        .read(call, &completed, |region| region.bytes.as_bytes().to_vec());
                    *found = Some(read.expect("its reply").unwrap());
                }
            }
        }
    }
    assert_eq!(
        found.map(Option::unwrap),
        [block::bytes()[..8].to_vec(), vec![0xee; 8]]
    );
    for (server, max_served) in [(&ends.server, 3), (&second, 5)] {
        let [connection] = server.connections() else {
            panic!("one each")
        };
        let session = ends.far.session(*connection).unwrap();
        assert_eq!(session.config().max_served, max_served);
    }
}

/// Calls that have arrived are answered, and their replies arrive before their connection ends. New
/// connections are rejected after that.
fn a_draining_server_answers_received_calls(source: &impl DeviceSource) {
    let client = Config {
        max_reconnect_delay: 1_000_000,
        ..Config::client()
    };
    let mut ends = Ends::of(source, client, Config::server());
    ends.null();
    let bytes = [0x5a; 600];
    let calls: Vec<_> = (0..8).map(|_| ends.begin_echo(&bytes)).collect();
    let connection = ends.far_id();
    let began = Instant::now();
    while ends.far.session(connection).unwrap().outstanding().1 < calls.len() {
        assert!(began.elapsed() < PATIENCE, "the calls do not come");
        ends.near.turn().unwrap();
        ends.far.turn().unwrap();
    }
    ends.server.drain(&mut ends.far);
    // The client sleeps in the meantime, and finds its replies and the end together.
    while !ends.server.is_drained() {
        assert!(began.elapsed() < PATIENCE, "it does not end");
        ends.half_turn(1);
        if !source.answers_alone() {
            ends.half_turn(0);
        }
    }
    for call in calls {
        let is_same = ends.finish(&call, |reply| reply == bytes);
        assert!(is_same.unwrap());
    }
    let events = [ends.next_event(), ends.next_event()];
    let reasons = events.map(|event| match event {
        LocalEvent::Disconnected { reason, .. } => reason,
        other => panic!("{other:?}"),
    });
    assert_eq!(
        reasons,
        [CloseReason::Lost, CloseReason::Unreachable],
        "the connection ends, and there is no other"
    );
}

/// A client that always has a call in flight does not prevent its server from ending, and no call
/// is lost.
fn a_busy_server_drains(source: &impl DeviceSource) {
    let client = Config {
        max_reconnect_delay: 1_000_000,
        ..Config::client()
    };
    let mut ends = Ends::of(source, client, Config::server());
    let channel = ends.channel();
    let (mut open, mut answered, began) = (Vec::new(), 0u32, Instant::now());
    while answered < 100 || !ends.server.is_drained() {
        assert!(began.elapsed() < PATIENCE, "it does not end");
        while open.len() < 16 {
            open.push(ends.client.null().begin(&mut ends.near).unwrap());
        }
        ends.turn();
        while let Some(event) = ends.event() {
            if let LocalEvent::Completed(completed) = event {
                let at = open.iter().position(|call| call.xid() == completed.xid());
                let call = open.swap_remove(at.unwrap());
                let result = channel.read(&call, &completed, |()| ());
                result.expect("its reply").unwrap();
                answered += 1;
            }
        }
        if answered >= 100 {
            ends.server.drain(&mut ends.far);
        }
    }
}

/// A server ends a connection at once. The client connects again, and its call is answered.
fn a_disconnected_client_reconnects(source: &impl DeviceSource) {
    let client = Config {
        reconnect_delay: 1000,
        ..Config::client()
    };
    let mut ends = Ends::of(source, client, Config::server());
    ends.null();
    let first = ends.far_id();
    let call = ends.begin_echo(b"hello");
    ends.near.turn().unwrap();
    ends.server.disconnect(&mut ends.far, first);
    assert!(ends.server.connections().is_empty());
    let lost = ends.next_event();
    assert!(
        matches!(
            lost,
            LocalEvent::Disconnected {
                is_final: false,
                ..
            }
        ),
        "{lost:?}"
    );
    let is_same = ends.finish(&call, |reply| reply == b"hello");
    assert!(is_same.unwrap());
    // The connection is a new one, and the old id does not end it.
    ends.server.disconnect(&mut ends.far, first);
    assert_eq!(ends.server.connections().len(), 1);
    assert!(ends.far.session(first).is_none() || ends.far_id() != first);
}

/// The same with a delay, so that messages do not arrive at once.
#[test]
fn a_distant_server_drains() {
    let source = Software::at(Duration::from_millis(2));
    a_draining_server_answers_received_calls(&source);
    a_busy_server_drains(&source);
    // Also on devices that do not acknowledge.
    let source = Unacknowledging(source);
    a_draining_server_answers_received_calls(&source);
    a_busy_server_drains(&source);
}

on_every_device! {
    a_null_call_is_answered_in_each_version,
    bytes_round_trip,
    data_are_placed_directly,
    denials_are_reported,
    a_cancelled_call_does_not_affect_its_successor,
    a_cancelled_call_releases_its_items,
    a_write_for_a_cancelled_call_ends_the_connection,
    a_server_calls_its_client,
    servers_of_one_driver_have_their_own_clients,
    a_draining_server_answers_received_calls,
    a_busy_server_drains,
    a_disconnected_client_reconnects,
}
