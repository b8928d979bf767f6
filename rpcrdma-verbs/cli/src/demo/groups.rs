//! Scenes of rtrext-02: messages in several transmissions, and data that the Sends place.

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::Rtr;
use rpcrdma_proto::travel::{Direct, Prefer};
use rpcrdma_proto::xdr::Decode;
use rpcrdma_verbs::client::Call;
use rpcrdma_verbs::provider::Device;

use super::{Scene, broken, check, inline, long_call};
use crate::block::{ECHO, PROGRAM, READ, WRITE, octet};
use crate::world::{World, rtr};

/// The scenes.
pub(super) fn scenes<D: Device>() -> [Scene<D>; 7] {
    [
        Scene { title: "rtrext-02: data to be written are placed by the Send", client, server, play: written },
        Scene { title: "rtrext-02: data to be read are placed by the Send", client, server, play: read },
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
    let octets = 1 << 16;
    let mut data = world.buffer(octets)?;
    data.as_full_mut().fill(0xa5);
    data.set_len(octets);
    let begun = world.client.call(&mut world.near, Call::to(PROGRAM, 1, WRITE), |writer| writer.item(data).map(|_| ()));
    let (ended, memory) = world.end(begun.map_err(|why| why.to_string())?)?;
    let count = ended.map_err(|error| error.to_string())?;
    check(u32::from_bytes(&count) == Ok(octets), "the count")?;
    check(memory.items.len() == 1, "the data did not come back")?;
    let written = &world.server.service().written;
    check(written.len() == octets as usize && written.iter().all(|octet| *octet == 0xa5), "the data")?;
    check(explicit(world) == Some(0), "memory was exposed, or read")
}

fn get<D: Device>(world: &mut World<D>, octets: u32) -> Result<(), String> {
    let mut call = Call { largest_results: octets + 8, ..Call::to(PROGRAM, 1, READ) };
    call.results.push(world.buffer(octets)?);
    let begun = world.client.call(&mut world.near, call, |writer| writer.put(&0)?.put(&octets).map(|_| ()));
    let (ended, memory) = world.end(begun.map_err(|why| why.to_string())?)?;
    let inline = ended.map_err(|error| error.to_string())?;
    check(inline == octets.to_be_bytes(), "more than the count is inline")?;
    check(memory.results.first().is_some_and(|data| data.iter().copied().eq((0..octets).map(octet))), "the data")
}

fn read<D: Device>(world: &mut World<D>) -> Result<(), String> {
    warm(world)?;
    get(world, 1 << 16)?;
    check(explicit(world) == Some(0), "memory was exposed, or written")
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
