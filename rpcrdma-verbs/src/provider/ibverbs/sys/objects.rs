//! Objects of a device: regions, windows, completion queues, shared receive queues, queue pairs.
//!
//! Each object ends once. The end of a region, window or shared queue takes its lock, so that a
//! second thread waits. A refusal of the device is final, except for a region, whose end can be
//! repeated. If `end` reports a refusal, the caller must leak the memory. A comment at each
//! `AnyThread` states who ends the object, and which fields are accessed.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibverbs_sys as ibv;
use ibverbs_sys::{
    ibv_comp_channel, ibv_cq, ibv_mr, ibv_mw, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_state,
    ibv_srq, ibv_wc,
};

use super::device::{Context, ProtectionDomain, context_of};
use super::{AnyThread, Raw, last_error, returned};
use crate::provider::{Access, Cause, Result, Sge, VerbError};

/// The error cause if a provider of libibverbs does not implement a function.
const LACKING: Cause = Cause::Limit;

/// Converts access rights.
pub(super) fn flags(access: Access) -> u32 {
    let pairs = [
        (
            access.local_write,
            ibv::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE,
        ),
        (
            access.remote_read,
            ibv::ibv_access_flags::IBV_ACCESS_REMOTE_READ,
        ),
        (
            access.remote_write,
            ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE,
        ),
        (access.bind, ibv::ibv_access_flags::IBV_ACCESS_MW_BIND),
    ];
    pairs
        .iter()
        .filter(|(has, _)| *has)
        .fold(0, |all, (_, flag)| all | flag.0)
}

/// Registered memory.
#[derive(Debug)]
pub(in super::super) struct Region {
    raw: Raw<ibv_mr>,
    /// The keys. The structure that contains them is gone after the registration has ended.
    keys: (u32, u32),
    range: (u64, u64),
    /// True after the registration has ended. Locked while it ends.
    ended: Mutex<bool>,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: `Region` owns it, and ends it once under the lock of `ended`. The only other call with it
// is a bind, whose caller promises that the region exists. Its fields are read when it is created.
unsafe impl AnyThread for ibv_mr {}

/// The device's answer to the request to end an object; `None` before the request. Locked while the
/// object ends: a second thread waits, and gets the same answer.
type Answer = Mutex<Option<bool>>;

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // No panic can occur between two changes.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Region {
    /// Registers memory.
    ///
    /// # Safety
    /// The memory stays valid until [`Self::end`] has succeeded, or until the region is dropped and
    /// the context [has leaked nothing](Context::has_leaked).
    pub(in super::super) unsafe fn register(
        domain: &Arc<ProtectionDomain>,
        memory: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Self> {
        let access = c_int::try_from(flags(access)).unwrap_or(0);
        // SAFETY: the domain is kept, and the memory stays valid, as the caller promises. Its
        // address is exposed, because the device uses it.
        let raw = unsafe {
            memory.as_ptr().expose_provenance();
            ibv::ibv_reg_mr(
                domain.raw(),
                memory.as_ptr().cast::<c_void>(),
                length,
                access,
            )
        };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let error = last_error("ibv_reg_mr");
            // A failed allocation may not have set `errno`.
            tracing::warn!(%error, length, "memory can't be registered");
            error
        })?;
        // SAFETY: the structure exists, as the registration was just made, and does not change any
        // more.
        let (keys, address) = unsafe {
            (
                ((*raw.as_ptr()).lkey, (*raw.as_ptr()).rkey),
                (*raw.as_ptr()).addr.addr(),
            )
        };
        let range = (address as u64, length as u64);
        Ok(Self {
            raw: Raw(raw),
            keys,
            range,
            ended: Mutex::new(false),
            domain: domain.clone(),
        })
    }

    pub(super) fn raw(&self) -> *mut ibv_mr {
        self.raw.as_ptr()
    }

    pub(in super::super) fn local_key(&self) -> u32 {
        self.keys.0
    }

    pub(in super::super) fn remote_key(&self) -> u32 {
        self.keys.1
    }

    /// Returns true if the region contains all bytes of an entry.
    pub(in super::super) fn holds(&self, slice: &Sge) -> bool {
        let (from, length) = self.range;
        let end = slice.address.checked_add(slice.length.into());
        slice.address >= from && end.is_some_and(|end| end <= from + length)
    }

    /// Ends the registration. It fails if the device refuses: soft-RoCE does while a window is
    /// bound to the region.
    pub(in super::super) fn end(&self) -> std::result::Result<(), c_int> {
        let mut ended = lock(&self.ended);
        if *ended {
            return Ok(());
        }
        // SAFETY: it is registered, and after a success it is not passed to the library again:
        // `ended`, which is locked, prevents it.
        let code = unsafe { ibv::ibv_dereg_mr(self.raw()) };
        if code != 0 && !self.domain.context().is_gone(code) {
            return Err(code);
        }
        *ended = true;
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Err(code) = self.end() {
            self.domain.context().note_leaked("ibv_dereg_mr", code);
        }
    }
}

/// A memory window of type 2.
#[derive(Debug)]
pub(in super::super) struct Window {
    raw: Raw<ibv_mw>,
    /// The key with which it was created.
    key: u32,
    ended: Answer,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: `Window` owns it, and ends it once under the lock of `ended`. The other uses are a bind
// and the change of its key: their callers promise that it exists, and that nothing else uses it at
// the same time.
unsafe impl AnyThread for ibv_mw {}

impl Window {
    pub(in super::super) fn new(domain: &Arc<ProtectionDomain>) -> Result<Self> {
        // SAFETY: the domain is kept, and so is its context.
        let raw = unsafe {
            let Some(alloc) = (*domain.context().raw()).ops.alloc_mw else {
                return Err(VerbError {
                    verb: "ibv_alloc_mw",
                    cause: LACKING,
                });
            };
            alloc(domain.raw(), ibv::IBV_MW_TYPE_2)
        };
        let raw = NonNull::new(raw).ok_or_else(|| last_error("ibv_alloc_mw"))?;
        Ok(Self {
            // SAFETY: the structure exists, as the window was made just now.
            key: unsafe { (*raw.as_ptr()).rkey },
            raw: Raw(raw),
            ended: Mutex::new(None),
            domain: domain.clone(),
        })
    }

    pub(super) fn raw(&self) -> *mut ibv_mw {
        self.raw.as_ptr()
    }

    /// Returns the key with which it was created.
    pub(in super::super) fn key(&self) -> u32 {
        self.key
    }

    /// Ends the window, which must not be used afterwards. Returns true if it gives no access any
    /// more.
    pub(in super::super) fn end(&self) -> bool {
        let mut answer = lock(&self.ended);
        if let Some(ended) = *answer {
            return ended;
        }
        let context = self.domain.context();
        let missing = rustix::io::Errno::NOSYS.raw_os_error();
        // SAFETY: the window exists, and is ended once, which `ended` ensures under its lock; its
        // domain keeps its context.
        let code = unsafe {
            (*context.raw())
                .ops
                .dealloc_mw
                .map_or(missing, |dealloc| dealloc(self.raw()))
        };
        let ended = code == 0 || context.is_gone(code);
        if !ended {
            // Its queue pair may still end, and so end the access. Its region may also end it, but
            // cannot while the window is bound.
            tracing::error!(code, "ibv_dealloc_mw has failed");
        }
        *answer = Some(ended);
        ended
    }

    /// Sets the key of the last bind, which the next bind passes to the device.
    ///
    /// # Safety
    /// The window has not ended, and no other thread binds or ends it or sets its key at the same
    /// time.
    pub(in super::super) unsafe fn set_key(&self, key: u32) {
        // SAFETY: the structure exists until the window ends, and nothing else accesses the field,
        // as the caller promises.
        unsafe { (*self.raw()).rkey = key };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.end();
    }
}

/// A completion queue with its own channel.
#[derive(Debug)]
pub(in super::super) struct CompletionQueue {
    raw: Raw<ibv_cq>,
    channel: Raw<ibv_comp_channel>,
    /// The number of events that were taken and not yet acknowledged.
    taken: AtomicU32,
    context: Arc<Context>,
}

// SAFETY: libibverbs(3), as for the context. `CompletionQueue` owns it, and its queue pairs have an
// `Arc` of the `CompletionQueue`, so that it is destroyed once, by the last owner. Its fields are
// accessed only by the reader of an event of it (`Context::read_event`).
unsafe impl AnyThread for ibv_cq {}

// SAFETY: as for the queue, which is its only one. Its descriptor does not change.
unsafe impl AnyThread for ibv_comp_channel {}

/// A completion of the device.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RawCompletion {
    pub(in super::super) id: u64,
    pub(in super::super) pair: u32,
    /// The status, and the vendor's status.
    pub(in super::super) status: (u32, u32),
    pub(in super::super) bytes: u32,
    pub(in super::super) flags: u32,
    /// The key that was invalidated, if the flags indicate one.
    pub(in super::super) key: u32,
}

impl CompletionQueue {
    /// Creates a buffer for completions.
    pub(in super::super) fn wc_buffer(count: usize) -> Vec<ibv_wc> {
        // SAFETY: the structure is of numbers alone, of which any are valid.
        (0..count)
            .map(|_| unsafe { MaybeUninit::zeroed().assume_init() })
            .collect()
    }

    /// Creates a queue. Asynchronous events return `number`.
    pub(in super::super) fn new(context: &Arc<Context>, entries: u32, number: u32) -> Result<Self> {
        // SAFETY: the context is open, and is kept open.
        let channel = unsafe { ibv::ibv_create_comp_channel(context.raw()) };
        let channel = NonNull::new(channel).ok_or_else(|| last_error("ibv_create_comp_channel"))?;
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        let own = context_of(number);
        // SAFETY: context and channel exist as long as the queue.
        let raw = unsafe { ibv::ibv_create_cq(context.raw(), entries, own, channel.as_ptr(), 0) };
        let Some(raw) = NonNull::new(raw) else {
            let error = last_error("ibv_create_cq");
            // SAFETY: no queue was made with it.
            unsafe { ibv::ibv_destroy_comp_channel(channel.as_ptr()) };
            return Err(error);
        };
        let queue = Self {
            raw: Raw(raw),
            channel: Raw(channel),
            taken: AtomicU32::new(0),
            context: context.clone(),
        };
        rustix::io::ioctl_fionbio(queue.descriptor(), true)
            .map_err(|error| super::explained("ibv_create_comp_channel", error.into()))?;
        Ok(queue)
    }

    /// Takes as many completions as fit.
    pub(in super::super) fn poll(&self, places: &mut [ibv_wc]) -> Result<usize> {
        let most = c_int::try_from(places.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue and its context exist, and there is room for as many as are
        // requested.
        let count = unsafe {
            let Some(poll) = (*self.context.raw()).ops.poll_cq else {
                return Err(VerbError {
                    verb: "ibv_poll_cq",
                    cause: LACKING,
                });
            };
            poll(self.raw.as_ptr(), most, places.as_mut_ptr())
        };
        usize::try_from(count).map_err(|_| last_error("ibv_poll_cq"))
    }

    /// Converts a completion.
    pub(in super::super) fn raw_completion(place: &ibv_wc) -> RawCompletion {
        RawCompletion {
            id: place.wr_id(),
            pair: place.qp_num,
            status: place.error().unwrap_or_default(),
            bytes: u32::try_from(place.len()).unwrap_or(u32::MAX),
            flags: place.wc_flags.0,
            key: place.imm_data,
        }
    }

    /// Requests an event at the next completion.
    pub(in super::super) fn arm(&self) -> Result<()> {
        // SAFETY: the queue and its context exist.
        let code = unsafe {
            let Some(request) = (*self.context.raw()).ops.req_notify_cq else {
                return Err(VerbError {
                    verb: "ibv_req_notify_cq",
                    cause: LACKING,
                });
            };
            request(self.raw.as_ptr(), 0)
        };
        returned("ibv_req_notify_cq", code)
    }

    /// Takes an event. Returns false if there is none.
    pub(in super::super) fn take_event(&self) -> bool {
        let (mut queue, mut context) = (null_mut(), null_mut());
        // SAFETY: the channel exists, its descriptor does not block, and this is its only queue.
        let code = unsafe {
            ibv::ibv_get_cq_event(self.channel.as_ptr(), &raw mut queue, &raw mut context)
        };
        if code != 0 {
            return false;
        }
        // Acknowledging takes a lock, so many events are acknowledged at once.
        if self.taken.fetch_add(1, Ordering::Relaxed) >= 63 {
            self.acknowledge();
        }
        true
    }

    fn acknowledge(&self) {
        let taken = self.taken.swap(0, Ordering::Relaxed);
        // SAFETY: this number of events of the queue was taken, and nothing else acknowledges them.
        unsafe { ibv::ibv_ack_cq_events(self.raw.as_ptr(), taken) };
    }

    pub(in super::super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel is, which is borrowed with the
        // queue.
        unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // The destruction would wait for unacknowledged events.
        self.acknowledge();
        // SAFETY: queue pairs keep their queue alive, so none is left; then the channel has no
        // queue.
        unsafe {
            let code = ibv::ibv_destroy_cq(self.raw.as_ptr());
            if code != 0 {
                tracing::error!(code, "ibv_destroy_cq has failed");
            }
            ibv::ibv_destroy_comp_channel(self.channel.as_ptr());
        }
    }
}

/// A shared receive queue.
#[derive(Debug)]
pub(in super::super) struct SharedReceives {
    raw: Raw<ibv_srq>,
    /// Also locked while receives are posted, or while a queue pair is created that uses it.
    ended: Answer,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs(3), as for the context. `SharedReceives` owns it, and its queue pairs have an
// `Arc` of the `SharedReceives`. It is ended once, under the lock of `ended`, and every other call
// with it is made under this lock before its end. None of its fields is accessed.
unsafe impl AnyThread for ibv_srq {}

/// A shared receive queue that cannot end while this value exists.
pub(super) struct UsableSrq<'a> {
    queue: &'a SharedReceives,
    _ended: MutexGuard<'a, Option<bool>>,
}

impl UsableSrq<'_> {
    pub(super) fn raw(&self) -> *mut ibv_srq {
        self.queue.raw.as_ptr()
    }
}

impl SharedReceives {
    pub(in super::super) fn new(
        domain: &Arc<ProtectionDomain>,
        entries: u32,
        slices: u32,
    ) -> Result<Self> {
        let mut wanted = ibv::ibv_srq_init_attr {
            srq_context: null_mut(),
            attr: ibv::ibv_srq_attr {
                max_wr: entries,
                max_sge: slices,
                srq_limit: 0,
            },
        };
        // SAFETY: the domain is kept, and the function reads and writes the structure alone.
        let raw = unsafe { ibv::ibv_create_srq(domain.raw(), &raw mut wanted) };
        let raw = NonNull::new(raw).ok_or_else(|| last_error("ibv_create_srq"))?;
        Ok(Self {
            raw: Raw(raw),
            ended: Mutex::new(None),
            domain: domain.clone(),
        })
    }

    pub(super) fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// Returns true if it has ended, or if the device has refused to end it.
    pub(in super::super) fn has_ended(&self) -> bool {
        lock(&self.ended).is_some()
    }

    /// Prevents its end. Returns `None` if it has ended, or if the device has refused to end it.
    pub(super) fn usable(&self) -> Option<UsableSrq<'_>> {
        let ended = lock(&self.ended);
        ended.is_none().then_some(UsableSrq {
            queue: self,
            _ended: ended,
        })
    }

    /// Ends the queue. Returns true if nothing accesses the posted memory any more. Nothing may be
    /// posted afterwards. The device refuses while the queue is used by a queue pair that could not
    /// be ended.
    pub(in super::super) fn end(&self) -> bool {
        let mut answer = lock(&self.ended);
        if let Some(ended) = *answer {
            return ended;
        }
        // SAFETY: it exists, and is ended once, which `ended` ensures under its lock. Ended queue
        // pairs do not use it, and the device refuses while others do.
        let code = unsafe { ibv::ibv_destroy_srq(self.raw.as_ptr()) };
        let ended = code == 0 || self.domain.context().is_gone(code);
        if !ended {
            self.domain.context().note_leaked("ibv_destroy_srq", code);
        }
        *answer = Some(ended);
        ended
    }
}

impl Drop for SharedReceives {
    fn drop(&mut self) {
        self.end();
    }
}

/// The sizes of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct QueuePairSizes {
    pub(in super::super) sends: u32,
    pub(in super::super) receives: u32,
    pub(in super::super) slices: u32,
    pub(in super::super) inline: u32,
}

/// A queue pair of a reliable connection.
#[derive(Debug)]
pub(in super::super) struct QueuePair {
    raw: Raw<ibv_qp>,
    /// The answer of the device to the request to end it; `None` before it was made.
    ended: Option<bool>,
    domain: Arc<ProtectionDomain>,
    _queue: Arc<CompletionQueue>,
    _shared: Option<Arc<SharedReceives>>,
}

// SAFETY: libibverbs(3), as for the context. `QueuePair` owns it, and destroys it once, when no
// other reference can exist: `end` takes it by value, and `drop` has the last reference. Its number
// and its context do not change; no other field is accessed.
unsafe impl AnyThread for ibv_qp {}

impl QueuePair {
    /// Creates a queue pair. Asynchronous events return `number`.
    pub(in super::super) fn new(
        domain: &Arc<ProtectionDomain>,
        queue: &Arc<CompletionQueue>,
        shared: Option<&Arc<SharedReceives>>,
        sizes: &QueuePairSizes,
        number: u32,
    ) -> Result<Self> {
        let ended = || VerbError {
            verb: "ibv_create_qp",
            cause: Cause::State,
        };
        let usable = shared.map(|shared| shared.usable().ok_or_else(ended));
        let usable = usable.transpose()?;
        let own = if shared.is_some() { 0 } else { 1 };
        let mut wanted = ibv::ibv_qp_init_attr {
            qp_context: context_of(number),
            send_cq: queue.raw.as_ptr(),
            recv_cq: queue.raw.as_ptr(),
            srq: usable.as_ref().map_or(null_mut(), UsableSrq::raw),
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
        // SAFETY: domain, queue and shared queue are kept, the shared queue does not end during the
        // call, and the function reads and writes only the structure.
        let raw = unsafe { ibv::ibv_create_qp(domain.raw(), &raw mut wanted) };
        let raw = NonNull::new(raw).ok_or_else(|| last_error("ibv_create_qp"))?;
        let (queue, shared) = (queue.clone(), shared.cloned());
        Ok(Self {
            raw: Raw(raw),
            ended: None,
            domain: domain.clone(),
            _queue: queue,
            _shared: shared,
        })
    }

    pub(super) fn raw(&self) -> *mut ibv_qp {
        self.raw.as_ptr()
    }

    pub(super) fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    pub(in super::super) fn number(&self) -> u32 {
        // SAFETY: the structure exists until the queue pair ends, which needs exclusive access, and
        // its number does not change.
        unsafe { (*self.raw()).qp_num }
    }

    pub(in super::super) fn modify(&self, attributes: &mut ibv_qp_attr, mask: u32) -> Result<()> {
        let mask = c_int::try_from(mask).unwrap_or(0);
        // SAFETY: the queue pair exists, and the function reads the structure.
        returned("ibv_modify_qp", unsafe {
            ibv::ibv_modify_qp(self.raw(), attributes, mask)
        })
    }

    /// Moves to the error state, in which posted requests are flushed, and no messages arrive.
    /// Returns true on success.
    pub(in super::super) fn fail(&self) -> bool {
        let mut attributes = ibv_qp_attr {
            qp_state: ibv_qp_state::IBV_QPS_ERR,
            ..Default::default()
        };
        let failed = self.modify(&mut attributes, ibv_qp_attr_mask::IBV_QP_STATE.0);
        if let Err(error) = &failed {
            // The destruction that follows does the same.
            tracing::debug!(%error, "to the error state");
        }
        failed.is_ok()
    }

    /// Destroys the queue pair. Returns true if nothing accesses the posted memory any more.
    pub(in super::super) fn end(mut self) -> bool {
        self.destroy()
    }

    fn destroy(&mut self) -> bool {
        if let Some(ended) = self.ended {
            return ended;
        }
        // SAFETY: the queue pair exists, and is destroyed once, as `ended` says.
        let code = unsafe { ibv::ibv_destroy_qp(self.raw()) };
        let ended = code == 0 || self.domain.context().is_gone(code) || self.is_reset(code);
        if !ended {
            self.domain.context().note_leaked("ibv_destroy_qp", code);
        }
        self.ended = Some(ended);
        ended
    }

    /// Returns true if the queue pair is in the reset state, in which no posted request is left
    /// either.
    fn is_reset(&self, code: c_int) -> bool {
        let mut attributes = ibv_qp_attr {
            qp_state: ibv_qp_state::IBV_QPS_RESET,
            ..Default::default()
        };
        let reset = self
            .modify(&mut attributes, ibv_qp_attr_mask::IBV_QP_STATE.0)
            .is_ok();
        if reset {
            tracing::error!(
                code,
                "ibv_destroy_qp has failed: a queue pair is left in its reset state"
            );
        }
        reset
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.destroy();
    }
}
