//! The contract between this transport and what moves the octets: in the shape of verbs, so that real verbs fit it as they are.
//!
//! A [`Device`] registers memory and makes completion queues and queue pairs; its [`Manager`] makes connections. All of it is
//! non-blocking: what happened is polled, and a file descriptor tells when it is worth polling.
//!
//! Memory is given by address, as verbs want it, so posting is `unsafe`: whoever posts promises that the memory stays, and is
//! touched by nobody, until the completion. `queue` makes that promise with owned buffers, and is the only
//! one that posts.

pub mod access;
#[cfg(feature = "ibverbs")]
pub mod ibverbs;
pub mod software;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

pub use access::Access;

/// What a device can do, said openly: probed, not assumed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The device's name.
    pub name: String,
    /// Whether type-2 memory windows can be bound, and be invalidated by the peer.
    pub windows: bool,
    /// Slices of one Send or RDMA Write, and of one receive.
    pub slices: usize,
    /// Slices of one RDMA Read.
    pub read_slices: usize,
    /// RDMA Reads that may be under way on one queue pair.
    pub reads: u32,
    /// Octets of one work request.
    pub message: u32,
    /// Octets that a Send may take along when it is posted ([`WorkRequest::inline`]); none if it can't.
    pub inline: u32,
    /// Whether the sink of an RDMA Read needs remote write access (iWARP).
    pub read_sink_is_exposed: bool,
    /// Whether a Send can wait until the peer has a receive for it (InfiniBand's RNR retry; iWARP has none).
    pub rnr_retry: bool,
    /// Whether a request is done when the peer has taken it, so that its status tells how the peer refused it. Where not
    /// (iWARP), it is done when it is on its way, and a refusal ends the connection and says nothing more.
    pub acknowledges: bool,
    /// Whether windows keep the peer to what they are bound to, and can be invalidated by the peer of their own queue pair alone.
    /// Where not (soft-RoCE), it reaches all of the region that they are bound to, can invalidate those of others, and brings down
    /// the machine by invalidating one that is not bound.
    pub guards_windows: bool,
    /// Whether the peer needs the right to read what it reads. Where not (soft-iWARP), it reads all that is registered, if it
    /// guesses the key.
    pub guards_reads: bool,
}

impl Capabilities {
    /// Whether to let the peer invalidate by its messages. A call that is given up ends its window here while the reply ends it,
    /// too: that costs a connection, but where windows are not guarded the machine.
    #[must_use]
    pub const fn remote_invalidation(&self) -> bool {
        self.windows && self.guards_windows
    }
}

/// Memory of ours in a work request.
// Laid out as verbs have it (`ibv_sge`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// Its address.
    pub address: u64,
    /// Octets.
    pub length: u32,
    /// The local key of the region that it is in.
    pub key: u32,
}

/// Memory of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Its address, as the peer knows it.
    pub address: u64,
    /// The key that the peer has exposed it by.
    pub key: u32,
}

/// A request to a queue pair. Its slices are a range of the table that is posted with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkRequest {
    /// What its completion is known by.
    pub id: u64,
    /// Whether its success has a completion; its failure always has.
    pub signaled: bool,
    /// Whether a Send takes the octets of its slices along when it is posted: their memory is free again then, and need not be
    /// registered. No more than [`Capabilities::inline`].
    pub inline: bool,
    /// Where its slices begin in the table, and how many there are.
    pub slices: (u32, u32),
    /// What is to be done.
    pub operation: Operation,
}

/// What a work request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Sends the slices as one message into a receive of the peer's, and invalidates a key of the peer's with it.
    Send {
        /// The key to invalidate.
        invalidate: Option<u32>,
    },
    /// Writes the slices to the peer's memory.
    Write {
        /// Where to.
        to: Remote,
    },
    /// Reads the peer's memory into the slices.
    Read {
        /// Where from.
        from: Remote,
    },
    /// Binds a window to a range of a region, the one slice, and gives it this key.
    Bind {
        /// The window.
        window: u32,
        /// Its new key: that of the window but for the lowest octet.
        key: u32,
        /// What the peer may do.
        access: Access,
    },
    /// Makes a window unreachable.
    Invalidate {
        /// Its key.
        key: u32,
    },
}

/// A request for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receive {
    /// What its completion is known by.
    pub id: u64,
    /// Where its slices begin in the table, and how many there are.
    pub slices: (u32, u32),
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The request's id.
    pub id: u64,
    /// The number of the queue pair.
    pub queue_pair: u32,
    /// Whether it was done.
    pub status: Status,
    /// Octets received; nothing for other requests.
    pub length: u32,
    /// The key that the peer's Send has invalidated.
    pub invalidated: Option<u32>,
}

/// Whether a request was done, or why not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// It was.
    Success,
    /// The queue pair failed before it came to this.
    Flushed,
    /// A message was longer than the receive.
    LocalLength,
    /// Memory of ours is not registered, or not for this.
    LocalProtection,
    /// The peer's memory is not exposed, or not for this.
    RemoteAccess,
    /// The peer could not take it: a key that it was asked to invalidate can't be, or its receive is too short.
    RemoteInvalidRequest,
    /// The peer had no receive.
    ReceiverNotReady,
    /// A window could not be bound.
    Bind,
    /// The connection was lost.
    Retry,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::Flushed => "flushed after an error",
            Self::LocalLength => "local length error",
            Self::LocalProtection => "local protection error",
            Self::RemoteAccess => "remote access error",
            Self::RemoteInvalidRequest => "remote invalid request",
            Self::ReceiverNotReady => "receiver not ready",
            Self::Bind => "memory window bind error",
            Self::Retry => "retries exceeded",
        })
    }
}

/// What a device could not do: the verb, and the cause.
#[derive(Debug)]
pub struct VerbError {
    /// The verb.
    pub verb: &'static str,
    /// The cause.
    pub cause: Cause,
}

/// Why a verb failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The system says so.
    System(io::Error),
    /// The system says so, which usually has this reason.
    Explained(io::Error, Box<str>),
    /// There is no RDMA device of this name, or none at all: those that there are.
    NoDevice(Option<String>, Vec<String>),
    /// No port of the device is active.
    PortDown(String),
    /// What is reached through another device.
    OtherDevice {
        /// The address.
        address: SocketAddr,
        /// The device that it is reached through.
        device: String,
    },
    /// The queue pair, or the connection, is not in a state for it.
    State,
    /// A queue is full.
    Full,
    /// More slices, octets or reads than the device takes.
    Limit,
    /// There is nobody at the address.
    Unreachable(SocketAddr),
    /// The address is taken.
    AddressInUse(SocketAddr),
    /// Private data longer than the connection manager takes.
    PrivateData,
    /// A completion queue has overrun: it was made too small.
    Overrun,
}

impl fmt::Display for VerbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.verb)?;
        match &self.cause {
            Cause::System(error) => error.fmt(f),
            Cause::Explained(error, reason) => write!(f, "{error}: {reason}"),
            Cause::NoDevice(name, found) => no_device(f, name.as_deref(), found),
            Cause::PortDown(device) => {
                write!(f, "no port of {device} is active: is its cable plugged, its network interface up?")
            }
            Cause::OtherDevice { address, device } => write!(f, "{address} is reached through the device {device}"),
            Cause::State => f.write_str("not in this state"),
            Cause::Full => f.write_str("the queue is full"),
            Cause::Limit => f.write_str("more than the device takes"),
            Cause::Unreachable(address) => write!(f, "nobody listens at {address}"),
            Cause::AddressInUse(address) => write!(f, "somebody listens at {address} already"),
            Cause::PrivateData => f.write_str("too much private data"),
            Cause::Overrun => f.write_str("the completion queue has overrun"),
        }
    }
}

fn no_device(f: &mut fmt::Formatter<'_>, name: Option<&str>, found: &[String]) -> fmt::Result {
    match (name, found) {
        (Some(name), []) => write!(f, "there is no RDMA device {name}, nor any other"),
        (Some(name), found) => write!(f, "there is no RDMA device {name}, only {}", found.join(", ")),
        (None, _) => f.write_str("there is no RDMA device"),
    }
}

impl std::error::Error for VerbError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Cause::System(error) | Cause::Explained(error, _) = &self.cause { Some(error) } else { None }
    }
}

/// The result of a verb.
pub type Result<T> = std::result::Result<T, VerbError>;

/// Octets of private data that every connection manager takes: iWARP's, and librdmacm's share of InfiniBand's.
pub const PRIVATE_DATA: usize = 56;

/// How a queue pair is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePairConfig {
    /// Work requests that may be posted at once.
    pub sends: u32,
    /// Receives that may be posted at once; unused with a shared queue.
    pub receives: u32,
    /// RDMA Reads of ours, and of the peer's, that may be under way.
    pub reads: u32,
    /// Whether the peer's Sends are tried again, without end, while there is no receive here. They fail at once if not.
    pub rnr_retry: bool,
}

/// An RDMA device, with a protection domain of its own.
///
/// Clones are of the same device and domain.
#[expect(unsafe_code, reason = "memory is given by address, as verbs want it")]
pub trait Device: Clone + fmt::Debug + 'static {
    /// Registered memory.
    type Region: Region + fmt::Debug + 'static;
    /// A memory window.
    type Window: Window + fmt::Debug + 'static;
    /// A completion queue.
    type CompletionQueue: CompletionQueue + fmt::Debug + 'static;
    /// A receive queue that several queue pairs share.
    type SharedReceives: SharedReceives + fmt::Debug + 'static;
    /// A queue pair.
    type QueuePair: QueuePair + fmt::Debug + 'static;
    /// A connection manager.
    type Manager: Manager<Self> + fmt::Debug;

    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// Registers memory.
    ///
    /// # Safety
    /// The memory must stay until the region is dropped, and whoever uses it must respect what was posted and exposed.
    ///
    /// # Errors
    /// The device can't register it.
    unsafe fn register(&self, memory: NonNull<u8>, length: usize, access: Access) -> Result<Self::Region>;

    /// Makes a window that is not bound.
    ///
    /// # Errors
    /// The device has none.
    fn window(&self) -> Result<Self::Window>;

    /// Makes a completion queue for so many completions at once.
    ///
    /// # Errors
    /// The device can't.
    fn completion_queue(&self, entries: u32) -> Result<Self::CompletionQueue>;

    /// Makes a receive queue to be shared.
    ///
    /// # Errors
    /// The device can't.
    fn shared_receives(&self, entries: u32) -> Result<Self::SharedReceives>;

    /// Makes a connection manager.
    ///
    /// # Errors
    /// The device can't.
    fn manager(&self) -> Result<Self::Manager>;
}

/// Registered memory. Dropping it deregisters.
pub trait Region {
    /// The key for work requests of ours.
    fn local_key(&self) -> u32;
    /// The key for the peer, if it was registered with remote access.
    fn remote_key(&self) -> u32;
}

/// A memory window (type 2). Dropping it makes it unreachable.
///
/// It may end with the queue pair that it was last bound on, and with the region that it is bound to: then it can be bound no
/// more.
pub trait Window {
    /// Its number, for `Operation::Bind`.
    fn number(&self) -> u32;
    /// Its key when it was made; each bind gives it one with another lowest octet.
    fn key(&self) -> u32;
}

/// A completion queue.
pub trait CompletionQueue {
    /// Takes completions, as many as there is room for and are there.
    ///
    /// # Errors
    /// It has overrun.
    fn poll(&self, completions: &mut Vec<Completion>, most: usize) -> Result<usize>;

    /// Asks for the descriptor to become readable at the next completion. Poll once more afterwards: what came before is
    /// not told.
    ///
    /// # Errors
    /// The system's.
    fn arm(&self) -> Result<()>;

    /// Takes back what made the descriptor readable.
    ///
    /// # Errors
    /// The system's.
    fn acknowledge(&self) -> Result<()>;

    /// The descriptor to wait on.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// A receive queue that several queue pairs share.
#[expect(unsafe_code, reason = "memory is given by address, as verbs want it")]
pub trait SharedReceives: Clone {
    /// Posts receives: how many were taken.
    ///
    /// # Safety
    /// As [`QueuePair::post`].
    ///
    /// # Errors
    /// It is full, or the device refuses.
    unsafe fn post(&self, receives: &[Receive], slices: &[Slice]) -> Result<()>;
}

/// A queue pair. Dropping it ends the connection: after that nothing of what was posted is touched any more.
#[expect(unsafe_code, reason = "memory is given by address, as verbs want it")]
pub trait QueuePair {
    /// Its number.
    fn number(&self) -> u32;

    /// Posts work requests in their order: all or none.
    ///
    /// # Safety
    /// The memory of the slices must stay, and be touched by nobody else (for what is sent or written: be changed by nobody),
    /// until the request's completion, or that of a later one where it is not signaled, or the queue pair is dropped. What an
    /// inline request takes along is free when this returns.
    ///
    /// # Errors
    /// The queue is full, or not in a state for it, or an inline request has more octets than it may.
    unsafe fn post(&self, requests: &[WorkRequest], slices: &[Slice]) -> Result<()>;

    /// Posts receives: all or none.
    ///
    /// # Safety
    /// As [`Self::post`].
    ///
    /// # Errors
    /// As [`Self::post`].
    unsafe fn post_receives(&self, receives: &[Receive], slices: &[Slice]) -> Result<()>;

    /// Ends the connection: what was posted is flushed.
    fn disconnect(&self);
}

/// A connection manager: it makes and accepts connections, and tells what becomes of them.
pub trait Manager<D: Device> {
    /// A request to connect that can be accepted. Dropping it rejects.
    type Request;

    /// Listens at an address, and tells it: port 0 asks for any.
    ///
    /// # Errors
    /// The address is taken, or not ours.
    fn listen(&mut self, address: SocketAddr) -> Result<SocketAddr>;

    /// Listens there no more. Requests that were told can still be accepted.
    fn unlisten(&mut self, address: SocketAddr);

    /// Begins to connect. Receives can be posted at once; `Established` tells when work can be.
    ///
    /// # Errors
    /// It can't begin.
    fn connect(
        &mut self,
        address: SocketAddr,
        config: &QueuePairConfig,
        queues: Queues<'_, D>,
        private_data: &[u8],
    ) -> Result<D::QueuePair>;

    /// Makes the queue pair for a request. Receives are to be posted before it is accepted.
    ///
    /// # Errors
    /// The device can't.
    fn prepare(
        &mut self,
        request: &Self::Request,
        config: &QueuePairConfig,
        queues: Queues<'_, D>,
    ) -> Result<D::QueuePair>;

    /// Accepts a request with the queue pair that was prepared for it.
    ///
    /// # Errors
    /// The peer is gone.
    fn accept(&mut self, request: Self::Request, queue_pair: &D::QueuePair, private_data: &[u8]) -> Result<()>;

    /// Rejects a request.
    fn reject(&mut self, request: Self::Request, private_data: &[u8]);

    /// What has happened.
    fn poll(&mut self) -> Option<ConnectionEvent<Self::Request>>;

    /// The descriptor to wait on.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// The queues of a queue pair.
#[derive(Debug)]
pub struct Queues<'a, D: Device> {
    /// For the completions of all its requests.
    pub completions: &'a D::CompletionQueue,
    /// For its receives, if they are shared.
    pub receives: Option<&'a D::SharedReceives>,
}

impl<D: Device> Clone for Queues<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Queues<'_, D> {}

/// What happens to connections. Queue pairs are named by their numbers.
#[derive(Debug)]
pub enum ConnectionEvent<R> {
    /// Somebody wants to connect.
    Requested {
        /// To be accepted or rejected.
        request: R,
        /// What it says.
        private_data: Box<[u8]>,
        /// From where.
        peer: SocketAddr,
        /// The address that was listened at.
        listener: SocketAddr,
    },
    /// A connection is there.
    Established {
        /// Whose.
        queue_pair: u32,
        /// What the peer says.
        private_data: Box<[u8]>,
    },
    /// A connection could not be made.
    Failed {
        /// Whose.
        queue_pair: u32,
        /// Whether the peer has rejected it.
        rejected: bool,
        /// What the peer says.
        private_data: Box<[u8]>,
        /// Why, where more is known.
        why: Option<VerbError>,
    },
    /// A connection has ended. What was posted is being flushed.
    Disconnected {
        /// Whose.
        queue_pair: u32,
    },
}
