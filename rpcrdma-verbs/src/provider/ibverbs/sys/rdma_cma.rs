//! The used part of `rdma/rdma_cma.h`, with the types of `ibverbs-sys`. Assertions compare the
//! layouts with those of the header on 64-bit Linux.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;

use ibverbs_sys::{ibv_context, ibv_qp, ibv_qp_attr};

/// `struct rdma_event_channel`.
#[repr(C)]
pub(super) struct EventChannel {
    pub(super) fd: c_int,
}

/// `struct sockaddr_storage`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct SocketAddress {
    pub(super) family: u16,
    /// The port, flow and address in network byte order, and the scope in host byte order.
    pub(super) rest: [u8; 126],
}

/// The used part of `struct rdma_cm_id`, which is never created or moved here.
#[repr(C)]
pub(super) struct Id {
    pub(super) verbs: *mut ibv_context,
    pub(super) channel: *mut EventChannel,
    pub(super) context: *mut c_void,
    pub(super) qp: *mut ibv_qp,
    pub(super) source: SocketAddress,
    pub(super) destination: SocketAddress,
    /// The InfiniBand addresses, the path records, and their number.
    infiniband: [u64; 7],
    pub(super) port_space: c_uint,
    pub(super) port_number: u8,
}

/// `struct rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Parameters {
    pub(super) private_data: *const c_void,
    pub(super) private_data_len: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) srq: u8,
    pub(super) qp_num: u32,
}

/// `struct rdma_cm_event`. Its parameters are those of a connection, because datagrams are not
/// used.
#[repr(C)]
pub(super) struct Event {
    pub(super) id: *mut Id,
    pub(super) listen_id: *mut Id,
    pub(super) event: c_uint,
    pub(super) status: c_int,
    pub(super) parameters: Parameters,
}

const _: () = {
    assert!(offset_of!(Id, source) == 32 && offset_of!(Id, destination) == 32 + 128);
    assert!(offset_of!(Id, port_space) == 344 && offset_of!(Id, port_number) == 348);
    assert!(offset_of!(Event, event) == 16 && offset_of!(Event, parameters) == 24);
    assert!(size_of::<Parameters>() == 24 && offset_of!(Parameters, qp_num) == 16);
    assert!(size_of::<SocketAddress>() == 128);
};

/// `RDMA_PS_TCP`: reliable connections.
pub(super) const PORT_SPACE: c_uint = 0x0106;

/// `RDMA_OPTION_ID` and `RDMA_OPTION_ID_TOS`: the level and the name of an option.
pub(super) const OPTION_ID: c_int = 0;
pub(super) const OPTION_ID_TOS: c_int = 0;

/// `enum rdma_cm_event_type`.
pub(super) mod event {
    use std::ffi::c_uint;

    pub(in super::super) const ADDR_RESOLVED: c_uint = 0;
    pub(in super::super) const ADDR_ERROR: c_uint = 1;
    pub(in super::super) const ROUTE_RESOLVED: c_uint = 2;
    pub(in super::super) const ROUTE_ERROR: c_uint = 3;
    pub(in super::super) const CONNECT_REQUEST: c_uint = 4;
    pub(in super::super) const CONNECT_RESPONSE: c_uint = 5;
    pub(in super::super) const CONNECT_ERROR: c_uint = 6;
    pub(in super::super) const UNREACHABLE: c_uint = 7;
    pub(in super::super) const REJECTED: c_uint = 8;
    pub(in super::super) const ESTABLISHED: c_uint = 9;
    pub(in super::super) const DISCONNECTED: c_uint = 10;
    pub(in super::super) const DEVICE_REMOVAL: c_uint = 11;
}

#[link(name = "rdmacm")]
unsafe extern "C" {
    pub(super) fn rdma_create_event_channel() -> *mut EventChannel;
    pub(super) fn rdma_destroy_event_channel(channel: *mut EventChannel);
    pub(super) fn rdma_create_id(
        channel: *mut EventChannel,
        id: *mut *mut Id,
        context: *mut c_void,
        port_space: c_uint,
    ) -> c_int;
    pub(super) fn rdma_destroy_id(id: *mut Id) -> c_int;
    pub(super) fn rdma_set_option(
        id: *mut Id,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: usize,
    ) -> c_int;
    pub(super) fn rdma_migrate_id(id: *mut Id, channel: *mut EventChannel) -> c_int;
    pub(super) fn rdma_bind_addr(id: *mut Id, address: *mut SocketAddress) -> c_int;
    pub(super) fn rdma_listen(id: *mut Id, backlog: c_int) -> c_int;
    pub(super) fn rdma_resolve_addr(
        id: *mut Id,
        source: *mut SocketAddress,
        destination: *mut SocketAddress,
        milliseconds: c_int,
    ) -> c_int;
    pub(super) fn rdma_resolve_route(id: *mut Id, milliseconds: c_int) -> c_int;
    pub(super) fn rdma_connect(id: *mut Id, parameters: *mut Parameters) -> c_int;
    pub(super) fn rdma_establish(id: *mut Id) -> c_int;
    pub(super) fn rdma_accept(id: *mut Id, parameters: *mut Parameters) -> c_int;
    pub(super) fn rdma_reject(id: *mut Id, private_data: *const c_void, length: u8) -> c_int;
    pub(super) fn rdma_disconnect(id: *mut Id) -> c_int;
    pub(super) fn rdma_notify(id: *mut Id, event: c_uint) -> c_int;
    pub(super) fn rdma_init_qp_attr(
        id: *mut Id,
        attributes: *mut ibv_qp_attr,
        mask: *mut c_int,
    ) -> c_int;
    pub(super) fn rdma_get_src_port(id: *mut Id) -> u16;
    pub(super) fn rdma_get_cm_event(channel: *mut EventChannel, event: *mut *mut Event) -> c_int;
    pub(super) fn rdma_ack_cm_event(event: *mut Event) -> c_int;
}
