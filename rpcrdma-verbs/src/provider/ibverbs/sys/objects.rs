//! What is made on a device.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use ibverbs_sys as ibv;
use ibverbs_sys::{
    ibv_comp_channel, ibv_cq, ibv_mr, ibv_mw, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_state, ibv_srq, ibv_wc,
};

use super::device::{Context, Domain};
use super::{last, returned};
use crate::provider::{Access, Cause, Result, Slice, VerbError};

/// What a provider of libibverbs lacks.
const LACKING: Cause = Cause::Limit;

/// Rights, as libibverbs has them.
pub(super) fn flags(access: Access) -> u32 {
    let pairs = [
        (access.local_write, ibv::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE),
        (access.remote_read, ibv::ibv_access_flags::IBV_ACCESS_REMOTE_READ),
        (access.remote_write, ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE),
        (access.bind, ibv::ibv_access_flags::IBV_ACCESS_MW_BIND),
    ];
    pairs.iter().filter(|(has, _)| *has).fold(0, |all, (_, flag)| all | flag.0)
}

/// Whether the device is gone, and reaches nothing any more.
fn is_gone(code: c_int) -> bool {
    [rustix::io::Errno::IO, rustix::io::Errno::NODEV].iter().any(|gone| gone.raw_os_error() == code.abs())
}

/// A device can't be kept from memory that is about to be used for something else. Nothing can go on from here.
fn abort(verb: &str, code: c_int) -> ! {
    let error = std::io::Error::from_raw_os_error(code.abs());
    tracing::error!(verb, %error, "a device can't be kept from memory that is freed");
    eprintln!("{verb}: {error}: the device can't be kept from memory that is freed");
    std::process::abort()
}

/// Registered memory.
#[derive(Debug)]
pub(in super::super) struct Region {
    raw: NonNull<ibv_mr>,
    ended: Cell<bool>,
    _domain: Rc<Domain>,
}

impl Region {
    /// Registers memory.
    ///
    /// # Safety
    /// It stays until the region is dropped.
    pub(in super::super) unsafe fn register(
        domain: &Rc<Domain>,
        memory: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Self> {
        let access = c_int::try_from(flags(access)).unwrap_or(0);
        // SAFETY: the domain is kept, and the memory stays, as the caller promises. Its address is exposed, as the device goes
        // by it.
        let raw = unsafe {
            memory.as_ptr().expose_provenance();
            ibv::ibv_reg_mr(domain.raw(), memory.as_ptr().cast::<c_void>(), length, access)
        };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let error = last("ibv_reg_mr");
            // Whoever is left without memory may tell less.
            tracing::warn!(%error, length, "memory can't be registered");
            error
        })?;
        Ok(Self { raw, ended: Cell::new(false), _domain: domain.clone() })
    }

    pub(super) fn raw(&self) -> *mut ibv_mr {
        self.raw.as_ptr()
    }

    pub(in super::super) fn local_key(&self) -> u32 {
        // SAFETY: the structure is there until the region ends, and is no more changed.
        unsafe { (*self.raw()).lkey }
    }

    pub(in super::super) fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.raw()).rkey }
    }

    /// Whether it has all octets of a slice.
    pub(in super::super) fn holds(&self, slice: &Slice) -> bool {
        // SAFETY: as above.
        let (from, length) = unsafe { ((*self.raw()).addr.addr() as u64, (*self.raw()).length as u64) };
        let end = slice.address.checked_add(slice.length.into());
        slice.address >= from && end.is_some_and(|end| end <= from + length)
    }

    /// Ends the registration, unless the device refuses: soft-RoCE does while a window is bound to it.
    pub(in super::super) fn end(&self) -> std::result::Result<(), c_int> {
        if self.ended.get() {
            return Ok(());
        }
        // SAFETY: it is registered, and if this succeeds it is not named to the library again: `ended` says so.
        let code = unsafe { ibv::ibv_dereg_mr(self.raw()) };
        if code != 0 && !is_gone(code) {
            return Err(code);
        }
        self.ended.set(true);
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Err(code) = self.end() {
            abort("ibv_dereg_mr", code);
        }
    }
}

/// A memory window of type 2.
#[derive(Debug)]
pub(in super::super) struct Window {
    raw: NonNull<ibv_mw>,
    domain: Rc<Domain>,
}

impl Window {
    pub(in super::super) fn new(domain: &Rc<Domain>) -> Result<Self> {
        // SAFETY: the domain is kept, and so is its context.
        let raw = unsafe {
            let Some(alloc) = (*domain.context().raw()).ops.alloc_mw else {
                return Err(VerbError { verb: "ibv_alloc_mw", cause: LACKING });
            };
            alloc(domain.raw(), ibv::IBV_MW_TYPE_2)
        };
        let raw = NonNull::new(raw).ok_or_else(|| last("ibv_alloc_mw"))?;
        Ok(Self { raw, domain: domain.clone() })
    }

    pub(super) fn raw(&self) -> *mut ibv_mw {
        self.raw.as_ptr()
    }

    /// The key that it was bound with last.
    pub(in super::super) fn key(&self) -> u32 {
        // SAFETY: the structure is there until `drop`, and is changed by `set_key` alone.
        unsafe { (*self.raw()).rkey }
    }

    /// It was bound with this key: the next bind tells the device the last one.
    pub(in super::super) fn set_key(&self, key: u32) {
        // SAFETY: as above; nothing refers to the field.
        unsafe { (*self.raw()).rkey = key };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the window is there, and is dropped once; its context is kept by its domain.
        unsafe {
            if let Some(dealloc) = (*self.domain.context().raw()).ops.dealloc_mw {
                let code = dealloc(self.raw());
                // A region whose window stays can't be deregistered, and says so.
                if code != 0 {
                    tracing::error!(code, "ibv_dealloc_mw has failed");
                }
            }
        }
    }
}

/// A completion queue with a channel of its own.
#[derive(Debug)]
pub(in super::super) struct CompletionQueue {
    raw: NonNull<ibv_cq>,
    channel: NonNull<ibv_comp_channel>,
    /// Events that were taken and not acknowledged yet.
    taken: Cell<u32>,
    context: Rc<Context>,
}

/// A completion, as the device tells it.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Taken {
    pub(in super::super) id: u64,
    pub(in super::super) pair: u32,
    /// The status, and the vendor's own.
    pub(in super::super) status: (u32, u32),
    pub(in super::super) octets: u32,
    pub(in super::super) flags: u32,
    /// The key that was invalidated, if the flags say so.
    pub(in super::super) key: u32,
}

impl CompletionQueue {
    /// Places for completions to be taken into.
    pub(in super::super) fn places(count: usize) -> Vec<ibv_wc> {
        // SAFETY: the structure is of numbers alone, of which any are valid.
        (0..count).map(|_| unsafe { MaybeUninit::zeroed().assume_init() }).collect()
    }

    pub(in super::super) fn new(context: &Rc<Context>, entries: u32) -> Result<Self> {
        // SAFETY: the context is open, and is kept open.
        let channel = unsafe { ibv::ibv_create_comp_channel(context.raw()) };
        let channel = NonNull::new(channel).ok_or_else(|| last("ibv_create_comp_channel"))?;
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        // SAFETY: context and channel are there as long as the queue.
        let raw = unsafe { ibv::ibv_create_cq(context.raw(), entries, null_mut(), channel.as_ptr(), 0) };
        let Some(raw) = NonNull::new(raw) else {
            let error = last("ibv_create_cq");
            // SAFETY: no queue was made with it.
            unsafe { ibv::ibv_destroy_comp_channel(channel.as_ptr()) };
            return Err(error);
        };
        let queue = Self { raw, channel, taken: Cell::new(0), context: context.clone() };
        rustix::io::ioctl_fionbio(queue.descriptor(), true)
            .map_err(|error| super::explained("ibv_create_comp_channel", error.into()))?;
        Ok(queue)
    }

    /// What an [`AsyncEvent`](super::AsyncEvent) names it by.
    pub(in super::super) fn address(&self) -> usize {
        self.raw.as_ptr().addr()
    }

    /// Takes completions: as many as there are places for.
    pub(in super::super) fn poll(&self, places: &mut [ibv_wc]) -> Result<usize> {
        let most = c_int::try_from(places.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is there, its context too, and there is room for as many as are asked for.
        let count = unsafe {
            let Some(poll) = (*self.context.raw()).ops.poll_cq else {
                return Err(VerbError { verb: "ibv_poll_cq", cause: LACKING });
            };
            poll(self.raw.as_ptr(), most, places.as_mut_ptr())
        };
        usize::try_from(count).map_err(|_| last("ibv_poll_cq"))
    }

    /// What a place says.
    pub(in super::super) fn taken(place: &ibv_wc) -> Taken {
        Taken {
            id: place.wr_id(),
            pair: place.qp_num,
            status: place.error().unwrap_or_default(),
            octets: u32::try_from(place.len()).unwrap_or(u32::MAX),
            flags: place.wc_flags.0,
            key: place.imm_data,
        }
    }

    /// Asks for an event at the next completion.
    pub(in super::super) fn arm(&self) -> Result<()> {
        // SAFETY: the queue is there, and its context too.
        let code = unsafe {
            let Some(request) = (*self.context.raw()).ops.req_notify_cq else {
                return Err(VerbError { verb: "ibv_req_notify_cq", cause: LACKING });
            };
            request(self.raw.as_ptr(), 0)
        };
        returned("ibv_req_notify_cq", code)
    }

    /// Takes an event; false if there is none.
    pub(in super::super) fn take_event(&self) -> bool {
        let (mut queue, mut context) = (null_mut(), null_mut());
        // SAFETY: the channel is there, its descriptor does not block, and this is its only queue.
        let code = unsafe { ibv::ibv_get_cq_event(self.channel.as_ptr(), &raw mut queue, &raw mut context) };
        if code != 0 {
            return false;
        }
        // Acknowledging takes a lock: many at once.
        self.taken.set(self.taken.get() + 1);
        if self.taken.get() == 64 {
            self.acknowledge();
        }
        true
    }

    fn acknowledge(&self) {
        // SAFETY: so many events of this queue were taken and not acknowledged.
        unsafe { ibv::ibv_ack_cq_events(self.raw.as_ptr(), self.taken.replace(0)) };
    }

    pub(in super::super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel is, which is borrowed with the queue.
        unsafe { BorrowedFd::borrow_raw(self.channel.as_ref().fd) }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // The destruction would wait for what was not acknowledged.
        self.acknowledge();
        // SAFETY: queue pairs keep their queue alive, so none is left; then the channel has no queue.
        unsafe {
            let code = ibv::ibv_destroy_cq(self.raw.as_ptr());
            if code != 0 {
                tracing::error!(code, "ibv_destroy_cq has failed");
            }
            ibv::ibv_destroy_comp_channel(self.channel.as_ptr());
        }
    }
}

/// A receive queue that several queue pairs share.
#[derive(Debug)]
pub(in super::super) struct SharedReceives {
    raw: NonNull<ibv_srq>,
    domain: Rc<Domain>,
}

impl SharedReceives {
    pub(in super::super) fn new(domain: &Rc<Domain>, entries: u32, slices: u32) -> Result<Self> {
        let mut wanted = ibv::ibv_srq_init_attr {
            srq_context: null_mut(),
            attr: ibv::ibv_srq_attr { max_wr: entries, max_sge: slices, srq_limit: 0 },
        };
        // SAFETY: the domain is kept, and the function reads and writes the structure alone.
        let raw = unsafe { ibv::ibv_create_srq(domain.raw(), &raw mut wanted) };
        let raw = NonNull::new(raw).ok_or_else(|| last("ibv_create_srq"))?;
        Ok(Self { raw, domain: domain.clone() })
    }

    pub(super) fn raw(&self) -> *mut ibv_srq {
        self.raw.as_ptr()
    }

    pub(super) fn domain(&self) -> &Rc<Domain> {
        &self.domain
    }
}

impl Drop for SharedReceives {
    fn drop(&mut self) {
        // SAFETY: queue pairs keep their shared queue alive, so none is left.
        let code = unsafe { ibv::ibv_destroy_srq(self.raw()) };
        if code != 0 && !is_gone(code) {
            abort("ibv_destroy_srq", code);
        }
    }
}

/// How large a queue pair is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct QueuePairSizes {
    pub(in super::super) sends: u32,
    pub(in super::super) receives: u32,
    pub(in super::super) slices: u32,
    pub(in super::super) inline: u32,
}

/// A queue pair of a reliable connection. Dropping it destroys it: nothing of what was posted is touched any more.
#[derive(Debug)]
pub(in super::super) struct QueuePair {
    raw: NonNull<ibv_qp>,
    domain: Rc<Domain>,
    _queue: Rc<CompletionQueue>,
    _shared: Option<Rc<SharedReceives>>,
}

impl QueuePair {
    pub(in super::super) fn new(
        domain: &Rc<Domain>,
        queue: &Rc<CompletionQueue>,
        shared: Option<&Rc<SharedReceives>>,
        sizes: &QueuePairSizes,
    ) -> Result<Self> {
        let own = if shared.is_some() { 0 } else { 1 };
        let mut wanted = ibv::ibv_qp_init_attr {
            send_cq: queue.raw.as_ptr(),
            recv_cq: queue.raw.as_ptr(),
            srq: shared.map_or(null_mut(), |shared| shared.raw()),
            cap: ibv::ibv_qp_cap {
                max_send_wr: sizes.sends,
                max_recv_wr: sizes.receives * own,
                max_send_sge: sizes.slices,
                max_recv_sge: sizes.slices * own,
                max_inline_data: sizes.inline,
            },
            qp_type: ibv::ibv_qp_type::IBV_QPT_RC,
            ..Default::default()
        };
        // SAFETY: domain, queue and shared queue are kept, and the function reads and writes the structure alone.
        let raw = unsafe { ibv::ibv_create_qp(domain.raw(), &raw mut wanted) };
        let raw = NonNull::new(raw).ok_or_else(|| last("ibv_create_qp"))?;
        let (queue, shared) = (queue.clone(), shared.cloned());
        Ok(Self { raw, domain: domain.clone(), _queue: queue, _shared: shared })
    }

    pub(super) fn raw(&self) -> *mut ibv_qp {
        self.raw.as_ptr()
    }

    pub(super) fn domain(&self) -> &Rc<Domain> {
        &self.domain
    }

    pub(in super::super) fn number(&self) -> u32 {
        // SAFETY: the structure is there until `drop`, and its number does not change.
        unsafe { (*self.raw()).qp_num }
    }

    pub(in super::super) fn modify(&self, attributes: &mut ibv_qp_attr, mask: u32) -> Result<()> {
        let mask = c_int::try_from(mask).unwrap_or(0);
        // SAFETY: the queue pair is there, and the function reads the structure.
        returned("ibv_modify_qp", unsafe { ibv::ibv_modify_qp(self.raw(), attributes, mask) })
    }

    /// Moves it to the error state: what was posted is flushed, and nothing comes any more.
    pub(in super::super) fn fail(&self) {
        let mut attributes = ibv_qp_attr { qp_state: ibv_qp_state::IBV_QPS_ERR, ..Default::default() };
        if let Err(error) = self.modify(&mut attributes, ibv_qp_attr_mask::IBV_QP_STATE.0) {
            // It is destroyed next, which does the same.
            tracing::debug!(%error, "to the error state");
        }
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: the queue pair is there, and is dropped once.
        let code = unsafe { ibv::ibv_destroy_qp(self.raw()) };
        if code == 0 || is_gone(code) {
            return;
        }
        // In the reset state nothing that was posted is left, either.
        let mut attributes = ibv_qp_attr { qp_state: ibv_qp_state::IBV_QPS_RESET, ..Default::default() };
        if self.modify(&mut attributes, ibv_qp_attr_mask::IBV_QP_STATE.0).is_err() {
            abort("ibv_destroy_qp", code);
        }
        tracing::error!(code, "ibv_destroy_qp has failed: a queue pair is left in its reset state");
    }
}
