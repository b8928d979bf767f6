//! `rpcrdma demo`: every feature once, with the messages that it takes.

use std::process::ExitCode;

use rpcrdma_proto::connection::{Config, Reason};
use rpcrdma_proto::version::Version;
use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::client::{Call, ClientError, ClientEvent};
use rpcrdma_verbs::provider::software::Faults;

use crate::world::{BLOCK, Chart, ECHO, NULL, PROGRAM, READ, READY, WRITE, World};

/// A scene: what it shows, with which settings, and what must come out of it.
struct Scene {
    title: &'static str,
    client: fn() -> Config,
    server: fn() -> Config,
    play: fn(&mut World) -> Result<(), String>,
}

const SCENES: [Scene; 11] = [
    Scene {
        title: "The version is found out, and properties are exchanged",
        client: Config::client,
        server: Config::server,
        play: negotiation,
    },
    Scene { title: "A server of Version One", client: Config::client, server: server_of_one, play: fallback },
    Scene { title: "A call and its reply inline", client: Config::client, server: Config::server, play: inline },
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
    Scene { title: "A long reply: a Reply chunk", client: Config::client, server: Config::server, play: long_reply },
    Scene { title: "The server calls back", client: Config::client, server: Config::server, play: backward },
    Scene { title: "Keys are invalidated by the reply", client: invalidated, server: invalidating, play: write_chunk },
    Scene { title: "A procedure that is not there", client: Config::client, server: Config::server, play: denied },
    Scene {
        title: "The connection is lost while a call is under way",
        client: Config::client,
        server: Config::server,
        play: reconnect,
    },
];

fn server_of_one() -> Config {
    Config { highest: Version::One, ..Config::server() }
}

fn invalidated() -> Config {
    Config { remote_invalidation: true, ..Config::client() }
}

fn invalidating() -> Config {
    Config { invalidates: true, ..Config::server() }
}

/// Plays all scenes; the last line says how many passed.
pub(crate) fn run() -> ExitCode {
    let (mut passed, mut failed) = (0, 0);
    for scene in &SCENES {
        println!("\n{}", scene.title);
        let chart = Chart::default();
        let done =
            World::new((scene.client)(), (scene.server)()).map_err(|error| error.to_string()).and_then(|mut world| {
                world.draw(&chart);
                (scene.play)(&mut world)
            });
        chart.borrow().iter().for_each(|line| println!("    {line}"));
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
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn version(world: &World) -> Option<Version> {
    world.client.session(&world.near).and_then(|session| session.version())
}

fn negotiation(world: &mut World) -> Result<(), String> {
    let told = |world: &mut World| {
        let peer = world.client.session(&world.near)?.peer_properties().receive_buffer_size;
        (version(world) == Some(Version::Two)).then_some(peer)
    };
    check(world.until(told)? == 4096, "the size of the server's receive buffers")?;
    for _ in 0..10 {
        world.turn().map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn fallback(world: &mut World) -> Result<(), String> {
    world.call(NULL, &[], 0)?.map_err(|error| error.to_string())?;
    check(version(world) == Some(Version::One), "the version is not One")
}

fn inline(world: &mut World) -> Result<(), String> {
    let octets: Vec<u8> = (0..64).collect();
    check(world.call(ECHO, &octets, 64)? == Ok(octets), "the octets that came back are others")
}

fn read_chunk(world: &mut World) -> Result<(), String> {
    let mut data = world.buffer(1 << 18)?;
    data.as_full_mut().fill(0xa5);
    data.set_len(1 << 18);
    let call = Call::to(PROGRAM, 1, WRITE);
    let begun = world.client.call(&mut world.near, call, |writer| writer.item(data).map(|_| ()));
    let (ended, memory) = world.end(begun.map_err(|why| why.to_string())?)?;
    let count = ended.map_err(|error| error.to_string())?;
    check(u32::from_bytes(&count) == Ok(1 << 18), "the count")?;
    check(memory.items.len() == 1, "the data did not come back")?;
    check(world.server.service().octets.iter().take(1 << 18).all(|octet| *octet == 0xa5), "the data")
}

fn write_chunk(world: &mut World) -> Result<(), String> {
    let octets = 300_001;
    let mut call = Call { largest_results: octets + 8, ..Call::to(PROGRAM, 1, READ) };
    call.results.push(world.buffer(octets)?);
    let begun = world.client.call(&mut world.near, call, |writer| writer.put(&octets).map(|_| ()));
    let (ended, memory) = world.end(begun.map_err(|why| why.to_string())?)?;
    let inline = ended.map_err(|error| error.to_string())?;
    check(inline == octets.to_be_bytes(), "more than the count is inline")?;
    let expected = world.server.service().octets.get(..octets as usize).unwrap_or_default().to_vec();
    check(memory.results.first().is_some_and(|data| **data == expected), "the data")
}

fn long_call(world: &mut World) -> Result<(), String> {
    let octets = vec![7; 20_000];
    check(world.call(ECHO, &octets, 20_000)? == Ok(octets), "the octets that came back are others")
}

fn long_reply(world: &mut World) -> Result<(), String> {
    let count = u32::try_from(BLOCK / 2).unwrap_or(u32::MAX);
    let reply = world.call(READ, &count.to_be_bytes(), count + 8)?.map_err(|error| error.to_string())?;
    check(reply.len() == BLOCK / 2 + 4, "the length of the reply")
}

fn backward(world: &mut World) -> Result<(), String> {
    world.call(READY, &[], 0)?.map_err(|error| error.to_string())?;
    let Some(client) = world.server.service().ready else { return Err("nobody is ready".to_owned()) };
    let begun = world.server.call_back(&mut world.far, client, Call::to(PROGRAM + 1, 1, NULL), |_| Ok(()));
    begun.map_err(|why| why.to_string())?;
    let answered = world.until(|world| {
        while let Some(event) = world.client.event(&mut world.near) {
            if let ClientEvent::CalledBack(arrival) = event {
                // It fails only when the connection is gone, and then so is the call.
                let _ = world.client.reply(&mut world.near, arrival.call, arrival.xid, |_| Ok(()));
            }
        }
        world.server.event()
    })?;
    check(matches!(answered, (_, ClientEvent::Answered { .. })), "the backward call was not answered")
}

fn denied(world: &mut World) -> Result<(), String> {
    match world.call(99, &[], 0)? {
        Err(ClientError::Reply(_)) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn reconnect(world: &mut World) -> Result<(), String> {
    world.call(NULL, &[], 0)?.map_err(|error| error.to_string())?;
    let octets = vec![1; 64];
    // The next work request of either end loses the connection.
    world.fabric.inject(Faults { disconnect: u16::MAX, ..Faults::default() });
    let call = world.client.call(&mut world.near, Call::to(PROGRAM, 1, ECHO), |writer| {
        writer.octets(&octets);
        Ok(())
    });
    let call = call.map_err(|why| why.to_string())?;
    let lost = world.until(|world| match world.client.event(&mut world.near) {
        Some(ClientEvent::Closed { why, .. }) => Some(why),
        _ => None,
    })?;
    check(lost == Reason::Lost, "another reason than a lost connection")?;
    world.fabric.inject(Faults::default());
    check(world.end(call)?.0 == Ok(octets), "the call was not sent again")
}
