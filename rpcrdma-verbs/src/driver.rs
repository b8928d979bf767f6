//! A driver: one core's connections, with their completion queue and memory.
//!
//! It does nothing by itself. [`Driver::turn`] takes what has completed, lets the engine say what to do, and posts it;
//! [`Driver::wait`] sleeps until there is something to take. Calls that are begun go out with the next turn, or by
//! [`Driver::flush`]. Nothing of it is shared between threads, so that an RPC takes no lock of ours and wakes nobody.

mod alive;
mod clock;
mod connecting;
mod connection;
mod error;
pub(crate) mod exposure;
mod handle;
mod listening;
mod message;
mod numbers;
mod shared;
mod told;

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rpcrdma_proto::connection::{CallError, Config, Reason, ReplyError, Role, Served, Session};
use rpcrdma_proto::placement::{Segment, Structure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use alive::Alive;
use clock::{Clock, TICK};
use connection::{Connection, Wish};
pub use error::DriverError;
pub use handle::Handle;
pub(crate) use listening::Listening;
use listening::{Listener, Origin};
pub(crate) use message::Message;
pub use message::{WriteError, Writer};
use numbers::ByNumber;
use shared::Shared;
pub use told::{Counters, GivenBack, Memory, Payload, Placed};
pub(crate) use told::{Refused, Request, Told, Unanswered};

use crate::memory::{Budget, Pool};
use crate::provider::{Completion, CompletionQueue as _, Device, Manager as _, VerbError};
use crate::queue::{Batch, SLICES, is_shared, tag};

/// A connection of a driver's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Id(u32);

impl Id {
    /// Where it is, and which of those that were there one after the other.
    const fn at(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    const fn generation(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

/// One core's connections.
#[derive(Debug)]
pub struct Driver<D: Device> {
    // The connections go first, with their queue pairs: then nothing uses the memory any more.
    connections: Vec<Slot<D>>,
    free: Vec<u32>,
    by_pair: ByNumber,
    manager: D::Manager,
    completions: D::CompletionQueue,
    /// The receives of all connections, where they share them.
    shared: Option<Shared<D>>,
    /// Whether peers may be given windows that do not confine them.
    trusts: bool,
    pool: Pool<D>,
    device: D,
    listeners: Vec<Listener>,
    /// Whether `flush` has brought about something to be told.
    flushed: bool,
    scratch: Scratch,
    taken: Vec<Completion>,
    /// Queue pairs whose connections have ended, and why.
    ended: Vec<(u32, Reason)>,
    /// Connections with something to do.
    dirty: Vec<Id>,
    /// Connections of clients with something to be told.
    ready: VecDeque<Id>,
    /// No deadline of any connection is before this.
    next_due: u64,
    alive: Alive,
    watcher: Option<Watcher>,
    handles: Arc<handle::Shared<D>>,
    clock: Clock,
}

#[derive(Debug)]
struct Slot<D: Device> {
    generation: u16,
    dirty: bool,
    /// Whether it is among those with something to be told.
    ready: bool,
    origin: Origin,
    /// The number of its last queue pair.
    pair: Option<u32>,
    connection: Option<Box<Connection<D>>>,
}

impl<D: Device> Slot<D> {
    /// The connection that is here now; `at` says where that is.
    fn id(&self, at: usize) -> Id {
        Id(u32::from(self.generation) << 16 | u32::try_from(at).unwrap_or(u32::MAX))
    }
}

/// Memory that one connection after the other uses.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// For the header of a message.
    pub(crate) header: Box<[u8]>,
    pub(crate) batch: Box<Batch>,
}

/// Is shown each message that is sent: its octets, of which the header can be read by [`dump`](crate::dump).
pub struct Watcher(Box<Watch>);

/// What a watcher does with each message.
type Watch = dyn FnMut(Id, &[u8]);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

/// Completions taken at once.
const BATCH: usize = 32;
/// Connections of one driver.
const MOST: u32 = 1 << 16;
/// Octets to which buffers are aligned that are as long, or longer.
const ALIGNMENT: u32 = 4096;
/// Work requests that one queue pair may have under way.
const REQUESTS: u32 = 1024;

impl<D: Device> Drop for Driver<D> {
    fn drop(&mut self) {
        self.handles.close();
    }
}

impl<D: Device> Driver<D> {
    /// A driver on a device, whose completion queue has room for so many completions, with memory within this budget.
    ///
    /// # Errors
    /// The device refuses.
    pub fn new(device: &D, budget: &Budget, completions: u32) -> Result<Self, DriverError> {
        Ok(Self {
            connections: Vec::new(),
            free: Vec::new(),
            by_pair: ByNumber::default(),
            manager: device.manager()?,
            completions: device.completion_queue(completions)?,
            shared: None,
            trusts: false,
            pool: Pool::new(device, budget),
            device: device.clone(),
            listeners: Vec::new(),
            flushed: false,
            scratch: Scratch { header: vec![0; 1 << 16].into(), batch: Box::default() },
            taken: Vec::with_capacity(BATCH),
            ended: Vec::new(),
            dirty: Vec::new(),
            ready: VecDeque::new(),
            next_due: u64::MAX,
            alive: Alive::new(completions),
            watcher: None,
            handles: handle::Shared::new()?,
            clock: Clock::new(),
        })
    }

    /// The pool of registered buffers.
    #[must_use]
    pub fn pool(&self) -> &Pool<D> {
        &self.pool
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Microseconds since the driver was made: the time of its deadlines.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// A handle for other threads.
    #[must_use]
    pub fn handle(&self) -> Handle<D> {
        Handle::new(self.handles.clone())
    }

    /// Lets all connections take what they receive from one queue of so many buffers, each of `size` octets: an idle one takes
    /// none then. To be said before there are connections, whose settings must have this size as their `receive_size`, and as
    /// `receive_size_most`.
    ///
    /// There may be fewer buffers than all peers together have credits for: while all are used, the peers' messages wait, by
    /// RNR retry. So the device must have that.
    ///
    /// # Errors
    /// The device has no shared queues or no RNR retry, or there are connections already, or the budget is used up.
    pub fn share_receives(&mut self, count: u32, size: u32) -> Result<(), DriverError> {
        if !self.connections.is_empty() || !self.device.capabilities().rnr_retry {
            return Err(DriverError::NotShared);
        }
        let mut shared = Shared::new(&self.device, count, size)?;
        shared.fill(&self.pool)?;
        self.shared = Some(shared);
        Ok(())
    }

    /// Exposes memory by windows on a device, too, whose windows do not confine the peer
    /// ([`Capabilities::guards_windows`](crate::provider::Capabilities::guards_windows)): for peers that are trusted. Else it
    /// is registered for each call there, which costs more. To be said before there are connections.
    pub fn trust_peers_with_windows(&mut self) {
        self.trusts = true;
    }

    /// Whether memory is exposed by windows.
    fn uses_windows(&self) -> bool {
        let can = self.device.capabilities();
        can.windows && (can.guards_windows || self.trusts)
    }

    /// Shows each message that is sent from now on.
    pub fn watch(&mut self, watcher: impl FnMut(Id, &[u8]) + 'static) {
        self.watcher = Some(Watcher(Box::new(watcher)));
    }

    /// Begins a session with a server.
    ///
    /// # Errors
    /// The settings make no sense.
    pub fn connect(&mut self, server: SocketAddr, config: Config) -> Result<Id, DriverError> {
        let seed = seed(&config);
        self.check(&config)?;
        // What the device can't take without harm is not asked for.
        let invalidates = self.uses_windows() && self.device.capabilities().remote_invalidation();
        let remote_invalidation = config.remote_invalidation && invalidates;
        let session = Session::new(Config { role: Role::Client, seed, remote_invalidation, ..config })?;
        self.insert(session, Origin::Client(server)).ok_or(DriverError::Full)
    }

    fn check(&self, config: &Config) -> Result<(), DriverError> {
        config.check()?;
        if let Some(structure) = config.rtr.and_then(|rtr| rtr.structure) {
            self.check_structure(&structure)?;
        }
        match self.shared.as_ref().map(Shared::size) {
            Some(size) if size != config.receive_size || size != config.receive_size_most => {
                Err(DriverError::SharedSize { size })
            }
            _ => Ok(()),
        }
    }

    /// Whether receive buffers can be made so.
    fn check_structure(&self, structure: &Structure) -> Result<(), DriverError> {
        let (segments, most) = (structure.segments(), self.device.capabilities().slices.min(SLICES));
        let is_aligned = |segment: &Segment| segment.align <= 1 || ALIGNMENT.is_multiple_of(segment.align);
        if self.shared.is_some() {
            Err(DriverError::SharedStructure)
        } else if segments.len() > most {
            Err(DriverError::Segments { most })
        } else if !segments.iter().all(|segment| is_aligned(segment) && segment.align <= segment.length.max(1)) {
            Err(DriverError::Alignment)
        } else {
            Ok(())
        }
    }

    /// A client's connection that something has happened to: [`Client::event`](crate::client::Client::event) says what, and is
    /// to be asked until it says nothing. So nobody has to ask all clients.
    pub fn ready(&mut self) -> Option<Id> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(slot) = self.slot(id) {
                slot.ready = false;
                return Some(id);
            }
        }
        None
    }

    /// The engine of a connection.
    #[must_use]
    pub fn session(&self, id: Id) -> Option<&Session> {
        self.get(id).map(|connection| &connection.session)
    }

    /// The engine of a connection, to tell it what its consumer wants; what follows is done at the next turn, or by [`flush`](Self::flush).
    pub fn session_mut(&mut self, id: Id) -> Option<&mut Session> {
        self.touched(id).map(|connection| &mut connection.session)
    }

    /// What the transport of a connection has done.
    #[must_use]
    pub fn counters(&self, id: Id) -> Option<Counters> {
        self.get(id).map(|connection| connection.counters)
    }

    /// Begins a call; see [`Session::call`]. It takes the memory for the results.
    pub(crate) fn call(
        &mut self,
        id: Id,
        request: &mut Request,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<u32, GivenBack<Refused>> {
        match self.touched(id) {
            Some(connection) => connection.call(request, write),
            None => {
                let memory = Box::new(Memory { results: std::mem::take(&mut request.results), ..Memory::default() });
                Err(GivenBack { why: Refused::Call(CallError::Closed), memory })
            }
        }
    }

    /// Answers a call of the peer's; see [`Session::reply`].
    pub(crate) fn reply(
        &mut self,
        id: Id,
        call: Served,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<(), Unanswered> {
        self.touched(id).ok_or(Unanswered::Reply(ReplyError::Ended))?.reply(call, write)
    }

    /// Answers a call of the peer's by a message that is written already.
    pub(crate) fn reply_with(&mut self, id: Id, call: Served, message: &mut Message) -> Result<(), ReplyError> {
        self.touched(id).ok_or(ReplyError::Ended)?.reply_with(call, message)
    }

    /// Takes back what a call of a peer's came in, when it has been served.
    pub(crate) fn seen(&mut self, id: Id, payload: Payload) {
        if let Some(connection) = self.get_mut(id) {
            connection.seen(payload);
        }
    }

    /// The memory of a call that has ended.
    pub(crate) fn take_memory(&mut self, id: Id, xid: u32) -> Memory {
        self.get_mut(id).map_or_else(Memory::default, |connection| connection.take_memory(xid))
    }

    /// What a connection's consumer is to know next.
    pub(crate) fn event(&mut self, id: Id) -> Option<Told> {
        self.get_mut(id)?.events.pop()
    }

    /// Ends a session now: what is open of its calls fails.
    pub(crate) fn finish(&mut self, id: Id) {
        if let Some(session) = self.session_mut(id) {
            session.abort();
        }
        // A connection that is still there ends first, and gives back what was posted: that ends the rest.
        for _ in 0..2 {
            self.drive_one(id, self.now());
        }
    }

    /// Forgets a connection whose session has ended; one that has not is cut off.
    pub fn forget(&mut self, id: Id) {
        let Some(slot) = self.slot(id) else { return };
        slot.connection = None;
        slot.generation = slot.generation.wrapping_add(1);
        if let Some(number) = slot.pair.take() {
            self.by_pair.remove(&number);
        }
        self.free.push(id.0 & 0xffff);
    }

    /// Takes what has happened, and does what follows: how much it was.
    ///
    /// # Errors
    /// The completion queue has overrun: it was made too small for its connections.
    pub fn turn(&mut self) -> Result<usize, DriverError> {
        let mut count = self.take_connections() + usize::from(std::mem::take(&mut self.flushed));
        if self.handles.has_some() {
            for job in self.handles.take() {
                job(self);
                count += 1;
            }
        }
        loop {
            let completed = self.take_completions()?;
            count += completed;
            if self.ended.is_empty() {
                break;
            }
            // What came before an end is taken before it.
            if completed < BATCH {
                self.let_go();
                break;
            }
        }
        if let Some(shared) = &mut self.shared {
            // What can't be had now may be had later: until then the peers' messages wait.
            let _ = shared.fill(&self.pool);
        }
        count += self.drive().0;
        Ok(count)
    }

    /// Takes completions, up to a batch of them: how many.
    fn take_completions(&mut self) -> Result<usize, DriverError> {
        let mut taken = std::mem::take(&mut self.taken);
        taken.clear();
        let polled = self.completions.poll(&mut taken, BATCH);
        for completion in &taken {
            self.complete(completion);
        }
        let count = taken.len();
        self.taken = taken;
        polled?;
        Ok(count)
    }

    /// Sends what was begun or answered since the last turn, without looking for what has come: for what is not to wait for that.
    /// [`Server::serve`](crate::server::Server::serve) does it for its replies.
    pub fn flush(&mut self) {
        // The next turn counts it, so that nobody sleeps over it.
        self.flushed |= self.drive().1;
    }

    /// Sleeps until something has happened, or this time has passed; whether something has.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&mut self, most: Duration) -> Result<bool, DriverError> {
        self.completions.arm()?;
        // What came before it was armed is not told.
        if self.turn()? > 0 {
            return Ok(true);
        }
        let due = most.min(Duration::from_micros(self.due().saturating_sub(self.now())));
        let queue = self.completions.descriptor();
        let manager = self.manager.descriptor();
        let handles = self.handles.descriptor();
        let mut descriptors = [&queue, &manager, &handles].map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
        let timeout =
            Timespec { tv_sec: i64::try_from(due.as_secs()).unwrap_or(i64::MAX), tv_nsec: due.subsec_nanos().into() };
        let ready = match poll(&mut descriptors, Some(&timeout)) {
            Ok(ready) => ready > 0,
            Err(rustix::io::Errno::INTR) => false,
            Err(error) => {
                return Err(VerbError { verb: "poll", cause: crate::provider::Cause::System(error.into()) }.into());
            }
        };
        self.completions.acknowledge()?;
        Ok(self.turn()? > 0 || ready)
    }

    /// The descriptors to wait on: of the completion queue, of the connections, and of the handles.
    #[cfg(feature = "tokio")]
    pub(crate) fn descriptors(&self) -> std::io::Result<[std::os::fd::OwnedFd; 3]> {
        let queue = self.completions.descriptor().try_clone_to_owned()?;
        let manager = self.manager.descriptor().try_clone_to_owned()?;
        Ok([queue, manager, self.handles.descriptor().try_clone_to_owned()?])
    }

    /// Asks for the descriptor to become readable at the next completion.
    #[cfg(feature = "tokio")]
    pub(crate) fn arm(&self) -> Result<(), DriverError> {
        Ok(self.completions.arm()?)
    }

    /// Takes back what made the descriptor readable.
    #[cfg(feature = "tokio")]
    pub(crate) fn acknowledge(&self) -> Result<(), DriverError> {
        Ok(self.completions.acknowledge()?)
    }

    /// How long there is nothing to do; none if only others can bring something.
    #[cfg(feature = "tokio")]
    pub(crate) fn sleeps(&self) -> Option<Duration> {
        (self.due() != u64::MAX).then(|| Duration::from_micros(self.due().saturating_sub(self.now())))
    }

    /// When there is something to do, whatever comes or not.
    fn due(&self) -> u64 {
        self.next_due.min(self.alive.due)
    }

    fn insert(&mut self, session: Session, origin: Origin) -> Option<Id> {
        let connection = Some(Box::new(Connection::new(session, REQUESTS as usize, self.uses_windows(), &self.pool)));
        let at = match self.free.pop() {
            Some(at) => {
                if let Some(slot) = self.connections.get_mut(at as usize) {
                    (slot.origin, slot.connection, slot.dirty, slot.ready) = (origin, connection, false, false);
                }
                at
            }
            None => {
                // The last number of the last generation would be the tag of shared receives.
                let at = u32::try_from(self.connections.len()).ok().filter(|at| *at < MOST - 1)?;
                self.connections.push(Slot {
                    generation: 0,
                    dirty: false,
                    ready: false,
                    origin,
                    pair: None,
                    connection,
                });
                at
            }
        };
        let generation = self.connections.get(at as usize).map_or(0, |slot| slot.generation);
        let id = Id(u32::from(generation) << 16 | at);
        self.touch(id);
        self.look_after(self.now());
        Some(id)
    }

    fn slot(&mut self, id: Id) -> Option<&mut Slot<D>> {
        self.connections.get_mut(id.at()).filter(|slot| slot.generation == id.generation())
    }

    fn get(&self, id: Id) -> Option<&Connection<D>> {
        let slot = self.connections.get(id.at()).filter(|slot| slot.generation == id.generation())?;
        slot.connection.as_deref()
    }

    fn get_mut(&mut self, id: Id) -> Option<&mut Connection<D>> {
        self.slot(id)?.connection.as_deref_mut()
    }

    /// A connection that something is done to, so that it has something to do.
    #[inline]
    fn touched(&mut self, id: Id) -> Option<&mut Connection<D>> {
        let slot = self.connections.get_mut(id.at()).filter(|slot| slot.generation == id.generation())?;
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push(id);
        }
        slot.connection.as_deref_mut()
    }

    /// Marks a connection as having something to do.
    fn touch(&mut self, id: Id) {
        self.touched(id);
    }

    fn complete(&mut self, completion: &Completion) {
        let (id, failed) = if is_shared(completion.id) {
            let buf = self.shared.as_ref().and_then(|shared| shared.complete(completion));
            let id = self.by_pair.get(&completion.queue_pair).copied();
            let (Some(buf), Some(id)) = (buf, id) else { return };
            (id, self.touched(id).is_some_and(|connection| !connection.complete_shared(completion, buf)))
        } else {
            let id = Id(tag(completion.id));
            (id, self.touched(id).is_some_and(|connection| !connection.complete(completion)))
        };
        if failed {
            let now = self.now();
            if let Some(connection) = self.get_mut(id) {
                connection.lost(now, Reason::Lost);
            }
        }
    }

    /// Lets every connection that has something to do, or whose time has come, do it: how many, and whether there is something new
    /// to be told of one.
    fn drive(&mut self) -> (usize, bool) {
        let mut now = self.clock.lately();
        // Most turns find nothing due, and need not know the time better.
        if now.saturating_add(TICK) >= self.due() {
            now = self.meet_deadlines();
        }
        let (count, mut told) = (self.dirty.len(), false);
        for at in 0..count {
            let Some(id) = self.dirty.get(at).copied() else { break };
            told |= self.drive_one(id, now);
        }
        // What was touched meanwhile comes next.
        if self.dirty.len() == count {
            self.dirty.clear();
        } else {
            self.dirty.drain(..count);
        }
        (count, told)
    }

    /// Does what is due by now: the time.
    #[cold]
    fn meet_deadlines(&mut self) -> u64 {
        let now = self.now();
        if now >= self.next_due {
            self.expire(now);
        }
        if now >= self.alive.due {
            self.ask_some(now);
        }
        now
    }

    /// Tells the connections whose time has come.
    fn expire(&mut self, now: u64) {
        for at in 0..self.connections.len() {
            let Some(slot) = self.connections.get_mut(at) else { continue };
            let id = slot.id(at);
            let Some(connection) = slot.connection.as_deref_mut() else { continue };
            if connection.session.poll_timeout().is_some_and(|due| due <= now) {
                connection.session.timeout(now);
                self.touch(id);
            }
        }
        let sessions = self.connections.iter().filter_map(|slot| slot.connection.as_ref());
        let next = sessions.filter_map(|connection| connection.session.poll_timeout()).min();
        self.next_due = next.unwrap_or(u64::MAX);
    }

    /// Whether there is something new to be told of it.
    fn drive_one(&mut self, id: Id, now: u64) -> bool {
        // Another connection may have its place by now, which is told by an id of its own.
        let at = self.connections.get_mut(id.at());
        let Some(slot) = at.filter(|slot| slot.generation == id.generation()) else { return false };
        slot.dirty = false;
        let Some(connection) = slot.connection.as_deref_mut() else { return false };
        let mut watch = |message: &[u8]| {
            if let Some(Watcher(watcher)) = &mut self.watcher {
                watcher(id, message);
            }
        };
        let before = connection.events.len();
        connection.drive(&self.device, &self.pool, &mut self.scratch, now, &mut watch);
        let told = connection.events.len() > before;
        self.next_due = self.next_due.min(connection.session.poll_timeout().unwrap_or(u64::MAX));
        if connection.events.len() > 0 && !slot.ready {
            slot.ready = true;
            let ready = match slot.origin {
                Origin::Client(_) => Some(&mut self.ready),
                Origin::Listener(number) => self.listeners.get_mut(number).map(|listener| &mut listener.ready),
            };
            ready.into_iter().for_each(|ready| ready.push_back(id));
        }
        if connection.wish.is_some() {
            self.grant_wish(id);
        }
        told
    }

    #[cold]
    fn grant_wish(&mut self, id: Id) {
        // What is waited for now is waited for as long as was said.
        let now = self.now();
        let Some(connection) = self.get_mut(id) else { return };
        match connection.wish.take() {
            None => {}
            Some(Wish::Connect) => self.begin(id, now),
            Some(Wish::Close(why)) => {
                connection.lost(now, why);
                self.touch(id);
            }
        }
    }
}

/// XIDs of two clients of one server should not be alike, and a peer should not know how a server finds those that it chooses.
fn seed(config: &Config) -> u32 {
    if config.seed == 0 { (RandomState::new().hash_one(config.role) >> 32) as u32 } else { config.seed }
}
