//! `rpcrdma devices`: the devices that can be used.

use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::provider::{Capabilities, Device};

use crate::output::{OutputError, outln};

/// Prints the embedded fabric, and the devices of this host.
pub(crate) fn run() -> Result<(), OutputError> {
    let device = Fabric::new().device();
    outln!(
        "{}: in this process, nothing to install",
        device.capabilities().name
    );
    capabilities(device.capabilities())?;
    #[cfg(feature = "ibverbs")]
    verbs::list()?;
    #[cfg(not(feature = "ibverbs"))]
    outln!(
        "\nRDMA devices are not listed: this program was built without them (--features ibverbs)"
    );
    Ok(())
}

fn capabilities(can: &Capabilities) -> Result<(), OutputError> {
    let windows = match (can.windows, can.guards_windows) {
        (true, true) => "type-2 memory windows",
        (true, false) => {
            "registration per call, as its windows do not confine the peer (--trust-peers)"
        }
        (false, _) => "registration per call",
    };
    outln!(
        "    exposes memory by {windows}; {} slices a request, {} for an RDMA Read",
        can.max_sge,
        can.max_read_sge
    );
    outln!(
        "    {} RDMA Reads under way, {} bytes a request; a Send takes up to {} along",
        can.max_reads,
        can.max_message,
        can.max_inline
    );
    let waits = if can.rnr_retry {
        "receives can be shared"
    } else {
        "no RNR retry, so that receives can't be shared"
    };
    outln!("    {waits}");
    Ok(())
}

#[cfg(feature = "ibverbs")]
mod verbs {
    use rpcrdma_verbs::provider::ibverbs::{DeviceInfo, PortInfo, devices};

    use super::{OutputError, outln};

    pub(super) fn list() -> Result<(), OutputError> {
        let found = match devices() {
            Ok(found) => found,
            Err(error) => {
                outln!("\nRDMA devices cannot be listed: {error}");
                return Ok(());
            }
        };
        if found.is_empty() {
            outln!(
                "\nThis host has no RDMA device. The embedded fabric works without one: leave out \
                --device"
            );
        }
        found.iter().try_for_each(one)
    }

    fn one(device: &DeviceInfo) -> Result<(), OutputError> {
        let DeviceInfo {
            name,
            iwarp,
            firmware,
            vendor: (vendor, part),
            ports,
            limits,
            probed: used,
        } = device;
        let kind = match (iwarp, ports.iter().any(|port| port.ethernet)) {
            (true, _) => "iWARP",
            (false, true) => "RoCE",
            (false, false) => "InfiniBand",
        };
        outln!("\n{name}: {kind}, vendor {vendor:#x} part {part}, firmware {firmware}");
        ports.iter().try_for_each(port)?;
        outln!(
            "    has {} queue pairs of {} requests, {} completion queues of {}, {} shared receive \
            queues",
            limits.queue_pairs,
            limits.requests,
            limits.completion_queues,
            limits.completions,
            limits.shared_receives
        );
        outln!(
            "    has {} regions of {} bytes at most, {} memory windows, {} slices a request",
            limits.regions,
            limits.region,
            limits.windows,
            limits.max_sge
        );
        match used {
            Ok(used) => {
                outln!("    uses port {}", used.port);
                super::capabilities(&used.capabilities)?;
            }
            Err(error) => outln!("    cannot be used: {error}"),
        }
        Ok(())
    }

    fn port(port: &PortInfo) -> Result<(), OutputError> {
        outln!(
            "    port {}: {}, MTU {}, messages of up to {} bytes",
            port.number,
            port.state,
            port.mtu,
            port.max_message
        );
        for gid in &port.gids {
            outln!("        GID {} {} ({})", gid.index, gid.gid, gid.kind);
        }
        Ok(())
    }
}
