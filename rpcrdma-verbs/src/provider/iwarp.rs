//! iWARP over TCP in user space: RDMA between processes and hosts without a device.
//!
//! The protocol is compatible with iWARP devices and Linux's siw ([`rpcrdma_iwarp`]), so that
//! either end may be one of these. A device of this provider needs no privileges.
//!
//! **Progress.** There is no thread: the sockets of a queue pair make progress when its completion
//! queue is polled and when requests are posted to it. Until then, the peer's reads and writes
//! wait. [`IwarpDevice::progress`] makes progress on all queue pairs of a device, for a thread that
//! waits for something else.
//!
//! **Copies.** Payload is sent directly from its source. Where an FPDU has 4,096 bytes of it or
//! more, it is received directly into its destination. Shorter payload is received together with
//! the data after it, and copied. Payload is placed before its CRC is verified, and completes after
//! that. This deviates from RFC 5044, section 6, as siw does.
//!
//! **Differences to devices.** A Send or RDMA Write completes when TCP has accepted it. A message
//! without a receive waits if the queue pair requests it ([`QueuePairConfig::rnr_retry`]): TCP's
//! window then blocks the peer and everything else on this connection, for at most
//! [`IwarpConfig::receive_timeout`].
//!
//! `manager` has the setup of connections, `queue_pair` their data, `completion` the progress and
//! the order of locks, and [`rpcrdma_iwarp`] the protocol.
//!
//! Two ends over the loopback interface:
//!
//! ```
//! use oncrpc::Router;
//! use rpcrdma_verbs::provider::iwarp::{IwarpConfig, IwarpDevice};
//! use rpcrdma_verbs::{ClientConfig, ServerConfig};
//!
//! let device = IwarpDevice::new(IwarpConfig { crc: false, ..IwarpConfig::default() });
//! let any = "127.0.0.1:0".parse()?;
//! let server = rpcrdma_verbs::serve(&device, any, ServerConfig::new(), || Router::new())?;
//! let address = server.local_addr();
//! let channel = rpcrdma_verbs::connect(&IwarpDevice::default(), address, ClientConfig::new())?;
//! # drop(channel);
//! server.drain()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`QueuePairConfig::rnr_retry`]: super::QueuePairConfig::rnr_retry

mod completion;
mod connect_request;
mod connecting;
mod manager;
mod memory;
mod numbers;
mod queue_pair;
mod socket;
mod timers;

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use completion::Completions;
pub use completion::IwarpCompletionQueue;
pub use connect_request::IwarpConnectRequest;
pub use manager::IwarpConnectionManager;
use memory::MAX_SGE;
use numbers::Numbers;
pub use queue_pair::IwarpQueuePair;
use queue_pair::{Limits, Qp};

use super::common::domain::Domain;
use super::common::receives::SharedQueue;
use super::common::traffic_class::TrafficClass;
use super::common::wakeup::invalid;
use super::{
    Access, Capabilities, Device, MemoryRegion, ProtectionDomainId, QueuePair, Receive, Result,
    Sge, SharedReceives, Window, WorkRequest,
};

/// The name of the device.
pub const NAME: &str = "iwarp";

/// The settings of a device.
///
/// ```
/// use rpcrdma_verbs::provider::iwarp::{IwarpConfig, IwarpDevice};
///
/// let config = IwarpConfig { crc: false, ..IwarpConfig::default() };
/// let device = IwarpDevice::new(config);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IwarpConfig {
    /// Whether to require CRCs. They are used if either end requires them.
    pub crc: bool,
    /// Whether the connecting end requests peer-to-peer mode (RFC 6581, section 9.2), in which
    /// either end may send first. Without it the accepting end waits for a message. In RPC the
    /// client sends first. Linux's siw crashes its host if a connection in peer-to-peer mode ends
    /// before it is established.
    pub peer_to_peer: bool,
    /// The maximum length of an FPDU in bytes, from 128 to 65536. With `None`, an FPDU fits a TCP
    /// segment, or has the maximum length on loopback.
    pub max_fpdu: Option<u32>,
    /// The time limit of a connection setup.
    pub setup_timeout: Duration,
    /// The maximum concurrent connection setups. Further connections wait to be accepted.
    pub max_setups: usize,
    /// The time that a message waits for a receive, if it waits. Here and for the other times,
    /// [`Duration::MAX`] is no limit.
    pub receive_timeout: Duration,
    /// The time limit for the rest of an FPDU whose first bytes have arrived, and for the next
    /// segment of a message. A peer that exceeds it loses its connection.
    pub fpdu_timeout: Duration,
}

impl Default for IwarpConfig {
    fn default() -> Self {
        Self {
            crc: true,
            peer_to_peer: false,
            max_fpdu: None,
            setup_timeout: Duration::from_secs(10),
            max_setups: 1024,
            receive_timeout: Duration::from_secs(60),
            fpdu_timeout: Duration::from_secs(60),
        }
    }
}

/// A device of iWARP over TCP, with its own protection domain.
///
/// ```
/// use rpcrdma_verbs::provider::Device;
/// use rpcrdma_verbs::provider::iwarp::IwarpDevice;
///
/// let device = IwarpDevice::default();
/// assert!(device.capabilities().windows);
/// ```
#[derive(Clone, Debug)]
pub struct IwarpDevice {
    shared: Arc<DeviceState>,
}

#[derive(Debug)]
struct DeviceState {
    config: IwarpConfig,
    domain: Arc<Domain>,
    domain_id: ProtectionDomainId,
    capabilities: Capabilities,
    traffic_class: TrafficClass,
    numbers: Arc<Numbers>,
    queues: Mutex<Vec<Weak<Completions>>>,
}

/// Registered memory of a device of iWARP over TCP.
#[derive(Debug)]
pub struct IwarpRegion {
    domain: Arc<Domain>,
    key: u32,
    is_ended: bool,
}

/// A memory window of a device of iWARP over TCP.
#[derive(Debug)]
pub struct IwarpWindow {
    domain: Arc<Domain>,
    key: u32,
    is_ended: bool,
}

/// A shared receive queue of a device of iWARP over TCP.
#[derive(Clone, Debug)]
pub struct IwarpSharedReceives(SharedQueue<Qp>);

impl Default for IwarpDevice {
    fn default() -> Self {
        Self::new(IwarpConfig::default())
    }
}

impl IwarpDevice {
    /// Returns a device.
    #[must_use]
    pub fn new(config: IwarpConfig) -> Self {
        let capabilities = Capabilities {
            name: NAME.to_owned(),
            windows: true,
            max_sge: MAX_SGE,
            max_read_sge: MAX_SGE,
            max_reads: 128,
            max_message: 1 << 30,
            max_inline: 512,
            // The STag of a sink is valid for its Read only.
            read_sink_needs_remote_write: false,
            rnr_retry: true,
            acknowledges: false,
            guards_windows: true,
            guards_reads: true,
        };
        Self {
            shared: Arc::new(DeviceState {
                config,
                domain: Domain::hidden(),
                domain_id: ProtectionDomainId::unique(),
                capabilities,
                traffic_class: TrafficClass::default(),
                numbers: Numbers::new(),
                queues: Mutex::default(),
            }),
        }
    }

    /// Sets the traffic class of connections and listeners that are created later: the upper six
    /// bits are the DSCP (RFC 2474). Each end decides for the packets that it sends.
    pub fn set_traffic_class(&self, class: u8) {
        self.shared.traffic_class.set(class);
    }

    /// Makes progress on all queue pairs of the device: receives from their sockets, and sends as
    /// much as the sockets accept. Completions wait in their queues.
    pub fn progress(&self) {
        let queues = self
            .shared
            .queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let queues = queues.iter().filter_map(Weak::upgrade);
        queues.for_each(|queue| queue.progress());
    }

    fn limits(&self) -> Limits {
        Limits {
            max_inline: self.shared.capabilities.max_inline,
            max_message: self.shared.capabilities.max_message,
        }
    }
}

#[expect(unsafe_code, reason = "memory is given by address, as verbs want it")]
impl Device for IwarpDevice {
    type Region = IwarpRegion;
    type Window = IwarpWindow;
    type CompletionQueue = IwarpCompletionQueue;
    type SharedReceives = IwarpSharedReceives;
    type QueuePair = IwarpQueuePair;
    type Manager = IwarpConnectionManager;

    fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    fn protection_domain(&self) -> ProtectionDomainId {
        self.shared.domain_id
    }

    unsafe fn register(
        &self,
        memory: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<IwarpRegion> {
        if access.remote_write && !access.local_write {
            return Err(invalid("register"));
        }
        // SAFETY: the caller promises that the memory stays valid until the region is deregistered,
        // which removes the key.
        let key = unsafe { self.shared.domain.register(memory, length, access)? };
        Ok(IwarpRegion {
            domain: self.shared.domain.clone(),
            key,
            is_ended: false,
        })
    }

    fn window(&self) -> Result<IwarpWindow> {
        Ok(IwarpWindow {
            domain: self.shared.domain.clone(),
            key: self.shared.domain.window()?,
            is_ended: false,
        })
    }

    fn completion_queue(&self, entries: u32) -> Result<IwarpCompletionQueue> {
        let shared = Completions::new(entries)?;
        let mut queues = self
            .shared
            .queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&shared));
        Ok(IwarpCompletionQueue { shared })
    }

    fn shared_receives(&self, entries: u32) -> Result<IwarpSharedReceives> {
        let queue = SharedQueue::new(self.shared.domain.clone(), entries, MAX_SGE);
        Ok(IwarpSharedReceives(queue))
    }

    fn manager(&self) -> Result<IwarpConnectionManager> {
        IwarpConnectionManager::new(self.clone())
    }
}

/// Ends a region or window once.
fn end_once(domain: &Domain, key: u32, is_ended: &mut bool) -> bool {
    if !std::mem::replace(is_ended, true) {
        domain.forget(domain.number(key));
    }
    true
}

impl MemoryRegion for IwarpRegion {
    fn local_key(&self) -> u32 {
        self.key
    }

    fn remote_key(&self) -> u32 {
        self.key
    }

    fn deregister(&mut self) -> bool {
        end_once(&self.domain, self.key, &mut self.is_ended)
    }
}

impl Drop for IwarpRegion {
    fn drop(&mut self) {
        self.deregister();
    }
}

impl Window for IwarpWindow {
    fn number(&self) -> u32 {
        self.domain.number(self.key)
    }

    fn key(&self) -> u32 {
        self.key
    }

    fn end(&mut self) -> bool {
        end_once(&self.domain, self.key, &mut self.is_ended)
    }
}

impl Drop for IwarpWindow {
    fn drop(&mut self) {
        self.end();
    }
}

#[expect(
    unsafe_code,
    reason = "the promise is the caller's: what is posted is kept as addresses, and touched in \
        `memory` alone"
)]
impl SharedReceives for IwarpSharedReceives {
    unsafe fn post(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        self.0.post(receives, slices)
    }

    fn end(&self) -> bool {
        self.0.end_once()
    }
}

#[expect(
    unsafe_code,
    reason = "the promise is the caller's: what is posted is kept as addresses, and touched in \
        `memory` alone"
)]
impl QueuePair for IwarpQueuePair {
    fn number(&self) -> u32 {
        self.qp.number
    }

    unsafe fn post(&self, requests: &[WorkRequest], slices: &[Sge]) -> Result<()> {
        self.qp.post(requests, slices, self.limits)
    }

    unsafe fn post_receives(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        self.qp.post_receives(receives, slices)
    }

    fn disconnect(&self) {
        self.qp.disconnect();
    }

    fn peer_has_sent(&self) -> bool {
        self.qp.peer_has_sent()
    }

    fn can_read(&self) -> bool {
        self.qp.can_read()
    }

    fn end(&self) -> bool {
        self.ended.call_once(|| self.qp.leave());
        true
    }
}
