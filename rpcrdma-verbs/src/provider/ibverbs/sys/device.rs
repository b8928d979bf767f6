//! Devices, and what belongs to one as a whole.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::rc::Rc;

use ibverbs_sys as ibv;
use ibverbs_sys::{ibv_async_event, ibv_context, ibv_device, ibv_device_attr, ibv_gid_entry, ibv_pd, ibv_port_attr};

use super::{last, returned};
use crate::provider::Result;

/// The devices that there are.
pub(in super::super) struct Devices {
    list: Option<NonNull<*mut ibv_device>>,
    count: usize,
}

/// One of them.
#[derive(Clone, Copy)]
pub(in super::super) struct Listed<'l> {
    raw: *mut ibv_device,
    list: PhantomData<&'l Devices>,
}

impl Devices {
    pub(in super::super) fn list() -> Result<Self> {
        let mut count = 0;
        // SAFETY: the function writes the number alone, and its list is ours until `drop`.
        let list = NonNull::new(unsafe { ibv::ibv_get_device_list(&raw mut count) });
        let error = last("ibv_get_device_list");
        // A kernel without the module ib_uverbs has no devices.
        if list.is_none() && !is_missing(&error) {
            return Err(error);
        }
        Ok(Self { list, count: usize::try_from(count).unwrap_or(0) })
    }

    pub(in super::super) fn iter(&self) -> impl Iterator<Item = Listed<'_>> {
        let count = if self.list.is_some() { self.count } else { 0 };
        (0..count).filter_map(move |at| {
            // SAFETY: the list has `count` entries, and lives as long as `self`.
            let raw = unsafe { *self.list?.as_ptr().add(at) };
            Some(Listed { raw, list: PhantomData })
        })
    }
}

/// Whether nothing of RDMA is there at all.
fn is_missing(error: &crate::provider::VerbError) -> bool {
    use std::error::Error as _;
    let system = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    let codes = [rustix::io::Errno::NOSYS, rustix::io::Errno::NOENT, rustix::io::Errno::NODEV];
    system.and_then(rustix::io::Errno::from_io_error).is_some_and(|errno| codes.contains(&errno))
}

impl Drop for Devices {
    fn drop(&mut self) {
        if let Some(list) = self.list {
            // SAFETY: it came from `ibv_get_device_list`, and nothing of it is used any more: `Listed` borrows `self`.
            unsafe { ibv::ibv_free_device_list(list.as_ptr()) };
        }
    }
}

/// A string of C, in an array that may be full.
fn text(array: &[c_char]) -> String {
    let octets: Vec<u8> = array.iter().map(|octet| octet.to_ne_bytes()[0]).take_while(|octet| *octet != 0).collect();
    String::from_utf8_lossy(&octets).into_owned()
}

impl Listed<'_> {
    pub(in super::super) fn name(&self) -> String {
        // SAFETY: the device is of a list that lives, and its name is a string of C.
        let name = unsafe { CStr::from_ptr(ibv::ibv_get_device_name(self.raw)) };
        name.to_string_lossy().into_owned()
    }

    pub(in super::super) fn is_iwarp(&self) -> bool {
        // SAFETY: the device is of a list that lives.
        unsafe { (*self.raw).transport_type == ibv::IBV_TRANSPORT_IWARP }
    }

    pub(in super::super) fn open(&self) -> Result<Rc<Context>> {
        // SAFETY: the device is of a list that lives; what is opened lives on without it.
        let raw = NonNull::new(unsafe { ibv::ibv_open_device(self.raw) }).ok_or_else(|| last("ibv_open_device"))?;
        let context = Context { raw };
        rustix::io::ioctl_fionbio(context.descriptor(), true)
            .map_err(|error| super::explained("ibv_open_device", error.into()))?;
        Ok(Rc::new(context))
    }
}

/// An open device.
#[derive(Debug)]
pub(in super::super) struct Context {
    raw: NonNull<ibv_context>,
}

/// What a device tells by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum AsyncEvent {
    /// A completion queue has failed: its address.
    Queue(usize),
    /// A queue pair has failed: its number.
    Failed(u32),
    /// A message has come on a queue pair before the news of its connection.
    Connected(u32),
    /// All receives that a queue pair has taken from a shared queue are done.
    Drained(u32),
    /// The device has failed.
    Fatal,
    /// Something else, by libibverbs' number.
    Other(u32),
}

impl Context {
    pub(super) fn raw(&self) -> *mut ibv_context {
        self.raw.as_ptr()
    }

    pub(in super::super) fn attributes(&self) -> Result<ibv_device_attr> {
        let mut attributes = ibv_device_attr::default();
        // SAFETY: the context is open, and the function fills the structure.
        returned("ibv_query_device", unsafe { ibv::ibv_query_device(self.raw(), &raw mut attributes) })?;
        Ok(attributes)
    }

    pub(in super::super) fn firmware(attributes: &ibv_device_attr) -> String {
        text(&attributes.fw_ver)
    }

    pub(in super::super) fn port(&self, number: u8) -> Result<ibv_port_attr> {
        let mut attributes = ibv_port_attr::default();
        // SAFETY: the context is open. The function fills an older form of the structure, which the present one begins with;
        // the rest stays zero.
        let code = unsafe { ibv::ibv_query_port(self.raw(), number, (&raw mut attributes).cast()) };
        returned("ibv_query_port", code)?;
        Ok(attributes)
    }

    /// The GIDs of all ports, but for the empty ones.
    pub(in super::super) fn gids(&self, most: usize) -> Vec<ibv_gid_entry> {
        let mut entries = vec![ibv_gid_entry::default(); most];
        // SAFETY: the context is open, and the table has room for `most` entries of this size.
        let count =
            unsafe { ibv::_ibv_query_gid_table(self.raw(), entries.as_mut_ptr(), most, 0, size_of::<ibv_gid_entry>()) };
        entries.truncate(usize::try_from(count).unwrap_or(0));
        entries
    }

    /// The octets of a GID.
    pub(in super::super) fn octets(gid: &ibv::ibv_gid) -> [u8; 16] {
        // SAFETY: both fields of the union are sixteen octets.
        unsafe { gid.raw }
    }

    /// Becomes readable when the device has something to tell.
    pub(in super::super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the context is, which is borrowed.
        unsafe { BorrowedFd::borrow_raw((*self.raw()).async_fd) }
    }

    /// What the device has to tell next.
    pub(in super::super) fn event(&self) -> Option<AsyncEvent> {
        let mut event = ibv_async_event::default();
        // SAFETY: the context is open, and the function fills the structure. The descriptor does not block.
        if unsafe { ibv::ibv_get_async_event(self.raw(), &raw mut event) } != 0 {
            return None;
        }
        // SAFETY: an event about a queue pair names one that exists: its destruction waits for what was not acknowledged, and
        // takes back what was not read.
        let pair = || unsafe { (*event.element.qp).qp_num };
        let told = match event.event_type {
            // SAFETY: the field that goes with this type; the pointer is not followed.
            ibv::IBV_EVENT_CQ_ERR => AsyncEvent::Queue(unsafe { event.element.cq }.addr()),
            ibv::IBV_EVENT_QP_FATAL | ibv::IBV_EVENT_QP_REQ_ERR | ibv::IBV_EVENT_QP_ACCESS_ERR => {
                AsyncEvent::Failed(pair())
            }
            ibv::IBV_EVENT_COMM_EST => AsyncEvent::Connected(pair()),
            ibv::IBV_EVENT_QP_LAST_WQE_REACHED => AsyncEvent::Drained(pair()),
            ibv::IBV_EVENT_DEVICE_FATAL => AsyncEvent::Fatal,
            other => AsyncEvent::Other(other),
        };
        // SAFETY: it was taken just now, and is acknowledged once.
        unsafe { ibv::ibv_ack_async_event(&raw mut event) };
        Some(told)
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
pub(in super::super) struct Domain {
    raw: NonNull<ibv_pd>,
    context: Rc<Context>,
}

impl Domain {
    pub(in super::super) fn new(context: &Rc<Context>) -> Result<Rc<Self>> {
        // SAFETY: the context is open, and is kept open.
        let raw = NonNull::new(unsafe { ibv::ibv_alloc_pd(context.raw()) }).ok_or_else(|| last("ibv_alloc_pd"))?;
        Ok(Rc::new(Self { raw, context: context.clone() }))
    }

    pub(super) fn raw(&self) -> *mut ibv_pd {
        self.raw.as_ptr()
    }

    pub(super) fn context(&self) -> &Rc<Context> {
        &self.context
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: what was made in it keeps it alive, so nothing is left.
        unsafe { ibv::ibv_dealloc_pd(self.raw()) };
    }
}
