//! A fabric in software, within one process: the default provider. It needs no device, no privileges and nothing installed.
//!
//! It is as strict as devices are, or stricter: keys with tags, bounds and rights checked at each access, type-2 memory
//! windows that are reached through one queue pair alone, a message without a receive ends its connection (`rnr_retry` 0),
//! requests are flushed in their order after an error, send queues free their places by completions that are polled, and a
//! completion queue overruns when it is too small. Work is done when it is posted, in the poster's thread, unless
//! [`Faults`] delay it, or the fabric has a [delay](Fabric::with_delay).

mod completion;
mod faults;
mod latency;
mod link;
mod manager;
mod memory;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

pub use completion::CompletionQueue;
use completion::invalid;
use faults::Random;
pub use faults::{Faults, Injected};
use latency::{Latency, Time};
pub use link::SharedReceives;
use link::{End, Link};
use manager::Notices;
pub use manager::{Manager, Request};
use memory::Domain;

use super::{Access, Capabilities, Cause, ConnectionEvent, Device, Receive, Result, Slice, VerbError, WorkRequest};

/// Octets that a Send takes along when it is posted: what devices usually do.
const INLINE: u32 = 512;

/// A fabric: what its devices can reach.
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
    listeners: Mutex<HashMap<SocketAddr, Weak<Notices>>>,
    numbers: AtomicU32,
    ports: AtomicU16,
    seeds: AtomicU32,
    faulty: AtomicBool,
    chaos: Mutex<Chaos>,
    /// None if there is no delay.
    latency: Option<Arc<Latency>>,
}

#[derive(Debug)]
struct Chaos {
    faults: Faults,
    random: Random,
    injected: Injected,
    /// What may have delayed work.
    links: Vec<Weak<Link>>,
}

/// A device of the software fabric, with a protection domain of its own.
#[derive(Clone, Debug)]
pub struct SoftwareDevice {
    fabric: Arc<Fabric>,
    domain: Arc<Domain>,
    capabilities: Arc<Capabilities>,
}

/// Memory that was registered with a device of the software fabric.
#[derive(Debug)]
pub struct Region {
    domain: Arc<Domain>,
    key: u32,
}

/// A memory window of the software fabric.
#[derive(Debug)]
pub struct Window {
    domain: Arc<Domain>,
    key: u32,
}

/// A queue pair of the software fabric.
#[derive(Debug)]
pub struct QueuePair {
    link: Arc<Link>,
    side: usize,
    number: u32,
}

impl Fabric {
    /// A fabric of its own.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::with_latency(None)
    }

    /// A fabric whose octets take so long from one end of a connection to the other: a link of endless bandwidth, over which
    /// any number of requests are under way at once. So calls show how many round trips they take.
    ///
    /// What is posted reaches the peer after this time: the message is received, the octets are written, or those to be read
    /// are taken. Its completion takes as long again. Windows are bound and invalidated without delay, but in their turn. No
    /// time is taken by connections, neither to begin nor to end; what is under way when one ends gets no further. As many
    /// RDMA Reads go together as are posted, whatever a queue pair was made for.
    ///
    /// Whoever polls a completion queue does what is due. Who sleeps on its descriptor is woken by a thread, which is started
    /// for the first that is armed, and comes later than a poll would by what the system takes to wake threads.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use rpcrdma_verbs::measure::{Ends, ping_pong};
    /// use rpcrdma_verbs::provider::software::Fabric;
    ///
    /// let fabric = Fabric::with_delay(Duration::from_micros(50));
    /// let ends = Ends { near: fabric.device(), far: fabric.device(), address: ([127, 0, 0, 1], 0).into() };
    /// assert!(ping_pong(&ends, (64, 64), (1, 1), 100)? >= 100_000.0);
    /// # Ok::<(), rpcrdma_verbs::driver::DriverError>(())
    /// ```
    #[must_use]
    pub fn with_delay(one_way: Duration) -> Arc<Self> {
        Self::with_latency((!one_way.is_zero()).then(|| Latency::new(one_way)))
    }

    fn with_latency(latency: Option<Arc<Latency>>) -> Arc<Self> {
        let chaos = Chaos {
            faults: Faults::default(),
            random: Random::new(0),
            injected: Injected::default(),
            links: Vec::new(),
        };
        Arc::new(Self {
            listeners: Mutex::default(),
            numbers: AtomicU32::new(1),
            ports: AtomicU16::new(49152),
            seeds: AtomicU32::new(1),
            faulty: AtomicBool::new(false),
            chaos: Mutex::new(chaos),
            latency,
        })
    }

    /// A device on this fabric: it can do all that the software can.
    #[must_use]
    pub fn device(self: &Arc<Self>) -> SoftwareDevice {
        self.device_with(Capabilities {
            name: "software".to_owned(),
            windows: true,
            slices: link::SLICES,
            read_slices: link::SLICES,
            reads: 128,
            message: 1 << 30,
            inline: INLINE,
            read_sink_is_exposed: false,
            rnr_retry: true,
            acknowledges: true,
            guards_windows: true,
            guards_reads: true,
        })
    }

    /// A device on this fabric that says it can do less.
    #[must_use]
    pub fn device_with(self: &Arc<Self>, capabilities: Capabilities) -> SoftwareDevice {
        let seed = u64::from(self.seeds.fetch_add(1, Ordering::Relaxed));
        // Tags are to be unlike from run to run: an address is as good as any seed.
        let seed = seed ^ (Arc::as_ptr(self).addr() as u64) << 8;
        SoftwareDevice { fabric: self.clone(), domain: Domain::new(seed), capabilities: Arc::new(capabilities) }
    }

    /// Lets things go wrong from now on.
    pub fn inject(&self, faults: Faults) {
        let mut chaos = self.chaos();
        (chaos.faults, chaos.random) = (faults, Random::new(faults.seed));
        // What was delayed still has to be done: once on, progress is made for good.
        self.faulty.fetch_or(faults.any(), Ordering::Relaxed);
    }

    /// How often each fault was injected so far.
    #[must_use]
    pub fn injected(&self) -> Injected {
        self.chaos().injected
    }

    fn chaos(&self) -> MutexGuard<'_, Chaos> {
        self.chaos.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_faulty(&self) -> bool {
        self.faulty.load(Ordering::Relaxed)
    }

    /// Draws one fault, if faults are on at all.
    fn draws(&self, chance: impl Fn(&Faults) -> u16, count: impl Fn(&mut Injected) -> &mut u64) -> bool {
        if !self.is_faulty() {
            return false;
        }
        let mut chaos = self.chaos();
        let odds = chance(&chaos.faults);
        let drawn = chaos.random.chance(odds);
        if drawn {
            *count(&mut chaos.injected) += 1;
        }
        drawn
    }

    fn disconnects(&self) -> bool {
        self.draws(|faults| faults.disconnect, |injected| &mut injected.disconnects)
    }

    fn is_not_ready(&self) -> bool {
        self.draws(|faults| faults.not_ready, |injected| &mut injected.not_ready)
    }

    fn refuses_key(&self) -> bool {
        self.draws(|faults| faults.bad_key, |injected| &mut injected.bad_keys)
    }

    fn loses_wakeup(&self) -> bool {
        self.draws(|faults| faults.lost_wakeup, |injected| &mut injected.lost_wakeups)
    }

    /// Polls by which the next request is delayed.
    fn delay(&self) -> u32 {
        if !self.is_faulty() {
            return 0;
        }
        let mut chaos = self.chaos();
        let most = u64::from(chaos.faults.delay);
        // Below the most, of 32 bits.
        let polls = if most == 0 { 0 } else { (chaos.random.next() % (most + 1)) as u32 };
        chaos.injected.delays += u64::from(polls > 0);
        polls
    }

    /// What time it is, where that matters.
    fn now(&self) -> Option<Time> {
        self.latency.as_ref().map(|latency| latency.now())
    }

    /// When what sets out now is at the other end.
    fn arrival(&self) -> Option<Time> {
        self.latency.as_ref().map(|latency| latency.after(latency.now()))
    }

    /// When the acknowledgement of what is taken at a time is back.
    fn acknowledgement(&self, taken: Option<Time>) -> Option<Time> {
        let taken = taken?;
        self.latency.as_ref().map(|latency| latency.after(taken))
    }

    /// Lets time pass for what was delayed.
    fn progress(&self) {
        if let Some(latency) = &self.latency {
            latency.deliver();
        }
        if !self.is_faulty() {
            return;
        }
        self.links().iter().for_each(|link| link.progress());
    }

    /// Whether anything waits for time to pass.
    fn has_delayed(&self) -> bool {
        self.is_faulty() && self.links().iter().any(|link| link.has_delayed())
    }

    fn links(&self) -> Vec<Arc<Link>> {
        let mut chaos = self.chaos();
        chaos.links.retain(|link| link.strong_count() > 0);
        chaos.links.iter().filter_map(Weak::upgrade).collect()
    }

    fn attach(&self, link: &Arc<Link>) {
        let mut chaos = self.chaos();
        if chaos.links.len() == chaos.links.capacity() {
            chaos.links.retain(|link| link.strong_count() > 0);
        }
        chaos.links.push(Arc::downgrade(link));
    }

    fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn ephemeral(&self) -> SocketAddr {
        let port = self.ports.fetch_add(1, Ordering::Relaxed).max(49152);
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<SocketAddr, Weak<Notices>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, address: SocketAddr, notices: &Arc<Notices>) -> Result<SocketAddr> {
        let mut listeners = self.listeners();
        let mut address = address;
        if address.port() == 0 {
            while address.port() == 0 || listeners.contains_key(&address) {
                address.set_port(self.ephemeral().port());
            }
        }
        if listeners.get(&address).is_some_and(|listener| listener.strong_count() > 0) {
            return Err(VerbError { verb: "listen", cause: Cause::AddressInUse(address) });
        }
        listeners.insert(address, Arc::downgrade(notices));
        Ok(address)
    }

    fn unlisten(&self, address: &SocketAddr) {
        self.listeners().remove(address);
    }

    fn listener(&self, address: &SocketAddr) -> Option<Arc<Notices>> {
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
    /// Ends its connections as a loss of power does: nobody is told. What has reached it stays acknowledged; what peers post to
    /// them from now on fails, as nobody answers. It can make others, as after a new start.
    pub fn lose_power(&self) {
        self.fabric.links().iter().for_each(|link| link.lose_power(&self.domain));
    }
}

impl End {
    fn established(&self, private_data: &[u8]) {
        let (queue_pair, private_data) = (self.number, private_data.into());
        self.notices().tell(ConnectionEvent::Established { queue_pair, private_data });
    }

    fn refused(&self, private_data: &[u8]) {
        self.failed(true, private_data);
    }

    fn failed(&self, rejected: bool, private_data: &[u8]) {
        let (queue_pair, private_data) = (self.number, private_data.into());
        self.notices().tell(ConnectionEvent::Failed { queue_pair, rejected, private_data, why: None });
    }
}

impl Device for SoftwareDevice {
    type Region = Region;
    type Window = Window;
    type CompletionQueue = CompletionQueue;
    type SharedReceives = SharedReceives;
    type QueuePair = QueuePair;
    type Manager = Manager;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    #[allow(unsafe_code, reason = "the promise is the caller's")]
    unsafe fn register(&self, memory: NonNull<u8>, length: usize, access: Access) -> Result<Region> {
        // As verbs have it: what the peer writes is ours to write, too; and windows need a device that has them.
        if (access.remote_write && !access.local_write) || (access.bind && !self.capabilities.windows) {
            return Err(invalid("register"));
        }
        // SAFETY: the caller promises that the memory stays until the region is dropped, which drops the key.
        let key = unsafe { self.domain.register(memory, length, access)? };
        Ok(Region { domain: self.domain.clone(), key })
    }

    fn window(&self) -> Result<Window> {
        if !self.capabilities.windows {
            return Err(VerbError { verb: "window", cause: Cause::Limit });
        }
        Ok(Window { domain: self.domain.clone(), key: self.domain.window()? })
    }

    fn completion_queue(&self, entries: u32) -> Result<CompletionQueue> {
        CompletionQueue::new(self.fabric.clone(), entries)
    }

    fn shared_receives(&self, entries: u32) -> Result<SharedReceives> {
        Ok(SharedReceives::new(self.domain.clone(), entries, self.capabilities.slices))
    }

    fn manager(&self) -> Result<Manager> {
        Manager::new(self.clone())
    }
}

impl super::Region for Region {
    fn local_key(&self) -> u32 {
        self.key
    }

    fn remote_key(&self) -> u32 {
        self.key
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.domain.forget(memory::number(self.key));
    }
}

impl super::Window for Window {
    fn number(&self) -> u32 {
        memory::number(self.key)
    }

    fn key(&self) -> u32 {
        self.key
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.domain.forget(memory::number(self.key));
    }
}

impl super::SharedReceives for SharedReceives {
    #[allow(unsafe_code, reason = "the promise is the caller's")]
    unsafe fn post(&self, receives: &[Receive], slices: &[Slice]) -> Result<()> {
        Self::post(self, receives, slices)
    }
}

#[allow(
    unsafe_code,
    reason = "the promise is the caller's: what is posted is kept as addresses, and touched in `memory` alone"
)]
impl super::QueuePair for QueuePair {
    fn number(&self) -> u32 {
        self.number
    }

    unsafe fn post(&self, requests: &[WorkRequest], slices: &[Slice]) -> Result<()> {
        self.link.post(self.side, requests, slices)
    }

    unsafe fn post_receives(&self, receives: &[Receive], slices: &[Slice]) -> Result<()> {
        self.link.post_receives(self.side, receives, slices)
    }

    fn disconnect(&self) {
        self.link.disconnect(self.side);
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.link.leave(self.side);
    }
}
