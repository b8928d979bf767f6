//! Clients, and their server if it is in this process.
//!
//! `round` begins calls up to the depth of each client, and turns both ends in the order of a call
//! and its reply: the measured path allocates and checks as little as it can. `measure` counts each
//! call until its reply. A lost connection ends the measurement. `server` also creates the servers
//! of `server_thread`.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::iter;
use std::time::{Duration, Instant};

use oncrpc::xdr::{Item, SharedBytes};
use oncrpc::{CallError, PendingCall};
use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::driver::{ConnectionCounters, ConnectionId, Driver};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::{CompletedCall, LocalChannel, LocalEvent, LocalServer};

use super::{Operation, Options};
use crate::block::{self, BLOCK_SIZE, BlockService, Programs};
use crate::device_source::DeviceSource;
use crate::schema::block::block1::{self, Discard, Echo, Read};
use crate::schema::{ReadArgs, Region};

/// A server with its driver.
type Serving = (Driver<AnyDevice>, LocalServer<Programs>);
type Client = block1::Client<LocalChannel<AnyDevice>>;

/// Clients on one thread, with their server if it is in this process.
pub(super) struct Clients {
    near: Driver<AnyDevice>,
    server: Option<Serving>,
    /// The clients, each with its calls in flight.
    clients: Vec<(Client, VecDeque<Pending>)>,
    by_id: HashMap<ConnectionId, usize>,
    /// The clients that may begin a call. Each client appears once for each such call.
    idle: Vec<usize>,
    depth: u32,
    work: Workload,
    /// The start time of each call, if latencies are measured.
    begun: Option<HashMap<(usize, u32), Instant>>,
    latencies: Vec<f64>,
}

/// A call in flight.
#[derive(Clone, Copy)]
enum Pending {
    Echo(PendingCall<Echo>),
    Read(PendingCall<Read>),
    Discard(PendingCall<Discard>),
}

impl Pending {
    fn xid(self) -> u32 {
        match self {
            Self::Echo(call) => call.xid(),
            Self::Read(call) => call.xid(),
            Self::Discard(call) => call.xid(),
        }
    }
}

/// The operation of the calls, with its data.
struct Workload {
    operation: Operation,
    size: u32,
    /// The arguments of an echo.
    arguments: Vec<u8>,
    /// The data to write, in turn, so that the whole working set is used.
    written: VecDeque<Item<'static>>,
    /// The data read last, in as many buffers as the working set has.
    read: VecDeque<SharedBytes>,
    /// The maximum length of `read`.
    kept: usize,
    /// The next block to read.
    block: u32,
}

/// The cost of a call at both ends together: exact counts over many calls.
#[derive(Clone, Copy)]
pub(super) struct Costs {
    /// Round trips between the ends.
    pub(super) round_trips: f64,
    /// Messages, and RDMA Reads and Writes.
    pub(super) messages: f64,
    pub(super) moves: f64,
    /// Work requests posted, except receives.
    pub(super) posts: f64,
    /// Completions taken, including those of receives.
    pub(super) completions: f64,
    /// Regions exposed to the peer.
    pub(super) exposed: f64,
    /// Bytes copied into or out of messages.
    pub(super) copied: f64,
}

/// The number of calls over which costs are counted, and the number for long calls.
const CALLS: u64 = 1 << 12;
const FEW: u64 = 1 << 5;

/// The maximum number of completion queue entries of one driver.
const COMPLETIONS: u32 = 1 << 22;

impl Clients {
    pub(super) fn new(
        options: &Options,
        source: &DeviceSource,
        near: &Budget,
        far: &Budget,
    ) -> Result<Self, Box<dyn Error>> {
        let (depth, connections) = (options.depth, options.connections);
        let mut near = source.driver(near, completions(options))?;
        let mut client = Config {
            max_calls: depth.saturating_add(16),
            credits: depth.into(),
            max_version: options.protocol,
            ..Config::client()
        };
        client = options.extension.of(client);
        share(&mut near, &mut client, options.shared_receives)?;
        let (address, server) = match options.server {
            Some(address) => (address, None),
            None => {
                let (far, server) = server(options, source, far)?;
                (server.local_addr(), Some((far, server)))
            }
        };
        let connect = |_| LocalChannel::connect(&mut near, address, client.clone());
        let channels = (0..connections).map(connect);
        let clients: Vec<_> = channels
            .map(|channel| channel.map(block::client))
            .collect::<Result<_, _>>()?;
        let all = || clients.iter().enumerate();
        Ok(Self {
            by_id: all()
                .map(|(number, client)| (client.transport().id(), number))
                .collect(),
            idle: all()
                .flat_map(|(number, _)| iter::repeat_n(number, depth.into()))
                .collect(),
            work: Workload::new(options, &near)?,
            clients: clients
                .into_iter()
                .map(|client| (client, VecDeque::new()))
                .collect(),
            near,
            server,
            depth: depth.into(),
            begun: None,
            latencies: Vec::new(),
        })
    }

    /// Measures the nanoseconds per call.
    pub(super) fn measure(&mut self, time: Duration) -> Result<f64, Box<dyn Error>> {
        let (began, mut done) = (Instant::now(), 0u64);
        // The clock is read about once in a thousand short calls.
        let calls = if self.work.operation == Operation::Echo {
            1000
        } else {
            1
        };
        let rounds = 1 + calls / (self.clients.len() * self.depth as usize);
        while began.elapsed() < time {
            for _ in 0..rounds {
                done += self.round(true)?;
            }
        }
        // Outstanding calls are included, with their time: if several calls end at once, the begun
        // calls are a better measure than the ended ones.
        while self.clients.iter().any(|(_, open)| !open.is_empty()) {
            done += self.round(false)?;
        }
        Ok(began.elapsed().as_nanos() as f64 / done.max(1) as f64)
    }

    /// Measures the cost of a call in about this time, or returns `None` if the server is
    /// elsewhere.
    pub(super) fn costs(&mut self, time: Duration) -> Result<Option<Costs>, Box<dyn Error>> {
        let Some(before) = self.counters() else {
            return Ok(None);
        };
        let (began, mut done) = (Instant::now(), 0);
        while done < CALLS && (done < FEW || began.elapsed() < time) {
            done += self.round(true)?;
        }
        while self.clients.iter().any(|(_, open)| !open.is_empty()) {
            done += self.round(false)?;
        }
        let Some(after) = self.counters() else {
            return Ok(None);
        };
        let each =
            |of: fn(&ConnectionCounters) -> u64| (of(&after) - of(&before)) as f64 / done as f64;
        Ok(Some(Costs {
            round_trips: each(|all| all.round_trips),
            messages: each(|all| all.sends),
            moves: each(|all| all.reads + all.writes),
            posts: each(|all| all.posted),
            completions: each(|all| all.completed),
            exposed: each(|all| all.exposures),
            copied: each(|all| all.copied),
        }))
    }

    /// Returns the counters of all connections at both ends, or `None` if the server is elsewhere.
    fn counters(&self) -> Option<ConnectionCounters> {
        let (far, server) = self.server.as_ref()?;
        let clients = self
            .clients
            .iter()
            .filter_map(|(client, _)| self.near.counters(client.transport().id()));
        let served = server
            .connections()
            .iter()
            .filter_map(|id| far.counters(*id));
        Some(
            clients
                .chain(served)
                .fold(ConnectionCounters::default(), |sum, one| sum + one),
        )
    }

    /// Measures the microseconds from each call to its reply.
    pub(super) fn latencies(mut self, time: Duration) -> Result<Vec<f64>, Box<dyn Error>> {
        self.begun = Some(HashMap::new());
        self.measure(time)?;
        Ok(self.latencies)
    }

    /// Turns both ends once, in the order of a call and its reply. Returns the number of calls that
    /// have ended.
    fn round(&mut self, begin: bool) -> Result<u64, Box<dyn Error>> {
        let begins = begin && !self.idle.is_empty();
        while begin && let Some(number) = self.idle.pop() {
            let Some((client, open)) = self.clients.get_mut(number) else {
                continue;
            };
            let call = self.work.begin(&mut self.near, client)?;
            if let Some(begun) = &mut self.begun {
                begun.insert((number, call.xid()), Instant::now());
            }
            open.push_back(call);
        }
        if begins {
            self.near.flush();
        }
        if let Some((far, server)) = &mut self.server {
            far.turn()?;
            server.serve(far);
        }
        self.near.turn()?;
        let mut done = 0;
        while let Some(id) = self.near.ready() {
            let Some(number) = self.by_id.get(&id).copied() else {
                continue;
            };
            let Some((client, open)) = self.clients.get_mut(number) else {
                continue;
            };
            while let Some(event) = client.transport().poll_event(&mut self.near) {
                match event {
                    LocalEvent::Completed(completed) => {
                        let began = self.begun.as_mut();
                        let began = began.and_then(|all| all.remove(&(number, completed.xid())));
                        self.latencies
                            .extend(began.map(|began| began.elapsed().as_nanos() as f64 / 1000.0));
                        let at = open.iter().position(|call| call.xid() == completed.xid());
                        let call = at.and_then(|at| open.remove(at)).ok_or("an unknown call")?;
                        self.work.end(client, call, &completed)?;
                        client.transport().recycle(&mut self.near, completed);
                        done += 1;
                        self.idle.push(number);
                    }
                    LocalEvent::Disconnected { reason, .. } => {
                        return Err(format!("no connection: {reason}").into());
                    }
                    _ => {}
                }
            }
        }
        Ok(done)
    }
}

/// Creates a server for these calls, with its driver.
pub(super) fn server(
    options: &Options,
    source: &DeviceSource,
    budget: &Budget,
) -> Result<Serving, Box<dyn Error>> {
    let mut driver = source.driver(budget, completions(options))?;
    let mut config = options.extension.of(Config {
        max_served: options.depth,
        ..Config::server()
    });
    share(&mut driver, &mut config, options.shared_receives)?;
    let set = options.buffers() * options.size as usize / BLOCK_SIZE as usize;
    let blocks = if options.operation == Operation::Read {
        set.max(1)
    } else {
        0
    };
    let block = BlockService::new(&driver, blocks)?;
    let server = block.bind(&mut driver, source.address(0), config)?;
    Ok((driver, server))
}

/// Returns the number of completion queue entries for all connections of a driver.
fn completions(options: &Options) -> u32 {
    (8 * u32::from(options.depth) + 256)
        .saturating_mul(options.connections)
        .min(COMPLETIONS)
}

/// Makes the connections of a driver share receives, if requested.
fn share(
    driver: &mut Driver<AnyDevice>,
    config: &mut Config,
    count: u32,
) -> Result<(), Box<dyn Error>> {
    if count > 0 {
        driver.share_receives(count, config.receive_size)?;
        config.max_receive_size = config.receive_size;
    }
    Ok(())
}

impl Workload {
    fn new(options: &Options, near: &Driver<AnyDevice>) -> Result<Self, Box<dyn Error>> {
        let Options {
            operation,
            size,
            depth,
            connections,
            ..
        } = *options;
        let count = usize::from(depth) * connections as usize;
        let count = options.buffers().max(count);
        let (echoed, written, kept) = match operation {
            Operation::Echo => (size as usize, 0, 0),
            Operation::Read => (0, 0, count),
            Operation::Write => (0, count, 0),
        };
        let item = |_| block::filled(near.pool(), size, 0x5a);
        Ok(Self {
            operation,
            size,
            arguments: vec![0x5a; echoed],
            written: (0..written).map(item).collect::<Result<_, _>>()?,
            read: VecDeque::with_capacity(kept),
            kept,
            block: 0,
        })
    }

    fn begin(
        &mut self,
        near: &mut Driver<AnyDevice>,
        client: &Client,
    ) -> Result<Pending, CallError> {
        Ok(match self.operation {
            Operation::Echo => Pending::Echo(block::echo(client, &self.arguments).begin(near)?),
            Operation::Read => {
                self.block = self.block.wrapping_add(1);
                let args = ReadArgs {
                    block: self.block,
                    count: self.size,
                };
                Pending::Read(client.read(&args).begin(near)?)
            }
            Operation::Write => {
                // The buffer is reused after all others.
                let bytes = self.written.pop_front().unwrap_or_default();
                let region = Region { bytes };
                let call = client.discard(&region).begin(near)?;
                self.written.push_back(region.bytes);
                Pending::Discard(call)
            }
        })
    }

    /// Takes the results of a call.
    fn end(
        &mut self,
        client: &Client,
        call: Pending,
        completed: &CompletedCall,
    ) -> Result<(), Box<dyn Error>> {
        let (channel, size) = (client.transport(), self.size);
        let is_whole = match call {
            Pending::Echo(call) => {
                let length = channel.read(&call, completed, <[u8]>::len);
                length.transpose()? == Some(size as usize)
            }
            Pending::Discard(call) => {
                let length = channel.read(&call, completed, |length| length);
                length.transpose()? == Some(size)
            }
            Pending::Read(call) => {
                let bytes = channel.read(&call, completed, |region| region.bytes.into_shared());
                let bytes = bytes.transpose()?.unwrap_or_default();
                let length = bytes.len();
                // The oldest buffer is the memory of the next read.
                if self.read.len() >= self.kept {
                    self.read.pop_front();
                }
                self.read.push_back(bytes);
                length == size as usize
            }
        };
        is_whole
            .then_some(())
            .ok_or_else(|| "a result is cut short".into())
    }
}
