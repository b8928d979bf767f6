//! Connections of librdmacm, and their events. `Channel::next` copies and acknowledges an event
//! before it returns, and takes no lock in between: the drop of `Id` waits for unacknowledged
//! events.
//!
//! `connection` and `manager` have the phases. The safety comment of `AnyThread` for `cm::Id`
//! states which threads may call what in which phase, and must match them.

use std::ffi::{CStr, c_int};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use ibverbs_sys as ibv;
use ibverbs_sys::{ibv_qp_attr, ibv_qp_state};

use super::rdma_cma as cm;
use super::rdma_cma::{EventChannel, SocketAddress, event};
use super::{AnyThread, Raw, last_error, left};
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
                let bytes: [u8; 4] = *self.rest.get(2..)?.first_chunk()?;
                Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(bytes)), port))
            }
            INET6 => {
                let flow = u32::from_be_bytes(*self.rest.get(2..)?.first_chunk()?);
                let bytes: [u8; 16] = *self.rest.get(6..)?.first_chunk()?;
                let scope = u32::from_ne_bytes(*self.rest.get(22..)?.first_chunk()?);
                Some(SocketAddr::V6(SocketAddrV6::new(
                    Ipv6Addr::from(bytes),
                    port,
                    flow,
                    scope,
                )))
            }
            _ => None,
        }
    }
}

/// An event channel.
#[derive(Debug)]
pub(in super::super) struct Channel {
    raw: Raw<EventChannel>,
}

// SAFETY: librdmacm has no thread-local state, and locks the state that channels share. A function
// on a channel is a command to its descriptor, which does not change. `Channel` owns it, and the
// connections have an `Arc` of the `Channel`, so that it is destroyed once, by the last owner.
unsafe impl AnyThread for EventChannel {}

// SAFETY: a function on a connection is a command to the descriptor of its channel, and reads
// fields that do not change, or that librdmacm sets when an event is read: those of the address and
// the route. Such an event arrives only while a connection resolves its address, or is the request
// that creates the connection. The channel changes only while a request waits for its answer. Until
// then only the thread that polls the channel uses these fields: other threads disconnect, reject
// or notify `Connection` only in later phases, and its phase is a lock between the threads. A
// connection is destroyed once, by the drop of `Id`. The destruction waits for the events that were
// read and not acknowledged, which `Channel::next` acknowledges before it does anything else, and
// discards those that were not read.
unsafe impl AnyThread for cm::Id {}

/// The identity of a connection in events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in super::super) struct Key(usize);

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Kind {
    AddressResolved,
    RouteResolved,
    Requested,
    Responded,
    Established,
    /// The connection could not be established; the failed verb.
    Failed(&'static str),
    Rejected,
    Disconnected,
    /// The device is gone.
    Removed,
    Other,
}

/// An event.
#[derive(Debug)]
pub(in super::super) struct CmEvent {
    pub(in super::super) kind: Kind,
    pub(in super::super) of: Key,
    /// Zero, or the reason of a failure: a negated errno, or a reason of InfiniBand's connection
    /// manager.
    pub(in super::super) status: i32,
    pub(in super::super) private_data: Box<[u8]>,
    /// The offered numbers of RDMA Reads of the peer and of this end.
    pub(in super::super) reads: (u8, u8),
    /// The requested connection, with its listener.
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
    pub(in super::super) fn new() -> Result<Arc<Self>> {
        // SAFETY: it takes nothing; this value owns the result until `drop`.
        let raw = NonNull::new(unsafe { cm::rdma_create_event_channel() });
        let channel = Self {
            raw: Raw(raw.ok_or_else(|| last_error("rdma_create_event_channel"))?),
        };
        rustix::io::ioctl_fionbio(channel.descriptor(), true)
            .map_err(|error| super::explained("rdma_create_event_channel", error.into()))?;
        Ok(Arc::new(channel))
    }

    pub(in super::super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel is, which is borrowed.
        unsafe { BorrowedFd::borrow_raw((*self.raw.as_ptr()).fd) }
    }

    /// Returns the next event, or `None` if there is none. Between an event and its acknowledgement
    /// this function takes no lock of this crate: a thread that drops the connection waits for the
    /// acknowledgement.
    pub(in super::super) fn next(self: &Arc<Self>) -> Option<CmEvent> {
        let mut raw = null_mut();
        // SAFETY: the channel exists, and its descriptor does not block.
        if unsafe { cm::rdma_get_cm_event(self.raw.as_ptr(), &raw mut raw) } != 0 {
            return None;
        }
        // SAFETY: the event exists until it is acknowledged, below.
        let event = unsafe { &*raw };
        let kind = kind(event.event);
        // From here on this function owns the new connection.
        let new = NonNull::new(event.id).filter(|_| kind == Kind::Requested);
        let happened = CmEvent {
            kind,
            of: Key(event.id.addr()),
            status: event.status,
            private_data: private_data(event),
            reads: (
                event.parameters.responder_resources,
                event.parameters.initiator_depth,
            ),
            new: new.map(|raw| {
                (
                    Id {
                        raw: Raw(raw),
                        channel: Mutex::new(self.clone()),
                    },
                    Key(event.listen_id.addr()),
                )
            }),
        };
        // SAFETY: it was taken just now, everything needed was copied, and it is acknowledged once.
        unsafe { cm::rdma_ack_cm_event(raw) };
        Some(happened)
    }
}

fn private_data(event: &cm::Event) -> Box<[u8]> {
    let length = usize::from(event.parameters.private_data_len);
    let data = event.parameters.private_data.cast::<u8>();
    if data.is_null() || length == 0 {
        return Box::default();
    }
    // SAFETY: the event has this many bytes there, until it is acknowledged.
    unsafe { std::slice::from_raw_parts(data, length) }.into()
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: connections keep their channel alive, so none is left.
        unsafe { cm::rdma_destroy_event_channel(self.raw.as_ptr()) };
    }
}

/// A connection or a listener. Dropping it ends it, without further events.
#[derive(Debug)]
pub(in super::super) struct Id {
    raw: Raw<cm::Id>,
    /// The channel of its events.
    channel: Mutex<Arc<Channel>>,
}

/// The parameters of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Parameters<'a> {
    pub(in super::super) private_data: &'a [u8],
    /// The numbers of RDMA Reads of the peer and of this end.
    pub(in super::super) reads: (u8, u8),
    /// True if the peer must retry without limit while there is no receive.
    pub(in super::super) rnr_retry: bool,
    pub(in super::super) shared: bool,
    /// The device number of the queue pair.
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
            // The field has three bits. For soft-RoCE seven means no limit, so it would never
            // detect a dead host.
            retry_count: 6,
            // Seven means no limit.
            rnr_retry_count: if self.rnr_retry { 7 } else { 0 },
            srq: u8::from(self.shared),
            qp_num: self.pair,
        }
    }
}

/// The timeout for resolving an address or a route, in milliseconds.
const RESOLVING: c_int = 2000;
/// The maximum number of unanswered connect requests.
const BACKLOG: c_int = 1024;

impl Id {
    pub(in super::super) fn new(channel: &Arc<Channel>) -> Result<Self> {
        let mut raw = null_mut();
        // SAFETY: the channel is kept; this value owns the result until `drop`.
        let code = unsafe {
            cm::rdma_create_id(
                channel.raw.as_ptr(),
                &raw mut raw,
                null_mut(),
                cm::PORT_SPACE,
            )
        };
        left("rdma_create_id", code)?;
        let raw = NonNull::new(raw).ok_or_else(|| last_error("rdma_create_id"))?;
        Ok(Self {
            raw: Raw(raw),
            channel: Mutex::new(channel.clone()),
        })
    }

    /// Sets the traffic class, before the address is resolved or bound.
    pub(in super::super) fn set_traffic_class(&self, class: u8) -> Result<()> {
        let mut class = class;
        // SAFETY: the connection exists. The option's value is one byte (rdma_set_option(3)),
        // which the function copies into its command to the kernel before it returns.
        left("rdma_set_option", unsafe {
            cm::rdma_set_option(
                self.raw(),
                cm::OPTION_ID,
                cm::OPTION_ID_TOS,
                (&raw mut class).cast(),
                size_of_val(&class),
            )
        })
    }

    /// Moves a connect request to another channel, which receives its later events. Only the owner
    /// of the request may call this: no other thread uses the connection at that time.
    pub(in super::super) fn migrate(&self, to: &Arc<Channel>) -> Result<()> {
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&channel, to) {
            return Ok(());
        }
        // SAFETY: the connection and both channels exist. The function waits until the events that
        // were taken from the earlier channel are acknowledged, which `Channel::next` does at once.
        // It changes the connection's channel, which other threads do not read at that time:
        // threads with access to the connection do not use a request.
        left("rdma_migrate_id", unsafe {
            cm::rdma_migrate_id(self.raw(), to.raw.as_ptr())
        })?;
        *channel = to.clone();
        Ok(())
    }

    fn raw(&self) -> *mut cm::Id {
        self.raw.as_ptr()
    }

    pub(in super::super) fn key(&self) -> Key {
        Key(self.raw().addr())
    }

    /// Listens on an address, and returns it.
    pub(in super::super) fn listen(&self, address: SocketAddr) -> Result<SocketAddr> {
        let mut raw = SocketAddress::from(address);
        // SAFETY: the connection exists, and the function reads the address.
        let bound = left("rdma_bind_addr", unsafe {
            cm::rdma_bind_addr(self.raw(), &raw mut raw)
        });
        bound.map_err(|error| in_use(error, address))?;
        // SAFETY: the connection exists.
        let listens = left("rdma_listen", unsafe {
            cm::rdma_listen(self.raw(), BACKLOG)
        });
        listens.map_err(|error| in_use(error, address))?;
        // SAFETY: the connection exists.
        let port = u16::from_be(unsafe { cm::rdma_get_src_port(self.raw()) });
        Ok(SocketAddr::new(address.ip(), port))
    }

    pub(in super::super) fn resolve_address(&self, address: SocketAddr) -> Result<()> {
        let mut raw = SocketAddress::from(address);
        // SAFETY: the connection exists, and the function reads the address; there is none to
        // bind to.
        let code =
            unsafe { cm::rdma_resolve_addr(self.raw(), null_mut(), &raw mut raw, RESOLVING) };
        left("rdma_resolve_addr", code)
    }

    pub(in super::super) fn resolve_route(&self) -> Result<()> {
        // SAFETY: the connection exists.
        left("rdma_resolve_route", unsafe {
            cm::rdma_resolve_route(self.raw(), RESOLVING)
        })
    }

    pub(in super::super) fn connect(&self, parameters: &Parameters<'_>) -> Result<()> {
        let mut raw = parameters.raw();
        // SAFETY: the connection exists, and the function reads the parameters.
        left("rdma_connect", unsafe {
            cm::rdma_connect(self.raw(), &raw mut raw)
        })
    }

    pub(in super::super) fn accept(&self, parameters: &Parameters<'_>) -> Result<()> {
        let mut raw = parameters.raw();
        // SAFETY: as for `connect`.
        left("rdma_accept", unsafe {
            cm::rdma_accept(self.raw(), &raw mut raw)
        })
    }

    /// Reports that the queue pair is ready, which informs the acceptor.
    pub(in super::super) fn establish(&self) -> Result<()> {
        // SAFETY: the connection exists.
        left("rdma_establish", unsafe { cm::rdma_establish(self.raw()) })
    }

    pub(in super::super) fn reject(&self, private_data: &[u8]) {
        let length = u8::try_from(private_data.len()).unwrap_or(u8::MAX);
        // SAFETY: the connection exists, and the function reads this many bytes. It fails if the
        // peer is gone.
        unsafe { cm::rdma_reject(self.raw(), private_data.as_ptr().cast(), length) };
    }

    pub(in super::super) fn disconnect(&self) {
        // SAFETY: the connection exists. It fails if the connection has ended.
        unsafe { cm::rdma_disconnect(self.raw()) };
    }

    /// Reports that a message has arrived before the event that establishes the connection, and so
    /// establishes it.
    pub(in super::super) fn notify(&self) {
        // SAFETY: the connection exists. It fails if the event has arrived.
        unsafe { cm::rdma_notify(self.raw(), ibv::IBV_EVENT_COMM_EST) };
    }

    /// Returns the attributes for the transition of a queue pair to a state.
    pub(in super::super) fn attributes(
        &self,
        state: ibv_qp_state::Type,
    ) -> Result<(ibv_qp_attr, u32)> {
        let (mut attributes, mut mask) = (
            ibv_qp_attr {
                qp_state: state,
                ..Default::default()
            },
            0,
        );
        // SAFETY: the connection exists, and the function fills both.
        let code = unsafe { cm::rdma_init_qp_attr(self.raw(), &raw mut attributes, &raw mut mask) };
        left("rdma_init_qp_attr", code)?;
        Ok((attributes, u32::try_from(mask).unwrap_or(0)))
    }

    /// Returns the name of the device, once it is known.
    pub(in super::super) fn device(&self) -> Option<String> {
        // SAFETY: the connection exists; its context, if it has one, is open as long as librdmacm
        // is, and names its device by a string of C.
        unsafe {
            let verbs = NonNull::new((*self.raw()).verbs)?;
            let name = CStr::from_ptr(ibv::ibv_get_device_name(verbs.as_ref().device));
            Some(name.to_string_lossy().into_owned())
        }
    }

    pub(in super::super) fn peer(&self) -> Option<SocketAddr> {
        // SAFETY: the connection exists; the address is changed only by the functions above.
        unsafe { (*self.raw()).destination.address() }
    }
}

fn in_use(error: VerbError, address: SocketAddr) -> VerbError {
    let taken = rustix::io::Errno::ADDRINUSE.raw_os_error();
    match &error.cause {
        Cause::System(system) if system.raw_os_error() == Some(taken) => VerbError {
            verb: error.verb,
            cause: Cause::AddressInUse(address),
        },
        _ => error,
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: the connection exists, and is dropped once. All its events were acknowledged as
        // they were taken, so that this waits for none.
        unsafe { cm::rdma_destroy_id(self.raw()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_convert_both_ways() {
        for address in [
            "10.9.9.1:20049",
            "[fe80::1%3]:1",
            "[2001:db8::7]:65535",
            "0.0.0.0:0",
        ] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(SocketAddress::from(address).address(), Some(address));
        }
        assert_eq!(
            SocketAddress {
                family: 27,
                rest: [0; 126]
            }
            .address(),
            None,
            "InfiniBand's own"
        );
    }

    #[test]
    fn private_data_is_copied_completely() {
        let bytes = [7; 255];
        let parameters = Parameters {
            private_data: &bytes[..56],
            reads: (1, 2),
            rnr_retry: false,
            shared: true,
            pair: 9,
        };
        let raw = parameters.raw();
        assert_eq!(
            (
                raw.private_data_len,
                raw.rnr_retry_count,
                raw.srq,
                raw.qp_num
            ),
            (56, 0, 1, 9)
        );
        let event = cm::Event {
            id: null_mut(),
            listen_id: null_mut(),
            event: 4,
            status: 0,
            parameters: raw,
        };
        assert_eq!(*private_data(&event), bytes[..56]);
        let none = cm::Parameters {
            private_data: std::ptr::null(),
            ..raw
        };
        assert!(
            private_data(&cm::Event {
                parameters: none,
                ..event
            })
            .is_empty()
        );
    }
}
