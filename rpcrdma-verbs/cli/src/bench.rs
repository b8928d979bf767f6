//! `rpcrdma bench`: calls between clients and a server. Both ends of a connection are on one
//! thread, or the server is on another thread or host.
//!
//! `check` rejects options that contradict each other, so the child modules rely on sizes and
//! numbers of at least 1. On one thread, samples of calls and of the reference alternate, so that
//! noise affects both. `report` prints the results.

mod clients;
#[cfg(feature = "tokio")]
mod on_tokio;
mod reference;
mod report;
mod server_thread;
mod tcp;

use std::error::Error;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use rpcrdma_proto::connection::Config;
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::memory::Budget;

use crate::block::BLOCK_SIZE;
use crate::device_source::{self, DeviceSource, Locality};
use crate::output::UsageError;
use crate::progress::Progress;
use crate::serve::PORT;
use crate::server_name::HostPort;
use crate::test_pair::rtr;
use crate::units::{size, size_u32, time};
use clients::{Clients, Costs};
use reference::Reference;
use server_thread::ServerThread;

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: device_source::Options,
    /// Host and port of a server that `rpcrdma serve` runs; the default port is 20049.
    #[arg(long, value_name = "HOST[:PORT]")]
    connect: Option<HostPort>,
    /// The address of the server, once it is known.
    #[arg(skip)]
    server: Option<SocketAddr>,
    /// The name of the device, once it is selected; `None` for the embedded fabric.
    #[arg(skip)]
    selected: Option<String>,
    /// Run the server on a separate thread, so that both ends work in parallel.
    #[arg(long, conflicts_with_all = ["connect", "threads"])]
    apart: bool,
    /// The operation of the calls.
    #[arg(long, value_enum, default_value_t = Operation::Echo)]
    operation: Operation,
    /// Bytes of arguments and of results, or of the data read or written.
    #[arg(long, value_name = "BYTES", value_parser = size_u32, default_value = "64")]
    size: u32,
    /// Outstanding calls on each connection.
    #[arg(long, default_value_t = 16)]
    depth: u16,
    /// Connections on each thread.
    #[arg(long, default_value_t = 1)]
    connections: u32,
    /// Receive buffers that the connections of one end share; with 0 each connection has its own.
    #[arg(long, default_value_t = 0)]
    shared_receives: u32,
    /// Bytes at either end that are read or written in turn; they should exceed the processor's
    /// caches. The reference uses the same size.
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "64M")]
    working_set: u64,
    /// Threads. Each has its own clients, and its own server unless the server is remote.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Also measure an echo with futures on tokio: one task for each outstanding call, with a
    /// shared channel. With --apart there are two worker threads, and the server has its own
    /// thread; otherwise everything runs on one thread.
    #[cfg(feature = "tokio")]
    #[arg(long)]
    tokio: bool,
    /// The version of RPC-over-RDMA that the clients request.
    #[arg(long, value_name = "NUMBER", value_parser = protocol, default_value = "2")]
    protocol: Version,
    /// The extension that both ends use beside Version Two.
    #[arg(long, value_enum, default_value_t = Extension::None)]
    extension: Extension,
    /// One-way delay of the embedded fabric, which shows the round trips of a call.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "device")]
    delay: Option<Duration>,
    /// Duration of the measurement.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "3s")]
    duration: Duration,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Parses the number of a version.
fn protocol(text: &str) -> Result<Version, String> {
    match text {
        "1" => Ok(Version::One),
        "2" => Ok(Version::Two),
        _ => Err("there are versions 1 and 2".to_owned()),
    }
}

/// The operation of the calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Operation {
    /// The reply returns the arguments.
    Echo,
    /// The server writes data by RDMA Write into buffers of the client.
    Read,
    /// The server reads data by RDMA Read from buffers of the client.
    Write,
}

/// The extension that both ends use beside Version Two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Extension {
    /// None: receive buffers of 4 KiB; larger messages are transferred by RDMA Read and Write.
    None,
    /// Messages in up to 8 transmissions, and receive buffers of 4 KiB with 64 KiB for bulk data
    /// (rtrext-02).
    Rtr,
}

impl Extension {
    /// Adds the extension to settings.
    fn of(self, config: Config) -> Config {
        match self {
            Self::None => config,
            Self::Rtr => config.with_rtr(rtr()),
        }
    }
}

/// The measurement of one thread.
struct Measurement {
    /// Nanoseconds per call: minimum, median and maximum of the samples.
    calls: [f64; 3],
    /// Microseconds from each call to its reply.
    latencies: Vec<f64>,
    /// Registered bytes of both ends of each connection together.
    memory: usize,
    /// The cost of a call at both ends together, if both are in this process.
    costs: Option<Costs>,
}

/// The number of samples of the rate.
const SAMPLES: u32 = 7;

impl Options {
    pub(crate) fn run(mut self) -> Result<(), Box<dyn Error>> {
        self.check()?;
        if let Some(server) = &self.connect {
            self.server = Some(server.resolve(PORT)?);
        }
        let reach = self
            .server
            .map_or(Locality::Process, |server| Locality::Client(server.ip()));
        let delay = self.delay.unwrap_or_default();
        let source = self.source.delayed(reach, delay)?;
        self.selected = source.name().map(str::to_owned);
        self.measure(&source)
    }

    fn check(&self) -> Result<(), UsageError> {
        if self.depth == 0 || self.connections == 0 || self.threads == 0 || self.size == 0 {
            let text = "size, depth, connections and threads must be one or more";
            return Err(UsageError(text.to_owned()));
        }
        if self.extension == Extension::Rtr && self.shared_receives > 0 {
            let text = "receives that are shared have one segment: not with --extension rtr";
            return Err(UsageError(text.to_owned()));
        }
        if self.extension == Extension::Rtr && self.protocol == Version::One {
            let text = "Version One has no extensions: not with --extension rtr";
            return Err(UsageError(text.to_owned()));
        }
        #[cfg(feature = "tokio")]
        if self.tokio
            && (self.operation != Operation::Echo
                || self.extension != Extension::None
                || self.shared_receives > 0
                || self.connect.is_some())
        {
            let text = "--tokio measures an echo of one process: not with --connect, --extension, \
                        --shared-receives or another operation";
            return Err(UsageError(text.to_owned()));
        }
        if self.operation != Operation::Echo && self.size > BLOCK_SIZE {
            let text = format!("a call reads or writes {BLOCK_SIZE} bytes at most");
            return Err(UsageError(text));
        }
        Ok(())
    }

    /// Returns the number of buffers of the working set at each end.
    fn buffers(&self) -> usize {
        usize::try_from(self.working_set / u64::from(self.size))
            .unwrap_or(usize::MAX)
            .clamp(usize::from(self.depth), 1 << 16)
    }

    fn measure(self, source: &DeviceSource) -> Result<(), Box<dyn Error>> {
        let progress = Progress::is_default() && !self.json;
        let apart = self
            .apart
            .then(|| ServerThread::new(&self, source))
            .transpose()?;
        let server = apart.as_ref().map(|apart| apart.address).or(self.server);
        let mut reference = if self.connect.is_none() {
            Some(Reference::new(&self, source)?)
        } else {
            None
        };
        let mut found = Vec::new();
        if self.threads == 1 {
            // A server on its own thread sleeps while the reference is measured.
            found.push(one_thread(
                &Self {
                    server,
                    ..self.clone()
                },
                source,
                progress,
                reference.as_mut(),
            )?);
        } else {
            let threads: Vec<_> = (0..self.threads)
                .map(|number| {
                    let (options, source) = (
                        Self {
                            server,
                            ..self.clone()
                        },
                        source.clone(),
                    );
                    let progress = progress && number == 0;
                    let run = move || one_thread(&options, &source, progress, None);
                    thread::spawn(move || run().map_err(|error| error.to_string()))
                })
                .collect();
            for thread in threads {
                found.push(thread.join().map_err(|_| "a thread has failed")??);
            }
            // Without this, the reference could use the processors of other threads that have
            // finished.
            drop(apart);
            if let Some(reference) = &mut reference {
                (0..SAMPLES).try_for_each(|_| reference.take())?;
            }
        }
        let tokio = with_tokio(&self, source)?;
        report::print(&self, reference.as_ref(), tokio, &found)?;
        Ok(())
    }
}

/// Measures on one thread, in turns with the reference.
fn one_thread(
    options: &Options,
    source: &DeviceSource,
    progress: bool,
    mut reference: Option<&mut Reference<'_>>,
) -> Result<Measurement, Box<dyn Error>> {
    let (near, far) = (Budget::new(1 << 34), Budget::new(1 << 34));
    let mut ends = Clients::new(options, source, &near, &far)?;
    // The connections, and memory that is allocated once.
    ends.measure(Duration::from_millis(300))?;
    let (mut samples, mut progress) = (Vec::new(), Progress::new(progress));
    for number in 1..=SAMPLES {
        progress.show(format_args!("{number} of {SAMPLES}"));
        samples.push(ends.measure(options.duration / SAMPLES)?);
        if let Some(reference) = &mut reference {
            reference.take()?;
        }
    }
    drop(progress);
    let memory = (near.used() + far.used()) / options.connections as usize;
    let costs = ends.costs(options.duration / SAMPLES)?;
    let latencies = ends.latencies(Duration::from_millis(200))?;
    Ok(Measurement {
        calls: least_median_most(samples),
        latencies,
        memory,
        costs,
    })
}

fn least_median_most(mut samples: Vec<f64>) -> [f64; 3] {
    samples.sort_by(f64::total_cmp);
    let sample = |at: usize| samples.get(at).copied().unwrap_or_default();
    let last = samples.len().saturating_sub(1);
    [sample(0), sample(last / 2), sample(last)]
}

/// Measures the nanoseconds per call of a channel on tokio, if requested.
#[cfg(feature = "tokio")]
fn with_tokio(options: &Options, source: &DeviceSource) -> Result<Option<f64>, Box<dyn Error>> {
    options
        .tokio
        .then(|| on_tokio::measure(options, source).map(|samples| samples[1]))
        .transpose()
}

#[cfg(not(feature = "tokio"))]
fn with_tokio(_: &Options, _: &DeviceSource) -> Result<Option<f64>, Box<dyn Error>> {
    Ok(None)
}
