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
use crate::queue::{Done, Endpoint, Part};

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

/// One end of a connection without a protocol.
struct End<D: Device> {
    endpoint: Option<Endpoint<D, ()>>,
    completions: D::CompletionQueue,
    manager: D::Manager,
    pool: Pool<D>,
    taken: Vec<crate::provider::Completion>,
    sent: u32,
}

/// After so many requests one is signaled, as a driver does it.
const SIGNAL: u32 = 16;
const CONFIG: QueuePairConfig = QueuePairConfig { sends: 1024, receives: 256, reads: 1, rnr_retry: false };

impl<D: Device> End<D> {
    fn new(device: &D) -> Result<Self, DriverError> {
        Ok(Self {
            endpoint: None,
            completions: device.completion_queue(4096)?,
            manager: device.manager()?,
            pool: Pool::new(device, &Budget::new(1 << 32)),
            taken: Vec::with_capacity(256),
            sent: 0,
        })
    }

    fn attach(&mut self, pair: D::QueuePair, receives: u32) -> Result<(), DriverError> {
        let mut endpoint = Endpoint::new(pair, 0);
        for _ in 0..receives {
            endpoint.push_receive(self.pool.take(4096)?);
        }
        endpoint.post()?;
        self.endpoint = Some(endpoint);
        Ok(())
    }

    /// Adds a message of so many octets to the batch.
    fn send(&mut self, octets: u32) -> Result<(), DriverError> {
        self.sent += 1;
        let signaled = self.sent.is_multiple_of(SIGNAL);
        let Some(endpoint) = &mut self.endpoint else { return Ok(()) };
        let operation = Operation::Send { invalidate: None };
        if octets <= self.pool.device().capabilities().inline && endpoint.room(octets).is_some() {
            endpoint.push_inline(operation, octets, signaled, None);
        } else {
            let mut buf = self.pool.take(octets)?;
            buf.set_len(octets);
            endpoint.push_whole(operation, buf, signaled, ());
        }
        Ok(())
    }

    /// Takes what has completed, and posts a receive for each message that has come: how many.
    fn take(&mut self) -> Result<u32, DriverError> {
        self.taken.clear();
        self.completions.poll(&mut self.taken, 256)?;
        let Some(endpoint) = &mut self.endpoint else { return Ok(0) };
        let mut messages = 0;
        for completion in &self.taken {
            match endpoint.complete(completion) {
                Done::Receive(buf, Status::Success) => {
                    messages += 1;
                    drop(buf);
                    endpoint.push_receive(self.pool.take(4096)?);
                }
                Done::Requests(..) => while endpoint.retire().is_some() {},
                Done::Receive(..) | Done::Unknown => {}
            }
        }
        Ok(messages)
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
        self.completions.poll(&mut self.taken, 256)?;
        let Some(endpoint) = &mut self.endpoint else { return Err(DriverError::Gone) };
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

    fn post(&mut self) -> Result<(), DriverError> {
        match &mut self.endpoint {
            Some(endpoint) => Ok(endpoint.post()?),
            None => Ok(()),
        }
    }
}

/// Nanoseconds for a message of `octets` there and one of `back` back, both ends on this thread, with `depth` under way: with
/// the posts and buffers that RPCs of these sizes have, and nothing else.
///
/// ```
/// use rpcrdma_verbs::measure::{Ends, ping_pong};
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// let fabric = Fabric::new();
/// let ends = Ends { near: fabric.device(), far: fabric.device(), address: ([127, 0, 0, 1], 0).into() };
/// assert!(ping_pong(&ends, (136, 120), 4, 1000)? > 0.0);
/// # Ok::<(), rpcrdma_verbs::driver::DriverError>(())
/// ```
///
/// # Errors
/// The devices refuse.
pub fn ping_pong<D: Device>(ends: &Ends<D>, octets: (u32, u32), depth: u32, count: u32) -> Result<f64, DriverError> {
    let (mut near, mut far) = joined(ends, depth)?;
    let (mut begun, mut done) = (0u32, 0u32);
    let began = Instant::now();
    while done < count {
        while begun - done < depth {
            near.send(octets.0)?;
            begun += 1;
        }
        near.post()?;
        for _ in 0..far.take()? {
            far.send(octets.1)?;
        }
        far.post()?;
        done += near.take()?;
    }
    Ok(began.elapsed().as_nanos() as f64 / f64::from(count))
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
    let (mut near, far) = joined(ends, 1)?;
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
            if let Some(endpoint) = &mut near.endpoint {
                endpoint.push(operation, [part], true, ());
            }
            begun += 1;
        }
        near.post()?;
        done += near.retire()?;
    }
    Ok(f64::from(count) * f64::from(octets) / began.elapsed().as_secs_f64())
}

/// Two ends that are connected.
fn joined<D: Device>(ends: &Ends<D>, depth: u32) -> Result<(End<D>, End<D>), DriverError> {
    let (mut near, mut far) = (End::new(&ends.near)?, End::new(&ends.far)?);
    let address = far.manager.listen(ends.address)?;
    let queues = Queues { completions: &near.completions, receives: None };
    let pair = near.manager.connect(address, &CONFIG, queues, &[])?;
    near.attach(pair, depth)?;
    loop {
        if let Some(ConnectionEvent::Requested { request, .. }) = far.manager.poll() {
            let queues = Queues { completions: &far.completions, receives: None };
            let pair = far.manager.prepare(&request, &CONFIG, queues)?;
            far.attach(pair, depth)?;
            if let Some(endpoint) = &far.endpoint {
                far.manager.accept(request, endpoint.pair(), &[])?;
            }
        }
        if let Some(ConnectionEvent::Established { .. }) = near.manager.poll() {
            return Ok((near, far));
        }
    }
}
