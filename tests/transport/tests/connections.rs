//! The memory of each end of a thousand connections.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "the numbers of a test are small"
)]

use rpcrdma_proto::chunk::ChunkLimits;
use rpcrdma_proto::connection::{Config, Role};
use rpcrdma_transport_tests::block::Block;
use rpcrdma_transport_tests::block1::Client;
use rpcrdma_transport_tests::ends::{Programs, any_address, connect, serve};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::{LocalChannel, LocalEvent, LocalServer};

const CREDITS: u16 = 32;
/// The page size in bytes of the machines that run this test.
const PAGE: usize = 4096;
/// The timeouts in microseconds. A thousand connections that share a busy processor may take longer
/// than the default ones.
const TIMEOUT: u64 = 600_000_000;

/// Returns the resident bytes of this process, or `None` if the system does not report them.
fn resident() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    pages
        .split(' ')
        .nth(1)?
        .parse::<usize>()
        .ok()?
        .checked_mul(PAGE)
}

/// The memory of one end of a connection.
#[derive(Debug)]
struct Bytes {
    /// The registered memory of the larger end.
    registered: usize,
    /// The allocated memory, including registered memory: half of that of both ends.
    allocated: usize,
    /// The resident memory, as reported by the system.
    resident: Option<usize>,
}

/// Measures the memory per end, after each of several connections had several concurrent calls.
fn bytes_per_end(
    (connections, calls): (usize, u16),
    client: &Config,
    server: Config,
    shared: Option<u32>,
) -> Bytes {
    let fabric = Fabric::new();
    let budgets = [Budget::new(1 << 30), Budget::new(1 << 30)];
    let mut near = Driver::new(&fabric.device(), &budgets[0], 1 << 17).unwrap();
    let mut far = Driver::new(&fabric.device(), &budgets[1], 1 << 17).unwrap();
    for driver in [&mut near, &mut far] {
        // Otherwise the growth of queues would depend on how long the test takes.
        driver.keep_alive(None);
        if let Some(count) = shared {
            driver.share_receives(count, client.receive_size).unwrap();
        }
    }
    let mut server = serve(&mut far, any_address(), server, &Block::default());
    let before = resident();
    let mut clients = Vec::new();
    let allocated = allocation_counter::measure(|| {
        let address = server.local_addr();
        let connect = |_| connect(&mut near, address, client.clone());
        clients.extend((0..connections).map(connect));
        call_all(&clients, calls, &mut near, &mut far, &mut server);
    });
    assert_eq!(server.connections().len(), connections);
    let resident = resident()
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before) / (2 * connections));
    let registered = budgets
        .each_ref()
        .map(Budget::used)
        .into_iter()
        .max()
        .unwrap()
        / connections;
    Bytes {
        registered,
        allocated: usize::try_from(allocated.bytes_current).unwrap() / (2 * connections),
        resident,
    }
}

/// Makes concurrent calls of all clients.
fn call_all(
    clients: &[Client<LocalChannel<SoftwareDevice>>],
    calls: u16,
    near: &mut Driver<SoftwareDevice>,
    far: &mut Driver<SoftwareDevice>,
    server: &mut LocalServer<Programs>,
) {
    for client in clients {
        for _ in 0..calls {
            client.null().begin(near).unwrap();
        }
    }
    let mut left = clients.len() * usize::from(calls);
    while left > 0 {
        near.turn().unwrap();
        far.turn().unwrap();
        server.serve(far);
        for client in clients {
            let channel = client.transport();
            while let Some(event) = channel.poll_event(near) {
                match event {
                    LocalEvent::Completed(completed) => {
                        channel.recycle(near, completed);
                        left -= 1;
                    }
                    LocalEvent::Connected(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// Returns settings with 32 credits, no backward calls, and few segments in each call.
fn settings() -> (Config, Config) {
    let limits = ChunkLimits {
        max_segments: 8,
        ..ChunkLimits::DEFAULT
    };
    let few = Config {
        max_segments: 8,
        limits,
        reserved_receives: 2,
        max_receive_size: 4096,
        negotiation_timeout: TIMEOUT,
        unresponsive_timeout: TIMEOUT,
        ..Config::client()
    };
    let client = Config {
        max_calls: CREDITS,
        credits: CREDITS.into(),
        max_served: 0,
        ..few.clone()
    };
    let server = Config {
        role: Role::Server,
        max_calls: 0,
        credits: 0,
        max_served: CREDITS,
        ..few
    };
    (client, server)
}

/// Measures the memory per end of a thousand connections, after several concurrent calls on each.
fn thousand(what: &str, calls: u16, shared: Option<u32>) -> Bytes {
    let (client, server) = settings();
    let bytes = bytes_per_end((1000, calls), &client, server, shared);
    let Bytes {
        registered,
        allocated,
        resident,
    } = &bytes;
    println!(
        "bytes of one end, {what}: {registered} registered, {allocated} allocated, {resident:?} \
        in memory"
    );
    bytes
}

#[test]
fn a_thousand_connections_are_small() {
    let idle = thousand("idle", 1, None);
    // A client that had one call in flight has few receives. A server has as many as it may grant.
    assert!(
        idle.registered < 160 << 10 && idle.allocated < 104 << 10,
        "{idle:?}"
    );
    let busy = thousand("with 32 calls at once", CREDITS, None);
    assert!(
        busy.registered < 160 << 10 && busy.allocated < 224 << 10,
        "{busy:?}"
    );
    // The default settings: 8 backward calls, and up to 64 segments in each call.
    let default = bytes_per_end((100, CREDITS), &Config::client(), Config::server(), None);
    println!("with the default settings: {default:?}");
}

#[test]
fn a_thousand_connections_with_shared_receives_are_smaller() {
    let idle = thousand("idle, receives shared", 1, Some(1024));
    assert!(idle.allocated < 32 << 10, "{idle:?}");
    let busy = thousand(
        "with 32 calls at once, receives shared",
        CREDITS,
        Some(1024),
    );
    assert!(
        busy.registered < 32 << 10 && busy.allocated < 32 << 10,
        "{busy:?}"
    );
}

/// A server whose connections have closed has no more memory than before.
#[test]
fn closed_connections_leave_nothing() {
    /// The maximum bytes that each may leave, for noise of tables that grow.
    const LEFT: i64 = 32;
    let (fabric, budget) = (Fabric::new(), Budget::new(1 << 30));
    let mut far = Driver::new(&fabric.device(), &budget, 1 << 10).unwrap();
    far.keep_alive(None);
    let programs = Block::default();
    let mut server = serve(&mut far, any_address(), Config::server(), &programs);
    let mut connect_and_close = |_| {
        let mut near = Driver::new(&fabric.device(), &budget, 1 << 10).unwrap();
        let clients = [connect(&mut near, server.local_addr(), Config::client())];
        call_all(&clients, 1, &mut near, &mut far, &mut server);
        drop((clients, near));
        while !server.connections().is_empty() {
            far.turn().unwrap();
            server.serve(&mut far);
        }
    };
    (0..64).for_each(&mut connect_and_close);
    let left = allocation_counter::measure(|| (0..256).for_each(&mut connect_and_close));
    assert!(left.bytes_current < 256 * LEFT, "{left:?}");
}
