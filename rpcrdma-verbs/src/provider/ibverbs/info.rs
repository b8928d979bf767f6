//! The devices of this host, as `rpcrdma devices` shows them.

use std::fmt;
use std::net::Ipv6Addr;
use std::rc::Rc;

use ibverbs_sys as ibv;
use ibverbs_sys::{ibv_device_attr, ibv_port_attr, ibv_port_state};

use super::IbvDevice;
use super::sys::{Context, Devices};
use crate::provider::{Capabilities, Result, VerbError};

/// An RDMA device of this host. Of one that can't be opened only the name is known, and why.
#[derive(Debug)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// Whether it is iWARP; if not, it is InfiniBand or RoCE, as its ports tell.
    pub iwarp: bool,
    /// The version of its firmware.
    pub firmware: String,
    /// Who has made it, by the number that IEEE has given, and which part it is.
    pub vendor: (u32, u32),
    /// Its ports.
    pub ports: Vec<PortInfo>,
    /// How much of everything it has.
    pub limits: Limits,
    /// What is used of it, once tried out; or why it can't be used.
    pub used: Result<Used>,
}

/// A port of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortInfo {
    /// Its number, from 1 on.
    pub number: u8,
    /// Whether work can go through it, and the name of its state.
    pub active: bool,
    /// The name of its state.
    pub state: &'static str,
    /// Whether it is Ethernet (RoCE, iWARP), and not InfiniBand.
    pub ethernet: bool,
    /// Octets of a packet's payload.
    pub mtu: u32,
    /// Octets of a message.
    pub message: u32,
    /// Its local identifier (InfiniBand).
    pub lid: u16,
    /// Its GIDs.
    pub gids: Vec<GidInfo>,
}

/// A GID of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GidInfo {
    /// Its place in the port's table.
    pub index: u32,
    /// The GID: of a network's address, an IPv4 one mapped, or of the device.
    pub gid: Ipv6Addr,
    /// What it is for.
    pub kind: GidKind,
}

/// What a GID is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidKind {
    /// InfiniBand or iWARP.
    Native,
    /// RoCE on one link.
    RoceV1,
    /// RoCE over UDP.
    RoceV2,
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
        })
    }
}

/// How much a device has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    /// Queue pairs, and work requests of one.
    pub queue_pairs: u32,
    /// Work requests of one queue pair.
    pub requests: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Completions of one queue.
    pub completions: u32,
    /// Memory regions.
    pub regions: u32,
    /// Octets of one region.
    pub region: u64,
    /// Memory windows.
    pub windows: u32,
    /// Shared receive queues.
    pub shared_receives: u32,
    /// Slices of a request, and of an RDMA Read.
    pub slices: u32,
    /// Slices of an RDMA Read; 0 if it does not tell.
    pub read_slices: u32,
    /// RDMA Reads under way on one queue pair.
    pub reads: u32,
}

/// What is used of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Used {
    /// What it can do.
    pub capabilities: Capabilities,
    /// Its port.
    pub port: u8,
}

/// All RDMA devices of this host; none where there are none.
///
/// # Errors
/// The system refuses to list them.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let list = Devices::list()?;
    let described = list.iter().map(|listed| {
        let (name, iwarp) = (listed.name(), listed.is_iwarp());
        let found = listed.open().and_then(|context| describe(&context, name.clone(), iwarp));
        found.unwrap_or_else(|error| unknown(name, iwarp, error))
    });
    Ok(described.collect())
}

fn unknown(name: String, iwarp: bool, error: VerbError) -> DeviceInfo {
    let (firmware, vendor, ports, limits) = Default::default();
    DeviceInfo { name, iwarp, firmware, vendor, ports, limits, used: Err(error) }
}

fn describe(context: &Rc<Context>, name: String, iwarp: bool) -> Result<DeviceInfo> {
    let attributes = context.attributes()?;
    let ports = (1..=attributes.phys_port_cnt).filter_map(|number| port(context, number));
    Ok(DeviceInfo {
        iwarp,
        firmware: Context::firmware(&attributes),
        vendor: (attributes.vendor_id, attributes.vendor_part_id),
        ports: ports.collect(),
        limits: limits(&attributes),
        used: used(&name),
        name,
    })
}

fn used(name: &str) -> std::result::Result<Used, VerbError> {
    let device = IbvDevice::open(Some(name))?;
    let hub = &device.hub;
    Ok(Used { capabilities: hub.capabilities.clone(), port: hub.traits.port })
}

/// Octets of a packet's payload.
fn mtu(code: u32) -> u32 {
    if (ibv::IBV_MTU_256..=ibv::IBV_MTU_4096).contains(&code) { 128 << code } else { 0 }
}

fn state(attributes: &ibv_port_attr) -> &'static str {
    match attributes.state {
        ibv_port_state::IBV_PORT_DOWN => "down",
        ibv_port_state::IBV_PORT_INIT => "initializing",
        ibv_port_state::IBV_PORT_ARMED => "armed",
        ibv_port_state::IBV_PORT_ACTIVE => "active",
        ibv_port_state::IBV_PORT_ACTIVE_DEFER => "active, deferred",
        _ => "no state",
    }
}

fn port(context: &Context, number: u8) -> Option<PortInfo> {
    let attributes = context.port(number).ok()?;
    let mut gids = context.gids(usize::try_from(attributes.gid_tbl_len).unwrap_or(0).saturating_mul(4).min(4096));
    gids.retain(|gid| gid.port_num == u32::from(number));
    Some(PortInfo {
        number,
        active: attributes.state == ibv_port_state::IBV_PORT_ACTIVE,
        state: state(&attributes),
        ethernet: u32::from(attributes.link_layer) == ibv::IBV_LINK_LAYER_ETHERNET,
        mtu: mtu(attributes.active_mtu),
        message: attributes.max_msg_sz,
        lid: attributes.lid,
        gids: gids.iter().map(gid).collect(),
    })
}

fn gid(entry: &ibv::ibv_gid_entry) -> GidInfo {
    let kind = match entry.gid_type {
        ibv::IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
        ibv::IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
        _ => GidKind::Native,
    };
    GidInfo { index: entry.gid_index, gid: Ipv6Addr::from(Context::octets(&entry.gid)), kind }
}

fn limits(attributes: &ibv_device_attr) -> Limits {
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    Limits {
        queue_pairs: count(attributes.max_qp),
        requests: count(attributes.max_qp_wr),
        completion_queues: count(attributes.max_cq),
        completions: count(attributes.max_cqe),
        regions: count(attributes.max_mr),
        region: attributes.max_mr_size,
        windows: count(attributes.max_mw),
        shared_receives: count(attributes.max_srq),
        slices: count(attributes.max_sge),
        read_slices: count(attributes.max_sge_rd),
        reads: count(attributes.max_qp_rd_atom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_of_powers_of_two() {
        assert_eq!((0..7).map(mtu).collect::<Vec<_>>(), [0, 256, 512, 1024, 2048, 4096, 0]);
    }
}
