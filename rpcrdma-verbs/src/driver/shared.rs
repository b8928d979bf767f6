//! Receives that all connections of a driver share.

use crate::memory::Pool;
use crate::provider::{Completion, Device};
use crate::queue::{Endpoint, Received, SharedQueue};

use super::DriverError;

/// One queue of receives of one size.
#[derive(Debug)]
pub(super) struct Shared<D: Device> {
    queue: SharedQueue<D>,
    /// How many are to be posted.
    count: usize,
    /// Octets of each.
    size: u32,
}

impl<D: Device> Shared<D> {
    pub(super) fn new(device: &D, count: u32, size: u32) -> Result<Self, DriverError> {
        let queue = SharedQueue::new(device.shared_receives(count)?);
        Ok(Self { queue, count: count as usize, size })
    }

    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// The queue, to make a queue pair with for [`Self::endpoint`].
    pub(super) fn queue(&self) -> &D::SharedReceives {
        self.queue.queue()
    }

    pub(super) fn endpoint<T>(&self, pair: D::QueuePair, tag: u32) -> Endpoint<D, T> {
        Endpoint::sharing(pair, tag, &self.queue)
    }

    /// What has come by a receive.
    pub(super) fn complete(&self, completion: &Completion) -> Option<Received> {
        self.queue.complete(completion)
    }

    /// Posts what is missing.
    ///
    /// # Errors
    /// The budget is used up, or the device refuses.
    pub(super) fn fill(&mut self, pool: &Pool<D>) -> Result<(), DriverError> {
        let missing = self.count.saturating_sub(self.queue.len());
        if missing == 0 {
            return Ok(());
        }
        let mut taken = Ok(());
        let bufs = (0..missing).map_while(|_| match pool.take(self.size) {
            Ok(buf) => Some(Received::from(buf)),
            Err(error) => {
                taken = Err(error);
                None
            }
        });
        self.queue.post(bufs)?;
        Ok(taken?)
    }
}
