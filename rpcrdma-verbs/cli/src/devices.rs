//! `rpcrdma devices`: lists the available devices.

use std::error::Error;

use rpcrdma_verbs::provider::iwarp::IwarpDevice;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::provider::{Capabilities, Device};
use serde_json::{Value, json};

use crate::output::{OutputError, outln};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print one JSON array.
    #[arg(long)]
    json: bool,
}

impl Options {
    /// Prints the options that need no device, and the devices of this host.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        if self.json {
            outln!("{}", all_as_json()?);
            return Ok(());
        }
        let device = Fabric::new().device();
        outln!(
            "{}: in this process, nothing to install",
            device.capabilities().name
        );
        capabilities(device.capabilities())?;
        let device = IwarpDevice::default();
        outln!(
            "\n{}: over TCP between processes and hosts, nothing to install",
            device.capabilities().name
        );
        capabilities(device.capabilities())?;
        #[cfg(feature = "ibverbs")]
        verbs::list()?;
        #[cfg(not(feature = "ibverbs"))]
        outln!(
            "\nRDMA devices are not listed: this program was built without them (--features \
            ibverbs)"
        );
        Ok(())
    }
}

/// Returns all devices.
fn all_as_json() -> Result<Value, Box<dyn Error>> {
    let one = |kind, can: &Capabilities| {
        let capabilities = capabilities_as_json(can);
        json!({ "name": can.name, "kind": kind, "capabilities": capabilities })
    };
    let without_devices = [
        one("embedded", Fabric::new().device().capabilities()),
        one("iWARP over TCP", IwarpDevice::default().capabilities()),
    ];
    #[cfg(feature = "ibverbs")]
    let of_host = verbs::all_as_json()?;
    #[cfg(not(feature = "ibverbs"))]
    let of_host = Vec::new();
    Ok(without_devices.into_iter().chain(of_host).collect())
}

fn capabilities_as_json(can: &Capabilities) -> Value {
    json!({
        "windows": can.windows, "guards_windows": can.guards_windows,
        "guards_reads": can.guards_reads, "rnr_retry": can.rnr_retry,
        "acknowledges": can.acknowledges, "max_sge": can.max_sge,
        "max_read_sge": can.max_read_sge, "max_reads": can.max_reads,
        "max_message": can.max_message, "max_inline": can.max_inline,
    })
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
        "    {} RDMA Reads in flight, {} bytes in a request, {} of them inline in a Send",
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

    use std::error::Error;

    use serde_json::{Value, json};

    use super::{OutputError, outln};

    fn kind(device: &DeviceInfo) -> &'static str {
        match (device.iwarp, device.ports.iter().any(|port| port.ethernet)) {
            (true, _) => "iWARP",
            (false, true) => "RoCE",
            (false, false) => "InfiniBand",
        }
    }

    /// Returns the devices of this host.
    pub(super) fn all_as_json() -> Result<Vec<Value>, Box<dyn Error>> {
        Ok(devices()?.iter().map(as_json).collect())
    }

    fn as_json(device: &DeviceInfo) -> Value {
        let ports = device.ports.iter().map(|port| {
            let gids = port.gids.iter().map(|gid| {
                let kind = gid.kind.to_string();
                json!({ "index": gid.index, "gid": gid.gid, "kind": kind })
            });
            json!({
                "number": port.number, "state": port.state, "active": port.active,
                "mtu": port.mtu, "gids": gids.collect::<Value>(),
            })
        });
        let (used, error) = match &device.probed {
            Ok(used) => (Some(used), None),
            Err(error) => (None, Some(error.to_string())),
        };
        json!({
            "name": device.name, "kind": kind(device), "firmware": device.firmware,
            "vendor": device.vendor.0, "part": device.vendor.1, "ports": ports.collect::<Value>(),
            "port": used.map(|used| used.port), "error": error,
            "capabilities": used.map(|used| super::capabilities_as_json(&used.capabilities)),
        })
    }

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
                "\nThis host has no RDMA device. The embedded fabric and iWARP over TCP work \
                 without one: leave out --device"
            );
        }
        found.iter().try_for_each(one)
    }

    fn one(device: &DeviceInfo) -> Result<(), OutputError> {
        let DeviceInfo {
            name,
            firmware,
            vendor: (vendor, part),
            ports,
            limits,
            probed: used,
            ..
        } = device;
        let kind = kind(device);
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
