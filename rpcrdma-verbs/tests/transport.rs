//! A client and a server with a driver each, as in a program that embeds them. It runs on the
//! software fabric, and with the feature `ibverbs` on the device that the environment names
//! (`RPCRDMA_DEVICE`, listening at `RPCRDMA_ADDRESS`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::{CloseReason, Config};
use rpcrdma_proto::version::Version;
use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::client::{Call, CallId, Client, ClientEvent};
use rpcrdma_verbs::driver::{ConnectionId, Driver, Writer};
use rpcrdma_verbs::memory::{Budget, Pool};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::rpc::{Credentials, Denial};
use rpcrdma_verbs::server::{Server, Service};

use fixture::{Ground, on_every_ground};

const PROGRAM: u32 = 0x2000_0001;
const NULL: u32 = 0;
const ECHO: u32 = 1;
const READ: u32 = 2;
const WRITE: u32 = 3;
/// Declares that the caller accepts backward calls.
const READY: u32 = 4;

/// A block of memory that can be read and written, and an echo.
struct Block<D: Device> {
    pool: Pool<D>,
    bytes: Vec<u8>,
}

impl<D: Device> Service for Block<D> {
    fn program(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn is_ready(&self, call: &rpcrdma_verbs::rpc::Call<'_>) -> bool {
        call.procedure.number == READY
    }

    fn call(
        &mut self,
        _: ConnectionId,
        call: &rpcrdma_verbs::rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        match call.procedure.number {
            NULL | READY => Ok(()),
            ECHO => {
                results.bytes(call.arguments);
                Ok(())
            }
            READ => {
                let count =
                    u32::from_bytes(call.arguments).map_err(|_| Denial::GarbageArguments)?;
                let mut data = self.pool.take(count).map_err(|_| Denial::System)?;
                data.extend_from_slice(&self.bytes[..count as usize]);
                results.item(data).map_err(|_| Denial::System)?;
                Ok(())
            }
            WRITE => {
                let (count, data) =
                    u32::from_prefix(call.arguments).map_err(|_| Denial::GarbageArguments)?;
                self.bytes = data[..count as usize].to_vec();
                results.put(&count).map_err(|_| Denial::System)?;
                Ok(())
            }
            _ => Err(Denial::ProcedureUnavailable),
        }
    }
}

struct World<D: Device> {
    client: Client,
    near: Driver<D>,
    far: Driver<D>,
    server: Server<Block<D>>,
}

impl<D: Device> World<D> {
    fn new(ground: &impl Ground<Device = D>, client: Config, server: Config) -> Self {
        let mut near = Driver::new(&ground.open(), &Budget::new(1 << 28), 4096).unwrap();
        let mut far = Driver::new(&ground.open(), &Budget::new(1 << 28), 4096).unwrap();
        let block = Block {
            pool: far.pool().clone(),
            bytes: (0..1u32 << 20)
                .map(|at| (at / 7).to_le_bytes()[0])
                .collect(),
        };
        let server = Server::bind(&mut far, ground.address(), server, block).unwrap();
        let client =
            Client::connect(&mut near, server.address(), client, Credentials::none()).unwrap();
        Self {
            client,
            near,
            far,
            server,
        }
    }

    /// Turns both ends until the client has an event.
    fn next(&mut self) -> ClientEvent {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            if let Some(event) = self.client.event(&mut self.near) {
                return event;
            }
            self.near.turn().unwrap();
            self.far.turn().unwrap();
            self.server.serve(&mut self.far);
        }
        panic!("nothing happens");
    }

    fn answer(&mut self) -> rpcrdma_verbs::client::Answered {
        self.answered().1
    }

    fn answered(&mut self) -> (CallId, rpcrdma_verbs::client::Answered) {
        loop {
            match self.next() {
                ClientEvent::Answered { call, answer } => return (call, answer),
                ClientEvent::Ready(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn a_null_call_is_answered_in_each_version(ground: &impl Ground) {
    for (highest, version) in [(Version::One, Version::One), (Version::Two, Version::Two)] {
        let mut world = World::new(
            ground,
            Config::client(),
            Config {
                max_version: highest,
                ..Config::server()
            },
        );
        world
            .client
            .call(&mut world.near, Call::to(PROGRAM, 1, NULL), |_| Ok(()))
            .unwrap();
        assert!(world.answer().results().is_empty());
        assert_eq!(
            world.client.session(&world.near).unwrap().version(),
            Some(version)
        );
    }
}

fn bytes_come_back_as_they_went(ground: &impl Ground) {
    let mut world = World::new(ground, Config::client(), Config::server());
    for bytes in [0, 4, 64, 900, 3000, 5000, 70_000] {
        let sent: Vec<u8> = (0..bytes)
            .map(|at: u32| (at % 251).to_le_bytes()[0])
            .collect();
        let call = Call {
            largest_results: bytes,
            ..Call::to(PROGRAM, 1, ECHO)
        };
        world
            .client
            .call(&mut world.near, call, |writer| {
                writer.bytes(&sent);
                Ok(())
            })
            .unwrap();
        assert_eq!(world.answer().results(), sent, "{bytes} bytes");
    }
}

fn data_are_placed_where_they_belong(ground: &impl Ground) {
    let mut world = World::new(ground, Config::client(), Config::server());
    let bytes = 300_001;
    let mut data = world.near.pool().take(bytes).unwrap();
    data.extend_from_slice(&vec![0xa5; bytes as usize]);
    world
        .client
        .call(&mut world.near, Call::to(PROGRAM, 1, WRITE), |writer| {
            writer.item(data).map(|_| ())
        })
        .unwrap();
    let (call, answer) = world.answered();
    assert_eq!(answer.results(), bytes.to_be_bytes());
    let memory = world.client.take_memory(&mut world.near, call);
    assert_eq!(memory.items[0].len(), bytes as usize, "the data come back");
    assert_eq!(world.server.service().bytes, vec![0xa5; bytes as usize]);

    let mut call = Call {
        largest_results: bytes + 8,
        ..Call::to(PROGRAM, 1, READ)
    };
    call.results.push(world.near.pool().take(bytes).unwrap());
    world
        .client
        .call(&mut world.near, call, |writer| {
            writer.put(&bytes).map(|_| ())
        })
        .unwrap();
    let (call, answer) = world.answered();
    assert_eq!(
        answer.results(),
        bytes.to_be_bytes(),
        "the count alone is inline"
    );
    assert_eq!(
        *world.client.take_memory(&mut world.near, call).results[0],
        vec![0xa5; bytes as usize]
    );
}

fn denials_are_told(ground: &impl Ground) {
    let mut world = World::new(ground, Config::client(), Config::server());
    for (program, version, number) in [(1, 1, 0), (PROGRAM, 9, 0), (PROGRAM, 1, 99)] {
        world
            .client
            .call(&mut world.near, Call::to(program, version, number), |_| {
                Ok(())
            })
            .unwrap();
        let why = loop {
            match world.next() {
                ClientEvent::Failed { why, .. } => break why,
                ClientEvent::Ready(_) => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(
            matches!(why, rpcrdma_verbs::client::ClientError::Reply(_)),
            "{why}"
        );
    }
}

/// A call that reuses the slot of a cancelled one, before the cancellation is reported, keeps its
/// message.
fn a_cancelled_call_takes_nothing_along(ground: &impl Ground) {
    let mut world = World::new(ground, Config::client(), Config::server());
    let cancelled = world
        .client
        .call(&mut world.near, Call::to(PROGRAM, 1, NULL), |_| Ok(()))
        .unwrap();
    assert!(world.client.cancel(&mut world.near, cancelled));
    let echo = |writer: &mut Writer<'_>| {
        writer.bytes(b"bytes..");
        Ok(())
    };
    let begun = world
        .client
        .call(&mut world.near, Call::to(PROGRAM, 1, ECHO), echo)
        .unwrap();
    let mut failed = 0;
    loop {
        match world.next() {
            ClientEvent::Failed { call, .. } => {
                assert_eq!(call, cancelled);
                assert!(
                    world
                        .client
                        .take_memory(&mut world.near, call)
                        .items
                        .is_empty()
                );
                failed += 1;
            }
            ClientEvent::Answered { call, answer } => {
                assert_eq!(
                    (call, answer.results(), failed),
                    (begun, b"bytes..".as_slice(), 1)
                );
                return;
            }
            ClientEvent::Ready(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A write of the server for a call that was given up is rejected, which ends the connection: the
/// other calls are retransmitted.
fn what_is_written_for_a_cancelled_call_costs_the_connection(ground: &impl Ground) {
    let mut world = World::new(
        ground,
        Config {
            reconnect_delay: 1000,
            ..Config::client()
        },
        Config::server(),
    );
    world
        .client
        .call(&mut world.near, Call::to(PROGRAM, 1, NULL), |_| Ok(()))
        .unwrap();
    world.answer();
    let mut call = Call {
        largest_results: 100_008,
        ..Call::to(PROGRAM, 1, READ)
    };
    call.results.push(world.near.pool().take(100_000).unwrap());
    let read = |writer: &mut Writer<'_>| writer.put(&100_000).map(|_| ());
    let cancelled = world.client.call(&mut world.near, call, read).unwrap();
    let other = world
        .client
        .call(&mut world.near, Call::to(PROGRAM, 1, NULL), |_| Ok(()))
        .unwrap();
    world.near.turn().unwrap();
    assert!(world.client.cancel(&mut world.near, cancelled));
    // Its memory is fenced before the server is turned.
    let fenced = loop {
        world.near.turn().unwrap();
        if let Some(event) = world.client.event(&mut world.near) {
            break event;
        }
    };
    assert!(
        matches!(fenced, ClientEvent::Failed { call, .. } if call == cancelled),
        "{fenced:?}"
    );
    assert_eq!(
        world
            .client
            .take_memory(&mut world.near, cancelled)
            .results
            .len(),
        1
    );
    // The other call may be answered before the connection ends, or over the next one.
    let (mut closed, mut answered) = (false, false);
    while !(closed && answered) {
        match world.next() {
            ClientEvent::Closed { last: false, .. } => closed = true,
            ClientEvent::Answered { call, .. } => answered = call == other,
            ClientEvent::Ready(_) => {}
            event => panic!("{event:?}"),
        }
    }
}

fn nobody_is_called_back_who_has_not_said_that_it_takes_that(ground: &impl Ground) {
    let mut world = World::new(ground, Config::client(), Config::server());
    world
        .client
        .call(&mut world.near, Call::to(PROGRAM, 1, NULL), |_| Ok(()))
        .unwrap();
    world.answer();
    let to = world.server.connections()[0];
    let refused = world
        .server
        .call_back(&mut world.far, to, Call::to(1, 1, 0), |_| Ok(()))
        .unwrap_err();
    assert!(
        matches!(refused.error, rpcrdma_verbs::client::ClientError::NotReady),
        "{refused}"
    );
}

/// A second reply is rejected, and the first is sent.
fn a_call_is_answered_once(ground: &impl Ground) {
    let mut world = World::new(ground, Config::client(), Config::server());
    world
        .client
        .call(&mut world.near, Call::to(PROGRAM, 1, READY), |_| Ok(()))
        .unwrap();
    world.answer();
    let (to, call) = (
        world.server.connections()[0],
        Call {
            largest_results: 64,
            ..Call::to(7, 1, 1)
        },
    );
    world
        .server
        .call_back(&mut world.far, to, call, |_| Ok(()))
        .unwrap();
    let arrival = loop {
        match world.next() {
            ClientEvent::CalledBack(arrival) => break arrival,
            ClientEvent::Ready(_) => {}
            other => panic!("{other:?}"),
        }
    };
    let World {
        client,
        near,
        far,
        server,
    } = &mut world;
    let mut reply = |bytes: &[u8]| {
        client.reply(near, arrival.call, arrival.xid, |writer| {
            writer.bytes(bytes);
            Ok(())
        })
    };
    reply(&[1; 64]).unwrap();
    assert!(reply(&[2; 8]).is_err());
    let began = Instant::now();
    let answer = loop {
        near.turn().unwrap();
        far.turn().unwrap();
        server.serve(far);
        match server.event() {
            Some((_, ClientEvent::Answered { answer, .. })) => break answer,
            event => assert!(
                event.is_none() && began.elapsed() < Duration::from_secs(60),
                "{event:?}"
            ),
        }
    };
    assert_eq!(answer.results(), [1; 64]);
}

fn servers_of_one_driver_have_their_own_clients(ground: &impl Ground) {
    let mut world = World::new(
        ground,
        Config::client(),
        Config {
            max_served: 3,
            ..Config::server()
        },
    );
    let block = Block {
        pool: world.far.pool().clone(),
        bytes: vec![0xee; 16],
    };
    let config = Config {
        max_served: 5,
        ..Config::server()
    };
    let mut second = Server::bind(&mut world.far, ground.address(), config, block).unwrap();
    let other = Client::connect(
        &mut world.near,
        second.address(),
        Config::client(),
        Credentials::none(),
    )
    .unwrap();
    let read = |writer: &mut Writer<'_>| writer.put(&8).map(|_| ());
    let call = || Call {
        largest_results: 64,
        ..Call::to(PROGRAM, 1, READ)
    };
    world.client.call(&mut world.near, call(), read).unwrap();
    other.call(&mut world.near, call(), read).unwrap();
    let (mut answers, began) = (Vec::new(), Instant::now());
    while answers.len() < 2 && began.elapsed() < Duration::from_secs(60) {
        world.near.turn().unwrap();
        world.far.turn().unwrap();
        second.serve(&mut world.far);
        world.server.serve(&mut world.far);
        for (number, client) in [&world.client, &other].into_iter().enumerate() {
            while let Some(event) = client.event(&mut world.near) {
                if let ClientEvent::Answered { answer, .. } = event {
                    answers.push((number, answer.results().to_vec()));
                }
            }
        }
    }
    answers.sort();
    let data = |byte: fn(u32) -> u8| {
        [
            &8u32.to_be_bytes()[..],
            &(0..8).map(byte).collect::<Vec<_>>(),
        ]
        .concat()
    };
    assert_eq!(
        answers,
        [
            (0, data(|at| (at / 7).to_le_bytes()[0])),
            (1, data(|_| 0xee))
        ]
    );
    for (server, serve) in [(&world.server, 3), (&second, 5)] {
        let [connection] = server.connections() else {
            panic!("one each")
        };
        assert_eq!(
            world.far.session(*connection).unwrap().config().max_served,
            serve
        );
    }
}

/// Calls that have arrived are answered, and the replies arrive, before their connection ends. New
/// connections are rejected afterwards.
fn a_server_that_drains_answers_what_has_come(ground: &impl Ground) {
    let mut world = World::new(
        ground,
        Config {
            max_reconnect_delay: 1_000_000,
            ..Config::client()
        },
        Config::server(),
    );
    world
        .client
        .call(&mut world.near, Call::to(PROGRAM, 1, NULL), |_| Ok(()))
        .unwrap();
    world.answer();
    let bytes = [0x5a; 600];
    let echo = |writer: &mut Writer<'_>| {
        writer.bytes(&bytes);
        Ok(())
    };
    let call = || Call {
        largest_results: 600,
        ..Call::to(PROGRAM, 1, ECHO)
    };
    let calls: Vec<_> = (0..8)
        .map(|_| world.client.call(&mut world.near, call(), echo).unwrap())
        .collect();
    let connection = world.server.connections()[0];
    let began = Instant::now();
    while world.far.session(connection).unwrap().outstanding().1 < calls.len() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the calls do not come"
        );
        world.near.turn().unwrap();
        world.far.turn().unwrap();
    }
    world.server.drain(&mut world.far);
    // The client sleeps meanwhile, and finds its replies and the end together.
    while !world.server.connections().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
        world.far.turn().unwrap();
        world.server.serve(&mut world.far);
    }
    for call in calls {
        let (answered, answer) = world.answered();
        assert_eq!((answered, answer.results()), (call, &bytes[..]));
    }
    let closed = [world.next(), world.next()];
    let [
        ClientEvent::Closed {
            why: CloseReason::Lost,
            ..
        },
        ClientEvent::Closed {
            why: CloseReason::Unreachable,
            ..
        },
    ] = closed
    else {
        panic!("the connection ends, and there is no other: {closed:?}");
    };
}

/// A client that always has an outstanding call does not keep its server from ending, and no call
/// is lost.
fn a_busy_server_drains(ground: &impl Ground) {
    let config = Config {
        max_reconnect_delay: 1_000_000,
        ..Config::client()
    };
    let mut world = World::new(ground, config, Config::server());
    let (mut open, mut answered, began) = (0, 0u32, Instant::now());
    while answered < 100 || !world.server.connections().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
        while open < 16 {
            world
                .client
                .call(&mut world.near, Call::to(PROGRAM, 1, NULL), |_| Ok(()))
                .unwrap();
            open += 1;
        }
        world.near.turn().unwrap();
        world.far.turn().unwrap();
        world.server.serve(&mut world.far);
        while let Some(event) = world.client.event(&mut world.near) {
            match event {
                ClientEvent::Answered { .. } => (open, answered) = (open - 1, answered + 1),
                ClientEvent::Failed { why, .. } => panic!("{why}"),
                _ => {}
            }
        }
        if answered >= 100 {
            world.server.drain(&mut world.far);
        }
    }
}

/// The same with a delay, so that messages do not arrive at once.
#[test]
fn a_distant_server_drains() {
    let ground = fixture::Software::at(Duration::from_millis(2));
    a_server_that_drains_answers_what_has_come(&ground);
    a_busy_server_drains(&ground);
    // Also on devices that do not acknowledge.
    let ground = fixture::Unacknowledging(ground);
    a_server_that_drains_answers_what_has_come(&ground);
    a_busy_server_drains(&ground);
}

on_every_ground! {
    a_null_call_is_answered_in_each_version,
    bytes_come_back_as_they_went,
    data_are_placed_where_they_belong,
    denials_are_told,
    a_cancelled_call_takes_nothing_along,
    what_is_written_for_a_cancelled_call_costs_the_connection,
    nobody_is_called_back_who_has_not_said_that_it_takes_that,
    a_call_is_answered_once,
    servers_of_one_driver_have_their_own_clients,
    a_server_that_drains_answers_what_has_come,
    a_busy_server_drains,
}
