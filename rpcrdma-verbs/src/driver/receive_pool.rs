//! Receives that all connections of a driver share.
//!
//! The driver creates the pool before its first connection, and calls `fill` at each turn: a call
//! that fails has posted what it could, and is repeated at the next turn. A queue pair that uses
//! the pool must be created with `queue` and passed to `endpoint`.

use crate::memory::Pool;
use crate::provider::{Completion, Device};
use crate::queue::{Endpoint, ReceiveBuffer, SharedReceiveQueue};

use super::DriverError;

/// A shared queue of receives of one size, which the driver keeps filled.
#[derive(Debug)]
pub(super) struct ReceivePool<D: Device> {
    queue: SharedReceiveQueue<D>,
    /// The number of receives to keep posted.
    count: usize,
    /// The size of each receive in bytes.
    size: u32,
}

impl<D: Device> ReceivePool<D> {
    pub(super) fn new(device: &D, count: u32, size: u32) -> Result<Self, DriverError> {
        let queue = SharedReceiveQueue::new(device.shared_receives(count)?);
        Ok(Self {
            queue,
            count: count as usize,
            size,
        })
    }

    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// Returns the queue, for a queue pair that is then passed to [`Self::endpoint`].
    pub(super) fn queue(&self) -> &D::SharedReceives {
        self.queue.queue()
    }

    pub(super) fn endpoint<T>(&self, device: &D, pair: D::QueuePair, tag: u32) -> Endpoint<D, T> {
        Endpoint::with_shared_receives(device, pair, tag, &self.queue)
    }

    /// Returns the buffer of a completed receive.
    pub(super) fn complete(&self, completion: &Completion) -> Option<ReceiveBuffer> {
        self.queue.complete(completion)
    }

    /// Posts receives until the queue is full again.
    ///
    /// # Errors
    /// Fails if the budget is used up, or if the device refuses.
    pub(super) fn fill(&mut self, pool: &Pool<D>) -> Result<(), DriverError> {
        let missing = self.count.saturating_sub(self.queue.len());
        if missing == 0 {
            return Ok(());
        }
        let mut taken = Ok(());
        let bufs = (0..missing).map_while(|_| match pool.take(self.size) {
            Ok(buf) => Some(ReceiveBuffer::from(buf)),
            Err(error) => {
                taken = Err(error);
                None
            }
        });
        self.queue.post(bufs)?;
        Ok(taken?)
    }
}
