//! Receive queues that several queue pairs share.
//!
//! The ids of shared receives have the tag `SHARED_TAG`, which the driver gives to no connection
//! (`Driver::insert` leaves out the last index). The queue pair number of a completion identifies
//! its connection. `driver::receive_pool` decides how many receives are posted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::batch::Batch;
use super::receives::{PostedReceives, ReceiveBuffer};
use super::{RECEIVE_BIT, tag};
use crate::provider::{Completion, Device, Receive, Result, SharedReceives as _};

/// A receive queue that several queue pairs share, with the buffers that were posted to it. Clones
/// refer to the same queue.
///
/// Each endpoint with a queue pair of this queue has a clone, and drops it after its queue pair. So
/// the buffers are released when no queue pair uses the queue any more.
#[derive(Debug)]
pub(crate) struct SharedReceiveQueue<D: Device>(Arc<SharedReceiveQueueInner<D>>);

/// It ends the queue before it releases the buffers. If the device refuses, the buffers are leaked.
#[derive(Debug)]
struct SharedReceiveQueueInner<D: Device> {
    queue: D::SharedReceives,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    posted: PostedReceives,
    batch: Batch,
}

impl<D: Device> SharedReceiveQueueInner<D> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> Drop for SharedReceiveQueueInner<D> {
    fn drop(&mut self) {
        if !self.queue.end() {
            let posted = &mut self.lock().posted;
            std::mem::replace(posted, PostedReceives::new()).leak();
        }
    }
}

impl<D: Device> Clone for SharedReceiveQueue<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The tag of the ids of shared receives, which no endpoint has.
const SHARED_TAG: u32 = u32::MAX;

/// Returns true if a completion belongs to a shared receive.
pub(crate) const fn is_shared_receive(id: u64) -> bool {
    tag(id) == SHARED_TAG
}

impl<D: Device> SharedReceiveQueue<D> {
    pub(crate) fn new(queue: D::SharedReceives) -> Self {
        let state = State {
            posted: PostedReceives::new(),
            batch: Batch::default(),
        };
        Self(Arc::new(SharedReceiveQueueInner {
            queue,
            state: Mutex::new(state),
        }))
    }

    /// Returns the queue, for a queue pair that is then passed to
    /// [`Endpoint::with_shared_receives`].
    pub(crate) fn queue(&self) -> &D::SharedReceives {
        &self.0.queue
    }

    /// Returns the number of posted receives.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().posted.len()
    }

    /// Posts all receives, or none.
    ///
    /// # Errors
    /// Fails if the queue has no room for them, or if the device refuses.
    pub(crate) fn post(&self, buffers: impl IntoIterator<Item: Into<ReceiveBuffer>>) -> Result<()> {
        let State { posted, batch } = &mut *self.0.lock();
        let Batch {
            receives,
            receive_slices,
            ..
        } = batch;
        for buffer in buffers {
            let from = receive_slices.len();
            let Some(number) = posted.insert(buffer.into(), receive_slices) else {
                continue;
            };
            let id = u64::from(SHARED_TAG) << 32 | RECEIVE_BIT | u64::from(number);
            receives.push(Receive {
                id,
                slices: (from as u32, (receive_slices.len() - from) as u32),
            });
        }
        // SAFETY: the entries refer to buffers that `posted` owns until their completions, or until
        // this value has ended the queue, which happens after the end of every queue pair that uses
        // it, or for ever. A buffer in this state gives no access to its bytes.
        let done = unsafe { self.0.queue.post(receives, receive_slices) };
        if done.is_err() {
            receives
                .iter()
                .for_each(|receive| drop(posted.take(receive.id)));
        }
        receives.clear();
        receive_slices.clear();
        done
    }

    /// Removes the buffer of a completed receive.
    pub(crate) fn complete(&self, completion: &Completion) -> Option<ReceiveBuffer> {
        let mut buffer = self.0.lock().posted.take(completion.id)?;
        buffer.set_received(completion.length);
        Some(buffer)
    }
}
