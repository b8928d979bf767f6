//! Scenes of rtrext-02: messages in several transmissions, and data placed by Sends.

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::continuation::RtrExtConfig;
use rpcrdma_proto::transfer::{MethodPreference, ResultPlacement};

use super::{Scene, broken, check, echo, get, inline, is_block, long_call, put};
use crate::schema::PairArgs;
use crate::test_pair::{TestPair, rtr};

/// Returns the scenes.
pub(super) fn scenes() -> [Scene; 8] {
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
            title: "rtrext-02: two results of one reply are placed by the Send",
            client,
            server,
            play: read_pair,
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
fn explicit(world: &TestPair) -> Option<u64> {
    let near = world.near.counters(world.client.transport().id())?;
    let far = world.far.counters(*world.server.connections().first()?)?;
    let sum = near + far;
    Some(sum.reads + sum.writes + sum.exposures)
}

/// Waits until both ends have advertised their properties, after the first reply.
fn warm(world: &mut TestPair) -> Result<(), String> {
    echo(world, &[0; 4])?;
    echo(world, &[0; 4])
}

fn written(world: &mut TestPair) -> Result<(), String> {
    warm(world)?;
    put(world, 1 << 16)?;
    check(explicit(world) == Some(0), "memory was exposed, or read")
}

fn read(world: &mut TestPair) -> Result<(), String> {
    warm(world)?;
    get(world, 1 << 16)?;
    check(explicit(world) == Some(0), "memory was exposed, or written")
}

/// Two results in one reply, each of which goes to a separate buffer.
fn read_pair(world: &mut TestPair) -> Result<(), String> {
    warm(world)?;
    let (first, second) = (20_000, 30_000);
    let args = PairArgs { first, second };
    let call = world.client.read_pair(&args).begin(&mut world.near);
    let pair = world.end(call)?;
    check(is_block(&pair.first, first), "the data of the first")?;
    check(is_block(&pair.second, second), "the data of the second")?;
    check(explicit(world) == Some(0), "memory was exposed, or written")
}

fn continued(world: &mut TestPair) -> Result<(), String> {
    warm(world)?;
    long_call(world)?;
    check(explicit(world) == Some(0), "memory was exposed")
}

fn by_size(world: &mut TestPair) -> Result<(), String> {
    warm(world)?;
    get(world, 32_767)?;
    let placed = explicit(world);
    get(world, 1 << 16)?;
    // The memory is exposed in both cases, and written only in the second.
    check(
        (placed, explicit(world)) == (Some(1), Some(3)),
        "the smaller was written, or the larger placed",
    )
}
