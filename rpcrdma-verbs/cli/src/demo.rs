//! `rpcrdma demo`: every feature once, with its messages.

mod broken;
mod groups;

use std::error::Error;

use rpcrdma_proto::connection::{CloseReason, Config, Properties};
use rpcrdma_proto::version::Version;
use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::client::{Call, ClientError, ClientEvent};
use rpcrdma_verbs::provider::Device;

use crate::block::{BLOCK, ECHO, NULL, PROGRAM, READ, READY, WRITE, byte};
use crate::device_source::{self, Command, DeviceSource};
use crate::test_pair::{MessageLog, TestPair};

/// A scene: its description, its settings, and its expected result.
struct Scene<D: Device> {
    title: &'static str,
    client: fn() -> Config,
    server: fn() -> Config,
    play: fn(&mut TestPair<D>) -> Result<(), String>,
}

fn scenes<D: Device>() -> [Scene<D>; 12] {
    [
        Scene {
            title: "The version is found out, and properties are exchanged",
            client: Config::client,
            server: Config::server,
            play: negotiation,
        },
        Scene {
            title: "Characteristics (xcharext-02) in place of properties",
            client: || Config {
                properties: Properties::Characteristics,
                ..Config::client()
            },
            server: || Config {
                properties: Properties::Characteristics,
                ..Config::server()
            },
            play: negotiation,
        },
        Scene {
            title: "A server of Version One",
            client: Config::client,
            server: server_of_one,
            play: fallback,
        },
        Scene {
            title: "A call and its reply inline",
            client: Config::client,
            server: Config::server,
            play: inline,
        },
        Scene {
            title: "Data to be written: a Read chunk",
            client: Config::client,
            server: Config::server,
            play: read_chunk,
        },
        Scene {
            title: "Data to be read: a Write chunk",
            client: Config::client,
            server: Config::server,
            play: write_chunk,
        },
        Scene {
            title: "A long call: a Position-Zero Read chunk",
            client: Config::client,
            server: Config::server,
            play: long_call,
        },
        Scene {
            title: "A long reply: a Reply chunk",
            client: Config::client,
            server: Config::server,
            play: long_reply,
        },
        Scene {
            title: "The server calls back",
            client: Config::client,
            server: Config::server,
            play: backward,
        },
        Scene {
            title: "Keys are invalidated by the reply",
            client: invalidated,
            server: invalidating,
            play: write_chunk,
        },
        Scene {
            title: "A procedure that is not there",
            client: Config::client,
            server: Config::server,
            play: denied,
        },
        Scene {
            title: "The connection is lost while a call is under way",
            client: Config::client,
            server: Config::server,
            play: reconnect,
        },
    ]
}

fn server_of_one() -> Config {
    Config {
        max_version: Version::One,
        ..Config::server()
    }
}

fn invalidated() -> Config {
    Config {
        remote_invalidation: true,
        ..Config::client()
    }
}

fn invalidating() -> Config {
    Config {
        send_with_invalidate: true,
        ..Config::server()
    }
}

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    ground: device_source::Options,
}

impl Options {
    /// Plays all scenes, and prints how many have passed. Returns true if all have.
    pub(crate) fn run(self) -> Result<bool, Box<dyn Error>> {
        self.ground.run(device_source::Locality::Process, Demo)
    }
}

struct Demo;

impl Command for Demo {
    type Output = bool;

    fn on<G: DeviceSource>(self, ground: &G) -> Result<bool, Box<dyn Error>> {
        let (mut passed, mut failed) = (0, 0);
        let invalidates = ground.open()?.capabilities().remote_invalidation();
        for scene in scenes::<G::Device>().into_iter().chain(groups::scenes()) {
            println!("\n{}", scene.title);
            if (scene.client)().remote_invalidation && !invalidates {
                println!("    skipped: the device does not support it");
                continue;
            }
            let chart = MessageLog::default();
            let world = TestPair::new(ground, (scene.client)(), (scene.server)());
            let done = world
                .map_err(|error| error.to_string())
                .and_then(|mut world| {
                    world.draw(&chart);
                    (scene.play)(&mut world)
                });
            chart.lock().iter().for_each(|line| println!("    {line}"));
            match done {
                Ok(()) => {
                    passed += 1;
                    println!("    passed");
                }
                Err(why) => {
                    failed += 1;
                    println!("    FAILED: {why}");
                }
            }
        }
        println!("\n{passed} passed, {failed} failed");
        Ok(failed == 0)
    }
}

fn check(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn version<D: Device>(world: &TestPair<D>) -> Option<Version> {
    world
        .client
        .session(&world.near)
        .and_then(|session| session.version())
}

fn negotiation<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    let told = |world: &mut TestPair<D>| {
        let peer = world
            .client
            .session(&world.near)?
            .peer_properties()
            .receive_buffer_size;
        (version(world) == Some(Version::Two)).then_some(peer)
    };
    check(
        world.until(told)? == 4096,
        "the size of the server's receive buffers",
    )?;
    for _ in 0..10 {
        world.turn().map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn fallback<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    world
        .call(NULL, &[], 0)?
        .map_err(|error| error.to_string())?;
    check(
        version(world) == Some(Version::One),
        "the version is not One",
    )
}

fn inline<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    let bytes: Vec<u8> = (0..64).collect();
    check(
        world.call(ECHO, &bytes, 64)? == Ok(bytes),
        "the bytes that came back are others",
    )
}

fn read_chunk<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    put(world, 1 << 18)
}

fn write_chunk<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    get(world, 300_001)
}

/// Writes bytes, which may be reduced.
fn put<D: Device>(world: &mut TestPair<D>, bytes: u32) -> Result<(), String> {
    let mut data = world.buffer(bytes)?;
    data.as_full_mut().fill(0xa5);
    data.set_len(bytes);
    let begun = world
        .client
        .call(&mut world.near, Call::to(PROGRAM, 1, WRITE), |writer| {
            writer.item(data).map(|_| ())
        });
    let (ended, memory) = world.end(begun.map_err(|why| why.to_string())?)?;
    let count = ended.map_err(|error| error.to_string())?;
    check(u32::from_bytes(&count) == Ok(bytes), "the count")?;
    check(memory.items.len() == 1, "the data did not come back")?;
    let written = &world.server.service().written;
    check(
        written.len() == bytes as usize && written.iter().all(|byte| *byte == 0xa5),
        "the data",
    )
}

/// Reads bytes into a buffer of their own.
fn get<D: Device>(world: &mut TestPair<D>, bytes: u32) -> Result<(), String> {
    let mut call = Call {
        largest_results: bytes + 8,
        ..Call::to(PROGRAM, 1, READ)
    };
    call.results.push(world.buffer(bytes)?);
    let begun = world.client.call(&mut world.near, call, |writer| {
        writer.put(&0)?.put(&bytes).map(|_| ())
    });
    let (ended, memory) = world.end(begun.map_err(|why| why.to_string())?)?;
    let inline = ended.map_err(|error| error.to_string())?;
    check(
        inline == bytes.to_be_bytes(),
        "more than the count is inline",
    )?;
    check(
        memory
            .results
            .first()
            .is_some_and(|data| is_block(data, bytes)),
        "the data",
    )
}

/// Checks that these are the first bytes of a block.
fn is_block(data: &[u8], bytes: u32) -> bool {
    data.iter().copied().eq((0..bytes).map(byte))
}

fn long_call<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    let bytes = vec![7; 20_000];
    check(
        world.call(ECHO, &bytes, 20_000)? == Ok(bytes),
        "the bytes that came back are others",
    )
}

fn long_reply<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    let count = BLOCK / 2;
    let arguments = [[0; 4], count.to_be_bytes()].concat();
    let reply = world
        .call(READ, &arguments, count + 8)?
        .map_err(|error| error.to_string())?;
    check(
        reply.get(4..).is_some_and(|data| is_block(data, count)),
        "the data",
    )
}

fn backward<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    world
        .call(READY, &[], 0)?
        .map_err(|error| error.to_string())?;
    let Some(client) = world.server.service().ready else {
        return Err("nobody is ready".to_owned());
    };
    let begun = world.server.call_back(
        &mut world.far,
        client,
        Call::to(PROGRAM + 1, 1, NULL),
        |_| Ok(()),
    );
    begun.map_err(|why| why.to_string())?;
    let answered = world.until(|world| {
        while let Some(event) = world.client.event(&mut world.near) {
            if let ClientEvent::CalledBack(arrival) = event {
                // It fails only if the connection is gone, which also ends the call.
                let _ = world
                    .client
                    .reply(&mut world.near, arrival.call, arrival.xid, |_| Ok(()));
            }
        }
        world.server.event()
    })?;
    check(
        matches!(answered, (_, ClientEvent::Answered { .. })),
        "the backward call was not answered",
    )
}

fn denied<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    match world.call(99, &[], 0)? {
        Err(ClientError::Reply(_)) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn reconnect<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    world
        .call(NULL, &[], 0)?
        .map_err(|error| error.to_string())?;
    let bytes = vec![1; 64];
    let call = world
        .client
        .call(&mut world.near, Call::to(PROGRAM, 1, ECHO), |writer| {
            writer.bytes(&bytes);
            Ok(())
        });
    let call = call.map_err(|why| why.to_string())?;
    // The call is sent, and the server closes the connection before it processes the call.
    world.near.turn().map_err(|error| error.to_string())?;
    world
        .server
        .connections()
        .to_vec()
        .into_iter()
        .for_each(|id| world.server.cut(&mut world.far, id));
    let lost = world.until(|world| match world.client.event(&mut world.near) {
        Some(ClientEvent::Closed { why, .. }) => Some(why),
        _ => None,
    })?;
    check(
        lost == CloseReason::Lost,
        "another reason than a lost connection",
    )?;
    check(
        world.end(call)?.0 == Ok(bytes),
        "the call was not sent again",
    )
}
