//! A device of a provider that is selected at run time.
//!
//! [`AnyDevice`] is one type for the devices of all providers, so that a program need not be
//! generic over the device. Each verb is passed to the provider unchanged. A verb that combines
//! objects of two providers fails with `Cause::OtherProvider`. The name of a device selects its
//! provider in [`AnyDevice::open`]; `route` selects a device by the address of the peer.
//!
//! ```
//! use rpcrdma_verbs::provider::any::AnyDevice;
//! use rpcrdma_verbs::provider::software::Fabric;
//!
//! fn device(name: Option<&str>) -> Result<AnyDevice, rpcrdma_verbs::provider::VerbError> {
//!     match name {
//!         Some(name) => AnyDevice::open(name),
//!         None => Ok(Fabric::new().device().into()),
//!     }
//! }
//! # assert!(device(None).is_ok());
//! ```

#![expect(unsafe_code, reason = "memory is given by address, as verbs want it")]

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

#[cfg(feature = "ibverbs")]
use super::ibverbs::{self, IbvDevice};
#[cfg(feature = "iwarp")]
use super::iwarp::{self, IwarpDevice};
use super::software::{self, SoftwareDevice};
use super::{
    Access, Capabilities, Cause, Completion, CompletionQueue, ConnectionEvent, ConnectionManager,
    Device, MemoryRegion, ProtectionDomainId, QueuePair, QueuePairConfig, Queues, Receive, Result,
    Sge, SharedReceives, VerbError, Window, WorkRequest,
};

/// Defines an object of any provider.
macro_rules! object {
    ($(#[$doc:meta])* $name:ident($software:ty, $iwarp:ty, $ibverbs:ty)) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum $name {
            /// Of the software fabric.
            Software($software),
            /// Of iWARP over TCP.
            #[cfg(feature = "iwarp")]
            Iwarp($iwarp),
            /// Of a device of this host.
            #[cfg(feature = "ibverbs")]
            Ibverbs($ibverbs),
        }
    };
}
object! {
    /// A device of any provider.
    #[derive(Clone)]
    AnyDevice(SoftwareDevice, IwarpDevice, IbvDevice)
}
object! {
    /// Registered memory of a device.
    AnyRegion(software::SoftwareRegion, iwarp::IwarpRegion, ibverbs::IbvRegion)
}
object! {
    /// A memory window of a device.
    AnyWindow(software::SoftwareWindow, iwarp::IwarpWindow, ibverbs::IbvWindow)
}
object! {
    /// A completion queue of a device.
    AnyCompletionQueue(
        software::SoftwareCompletionQueue,
        iwarp::IwarpCompletionQueue,
        ibverbs::IbvCompletionQueue
    )
}
object! {
    /// A shared receive queue of a device.
    #[derive(Clone)]
    AnySharedReceives(
        software::SoftwareSharedReceives,
        iwarp::IwarpSharedReceives,
        ibverbs::IbvSharedReceives
    )
}
object! {
    /// A queue pair of a device.
    AnyQueuePair(
        software::SoftwareQueuePair,
        iwarp::IwarpQueuePair,
        ibverbs::IbvQueuePair
    )
}
object! {
    /// A connection manager of a device.
    AnyConnectionManager(
        software::SoftwareConnectionManager,
        iwarp::IwarpConnectionManager,
        ibverbs::IbvConnectionManager
    )
}
object! {
    /// A request of a peer to connect.
    AnyConnectRequest(
        software::SoftwareConnectRequest,
        iwarp::IwarpConnectRequest,
        ibverbs::IbvConnectRequest
    )
}

/// Applies the same expression to an object of any provider.
macro_rules! each {
    ($object:expr, $inner:ident => $does:expr) => {
        match $object {
            Self::Software($inner) => $does,
            #[cfg(feature = "iwarp")]
            Self::Iwarp($inner) => $does,
            #[cfg(feature = "ibverbs")]
            Self::Ibverbs($inner) => $does,
        }
    };
}

/// Creates an object on a device.
macro_rules! create {
    ($device:expr, $name:ident, $inner:ident => $creates:expr) => {
        match $device {
            Self::Software($inner) => $creates.map($name::Software),
            #[cfg(feature = "iwarp")]
            Self::Iwarp($inner) => $creates.map($name::Iwarp),
            #[cfg(feature = "ibverbs")]
            Self::Ibverbs($inner) => $creates.map($name::Ibverbs),
        }
    };
}

impl AnyDevice {
    /// Opens the device of this host with this name, or iWARP over TCP, whose name is `iwarp`.
    ///
    /// # Errors
    /// Fails if there is no such device, if it is not usable, or if the feature of its provider is
    /// disabled.
    pub fn open(name: &str) -> Result<Self> {
        #[cfg(feature = "iwarp")]
        if name == iwarp::NAME {
            return Ok(IwarpDevice::default().into());
        }
        Self::open_ibverbs(name)
    }

    /// Sets the traffic class of connections and listeners that are created later: the upper six
    /// bits are the DSCP (RFC 2474). The software fabric has no traffic class.
    ///
    /// ```
    /// use rpcrdma_verbs::provider::any::AnyDevice;
    ///
    /// let device = AnyDevice::open("iwarp")?;
    /// // DSCP 26, which many networks make lossless.
    /// device.set_traffic_class(26 << 2);
    /// # Ok::<(), rpcrdma_verbs::provider::VerbError>(())
    /// ```
    pub fn set_traffic_class(&self, class: u8) {
        match self {
            Self::Software(_) => {
                let _ = class;
            }
            #[cfg(feature = "iwarp")]
            Self::Iwarp(device) => device.set_traffic_class(class),
            #[cfg(feature = "ibverbs")]
            Self::Ibverbs(device) => device.set_traffic_class(class),
        }
    }

    #[cfg(feature = "ibverbs")]
    fn open_ibverbs(name: &str) -> Result<Self> {
        IbvDevice::open(Some(name)).map(Self::Ibverbs)
    }

    #[cfg(not(feature = "ibverbs"))]
    fn open_ibverbs(name: &str) -> Result<Self> {
        let cause = Cause::NotBuilt(name.to_owned());
        Err(VerbError {
            verb: "open",
            cause,
        })
    }
}

impl From<SoftwareDevice> for AnyDevice {
    fn from(device: SoftwareDevice) -> Self {
        Self::Software(device)
    }
}

#[cfg(feature = "iwarp")]
impl From<IwarpDevice> for AnyDevice {
    fn from(device: IwarpDevice) -> Self {
        Self::Iwarp(device)
    }
}

#[cfg(feature = "ibverbs")]
impl From<IbvDevice> for AnyDevice {
    fn from(device: IbvDevice) -> Self {
        Self::Ibverbs(device)
    }
}

/// Returns the error of using an object with an object of another provider.
#[cfg(any(feature = "ibverbs", feature = "iwarp"))]
fn foreign<T>(verb: &'static str) -> Result<T> {
    let cause = Cause::OtherProvider;
    Err(VerbError { verb, cause })
}

impl Device for AnyDevice {
    type Region = AnyRegion;
    type Window = AnyWindow;
    type CompletionQueue = AnyCompletionQueue;
    type SharedReceives = AnySharedReceives;
    type QueuePair = AnyQueuePair;
    type Manager = AnyConnectionManager;

    fn capabilities(&self) -> &Capabilities {
        each!(self, device => device.capabilities())
    }

    fn protection_domain(&self) -> ProtectionDomainId {
        each!(self, device => device.protection_domain())
    }

    unsafe fn register(
        &self,
        memory: NonNull<u8>,
        length: usize,
        access: Access,
    ) -> Result<AnyRegion> {
        // SAFETY: the caller's promise.
        create!(self, AnyRegion, device => unsafe { device.register(memory, length, access) })
    }

    fn window(&self) -> Result<AnyWindow> {
        create!(self, AnyWindow, device => device.window())
    }

    fn completion_queue(&self, entries: u32) -> Result<AnyCompletionQueue> {
        create!(self, AnyCompletionQueue, device => device.completion_queue(entries))
    }

    fn shared_receives(&self, entries: u32) -> Result<AnySharedReceives> {
        create!(self, AnySharedReceives, device => device.shared_receives(entries))
    }

    fn manager(&self) -> Result<AnyConnectionManager> {
        create!(self, AnyConnectionManager, device => device.manager())
    }
}

impl MemoryRegion for AnyRegion {
    fn local_key(&self) -> u32 {
        each!(self, region => region.local_key())
    }

    fn remote_key(&self) -> u32 {
        each!(self, region => region.remote_key())
    }

    fn deregister(&mut self) -> bool {
        each!(self, region => region.deregister())
    }
}

impl Window for AnyWindow {
    fn number(&self) -> u32 {
        each!(self, window => window.number())
    }

    fn key(&self) -> u32 {
        each!(self, window => window.key())
    }

    fn end(&mut self) -> bool {
        each!(self, window => window.end())
    }
}

impl CompletionQueue for AnyCompletionQueue {
    #[inline]
    fn poll(&self, completions: &mut Vec<Completion>, most: usize) -> Result<usize> {
        each!(self, queue => queue.poll(completions, most))
    }

    fn arm(&self) -> Result<()> {
        each!(self, queue => queue.arm())
    }

    fn acknowledge(&self) -> Result<()> {
        each!(self, queue => queue.acknowledge())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        each!(self, queue => queue.descriptor())
    }
}

impl SharedReceives for AnySharedReceives {
    unsafe fn post(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        // SAFETY: the caller's promise.
        each!(self, queue => unsafe { queue.post(receives, slices) })
    }

    fn end(&self) -> bool {
        each!(self, queue => queue.end())
    }
}

impl QueuePair for AnyQueuePair {
    fn number(&self) -> u32 {
        each!(self, pair => pair.number())
    }

    #[inline]
    unsafe fn post(&self, requests: &[WorkRequest], slices: &[Sge]) -> Result<()> {
        // SAFETY: the caller's promise.
        each!(self, pair => unsafe { pair.post(requests, slices) })
    }

    #[inline]
    unsafe fn post_receives(&self, receives: &[Receive], slices: &[Sge]) -> Result<()> {
        // SAFETY: the caller's promise.
        each!(self, pair => unsafe { pair.post_receives(receives, slices) })
    }

    fn disconnect(&self) {
        each!(self, pair => pair.disconnect());
    }

    fn peer_has_sent(&self) -> bool {
        each!(self, pair => pair.peer_has_sent())
    }

    fn can_read(&self) -> bool {
        each!(self, pair => pair.can_read())
    }

    fn end(&self) -> bool {
        each!(self, pair => pair.end())
    }
}

/// Returns the queues of a provider, or an error if they belong to another provider.
macro_rules! queues {
    ($variant:ident, $queues:expr, $verb:expr) => {{
        let Queues {
            completions,
            receives,
        } = $queues;
        match (completions, receives) {
            (AnyCompletionQueue::$variant(completions), None) => Ok(Queues {
                completions,
                receives: None,
            }),
            (
                AnyCompletionQueue::$variant(completions),
                Some(AnySharedReceives::$variant(receives)),
            ) => Ok(Queues {
                completions,
                receives: Some(receives),
            }),
            #[cfg(any(feature = "ibverbs", feature = "iwarp"))]
            _ => foreign($verb),
        }
    }};
}

impl ConnectionManager<AnyDevice> for AnyConnectionManager {
    type Request = AnyConnectRequest;

    fn listen(&mut self, address: SocketAddr) -> Result<SocketAddr> {
        each!(self, manager => manager.listen(address))
    }

    fn unlisten(&mut self, address: SocketAddr) {
        each!(self, manager => manager.unlisten(address));
    }

    fn connect(
        &mut self,
        address: SocketAddr,
        config: &QueuePairConfig,
        queues: Queues<'_, AnyDevice>,
        private_data: &[u8],
    ) -> Result<AnyQueuePair> {
        match self {
            Self::Software(manager) => {
                let queues = queues!(Software, queues, "connect")?;
                let connected = manager.connect(address, config, queues, private_data);
                connected.map(AnyQueuePair::Software)
            }
            #[cfg(feature = "iwarp")]
            Self::Iwarp(manager) => {
                let queues = queues!(Iwarp, queues, "connect")?;
                let connected = manager.connect(address, config, queues, private_data);
                connected.map(AnyQueuePair::Iwarp)
            }
            #[cfg(feature = "ibverbs")]
            Self::Ibverbs(manager) => {
                let queues = queues!(Ibverbs, queues, "connect")?;
                let connected = manager.connect(address, config, queues, private_data);
                connected.map(AnyQueuePair::Ibverbs)
            }
        }
    }

    fn prepare(
        &mut self,
        request: &AnyConnectRequest,
        config: &QueuePairConfig,
        queues: Queues<'_, AnyDevice>,
    ) -> Result<AnyQueuePair> {
        match (self, request) {
            (Self::Software(manager), AnyConnectRequest::Software(request)) => {
                let queues = queues!(Software, queues, "prepare")?;
                let prepared = manager.prepare(request, config, queues);
                prepared.map(AnyQueuePair::Software)
            }
            #[cfg(feature = "iwarp")]
            (Self::Iwarp(manager), AnyConnectRequest::Iwarp(request)) => {
                let queues = queues!(Iwarp, queues, "prepare")?;
                let prepared = manager.prepare(request, config, queues);
                prepared.map(AnyQueuePair::Iwarp)
            }
            #[cfg(feature = "ibverbs")]
            (Self::Ibverbs(manager), AnyConnectRequest::Ibverbs(request)) => {
                let queues = queues!(Ibverbs, queues, "prepare")?;
                let prepared = manager.prepare(request, config, queues);
                prepared.map(AnyQueuePair::Ibverbs)
            }
            #[cfg(any(feature = "ibverbs", feature = "iwarp"))]
            _ => foreign("prepare"),
        }
    }

    fn accept(
        &mut self,
        request: AnyConnectRequest,
        queue_pair: &AnyQueuePair,
        private_data: &[u8],
    ) -> Result<()> {
        match (self, request, queue_pair) {
            (
                Self::Software(manager),
                AnyConnectRequest::Software(request),
                AnyQueuePair::Software(pair),
            ) => manager.accept(request, pair, private_data),
            #[cfg(feature = "iwarp")]
            (
                Self::Iwarp(manager),
                AnyConnectRequest::Iwarp(request),
                AnyQueuePair::Iwarp(pair),
            ) => manager.accept(request, pair, private_data),
            #[cfg(feature = "ibverbs")]
            (
                Self::Ibverbs(manager),
                AnyConnectRequest::Ibverbs(request),
                AnyQueuePair::Ibverbs(pair),
            ) => manager.accept(request, pair, private_data),
            #[cfg(any(feature = "ibverbs", feature = "iwarp"))]
            _ => foreign("accept"),
        }
    }

    fn reject(&mut self, request: AnyConnectRequest, private_data: &[u8]) {
        match (self, request) {
            (Self::Software(manager), AnyConnectRequest::Software(request)) => {
                manager.reject(request, private_data);
            }
            #[cfg(feature = "iwarp")]
            (Self::Iwarp(manager), AnyConnectRequest::Iwarp(request)) => {
                manager.reject(request, private_data);
            }
            #[cfg(feature = "ibverbs")]
            (Self::Ibverbs(manager), AnyConnectRequest::Ibverbs(request)) => {
                manager.reject(request, private_data);
            }
            // Dropping a request rejects it.
            #[cfg(any(feature = "ibverbs", feature = "iwarp"))]
            _ => {}
        }
    }

    fn poll(&mut self) -> Option<ConnectionEvent<AnyConnectRequest>> {
        Some(match self {
            Self::Software(manager) => manager.poll()?.map(AnyConnectRequest::Software),
            #[cfg(feature = "iwarp")]
            Self::Iwarp(manager) => manager.poll()?.map(AnyConnectRequest::Iwarp),
            #[cfg(feature = "ibverbs")]
            Self::Ibverbs(manager) => manager.poll()?.map(AnyConnectRequest::Ibverbs),
        })
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        each!(self, manager => manager.descriptor())
    }
}

#[cfg(all(test, feature = "iwarp"))]
mod tests {
    use super::*;

    const CONFIG: QueuePairConfig = QueuePairConfig {
        sends: 4,
        receives: 4,
        reads: 1,
        rnr_retry: false,
    };

    fn queues(completions: &AnyCompletionQueue) -> Queues<'_, AnyDevice> {
        Queues {
            completions,
            receives: None,
        }
    }

    /// Asserts that a verb refuses objects of two providers.
    fn assert_foreign<T>(result: Result<T>, verb: &str) {
        let error = result.err().expect("another provider's object");
        assert!(matches!(error.cause, Cause::OtherProvider), "{error}");
        assert_eq!(error.verb, verb);
    }

    #[test]
    fn objects_of_two_providers_are_not_used_together() {
        let iwarp = AnyDevice::from(IwarpDevice::default());
        let software = AnyDevice::from(software::Fabric::new().device());
        let [of_iwarp, of_software] =
            [&iwarp, &software].map(|device| device.completion_queue(16).unwrap());
        let mut server = iwarp.manager().unwrap();
        let address = server.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut client = iwarp.manager().unwrap();
        let refused = client.connect(address, &CONFIG, queues(&of_software), &[]);
        assert_foreign(refused, "connect");
        let connecting = client.connect(address, &CONFIG, queues(&of_iwarp), &[]);
        let _connecting = connecting.unwrap();
        let request = loop {
            assert!(client.poll().is_none(), "the request is unanswered");
            if let Some(ConnectionEvent::Requested { request, .. }) = server.poll() {
                break request;
            }
        };
        let refused = server.prepare(&request, &CONFIG, queues(&of_software));
        assert_foreign(refused, "prepare");
        let mut other = software.manager().unwrap();
        let refused = other.prepare(&request, &CONFIG, queues(&of_software));
        assert_foreign(refused, "prepare");
        let prepared = server.prepare(&request, &CONFIG, queues(&of_iwarp));
        let refused = other.accept(request, &prepared.unwrap(), &[]);
        assert_foreign(refused, "accept");
    }
}
