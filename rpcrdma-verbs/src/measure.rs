//! What a provider takes for messages alone: the measure for what RPCs add to it.

use std::net::SocketAddr;
use std::time::Instant;

use crate::driver::DriverError;
use crate::driver::exposure::Exposed;
use crate::memory::{Budget, Lent, Pool};
use crate::provider::{
    Access, CompletionQueue as _, ConnectionEvent, Device, Manager as _, Operation, QueuePairConfig, Queues, Remote,
    Status,
};
use crate::queue::{Done, Endpoint, Part, tag};

/// What is measured.
#[derive(Debug)]
pub struct Ends<D: Device> {
    /// The device that connects.
    pub near: D,
    /// The device that listens.
    pub far: D,
    /// Where: at any port.
    pub address: SocketAddr,
}

/// How data is moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// By RDMA Read.
    Read,
    /// By RDMA Write.
    Write,
}

/// One end of connections without a protocol.
struct End<D: Device> {
    /// By their tags. They go first, with their queue pairs: then nothing uses the memory any more.
    connections: Vec<Connection<D>>,
    completions: D::CompletionQueue,
    manager: D::Manager,
    pool: Pool<D>,
    taken: Vec<crate::provider::Completion>,
    /// Connections with something to post, and those that messages have come by.
    dirty: Vec<u32>,
    came: Vec<u32>,
}

struct Connection<D: Device> {
    endpoint: Endpoint<D, ()>,
    sent: u32,
    dirty: bool,
}

/// After so many requests one is signaled, as a driver does it.
const SIGNAL: u32 = 16;
/// Completions taken at once.
const BATCH: usize = 256;
const CONFIG: QueuePairConfig = QueuePairConfig { sends: 1024, receives: 256, reads: 1, rnr_retry: false };

impl<D: Device> End<D> {
    /// One for connections with so many messages under way together.
    fn new(device: &D, messages: u32) -> Result<Self, DriverError> {
        Ok(Self {
            connections: Vec::new(),
            completions: device.completion_queue(messages.saturating_mul(2).saturating_add(4096))?,
            manager: device.manager()?,
            pool: Pool::new(device, &Budget::new(1 << 34)),
            taken: Vec::with_capacity(BATCH),
            dirty: Vec::new(),
            came: Vec::new(),
        })
    }

    /// Adds a connection, with so many receives.
    fn attach(&mut self, pair: D::QueuePair, receives: u32) -> Result<(), DriverError> {
        let tag = u32::try_from(self.connections.len()).map_err(|_| DriverError::Full)?;
        let mut endpoint = Endpoint::new(pair, tag);
        for _ in 0..receives {
            endpoint.push_receive(self.pool.take(4096)?);
        }
        endpoint.post()?;
        self.connections.push(Connection { endpoint, sent: 0, dirty: false });
        Ok(())
    }

    /// A connection that something is to be posted on.
    fn touched(&mut self, tag: u32) -> Result<&mut Connection<D>, DriverError> {
        let connection = self.connections.get_mut(tag as usize).ok_or(DriverError::Gone)?;
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(tag);
        }
        Ok(connection)
    }

    /// Adds a message of so many octets to a connection's batch.
    fn send(&mut self, tag: u32, octets: u32) -> Result<(), DriverError> {
        let goes_along = octets <= self.pool.device().capabilities().inline;
        let Connection { endpoint, sent, .. } = self.touched(tag)?;
        *sent += 1;
        let signaled = sent.is_multiple_of(SIGNAL);
        if goes_along && endpoint.room(octets).is_some() {
            endpoint.push_inline(None, octets, signaled, None);
        } else {
            let mut buf = self.pool.take(octets)?;
            buf.set_len(octets);
            let operation = Operation::Send { invalidate: None };
            self.touched(tag)?.endpoint.push_whole(operation, buf, signaled, ());
        }
        Ok(())
    }

    /// Takes what has completed, and adds a receive for each message that has come: `came` has whose.
    fn take(&mut self) -> Result<(), DriverError> {
        self.came.clear();
        let mut taken = std::mem::take(&mut self.taken);
        taken.clear();
        self.completions.poll(&mut taken, BATCH)?;
        for completion in &taken {
            let tag = tag(completion.id);
            let connection = self.connections.get_mut(tag as usize).ok_or(DriverError::Gone)?;
            match connection.endpoint.complete(completion) {
                Done::Receive(buf, Status::Success) => {
                    drop(buf);
                    let buf = self.pool.take(4096)?;
                    self.touched(tag)?.endpoint.push_receive(buf);
                    self.came.push(tag);
                }
                Done::Requests(..) => while connection.endpoint.retire().is_some() {},
                Done::Receive(..) | Done::Unknown => {}
            }
        }
        self.taken = taken;
        Ok(())
    }

    /// Answers each message that has come by one of so many octets.
    fn answer(&mut self, octets: u32) -> Result<(), DriverError> {
        let came = std::mem::take(&mut self.came);
        came.iter().try_for_each(|tag| self.send(*tag, octets))?;
        self.came = came;
        self.post()
    }

    /// So many buffers, all of whose octets have been written.
    fn buffers(&self, octets: u32, count: u32) -> Result<Vec<Lent>, DriverError> {
        let buffer = |_| {
            let mut buf = self.pool.take(octets)?;
            buf.as_full_mut().fill(0x5a);
            Ok(Lent::from(buf))
        };
        (0..count).map(buffer).collect()
    }

    /// Takes requests that are done: how many.
    fn retire(&mut self) -> Result<u32, DriverError> {
        self.taken.clear();
        self.completions.poll(&mut self.taken, BATCH)?;
        let Some(Connection { endpoint, .. }) = self.connections.first_mut() else { return Err(DriverError::Gone) };
        let mut count = 0;
        for completion in &self.taken {
            match endpoint.complete(completion) {
                Done::Requests(done, Status::Success) => {
                    count += done;
                    while endpoint.retire().is_some() {}
                }
                Done::Unknown => {}
                Done::Requests(..) | Done::Receive(..) => return Err(DriverError::Gone),
            }
        }
        Ok(count)
    }

    /// Posts what was added.
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

/// Nanoseconds for a message of `octets` there and one of `back` back, both ends on this thread, with `depth` under way on each
/// of so many connections: with the posts and buffers that RPCs of these sizes have, and nothing else.
///
/// ```
/// use rpcrdma_verbs::measure::{Ends, ping_pong};
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// let fabric = Fabric::new();
/// let ends = Ends { near: fabric.device(), far: fabric.device(), address: ([127, 0, 0, 1], 0).into() };
/// assert!(ping_pong(&ends, (136, 120), (4, 2), 1000)? > 0.0);
/// # Ok::<(), rpcrdma_verbs::driver::DriverError>(())
/// ```
///
/// # Errors
/// The devices refuse.
pub fn ping_pong<D: Device>(
    ends: &Ends<D>,
    octets: (u32, u32),
    (depth, connections): (u32, u32),
    count: u32,
) -> Result<f64, DriverError> {
    let (mut near, mut far) = joined(ends, depth, connections)?;
    // Of each connection, as often as a message may begin there. All that began once go on for ever.
    near.came = (0..connections).flat_map(|tag| std::iter::repeat_n(tag, depth as usize)).collect();
    let mut pass = |count: usize| {
        let (mut done, began) = (0, Instant::now());
        while done < count {
            near.answer(octets.0)?;
            far.take()?;
            far.answer(octets.1)?;
            near.take()?;
            done += near.came.len();
        }
        Ok::<_, DriverError>(began.elapsed().as_nanos() as f64 / done as f64)
    };
    // All memory has been used once before the time counts.
    pass(2 * depth as usize * connections as usize)?;
    pass(count as usize)
}

/// Octets in a second that are moved between buffers of `octets` each, `buffers` at either end, one after the other, with
/// `depth` transfers under way: `count` of them, and nothing else.
///
/// ```
/// use rpcrdma_verbs::measure::{Ends, Move, moving};
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// let fabric = Fabric::new();
/// let ends = Ends { near: fabric.device(), far: fabric.device(), address: ([127, 0, 0, 1], 0).into() };
/// assert!(moving(&ends, Move::Write, 1 << 16, 2, 2, 100)? > 0.0);
/// # Ok::<(), rpcrdma_verbs::driver::DriverError>(())
/// ```
///
/// # Errors
/// The devices refuse.
pub fn moving<D: Device>(
    ends: &Ends<D>,
    how: Move,
    octets: u32,
    buffers: u32,
    depth: u32,
    count: u32,
) -> Result<f64, DriverError> {
    let (mut near, far) = joined(ends, 1, 1)?;
    let access = if how == Move::Read { Access::REMOTE_READ } else { Access::REMOTE_WRITE };
    let ours = near.buffers(octets, buffers)?;
    let exposed = far.buffers(octets, buffers)?.into_iter().map(|buf| {
        let slice = buf.slice(0, octets).ok_or(DriverError::Gone)?;
        Ok((slice.address, Exposed::register(&ends.far, &slice, access, buf)?))
    });
    let exposed: Vec<_> = exposed.collect::<Result<_, DriverError>>()?;
    let (mut begun, mut done) = (0u32, 0u32);
    let began = Instant::now();
    while done < count {
        while begun < count && begun - done < depth {
            let at = (begun % buffers) as usize;
            let (Some(buf), Some((address, theirs))) = (ours.get(at), exposed.get(at)) else { break };
            let remote = Remote { address: *address, key: theirs.key() };
            let operation =
                if how == Move::Read { Operation::Read { from: remote } } else { Operation::Write { to: remote } };
            let part = Part { buf: buf.clone(), from: 0, length: octets };
            near.touched(0)?.endpoint.push(operation, [part], true, ());
            begun += 1;
        }
        near.post()?;
        done += near.retire()?;
    }
    Ok(f64::from(count) * f64::from(octets) / began.elapsed().as_secs_f64())
}

/// Two ends with so many connections, and `depth` receives at both ends of each.
fn joined<D: Device>(ends: &Ends<D>, depth: u32, connections: u32) -> Result<(End<D>, End<D>), DriverError> {
    let messages = depth.saturating_mul(connections);
    let (mut near, mut far) = (End::new(&ends.near, messages)?, End::new(&ends.far, messages)?);
    let address = far.manager.listen(ends.address)?;
    for _ in 0..connections {
        let queues = Queues { completions: &near.completions, receives: None };
        let pair = near.manager.connect(address, &CONFIG, queues, &[])?;
        near.attach(pair, depth)?;
        establish(&mut near, &mut far, depth)?;
    }
    Ok((near, far))
}

/// Waits until the connection that was begun is there.
fn establish<D: Device>(near: &mut End<D>, far: &mut End<D>, depth: u32) -> Result<(), DriverError> {
    loop {
        if let Some(ConnectionEvent::Requested { request, .. }) = far.manager.poll() {
            let queues = Queues { completions: &far.completions, receives: None };
            let pair = far.manager.prepare(&request, &CONFIG, queues)?;
            far.attach(pair, depth)?;
            if let Some(Connection { endpoint, .. }) = far.connections.last() {
                far.manager.accept(request, endpoint.pair(), &[])?;
            }
        }
        if let Some(ConnectionEvent::Established { .. }) = near.manager.poll() {
            return Ok(());
        }
    }
}
