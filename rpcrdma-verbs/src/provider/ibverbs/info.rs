//! The devices of this host, for `rpcrdma devices`. This module only describes: `IbvDevice::open`
//! decides the capabilities and the port (`ProbedDevice`). A device that cannot be opened is listed
//! with its error.

use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use ibverbs_sys as ibv;
use ibverbs_sys::{ibv_device_attr, ibv_port_attr, ibv_port_state};

use super::IbvDevice;
use super::sys::{Context, Devices};
use crate::provider::{Capabilities, Result, VerbError};

/// An RDMA device of this host. If it cannot be opened, only the name and the error are known.
#[derive(Debug)]
pub struct DeviceInfo {
    /// The name.
    pub name: String,
    /// True for iWARP. Otherwise its ports tell whether it is InfiniBand or RoCE.
    pub iwarp: bool,
    /// The firmware version.
    pub firmware: String,
    /// The vendor's IEEE number, and the part number.
    pub vendor: (u32, u32),
    /// The ports.
    pub ports: Vec<PortInfo>,
    /// The limits of the device.
    pub limits: DeviceLimits,
    /// The capabilities that were probed, or the reason why the device cannot be used.
    pub probed: Result<ProbedDevice>,
}

/// A port of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortInfo {
    /// The number, beginning with 1.
    pub number: u8,
    /// True if the port is active.
    pub active: bool,
    /// The name of the state.
    pub state: &'static str,
    /// True for Ethernet (RoCE, iWARP), false for InfiniBand.
    pub ethernet: bool,
    /// The maximum payload of a packet in bytes.
    pub mtu: u32,
    /// The maximum message length in bytes.
    pub max_message: u32,
    /// The local identifier (InfiniBand).
    pub lid: u16,
    /// The GIDs.
    pub gids: Vec<GidInfo>,
}

/// A GID of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GidInfo {
    /// The index in the table of the port.
    pub index: u32,
    /// The GID: a network address (IPv4 is mapped), or an address of the device.
    pub gid: Ipv6Addr,
    /// The kind.
    pub kind: GidKind,
}

/// The kind of a GID.
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

/// The limits of a device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DeviceLimits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Work requests of a queue pair.
    pub requests: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Completions of a queue.
    pub completions: u32,
    /// Memory regions.
    pub regions: u32,
    /// Bytes of a region.
    pub region: u64,
    /// Memory windows.
    pub windows: u32,
    /// Shared receive queues.
    pub shared_receives: u32,
    /// Scatter/gather entries of a request.
    pub max_sge: u32,
    /// Scatter/gather entries of an RDMA Read; 0 if unknown.
    pub max_read_sge: u32,
    /// RDMA Reads in flight on a queue pair.
    pub max_reads: u32,
}

/// The result of probing a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbedDevice {
    /// The capabilities.
    pub capabilities: Capabilities,
    /// The port.
    pub port: u8,
}

/// Returns all RDMA devices of this host.
///
/// # Errors
/// Fails if the system refuses to list them.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let list = Devices::list()?;
    let described = list.iter().map(|listed| {
        let (name, iwarp) = (listed.name(), listed.is_iwarp());
        let found = listed
            .open()
            .and_then(|context| describe(&context, name.clone(), iwarp));
        found.unwrap_or_else(|error| unknown(name, iwarp, error))
    });
    Ok(described.collect())
}

fn unknown(name: String, iwarp: bool, error: VerbError) -> DeviceInfo {
    let (firmware, vendor, ports, limits) = Default::default();
    DeviceInfo {
        name,
        iwarp,
        firmware,
        vendor,
        ports,
        limits,
        probed: Err(error),
    }
}

fn describe(context: &Arc<Context>, name: String, iwarp: bool) -> Result<DeviceInfo> {
    let attributes = context.attributes()?;
    let ports = (1..=attributes.phys_port_cnt).filter_map(|number| port(context, number));
    Ok(DeviceInfo {
        iwarp,
        firmware: Context::firmware(&attributes),
        vendor: (attributes.vendor_id, attributes.vendor_part_id),
        ports: ports.collect(),
        limits: limits(&attributes),
        probed: used(&name),
        name,
    })
}

fn used(name: &str) -> std::result::Result<ProbedDevice, VerbError> {
    let device = IbvDevice::open(Some(name))?;
    let device_state = &device.device_state;
    Ok(ProbedDevice {
        capabilities: device_state.capabilities.clone(),
        port: device_state.quirks.port,
    })
}

/// Converts the code of an MTU to bytes.
fn mtu(code: u32) -> u32 {
    if (ibv::IBV_MTU_256..=ibv::IBV_MTU_4096).contains(&code) {
        128 << code
    } else {
        0
    }
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
    let mut gids = context.gids(
        usize::try_from(attributes.gid_tbl_len)
            .unwrap_or(0)
            .saturating_mul(4)
            .min(4096),
    );
    gids.retain(|gid| gid.port_num == u32::from(number));
    Some(PortInfo {
        number,
        active: attributes.state == ibv_port_state::IBV_PORT_ACTIVE,
        state: state(&attributes),
        ethernet: u32::from(attributes.link_layer) == ibv::IBV_LINK_LAYER_ETHERNET,
        mtu: mtu(attributes.active_mtu),
        max_message: attributes.max_msg_sz,
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
    GidInfo {
        index: entry.gid_index,
        gid: Ipv6Addr::from(Context::bytes(&entry.gid)),
        kind,
    }
}

fn limits(attributes: &ibv_device_attr) -> DeviceLimits {
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    DeviceLimits {
        queue_pairs: count(attributes.max_qp),
        requests: count(attributes.max_qp_wr),
        completion_queues: count(attributes.max_cq),
        completions: count(attributes.max_cqe),
        regions: count(attributes.max_mr),
        region: attributes.max_mr_size,
        windows: count(attributes.max_mw),
        shared_receives: count(attributes.max_srq),
        max_sge: count(attributes.max_sge),
        max_read_sge: count(attributes.max_sge_rd),
        max_reads: count(attributes.max_qp_rd_atom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_of_powers_of_two() {
        assert_eq!(
            (0..7).map(mtu).collect::<Vec<_>>(),
            [0, 256, 512, 1024, 2048, 4096, 0]
        );
    }
}
