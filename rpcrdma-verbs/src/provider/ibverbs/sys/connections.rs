//! Connections, by librdmacm.

use std::ffi::{CStr, c_int};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use ibverbs_sys as ibv;
use ibverbs_sys::{ibv_qp_attr, ibv_qp_state};

use super::rdma_cma as cm;
use super::rdma_cma::{EventChannel, SocketAddress, event};
use super::{last, left};
use crate::provider::{Cause, Result, VerbError};

const INET: u16 = 2;
const INET6: u16 = 10;

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        let mut rest = [0; 126];
        rest[..2].copy_from_slice(&address.port().to_be_bytes());
        let family = match address {
            SocketAddr::V4(address) => {
                rest[2..6].copy_from_slice(&address.ip().octets());
                INET
            }
            SocketAddr::V6(address) => {
                rest[2..6].copy_from_slice(&address.flowinfo().to_be_bytes());
                rest[6..22].copy_from_slice(&address.ip().octets());
                rest[22..26].copy_from_slice(&address.scope_id().to_ne_bytes());
                INET6
            }
        };
        Self { family, rest }
    }
}

impl SocketAddress {
    fn address(&self) -> Option<SocketAddr> {
        let port = u16::from_be_bytes(*self.rest.first_chunk()?);
        match self.family {
            INET => {
                let octets: [u8; 4] = *self.rest.get(2..)?.first_chunk()?;
                Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(octets)), port))
            }
            INET6 => {
                let flow = u32::from_be_bytes(*self.rest.get(2..)?.first_chunk()?);
                let octets: [u8; 16] = *self.rest.get(6..)?.first_chunk()?;
                let scope = u32::from_ne_bytes(*self.rest.get(22..)?.first_chunk()?);
                Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(octets), port, flow, scope)))
            }
            _ => None,
        }
    }
}

/// Where events come from.
#[derive(Debug)]
pub(in super::super) struct Channel {
    raw: NonNull<EventChannel>,
}

/// What events name a connection by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in super::super) struct Key(usize);

/// What has happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Kind {
    AddressResolved,
    RouteResolved,
    Requested,
    Responded,
    Established,
    /// It could not be made: at what verb.
    Failed(&'static str),
    Rejected,
    Disconnected,
    /// The device is gone.
    Removed,
    Other,
}

/// An event.
#[derive(Debug)]
pub(in super::super) struct Happened {
    pub(in super::super) kind: Kind,
    pub(in super::super) of: Key,
    /// Zero, or why it has failed: an errno, negated, or a reason of InfiniBand's connection manager.
    pub(in super::super) status: i32,
    pub(in super::super) private_data: Box<[u8]>,
    /// RDMA Reads of the peer's, and of ours, that it offers.
    pub(in super::super) reads: (u8, u8),
    /// The connection that is requested, and who listened.
    pub(in super::super) new: Option<(Id, Key)>,
}

fn kind(code: u32) -> Kind {
    match code {
        event::ADDR_RESOLVED => Kind::AddressResolved,
        event::ROUTE_RESOLVED => Kind::RouteResolved,
        event::CONNECT_REQUEST => Kind::Requested,
        event::CONNECT_RESPONSE => Kind::Responded,
        event::ESTABLISHED => Kind::Established,
        event::ADDR_ERROR => Kind::Failed("rdma_resolve_addr"),
        event::ROUTE_ERROR => Kind::Failed("rdma_resolve_route"),
        event::CONNECT_ERROR | event::UNREACHABLE => Kind::Failed("rdma_connect"),
        event::REJECTED => Kind::Rejected,
        event::DISCONNECTED => Kind::Disconnected,
        event::DEVICE_REMOVAL => Kind::Removed,
        _ => Kind::Other,
    }
}

impl Channel {
    pub(in super::super) fn new() -> Result<Rc<Self>> {
        // SAFETY: it takes nothing; what it returns is ours until `drop`.
        let raw = NonNull::new(unsafe { cm::rdma_create_event_channel() });
        let channel = Self { raw: raw.ok_or_else(|| last("rdma_create_event_channel"))? };
        rustix::io::ioctl_fionbio(channel.descriptor(), true)
            .map_err(|error| super::explained("rdma_create_event_channel", error.into()))?;
        Ok(Rc::new(channel))
    }

    pub(in super::super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel is, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_ref().fd) }
    }

    /// The next event; none if nothing has happened.
    pub(in super::super) fn next(self: &Rc<Self>) -> Option<Happened> {
        let mut raw = null_mut();
        // SAFETY: the channel is there, and its descriptor does not block.
        if unsafe { cm::rdma_get_cm_event(self.raw.as_ptr(), &raw mut raw) } != 0 {
            return None;
        }
        // SAFETY: the event is there until it is acknowledged, below.
        let told = unsafe { &*raw };
        let kind = kind(told.event);
        // A new connection is ours from here on.
        let new = NonNull::new(told.id).filter(|_| kind == Kind::Requested);
        let happened = Happened {
            kind,
            of: Key(told.id.addr()),
            status: told.status,
            private_data: private_data(told),
            reads: (told.parameters.responder_resources, told.parameters.initiator_depth),
            new: new.map(|raw| (Id { raw, _channel: self.clone() }, Key(told.listen_id.addr()))),
        };
        // SAFETY: it was taken just now, all that is wanted was copied, and it is acknowledged once.
        unsafe { cm::rdma_ack_cm_event(raw) };
        Some(happened)
    }
}

fn private_data(told: &cm::Event) -> Box<[u8]> {
    let length = usize::from(told.parameters.private_data_len);
    let data = told.parameters.private_data.cast::<u8>();
    if data.is_null() || length == 0 {
        return Box::default();
    }
    // SAFETY: the event has so many octets there, until it is acknowledged.
    unsafe { std::slice::from_raw_parts(data, length) }.into()
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: connections keep their channel alive, so none is left.
        unsafe { cm::rdma_destroy_event_channel(self.raw.as_ptr()) };
    }
}

/// A connection, or what listens. Dropping it ends it: what it has not told yet is told no more.
#[derive(Debug)]
pub(in super::super) struct Id {
    raw: NonNull<cm::Id>,
    _channel: Rc<Channel>,
}

/// What is agreed upon when connecting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Parameters<'a> {
    pub(in super::super) private_data: &'a [u8],
    /// RDMA Reads of the peer's, and of ours.
    pub(in super::super) reads: (u8, u8),
    /// Whether the peer is to try again, without end, where there is no receive.
    pub(in super::super) rnr_retry: bool,
    pub(in super::super) shared: bool,
    /// The device's number of the queue pair.
    pub(in super::super) pair: u32,
}

impl Parameters<'_> {
    fn raw(&self) -> cm::Parameters {
        cm::Parameters {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: u8::try_from(self.private_data.len()).unwrap_or(u8::MAX),
            responder_resources: self.reads.0,
            initiator_depth: self.reads.1,
            flow_control: 1,
            // Of three bits; soft-RoCE takes the most, seven, for no end, and would never notice that a peer's host is gone.
            retry_count: 6,
            // Seven is without end.
            rnr_retry_count: if self.rnr_retry { 7 } else { 0 },
            srq: u8::from(self.shared),
            qp_num: self.pair,
        }
    }
}

/// Milliseconds that an address or a route may take.
const RESOLVING: c_int = 2000;
/// Requests that may wait for an answer.
const BACKLOG: c_int = 1024;

impl Id {
    pub(in super::super) fn new(channel: &Rc<Channel>) -> Result<Self> {
        let mut raw = null_mut();
        // SAFETY: the channel is kept; what is made is ours until `drop`.
        let code = unsafe { cm::rdma_create_id(channel.raw.as_ptr(), &raw mut raw, null_mut(), cm::PORT_SPACE) };
        left("rdma_create_id", code)?;
        let raw = NonNull::new(raw).ok_or_else(|| last("rdma_create_id"))?;
        Ok(Self { raw, _channel: channel.clone() })
    }

    fn raw(&self) -> *mut cm::Id {
        self.raw.as_ptr()
    }

    pub(in super::super) fn key(&self) -> Key {
        Key(self.raw().addr())
    }

    /// Listens at an address: which it is.
    pub(in super::super) fn listen(&self, address: SocketAddr) -> Result<SocketAddr> {
        let mut raw = SocketAddress::from(address);
        // SAFETY: the connection is there, and the function reads the address.
        let bound = left("rdma_bind_addr", unsafe { cm::rdma_bind_addr(self.raw(), &raw mut raw) });
        bound.map_err(|error| in_use(error, address))?;
        // SAFETY: the connection is there.
        let listens = left("rdma_listen", unsafe { cm::rdma_listen(self.raw(), BACKLOG) });
        listens.map_err(|error| in_use(error, address))?;
        // SAFETY: the connection is there.
        let port = u16::from_be(unsafe { cm::rdma_get_src_port(self.raw()) });
        Ok(SocketAddr::new(address.ip(), port))
    }

    pub(in super::super) fn resolve_address(&self, address: SocketAddr) -> Result<()> {
        let mut raw = SocketAddress::from(address);
        // SAFETY: the connection is there, and the function reads the address; there is none to bind to.
        let code = unsafe { cm::rdma_resolve_addr(self.raw(), null_mut(), &raw mut raw, RESOLVING) };
        left("rdma_resolve_addr", code)
    }

    pub(in super::super) fn resolve_route(&self) -> Result<()> {
        // SAFETY: the connection is there.
        left("rdma_resolve_route", unsafe { cm::rdma_resolve_route(self.raw(), RESOLVING) })
    }

    pub(in super::super) fn connect(&self, parameters: &Parameters<'_>) -> Result<()> {
        let mut raw = parameters.raw();
        // SAFETY: the connection is there, and the function reads the parameters.
        left("rdma_connect", unsafe { cm::rdma_connect(self.raw(), &raw mut raw) })
    }

    pub(in super::super) fn accept(&self, parameters: &Parameters<'_>) -> Result<()> {
        let mut raw = parameters.raw();
        // SAFETY: as for `connect`.
        left("rdma_accept", unsafe { cm::rdma_accept(self.raw(), &raw mut raw) })
    }

    /// The queue pair is ready: the acceptor may know.
    pub(in super::super) fn establish(&self) -> Result<()> {
        // SAFETY: the connection is there.
        left("rdma_establish", unsafe { cm::rdma_establish(self.raw()) })
    }

    pub(in super::super) fn reject(&self, private_data: &[u8]) {
        let length = u8::try_from(private_data.len()).unwrap_or(u8::MAX);
        // SAFETY: the connection is there, and the function reads so many octets. It fails where the peer is gone.
        unsafe { cm::rdma_reject(self.raw(), private_data.as_ptr().cast(), length) };
    }

    pub(in super::super) fn disconnect(&self) {
        // SAFETY: the connection is there. It fails where the connection has ended.
        unsafe { cm::rdma_disconnect(self.raw()) };
    }

    /// A message has come before the news that the connection is there: which is that news.
    pub(in super::super) fn notify(&self) {
        // SAFETY: the connection is there. It fails where the news has come.
        unsafe { cm::rdma_notify(self.raw(), ibv::IBV_EVENT_COMM_EST) };
    }

    /// What a queue pair has to be given to get to a state.
    pub(in super::super) fn attributes(&self, state: ibv_qp_state::Type) -> Result<(ibv_qp_attr, u32)> {
        let (mut attributes, mut mask) = (ibv_qp_attr { qp_state: state, ..Default::default() }, 0);
        // SAFETY: the connection is there, and the function fills both.
        let code = unsafe { cm::rdma_init_qp_attr(self.raw(), &raw mut attributes, &raw mut mask) };
        left("rdma_init_qp_attr", code)?;
        Ok((attributes, u32::try_from(mask).unwrap_or(0)))
    }

    /// The name of the device that it is on, once that is known.
    pub(in super::super) fn device(&self) -> Option<String> {
        // SAFETY: the connection is there; its context, if it has one, is open as long as librdmacm is, and names its device
        // by a string of C.
        unsafe {
            let verbs = NonNull::new((*self.raw()).verbs)?;
            let name = CStr::from_ptr(ibv::ibv_get_device_name(verbs.as_ref().device));
            Some(name.to_string_lossy().into_owned())
        }
    }

    pub(in super::super) fn peer(&self) -> Option<SocketAddr> {
        // SAFETY: the connection is there; the address is changed by the functions above alone.
        unsafe { (*self.raw()).destination.address() }
    }
}

fn in_use(error: VerbError, address: SocketAddr) -> VerbError {
    let taken = rustix::io::Errno::ADDRINUSE.raw_os_error();
    match &error.cause {
        Cause::System(system) if system.raw_os_error() == Some(taken) => {
            VerbError { verb: error.verb, cause: Cause::AddressInUse(address) }
        }
        _ => error,
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: the connection is there, and is dropped once. All its events were acknowledged as they were taken, so that this
        // waits for none.
        unsafe { cm::rdma_destroy_id(self.raw()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_there_and_back() {
        for address in ["10.9.9.1:20049", "[fe80::1%3]:1", "[2001:db8::7]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(SocketAddress::from(address).address(), Some(address));
        }
        assert_eq!(SocketAddress { family: 27, rest: [0; 126] }.address(), None, "InfiniBand's own");
    }

    #[test]
    fn private_data_is_copied_as_long_as_it_is() {
        let octets = [7; 255];
        let parameters =
            Parameters { private_data: &octets[..56], reads: (1, 2), rnr_retry: false, shared: true, pair: 9 };
        let raw = parameters.raw();
        assert_eq!((raw.private_data_len, raw.rnr_retry_count, raw.srq, raw.qp_num), (56, 0, 1, 9));
        let event = cm::Event { id: null_mut(), listen_id: null_mut(), event: 4, status: 0, parameters: raw };
        assert_eq!(*private_data(&event), octets[..56]);
        let none = cm::Parameters { private_data: std::ptr::null(), ..raw };
        assert!(private_data(&cm::Event { parameters: none, ..event }).is_empty());
    }
}
