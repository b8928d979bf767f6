//! Scenes of rtrext-02: messages in several transmissions, and data that the Sends place.

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::transfer::{MethodPreference, ResultPlacement};
use rpcrdma_verbs::client::Call;
use rpcrdma_verbs::provider::Device;

use super::{Scene, broken, check, get, inline, is_block, long_call, put};
use crate::block::{BLOCK, ECHO, PROGRAM, READS};
use crate::test_pair::{TestPair, rtr};

/// Returns the scenes.
pub(super) fn scenes<D: Device>() -> [Scene<D>; 8] {
    [
        Scene {
            title: "rtrext-02: data to be written are placed by the Send",
            client,
            server,
            play: written,
        },
        Scene {
            title: "rtrext-02: data to be read are placed by the Send",
            client,
            server,
            play: read,
        },
        Scene {
            title: "rtrext-02: two reads in one call, of which the first finds nothing",
            client,
            server,
            play: operations,
        },
        Scene {
            title: "rtrext-02: a long call and its reply in several transmissions",
            client: || Config::client().with_rtr(RtrExtConfig::ALL),
            server: || Config::server().with_rtr(RtrExtConfig::ALL),
            play: continued,
        },
        Scene {
            title: "rtrext-02: a result is written, or placed, by its size",
            client: || {
                Config::client().with_rtr(RtrExtConfig {
                    placement: ResultPlacement::BySize(32_768),
                    preference: MethodPreference::Groups,
                    ..rtr()
                })
            },
            server,
            play: by_size,
        },
        Scene {
            title: "rtrext-02: a server that does not know it",
            client: || {
                Config::client().with_rtr(RtrExtConfig {
                    probe: true,
                    preference: MethodPreference::Groups,
                    ..rtr()
                })
            },
            server: Config::server,
            play: inline,
        },
        Scene {
            title: "rtrext-02: a call whose transmissions are broken",
            client,
            server,
            play: broken::call,
        },
        Scene {
            title: "rtrext-02: a reply whose transmissions are broken",
            client,
            server,
            play: broken::reply,
        },
    ]
}

fn client() -> Config {
    Config::client().with_rtr(rtr())
}

fn server() -> Config {
    Config::server().with_rtr(rtr())
}

/// Returns the number of RDMA Reads, RDMA Writes and exposed regions at both ends.
fn explicit<D: Device>(world: &TestPair<D>) -> Option<u64> {
    let near = world.near.counters(world.client.id())?;
    let far = world.far.counters(*world.server.connections().first()?)?;
    let sum = near + far;
    Some(sum.reads + sum.writes + sum.exposures)
}

/// Waits until both ends have advertised their properties, after the first reply.
fn warm<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    for _ in 0..2 {
        world
            .call(ECHO, &[0; 4], 4)?
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn written<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    warm(world)?;
    put(world, 1 << 16)?;
    check(explicit(world) == Some(0), "memory was exposed, or read")
}

fn read<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    warm(world)?;
    get(world, 1 << 16)?;
    check(explicit(world) == Some(0), "memory was exposed, or written")
}

/// Two reads in one call, each with its own buffer. The first has no result: the data of the second
/// are not written to its buffer.
fn operations<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    warm(world)?;
    let bytes = 50_000;
    let mut call = Call {
        largest_results: 2 * bytes + 24,
        ..Call::to(PROGRAM, 1, READS)
    };
    call.results
        .extend([world.buffer(bytes)?, world.buffer(bytes)?]);
    let begun = world.client.call(&mut world.near, call, |writer| {
        writer.operation(1, |writer| writer.put(&0)?.put(&(BLOCK + 1)).map(|_| ()))?;
        writer.operation(1, |writer| writer.put(&0)?.put(&bytes).map(|_| ()))?;
        Ok(())
    });
    let (ended, memory) = world.end(begun.map_err(|why| why.to_string())?)?;
    ended.map_err(|error| error.to_string())?;
    let [first, second] = memory.results.as_slice() else {
        return Err("a buffer did not come back".to_owned());
    };
    check(first.is_empty(), "the first has bytes")?;
    check(is_block(second, bytes), "the data of the second")
}

fn continued<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    warm(world)?;
    long_call(world)?;
    check(explicit(world) == Some(0), "memory was exposed")
}

fn by_size<D: Device>(world: &mut TestPair<D>) -> Result<(), String> {
    warm(world)?;
    get(world, 32_767)?;
    let placed = explicit(world);
    get(world, 1 << 16)?;
    // The memory is exposed in either case, and written only in the second.
    check(
        (placed, explicit(world)) == (Some(1), Some(3)),
        "the smaller was written, or the larger placed",
    )
}
