//! `rpcrdma bench`: calls between clients and a server, in this process with both ends of a connection on one thread, or with
//! the server on another or elsewhere.

mod apart;
mod ends;
#[cfg(feature = "tokio")]
mod on_tokio;
mod reference;
mod report;

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::memory::Budget;

use crate::block::BLOCK;
use crate::ground::{self, Ground, Job, address};
use crate::world::rtr;
use apart::Apart;
use ends::{Costs, Ends};
use reference::Reference;

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    ground: ground::Options,
    /// A server elsewhere, as `rpcrdma serve` has it: with a port, or at 20049.
    #[arg(long, value_parser = address)]
    connect: Option<SocketAddr>,
    /// The server on a thread of its own: what one end does, the other does not wait for.
    #[arg(long, conflicts_with_all = ["connect", "threads"])]
    apart: bool,
    /// What the calls do.
    #[arg(long, value_enum, default_value_t = Operation::Echo)]
    operation: Operation,
    /// Octets of arguments and of results, or of the data that is read or written.
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
    /// MiB at either end that are read or written, one part after the other: more than the processor's caches have. What the calls
    /// are held against takes as many.
    #[arg(long, default_value_t = 64)]
    working_set: u32,
    /// Threads, each with clients and a server of its own, if that is not elsewhere.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The same echo with futures on tokio, too: one client, with as many calls under way.
    #[cfg(feature = "tokio")]
    #[arg(long)]
    tokio: bool,
    /// What both ends speak beside Version Two.
    #[arg(long, value_enum, default_value_t = Extension::None)]
    extension: Extension,
    /// Microseconds from one end of the embedded fabric to the other: a call shows how many round trips it takes.
    #[arg(long, value_name = "MICROSECONDS", conflicts_with = "device")]
    delay: Option<u64>,
    /// How long to measure.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Print one object of JSON.
    #[arg(long)]
    json: bool,
}

/// What the calls do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Operation {
    /// The arguments come back in the reply.
    Echo,
    /// Data comes by RDMA Write, into buffers of the client's.
    Read,
    /// Data goes by RDMA Read, from buffers of the client's.
    Write,
}

/// What both ends speak beside Version Two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Extension {
    /// Nothing: receive buffers of 4 KiB, and what does not fit is moved by RDMA Read and Write.
    None,
    /// Messages in up to 8 transmissions, and receive buffers of 4 KiB with 64 KiB for bulk data (rtrext-02).
    Rtr,
}

impl Extension {
    /// Settings with it.
    fn of(self, config: Config) -> Config {
        match self {
            Self::None => config,
            Self::Rtr => config.with_rtr(rtr()),
        }
    }
}

/// What one thread has found.
struct Found {
    /// Nanoseconds for each call: the least, the median and the most of the samples.
    calls: [f64; 3],
    /// Microseconds from a call to its reply.
    latencies: Vec<f64>,
    /// Registered octets of each connection's ends, both together.
    memory: usize,
    /// What a call costs at both ends together, where both are here.
    costs: Option<Costs>,
}

/// Samples of the rate.
const SAMPLES: u32 = 7;

impl Options {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        if self.depth == 0 || self.connections == 0 || self.threads == 0 || self.size == 0 {
            return Err("size, depth, connections and threads must be one or more".into());
        }
        if self.extension == Extension::Rtr && self.shared_receives > 0 {
            return Err("receives that are shared have one segment: not with --extension rtr".into());
        }
        if self.operation != Operation::Echo && self.size > BLOCK {
            return Err(format!("a call reads or writes {BLOCK} octets at most").into());
        }
        let reach = if self.connect.is_some() { ground::Reach::Network } else { ground::Reach::Process };
        let delay = Duration::from_micros(self.delay.unwrap_or_default());
        self.ground.clone().run_delayed(reach, delay, self)
    }

    /// Buffers of the working set at each end.
    fn buffers(&self) -> usize {
        let set = u64::from(self.working_set) << 20;
        usize::try_from(set / u64::from(self.size)).unwrap_or(usize::MAX).clamp(usize::from(self.depth), 1 << 16)
    }
}

impl Job for Options {
    type Done = ();

    fn on<G: Ground>(self, ground: &G) -> Result<(), Box<dyn Error>> {
        let progress = std::io::stderr().is_terminal() && !self.json;
        let apart = self.apart.then(|| Apart::new(&self, ground)).transpose()?;
        let connect = apart.as_ref().map(|apart| apart.address).or(self.connect);
        let mut reference = if self.connect.is_none() { Some(Reference::new(&self, ground)?) } else { None };
        let mut found = Vec::new();
        if self.threads == 1 {
            // A server on a thread of its own sleeps while the reference has its turn.
            found.push(one_thread(&Self { connect, ..self.clone() }, ground, progress, reference.as_mut())?);
        } else {
            let threads: Vec<_> = (0..self.threads)
                .map(|number| {
                    let (options, ground) = (Self { connect, ..self.clone() }, ground.clone());
                    let progress = progress && number == 0;
                    let run = move || one_thread(&options, &ground, progress, None);
                    thread::spawn(move || run().map_err(|error| error.to_string()))
                })
                .collect();
            for thread in threads {
                found.push(thread.join().map_err(|_| "a thread has failed")??);
            }
            // Taking turns, the reference would have the processors of other threads.
            drop(apart);
            if let Some(reference) = &mut reference {
                (0..SAMPLES).try_for_each(|_| reference.take())?;
            }
        }
        let tokio = if self.connect.is_none() { with_tokio(&self, ground)? } else { None };
        report::print(&self, reference.as_ref(), tokio, &found)?;
        Ok(())
    }
}

/// What one thread finds, in turns with what it is held against.
fn one_thread<G: Ground>(
    options: &Options,
    ground: &G,
    progress: bool,
    mut reference: Option<&mut Reference<'_, G>>,
) -> Result<Found, Box<dyn Error>> {
    let (near, far) = (Budget::new(1 << 34), Budget::new(1 << 34));
    let mut ends = Ends::new(options, ground, &near, &far)?;
    // The connections, and memory that is made once.
    ends.measure(Duration::from_millis(300))?;
    let mut samples = Vec::new();
    for number in 0..SAMPLES {
        if progress {
            eprint!("\r{} of {SAMPLES} ", number + 1);
            std::io::stderr().flush()?;
        }
        samples.push(ends.measure(Duration::from_millis(options.seconds * 1000) / SAMPLES)?);
        if let Some(reference) = &mut reference {
            reference.take()?;
        }
    }
    if progress {
        eprint!("\r        \r");
    }
    let memory = (near.used() + far.used()) / options.connections as usize;
    let costs = ends.costs(Duration::from_secs(options.seconds) / SAMPLES)?;
    let latencies = ends.latencies(Duration::from_millis(200))?;
    Ok(Found { calls: least_median_most(samples), latencies, memory, costs })
}

fn least_median_most(mut samples: Vec<f64>) -> [f64; 3] {
    samples.sort_by(f64::total_cmp);
    let sample = |at: usize| samples.get(at).copied().unwrap_or_default();
    let last = samples.len().saturating_sub(1);
    [sample(0), sample(last / 2), sample(last)]
}

/// Nanoseconds for a call with futures on tokio, where it was asked for.
#[cfg(feature = "tokio")]
fn with_tokio<G: Ground>(options: &Options, ground: &G) -> Result<Option<f64>, Box<dyn Error>> {
    let wants = options.tokio && options.operation == Operation::Echo;
    wants.then(|| on_tokio::measure(options, ground).map(|samples| samples[1])).transpose()
}

#[cfg(not(feature = "tokio"))]
fn with_tokio<G: Ground>(_: &Options, _: &G) -> Result<Option<f64>, Box<dyn Error>> {
    Ok(None)
}
