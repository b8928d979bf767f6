//! Receive queues, of one queue pair or shared.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::QpPair;
use crate::provider::software::latency::Progress as _;
use crate::provider::software::memory::Domain;
use crate::provider::{Cause, Receive, Result, Sge, VerbError};

/// A posted receive.
#[derive(Clone, Debug)]
pub(in crate::provider::software) struct PostedReceive {
    pub(super) id: u64,
    pub(super) slices: SgList,
}

/// The entries of a receive: one, two, or, rarely, more.
#[derive(Clone, Debug)]
pub(super) enum SgList {
    One(Sge),
    Two([Sge; 2]),
    More(Box<[Sge]>),
}

impl SgList {
    pub(super) fn of(slices: &[Sge]) -> Self {
        match *slices {
            [one] => Self::One(one),
            [one, two] => Self::Two([one, two]),
            _ => Self::More(slices.into()),
        }
    }

    pub(super) fn all(&self) -> &[Sge] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Two(two) => two,
            Self::More(more) => more,
        }
    }
}

/// The receive queue of a queue pair: its own or a shared one.
#[derive(Clone, Debug)]
pub(in crate::provider::software) enum ReceiveQueue {
    Own {
        queue: VecDeque<PostedReceive>,
        most: usize,
    },
    Shared(SoftwareSharedReceives),
}

/// A shared receive queue of the software fabric.
#[derive(Clone, Debug)]
pub struct SoftwareSharedReceives {
    queue: Arc<Mutex<SharedReceiveState>>,
    pub(in crate::provider::software) domain: Arc<Domain>,
    most: usize,
    slices: usize,
}

#[derive(Debug)]
struct SharedReceiveState {
    posted: VecDeque<PostedReceive>,
    /// Connections with a Send that waits for a receive.
    waiting: VecDeque<Weak<QpPair>>,
    /// The answer of the device to the request to end it; `None` before it was made.
    ended: Option<bool>,
}

impl SoftwareSharedReceives {
    pub(in crate::provider::software) fn new(
        domain: Arc<Domain>,
        most: u32,
        slices: usize,
    ) -> Self {
        let most = most as usize;
        let state = SharedReceiveState {
            posted: VecDeque::with_capacity(most),
            waiting: VecDeque::new(),
            ended: None,
        };
        Self {
            queue: Arc::new(Mutex::new(state)),
            domain,
            most,
            slices,
        }
    }

    fn lock(&self) -> MutexGuard<'_, SharedReceiveState> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::provider::software) fn post(
        &self,
        receives: &[Receive],
        slices: &[Sge],
    ) -> Result<()> {
        enqueue(
            &mut self.lock().posted,
            (self.most, self.slices),
            receives,
            slices,
        )?;
        while let Some(link) = self.next_waiting() {
            link.progress();
        }
        Ok(())
    }

    pub(in crate::provider::software) fn end_once(&self) -> bool {
        let SharedReceiveState { posted, ended, .. } = &mut *self.lock();
        *ended.get_or_insert_with(|| self.domain.end_unless_refused(|| posted.clear()))
    }

    /// Returns a connection with a Send that can continue. The lock is released, because the locks
    /// of connections come first.
    fn next_waiting(&self) -> Option<Arc<QpPair>> {
        let mut state = self.lock();
        while !state.posted.is_empty() {
            if let Some(link) = state.waiting.pop_front()?.upgrade() {
                return Some(link);
            }
        }
        None
    }

    /// Takes a receive. If there is none, `waits` is informed of the next.
    pub(super) fn take(&self, waits: Option<&Weak<QpPair>>) -> Option<PostedReceive> {
        let mut state = self.lock();
        // The receive that was posted last may still be in the caches. A shared queue has no order.
        let posted = state.posted.pop_back();
        if let (None, Some(link)) = (&posted, waits) {
            state.waiting.push_back(link.clone());
        }
        posted
    }
}

/// Returns the entries of a request in the table that was posted with it.
pub(super) fn entries<'a>(
    (from, count): (u32, u32),
    slices: &'a [Sge],
    verb: &'static str,
) -> Result<&'a [Sge]> {
    let from = from as usize;
    match slices.get(from..from + count as usize) {
        Some(slices) => Ok(slices),
        None => Err(VerbError {
            verb,
            cause: Cause::Limit,
        }),
    }
}

/// Adds all receives to a queue, or none. The queue has room for `most` receives of `each` entries.
pub(super) fn enqueue(
    queue: &mut VecDeque<PostedReceive>,
    (most, each): (usize, usize),
    receives: &[Receive],
    slices: &[Sge],
) -> Result<()> {
    let verb = "post_receives";
    if queue.len() + receives.len() > most {
        return Err(VerbError {
            verb,
            cause: Cause::Full,
        });
    }
    for receive in receives {
        if entries(receive.slices, slices, verb)?.len() > each {
            return Err(VerbError {
                verb,
                cause: Cause::Limit,
            });
        }
    }
    for receive in receives {
        queue.push_back(PostedReceive {
            id: receive.id,
            slices: SgList::of(entries(receive.slices, slices, verb)?),
        });
    }
    Ok(())
}
