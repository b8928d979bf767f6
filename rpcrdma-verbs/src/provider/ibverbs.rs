//! Real devices, through rdma-core (feature `ibverbs`): InfiniBand, RoCE and iWARP, by libibverbs and librdmacm.
//!
//! A device is opened by its name, with a protection domain and a descriptor of its own. It belongs to one thread, as all that is
//! made of it; other threads open it again. What it can do is tried out when it is opened, which takes about a millisecond:
//! two queue pairs are connected with each other, and a memory window is bound, reached and invalidated.
//!
//! Registered memory is locked: a process needs a limit of locked memory (`ulimit -l`) above its budget, or the capability
//! `CAP_IPC_LOCK`. After `fork` the child must not touch the device, nor memory that is registered.
//!
//! Where devices differ, this provider does the same with all:
//! - A queue pair that fails is destroyed at once, and what was posted to it is flushed here, each request once and in its order.
//! - A queue pair takes along the windows that were last bound on it, and a region those that are bound to it.
//! - A window that is not bound, as far as is known here, is not invalidated: soft-RoCE would bring down the whole machine.
//! - On iWARP a request waits for the RDMA Reads before it: requests are done in their order.
//! - A connection that ends is ended for both: a failed request hangs up, too.
//!
//! ```no_run
//! use rpcrdma_verbs::provider::Device;
//! use rpcrdma_verbs::provider::ibverbs::IbvDevice;
//!
//! let device = IbvDevice::open(None)?;
//! println!("{}: {:?}", device.name(), device.capabilities());
//! # Ok::<(), rpcrdma_verbs::provider::VerbError>(())
//! ```

mod connection;
mod hint;
mod hub;
mod ids;
mod info;
mod manager;
mod notices;
mod numbers;
mod outgoing;
mod pair;
mod probe;
mod queue;
mod ring;
mod shared;
mod status;
mod sys;
mod tables;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::rc::Rc;

use ibverbs_sys::ibv_port_state;

pub use connection::Request;
use hub::{Hub, Traits};
pub use info::{DeviceInfo, GidInfo, GidKind, Limits, PortInfo, Used, devices};
pub use manager::Manager;
use pair::Pair;
use queue::Queue;
use shared::Shared;
use sys::{Context, Devices, Domain, QueuePairSizes};

use super::{Access, Capabilities, Cause, Completion, Device, Receive, Result, Slice, VerbError, WorkRequest};

/// An open RDMA device. Clones are of the same.
#[derive(Clone)]
pub struct IbvDevice {
    hub: Rc<Hub>,
}

/// Memory that was registered with a device.
pub struct Region {
    hub: Rc<Hub>,
    region: Rc<sys::Region>,
}

/// A memory window of a device.
pub struct Window {
    hub: Rc<Hub>,
    number: u32,
    key: u32,
}

/// A completion queue of a device.
pub struct CompletionQueue {
    hub: Rc<Hub>,
    queue: Rc<Queue>,
    /// Polls in vain since the device was asked whether it has failed.
    idle: std::cell::Cell<u32>,
}

/// A receive queue of a device that several queue pairs share.
#[derive(Clone)]
pub struct SharedReceives {
    shared: Rc<Shared>,
}

/// A queue pair of a device.
pub struct QueuePair(Rc<Pair>);

/// Slices of a request that are used at most. Larger requests make larger queues.
const SLICES: i32 = 8;
/// Octets of a request that go with it, where the device can.
const INLINE: u32 = 256;
/// Octets of a message that are used at most.
const MESSAGE: u32 = 1 << 30;
/// RDMA Reads under way that librdmacm can tell the peer.
const READS: i32 = 128;
/// Who has made soft-RoCE and soft-iWARP.
const SOFT_ROCE: u32 = 0x00ff_ffff;
const SOFT_IWARP: u32 = 0x0062_6d74;
/// Polls in vain after which the device is asked whether it has failed.
const IDLE: u32 = 1024;

impl IbvDevice {
    /// Opens a device by its name, or the first that has an active port.
    ///
    /// # Errors
    /// There is none, none of its ports is active, or the system refuses.
    pub fn open(name: Option<&str>) -> Result<Self> {
        Self::open_with(name, true)
    }

    /// The same without memory windows: what a peer is to reach is registered for it, and nothing else is reached. Soft-RoCE's
    /// windows let it reach all of the region that they are bound to ([`Capabilities::guards_windows`]).
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_without_windows(name: Option<&str>) -> Result<Self> {
        Self::open_with(name, false)
    }

    fn open_with(name: Option<&str>, windows: bool) -> Result<Self> {
        let list = Devices::list()?;
        let none = || VerbError {
            verb: "ibv_open_device",
            cause: Cause::NoDevice(name.map(ToOwned::to_owned), list.iter().map(|listed| listed.name()).collect()),
        };
        let mut found = None;
        for listed in list.iter().filter(|listed| name.is_none_or(|name| listed.name() == name)) {
            let opened =
                listed.open().and_then(|context| Self::new(&context, listed.name(), listed.is_iwarp(), windows));
            match opened {
                Ok(device) => return Ok(device),
                // The first is the likeliest to be wanted.
                Err(error) => found = found.or(Some(error)),
            }
        }
        Err(found.unwrap_or_else(none))
    }

    fn new(context: &Rc<Context>, name: String, iwarp: bool, windows: bool) -> Result<Self> {
        let attributes = context.attributes()?;
        let active = (1..=attributes.phys_port_cnt).find_map(|number| {
            let port = context.port(number).ok()?;
            (port.state == ibv_port_state::IBV_PORT_ACTIVE).then_some((number, port))
        });
        let (port, of_port) =
            active.ok_or_else(|| VerbError { verb: "ibv_open_device", cause: Cause::PortDown(name.clone()) })?;
        let domain = Domain::new(context)?;
        let slices = attributes.max_sge.clamp(1, SLICES);
        let read_slices = if attributes.max_sge_rd > 0 { attributes.max_sge_rd.min(slices) } else { slices };
        let count = |number: i32| u32::try_from(number).unwrap_or(1);
        let sizes = QueuePairSizes { sends: 64, receives: 64, slices: count(slices), inline: INLINE };
        // iWARP's queue pairs can't be connected by hand.
        let windows = (windows && !iwarp).then(|| probe::windows(context, port)).flatten();
        let capabilities = Capabilities {
            name,
            windows: windows.is_some(),
            slices: count(slices) as usize,
            read_slices: count(read_slices) as usize,
            reads: count(attributes.max_qp_rd_atom.min(attributes.max_qp_init_rd_atom).clamp(1, READS)),
            message: of_port.max_msg_sz.min(MESSAGE),
            inline: probe::inline(context, &domain, &sizes),
            read_sink_is_exposed: iwarp,
            rnr_retry: !iwarp,
            acknowledges: !iwarp,
            guards_windows: windows.is_none_or(|windows| windows.are_confined && attributes.vendor_id != SOFT_ROCE),
            guards_reads: attributes.vendor_id != SOFT_IWARP,
        };
        let traits = Traits { iwarp, port, invalidated: windows.map_or(0, |windows| windows.invalidated) };
        Ok(Self { hub: Hub::new((context.clone(), domain), capabilities, traits) })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.hub.capabilities.name
    }
}

impl fmt::Debug for IbvDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IbvDevice({})", self.name())
    }
}

impl Device for IbvDevice {
    type Region = Region;
    type Window = Window;
    type CompletionQueue = CompletionQueue;
    type SharedReceives = SharedReceives;
    type QueuePair = QueuePair;
    type Manager = Manager;

    fn capabilities(&self) -> &Capabilities {
        &self.hub.capabilities
    }

    #[allow(unsafe_code, reason = "the promise is the caller's")]
    unsafe fn register(&self, memory: NonNull<u8>, length: usize, access: Access) -> Result<Region> {
        // SAFETY: the caller promises that the memory stays until the region is dropped, which ends the registration.
        let region = Rc::new(unsafe { sys::Region::register(&self.hub.domain, memory, length, access)? });
        self.hub.tables.add_region(&region);
        Ok(Region { hub: self.hub.clone(), region })
    }

    fn window(&self) -> Result<Window> {
        if !self.hub.capabilities.windows {
            return Err(VerbError { verb: "ibv_alloc_mw", cause: Cause::Limit });
        }
        let window = sys::Window::new(&self.hub.domain)?;
        let key = window.key();
        Ok(Window { hub: self.hub.clone(), number: self.hub.tables.add_window(window), key })
    }

    fn completion_queue(&self, entries: u32) -> Result<CompletionQueue> {
        let queue = Queue::new(&self.hub.context, entries)?;
        self.hub.add_queue(&queue);
        Ok(CompletionQueue { hub: self.hub.clone(), queue, idle: 0.into() })
    }

    fn shared_receives(&self, entries: u32) -> Result<SharedReceives> {
        Ok(SharedReceives { shared: Shared::new(&self.hub, entries)? })
    }

    fn manager(&self) -> Result<Manager> {
        Manager::new(&self.hub)
    }
}

impl super::Region for Region {
    fn local_key(&self) -> u32 {
        self.region.local_key()
    }

    fn remote_key(&self) -> u32 {
        self.region.remote_key()
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:x})", self.region.local_key())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.hub.tables.end_region(&self.region);
    }
}

impl super::Window for Window {
    fn number(&self) -> u32 {
        self.number
    }

    fn key(&self) -> u32 {
        self.key
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({})", self.number)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.hub.tables.end_window(self.number);
    }
}

impl super::CompletionQueue for CompletionQueue {
    fn poll(&self, completions: &mut Vec<Completion>, most: usize) -> Result<usize> {
        if self.queue.has_overrun() {
            return Err(VerbError { verb: "ibv_poll_cq", cause: Cause::Overrun });
        }
        let count = self.queue.take(completions, most);
        let mut told = count;
        let taken = self.queue.poll(most - count, |taken| {
            if let Some(pending) = self.hub.completed(&taken) {
                completions.push(pending.completion);
                told += 1;
            }
        })?;
        if count + taken > 0 {
            self.idle.set(0);
            // Those that have failed, by what was taken.
            self.hub.settle();
        } else if self.idle.replace(self.idle.get().wrapping_add(1)) % IDLE == IDLE - 1 {
            self.hub.take_events();
        }
        Ok(told)
    }

    fn arm(&self) -> Result<()> {
        self.hub.attend();
        self.hub.take_events();
        self.queue.arm()
    }

    fn acknowledge(&self) -> Result<()> {
        self.hub.attend();
        self.queue.acknowledge();
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.queue.descriptor()
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompletionQueue")
    }
}

impl super::SharedReceives for SharedReceives {
    #[allow(unsafe_code, reason = "the promise is the caller's")]
    unsafe fn post(&self, receives: &[Receive], slices: &[Slice]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.post(receives, slices) }
    }
}

impl fmt::Debug for SharedReceives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedReceives")
    }
}

#[allow(unsafe_code, reason = "the promise is the caller's")]
impl super::QueuePair for QueuePair {
    fn number(&self) -> u32 {
        self.0.number
    }

    unsafe fn post(&self, requests: &[WorkRequest], slices: &[Slice]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.post(requests, slices) }
    }

    unsafe fn post_receives(&self, receives: &[Receive], slices: &[Slice]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.post_receives(receives, slices) }
    }

    fn disconnect(&self) {
        self.0.fail();
    }
}

impl fmt::Debug for QueuePair {
    /// With the device's own number, by which its tools know it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueuePair({}, {:?})", self.0.number, self.0.device_number())
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.0.leave();
    }
}
