//! The interface to RDMA devices, in the shape of verbs, so that real verbs fit it directly.
//!
//! A [`Device`] registers memory and creates completion queues and queue pairs. Its
//! [`ConnectionManager`] establishes connections. All operations are non-blocking: completions and
//! events are polled, and a file descriptor tells when to poll.
//!
//! Any thread may use a device, and own what is created on it: threads may share a device, its
//! regions and its shared receive queues, and move all else. Ending something waits for other
//! threads that use or end it.
//!
//! Memory is passed by address, as in verbs, so posting is `unsafe`: the caller promises that the
//! memory stays valid and unused until the completion. The module `queue` keeps this promise with
//! owned buffers. Outside of the providers, only `queue` and cases of `conformance::threads` post.
//!
//! `software`, `iwarp` and `ibverbs` implement the traits, and `any` selects one of them at run
//! time. `conformance` runs the same cases on each provider: a contract of a trait changes in all
//! providers and in the cases at once.
//!
//! ```
//! use rpcrdma_verbs::provider::any::AnyDevice;
//! use rpcrdma_verbs::provider::software::Fabric;
//! use rpcrdma_verbs::provider::{Capabilities, Device};
//!
//! fn describe(device: &impl Device) -> String {
//!     let Capabilities { name, windows, .. } = device.capabilities();
//!     format!("{name}, memory windows: {windows}")
//! }
//!
//! // A device of one provider, or of any.
//! let software = Fabric::new().device();
//! println!("{}", describe(&software));
//! println!("{}", describe(&AnyDevice::from(software)));
//! ```

mod access;
pub mod any;
mod common;
mod error;
#[cfg(feature = "ibverbs")]
pub mod ibverbs;
#[cfg(feature = "iwarp")]
pub mod iwarp;
#[cfg(feature = "iwarp")]
pub mod route;
pub mod software;

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

pub use access::Access;
pub use error::{Cause, Result, VerbError};

/// The capabilities of a device, which the provider probes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The device's name.
    pub name: String,
    /// True if type-2 memory windows can be bound, and invalidated by the peer.
    pub windows: bool,
    /// The maximum number of scatter/gather entries of a Send, an RDMA Write or a receive.
    pub max_sge: usize,
    /// The maximum number of scatter/gather entries of an RDMA Read.
    pub max_read_sge: usize,
    /// The maximum number of RDMA Reads in flight on a queue pair.
    pub max_reads: u32,
    /// The maximum number of bytes of a work request.
    pub max_message: u32,
    /// The maximum number of bytes of an inline Send ([`WorkRequest::inline`]); zero if there are
    /// none.
    pub max_inline: u32,
    /// True if the sink of an RDMA Read needs remote write access (iWARP).
    pub read_sink_needs_remote_write: bool,
    /// True if a Send can wait until the peer has a receive for it (RNR retry of InfiniBand; iWARP
    /// has none).
    pub rnr_retry: bool,
    /// True if a request completes when the peer has acknowledged it, with the reason in its status
    /// if the peer has rejected it. Otherwise (iWARP) it completes when it is sent, and a rejection
    /// ends the connection without a reason.
    pub acknowledges: bool,
    /// True if a window confines the peer to the memory to which it is bound, and only the peer of
    /// its own queue pair can invalidate it. Otherwise (soft-RoCE) the peer can access the whole
    /// region, can invalidate the windows of others, and crashes the machine by invalidating a
    /// window that is not bound.
    pub guards_windows: bool,
    /// True if the peer needs the right to read. Otherwise (soft-iWARP) it can read all registered
    /// memory whose key it guesses.
    pub guards_reads: bool,
}

impl Capabilities {
    /// Returns true if the peer may invalidate keys by its messages. When a call is cancelled, this
    /// end may invalidate a window at the same time as the reply does. This costs a connection;
    /// without guarded windows, it would crash the machine.
    #[must_use]
    pub const fn remote_invalidation(&self) -> bool {
        self.windows && self.guards_windows
    }
}

/// A scatter/gather entry: our memory in a work request.
// The layout is that of `ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sge {
    /// The address.
    pub address: u64,
    /// The number of bytes.
    pub length: u32,
    /// The local key of the region.
    pub key: u32,
}

/// Memory of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    /// The address in the peer's address space.
    pub address: u64,
    /// The key under which the peer exposes the memory.
    pub key: u32,
}

/// A request to a queue pair. Its entries are a range of the table that is posted with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkRequest {
    /// The identifier that its completion carries.
    pub id: u64,
    /// True if a success creates a completion. A failure always does.
    pub signaled: bool,
    /// True if a Send copies its bytes when it is posted. Its memory is then free at once, and need
    /// not be registered. At most [`Capabilities::max_inline`] bytes.
    pub inline: bool,
    /// The index of the first entry in the table, and the number of entries.
    pub slices: (u32, u32),
    /// The operation.
    pub operation: Operation,
}

/// The operation of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Sends the entries as one message, and invalidates a key of the peer.
    Send {
        /// The key to invalidate.
        invalidate: Option<u32>,
    },
    /// Writes the entries to memory of the peer.
    Write {
        /// The target.
        to: RemoteMemory,
    },
    /// Reads memory of the peer into the entries.
    Read {
        /// The source.
        from: RemoteMemory,
    },
    /// Binds a window to the range of the only entry, with a new key.
    Bind {
        /// The number of the window.
        window: u32,
        /// The new key, which differs from the old one in the lowest byte.
        key: u32,
        /// The rights of the peer.
        access: Access,
    },
    /// Invalidates a window.
    Invalidate {
        /// The key of the window.
        key: u32,
    },
}

/// A request to receive a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receive {
    /// The identifier that its completion carries.
    pub id: u64,
    /// The index of the first entry in the table, and the number of entries.
    pub slices: (u32, u32),
}

/// The completion of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The identifier of the request.
    pub id: u64,
    /// The number of the queue pair.
    pub queue_pair: u32,
    /// The status.
    pub status: Status,
    /// The number of bytes received; zero for other requests.
    pub length: u32,
    /// The key that the peer's Send has invalidated.
    pub invalidated: Option<u32>,
}

/// The status of a completion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// The request has succeeded.
    Success,
    /// The queue pair failed before it executed the request.
    Flushed,
    /// A message was longer than the receive.
    LocalLength,
    /// Our memory is not registered, or without the required right.
    LocalProtection,
    /// The memory of the peer is not exposed, or without the required right.
    RemoteAccess,
    /// The peer could not execute the request: it could not invalidate the key, its receive was too
    /// short, or it answers no RDMA Reads.
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

/// The number of bytes of private data that every connection manager supports: the limit of iWARP,
/// and what librdmacm leaves of InfiniBand's.
pub const MAX_PRIVATE_DATA: usize = 56;

/// Returns an error if private data exceeds [`MAX_PRIVATE_DATA`].
pub(crate) fn check_private_data(verb: &'static str, private_data: &[u8]) -> Result<()> {
    if private_data.len() <= MAX_PRIVATE_DATA {
        return Ok(());
    }
    Err(VerbError {
        verb,
        cause: Cause::PrivateData,
    })
}

/// The sizes of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePairConfig {
    /// The depth of the send queue.
    pub sends: u32,
    /// The depth of the receive queue; unused with a shared queue.
    pub receives: u32,
    /// The maximum number of RDMA Reads in flight in each direction.
    pub reads: u32,
    /// True if Sends of the peer are retried without limit while there is no receive. Otherwise
    /// they fail at once.
    pub rnr_retry: bool,
}

/// An RDMA device with its own protection domain.
///
/// Clones refer to the same device and domain. Several threads may use it at once.
#[expect(unsafe_code, reason = "memory is given by address, as verbs want it")]
pub trait Device: Clone + fmt::Debug + Send + Sync + 'static {
    /// Registered memory.
    type Region: MemoryRegion + fmt::Debug + Send + Sync + 'static;
    /// A memory window.
    type Window: Window + fmt::Debug + Send + 'static;
    /// A completion queue.
    type CompletionQueue: CompletionQueue + fmt::Debug + Send + 'static;
    /// A receive queue that several queue pairs share.
    type SharedReceives: SharedReceives + fmt::Debug + Send + Sync + 'static;
    /// A queue pair.
    type QueuePair: QueuePair + fmt::Debug + Send + 'static;
    /// A connection manager.
    type Manager: ConnectionManager<Self> + fmt::Debug + Send + 'static;

    /// Returns what the device can do.
    fn capabilities(&self) -> &Capabilities;

    /// Returns the protection domain of the device. Its queue pairs can use the memory that is
    /// registered in the same domain.
    fn protection_domain(&self) -> ProtectionDomainId;

    /// Registers memory.
    ///
    /// # Safety
    /// The memory must stay valid until [`MemoryRegion::deregister`] has returned true. Meanwhile
    /// all accesses must respect what is posted and exposed.
    ///
    /// # Errors
    /// Fails if the device cannot register the memory.
    unsafe fn register(
        &self,
        memory: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<Self::Region>;

    /// Creates an unbound window.
    ///
    /// # Errors
    /// Fails if the device has no windows.
    fn window(&self) -> Result<Self::Window>;

    /// Creates a completion queue for `entries` completions.
    ///
    /// # Errors
    /// Fails if the device refuses.
    fn completion_queue(&self, entries: u32) -> Result<Self::CompletionQueue>;

    /// Creates a shared receive queue.
    ///
    /// # Errors
    /// Fails if the device refuses.
    fn shared_receives(&self, entries: u32) -> Result<Self::SharedReceives>;

    /// Creates a connection manager.
    ///
    /// # Errors
    /// Fails if the device refuses.
    fn manager(&self) -> Result<Self::Manager>;
}

/// Identifies a protection domain in a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProtectionDomainId(u64);

impl ProtectionDomainId {
    /// Returns the identifier of a new protection domain.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Registered memory.
///
/// The owner of the memory deregisters it before the memory is freed or reused. Dropping the region
/// also deregisters it, but does not report a refusal of the device.
pub trait MemoryRegion {
    /// Returns the key for our work requests.
    fn local_key(&self) -> u32;
    /// Returns the key for the peer, if the memory was registered with remote access.
    fn remote_key(&self) -> u32;
    /// Ends the registration, and returns true if the device can no longer access the memory. If it
    /// returns false, the memory must be leaked. A second call returns the first result.
    fn deregister(&mut self) -> bool;
}

/// A memory window (type 2).
///
/// It may end with the queue pair on which it was last bound, and with the region to which it is
/// bound. It then cannot be bound again. Dropping the window also ends it, but does not report a
/// refusal of the device.
pub trait Window {
    /// Returns the number, for `Operation::Bind`.
    fn number(&self) -> u32;
    /// Returns the initial key. Each bind changes the lowest byte.
    fn key(&self) -> u32;
    /// Ends the window, and returns true if it gives no access any more. If it returns false, the
    /// memory to which it is bound must be leaked. A second call returns the first result.
    fn end(&mut self) -> bool;
}

/// A completion queue.
pub trait CompletionQueue {
    /// Appends at most `most` completions to `completions`, and returns their number.
    ///
    /// # Errors
    /// Fails if the queue has overrun.
    fn poll(&self, completions: &mut Vec<Completion>, most: usize) -> Result<usize>;

    /// Requests that the descriptor becomes readable at the next completion. Poll once more
    /// afterwards, because earlier completions are not reported.
    ///
    /// # Errors
    /// Fails if the system fails.
    fn arm(&self) -> Result<()>;

    /// Consumes the event that made the descriptor readable. A device may wake once more than the
    /// queue was armed.
    ///
    /// # Errors
    /// Fails if the system fails.
    fn acknowledge(&self) -> Result<()>;

    /// Returns the descriptor to wait for.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// A receive queue that several queue pairs share. Clones refer to the same queue.
#[expect(unsafe_code, reason = "memory is given by address, as verbs want it")]
pub trait SharedReceives: Clone {
    /// Posts all receives, or none.
    ///
    /// # Safety
    /// As for [`QueuePair::post`].
    ///
    /// # Errors
    /// Fails if the queue is full, or if the device refuses.
    unsafe fn post(&self, receives: &[Receive], slices: &[Sge]) -> Result<()>;

    /// Ends the queue, after all queue pairs that use it. Returns true if nothing accesses the
    /// posted memory any more. If it returns false, that memory must be leaked. A second call
    /// returns the first result.
    fn end(&self) -> bool;
}

/// A queue pair. Dropping it also ends it, but does not report a refusal of the device.
#[expect(unsafe_code, reason = "memory is given by address, as verbs want it")]
pub trait QueuePair {
    /// Returns the number.
    fn number(&self) -> u32;

    /// Posts work requests in order: all, or none.
    ///
    /// # Safety
    /// The memory of the entries must stay valid and unused by others (memory that is sent or
    /// written may be read by others) until the completion of the request, or of a later one if it
    /// is not signaled, or until [`Self::end`] has returned true. The memory of an inline request
    /// is free when this returns. Memory that a window exposes to writes is, until the window ends,
    /// exposed by no other window or region, and not posted.
    ///
    /// # Errors
    /// Fails if the queue is full or in the wrong state, or if an inline request has too many
    /// bytes.
    unsafe fn post(&self, requests: &[WorkRequest], slices: &[Sge]) -> Result<()>;

    /// Posts all receives, or none.
    ///
    /// # Safety
    /// As for [`Self::post`].
    ///
    /// # Errors
    /// As for [`Self::post`].
    unsafe fn post_receives(&self, receives: &[Receive], slices: &[Sge]) -> Result<()>;

    /// Ends the connection, and flushes posted requests and receives.
    fn disconnect(&self);

    /// Returns true if the device knows that the peer has sent something on this connection. On
    /// iWARP the accepting end may send from then on (RFC 5044, section 7.1.2).
    fn peer_has_sent(&self) -> bool {
        false
    }

    /// Returns false if the peer answers no RDMA Reads on this connection, as an iWARP peer may
    /// have said (RFC 6581, section 9.1). A Read then fails with [`Status::RemoteInvalidRequest`].
    fn can_read(&self) -> bool {
        true
    }

    /// Ends the queue pair, and returns true if nothing accesses the posted memory any more. If it
    /// returns false, that memory must be leaked. A second call returns the first result.
    fn end(&self) -> bool;
}

/// A connection manager: it initiates and accepts connections, and reports their events.
pub trait ConnectionManager<D: Device> {
    /// A request of a peer to connect. Dropping it rejects the connection.
    type Request: Send;

    /// Listens on an address, and returns it. Port 0 selects a free port.
    ///
    /// # Errors
    /// Fails if the address is in use, or is not an address of this host.
    fn listen(&mut self, address: SocketAddr) -> Result<SocketAddr>;

    /// Stops listening. Requests that were already reported can still be accepted.
    fn unlisten(&mut self, address: SocketAddr);

    /// Starts to connect. Receives can be posted at once, and other requests after `Established`.
    ///
    /// # Errors
    /// Fails if the connection cannot be started.
    fn connect(
        &mut self,
        address: SocketAddr,
        config: &QueuePairConfig,
        queues: Queues<'_, D>,
        private_data: &[u8],
    ) -> Result<D::QueuePair>;

    /// Creates the queue pair for a request. Post its receives before it is accepted.
    ///
    /// The request may have arrived at another manager of the same device. From here on this
    /// manager reports the events of the connection.
    ///
    /// # Errors
    /// Fails if the device refuses.
    fn prepare(
        &mut self,
        request: &Self::Request,
        config: &QueuePairConfig,
        queues: Queues<'_, D>,
    ) -> Result<D::QueuePair>;

    /// Accepts a request, with the queue pair that was prepared for it.
    ///
    /// # Errors
    /// Fails if the peer is gone.
    fn accept(
        &mut self,
        request: Self::Request,
        queue_pair: &D::QueuePair,
        private_data: &[u8],
    ) -> Result<()>;

    /// Rejects a request.
    fn reject(&mut self, request: Self::Request, private_data: &[u8]);

    /// Returns the next event.
    fn poll(&mut self) -> Option<ConnectionEvent<Self::Request>>;

    /// Returns the descriptor to wait for.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// The queues of a queue pair.
#[derive(Debug)]
pub struct Queues<'a, D: Device> {
    /// The completion queue of all its requests.
    pub completions: &'a D::CompletionQueue,
    /// The shared receive queue, if it uses one.
    pub receives: Option<&'a D::SharedReceives>,
}

impl<D: Device> Clone for Queues<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Queues<'_, D> {}

/// An event of a connection. Queue pairs are identified by their numbers.
#[derive(Debug)]
pub enum ConnectionEvent<R> {
    /// A peer requests a connection.
    Requested {
        /// The request, to be accepted or rejected.
        request: R,
        /// The private data of the peer.
        private_data: Box<[u8]>,
        /// The address of the peer.
        peer: SocketAddr,
        /// The address of the listener.
        listener: SocketAddr,
    },
    /// A connection is established.
    Established {
        /// The number of its queue pair.
        queue_pair: u32,
        /// The private data of the peer.
        private_data: Box<[u8]>,
    },
    /// A connection could not be established.
    Failed {
        /// The number of its queue pair.
        queue_pair: u32,
        /// True if the peer has rejected it.
        rejected: bool,
        /// The private data of the peer.
        private_data: Box<[u8]>,
        /// The error, if more is known.
        error: Option<VerbError>,
    },
    /// A connection has ended. Posted requests and receives are being flushed.
    Disconnected {
        /// The number of its queue pair.
        queue_pair: u32,
    },
}

impl<R> ConnectionEvent<R> {
    /// Returns the event with another request.
    fn map<T>(self, f: impl FnOnce(R) -> T) -> ConnectionEvent<T> {
        match self {
            Self::Requested {
                request,
                private_data,
                peer,
                listener,
            } => ConnectionEvent::Requested {
                request: f(request),
                private_data,
                peer,
                listener,
            },
            Self::Established {
                queue_pair,
                private_data,
            } => ConnectionEvent::Established {
                queue_pair,
                private_data,
            },
            Self::Failed {
                queue_pair,
                rejected,
                private_data,
                error,
            } => ConnectionEvent::Failed {
                queue_pair,
                rejected,
                private_data,
                error,
            },
            Self::Disconnected { queue_pair } => ConnectionEvent::Disconnected { queue_pair },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}

    /// Compiles only if the objects of a device are for any thread.
    fn any_thread<D: Device>() {
        is_shared::<D>();
        is_shared::<D::Region>();
        is_shared::<D::SharedReceives>();
        is_send::<D::Window>();
        is_send::<D::CompletionQueue>();
        is_send::<D::QueuePair>();
        is_send::<D::Manager>();
        is_send::<ConnectionEvent<<D::Manager as ConnectionManager<D>>::Request>>();
    }

    #[test]
    fn objects_of_devices_are_for_any_thread() {
        any_thread::<software::SoftwareDevice>();
        any_thread::<any::AnyDevice>();
        #[cfg(feature = "iwarp")]
        any_thread::<iwarp::IwarpDevice>();
        #[cfg(feature = "ibverbs")]
        any_thread::<ibverbs::IbvDevice>();
    }
}
