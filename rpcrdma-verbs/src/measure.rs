//! What a provider takes for messages alone: the measure for what RPCs add to it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use crate::driver::DriverError;
use crate::memory::{Budget, Pool};
use crate::provider::{
    CompletionQueue as _, ConnectionEvent, Device, Manager as _, Operation, QueuePairConfig, Queues, Status,
};
use crate::queue::{Done, Endpoint, Part};

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
            pool: Pool::new(device, &Budget::new(1 << 28)),
            taken: Vec::with_capacity(256),
            sent: 0,
        })
    }

    fn attach(&mut self, pair: D::QueuePair, receives: u32) -> Result<(), DriverError> {
        let mut endpoint = Endpoint::new(pair, 0, 1024, 256);
        for _ in 0..receives {
            endpoint.push_receive(self.pool.take(4096)?);
        }
        endpoint.post()?;
        self.endpoint = Some(endpoint);
        Ok(())
    }

    /// Adds a message of so many octets to the batch.
    fn send(&mut self, octets: u32) -> Result<(), DriverError> {
        let mut buf = self.pool.take(octets)?;
        buf.set_len(octets);
        self.sent += 1;
        let part = Part { buf: buf.into(), from: 0, length: octets };
        let signaled = self.sent.is_multiple_of(SIGNAL);
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.push(Operation::Send { invalidate: None }, &[part], signaled, ());
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
                Done::Requests(count, _) => {
                    for _ in 0..count {
                        endpoint.retire();
                    }
                }
                Done::Receive(..) | Done::Unknown => {}
            }
        }
        Ok(messages)
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
/// use rpcrdma_verbs::measure::ping_pong;
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// let fabric = Fabric::new();
/// assert!(ping_pong(&fabric.device(), &fabric.device(), (136, 120), 4, 1000)? > 0.0);
/// # Ok::<(), rpcrdma_verbs::driver::DriverError>(())
/// ```
///
/// # Errors
/// The devices refuse.
pub fn ping_pong<D: Device>(near: &D, far: &D, octets: (u32, u32), depth: u32, count: u32) -> Result<f64, DriverError> {
    let (mut near, mut far) = joined(near, far, depth)?;
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

/// Two ends that are connected.
fn joined<D: Device>(near: &D, far: &D, depth: u32) -> Result<(End<D>, End<D>), DriverError> {
    let (mut near, mut far) = (End::new(near)?, End::new(far)?);
    let address = far.manager.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
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
