//! `rpcrdma bench`: calls between clients and a server in this process, both ends of a connection on one thread.

use std::collections::HashMap;
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::iter;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::client::{Call, CallId, Client, ClientEvent};
use rpcrdma_verbs::driver::{Driver, Id};
use rpcrdma_verbs::measure::ping_pong;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::Credentials;
use rpcrdma_verbs::server::Server;

use crate::world::{Block, ECHO, PROGRAM};

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Octets of arguments, and of results.
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Calls under way at once, on each connection.
    #[arg(long, default_value_t = 16)]
    depth: u16,
    /// Connections on each thread.
    #[arg(long, default_value_t = 1)]
    connections: u32,
    /// Receive buffers that all connections of one end share; 0: each has its own.
    #[arg(long, default_value_t = 0)]
    shared_receives: u32,
    /// Threads, each with clients and a server of its own.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// How long to measure.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Print one object of JSON.
    #[arg(long)]
    json: bool,
}

/// What one thread has found.
struct Found {
    /// Nanoseconds for each call: the least, the median and the most of the samples.
    calls: [f64; 3],
    /// Microseconds from a call to its reply.
    latencies: Vec<f64>,
    /// Registered octets of each connection's ends, both together.
    memory: usize,
}

/// Samples of the rate.
const SAMPLES: u32 = 5;

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    if options.depth == 0 || options.connections == 0 || options.threads == 0 {
        return Err("depth, connections and threads must be one or more".into());
    }
    let progress = std::io::stderr().is_terminal() && !options.json;
    let threads: Vec<_> = (0..options.threads)
        .map(|number| {
            let options = options.clone();
            thread::spawn(move || one_thread(&options, progress && number == 0).map_err(|error| error.to_string()))
        })
        .collect();
    let mut found = Vec::new();
    for thread in threads {
        found.push(thread.join().map_err(|_| "a thread has failed")??);
    }
    let raw = raw(options)?;
    report(options, raw, &found);
    Ok(())
}

/// The same messages without RPC: 72 octets of headers there, 56 back, in Version Two.
fn raw(options: &Options) -> Result<f64, Box<dyn Error>> {
    let sizes = (options.size.saturating_add(72), options.size.saturating_add(56));
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let fabric = Fabric::new();
        samples.push(ping_pong(&fabric.device(), &fabric.device(), sizes, options.depth.into(), 100_000)?);
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples.get(2).copied().unwrap_or_default())
}

fn report(options: &Options, raw: f64, found: &[Found]) {
    let rate: f64 = found.iter().map(|one| 1e9 / one.calls[1]).sum();
    let median = found.len() as f64 * 1e9 / rate;
    let (least, most) =
        found.iter().fold((f64::MAX, 0f64), |(least, most), one| (least.min(one.calls[0]), most.max(one.calls[2])));
    let octets = 2.0 * f64::from(options.size) * rate;
    let mut latencies: Vec<f64> = found.iter().flat_map(|one| one.latencies.iter().copied()).collect();
    latencies.sort_by(f64::total_cmp);
    let percentile = |of: usize| latencies.get(latencies.len() * of / 1000).copied().unwrap_or_default();
    let [half, ninety, ninety_nine, last] = [500, 900, 990, 999].map(percentile);
    let memory = found.first().map_or(0, |one| one.memory);
    if options.json {
        let json = serde_json::json!({
            "size": options.size, "depth": options.depth, "connections": options.connections, "threads": options.threads,
            "ns_per_rpc": median, "ns_per_rpc_least": least, "ns_per_rpc_most": most, "raw_ns": raw,
            "rpc_per_second": rate, "bytes_per_second": octets, "registered_bytes_per_connection": memory,
            "latency_us": { "p50": half, "p90": ninety, "p99": ninety_nine, "p999": last },
        });
        println!("{json}");
        return;
    }
    let Options { size, depth, connections, threads, .. } = options;
    println!("{size} octets each way, {depth} under way on each of {connections} connections, {threads} threads:");
    println!(
        "    {median:.0} ns for each call on its thread ({least:.0} to {most:.0}), {rate:.0} calls in a second, {:.0} MB/s",
        octets / 1e6
    );
    println!("    {raw:.0} ns for the same messages without RPC");
    println!(
        "    {half:.1} us from call to reply at the median, {ninety:.1} at 90 %, {ninety_nine:.1} at 99 %, {last:.1} at 99.9 %"
    );
    println!("    {memory} octets registered for each connection, both ends together");
}

/// Clients and their server, on one thread.
struct Ends {
    near: Driver<SoftwareDevice>,
    far: Driver<SoftwareDevice>,
    server: Server<Block>,
    clients: Vec<(Client, u32)>,
    by_id: HashMap<Id, usize>,
    /// Clients that may begin a call, each as often as it may.
    idle: Vec<usize>,
    arguments: Vec<u8>,
    depth: u32,
    /// When each call began, where that is wanted.
    begun: Option<HashMap<(usize, CallId), Instant>>,
    latencies: Vec<f64>,
}

fn one_thread(options: &Options, progress: bool) -> Result<Found, Box<dyn Error>> {
    let (near, far) = (Budget::new(1 << 32), Budget::new(1 << 32));
    let mut ends = Ends::new(options, &near, &far)?;
    // The connections, and memory that is made once.
    ends.measure(Duration::from_millis(300))?;
    let mut samples = Vec::new();
    for number in 0..SAMPLES {
        if progress {
            eprint!("\r{} of {SAMPLES} ", number + 1);
            std::io::stderr().flush()?;
        }
        samples.push(ends.measure(Duration::from_millis(options.seconds * 1000) / SAMPLES)?);
    }
    if progress {
        eprint!("\r        \r");
    }
    samples.sort_by(f64::total_cmp);
    let memory = (near.used() + far.used()) / options.connections as usize;
    ends.begun = Some(HashMap::new());
    ends.measure(Duration::from_millis(200))?;
    let sample = |at: usize| samples.get(at).copied().unwrap_or_default();
    Ok(Found { calls: [sample(0), sample(2), sample(4)], latencies: ends.latencies, memory })
}

impl Ends {
    fn new(options: &Options, near: &Budget, far: &Budget) -> Result<Self, Box<dyn Error>> {
        let (depth, connections) = (options.depth, options.connections);
        let completions = (8 * u32::from(depth) + 256).saturating_mul(connections).min(1 << 22);
        let fabric = Fabric::new();
        let mut near = Driver::new(&fabric.device(), near, completions)?;
        let mut far = Driver::new(&fabric.device(), far, completions)?;
        let mut client = Config { calls: depth.saturating_add(16), credits: depth.into(), ..Config::client() };
        let mut server = Config { serve: depth, ..Config::server() };
        if options.shared_receives > 0 {
            for (driver, config) in [(&mut near, &mut client), (&mut far, &mut server)] {
                driver.share_receives(options.shared_receives, config.receive_size)?;
                config.receive_size_most = config.receive_size;
            }
        }
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let block = Block::new(far.pool().clone());
        let server = Server::bind(&mut far, any, server, block)?;
        let connect = |_| Client::connect(&mut near, server.address(), client.clone(), Credentials::none());
        let clients: Result<Vec<_>, _> = (0..connections).map(connect).collect();
        let clients = clients?;
        let all = || clients.iter().enumerate();
        Ok(Self {
            by_id: all().map(|(number, client)| (client.id(), number)).collect(),
            idle: all().flat_map(|(number, _)| iter::repeat_n(number, depth.into())).collect(),
            clients: clients.into_iter().map(|client| (client, 0)).collect(),
            near,
            far,
            server,
            arguments: vec![0x5a; options.size as usize],
            depth: depth.into(),
            begun: None,
            latencies: Vec::new(),
        })
    }

    /// Nanoseconds for each call.
    fn measure(&mut self, time: Duration) -> Result<f64, Box<dyn Error>> {
        let (began, mut done) = (Instant::now(), 0u64);
        // A look at the clock for a thousand calls or so.
        let rounds = 1 + 1000 / (self.clients.len() * self.depth as usize);
        while began.elapsed() < time {
            for _ in 0..rounds {
                done += self.round(true)?;
            }
        }
        let elapsed = began.elapsed();
        // Those that are still under way are not counted, but ended.
        while self.clients.iter().any(|(_, open)| *open > 0) {
            self.round(false)?;
        }
        Ok(elapsed.as_nanos() as f64 / done.max(1) as f64)
    }

    /// Turns everything once: how many calls have ended.
    fn round(&mut self, begin: bool) -> Result<u64, Box<dyn Error>> {
        let largest_results = u32::try_from(self.arguments.len())?;
        let mut done = 0;
        while begin && let Some(number) = self.idle.pop() {
            if let Some((client, open)) = self.clients.get_mut(number) {
                let call = Call { largest_results, ..Call::to(PROGRAM, 1, ECHO) };
                let arguments = &self.arguments;
                let call = client.call(&mut self.near, call, |writer| {
                    writer.octets(arguments);
                    Ok(())
                })?;
                if let Some(begun) = &mut self.begun {
                    begun.insert((number, call), Instant::now());
                }
                *open += 1;
            }
        }
        self.near.turn()?;
        self.far.turn()?;
        self.server.serve(&mut self.far);
        while let Some(id) = self.near.ready() {
            let Some(number) = self.by_id.get(&id).copied() else { continue };
            let Some((client, open)) = self.clients.get_mut(number) else { continue };
            while let Some(event) = client.event(&mut self.near) {
                match event {
                    ClientEvent::Answered { call, .. } => {
                        let began = self.begun.as_mut().and_then(|begun| begun.remove(&(number, call)));
                        self.latencies.extend(began.map(|began| began.elapsed().as_nanos() as f64 / 1000.0));
                        (*open, done) = (*open - 1, done + 1);
                        self.idle.push(number);
                    }
                    ClientEvent::Failed { why, .. } => return Err(why.into()),
                    _ => {}
                }
            }
        }
        Ok(done)
    }
}
