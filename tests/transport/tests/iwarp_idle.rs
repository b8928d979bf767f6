//! Many idle iWARP connections: their memory, and their cost for a hundred busy connections.
//!
//! `RPCRDMA_IDLE=10000` sets their number. It needs a limit `ulimit -n` of twice this number and a
//! thousand more. The results are printed: `cargo test --release -p rpcrdma-transport-tests --test
//! iwarp_idle -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Instant;

use rpcrdma_proto::chunk::ChunkLimits;
use rpcrdma_proto::connection::{Config, Role};
use rpcrdma_transport_tests::block::Block;
use rpcrdma_transport_tests::block1::Client;
use rpcrdma_transport_tests::ends::{self, Programs, any_address};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::iwarp::IwarpDevice;
use rpcrdma_verbs::{LocalChannel, LocalEvent, LocalServer};

const BUSY: usize = 100;
/// The connections that are set up concurrently.
const AT_ONCE: usize = 100;
/// The page size in bytes of the machines that run this test.
const PAGE: usize = 4096;

/// Both ends of some connections, which share their receives.
struct Pair {
    near: Driver<IwarpDevice>,
    far: Driver<IwarpDevice>,
    server: LocalServer<Programs>,
    clients: Vec<Client<LocalChannel<IwarpDevice>>>,
    config: Config,
}

impl Pair {
    fn new() -> Self {
        let limits = ChunkLimits {
            max_segments: 8,
            ..ChunkLimits::DEFAULT
        };
        let config = Config {
            max_segments: 8,
            limits,
            max_calls: 32,
            credits: 32,
            max_served: 0,
            max_receive_size: 4096,
            ..Config::client()
        };
        let server = Config {
            role: Role::Server,
            max_calls: 0,
            credits: 0,
            max_served: 32,
            ..config.clone()
        };
        let driver = || {
            let budget = Budget::new(1 << 30);
            let mut driver = Driver::new(&IwarpDevice::default(), &budget, 1 << 17).unwrap();
            driver.share_receives(1024, config.receive_size).unwrap();
            driver
        };
        let (near, mut far) = (driver(), driver());
        let server = ends::serve(&mut far, any_address(), server, &Block::default());
        Self {
            near,
            far,
            server,
            clients: Vec::new(),
            config,
        }
    }

    /// Connects, and makes a call on each connection.
    fn connect(&mut self, count: usize) {
        for begun in (0..count).step_by(AT_ONCE) {
            let address = self.server.local_addr();
            let from = self.clients.len();
            for _ in 0..AT_ONCE.min(count - begun) {
                let client = ends::connect(&mut self.near, address, self.config.clone());
                self.clients.push(client);
            }
            self.call(from..self.clients.len());
        }
    }

    /// Makes a concurrent call on each of some connections.
    fn call(&mut self, clients: std::ops::Range<usize>) {
        let began = Instant::now();
        let mut left = clients.len();
        for client in &self.clients[clients.clone()] {
            client.null().begin(&mut self.near).unwrap();
        }
        while left > 0 {
            assert!(began.elapsed() < ends::PATIENCE, "{left} calls are open");
            self.near.turn().unwrap();
            self.far.turn().unwrap();
            self.server.serve(&mut self.far);
            for client in &self.clients[clients.clone()] {
                let channel = client.transport();
                while let Some(event) = channel.poll_event(&mut self.near) {
                    match event {
                        LocalEvent::Completed(completed) => {
                            channel.recycle(&mut self.near, completed);
                            left -= 1;
                        }
                        LocalEvent::Connected(_) => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
    }

    /// Measures calls on a hundred connections.
    fn measure(&mut self) -> f64 {
        let began = Instant::now();
        (0..20).for_each(|_| self.call(0..BUSY));
        began.elapsed().as_nanos() as f64 / (20 * BUSY) as f64
    }
}

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    PAGE * pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
}

#[test]
fn idle_connections_are_cheap() {
    let idle = std::env::var("RPCRDMA_IDLE").map_or(300, |count| count.parse().unwrap());
    let [mut alone, mut among] = [Pair::new(), Pair::new()];
    [&mut alone, &mut among]
        .into_iter()
        .for_each(|pair| pair.connect(BUSY));
    let before = resident();
    among.connect(idle);
    let held = resident().saturating_sub(before);
    assert_eq!(among.server.connections().len(), BUSY + idle);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..30 {
        times[0].push(alone.measure());
        times[1].push(among.measure());
    }
    let [alone, among] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!(
        "{idle} idle connections hold {} MB at both ends, {} bytes each; a call on one of {BUSY} \
        others takes {among:.0} ns, and {alone:.0} ns without them: {:.2} times that",
        held >> 20,
        held / idle,
        among / alone
    );
    // Both ends: a hundredth of the limit for ten thousand connections at one end.
    assert!(held / idle < 100 << 10, "{held} bytes");
}
