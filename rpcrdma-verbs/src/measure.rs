//! Measures messages and transfers of a provider without RPC, as a reference for RPCs: the command
//! `rpcrdma bench` prints both. Both ends run on the calling thread, and post by `queue::Endpoint`.
//!
//! `SIGNAL` equals `SIGNAL_INTERVAL` of `driver::connection::sending`, so that the costs compare.
//! The functions poll without a time limit: a connection that fails in its setup or during
//! `ping_pong` is not detected. Nothing would end without a message in flight, which the types of
//! the arguments exclude.
//!
//! ```
//! use rpcrdma_verbs::measure::{Devices, ping_pong};
//! use rpcrdma_verbs::provider::software::Fabric;
//! use std::num::NonZeroU32;
//!
//! let fabric = Fabric::new();
//! let address = ([127, 0, 0, 1], 0).into();
//! let devices = Devices { near: fabric.device(), far: fabric.device(), address };
//! // 1,000 requests of 136 bytes and replies of 120, 4 in flight on each of 2 connections.
//! let (depth, connections) = (NonZeroU32::new(4).unwrap(), NonZeroU32::new(2).unwrap());
//! let nanoseconds = ping_pong(&devices, (136, 120), (depth, connections), 1000)?;
//! println!("{nanoseconds:.0} ns per message and reply");
//! # Ok::<(), rpcrdma_verbs::driver::DriverError>(())
//! ```

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Instant;

use crate::driver::DriverError;
use crate::driver::exposure::ExposedRegion;
use crate::memory::{Budget, Pool, PostedBuf};
use crate::provider::{
    Access, Cause, CompletionQueue as _, ConnectionEvent, ConnectionManager as _, Device,
    Operation, QueuePairConfig, Queues, RemoteMemory, Status, VerbError,
};
use crate::queue::{BufRange, CompletionKind, Endpoint, tag};

/// The devices to measure.
#[derive(Debug)]
pub struct Devices<D: Device> {
    /// The device that connects.
    pub near: D,
    /// The device that listens.
    pub far: D,
    /// The address to listen on, with any port.
    pub address: SocketAddr,
}

/// How data is transferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// By RDMA Read.
    Read,
    /// By RDMA Write.
    Write,
}

/// One end of connections without a protocol.
struct BenchEnd<D: Device> {
    /// Indexed by tag. This is the first field, so queue pairs are dropped before the memory that
    /// they use.
    connections: Vec<BenchConnection<D>>,
    completions: D::CompletionQueue,
    manager: D::Manager,
    pool: Pool<D>,
    taken: Vec<crate::provider::Completion>,
    /// Connections with requests to post, and connections that have received messages.
    dirty: Vec<u32>,
    received: Vec<u32>,
}

struct BenchConnection<D: Device> {
    endpoint: Endpoint<D, ()>,
    sent: u32,
    dirty: bool,
}

/// One in this many requests is signaled, as in a driver.
const SIGNAL: u32 = 16;
/// The maximum number of completions that are taken at once.
const BATCH: usize = 256;
/// The error of more requests than fit the queue.
const QUEUE_FULL: VerbError = VerbError {
    verb: "post",
    cause: Cause::Full,
};
const CONFIG: QueuePairConfig = QueuePairConfig {
    sends: 1024,
    receives: 256,
    reads: 1,
    rnr_retry: false,
};

impl<D: Device> BenchEnd<D> {
    /// Creates an end for connections with `messages` messages in flight in total.
    fn new(device: &D, messages: u32) -> Result<Self, DriverError> {
        Ok(Self {
            connections: Vec::new(),
            completions: device
                .completion_queue(messages.saturating_mul(2).saturating_add(4096))?,
            manager: device.manager()?,
            pool: Pool::new(device, &Budget::new(1 << 34)),
            taken: Vec::with_capacity(BATCH),
            dirty: Vec::new(),
            received: Vec::new(),
        })
    }

    /// Adds a connection, with `receives` receives.
    fn attach(&mut self, pair: D::QueuePair, receives: u32) -> Result<(), DriverError> {
        let tag =
            u32::try_from(self.connections.len()).map_err(|_| DriverError::TooManyConnections)?;
        let mut endpoint = Endpoint::new(self.pool.device(), pair, tag);
        for _ in 0..receives {
            endpoint.push_receive(self.pool.take(4096)?);
        }
        endpoint.post()?;
        self.connections.push(BenchConnection {
            endpoint,
            sent: 0,
            dirty: false,
        });
        Ok(())
    }

    /// Marks a connection as having requests to post, and returns it.
    fn touched(&mut self, tag: u32) -> Result<&mut BenchConnection<D>, DriverError> {
        let connection = self
            .connections
            .get_mut(tag as usize)
            .ok_or(DriverError::ConnectionGone)?;
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(tag);
        }
        Ok(connection)
    }

    /// Adds a message to the batch of a connection.
    fn send(&mut self, tag: u32, bytes: u32) -> Result<(), DriverError> {
        let goes_along = bytes <= self.pool.device().capabilities().max_inline;
        let BenchConnection { endpoint, sent, .. } = self.touched(tag)?;
        *sent += 1;
        let signaled = sent.is_multiple_of(SIGNAL);
        if goes_along && endpoint.inline_room(bytes).is_some() {
            endpoint.push_inline(None, bytes, signaled, None);
        } else {
            let mut buf = self.pool.take(bytes)?;
            buf.set_len(bytes);
            let operation = Operation::Send { invalidate: None };
            self.touched(tag)?
                .endpoint
                .push_whole(operation, buf, signaled, ());
        }
        Ok(())
    }

    /// Takes completions, and adds a receive for each message received. `received` then lists the
    /// connections of these messages.
    fn take(&mut self) -> Result<(), DriverError> {
        self.received.clear();
        let mut taken = std::mem::take(&mut self.taken);
        taken.clear();
        self.completions.poll(&mut taken, BATCH)?;
        for completion in &taken {
            let tag = tag(completion.id);
            let connection = self
                .connections
                .get_mut(tag as usize)
                .ok_or(DriverError::ConnectionGone)?;
            match connection.endpoint.complete(completion) {
                CompletionKind::Receive(buf, Status::Success) => {
                    drop(buf);
                    let buf = self.pool.take(4096)?;
                    self.touched(tag)?.endpoint.push_receive(buf);
                    self.received.push(tag);
                }
                CompletionKind::Requests(..) => while connection.endpoint.retire().is_some() {},
                // The connection has ended: no message follows.
                CompletionKind::Receive(..) => return Err(DriverError::ConnectionGone),
                CompletionKind::Unknown => {}
            }
        }
        self.taken = taken;
        Ok(())
    }

    /// Answers each message received with a message of `bytes` bytes.
    fn answer(&mut self, bytes: u32) -> Result<(), DriverError> {
        let received = std::mem::take(&mut self.received);
        received.iter().try_for_each(|tag| self.send(*tag, bytes))?;
        self.received = received;
        self.post()
    }

    /// Returns buffers whose bytes were all written.
    fn buffers(&self, bytes: u32, count: u32) -> Result<Vec<PostedBuf>, DriverError> {
        let buffer = |_| {
            let mut buf = self.pool.take(bytes)?;
            buf.as_full_mut().fill(0x5a);
            Ok(PostedBuf::from(buf))
        };
        (0..count).map(buffer).collect()
    }

    /// Takes completed requests, and returns their number.
    fn retire(&mut self) -> Result<u32, DriverError> {
        self.taken.clear();
        self.completions.poll(&mut self.taken, BATCH)?;
        let Some(BenchConnection { endpoint, .. }) = self.connections.first_mut() else {
            return Err(DriverError::ConnectionGone);
        };
        let before = endpoint.in_flight();
        for completion in &self.taken {
            match endpoint.complete(completion) {
                CompletionKind::Requests(Status::Success) => while endpoint.retire().is_some() {},
                CompletionKind::Unknown => {}
                CompletionKind::Requests(..) | CompletionKind::Receive(..) => {
                    return Err(DriverError::ConnectionGone);
                }
            }
        }
        Ok((before - endpoint.in_flight()) as u32)
    }

    /// Posts the batches.
    fn post(&mut self) -> Result<(), DriverError> {
        for tag in self.dirty.drain(..) {
            if let Some(connection) = self.connections.get_mut(tag as usize) {
                connection.dirty = false;
                connection.endpoint.post()?;
            }
        }
        Ok(())
    }
}

/// Measures the nanoseconds of a message of `bytes` bytes and an answer of `back` bytes. Both ends
/// run on this thread, with `depth` messages in flight on each connection. The posts and buffers
/// are those of RPCs of these sizes.
///
/// ```
/// use rpcrdma_verbs::measure::{Devices, ping_pong};
/// use rpcrdma_verbs::provider::software::Fabric;
/// use std::num::NonZeroU32;
///
/// let fabric = Fabric::new();
/// let address = ([127, 0, 0, 1], 0).into();
/// let devices = Devices { near: fabric.device(), far: fabric.device(), address };
/// let (depth, connections) = (NonZeroU32::new(4).unwrap(), NonZeroU32::new(2).unwrap());
/// assert!(ping_pong(&devices, (136, 120), (depth, connections), 1000)? > 0.0);
/// # Ok::<(), rpcrdma_verbs::driver::DriverError>(())
/// ```
///
/// # Errors
/// Fails if the devices refuse.
pub fn ping_pong<D: Device>(
    ends: &Devices<D>,
    bytes: (u32, u32),
    (depth, connections): (NonZeroU32, NonZeroU32),
    count: u32,
) -> Result<f64, DriverError> {
    let (depth, connections) = (depth.get(), connections.get());
    let (mut near, mut far) = connect_ends(ends, depth, connections)?;
    // Each connection appears once for each message that it may start. Each message, once started,
    // is repeated for ever.
    near.received = (0..connections)
        .flat_map(|tag| std::iter::repeat_n(tag, depth as usize))
        .collect();
    let mut pass = |count: usize| {
        let (mut done, began) = (0, Instant::now());
        while done < count {
            near.answer(bytes.0)?;
            far.take()?;
            far.answer(bytes.1)?;
            near.take()?;
            done += near.received.len();
        }
        Ok::<_, DriverError>(began.elapsed().as_nanos() as f64 / done as f64)
    };
    // All memory is used once before the measurement.
    pass(2 * depth as usize * connections as usize)?;
    pass(count as usize)
}

/// Measures the bytes per second of `count` transfers between buffers of `bytes` bytes. There are
/// `buffers` at either end, used in turn, and `depth` transfers in flight.
///
/// ```
/// use rpcrdma_verbs::measure::{Devices, Transfer, transfer_rate};
/// use rpcrdma_verbs::provider::software::Fabric;
/// use std::num::NonZeroU32;
///
/// let fabric = Fabric::new();
/// let address = ([127, 0, 0, 1], 0).into();
/// let devices = Devices { near: fabric.device(), far: fabric.device(), address };
/// let (buffers, depth) = (NonZeroU32::new(2).unwrap(), NonZeroU32::new(4).unwrap());
/// assert!(transfer_rate(&devices, Transfer::Write, 1 << 16, buffers, depth, 100)? > 0.0);
/// # Ok::<(), rpcrdma_verbs::driver::DriverError>(())
/// ```
///
/// # Errors
/// Fails if the devices refuse, or if `depth` transfers do not fit a queue.
pub fn transfer_rate<D: Device>(
    ends: &Devices<D>,
    how: Transfer,
    bytes: u32,
    buffers: NonZeroU32,
    depth: NonZeroU32,
    count: u32,
) -> Result<f64, DriverError> {
    let (mut near, far) = connect_ends(ends, 1, 1)?;
    let access = if how == Transfer::Read {
        Access::REMOTE_READ
    } else {
        Access::REMOTE_WRITE
    };
    let ours = near.buffers(bytes, buffers.get())?;
    let exposed = far.buffers(bytes, buffers.get())?.into_iter().map(|buf| {
        let slice = buf.slice(0, bytes).ok_or(DriverError::ConnectionGone)?;
        Ok((
            slice.address,
            ExposedRegion::register(&ends.far, buf, (0, bytes), access)?,
        ))
    });
    let exposed: Vec<_> = exposed.collect::<Result<_, DriverError>>()?;
    let (mut started, mut done) = (0, 0);
    let began = Instant::now();
    while done < count {
        while started < count && started - done < depth.get() {
            let at = (started % buffers) as usize;
            let (Some(buf), Some((address, theirs))) = (ours.get(at), exposed.get(at)) else {
                break;
            };
            let remote = RemoteMemory {
                address: *address,
                key: theirs.key(),
            };
            let operation = if how == Transfer::Read {
                Operation::Read { from: remote }
            } else {
                Operation::Write { to: remote }
            };
            let part = BufRange {
                buf: buf.clone(),
                offset: 0,
                length: bytes,
            };
            if !near.touched(0)?.endpoint.push(operation, [part], true, ()) {
                return Err(QUEUE_FULL.into());
            }
            started += 1;
        }
        near.post()?;
        done += near.retire()?;
    }
    Ok(f64::from(count) * f64::from(bytes) / began.elapsed().as_secs_f64())
}

/// Connects two ends with several connections, with `depth` receives at both ends of each.
fn connect_ends<D: Device>(
    ends: &Devices<D>,
    depth: u32,
    connections: u32,
) -> Result<(BenchEnd<D>, BenchEnd<D>), DriverError> {
    let messages = depth.saturating_mul(connections);
    let (mut near, mut far) = (
        BenchEnd::new(&ends.near, messages)?,
        BenchEnd::new(&ends.far, messages)?,
    );
    let address = far.manager.listen(ends.address)?;
    for _ in 0..connections {
        let queues = Queues {
            completions: &near.completions,
            receives: None,
        };
        let pair = near.manager.connect(address, &CONFIG, queues, &[])?;
        near.attach(pair, depth)?;
        establish(&mut near, &mut far, depth)?;
    }
    Ok((near, far))
}

/// Waits until a connection is established.
fn establish<D: Device>(
    near: &mut BenchEnd<D>,
    far: &mut BenchEnd<D>,
    depth: u32,
) -> Result<(), DriverError> {
    loop {
        if let Some(ConnectionEvent::Requested { request, .. }) = far.manager.poll() {
            let queues = Queues {
                completions: &far.completions,
                receives: None,
            };
            let pair = far.manager.prepare(&request, &CONFIG, queues)?;
            far.attach(pair, depth)?;
            if let Some(BenchConnection { endpoint, .. }) = far.connections.last() {
                far.manager.accept(request, endpoint.pair(), &[])?;
            }
        }
        match near.manager.poll() {
            Some(ConnectionEvent::Established { .. }) => return Ok(()),
            Some(ConnectionEvent::Failed { .. }) => return Err(DriverError::ConnectionGone),
            _ => {}
        }
    }
}
