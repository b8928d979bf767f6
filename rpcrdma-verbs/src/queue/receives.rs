//! Receive buffers, and those that are posted.
//!
//! The number of a receive is its index here and the low bits of its work request id. `take` must
//! be called only after the completion of the receive or after a failed post: until then the device
//! may write the buffer. `queue` and `queue::shared` post the entries that `insert` appends.

use arrayvec::ArrayVec;

use super::{MAX_SGE, RECEIVE_BIT};
use crate::memory::{Buf, PostedBuf};
use crate::provider::Sge;

/// The posted receives, indexed by their numbers.
#[derive(Debug)]
pub(super) struct PostedReceives {
    buffers: Vec<Option<ReceiveSlot>>,
    free: Vec<u32>,
}

/// The buffers of a posted receive.
#[derive(Debug)]
struct ReceiveSlot {
    first: PostedBuf,
    extra: Option<Box<ExtraSegments>>,
}

/// The segments of a receive buffer after the first. Any of them may have been taken. The list is
/// reused by later receives, so that it is allocated once.
pub(crate) type ExtraSegments = ArrayVec<Option<PostedBuf>, { MAX_SGE - 1 }>;

/// A receive buffer of one or several segments, or the message in it.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    pub(crate) first: Buf,
    pub(crate) extra: Option<Box<ExtraSegments>>,
}

impl From<Buf> for ReceiveBuffer {
    /// Makes a receive buffer of one segment, with the whole capacity of the buffer.
    fn from(mut head: Buf) -> Self {
        head.set_len(head.capacity());
        Self {
            first: head,
            extra: None,
        }
    }
}

impl ReceiveBuffer {
    /// Returns the number of bytes received.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        let head = self.first.len() as u32;
        self.extra.as_ref().map_or(head, |tail| {
            tail.iter()
                .flatten()
                .fold(head, |sum, segment| sum + segment.len())
        })
    }

    /// Sets the number of bytes received, and shortens the segments to it.
    #[inline]
    pub(super) fn set_received(&mut self, bytes: u32) {
        let Some(tail) = &mut self.extra else {
            self.first.set_len(bytes);
            return;
        };
        let mut left = bytes;
        left -= self.first.set_len(left.min(self.first.len() as u32));
        for segment in tail.iter_mut().flatten() {
            left -= segment.set_len(left.min(segment.len()));
        }
    }
}

impl PostedReceives {
    pub(super) const fn new() -> Self {
        Self {
            buffers: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores a buffer for a receive, and returns its number. It appends an entry for each whole
    /// segment to `slices`.
    #[inline(always)]
    pub(super) fn insert(&mut self, received: ReceiveBuffer, slices: &mut Vec<Sge>) -> Option<u32> {
        let ReceiveBuffer {
            first: head,
            extra: tail,
        } = received;
        let head = PostedBuf::from(head);
        slices.push(head.slice(0, head.len())?);
        if let Some(tail) = &tail {
            slices.extend(
                tail.iter()
                    .flatten()
                    .filter_map(|segment| segment.slice(0, segment.len())),
            );
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.buffers.push(None);
            self.buffers.len() as u32 - 1
        });
        *self.buffers.get_mut(number as usize)? = Some(ReceiveSlot {
            first: head,
            extra: tail,
        });
        Some(number)
    }

    /// Removes the buffer of a receive that has completed, or that was not posted.
    #[inline]
    pub(super) fn take(&mut self, id: u64) -> Option<ReceiveBuffer> {
        let number = id as u32 & (RECEIVE_BIT as u32 - 1);
        let ReceiveSlot {
            first: head,
            extra: tail,
        } = self.buffers.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(ReceiveBuffer {
            first: head.into_buf().ok()?,
            extra: tail,
        })
    }

    /// Returns the number of posted receives.
    pub(super) fn len(&self) -> usize {
        self.buffers.len() - self.free.len()
    }

    /// Leaks all buffers.
    #[cold]
    pub(super) fn leak(self) {
        for ReceiveSlot {
            first: head,
            extra: tail,
        } in self.buffers.into_iter().flatten()
        {
            head.leak();
            tail.into_iter()
                .flat_map(|tail| *tail)
                .flatten()
                .for_each(PostedBuf::leak);
        }
    }
}
