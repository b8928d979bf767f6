//! Many idle iWARP connections: their memory, and their cost for a hundred busy connections.
//!
//! The clients of the idle connections are in a process of their own, which this program starts
//! from itself. `RPCRDMA_IDLE=10000` sets their number. It needs a limit `ulimit -n` of this number
//! and a thousand more. The results are printed: `cargo test --release -p rpcrdma-transport-tests
//! --test iwarp_idle -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

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

/// The address of the server, in the process of the idle clients.
const SERVER: &str = "RPCRDMA_IDLE_SERVER";

/// The settings of the clients.
fn config() -> Config {
    let limits = ChunkLimits {
        max_segments: 8,
        ..ChunkLimits::DEFAULT
    };
    Config {
        max_segments: 8,
        limits,
        max_calls: 32,
        credits: 32,
        max_served: 0,
        max_receive_size: 4096,
        ..Config::client()
    }
}

/// Returns a driver whose connections share their receives.
fn driver() -> Driver<IwarpDevice> {
    let budget = Budget::new(1 << 30);
    let mut driver = Driver::new(&IwarpDevice::default(), &budget, 1 << 17).unwrap();
    let size = config().receive_size;
    driver.share_receives(1024, size).unwrap();
    driver
}

struct Clients {
    driver: Driver<IwarpDevice>,
    channels: Vec<Client<LocalChannel<IwarpDevice>>>,
}

impl Clients {
    fn new() -> Self {
        Self {
            driver: driver(),
            channels: Vec::new(),
        }
    }

    /// Connects, and makes a call on each connection.
    fn connect(&mut self, address: SocketAddr, count: usize, mut turn: impl FnMut()) {
        for begun in (0..count).step_by(AT_ONCE) {
            let from = self.channels.len();
            for _ in 0..AT_ONCE.min(count - begun) {
                let channel = ends::connect(&mut self.driver, address, config());
                self.channels.push(channel);
            }
            self.call(from..self.channels.len(), &mut turn);
        }
    }

    /// Makes a concurrent call on each of some connections. `turn` advances the server, if it is in
    /// this process.
    fn call(&mut self, channels: std::ops::Range<usize>, mut turn: impl FnMut()) {
        let began = Instant::now();
        let mut left = channels.len();
        for channel in &self.channels[channels.clone()] {
            channel.null().begin(&mut self.driver).unwrap();
        }
        while left > 0 {
            assert!(began.elapsed() < ends::PATIENCE, "{left} calls are open");
            self.driver.turn().unwrap();
            turn();
            for channel in &self.channels[channels.clone()] {
                let channel = channel.transport();
                while let Some(event) = channel.poll_event(&mut self.driver) {
                    match event {
                        LocalEvent::Completed(completed) => {
                            channel.recycle(&mut self.driver, completed);
                            left -= 1;
                        }
                        LocalEvent::Connected(_) => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
    }
}

/// A server, and busy clients in this process.
struct Pair {
    clients: Clients,
    far: Driver<IwarpDevice>,
    server: LocalServer<Programs>,
}

impl Pair {
    fn new() -> Self {
        let config = Config {
            role: Role::Server,
            max_calls: 0,
            credits: 0,
            max_served: 32,
            ..config()
        };
        let mut far = driver();
        let server = ends::serve(&mut far, any_address(), config, &Block::default());
        let address = server.local_addr();
        let mut pair = Self {
            clients: Clients::new(),
            far,
            server,
        };
        let Self {
            clients,
            far,
            server,
        } = &mut pair;
        clients.connect(address, BUSY, || turn(far, server));
        pair
    }

    /// Measures calls on a hundred connections, in nanoseconds each.
    fn measure(&mut self) -> f64 {
        let (far, server) = (&mut self.far, &mut self.server);
        let began = Instant::now();
        for _ in 0..20 {
            self.clients.call(0..BUSY, || turn(far, server));
        }
        began.elapsed().as_nanos() as f64 / (20 * BUSY) as f64
    }

    /// Serves the idle clients of another process until they are connected. Returns the process,
    /// and the bytes that it holds.
    fn connect_idle(&mut self) -> (Child, usize) {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["idle_connections_are_cheap", "--exact", "--nocapture"])
            .env(SERVER, self.server.local_addr().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let lines = out.lines().map_while(Result::ok);
            let sizes = lines.filter_map(|line| line.strip_prefix("held: ")?.parse().ok());
            sizes.for_each(|bytes| sender.send(bytes).unwrap());
        });
        loop {
            turn(&mut self.far, &mut self.server);
            match receiver.try_recv() {
                Ok(bytes) => break (child, bytes),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => panic!("the idle clients have ended"),
            }
        }
    }
}

fn turn(far: &mut Driver<IwarpDevice>, server: &mut LocalServer<Programs>) {
    far.turn().unwrap();
    server.serve(far);
}

/// Connects the idle clients, prints the bytes that they hold, and keeps them until the standard
/// input ends.
fn hold_idle(server: SocketAddr, count: usize) {
    let mut clients = Clients::new();
    let before = resident();
    clients.connect(server, count, || {});
    println!("\nheld: {}", resident().saturating_sub(before));
    let ended = thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    while !ended.is_finished() {
        clients.driver.turn().unwrap();
        thread::sleep(Duration::from_millis(20));
    }
}

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    PAGE * pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
}

#[test]
fn idle_connections_are_cheap() {
    let idle = env::var("RPCRDMA_IDLE").map_or(300, |count| count.parse().unwrap());
    if let Ok(server) = env::var(SERVER) {
        return hold_idle(server.parse().unwrap(), idle);
    }
    let [mut alone, mut among] = [Pair::new(), Pair::new()];
    let before = resident();
    let (mut child, at_clients) = among.connect_idle();
    let at_server = resident().saturating_sub(before);
    assert_eq!(among.server.connections().len(), BUSY + idle);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..30 {
        times[0].push(alone.measure());
        times[1].push(among.measure());
    }
    assert_eq!(among.server.connections().len(), BUSY + idle);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let [alone, among] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!(
        "{idle} idle connections hold {} MB at the server and {} MB at the clients; a call on one \
        of {BUSY} others takes {among:.0} ns, and {alone:.0} ns without them: {:.2} times that",
        at_server >> 20,
        at_clients >> 20,
        among / alone
    );
    // Ten thousand may hold 1 GiB. Few connections have a larger part of what all share.
    let each = at_server.max(at_clients) / idle;
    assert!(each < 50 << 10, "{each} bytes each");
}
