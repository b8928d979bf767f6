//! Scenes of rtrext-02: messages in several transmissions, and data that the Sends place.

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::Rtr;
use rpcrdma_proto::travel::{Direct, Prefer};
use rpcrdma_verbs::client::Call;
use rpcrdma_verbs::provider::Device;

use super::{Scene, broken, check, get, inline, is_block, long_call, put};
use crate::block::{BLOCK, ECHO, PROGRAM, READS};
use crate::world::{World, rtr};

/// The scenes.
pub(super) fn scenes<D: Device>() -> [Scene<D>; 8] {
    [
        Scene { title: "rtrext-02: data to be written are placed by the Send", client, server, play: written },
        Scene { title: "rtrext-02: data to be read are placed by the Send", client, server, play: read },
        Scene {
            title: "rtrext-02: two reads in one call, of which the first finds nothing",
            client,
            server,
            play: operations,
        },
        Scene {
            title: "rtrext-02: a long call and its reply in several transmissions",
            client: || Config::client().with_rtr(Rtr::ALL),
            server: || Config::server().with_rtr(Rtr::ALL),
            play: continued,
        },
        Scene {
            title: "rtrext-02: a result is written, or placed, by its size",
            client: || {
                Config::client().with_rtr(Rtr { direct: Direct::BySize(32_768), prefer: Prefer::Groups, ..rtr() })
            },
            server,
            play: by_size,
        },
        Scene {
            title: "rtrext-02: a server that does not know it",
            client: || Config::client().with_rtr(Rtr { tries: true, prefer: Prefer::Groups, ..rtr() }),
            server: Config::server,
            play: inline,
        },
        Scene { title: "rtrext-02: a call whose transmissions are broken", client, server, play: broken::call },
        Scene { title: "rtrext-02: a reply whose transmissions are broken", client, server, play: broken::reply },
    ]
}

fn client() -> Config {
    Config::client().with_rtr(rtr())
}

fn server() -> Config {
    Config::server().with_rtr(rtr())
}

/// What the transport has done at both ends: RDMA Reads and Writes, and regions exposed.
fn explicit<D: Device>(world: &World<D>) -> Option<u64> {
    let near = world.near.counters(world.client.id())?;
    let far = world.far.counters(*world.server.connections().first()?)?;
    let sum = near + far;
    Some(sum.reads + sum.writes + sum.exposed)
}

/// Waits until the ends know of each other, which is told after the first reply.
fn warm<D: Device>(world: &mut World<D>) -> Result<(), String> {
    for _ in 0..2 {
        world.call(ECHO, &[0; 4], 4)?.map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn written<D: Device>(world: &mut World<D>) -> Result<(), String> {
    warm(world)?;
    put(world, 1 << 16)?;
    check(explicit(world) == Some(0), "memory was exposed, or read")
}

fn read<D: Device>(world: &mut World<D>) -> Result<(), String> {
    warm(world)?;
    get(world, 1 << 16)?;
    check(explicit(world) == Some(0), "memory was exposed, or written")
}

/// Two reads in one call, each with memory of its own. The first finds nothing: the second's data do not go to its memory.
fn operations<D: Device>(world: &mut World<D>) -> Result<(), String> {
    warm(world)?;
    let octets = 50_000;
    let mut call = Call { largest_results: 2 * octets + 24, ..Call::to(PROGRAM, 1, READS) };
    call.results.extend([world.buffer(octets)?, world.buffer(octets)?]);
    let begun = world.client.call(&mut world.near, call, |writer| {
        writer.operation(1, |writer| writer.put(&0)?.put(&(BLOCK + 1)).map(|_| ()))?;
        writer.operation(1, |writer| writer.put(&0)?.put(&octets).map(|_| ()))?;
        Ok(())
    });
    let (ended, memory) = world.end(begun.map_err(|why| why.to_string())?)?;
    ended.map_err(|error| error.to_string())?;
    let [first, second] = memory.results.as_slice() else { return Err("a buffer did not come back".to_owned()) };
    check(first.is_empty(), "the first has octets")?;
    check(is_block(second, octets), "the data of the second")
}

fn continued<D: Device>(world: &mut World<D>) -> Result<(), String> {
    warm(world)?;
    long_call(world)?;
    check(explicit(world) == Some(0), "memory was exposed")
}

fn by_size<D: Device>(world: &mut World<D>) -> Result<(), String> {
    warm(world)?;
    get(world, 32_767)?;
    let placed = explicit(world);
    get(world, 1 << 16)?;
    // The memory is exposed in either case, and written in the second alone.
    check((placed, explicit(world)) == (Some(1), Some(3)), "the smaller was written, or the larger placed")
}
