//! `rpcrdma devices`: the devices that can be used.

use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::provider::{Capabilities, Device};

/// Prints the embedded fabric, and the devices of this host.
pub(crate) fn run() {
    let device = Fabric::new().device();
    println!(
        "{}: in this process, nothing to install",
        device.capabilities().name
    );
    capabilities(device.capabilities());
    #[cfg(feature = "ibverbs")]
    verbs::list();
    #[cfg(not(feature = "ibverbs"))]
    println!(
        "\nRDMA devices are not listed: this program was built without them (--features ibverbs)"
    );
}

fn capabilities(can: &Capabilities) {
    let windows = match (can.windows, can.guards_windows) {
        (true, true) => "type-2 memory windows",
        (true, false) => {
            "registration per call, as its windows do not confine the peer (--trust-peers)"
        }
        (false, _) => "registration per call",
    };
    println!(
        "    exposes memory by {windows}; {} slices a request, {} for an RDMA Read",
        can.max_sge, can.max_read_sge
    );
    println!(
        "    {} RDMA Reads under way, {} bytes a request; a Send takes up to {} along",
        can.max_reads, can.max_message, can.max_inline
    );
    let waits = if can.rnr_retry {
        "receives can be shared"
    } else {
        "no RNR retry, so that receives can't be shared"
    };
    println!("    {waits}");
}

#[cfg(feature = "ibverbs")]
mod verbs {
    use rpcrdma_verbs::provider::ibverbs::{DeviceInfo, PortInfo, devices};

    pub(super) fn list() {
        let found = match devices() {
            Ok(found) => found,
            Err(error) => return println!("\nRDMA devices cannot be listed: {error}"),
        };
        if found.is_empty() {
            println!(
                "\nThis host has no RDMA device. The embedded fabric works without one: leave out \
                --device"
            );
        }
        found.iter().for_each(one);
    }

    fn one(device: &DeviceInfo) {
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
        println!("\n{name}: {kind}, vendor {vendor:#x} part {part}, firmware {firmware}");
        ports.iter().for_each(port);
        println!(
            "    has {} queue pairs of {} requests, {} completion queues of {}, {} shared receive \
            queues",
            limits.queue_pairs,
            limits.requests,
            limits.completion_queues,
            limits.completions,
            limits.shared_receives
        );
        println!(
            "    has {} regions of {} bytes at most, {} memory windows, {} slices a request",
            limits.regions, limits.region, limits.windows, limits.max_sge
        );
        match used {
            Ok(used) => {
                println!("    uses port {}", used.port);
                super::capabilities(&used.capabilities);
            }
            Err(error) => println!("    cannot be used: {error}"),
        }
    }

    fn port(port: &PortInfo) {
        println!(
            "    port {}: {}, MTU {}, messages of up to {} bytes",
            port.number, port.state, port.mtu, port.max_message
        );
        for gid in &port.gids {
            println!("        GID {} {} ({})", gid.index, gid.gid, gid.kind);
        }
    }
}
