//! A driver: the connections of one core, with their completion queue and their memory.
//!
//! A driver acts only when it is called. [`Driver::turn`] takes completions, asks the engine for
//! actions, and posts work requests. [`Driver::wait`] sleeps until there is something to take. New
//! calls are sent by the next turn, or by [`Driver::flush`]. A driver can be sent to another
//! thread, but threads share nothing of it, so an RPC wakes no thread.
//!
//! RPC messages are bytes here, with items beside them. For typed clients and services use
//! [channels and servers](crate). Use a driver directly to build another RPC layer on it.
//!
//! ```
//! use rpcrdma_proto::connection::Config;
//! use rpcrdma_verbs::driver::{CallParams, Driver, DriverEvent};
//! use rpcrdma_verbs::memory::Budget;
//! use rpcrdma_verbs::provider::software::Fabric;
//!
//! let (fabric, budget) = (Fabric::new(), Budget::new(1 << 26));
//! let mut near = Driver::new(&fabric.device(), &budget, 256)?;
//! let mut far = Driver::new(&fabric.device(), &budget, 256)?;
//! let listener = far.listen("192.0.2.1:20049".parse()?, Config::server())?;
//! let client = near.connect(listener.address(), Config::client())?;
//!
//! // XID, CALL, RPC version 2, program 7, version 1, procedure 0, no credentials, no verifier.
//! let message = [0u32, 0, 2, 7, 1, 0, 0, 0, 0, 0];
//! let mut params = CallParams::new(64);
//! let xid = near.call(client, &mut params, |writer| {
//!     message.iter().try_for_each(|word| writer.put(word).map(drop))
//! })?;
//! loop {
//!     near.turn()?;
//!     far.turn()?;
//!     if let Some(request) = far.next_request(listener) {
//!         far.accept(listener, request);
//!     }
//!     while let Some(server) = far.ready_accepted(listener) {
//!         while let Some(event) = far.poll_event(server) {
//!             if let DriverEvent::CallArrived { call, xid, .. } = event {
//!                 // XID, REPLY, accepted, no verifier, success.
//!                 let reply = [xid, 1, 0, 0, 0, 0];
//!                 far.reply(server, call, |writer| {
//!                     reply.iter().try_for_each(|word| writer.put(word).map(drop))
//!                 })?;
//!             }
//!         }
//!     }
//!     if let Some(DriverEvent::ReplyArrived { xid: of, message }) = near.poll_event(client) {
//!         assert_eq!((of, &message.bytes()[..4]), (xid, &xid.to_be_bytes()[..]));
//!         break;
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod connection;
#[cfg(feature = "metrics")]
pub(crate) mod describe;
mod error;
mod establish;
mod events;
pub(crate) mod exposure;
mod keepalive;
mod listener;
mod message;
mod peer_limits;
#[cfg(feature = "metrics")]
mod publish;
mod receive_pool;
mod spin;
mod turn;
mod wakeup;

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{CloseReason, Config, ReplyError, Role, ServedCallId, Session};
use rpcrdma_proto::placement::{BufferSegment, BufferStructure};
use rpcrdma_proto::transfer::MAX_RESULTS;
use xdrgen_runtime::SharedBytes;

use clock::Clock;
use connection::Connection;
pub use error::{ConnectError, DriverError};
pub(crate) use events::Items;
pub use events::{
    BeginError, CallBuffers, CallParams, ConnectionCounters, DriverEvent, OutgoingCallError,
    OutgoingReplyError, Payload, PlacedItem,
};
use keepalive::KeepAlive;
pub use listener::{IncomingConnection, ListenerHandle};
use listener::{Listener, Origin};
pub use message::{WriteError, Writer};
pub(crate) use peer_limits::PeerLimits;
use receive_pool::ReceivePool;
#[cfg(feature = "tokio")]
pub(crate) use spin::DEFAULT_SPIN;
use spin::Spin;
use wakeup::Wakeup;

use crate::memory::{Budget, Buf, BufCache, Pool};
use crate::number_map::NumberMap;
use crate::provider::{Completion, Device};
use crate::queue::{Batch, MAX_SGE};

/// The identifier of a connection of a [`Driver`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConnectionId(u32);

impl ConnectionId {
    /// Returns the index of the slot. The generation distinguishes successive connections of one
    /// slot.
    pub(crate) const fn index(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    /// Returns the number of the connection, which
    /// [`Context::connection`](oncrpc::Context::connection) returns to handlers.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0 as u64
    }

    /// Returns the connection with a number.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        u32::try_from(number).ok().map(Self)
    }

    const fn generation(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

/// The connections of one core.
#[derive(Debug)]
pub struct Driver<D: Device> {
    // `connections` is the first field, so queue pairs are dropped before the memory that they use.
    connections: Vec<Slot<D>>,
    free: Vec<u32>,
    by_qpn: NumberMap<u32, ConnectionId>,
    manager: D::Manager,
    completions: D::CompletionQueue,
    /// The receives of all connections, if connections share receives.
    shared_receives: Option<ReceivePool<D>>,
    /// True if peers may have windows that do not confine them.
    trusts_peers: bool,
    pool: Pool<D>,
    device: D,
    listeners: Vec<Listener<D>>,
    /// True if `flush` produced events that no turn has counted.
    has_flushed_events: bool,
    scratch: Scratch,
    completion_batch: Vec<Completion>,
    /// Queue pairs whose connections have ended, with the reasons.
    ended_queue_pairs: Vec<(u32, CloseReason)>,
    /// Connections that have work to do, each listed once (`Slot::dirty`). `drive` drives only
    /// these.
    dirty: Vec<ConnectionId>,
    /// Connections of clients that have events.
    ready: VecDeque<ConnectionId>,
    /// A lower bound of the deadlines of all connections and transfers, and of the alarm.
    next_deadline: u64,
    /// When to wake the user of the driver, and how often that was.
    alarm: u64,
    alarms: u64,
    keep_alive: KeepAlive,
    watcher: Option<Watcher>,
    wakeup: Arc<Wakeup>,
    clock: Clock,
    spin: Spin,
    /// The counters of connections that were forgotten.
    past: ConnectionCounters,
}

#[derive(Debug)]
struct Slot<D: Device> {
    generation: u16,
    dirty: bool,
    /// True if the connection is in a queue of connections with events.
    ready: bool,
    origin: Origin,
    /// The number of the connection's latest queue pair.
    qpn: Option<u32>,
    connection: Option<Box<Connection<D>>>,
}

impl<D: Device> Slot<D> {
    /// Returns the identifier of the current connection of this slot, which has index `at`.
    fn id(&self, at: usize) -> ConnectionId {
        ConnectionId(u32::from(self.generation) << 16 | u32::try_from(at).unwrap_or(u32::MAX))
    }
}

/// Memory that all connections use in turn.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Memory for the header of a message.
    pub(crate) header: Box<[u8]>,
    pub(crate) batch: Box<Batch>,
    /// Free buffers for receives.
    pub(crate) receives: BufCache,
}

/// A callback that receives the bytes of each message that is sent, without data that are gathered
/// from their own buffers. [`dump`](crate::dump) decodes the header.
pub struct Watcher(Box<WatchFn>);

/// The function of a [`Watcher`].
type WatchFn = dyn FnMut(ConnectionId, &[u8]) + Send;

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

/// The maximum number of completions that are taken at once.
const COMPLETION_BATCH: usize = 32;
/// The number of slot indices, which have 16 bits. The last index is not used, so a driver has one
/// connection less.
const MAX_CONNECTIONS: u32 = 1 << 16;
/// The alignment of buffers that have at least this many bytes.
const MAX_ALIGNMENT: u32 = 4096;
/// The depth of the send queue of a queue pair.
const SEND_QUEUE_DEPTH: u32 = 1024;

impl<D: Device> Driver<D> {
    /// Creates a driver on a device. Its completion queue has `completions` entries, and `budget`
    /// limits its memory.
    ///
    /// # Errors
    /// Fails if the device refuses.
    pub fn new(device: &D, budget: &Budget, completions: u32) -> Result<Self, DriverError> {
        Self::with_pool(Pool::new(device, budget), completions)
    }

    /// Creates a driver that takes its memory from this pool, on the pool's device. Its completion
    /// queue has `completions` entries.
    ///
    /// # Errors
    /// Fails if the device refuses.
    pub fn with_pool(pool: Pool<D>, completions: u32) -> Result<Self, DriverError> {
        let device = pool.device().clone();
        Ok(Self {
            connections: Vec::new(),
            free: Vec::new(),
            by_qpn: NumberMap::default(),
            manager: device.manager()?,
            completions: device.completion_queue(completions)?,
            shared_receives: None,
            trusts_peers: false,
            pool,
            device,
            listeners: Vec::new(),
            has_flushed_events: false,
            scratch: Scratch {
                header: vec![0; 1 << 16].into(),
                batch: Box::default(),
                receives: BufCache::default(),
            },
            completion_batch: Vec::with_capacity(COMPLETION_BATCH),
            ended_queue_pairs: Vec::new(),
            dirty: Vec::new(),
            ready: VecDeque::new(),
            next_deadline: u64::MAX,
            alarm: u64::MAX,
            alarms: 0,
            keep_alive: KeepAlive::new(completions),
            watcher: None,
            wakeup: Wakeup::new()?,
            clock: Clock::new(),
            spin: Spin::new(spin::DEFAULT_SPIN),
            past: ConnectionCounters::default(),
        })
    }

    /// Returns the pool of registered buffers.
    #[must_use]
    pub fn pool(&self) -> &Pool<D> {
        &self.pool
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Returns the time of the driver's deadlines: microseconds since the driver was created.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Returns a waker that ends [`wait`](Self::wait), from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.wakeup.clone().into()
    }

    /// Makes all connections receive from one queue of `count` buffers of `size` bytes, so that an
    /// idle connection occupies no buffer. Call this before there are connections. Their settings
    /// must have `size` as `receive_size`, and no larger `max_receive_size`.
    ///
    /// `count` may be less than the sum of the credits of all peers. While all buffers are in use,
    /// messages wait at the peers by RNR retry, which the device must have.
    ///
    /// # Errors
    /// Fails if the device has no shared receive queues or no RNR retry, if there are connections,
    /// or if the budget is used up.
    pub fn share_receives(&mut self, count: u32, size: u32) -> Result<(), DriverError> {
        if !self.connections.is_empty() || !self.device.capabilities().rnr_retry {
            return Err(DriverError::CannotShareReceives);
        }
        let mut shared = ReceivePool::new(&self.device, count, size)?;
        shared.fill(&self.pool)?;
        self.shared_receives = Some(shared);
        Ok(())
    }

    /// Exposes memory by windows also on a device whose windows do not confine the peer
    /// ([`Capabilities::guards_windows`](crate::provider::Capabilities::guards_windows)). Use it
    /// only if the peers are trusted. Otherwise the driver registers memory for each call on such a
    /// device, which costs more. Call this before there are connections.
    pub fn trust_peers_with_windows(&mut self) {
        self.trusts_peers = true;
    }

    /// Returns true if memory is exposed by windows.
    fn uses_windows(&self) -> bool {
        let can = self.device.capabilities();
        can.windows && (can.guards_windows || self.trusts_peers)
    }

    /// Sets how long [`wait`](Self::wait), and a channel or server on this driver, polls for work
    /// before it sleeps (default 50 µs). It polls for a shorter time if work rarely arrives so
    /// soon, and not at all if other threads want to run on its core.
    pub fn set_spin(&mut self, longest: Duration) {
        self.spin = Spin::new(longest);
    }

    /// Passes each message that is sent from now on to `watcher`.
    pub fn watch(&mut self, watcher: impl FnMut(ConnectionId, &[u8]) + Send + 'static) {
        self.watcher = Some(Watcher(Box::new(watcher)));
    }

    /// Starts a session with a server.
    ///
    /// # Errors
    /// Fails if the settings are invalid, or if the driver has the maximum number of connections.
    pub fn connect(
        &mut self,
        server: SocketAddr,
        config: Config,
    ) -> Result<ConnectionId, DriverError> {
        self.connect_from(Origin::Client(server), server, config)
    }

    /// Starts a session with a server that has a name: each attempt to connect
    /// [waits](Self::wants_address) until [`set_address`](Self::set_address) passes it an address.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub fn connect_by_name(&mut self, config: Config) -> Result<ConnectionId, DriverError> {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        self.connect_from(Origin::NamedServer, unknown, config)
    }

    fn connect_from(
        &mut self,
        origin: Origin,
        server: SocketAddr,
        config: Config,
    ) -> Result<ConnectionId, DriverError> {
        let (seed, hash_seed) = seeds(&config);
        self.check(&config)?;
        // Remote invalidation is not requested of a device that it can harm.
        let invalidates = self.uses_windows() && self.device.capabilities().remote_invalidation();
        let remote_invalidation = config.remote_invalidation && invalidates;
        let session = Session::new(Config {
            role: Role::Client,
            xid_seed: seed,
            hash_seed,
            remote_invalidation,
            ..config
        })?;
        self.insert(session, origin, server)
            .ok_or(DriverError::TooManyConnections)
    }

    fn check(&self, config: &Config) -> Result<(), DriverError> {
        config.check()?;
        if let Some(structure) = config.rtr.and_then(|rtr| rtr.structure) {
            self.check_structure(&structure)?;
        }
        match self.shared_receives.as_ref().map(ReceivePool::size) {
            Some(size) if size != config.receive_size || size != config.largest_receive() => {
                Err(DriverError::SharedReceiveSize { size })
            }
            _ => Ok(()),
        }
    }

    /// Checks that receive buffers with this structure can be made.
    fn check_structure(&self, structure: &BufferStructure) -> Result<(), DriverError> {
        let (segments, most) = (
            structure.segments(),
            self.device.capabilities().max_sge.min(MAX_SGE),
        );
        let is_aligned = |segment: &BufferSegment| {
            segment.align <= 1 || MAX_ALIGNMENT.is_multiple_of(segment.align)
        };
        if self.shared_receives.is_some() {
            Err(DriverError::SharedReceiveStructure)
        } else if segments.len() > most {
            Err(DriverError::TooManySegments { max: most })
        } else if !segments
            .iter()
            .all(|segment| is_aligned(segment) && segment.align <= segment.length.max(1))
        {
            Err(DriverError::Alignment)
        } else {
            Ok(())
        }
    }

    /// Returns a connection of a client that has events. Call [`poll_event`](Self::poll_event)
    /// until it returns `None`. So there is no need to poll every client.
    pub fn ready(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(slot) = self.slot(id) {
                slot.ready = false;
                return Some(id);
            }
        }
        None
    }

    /// Returns the engine of a connection.
    #[must_use]
    pub fn session(&self, id: ConnectionId) -> Option<&Session> {
        self.get(id).map(|connection| &connection.session)
    }

    /// Returns the engine of a connection for requests of its consumer. The next turn, or
    /// [`flush`](Self::flush), performs what follows from them.
    pub fn session_mut(&mut self, id: ConnectionId) -> Option<&mut Session> {
        self.touch_mut(id).map(|connection| &mut connection.session)
    }

    /// Takes the reason why the last attempt to connect failed, if it did.
    pub fn take_connect_error(&mut self, id: ConnectionId) -> Option<ConnectError> {
        self.get_mut(id)?.connect_error.take()
    }

    /// Returns the counters of a connection's transport.
    #[must_use]
    pub fn counters(&self, id: ConnectionId) -> Option<ConnectionCounters> {
        self.get(id).map(|connection| connection.counters)
    }

    /// Returns the counters of all connections' transports, with those of closed connections.
    #[must_use]
    pub fn total_counters(&self) -> ConnectionCounters {
        let present = self.connections().map(|connection| connection.counters);
        present.fold(self.past, |sum, one| sum + one)
    }

    /// Returns the connections that there are.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &Connection<D>> {
        let slots = self.connections.iter();
        slots.filter_map(|slot| slot.connection.as_deref())
    }

    /// Begins a call: `write` writes the RPC message, whose XID the engine sets and this returns.
    /// The next turn sends it. It takes the buffers for the results.
    ///
    /// # Errors
    /// Returns the reason why the call can't begin, and the buffers.
    pub fn call(
        &mut self,
        id: ConnectionId,
        request: &mut CallParams,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<u32, BeginError> {
        match self.touch_mut(id) {
            Some(connection) => connection.call(request, write),
            None => {
                let memory = Box::new(CallBuffers {
                    results: std::mem::take(&mut request.results),
                    ..CallBuffers::default()
                });
                Err(BeginError {
                    error: OutgoingCallError::NoConnection,
                    buffers: memory,
                })
            }
        }
    }

    /// Replies to a call of the peer: `write` writes the RPC message, which begins with the call's
    /// XID. The next turn sends it.
    ///
    /// # Errors
    /// Returns the reason why there can be no reply. If it can't be written, another one can.
    pub fn reply(
        &mut self,
        id: ConnectionId,
        call: ServedCallId,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<(), OutgoingReplyError> {
        self.touch_mut(id)
            .ok_or(OutgoingReplyError::Reply(ReplyError::Ended))?
            .reply(call, write)
    }

    /// Recycles the memory of a received message. A dropped message returns its memory to the pool,
    /// which costs slightly more.
    pub fn recycle(&mut self, id: ConnectionId, payload: Payload) {
        let Payload { buf, items, .. } = payload;
        self.scratch.receives.put(buf);
        if let (Some(items), Some(connection)) = (items, self.get_mut(id)) {
            connection.recycle(items);
        }
    }

    /// Takes back the memory of a message, if nothing else has a share in it.
    pub(crate) fn recycle_shared(&mut self, bytes: SharedBytes) {
        if let Some(buf) = Buf::from_shared(bytes) {
            self.scratch.receives.put(buf);
        }
    }

    /// Takes back the memory of a list of placed items.
    pub(crate) fn recycle_items(&mut self, id: ConnectionId, items: Box<Items>) {
        if let Some(connection) = self.get_mut(id) {
            connection.recycle(items);
        }
    }

    /// Returns the buffers of a call that has ended: its items, and its results, of which each has
    /// as many bytes as the peer has written, or none.
    pub fn take_buffers(&mut self, id: ConnectionId, xid: u32) -> CallBuffers {
        self.get_mut(id)
            .map_or_else(CallBuffers::default, |connection| {
                connection.take_buffers(xid)
            })
    }

    /// Returns the results of a call that has ended, if the call had buffers for any, each with as
    /// many bytes as the peer has written. Its items are dropped.
    #[inline]
    pub(crate) fn take_results(
        &mut self,
        id: ConnectionId,
        xid: u32,
    ) -> Option<ArrayVec<Buf, MAX_RESULTS>> {
        self.get_mut(id)?.take_results(xid)
    }

    /// Returns the next event of a connection.
    pub fn poll_event(&mut self, id: ConnectionId) -> Option<DriverEvent> {
        self.get_mut(id)?.events.pop()
    }

    /// Ends a session now. Its outstanding calls fail.
    pub(crate) fn finish(&mut self, id: ConnectionId) {
        if let Some(session) = self.session_mut(id) {
            session.abort();
        }
        // The first round ends the queue pair and returns what was posted. The second round ends
        // the rest.
        for _ in 0..2 {
            self.drive_one(id, self.now());
        }
    }

    /// Removes a connection whose session has ended. A session that has not ended is cut off.
    pub fn forget(&mut self, id: ConnectionId) {
        let Some(slot) = self.slot(id) else { return };
        let past = slot.connection.take().map(|connection| connection.counters);
        slot.generation = slot.generation.wrapping_add(1);
        if let Some(number) = slot.qpn.take() {
            self.by_qpn.remove(&number);
        }
        self.free.push(id.0 & 0xffff);
        self.past = self.past + past.unwrap_or_default();
    }

    fn insert(
        &mut self,
        session: Session,
        origin: Origin,
        peer: SocketAddr,
    ) -> Option<ConnectionId> {
        let connection = Some(Box::new(Connection::new(
            peer,
            session,
            SEND_QUEUE_DEPTH as usize,
            self.uses_windows(),
            &self.pool,
        )));
        let at = match self.free.pop() {
            Some(at) => {
                if let Some(slot) = self.connections.get_mut(at as usize) {
                    (slot.origin, slot.connection, slot.dirty, slot.ready) =
                        (origin, connection, false, false);
                }
                at
            }
            None => {
                // The last index of the last generation would be the tag of shared receives.
                let at = u32::try_from(self.connections.len())
                    .ok()
                    .filter(|at| *at < MAX_CONNECTIONS - 1)?;
                self.connections.push(Slot {
                    generation: 0,
                    dirty: false,
                    ready: false,
                    origin,
                    qpn: None,
                    connection,
                });
                at
            }
        };
        let generation = self
            .connections
            .get(at as usize)
            .map_or(0, |slot| slot.generation);
        let id = ConnectionId(u32::from(generation) << 16 | at);
        self.touch(id);
        self.schedule_keepalive(self.now());
        Some(id)
    }

    fn slot(&mut self, id: ConnectionId) -> Option<&mut Slot<D>> {
        self.connections
            .get_mut(id.index())
            .filter(|slot| slot.generation == id.generation())
    }

    fn get(&self, id: ConnectionId) -> Option<&Connection<D>> {
        let slot = self
            .connections
            .get(id.index())
            .filter(|slot| slot.generation == id.generation())?;
        slot.connection.as_deref()
    }

    fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection<D>> {
        self.slot(id)?.connection.as_deref_mut()
    }

    /// Marks a connection as having work to do, and returns it.
    #[inline]
    fn touch_mut(&mut self, id: ConnectionId) -> Option<&mut Connection<D>> {
        let slot = self
            .connections
            .get_mut(id.index())
            .filter(|slot| slot.generation == id.generation())?;
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push(id);
        }
        slot.connection.as_deref_mut()
    }

    /// Marks a connection as having work to do.
    fn touch(&mut self, id: ConnectionId) {
        self.touch_mut(id);
    }
}

/// Returns the first XID of a session, and the seed of the hash of the peer's XIDs. Both come from
/// the system's random numbers. The peer sees the XID, and cannot derive the seed from it.
fn seeds(config: &Config) -> (u32, u64) {
    let drawn = |of: &str, set: u64| {
        if set == 0 {
            RandomState::new().hash_one(of)
        } else {
            set
        }
    };
    (
        (drawn("XIDs", config.xid_seed.into()) & u64::from(u32::MAX)) as u32,
        drawn("hash", config.hash_seed),
    )
}
