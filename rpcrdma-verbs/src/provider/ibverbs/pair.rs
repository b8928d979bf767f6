//! Queue pairs: posting to them, and their end.
//!
//! A queue pair that fails is destroyed at once, after what the device has completed was taken. What is left is told as flushed,
//! each once and in its order: no device is relied on for it.

#![allow(unsafe_code, reason = "posting is a promise about memory, which is the caller's")]

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use ibverbs_sys::{ibv_access_flags, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_state};

use super::connection::{Connection, Phase};
use super::hub::{Hub, Served, flush};
use super::ids::Kind;
use super::notices::Notices;
use super::outgoing::receive_fits;
use super::queue::{Pending, Queue};
use super::ring::Ring;
use super::shared::Shared;
use super::sys;
use super::sys::{Flags, Parameters, QueuePairSizes, Refused};
use crate::provider::{
    Cause, Completion, ConnectionEvent, Operation, QueuePairConfig, Receive, Result, Slice, Status, VerbError,
    WorkRequest,
};

/// A queue pair.
pub(super) struct Pair {
    /// Ours: the device's is used again.
    pub(super) number: u32,
    me: Weak<Self>,
    hub: Rc<Hub>,
    queue: Rc<Queue>,
    notices: Rc<Notices>,
    pub(super) connection: Rc<Connection>,
    /// None once it has ended.
    device: RefCell<Option<sys::QueuePair>>,
    state: Cell<State>,
    sends: RefCell<Ring>,
    /// None with a shared queue.
    receives: Option<RefCell<Ring>>,
    /// The last RDMA Read that was posted.
    last_read: Cell<Option<u32>>,
    /// A request that was refused here, and how.
    refused: Cell<Option<(u32, Status)>>,
    config: QueuePairConfig,
    /// What goes with the request to connect.
    private_data: Box<[u8]>,
}

/// What can be posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Receives alone.
    Connecting,
    /// Everything.
    Ready,
    /// Everything, to be flushed.
    Ended,
}

/// What a queue pair is made with.
pub(super) struct Parts<'a> {
    pub(super) hub: &'a Rc<Hub>,
    pub(super) queue: &'a Rc<Queue>,
    pub(super) shared: Option<&'a Shared>,
    pub(super) notices: &'a Rc<Notices>,
}

/// Octets from which on soft-iWARP lends the memory of a request to TCP, past the completion of a later one, unless the request has
/// a completion of its own.
const LENT: u64 = 4096;

/// Bits of a mask that user space knows of. Old kernels set others, which are not for it.
const STANDARD: u32 = (1 << 21) - 1;

/// How long an acknowledgement may take: 4 us times 2 to the power of this. A peer that is gone is noticed after eight of it, or
/// a little more; the connection manager would take half a minute.
const TIMEOUT: u8 = 17;

/// The peer reads and writes what it has keys for, and nothing else.
const ACCESS: u32 = ibv_access_flags::IBV_ACCESS_REMOTE_READ.0 | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;

impl Pair {
    pub(super) fn new(
        parts: &Parts<'_>,
        config: &QueuePairConfig,
        connection: Rc<Connection>,
        private_data: &[u8],
    ) -> Result<Rc<Self>> {
        let Parts { hub, queue, shared, notices } = *parts;
        let sizes = QueuePairSizes {
            sends: config.sends,
            receives: config.receives,
            slices: u32::try_from(hub.capabilities.slices).unwrap_or(1),
            inline: hub.capabilities.inline,
        };
        let shared = shared.map(Shared::device);
        let device = sys::QueuePair::new(&hub.domain, queue.device(), shared, &sizes)?;
        let number = device.number();
        let own = shared.is_none();
        let pair = Rc::new_cyclic(|me| Self {
            number: hub.next_number(),
            me: me.clone(),
            hub: hub.clone(),
            queue: queue.clone(),
            notices: notices.clone(),
            connection,
            device: RefCell::new(Some(device)),
            state: Cell::new(State::Connecting),
            sends: RefCell::new(Ring::new(config.sends)),
            receives: own.then(|| RefCell::new(Ring::new(config.receives))),
            last_read: Cell::new(None),
            refused: Cell::new(None),
            config: *config,
            private_data: private_data.into(),
        });
        hub.add_pair(number, pair.clone());
        Ok(pair)
    }

    pub(super) fn state(&self) -> State {
        self.state.get()
    }

    /// The device's number.
    pub(super) fn device_number(&self) -> Option<u32> {
        self.device.borrow().as_ref().map(sys::QueuePair::number)
    }

    fn modify(&self, mut attributes: ibv_qp_attr, mask: u32) -> Result<()> {
        let device = self.device.borrow();
        let device = device.as_ref().ok_or(VerbError { verb: "ibv_modify_qp", cause: Cause::State })?;
        device.modify(&mut attributes, mask & STANDARD)
    }

    /// Lets receives be posted, before it is known how the peer is reached.
    pub(super) fn begin(&self) -> Result<()> {
        use ibv_qp_attr_mask as mask;
        let attributes = ibv_qp_attr {
            qp_state: ibv_qp_state::IBV_QPS_INIT,
            qp_access_flags: ACCESS,
            port_num: self.hub.traits.port,
            ..Default::default()
        };
        let common = mask::IBV_QP_STATE | mask::IBV_QP_ACCESS_FLAGS;
        let infiniband = mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT;
        self.modify(attributes, if self.hub.traits.iwarp { common.0 } else { (common | infiniband).0 })
    }

    /// The same, as the connection has it.
    pub(super) fn initialize(&self) -> Result<()> {
        let (mut attributes, mask) = self.connection.id.attributes(ibv_qp_state::IBV_QPS_INIT)?;
        attributes.qp_access_flags = ACCESS;
        self.modify(attributes, mask | ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS.0)
    }

    /// Makes it ready to receive and to send, with RDMA Reads of the peer's and of ours, unless the connection knows how many.
    fn raise(&self, reads: Option<(u8, u8)>) -> Result<()> {
        // The kernel does it for iWARP.
        if self.hub.traits.iwarp {
            return Ok(());
        }
        let (mut attributes, mask) = self.connection.id.attributes(ibv_qp_state::IBV_QPS_RTR)?;
        if let Some((theirs, _)) = reads {
            attributes.max_dest_rd_atomic = theirs;
        }
        self.modify(attributes, mask)?;
        let (mut attributes, mask) = self.connection.id.attributes(ibv_qp_state::IBV_QPS_RTS)?;
        if let Some((_, ours)) = reads {
            attributes.max_rd_atomic = ours;
        }
        attributes.timeout = attributes.timeout.min(TIMEOUT);
        self.modify(attributes, mask)
    }

    fn parameters<'a>(&self, reads: (u8, u8), private_data: &'a [u8]) -> Parameters<'a> {
        Parameters {
            private_data,
            reads,
            rnr_retry: self.config.rnr_retry,
            shared: self.receives.is_none(),
            pair: self.device_number().unwrap_or(0),
        }
    }

    fn reads(&self) -> u8 {
        u8::try_from(self.config.reads).unwrap_or(u8::MAX)
    }

    /// Asks the peer for the connection.
    pub(super) fn ask(&self) -> Result<()> {
        self.initialize()?;
        // Linux's server refuses who takes no RDMA Reads.
        let reads = self.reads().max(1);
        let parameters = self.parameters((reads, reads), &self.private_data);
        self.connection.id.connect(&parameters)?;
        self.connection.phase.set(Phase::Asking);
        Ok(())
    }

    /// The peer has accepted, and waits for us.
    pub(super) fn respond(&self) -> Result<()> {
        self.raise(None)?;
        self.connection.id.establish()?;
        self.is_ready();
        Ok(())
    }

    /// Both know.
    pub(super) fn is_ready(&self) {
        self.connection.phase.set(Phase::Established);
        self.state.set(State::Ready);
    }

    /// Accepts the peer's request.
    pub(super) fn accept(&self, private_data: &[u8]) -> Result<()> {
        let (theirs, ours) = self.connection.offered;
        let reads = (theirs.min(self.reads()), ours.min(self.reads()));
        self.raise(Some(reads))?;
        self.connection.id.accept(&self.parameters(reads, private_data))?;
        self.connection.phase.set(Phase::Accepted);
        self.state.set(State::Ready);
        Ok(())
    }

    /// The connection was not made.
    pub(super) fn is_refused(&self, rejected: bool, private_data: Box<[u8]>, why: Option<VerbError>) {
        self.end();
        self.notices.tell(ConnectionEvent::Failed { queue_pair: self.number, rejected, private_data, why });
    }

    /// Posts requests.
    ///
    /// # Safety
    /// As [`crate::provider::QueuePair::post`].
    pub(super) unsafe fn post(&self, requests: &[WorkRequest], slices: &[Slice]) -> Result<()> {
        let error = |cause| VerbError { verb: "post", cause };
        requests.iter().try_for_each(|request| self.fits(request, slices))?;
        match self.state.get() {
            State::Connecting => return Err(error(Cause::State)),
            State::Ended => {
                requests.iter().for_each(|request| self.flushed(request.id, Status::Flushed));
                return Ok(());
            }
            State::Ready => {}
        }
        let mut sends = self.sends.borrow_mut();
        if requests.len() > sends.room() {
            return Err(error(Cause::Full));
        }
        let numbers = requests.iter().map(|request| sends.push(request.id));
        let Some(first) = numbers.reduce(|first, _| first) else { return Ok(()) };
        drop(sends);
        // SAFETY: the caller's promise.
        let posted = unsafe { self.hand_over(first, requests, slices) };
        self.settle(posted, || self.sends.borrow_mut().truncate(first))
    }

    /// What follows from how a list was taken.
    fn settle(&self, posted: Posted, take_back: impl FnOnce()) -> Result<()> {
        match posted {
            Posted::All => Ok(()),
            Posted::Nothing(error) => {
                take_back();
                Err(error)
            }
            // The rest is flushed, as if the queue pair had failed on the way.
            Posted::Part => {
                self.fail();
                Ok(())
            }
        }
    }

    /// Ends it, and what has failed with it.
    pub(super) fn fail(&self) {
        if let Some(me) = self.me.upgrade() {
            let me: Rc<dyn Served> = me;
            self.hub.fails(&me);
        }
        self.hub.settle();
    }

    /// Whether the device takes a request: as many slices.
    fn fits(&self, request: &WorkRequest, slices: &[Slice]) -> Result<()> {
        let capabilities = &self.hub.capabilities;
        let (from, count) = (request.slices.0 as usize, request.slices.1 as usize);
        let fits = match request.operation {
            Operation::Send { .. } | Operation::Write { .. } => count <= capabilities.slices,
            Operation::Read { .. } => count <= capabilities.read_slices,
            Operation::Bind { .. } => count == 1,
            Operation::Invalidate { .. } => count == 0,
        };
        let mine = from.checked_add(count).and_then(|end| slices.get(from..end));
        let within = mine.is_some_and(|mine| {
            let sends = matches!(request.operation, Operation::Send { .. });
            !request.inline || (sends && octets(mine) <= capabilities.inline.into())
        });
        if fits && within { Ok(()) } else { Err(VerbError { verb: "post", cause: Cause::Limit }) }
    }

    /// How the device is to do a request with this number, and what it knows it by.
    fn flags(&self, number: u32, request: &WorkRequest, mine: &[Slice]) -> (u64, Flags) {
        let moves = matches!(request.operation, Operation::Send { .. } | Operation::Write { .. });
        let octets = octets(mine);
        // A device would not look at the keys of what it takes along.
        let fits = moves && octets > 0 && octets <= self.hub.capabilities.inline.into();
        let quiet = self.hub.traits.iwarp && moves && octets >= LENT && !request.signaled;
        let flags = Flags {
            signaled: request.signaled || quiet,
            inline: request.inline || (fits && self.hub.tables.holds(mine)),
            fenced: self.is_fenced(&request.operation, number),
        };
        let kind = if quiet { Kind::Quiet } else { Kind::Send };
        (kind.id(number), flags)
    }

    /// Whether a request is to wait for the RDMA Reads before it: soft-iWARP would tell that it is done before they are, and so
    /// that they are.
    fn is_fenced(&self, operation: &Operation, number: u32) -> bool {
        if !self.hub.traits.iwarp {
            return false;
        }
        let reads = matches!(operation, Operation::Read { .. });
        if reads {
            self.last_read.set(Some(number));
        }
        !reads && self.last_read.get().is_some_and(|read| self.sends.borrow().has(read))
    }

    /// Gives requests to the device, of which the first has this number.
    ///
    /// # Safety
    /// As [`Self::post`].
    unsafe fn hand_over(&self, first: u32, requests: &[WorkRequest], slices: &[Slice]) -> Posted {
        let (device, mut outgoing) = (self.device.borrow(), self.hub.outgoing.borrow_mut());
        let Some(device) = device.as_ref() else { return Posted::Part };
        outgoing.clear();
        let mut before = false;
        for (at, request) in (0..).zip(requests) {
            if outgoing.binds(&request.operation) {
                // SAFETY: the caller's promise.
                if let Err(refused) = unsafe { outgoing.post(device, slices) } {
                    return Posted::failed(refused, before);
                }
                before = true;
            }
            let number = first.wrapping_add(at);
            let mine = slices.get(request.slices.0 as usize..).unwrap_or_default();
            let mine = mine.get(..request.slices.1 as usize).unwrap_or_default();
            let (id, flags) = self.flags(number, request, mine);
            if let Err(status) = outgoing.add((&self.hub.tables, self.number), id, request, (mine, flags)) {
                self.refused.set(Some((number, status)));
                // SAFETY: the caller's promise. What comes of it makes no difference.
                let _ = unsafe { outgoing.post(device, slices) };
                return Posted::Part;
            }
        }
        // SAFETY: the caller's promise.
        match unsafe { outgoing.post(device, slices) } {
            Ok(()) => Posted::All,
            Err(refused) => Posted::failed(refused, before),
        }
    }

    /// Posts receives.
    ///
    /// # Safety
    /// As [`crate::provider::QueuePair::post`].
    pub(super) unsafe fn post_receives(&self, receives: &[Receive], slices: &[Slice]) -> Result<()> {
        let error = |cause| VerbError { verb: "post_receives", cause };
        let Some(ring) = &self.receives else { return Err(error(Cause::State)) };
        if !receives.iter().all(|receive| receive_fits(receive, slices, self.hub.capabilities.slices)) {
            return Err(error(Cause::Limit));
        }
        if self.state.get() == State::Ended {
            receives.iter().for_each(|receive| self.flushed(receive.id, Status::Flushed));
            return Ok(());
        }
        if receives.len() > ring.borrow().room() {
            return Err(error(Cause::Full));
        }
        let mut first = None;
        let mut number = |receive: &Receive| {
            let number = ring.borrow_mut().push(receive.id);
            first.get_or_insert(number);
            Kind::Receive.id(number)
        };
        let mut outgoing = self.hub.outgoing.borrow_mut();
        outgoing.receives.fill(receives, slices, &mut number);
        let Some(first) = first else { return Ok(()) };
        let device = self.device.borrow();
        let posted = match device.as_ref() {
            // SAFETY: the caller's promise.
            Some(device) => match unsafe { device.post_receives(&mut outgoing.receives, slices) } {
                Ok(()) => Posted::All,
                Err(refused) => Posted::failed(refused, false),
            },
            None => Posted::Part,
        };
        drop((outgoing, device));
        self.settle(posted, || ring.borrow_mut().truncate(first))
    }

    fn flushed(&self, id: u64, status: Status) {
        let completion = Completion { id, queue_pair: self.number, status, length: 0, invalidated: None };
        self.queue.add(Pending { completion, shared: false });
    }

    /// Ends it for good: nothing of it is told any more.
    pub(super) fn leave(&self) {
        self.fail();
        self.queue.forget(self.number);
        self.notices.forget(self.number);
    }
}

/// Octets of slices.
fn octets(slices: &[Slice]) -> u64 {
    slices.iter().map(|slice| u64::from(slice.length)).sum()
}

/// What became of a list of requests.
enum Posted {
    All,
    /// None of it was taken.
    Nothing(VerbError),
    /// Some of it may have been taken.
    Part,
}

impl Posted {
    fn failed(refused: Refused, before: bool) -> Self {
        if refused.whole && !before {
            return Self::Nothing(refused.error);
        }
        tracing::debug!(error = %refused.error, "a list of requests was taken in part");
        Self::Part
    }
}

impl Served for Pair {
    fn number(&self) -> u32 {
        self.number
    }

    fn done(&self, kind: Kind, number: u32) -> Option<u64> {
        match kind {
            Kind::Send | Kind::Quiet => self.sends.borrow_mut().done(number),
            _ => self.receives.as_ref()?.borrow_mut().done(number),
        }
    }

    fn has_failed(&self) -> bool {
        self.state.get() == State::Ended
    }

    fn completes_on(&self, queue: &Rc<Queue>) -> bool {
        Rc::ptr_eq(&self.queue, queue)
    }

    fn end(&self) {
        let Some(device) = self.device.borrow_mut().take() else { return };
        let was = self.state.replace(State::Ended);
        let asks = self.connection.phase.get() == Phase::Asking;
        if self.hub.traits.iwarp {
            // The kernel closes the connection in order, and the queue pair with it.
            self.connection.hang_up();
        }
        device.fail();
        self.connection.hang_up();
        if self.receives.is_none() {
            self.hub.await_last(device.number());
        }
        // What was done before it failed counts as done.
        self.hub.drain(&self.queue);
        self.hub.tables.end_pair(self.number);
        let number = device.number();
        if asks && self.hub.traits.iwarp {
            self.notices.keep(device, self.connection.clone());
        } else {
            drop(device);
        }
        // Some devices leave completions behind.
        self.hub.drain(&self.queue);
        self.hub.remove_pair(number);
        flush(&mut self.sends.borrow_mut(), |number, id| {
            let refused = self.refused.get().filter(|(of, _)| *of == number);
            self.flushed(id, refused.map_or(Status::Flushed, |(_, status)| status));
        });
        if let Some(receives) = &self.receives {
            flush(&mut receives.borrow_mut(), |_, id| self.flushed(id, Status::Flushed));
        }
        if was == State::Ready {
            self.notices.tell(ConnectionEvent::Disconnected { queue_pair: self.number });
        }
    }

    fn comes_early(&self) {
        if self.connection.phase.get() == Phase::Accepted {
            self.connection.id.notify();
        }
    }
}
