//! `rpcrdma demo`: runs every feature once, and shows its messages.
//!
//! A scene has its own connection (`test_pair`), the settings of both ends, and a function that
//! returns an error if a result is wrong. A failed scene does not end the others, and makes the
//! exit status 1. Scenes of rtrext-02 are in `groups`. Each scene is one connection of the capture
//! that `capture::write` writes.

mod broken;
mod groups;

use std::error::Error;
use std::path::PathBuf;

use rpcrdma_proto::connection::{CloseReason, Config, Properties};
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::LocalEvent;
use rpcrdma_verbs::provider::Device as _;

use crate::block::{self, BLOCK_SIZE, byte};
use crate::capture::write::{CaptureWriter, Frames};
use crate::device_source::{self, DeviceSource, Locality};
use crate::output::{OutputError, outln};
use crate::schema::callback::callback1;
use crate::schema::{ReadArgs, Region};
use crate::test_pair::{LoggedMessage, MessageLog, TestPair};

/// A scene: its description, its settings, and its expected result.
struct Scene {
    title: &'static str,
    client: fn() -> Config,
    server: fn() -> Config,
    play: fn(&mut TestPair) -> Result<(), String>,
}

fn scenes() -> [Scene; 12] {
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
            title: "A program that is not there",
            client: Config::client,
            server: Config::server,
            play: denied,
        },
        Scene {
            title: "The connection is lost while a call is in flight",
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
    source: device_source::Options,
    /// Print a line of JSON for each scene, with its messages.
    #[arg(long)]
    json: bool,
    /// Also write the messages to a capture, for Wireshark and `rpcrdma decode --pcap`: one
    /// connection for each scene.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Protocol that carries the messages in the capture.
    #[arg(long, value_enum, default_value_t, requires = "pcap")]
    frames: Frames,
}

/// The outcome of a scene.
enum Outcome {
    Passed,
    Failed(String),
    /// The device does not support it.
    Skipped,
}

impl Options {
    /// Runs all scenes, and prints the number of passed ones. Returns true if all have passed.
    pub(crate) fn run(self) -> Result<bool, Box<dyn Error>> {
        let source = &self.source.source(Locality::Process)?;
        let (mut passed, mut failed) = (0, 0);
        let invalidates = source.open()?.capabilities().remote_invalidation();
        let mut capture = match &self.pcap {
            Some(path) => {
                let capture = CaptureWriter::create(path, self.frames);
                Some(capture.map_err(|error| format!("{}: {error}", path.display()))?)
            }
            None => None,
        };
        for scene in scenes().into_iter().chain(groups::scenes()) {
            if !self.json {
                outln!("\n{}", scene.title);
            }
            let (outcome, messages) = if (scene.client)().remote_invalidation && !invalidates {
                (Outcome::Skipped, Vec::new())
            } else {
                scene.run(source)
            };
            if let Some(capture) = &mut capture {
                let messages = messages.iter();
                let messages = messages.map(|sent| (sent.from_client, sent.bytes.as_slice()));
                capture.connection(messages)?;
            }
            self.report(&scene, &outcome, &messages)?;
            match outcome {
                Outcome::Passed => passed += 1,
                Outcome::Failed(_) => failed += 1,
                Outcome::Skipped => {}
            }
        }
        if !self.json {
            outln!("\n{passed} passed, {failed} failed");
        }
        Ok(failed == 0)
    }

    fn report(
        &self,
        scene: &Scene,
        outcome: &Outcome,
        messages: &[LoggedMessage],
    ) -> Result<(), OutputError> {
        if self.json {
            let (result, error) = match outcome {
                Outcome::Passed => ("passed", None),
                Outcome::Failed(why) => ("failed", Some(why)),
                Outcome::Skipped => ("skipped", None),
            };
            let title = scene.title;
            let messages: Vec<&str> = messages.iter().map(|sent| sent.text.as_str()).collect();
            let line = serde_json::json!({
                "scene": title, "result": result, "error": error, "messages": messages,
            });
            outln!("{line}");
            return Ok(());
        }
        for sent in messages {
            outln!("    {}", sent.text);
        }
        match outcome {
            Outcome::Passed => outln!("    passed"),
            Outcome::Failed(why) => outln!("    FAILED: {why}"),
            Outcome::Skipped => outln!("    skipped: the device does not support it"),
        }
        Ok(())
    }
}

impl Scene {
    /// Runs the scene, and returns its messages.
    fn run(&self, source: &DeviceSource) -> (Outcome, Vec<LoggedMessage>) {
        let chart = MessageLog::default();
        let world = TestPair::new(source, (self.client)(), (self.server)());
        let done = world
            .map_err(|error| error.to_string())
            .and_then(|mut world| {
                world.draw(&chart);
                (self.play)(&mut world)
            });
        let messages = std::mem::take(&mut *chart.lock());
        (
            done.map_or_else(Outcome::Failed, |()| Outcome::Passed),
            messages,
        )
    }
}

fn check(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn version(world: &TestPair) -> Option<Version> {
    let session = world.near.session(world.client.transport().id());
    session.and_then(|session| session.version())
}

fn negotiation(world: &mut TestPair) -> Result<(), String> {
    let told = |world: &mut TestPair| {
        let session = world.near.session(world.client.transport().id())?;
        let peer = session.peer_properties().receive_buffer_size;
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

fn fallback(world: &mut TestPair) -> Result<(), String> {
    null(world)?;
    check(
        version(world) == Some(Version::One),
        "the version is not One",
    )
}

fn null(world: &mut TestPair) -> Result<(), String> {
    let call = world.client.null().begin(&mut world.near);
    world.end(call)
}

fn echo(world: &mut TestPair, bytes: &[u8]) -> Result<(), String> {
    let call = block::echo(&world.client, bytes).begin(&mut world.near);
    let back = world.end(call)?;
    check(back == *bytes, "the bytes that came back are others")
}

fn inline(world: &mut TestPair) -> Result<(), String> {
    let bytes: Vec<u8> = (0..64).collect();
    echo(world, &bytes)
}

fn read_chunk(world: &mut TestPair) -> Result<(), String> {
    put(world, 1 << 18)
}

fn write_chunk(world: &mut TestPair) -> Result<(), String> {
    get(world, 300_001)
}

/// Writes bytes, which may be a reduced item.
fn put(world: &mut TestPair, length: u32) -> Result<(), String> {
    let bytes =
        block::filled(world.near.pool(), length, 0xa5).map_err(|error| error.to_string())?;
    let call = world.client.write(&Region { bytes }).begin(&mut world.near);
    check(world.end(call)? == length, "the count")?;
    let written = world.block.take_written().unwrap_or_default();
    check(
        written.len() == length as usize && written.iter().all(|byte| *byte == 0xa5),
        "the data",
    )
}

/// Reads bytes into a separate buffer.
fn get(world: &mut TestPair, count: u32) -> Result<(), String> {
    let args = ReadArgs { block: 0, count };
    let call = world.client.read(&args).begin(&mut world.near);
    let region = world.end(call)?;
    check(is_block(&region.bytes, count), "the data")
}

/// Checks that these are the first bytes of a block.
fn is_block(data: &[u8], count: u32) -> bool {
    data.iter().copied().eq((0..count).map(byte))
}

fn long_call(world: &mut TestPair) -> Result<(), String> {
    echo(world, &[7; 20_000])
}

fn long_reply(world: &mut TestPair) -> Result<(), String> {
    let count = BLOCK_SIZE / 2;
    let args = ReadArgs { block: 0, count };
    let call = world.client.copy(&args);
    let call = call.reply_limits(block::plain_bytes(count as usize));
    let call = call.begin(&mut world.near);
    let data = world.end(call)?;
    check(is_block(&data, count), "the data")
}

fn backward(world: &mut TestPair) -> Result<(), String> {
    let call = world.client.ready().begin(&mut world.near);
    world.end(call)?;
    let connection = world.block.ready().ok_or("no client is ready")?;
    let caller = world.server.caller(connection);
    let caller = callback1::Client::new(caller.ok_or("the client is gone")?);
    let call = caller.next(&7).begin(&mut world.far);
    let call = call.map_err(|error| error.to_string())?;
    let channel = caller.transport();
    let answer = world.until(|world| {
        // The client serves the call.
        while world.event().is_some() {}
        match channel.poll_event(&mut world.far)? {
            LocalEvent::Completed(completed) => channel.read(&call, &completed, |next| next),
            _ => None,
        }
    })?;
    let next = answer.map_err(|error| error.to_string())?;
    check(next == 8, "the backward call was not answered")
}

fn denied(world: &mut TestPair) -> Result<(), String> {
    let other = callback1::Client::new(world.client.transport().clone());
    let call = other.next(&7).begin(&mut world.near);
    match world.end(call) {
        Err(error) if error.contains("does not offer the program") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn reconnect(world: &mut TestPair) -> Result<(), String> {
    null(world)?;
    let bytes = [1; 64];
    let call = block::echo(&world.client, &bytes).begin(&mut world.near);
    // The call is sent, and the server closes the connection before it processes the call.
    world.near.turn().map_err(|error| error.to_string())?;
    for id in world.server.connections().to_vec() {
        world.server.disconnect(&mut world.far, id);
    }
    let reason = world.until(|world| match world.event() {
        Some(LocalEvent::Disconnected { reason, .. }) => Some(reason),
        _ => None,
    })?;
    check(
        reason == CloseReason::Lost,
        "another reason than a lost connection",
    )?;
    check(world.end(call)? == bytes, "the call was not sent again")
}
