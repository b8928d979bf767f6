//! Devices, with their protection domains and asynchronous events.
//!
//! `device_state` has the order of locks, in which `Context::pending_events` is the last.

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibverbs_sys as ibv;
use ibverbs_sys::{
    ibv_async_event, ibv_context, ibv_device, ibv_device_attr, ibv_gid_entry, ibv_pd, ibv_port_attr,
};

use super::{AnyThread, Raw, last_error, returned};
use crate::provider::{Cause, Result};

/// The list of devices.
pub(in super::super) struct Devices {
    list: Option<NonNull<*mut ibv_device>>,
    count: usize,
}

/// An entry of the list.
#[derive(Clone, Copy)]
pub(in super::super) struct DeviceEntry<'l> {
    raw: *mut ibv_device,
    list: PhantomData<&'l Devices>,
}

impl Devices {
    pub(in super::super) fn list() -> Result<Self> {
        let mut count = 0;
        // SAFETY: the function writes only the number, and this value owns its list until `drop`.
        let list = NonNull::new(unsafe { ibv::ibv_get_device_list(&raw mut count) });
        let error = last_error("ibv_get_device_list");
        // A kernel without the module ib_uverbs has no devices.
        if list.is_none() && !is_missing(&error) {
            return Err(error);
        }
        Ok(Self {
            list,
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    pub(in super::super) fn iter(&self) -> impl Iterator<Item = DeviceEntry<'_>> {
        let count = if self.list.is_some() { self.count } else { 0 };
        (0..count).filter_map(move |at| {
            // SAFETY: the list has `count` entries, and lives as long as `self`.
            let raw = unsafe { *self.list?.as_ptr().add(at) };
            Some(DeviceEntry {
                raw,
                list: PhantomData,
            })
        })
    }
}

/// Returns true if the system has no RDMA support at all. The list of devices is empty then, and no
/// error: `IbvDevice::open` needs it for `Cause::NoDevice`.
fn is_missing(error: &crate::provider::VerbError) -> bool {
    let system = match &error.cause {
        Cause::System(error) | Cause::Hinted(error, _) => Some(error),
        _ => None,
    };
    let codes = [
        rustix::io::Errno::NOSYS,
        rustix::io::Errno::NOENT,
        rustix::io::Errno::NODEV,
    ];
    system
        .and_then(rustix::io::Errno::from_io_error)
        .is_some_and(|errno| codes.contains(&errno))
}

impl Drop for Devices {
    fn drop(&mut self) {
        if let Some(list) = self.list {
            // SAFETY: it came from `ibv_get_device_list`, and nothing of it is used any more:
            // `DeviceEntry` borrows `self`.
            unsafe { ibv::ibv_free_device_list(list.as_ptr()) };
        }
    }
}

/// Converts a C string in an array that may be full.
fn text(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array
        .iter()
        .map(|byte| byte.to_ne_bytes()[0])
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl DeviceEntry<'_> {
    pub(in super::super) fn name(&self) -> String {
        // SAFETY: the device is of a list that lives, and its name is a string of C.
        let name = unsafe { CStr::from_ptr(ibv::ibv_get_device_name(self.raw)) };
        name.to_string_lossy().into_owned()
    }

    pub(in super::super) fn is_iwarp(&self) -> bool {
        // SAFETY: the device is of a list that lives.
        unsafe { (*self.raw).transport_type == ibv::IBV_TRANSPORT_IWARP }
    }

    pub(in super::super) fn open(&self) -> Result<Arc<Context>> {
        // SAFETY: the device is of a list that lives; what is opened lives on without it.
        let raw = NonNull::new(unsafe { ibv::ibv_open_device(self.raw) })
            .ok_or_else(|| last_error("ibv_open_device"))?;
        let context = Context {
            raw: Raw(raw),
            fatal: AtomicBool::new(false),
            leaked: AtomicBool::new(false),
            pending_events: Mutex::default(),
            has_pending: AtomicBool::new(false),
        };
        rustix::io::ioctl_fionbio(context.descriptor(), true)
            .map_err(|error| super::explained("ibv_open_device", error.into()))?;
        Ok(Arc::new(context))
    }
}

/// An open device.
#[derive(Debug)]
pub(in super::super) struct Context {
    raw: Raw<ibv_context>,
    /// True if the device has reported a fatal failure.
    fatal: AtomicBool,
    /// True if the device has refused to end an object, so that it may still access its memory.
    leaked: AtomicBool,
    /// Events that were read but not polled yet. The lock is held while events are read, so that
    /// its holder knows the content of every event that was read.
    pending_events: Mutex<VecDeque<AsyncEvent>>,
    /// False if `pending_events` is empty. Checking this is cheaper than the lock.
    has_pending: AtomicBool,
}

// SAFETY: libibverbs(3): several threads may call all verbs at the same time. `Context` opens and
// closes the device. Its dependent objects have an `Arc` of it, so that it is closed once, by the
// last owner. Its fields do not change while it is open: the table of functions, and the
// descriptor.
unsafe impl AnyThread for ibv_context {}

// SAFETY: as for the context: `ProtectionDomain` owns it, and the objects in it have an `Arc` of
// it. None of its fields is accessed.
unsafe impl AnyThread for ibv_pd {}

/// Returns true if the failure to end an object proves that the device can access nothing any more:
/// the device does not exist, or has reported a fatal failure. EIO alone proves nothing: the kernel
/// returns it if the device is gone, but also if a command of a working device has failed.
fn proves_gone(code: c_int, fatal: bool) -> bool {
    fatal || code.abs() == rustix::io::Errno::NODEV.raw_os_error()
}

/// An asynchronous event of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum AsyncEvent {
    /// A completion queue has failed. The events of queues and queue pairs contain the number that
    /// `DeviceState` assigned to the object, not that of the device.
    QueueFailed(u32),
    /// A queue pair has failed.
    PairFailed(u32),
    /// A message has arrived on a queue pair before its connection was established.
    MessageBeforeEstablished(u32),
    /// All receives that a queue pair has taken from a shared queue are done.
    Drained(u32),
    /// The device has failed.
    Fatal,
    /// Another event, with its type.
    Other(u32),
}

/// Converts a number to the context of an object, which its asynchronous events return.
pub(super) fn context_of(number: u32) -> *mut c_void {
    std::ptr::without_provenance_mut(number as usize)
}

fn number_of(context: *mut c_void) -> u32 {
    u32::try_from(context.addr()).unwrap_or(0)
}

impl Context {
    pub(super) fn raw(&self) -> *mut ibv_context {
        self.raw.as_ptr()
    }

    pub(in super::super) fn attributes(&self) -> Result<ibv_device_attr> {
        let mut attributes = ibv_device_attr::default();
        // SAFETY: the context is open, and the function fills the structure.
        returned("ibv_query_device", unsafe {
            ibv::ibv_query_device(self.raw(), &raw mut attributes)
        })?;
        Ok(attributes)
    }

    pub(in super::super) fn firmware(attributes: &ibv_device_attr) -> String {
        text(&attributes.fw_ver)
    }

    pub(in super::super) fn port(&self, number: u8) -> Result<ibv_port_attr> {
        let mut attributes = ibv_port_attr::default();
        // SAFETY: the context is open. The function fills an older form of the structure, which is
        // a prefix of the present one; the rest stays zero.
        let code = unsafe { ibv::ibv_query_port(self.raw(), number, (&raw mut attributes).cast()) };
        returned("ibv_query_port", code)?;
        Ok(attributes)
    }

    /// Returns the GIDs of all ports, except empty ones.
    pub(in super::super) fn gids(&self, most: usize) -> Vec<ibv_gid_entry> {
        let mut entries = vec![ibv_gid_entry::default(); most];
        // SAFETY: the context is open, and the table has room for `most` entries of this size.
        let count = unsafe {
            ibv::_ibv_query_gid_table(
                self.raw(),
                entries.as_mut_ptr(),
                most,
                0,
                size_of::<ibv_gid_entry>(),
            )
        };
        entries.truncate(usize::try_from(count).unwrap_or(0));
        entries
    }

    /// Returns the bytes of a GID.
    pub(in super::super) fn bytes(gid: &ibv::ibv_gid) -> [u8; 16] {
        // SAFETY: both fields of the union have sixteen bytes.
        unsafe { gid.raw }
    }

    /// Returns the descriptor that becomes readable when the device has an event.
    pub(in super::super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the context is, which is borrowed.
        unsafe { BorrowedFd::borrow_raw((*self.raw()).async_fd) }
    }

    fn lock_events(&self) -> MutexGuard<'_, VecDeque<AsyncEvent>> {
        self.pending_events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next event of the device.
    pub(in super::super) fn event(&self) -> Option<AsyncEvent> {
        let mut events = self.lock_events();
        let event = events.pop_front();
        self.has_pending
            .store(!events.is_empty(), Ordering::Release);
        // Still locked.
        event.or_else(|| self.read_event())
    }

    /// Returns true if ending an object has read events that were not polled yet. The descriptor
    /// does not show them.
    pub(in super::super) fn has_pending_events(&self) -> bool {
        self.has_pending.load(Ordering::Acquire)
    }

    /// Returns true if the device can access nothing any more, after a verb that ends an object has
    /// failed with this code.
    pub(super) fn is_gone(&self, code: c_int) -> bool {
        // Some verbs set `errno` instead.
        let code = if code == -1 {
            io::Error::last_os_error().raw_os_error().unwrap_or(code)
        } else {
            code
        };
        // The device may already have reported the failure, and another thread may be reading the
        // event.
        let mut events = self.lock_events();
        while let Some(event) = self.read_event() {
            events.push_back(event);
        }
        self.has_pending
            .store(!events.is_empty(), Ordering::Release);
        proves_gone(code, self.fatal.load(Ordering::Acquire))
    }

    /// Records that an object could not be ended, so that its memory must be leaked.
    pub(super) fn note_leaked(&self, verb: &'static str, code: c_int) {
        let error = io::Error::from_raw_os_error(code.abs());
        tracing::error!(verb, %error, "a device may still access memory, which is leaked");
        self.leaked.store(true, Ordering::Release);
    }

    /// Returns true if the device may still access memory of an ended object.
    pub(in super::super) fn has_leaked(&self) -> bool {
        self.leaked.load(Ordering::Acquire)
    }

    /// Reads and acknowledges an event. In between it takes no further lock; the caller holds only
    /// `pending_events` (lock 7 in `device_state`). A thread that destroys the object of the event
    /// waits for the acknowledgement.
    fn read_event(&self) -> Option<AsyncEvent> {
        let mut event = ibv_async_event::default();
        // SAFETY: the context is open, and the function fills the structure. The descriptor does
        // not block. Each event is returned once.
        if unsafe { ibv::ibv_get_async_event(self.raw(), &raw mut event) } != 0 {
            return None;
        }
        // SAFETY: an event about a queue pair names one that exists: its destruction, by any
        // thread, waits for unacknowledged events, and discards unread ones. The field does not
        // change.
        let pair = || number_of(unsafe { (*event.element.qp).qp_context });
        let converted = match event.event_type {
            // SAFETY: as for queue pairs.
            ibv::IBV_EVENT_CQ_ERR => {
                AsyncEvent::QueueFailed(number_of(unsafe { (*event.element.cq).cq_context }))
            }
            ibv::IBV_EVENT_QP_FATAL | ibv::IBV_EVENT_QP_REQ_ERR | ibv::IBV_EVENT_QP_ACCESS_ERR => {
                AsyncEvent::PairFailed(pair())
            }
            ibv::IBV_EVENT_COMM_EST => AsyncEvent::MessageBeforeEstablished(pair()),
            ibv::IBV_EVENT_QP_LAST_WQE_REACHED => AsyncEvent::Drained(pair()),
            ibv::IBV_EVENT_DEVICE_FATAL => {
                self.fatal.store(true, Ordering::Release);
                AsyncEvent::Fatal
            }
            other => AsyncEvent::Other(other),
        };
        // SAFETY: it was taken just now, and is acknowledged once.
        unsafe { ibv::ibv_ack_async_event(&raw mut event) };
        Some(converted)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: what was made of it keeps it alive, so nothing is left.
        unsafe { ibv::ibv_close_device(self.raw()) };
    }
}

/// A protection domain.
#[derive(Debug)]
pub(in super::super) struct ProtectionDomain {
    raw: Raw<ibv_pd>,
    context: Arc<Context>,
}

impl ProtectionDomain {
    pub(in super::super) fn new(context: &Arc<Context>) -> Result<Arc<Self>> {
        // SAFETY: the context is open, and is kept open.
        let raw = NonNull::new(unsafe { ibv::ibv_alloc_pd(context.raw()) })
            .ok_or_else(|| last_error("ibv_alloc_pd"))?;
        Ok(Arc::new(Self {
            raw: Raw(raw),
            context: context.clone(),
        }))
    }

    pub(super) fn raw(&self) -> *mut ibv_pd {
        self.raw.as_ptr()
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: what was made in it keeps it alive, so nothing is left.
        unsafe { ibv::ibv_dealloc_pd(self.raw()) };
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn eio_alone_does_not_prove_a_removed_device() {
        let codes = [
            Errno::IO,
            Errno::BUSY,
            Errno::INVAL,
            Errno::NOMEM,
            Errno::TIMEDOUT,
            Errno::AGAIN,
            Errno::NXIO,
        ];
        for code in codes.map(Errno::raw_os_error) {
            // A firmware command that fails also returns EIO.
            assert!(
                !proves_gone(code, false) && !proves_gone(-code, false),
                "{code}"
            );
            assert!(
                proves_gone(code, true) && proves_gone(-code, true),
                "{code}, after the device's own event"
            );
        }
        let gone = Errno::NODEV.raw_os_error();
        assert!(proves_gone(gone, false) && proves_gone(-gone, false));
    }
}
