//! RDMA devices through rdma-core (feature `ibverbs`): InfiniBand, RoCE and iWARP, by libibverbs
//! and librdmacm.
//!
//! A device is opened by its name, with its own protection domain and descriptor. Any thread may
//! use it. Threads with separate completion queues contend only while they bind or invalidate
//! windows or register memory. Opening a device probes its capabilities, which takes about a
//! millisecond: two queue pairs are connected to each other, and a memory window is bound, accessed
//! and invalidated.
//!
//! Registered memory is locked: a process needs a limit of locked memory (`ulimit -l`) above its
//! budget, or the capability `CAP_IPC_LOCK`. After `fork` the child must not use the device or
//! registered memory.
//!
//! Devices differ. This provider behaves the same on all:
//! - A queue pair that fails is destroyed at once. Its requests are flushed in software, each once
//!   and in order.
//! - Ending a queue pair ends the windows that were last bound on it. Ending a region ends the
//!   windows that are bound to it.
//! - A window that is not known to be bound is not invalidated, because this would crash the
//!   machine with soft-RoCE.
//! - On iWARP a request waits for earlier RDMA Reads, so that requests complete in order.
//! - A connection ends at both ends: a failed request also disconnects.
//! - On iWARP, a queue pair that is dropped while its connect request is unanswered is destroyed
//!   after the answer. Linux does not let it end before, so that dropping the connection manager
//!   meanwhile takes up to 10 seconds.
//!
//! `device_state` has the shared state and the order of locks, `queue_pair`, `outstanding` and
//! `completion_queue` have the requests, `tables` has the windows, and `sys` has all foreign calls.
//!
//! ```no_run
//! use rpcrdma_verbs::provider::Device;
//! use rpcrdma_verbs::provider::ibverbs::IbvDevice;
//!
//! let device = IbvDevice::open(None)?;
//! println!("{}: {:?}", device.name(), device.capabilities());
//! # Ok::<(), rpcrdma_verbs::provider::VerbError>(())
//! ```

mod completion_queue;
mod connection;
mod device_state;
mod event_queue;
mod hint;
mod ids;
mod info;
mod manager;
mod number_map;
mod outstanding;
mod probe;
mod queue_pair;
mod ring;
mod srq;
mod staging;
mod status;
mod sys;
mod tables;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys::ibv_port_state;

use completion_queue::Queue;
pub use connection::IbvConnectRequest;
use device_state::{DeviceState, Quirks};
pub use info::{DeviceInfo, DeviceLimits, GidInfo, GidKind, PortInfo, ProbedDevice, devices};
pub use manager::IbvConnectionManager;
use queue_pair::QpInner;
use srq::SrqInner;
use sys::{Context, Devices, ProtectionDomain, QueuePairSizes};

use super::{
    Access, Capabilities, Cause, Completion, Device, ProtectionDomainId, Receive, Result, Sge,
    VerbError, WorkRequest,
};

/// An open RDMA device. Clones refer to the same device.
#[derive(Clone)]
pub struct IbvDevice {
    device_state: Arc<DeviceState>,
}

/// Registered memory of a device.
pub struct IbvRegion {
    device_state: Arc<DeviceState>,
    region: Arc<sys::Region>,
    /// The device's answer to the request to end it; `None` before the request.
    ended: Option<bool>,
}

/// A memory window of a device.
pub struct IbvWindow {
    device_state: Arc<DeviceState>,
    number: u32,
    key: u32,
    /// The device's answer to the request to end it; `None` before the request.
    ended: Option<bool>,
}

/// A completion queue of a device.
pub struct IbvCompletionQueue {
    device_state: Arc<DeviceState>,
    queue: Arc<Queue>,
    /// The number of empty polls since the device was last checked for a failure.
    idle: std::cell::Cell<u32>,
}

/// A shared receive queue of a device.
#[derive(Clone)]
pub struct IbvSharedReceives {
    shared: Arc<SrqInner>,
}

/// A queue pair of a device.
pub struct IbvQueuePair(Arc<QpInner>);

/// The maximum scatter/gather entries that this provider uses. More entries need larger queues.
const SLICES: i32 = 8;
/// The limit of inline requests, if the device supports this size.
const INLINE: u32 = 256;
/// The maximum message length that this provider uses.
const MESSAGE: u32 = 1 << 30;
/// The maximum number of RDMA Reads in flight that librdmacm can negotiate.
const READS: i32 = 128;
/// The vendor number of soft-RoCE and soft-iWARP.
const SOFT_ROCE: u32 = 0x00ff_ffff;
const SOFT_IWARP: u32 = 0x0062_6d74;
/// The number of empty polls after which the device is checked for a failure.
const IDLE: u32 = 1024;

impl IbvDevice {
    /// Opens a device by its name, or the first with an active port.
    ///
    /// # Errors
    /// Fails if there is no such device, if none of its ports is active, or if the system refuses.
    pub fn open(name: Option<&str>) -> Result<Self> {
        Self::open_with(name, true)
    }

    /// Opens a device without memory windows. Exposed memory is registered for each call, and the
    /// peer can access nothing else. With soft-RoCE's windows the peer can access the whole region
    /// ([`Capabilities::guards_windows`]).
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_without_windows(name: Option<&str>) -> Result<Self> {
        Self::open_with(name, false)
    }

    fn open_with(name: Option<&str>, windows: bool) -> Result<Self> {
        let list = Devices::list()?;
        let none = || VerbError {
            verb: "ibv_open_device",
            cause: Cause::NoDevice(
                name.map(ToOwned::to_owned),
                list.iter().map(|listed| listed.name()).collect(),
            ),
        };
        let mut found = None;
        for listed in list
            .iter()
            .filter(|listed| name.is_none_or(|name| listed.name() == name))
        {
            let opened = listed
                .open()
                .and_then(|context| Self::new(&context, listed.name(), listed.is_iwarp(), windows));
            match opened {
                Ok(device) => return Ok(device),
                // The first is the most likely choice.
                Err(error) => found = found.or(Some(error)),
            }
        }
        Err(found.unwrap_or_else(none))
    }

    fn new(context: &Arc<Context>, name: String, iwarp: bool, windows: bool) -> Result<Self> {
        let attributes = context.attributes()?;
        let active = (1..=attributes.phys_port_cnt).find_map(|number| {
            let port = context.port(number).ok()?;
            (port.state == ibv_port_state::IBV_PORT_ACTIVE).then_some((number, port))
        });
        let (port, of_port) = active.ok_or_else(|| VerbError {
            verb: "ibv_open_device",
            cause: Cause::PortDown(name.clone()),
        })?;
        let domain = ProtectionDomain::new(context)?;
        let slices = attributes.max_sge.clamp(1, SLICES);
        let read_slices = if attributes.max_sge_rd > 0 {
            attributes.max_sge_rd.min(slices)
        } else {
            slices
        };
        let count = |number: i32| u32::try_from(number).unwrap_or(1);
        let sizes = QueuePairSizes {
            sends: 64,
            receives: 64,
            slices: count(slices),
            inline: INLINE,
        };
        // iWARP queue pairs cannot be connected manually.
        let windows = (windows && !iwarp)
            .then(|| probe::windows(context, port))
            .flatten();
        let capabilities = Capabilities {
            name,
            windows: windows.is_some(),
            max_sge: count(slices) as usize,
            max_read_sge: count(read_slices) as usize,
            max_reads: count(
                attributes
                    .max_qp_rd_atom
                    .min(attributes.max_qp_init_rd_atom)
                    .clamp(1, READS),
            ),
            max_message: of_port.max_msg_sz.min(MESSAGE),
            max_inline: probe::inline(context, &domain, &sizes),
            read_sink_needs_remote_write: iwarp,
            rnr_retry: !iwarp,
            acknowledges: !iwarp,
            guards_windows: windows
                .is_none_or(|windows| windows.are_confined && attributes.vendor_id != SOFT_ROCE),
            guards_reads: attributes.vendor_id != SOFT_IWARP,
        };
        let quirks = Quirks {
            iwarp,
            port,
            invalidated: windows.map_or(0, |windows| windows.invalidated),
        };
        Ok(Self {
            device_state: DeviceState::new((context.clone(), domain), capabilities, quirks),
        })
    }

    /// Sets the traffic class of connections and listeners that are created later
    /// (`RDMA_OPTION_ID_TOS` of librdmacm): the upper six bits are the DSCP (RFC 2474), and the
    /// lower two belong to the network.
    ///
    /// With RoCE, it is the traffic class in the IP header of packets. The kernel also derives the
    /// service level from it, by the traffic classes of the network interface: lossless networks
    /// recognize RDMA packets by one of them. The connecting end decides for both directions. With
    /// InfiniBand, it is part of the path query. With iWARP, it is the traffic class of the TCP
    /// connection, if the device supports it.
    pub fn set_traffic_class(&self, class: u8) {
        self.device_state.traffic_class.set(class);
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device_state.capabilities.name
    }
}

impl fmt::Debug for IbvDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IbvDevice({})", self.name())
    }
}

impl Device for IbvDevice {
    type Region = IbvRegion;
    type Window = IbvWindow;
    type CompletionQueue = IbvCompletionQueue;
    type SharedReceives = IbvSharedReceives;
    type QueuePair = IbvQueuePair;
    type Manager = IbvConnectionManager;

    fn capabilities(&self) -> &Capabilities {
        &self.device_state.capabilities
    }

    fn protection_domain(&self) -> ProtectionDomainId {
        self.device_state.domain_id
    }

    #[allow(unsafe_code, reason = "the promise is the caller's")]
    unsafe fn register(
        &self,
        memory: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<IbvRegion> {
        // SAFETY: the caller promises that the memory stays valid until the registration has ended.
        let region = Arc::new(unsafe {
            sys::Region::register(&self.device_state.domain, memory, length, access)?
        });
        self.device_state.tables.add_region(&region);
        Ok(IbvRegion {
            device_state: self.device_state.clone(),
            region,
            ended: None,
        })
    }

    fn window(&self) -> Result<IbvWindow> {
        if !self.device_state.capabilities.windows {
            return Err(VerbError {
                verb: "ibv_alloc_mw",
                cause: Cause::Limit,
            });
        }
        let window = sys::Window::new(&self.device_state.domain)?;
        let key = window.key();
        Ok(IbvWindow {
            device_state: self.device_state.clone(),
            number: self.device_state.tables.add_window(window),
            key,
            ended: None,
        })
    }

    fn completion_queue(&self, entries: u32) -> Result<IbvCompletionQueue> {
        let queue = Queue::new(
            &self.device_state.context,
            entries,
            self.device_state.next_number(),
        )?;
        self.device_state.add_queue(&queue);
        Ok(IbvCompletionQueue {
            device_state: self.device_state.clone(),
            queue,
            idle: 0.into(),
        })
    }

    fn shared_receives(&self, entries: u32) -> Result<IbvSharedReceives> {
        Ok(IbvSharedReceives {
            shared: SrqInner::new(&self.device_state, entries)?,
        })
    }

    fn manager(&self) -> Result<IbvConnectionManager> {
        IbvConnectionManager::new(&self.device_state)
    }
}

impl super::MemoryRegion for IbvRegion {
    fn local_key(&self) -> u32 {
        self.region.local_key()
    }

    fn remote_key(&self) -> u32 {
        self.region.remote_key()
    }

    fn deregister(&mut self) -> bool {
        let Self {
            device_state,
            region,
            ended,
        } = self;
        *ended.get_or_insert_with(|| {
            let ended = device_state.tables.end_region(region);
            device_state.end_failed();
            ended
        })
    }
}

impl fmt::Debug for IbvRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:x})", self.region.local_key())
    }
}

impl Drop for IbvRegion {
    fn drop(&mut self) {
        super::MemoryRegion::deregister(self);
    }
}

impl super::Window for IbvWindow {
    fn number(&self) -> u32 {
        self.number
    }

    fn key(&self) -> u32 {
        self.key
    }

    fn end(&mut self) -> bool {
        let Self {
            device_state,
            number,
            ended,
            ..
        } = self;
        *ended.get_or_insert_with(|| {
            let ended = device_state.tables.end_window(*number);
            device_state.end_failed();
            ended
        })
    }
}

impl fmt::Debug for IbvWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({})", self.number)
    }
}

impl Drop for IbvWindow {
    fn drop(&mut self) {
        super::Window::end(self);
    }
}

impl super::CompletionQueue for IbvCompletionQueue {
    fn poll(&self, completions: &mut Vec<Completion>, most: usize) -> Result<usize> {
        let (reported, taken) = self.device_state.poll(&self.queue, completions, most)?;
        if taken > 0 {
            self.idle.set(0);
            // These completions may have shown the failure of queue pairs.
            self.device_state.end_failed();
        } else if self.idle.replace(self.idle.get().wrapping_add(1)) % IDLE == IDLE - 1 {
            self.device_state.take_events();
        }
        Ok(reported)
    }

    fn arm(&self) -> Result<()> {
        self.queue.arm()
    }

    fn acknowledge(&self) -> Result<()> {
        self.device_state.request_attention();
        self.queue.acknowledge();
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.queue.descriptor()
    }
}

impl fmt::Debug for IbvCompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompletionQueue")
    }
}

impl super::SharedReceives for IbvSharedReceives {
    #[allow(unsafe_code, reason = "the promise is the caller's")]
    unsafe fn post(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.post(receives, slices) }
    }

    fn end(&self) -> bool {
        self.shared.end()
    }
}

impl fmt::Debug for IbvSharedReceives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedReceives")
    }
}

#[allow(unsafe_code, reason = "the promise is the caller's")]
impl super::QueuePair for IbvQueuePair {
    fn number(&self) -> u32 {
        self.0.number
    }

    unsafe fn post(&self, requests: &[WorkRequest], slices: &[Sge]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.post(requests, slices) }
    }

    unsafe fn post_receives(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.0.post_receives(receives, slices) }
    }

    fn disconnect(&self) {
        self.0.fail();
    }

    fn end(&self) -> bool {
        self.0.leave()
    }
}

impl fmt::Debug for IbvQueuePair {
    /// Includes the device's queue pair number, which diagnostic tools show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "QueuePair({}, {:?})",
            self.0.number,
            self.0.device_number()
        )
    }
}

impl Drop for IbvQueuePair {
    fn drop(&mut self) {
        self.0.leave();
    }
}
