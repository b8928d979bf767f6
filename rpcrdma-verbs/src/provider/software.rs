//! A software fabric within one process: the default provider. It needs no device, no privileges
//! and no installation.
//!
//! It is at least as strict as devices are. Each access checks key, tag, bounds and rights. A
//! type-2 memory window works on one queue pair only. A message without a receive ends its
//! connection (`rnr_retry` 0). Requests are flushed in order after an error. Send queue entries
//! become free when completions are polled. A completion queue that is too small overruns. The
//! thread that posts a request executes it, unless [`Faults`] delay it, or the fabric has a
//! [delay](Fabric::with_delay).
//!
//! A thread locks at most one connection (`QpPair`), and locks it first: shared receive queues,
//! tables of keys, completion queues, event queues and the schedule of `latency` come after it. The
//! lock of the faults is the last. Code that executes work of connections (`Fabric::progress`, a
//! post of shared receives) is called without any of these locks.
//!
//! ```
//! use std::time::Duration;
//! use oncrpc::Router;
//! use rpcrdma_verbs::provider::software::Fabric;
//! use rpcrdma_verbs::{ClientConfig, ServerConfig};
//!
//! // Two devices, with a latency of 20 microseconds between them.
//! let fabric = Fabric::with_delay(Duration::from_micros(20));
//! let any = "192.0.2.1:0".parse()?;
//! let config = ServerConfig::new();
//! let server = rpcrdma_verbs::serve(&fabric.device(), any, config, || Router::new())?;
//! let address = server.local_addr();
//! let channel = rpcrdma_verbs::connect(&fabric.device(), address, ClientConfig::new())?;
//! # drop(channel);
//! server.drain()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod completion;
mod faults;
mod latency;
mod manager;
mod qp_pair;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

pub use completion::SoftwareCompletionQueue;
pub use faults::{FaultCounts, Faults};
use latency::{Latency, Progress, Time};
pub use manager::SoftwareConnectionManager;
pub use qp_pair::SoftwareConnectRequest;
use qp_pair::{QpPair, QpState};

use super::common::domain::Domain;
use super::common::events::EventQueue;
use super::common::random::Random;
use super::common::receives::SharedQueue;
use super::common::wakeup::invalid;
use super::{
    Access, Capabilities, Cause, ConnectionEvent, Device, ProtectionDomainId, Receive, Result, Sge,
    VerbError, WorkRequest,
};

/// The limit of inline Sends, as on common devices.
const INLINE: u32 = 512;

/// A fabric that connects its devices.
///
/// ```
/// use rpcrdma_verbs::provider::Device;
/// use rpcrdma_verbs::provider::software::Fabric;
///
/// let device = Fabric::new().device();
/// assert!(device.capabilities().windows);
/// ```
#[derive(Debug)]
pub struct Fabric {
    listeners: Mutex<HashMap<SocketAddr, Weak<EventQueue<SoftwareConnectRequest>>>>,
    numbers: AtomicU32,
    ports: AtomicU16,
    seeds: AtomicU32,
    faulty: AtomicBool,
    fault_state: Mutex<FaultState>,
    /// `None` if there is no delay.
    latency: Option<Arc<Latency>>,
}

#[derive(Debug)]
struct FaultState {
    faults: Faults,
    random: Random,
    injected: FaultCounts,
    /// Queue pairs that may have delayed requests.
    qp_pairs: Vec<Weak<QpPair>>,
}

/// A device of the software fabric, with its own protection domain.
#[derive(Clone, Debug)]
pub struct SoftwareDevice {
    fabric: Arc<Fabric>,
    domain: Arc<Domain>,
    domain_id: ProtectionDomainId,
    capabilities: Arc<Capabilities>,
}

/// Registered memory of a device of the software fabric.
#[derive(Debug)]
pub struct SoftwareRegion {
    domain: Arc<Domain>,
    key: u32,
    /// The device's answer to the request to end it; `None` before the request.
    ended: Option<bool>,
}

/// A memory window of the software fabric.
#[derive(Debug)]
pub struct SoftwareWindow {
    domain: Arc<Domain>,
    key: u32,
    /// The device's answer to the request to end it; `None` before the request.
    ended: Option<bool>,
}

/// A shared receive queue of the software fabric.
#[derive(Clone, Debug)]
pub struct SoftwareSharedReceives(SharedQueue<QpPair>);

/// A queue pair of the software fabric.
#[derive(Debug)]
pub struct SoftwareQueuePair {
    link: Arc<QpPair>,
    side: usize,
    number: u32,
    domain: Arc<Domain>,
    /// The device's answer to the request to end it; empty before the request.
    ended: OnceLock<bool>,
}

impl Fabric {
    /// Creates a fabric.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::with_latency(None)
    }

    /// Creates a fabric with a one-way delay and unlimited bandwidth. So the duration of a call
    /// shows the number of its round trips.
    ///
    /// A request reaches the peer after the delay: then the message is received, the bytes are
    /// written, or the bytes to be read are copied. Its completion takes the same time again.
    /// Windows are bound and invalidated without delay, but in order. Connections are established
    /// and ended without delay; requests in flight at the end of a connection are not executed. The
    /// number of RDMA Reads in flight is not limited.
    ///
    /// Polling a completion queue executes due work. A thread wakes threads that sleep on the
    /// descriptor. It starts when the first queue is armed, and is later than a poll by the wake-up
    /// latency of the system.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use std::time::Duration;
    ///
    /// use rpcrdma_verbs::measure::{Devices, ping_pong};
    /// use rpcrdma_verbs::provider::software::Fabric;
    ///
    /// let fabric = Fabric::with_delay(Duration::from_micros(50));
    /// let address = ([127, 0, 0, 1], 0).into();
    /// let devices = Devices { near: fabric.device(), far: fabric.device(), address };
    /// let one = NonZeroU32::MIN;
    /// assert!(ping_pong(&devices, (64, 64), (one, one), 100)? >= 100_000.0);
    /// # Ok::<(), rpcrdma_verbs::driver::DriverError>(())
    /// ```
    #[must_use]
    pub fn with_delay(one_way: Duration) -> Arc<Self> {
        Self::with_latency((!one_way.is_zero()).then(|| Latency::new(one_way)))
    }

    /// Creates a fabric with a one-way delay and a clock of its own, which only
    /// [`advance`](Self::advance) moves. So the time of a call is exact on a busy machine, too.
    /// Otherwise it is a fabric [with a delay](Self::with_delay).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rpcrdma_verbs::provider::software::Fabric;
    ///
    /// let fabric = Fabric::with_manual_delay(Duration::from_secs(1));
    /// assert_eq!(fabric.advance(), None, "nothing is in flight");
    /// ```
    #[must_use]
    pub fn with_manual_delay(one_way: Duration) -> Arc<Self> {
        Self::with_latency((!one_way.is_zero()).then(|| Latency::manual(one_way)))
    }

    /// Moves the time of a fabric with a [manual delay](Self::with_manual_delay) to the next
    /// arrival or completion of a request, and returns the time since the fabric was created. Call
    /// it when polling both ends has no effect.
    ///
    /// Returns `None` if nothing is in flight, or if the fabric has no manual delay.
    pub fn advance(&self) -> Option<Duration> {
        self.latency.as_ref()?.advance()
    }

    fn with_latency(latency: Option<Arc<Latency>>) -> Arc<Self> {
        let chaos = FaultState {
            faults: Faults::default(),
            random: Random::new(0),
            injected: FaultCounts::default(),
            qp_pairs: Vec::new(),
        };
        Arc::new(Self {
            listeners: Mutex::default(),
            numbers: AtomicU32::new(1),
            ports: AtomicU16::new(49152),
            seeds: AtomicU32::new(1),
            faulty: AtomicBool::new(false),
            fault_state: Mutex::new(chaos),
            latency,
        })
    }

    /// Creates a device with all capabilities of the fabric.
    #[must_use]
    pub fn device(self: &Arc<Self>) -> SoftwareDevice {
        self.device_with(Capabilities {
            name: "software".to_owned(),
            windows: true,
            max_sge: qp_pair::MAX_SGE,
            max_read_sge: qp_pair::MAX_SGE,
            max_reads: 128,
            max_message: 1 << 30,
            max_inline: INLINE,
            read_sink_needs_remote_write: false,
            rnr_retry: true,
            acknowledges: true,
            guards_windows: true,
            guards_reads: true,
        })
    }

    /// Creates a device with restricted capabilities.
    #[must_use]
    pub fn device_with(self: &Arc<Self>, capabilities: Capabilities) -> SoftwareDevice {
        let seed = u64::from(self.seeds.fetch_add(1, Ordering::Relaxed));
        // Tags differ between runs: the address contributes to the seed.
        let seed = seed ^ (Arc::as_ptr(self).addr() as u64) << 8;
        SoftwareDevice {
            fabric: self.clone(),
            domain: Domain::new(seed),
            domain_id: ProtectionDomainId::unique(),
            capabilities: Arc::new(capabilities),
        }
    }

    /// Injects these faults from now on.
    pub fn inject(&self, faults: Faults) {
        let mut chaos = self.lock_faults();
        (chaos.faults, chaos.random) = (faults, Random::new(faults.seed));
        // Delayed requests remain to be executed, so this is never reset.
        self.faulty.fetch_or(faults.any(), Ordering::Relaxed);
    }

    /// Returns the number of faults injected so far.
    #[must_use]
    pub fn injected(&self) -> FaultCounts {
        self.lock_faults().injected
    }

    fn lock_faults(&self) -> MutexGuard<'_, FaultState> {
        self.fault_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_faulty(&self) -> bool {
        self.faulty.load(Ordering::Relaxed)
    }

    /// Draws one fault, if faults are enabled.
    fn draws(
        &self,
        chance: impl Fn(&Faults) -> u16,
        count: impl Fn(&mut FaultCounts) -> &mut u64,
    ) -> bool {
        if !self.is_faulty() {
            return false;
        }
        let mut chaos = self.lock_faults();
        let odds = chance(&chaos.faults);
        let drawn = chaos.random.chance(odds);
        if drawn {
            *count(&mut chaos.injected) += 1;
        }
        drawn
    }

    fn disconnects(&self) -> bool {
        self.draws(
            |faults| faults.disconnect,
            |injected| &mut injected.disconnects,
        )
    }

    fn is_not_ready(&self) -> bool {
        self.draws(
            |faults| faults.not_ready,
            |injected| &mut injected.not_ready,
        )
    }

    fn refuses_key(&self) -> bool {
        self.draws(|faults| faults.bad_key, |injected| &mut injected.bad_keys)
    }

    fn loses_wakeup(&self) -> bool {
        self.draws(
            |faults| faults.lost_wakeup,
            |injected| &mut injected.lost_wakeups,
        )
    }

    /// Draws the number of polls by which the next request is delayed.
    fn delay(&self) -> u32 {
        if !self.is_faulty() {
            return 0;
        }
        let mut chaos = self.lock_faults();
        let most = u64::from(chaos.faults.delay);
        // The value is at most `delay`, which has 32 bits.
        let polls = if most == 0 {
            0
        } else {
            (chaos.random.next() % (most + 1)) as u32
        };
        chaos.injected.delays += u64::from(polls > 0);
        polls
    }

    /// Returns the time, if the fabric has a delay.
    fn now(&self) -> Option<Time> {
        self.latency.as_ref().map(|latency| latency.now())
    }

    /// Returns the arrival time of a request that is sent now.
    fn arrival(&self) -> Option<Time> {
        self.latency
            .as_ref()
            .map(|latency| latency.after(latency.now()))
    }

    /// Returns the time at which the acknowledgement of a request that arrives at `taken` is
    /// received.
    fn acknowledgement(&self, taken: Option<Time>) -> Option<Time> {
        let taken = taken?;
        self.latency.as_ref().map(|latency| latency.after(taken))
    }

    /// Executes delayed requests that are due.
    fn progress(&self) {
        if let Some(latency) = &self.latency {
            latency.deliver();
        }
        if !self.is_faulty() {
            return;
        }
        self.qp_pairs().iter().for_each(|link| link.progress());
    }

    /// Returns true if requests are delayed by faults.
    fn has_delayed(&self) -> bool {
        self.is_faulty() && self.qp_pairs().iter().any(|link| link.has_delayed())
    }

    fn qp_pairs(&self) -> Vec<Arc<QpPair>> {
        let mut chaos = self.lock_faults();
        chaos.qp_pairs.retain(|link| link.strong_count() > 0);
        chaos.qp_pairs.iter().filter_map(Weak::upgrade).collect()
    }

    fn attach(&self, link: &Arc<QpPair>) {
        let mut chaos = self.lock_faults();
        if chaos.qp_pairs.len() == chaos.qp_pairs.capacity() {
            chaos.qp_pairs.retain(|link| link.strong_count() > 0);
        }
        chaos.qp_pairs.push(Arc::downgrade(link));
    }

    fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn ephemeral(&self) -> SocketAddr {
        let port = self.ports.fetch_add(1, Ordering::Relaxed).max(49152);
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
    }

    fn listeners(
        &self,
    ) -> MutexGuard<'_, HashMap<SocketAddr, Weak<EventQueue<SoftwareConnectRequest>>>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(
        &self,
        address: SocketAddr,
        events: &Arc<EventQueue<SoftwareConnectRequest>>,
    ) -> Result<SocketAddr> {
        let mut listeners = self.listeners();
        let mut address = address;
        if address.port() == 0 {
            while address.port() == 0 || listeners.contains_key(&address) {
                address.set_port(self.ephemeral().port());
            }
        }
        if listeners
            .get(&address)
            .is_some_and(|listener| listener.strong_count() > 0)
        {
            return Err(VerbError {
                verb: "listen",
                cause: Cause::AddressInUse(address),
            });
        }
        listeners.insert(address, Arc::downgrade(events));
        Ok(address)
    }

    fn unlisten(&self, address: &SocketAddr) {
        self.listeners().remove(address);
    }

    fn listener(&self, address: &SocketAddr) -> Option<Arc<EventQueue<SoftwareConnectRequest>>> {
        self.listeners().get(address).and_then(Weak::upgrade)
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        if let Some(latency) = &self.latency {
            latency.end();
        }
    }
}

impl SoftwareDevice {
    /// Ends the connections of this device like a loss of power, without informing the peers.
    /// Requests that have reached the device stay acknowledged. Later requests of peers fail,
    /// because the device does not respond. The device can establish new connections, as after a
    /// restart.
    pub fn lose_power(&self) {
        self.fabric
            .qp_pairs()
            .iter()
            .for_each(|link| link.lose_power(&self.domain));
    }

    /// Makes the device refuse to end registrations, windows and queues, or stops that. This
    /// simulates a device whose firmware has failed. An object whose end was refused is never
    /// ended.
    pub fn refuse_ends(&self, refuses: bool) {
        self.domain.refuse_ends(refuses);
    }
}

impl QpState {
    fn established(&self, private_data: &[u8]) {
        let (queue_pair, private_data) = (self.number, private_data.into());
        self.push_event(ConnectionEvent::Established {
            queue_pair,
            private_data,
        });
    }

    fn refused(&self, private_data: &[u8]) {
        self.push_event(ConnectionEvent::Failed {
            queue_pair: self.number,
            rejected: true,
            private_data: private_data.into(),
            error: None,
        });
    }

    fn unreachable(&self, address: SocketAddr) {
        self.push_event(ConnectionEvent::Failed {
            queue_pair: self.number,
            rejected: false,
            private_data: Box::default(),
            error: Some(VerbError {
                verb: "connect",
                cause: Cause::Unreachable(address),
            }),
        });
    }
}

impl Device for SoftwareDevice {
    type Region = SoftwareRegion;
    type Window = SoftwareWindow;
    type CompletionQueue = SoftwareCompletionQueue;
    type SharedReceives = SoftwareSharedReceives;
    type QueuePair = SoftwareQueuePair;
    type Manager = SoftwareConnectionManager;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn protection_domain(&self) -> ProtectionDomainId {
        self.domain_id
    }

    #[allow(unsafe_code, reason = "the promise is the caller's")]
    unsafe fn register(
        &self,
        memory: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<SoftwareRegion> {
        // As with verbs, memory that the peer may write must be locally writable, and windows need
        // a device that has them.
        if (access.remote_write && !access.local_write)
            || (access.bind && !self.capabilities.windows)
        {
            return Err(invalid("register"));
        }
        // SAFETY: the caller promises that the memory stays valid until the region is dropped,
        // which removes the key.
        let key = unsafe { self.domain.register(memory, length, access)? };
        Ok(SoftwareRegion {
            domain: self.domain.clone(),
            key,
            ended: None,
        })
    }

    fn window(&self) -> Result<SoftwareWindow> {
        if !self.capabilities.windows {
            return Err(VerbError {
                verb: "window",
                cause: Cause::Limit,
            });
        }
        Ok(SoftwareWindow {
            domain: self.domain.clone(),
            key: self.domain.window()?,
            ended: None,
        })
    }

    fn completion_queue(&self, entries: u32) -> Result<SoftwareCompletionQueue> {
        SoftwareCompletionQueue::new(self.fabric.clone(), entries)
    }

    fn shared_receives(&self, entries: u32) -> Result<SoftwareSharedReceives> {
        let slices = self.capabilities.max_sge;
        let queue = SharedQueue::new(self.domain.clone(), entries, slices);
        Ok(SoftwareSharedReceives(queue))
    }

    fn manager(&self) -> Result<SoftwareConnectionManager> {
        SoftwareConnectionManager::new(self.clone())
    }
}

impl super::MemoryRegion for SoftwareRegion {
    fn local_key(&self) -> u32 {
        self.key
    }

    fn remote_key(&self) -> u32 {
        self.key
    }

    fn deregister(&mut self) -> bool {
        let Self { domain, key, ended } = self;
        *ended
            .get_or_insert_with(|| domain.end_unless_refused(|| domain.forget(domain.number(*key))))
    }
}

impl Drop for SoftwareRegion {
    fn drop(&mut self) {
        super::MemoryRegion::deregister(self);
    }
}

impl super::Window for SoftwareWindow {
    fn number(&self) -> u32 {
        self.domain.number(self.key)
    }

    fn key(&self) -> u32 {
        self.key
    }

    fn end(&mut self) -> bool {
        let Self { domain, key, ended } = self;
        *ended
            .get_or_insert_with(|| domain.end_unless_refused(|| domain.forget(domain.number(*key))))
    }
}

impl Drop for SoftwareWindow {
    fn drop(&mut self) {
        super::Window::end(self);
    }
}

impl super::SharedReceives for SoftwareSharedReceives {
    #[allow(unsafe_code, reason = "the promise is the caller's")]
    unsafe fn post(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        self.0.post(receives, slices)
    }

    fn end(&self) -> bool {
        self.0.end_once()
    }
}

#[allow(
    unsafe_code,
    reason = "the promise is the caller's: what is posted is kept as addresses, and touched in \
        `memory` alone"
)]
impl super::QueuePair for SoftwareQueuePair {
    fn number(&self) -> u32 {
        self.number
    }

    unsafe fn post(&self, requests: &[WorkRequest], slices: &[Sge]) -> Result<()> {
        self.link.post(self.side, requests, slices)
    }

    unsafe fn post_receives(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        self.link.post_receives(self.side, receives, slices)
    }

    fn disconnect(&self) {
        self.link.disconnect(self.side);
    }

    fn end(&self) -> bool {
        *self.ended.get_or_init(|| {
            self.domain
                .end_unless_refused(|| self.link.leave(self.side))
        })
    }
}

impl Drop for SoftwareQueuePair {
    fn drop(&mut self) {
        super::QueuePair::end(self);
    }
}
