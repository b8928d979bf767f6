//! Queue pairs: posting requests, and the end of a queue pair.
//!
//! A queue pair that fails is destroyed at once, after the completions of the device were taken.
//! The remaining requests are reported as flushed, each once and in order, without relying on the
//! device.

#![allow(
    unsafe_code,
    reason = "posting is a promise about memory, which is the caller's"
)]

mod establish;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::completion_queue::{AddedRequests, Pending, Queue, Side};
use super::connection::{Connection, IbvConnectRequest, Phase};
use super::device_state::DeviceState;
use super::event_queue::{EventQueue, LingeringPair};
use super::ids::Kind;
use super::outstanding::{CompletionTarget, PairRings};
use super::ring::Ring;
use super::srq::SrqInner;
use super::staging::{SendStaging, receive_fits, with_staging};
use super::sys;
use super::sys::{Flags, PostError, QueuePairSizes};
use super::tables::LazyTables;
use crate::provider::{
    Cause, Completion, ConnectionEvent, Operation, QueuePairConfig, Receive, Result, Sge, Status,
    VerbError, WorkRequest,
};

/// A queue pair.
pub(super) struct QpInner {
    /// The number that this provider assigned; the device reuses its own numbers.
    pub(super) number: u32,
    device_state: Arc<DeviceState>,
    queue: Arc<Queue>,
    events: Arc<EventQueue>,
    pub(super) connection: Arc<Connection>,
    state: Mutex<QpState>,
    shares_receives: bool,
    /// True after the device has reported the end of its last shared receive.
    last_receive_done: AtomicBool,
    config: QueuePairConfig,
    /// The private data of the connect request.
    private_data: Box<[u8]>,
}

/// The state of a queue pair. Its completion queue has the posted requests.
struct QpState {
    /// `None` after it has ended.
    device: Option<sys::QueuePair>,
    state: State,
    /// The last RDMA Read that was posted.
    last_read: Option<u32>,
    /// A request that this provider rejected instead of the device, with the status.
    refused: Option<(u32, Status)>,
    /// True if the device could not destroy it, and may still access posted memory.
    is_kept: bool,
    /// True after its owner was dropped: it reports no more events.
    is_left: bool,
}

/// The requests that can be posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Receives only.
    Connecting,
    /// Everything.
    Ready,
    /// Everything, which is flushed.
    Ended,
}

/// The resources of a queue pair.
pub(super) struct PairResources<'a> {
    pub(super) device_state: &'a Arc<DeviceState>,
    pub(super) queue: &'a Arc<Queue>,
    pub(super) shared: Option<&'a SrqInner>,
    pub(super) events: &'a Arc<EventQueue>,
}

/// From this size on, soft-iWARP may pass the memory of a request to TCP even after the completion
/// of a later request, unless the request itself is signaled.
const TCP_ZERO_COPY_BYTES: u64 = 4096;

impl QpState {
    fn new(device: sys::QueuePair) -> Self {
        Self {
            device: Some(device),
            state: State::Connecting,
            last_read: None,
            refused: None,
            is_kept: false,
            is_left: false,
        }
    }

    fn device(&self, verb: &'static str) -> Result<&sys::QueuePair> {
        self.device.as_ref().ok_or(VerbError {
            verb,
            cause: Cause::State,
        })
    }
}

impl QpInner {
    pub(super) fn new(
        parts: &PairResources<'_>,
        config: &QueuePairConfig,
        connection: Arc<Connection>,
        private_data: &[u8],
    ) -> Result<Arc<Self>> {
        let PairResources {
            device_state,
            queue,
            shared,
            events: notices,
        } = *parts;
        let sizes = QueuePairSizes {
            sends: config.sends,
            receives: config.receives,
            slices: u32::try_from(device_state.capabilities.max_sge).unwrap_or(1),
            inline: device_state.capabilities.max_inline,
        };
        let number = device_state.next_number();
        let lifecycle = queue.lock_lifecycle();
        let of = shared.map(SrqInner::device);
        let device = sys::QueuePair::new(&device_state.domain, queue.device(), of, &sizes, number)?;
        let device_number = device.number();
        let pair = Arc::new(Self {
            number,
            device_state: device_state.clone(),
            queue: queue.clone(),
            events: notices.clone(),
            connection,
            state: Mutex::new(QpState::new(device)),
            shares_receives: shared.is_some(),
            last_receive_done: AtomicBool::new(false),
            config: *config,
            private_data: private_data.into(),
        });
        let shared_ids = shared.map(|shared| (shared.number, &shared.ids));
        queue.add_pair(device_number, pair.rings(), shared_ids);
        drop(lifecycle);
        device_state.add_pair(number, pair.clone());
        Ok(pair)
    }

    fn rings(self: &Arc<Self>) -> PairRings {
        let receives = (!self.shares_receives).then(|| Ring::new(self.config.receives));
        PairRings {
            target: self.clone(),
            number: self.number,
            sends: Ring::new(self.config.sends),
            receives,
            has_failed: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, QpState> {
        // No panic can occur between two changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> State {
        self.lock().state
    }

    /// Returns the number of the device.
    pub(super) fn device_number(&self) -> Option<u32> {
        self.lock().device.as_ref().map(sys::QueuePair::number)
    }

    /// Posts requests.
    ///
    /// # Safety
    /// As for [`crate::provider::QueuePair::post`].
    pub(super) unsafe fn post(&self, requests: &[WorkRequest], slices: &[Sge]) -> Result<()> {
        let error = |cause| VerbError {
            verb: "post",
            cause,
        };
        requests
            .iter()
            .try_for_each(|request| self.fits(request, slices))?;
        let mut state = self.lock();
        match state.state {
            State::Connecting => return Err(error(Cause::State)),
            State::Ended => return self.post_ended(&state, requests.iter().map(|one| one.id)),
            State::Ready => {}
        }
        if requests.is_empty() {
            return Ok(());
        }
        let device_number = state.device("post")?.number();
        let ids = requests.iter().map(|request| request.id);
        let added = self
            .queue
            .add_requests(device_number, Side::Sends, ids)
            .ok_or_else(|| error(Cause::Full))?;
        // SAFETY: the caller's promise.
        let posted = with_staging(|staging| unsafe {
            self.post_to_device(&mut state, staging, added, (requests, slices))
        });
        self.settle(state, posted, (device_number, Side::Sends, added.first))
    }

    /// Flushes requests that are posted to an ended queue pair: all earlier ones were flushed. If
    /// the device could not destroy it, it may still access the memory of earlier requests, which a
    /// completion of a later request would release.
    fn post_ended(&self, state: &QpState, ids: impl Iterator<Item = u64>) -> Result<()> {
        if state.is_kept {
            return Err(VerbError {
                verb: "post",
                cause: Cause::State,
            });
        }
        self.queue
            .add(ids.map(|id| self.flushed(id, Status::Flushed)));
        Ok(())
    }

    /// Handles the outcome of posting a list, for the device number, the side, and the number of
    /// the first request.
    fn settle(
        &self,
        state: MutexGuard<'_, QpState>,
        posted: PostOutcome,
        (device_number, side, first): (u32, Side, u32),
    ) -> Result<()> {
        match posted {
            PostOutcome::All => Ok(()),
            PostOutcome::Nothing(error) => {
                // The lock is still held, so the queue pair has not ended.
                self.queue.remove_requests(device_number, side, first);
                Err(error)
            }
            // The rest is flushed, as if the queue pair had failed in between.
            PostOutcome::Part => {
                drop(state);
                self.fail();
                Ok(())
            }
        }
    }

    /// Ends this queue pair, and all others that have failed.
    pub(super) fn fail(&self) {
        self.end();
        self.device_state.end_failed();
    }

    /// Checks that the device supports a request.
    fn fits(&self, request: &WorkRequest, slices: &[Sge]) -> Result<()> {
        let capabilities = &self.device_state.capabilities;
        let (from, count) = (request.slices.0 as usize, request.slices.1 as usize);
        let fits = match request.operation {
            Operation::Send { .. } | Operation::Write { .. } => count <= capabilities.max_sge,
            Operation::Read { .. } => count <= capabilities.max_read_sge,
            Operation::Bind { .. } => count == 1,
            Operation::Invalidate { .. } => count == 0,
        };
        let mine = from
            .checked_add(count)
            .and_then(|end| slices.get(from..end));
        let within = mine.is_some_and(|mine| {
            let sends = matches!(request.operation, Operation::Send { .. });
            !request.inline || (sends && bytes(mine) <= capabilities.max_inline.into())
        });
        if fits && within {
            Ok(())
        } else {
            Err(VerbError {
                verb: "post",
                cause: Cause::Limit,
            })
        }
    }

    /// Returns the id and the flags of a request for the device.
    fn flags(
        &self,
        number: u32,
        request: &WorkRequest,
        mine: &[Sge],
        tables: &mut LazyTables<'_>,
    ) -> (u64, Flags) {
        let moves = matches!(
            request.operation,
            Operation::Send { .. } | Operation::Write { .. }
        );
        let bytes = bytes(mine);
        // A device does not check the keys of inline requests.
        let fits = moves && bytes > 0 && bytes <= self.device_state.capabilities.max_inline.into();
        let quiet = self.device_state.quirks.iwarp
            && moves
            && bytes >= TCP_ZERO_COPY_BYTES
            && !request.signaled;
        let flags = Flags {
            signaled: request.signaled || quiet,
            inline: request.inline || (fits && tables.get().holds(mine)),
            fenced: false,
        };
        let kind = if quiet { Kind::Quiet } else { Kind::Send };
        (kind.id(number), flags)
    }

    /// Returns true if a request must wait for earlier RDMA Reads: soft-iWARP would complete it,
    /// and thus implicitly the Reads, before they are done. `oldest` is the oldest outstanding
    /// request.
    fn is_fenced(
        &self,
        state: &mut QpState,
        operation: &Operation,
        (number, oldest): (u32, u32),
    ) -> bool {
        if !self.device_state.quirks.iwarp {
            return false;
        }
        if matches!(operation, Operation::Read { .. }) {
            state.last_read = Some(number);
            return false;
        }
        let outstanding = number.wrapping_sub(oldest);
        state
            .last_read
            .is_some_and(|read| read.wrapping_sub(oldest) < outstanding)
    }

    /// Posts requests to the device, after they were added to the completion queue.
    ///
    /// # Safety
    /// As for [`Self::post`].
    unsafe fn post_to_device(
        &self,
        state: &mut QpState,
        staging: &mut SendStaging,
        added: AddedRequests,
        (requests, slices): (&[WorkRequest], &[Sge]),
    ) -> PostOutcome {
        let mut tables = self.device_state.tables.lazy();
        let mut before = false;
        for (at, request) in (0..).zip(requests) {
            if staging.binds(&request.operation) {
                // SAFETY: the caller's promise.
                if let Err(outcome) = unsafe { state.post_staged(staging, slices, &mut tables) } {
                    return outcome.after(before);
                }
                before = true;
            }
            let number = added.first.wrapping_add(at);
            let mine = slices.get(request.slices.0 as usize..).unwrap_or_default();
            let mine = mine.get(..request.slices.1 as usize).unwrap_or_default();
            let (id, mut flags) = self.flags(number, request, mine, &mut tables);
            flags.fenced = self.is_fenced(state, &request.operation, (number, added.oldest));
            let entry = (mine, flags);
            if let Err(status) = staging.add((&mut tables, self.number), id, request, entry) {
                state.refused = Some((number, status));
                // SAFETY: the caller's promise. The result does not matter.
                let _ = unsafe { state.post_staged(staging, slices, &mut tables) };
                return PostOutcome::Part;
            }
        }
        // SAFETY: the caller's promise.
        match unsafe { state.post_staged(staging, slices, &mut tables) } {
            Ok(()) => PostOutcome::All,
            Err(outcome) => outcome.after(before),
        }
    }

    /// Posts receives.
    ///
    /// # Safety
    /// As for [`crate::provider::QueuePair::post`].
    pub(super) unsafe fn post_receives(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        let error = |cause| VerbError {
            verb: "post_receives",
            cause,
        };
        if self.shares_receives {
            return Err(error(Cause::State));
        }
        if !receives
            .iter()
            .all(|receive| receive_fits(receive, slices, self.device_state.capabilities.max_sge))
        {
            return Err(error(Cause::Limit));
        }
        let state = self.lock();
        if state.state == State::Ended {
            return self.post_ended(&state, receives.iter().map(|one| one.id));
        }
        if receives.is_empty() {
            return Ok(());
        }
        let device = state.device("post_receives")?;
        let (device_number, side) = (device.number(), Side::Receives);
        let ids = receives.iter().map(|receive| receive.id);
        let added = self.queue.add_requests(device_number, side, ids);
        let first = added.ok_or_else(|| error(Cause::Full))?.first;
        let posted = with_staging(|staging| {
            let mut numbers = (0..).map(|at| Kind::Receive.id(first.wrapping_add(at)));
            let list = &mut staging.receives;
            list.fill(receives, slices, |_| numbers.next().unwrap_or_default());
            // SAFETY: the caller's promise.
            match unsafe { device.post_receives(list, slices) } {
                Ok(()) => PostOutcome::All,
                Err(refused) => PostOutcome::failed(refused),
            }
        });
        self.settle(state, posted, (device_number, side, first))
    }

    /// Reports an event, unless the connection is dropped. The lock orders the events.
    fn report(&self, state: &QpState, event: ConnectionEvent<IbvConnectRequest>) {
        if !state.is_left {
            self.events.push(event);
        }
    }

    fn flushed(&self, id: u64, status: Status) -> Pending {
        let completion = Completion {
            id,
            queue_pair: self.number,
            status,
            length: 0,
            invalidated: None,
        };
        Pending {
            completion,
            shared: false,
        }
    }

    /// Ends the queue pair, without further reports. Returns true if nothing accesses the posted
    /// memory any more.
    pub(super) fn leave(&self) -> bool {
        self.fail();
        let is_kept = {
            let mut state = self.lock();
            state.is_left = true;
            state.is_kept
        };
        self.queue.forget(self.number);
        self.events.forget(self.number);
        !is_kept
    }
}

/// Returns the number of bytes of all entries.
fn bytes(slices: &[Sge]) -> u64 {
    slices.iter().map(|slice| u64::from(slice.length)).sum()
}

/// The outcome of posting a list of requests.
enum PostOutcome {
    All,
    /// None of them was taken.
    Nothing(VerbError),
    /// Some of them may have been taken.
    Part,
}

impl PostOutcome {
    fn failed(refused: PostError) -> Self {
        if refused.whole {
            return Self::Nothing(refused.error);
        }
        tracing::debug!(error = %refused.error, "a list of requests was taken in part");
        Self::Part
    }

    /// Returns the outcome of a list whose last part has failed. `before` is true if earlier parts
    /// were posted.
    fn after(self, before: bool) -> Self {
        match self {
            Self::Nothing(error) if before => {
                tracing::debug!(%error, "a list of requests was taken in part");
                Self::Part
            }
            outcome => outcome,
        }
    }
}

impl QpState {
    /// Posts a list.
    ///
    /// # Safety
    /// As for [`QpInner::post`].
    unsafe fn post_staged(
        &self,
        staging: &mut SendStaging,
        slices: &[Sge],
        tables: &mut LazyTables<'_>,
    ) -> std::result::Result<(), PostOutcome> {
        let Some(device) = &self.device else {
            return Err(PostOutcome::Part);
        };
        // SAFETY: the caller's promise.
        unsafe { staging.post(device, slices, tables) }.map_err(PostOutcome::failed)
    }
}

impl CompletionTarget for QpInner {
    fn completes_on(&self, queue: u32) -> bool {
        self.queue.number == queue
    }

    fn end(&self) {
        let mut state = self.lock();
        // Otherwise it has ended: a thread that ends it holds the lock until then.
        if let Some(device) = state.device.take() {
            let was = std::mem::replace(&mut state.state, State::Ended);
            self.end_device(&mut state, device);
            if was == State::Ready {
                let queue_pair = self.number;
                self.report(&state, ConnectionEvent::Disconnected { queue_pair });
            }
        }
    }

    fn message_before_established(&self) {
        if self.connection.phase() == Phase::Accepted {
            self.connection.id.notify();
        }
    }

    fn last_receive_done(&self) {
        self.last_receive_done.store(true, Ordering::Release);
    }
}

impl QpInner {
    fn end_device(&self, state: &mut QpState, device: sys::QueuePair) {
        let iwarp = self.device_state.quirks.iwarp;
        let asks = self.connection.phase() == Phase::Requesting;
        if iwarp {
            // The kernel closes the connection in an orderly way, and the queue pair with it.
            self.connection.disconnect();
        }
        let failed = device.fail();
        self.connection.disconnect();
        if self.shares_receives {
            self.device_state
                .await_last_receive(&self.last_receive_done);
        }
        // Requests that completed before the failure count as completed.
        self.device_state.drain(&self.queue);
        let windows = self.device_state.tables.end_pair(self.number);
        let number = device.number();
        let lifecycle = self.queue.lock_lifecycle();
        let ended = if asks && iwarp {
            self.events.linger(LingeringPair {
                pair: Some(device),
                queue: self.queue.clone(),
                device_state: self.device_state.clone(),
                connection: self.connection.clone(),
            });
            failed
        } else {
            device.end()
        };
        // Some devices leave completions behind.
        self.device_state.drain(&self.queue);
        let rings = self.queue.remove_pair(number);
        drop(lifecycle);
        state.is_kept = !ended;
        self.device_state.remove_pair(self.number);
        if ended {
            self.device_state.tables.cut_off(&windows);
            self.flush(state.refused, rings);
        }
    }

    /// Reports all remaining requests as flushed, which frees their memory.
    fn flush(&self, refused: Option<(u32, Status)>, rings: Option<PairRings>) {
        let Some(PairRings {
            mut sends,
            mut receives,
            ..
        }) = rings
        else {
            return;
        };
        let sends = std::iter::from_fn(|| sends.pop()).map(|(number, id)| {
            let refused = refused.filter(|(of, _)| *of == number);
            self.flushed(id, refused.map_or(Status::Flushed, |(_, status)| status))
        });
        self.queue.add(sends);
        let receives = std::iter::from_fn(|| receives.as_mut()?.pop());
        self.queue
            .add(receives.map(|(_, id)| self.flushed(id, Status::Flushed)));
    }
}
