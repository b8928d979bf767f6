//! The device of client and server: the embedded fabric, iWARP over TCP, or a device of this host.
//!
//! `Options` selects a device by `--device` or else by [`Locality`], and a [`DeviceSource`] opens
//! it. Each subcommand opens devices here, since traffic class, CRCs and trust are set at the open.
//! Both ends on the embedded fabric must come from one `DeviceSource` or its clones: another one
//! has another fabric.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rpcrdma_verbs::driver::{Driver, DriverError};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::provider::iwarp::{self, IwarpConfig, IwarpDevice};
use rpcrdma_verbs::provider::route::{device_for_listener, device_towards};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::provider::{Device as _, VerbError};

use crate::listen_address::ListenAddress;

/// The device, and the address to listen on.
#[derive(Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    /// RDMA device of this host, as listed by `rpcrdma devices`. The default needs none: within one
    /// process it is the embedded fabric, between processes and hosts the RDMA hardware on the
    /// route, or else iWARP over TCP.
    #[arg(long)]
    device: Option<String>,
    /// Address of the device to listen on, with or without a port, or a port.
    #[arg(long, value_name = "ADDR")]
    bind: Option<ListenAddress>,
    /// Expose memory by windows even on a device whose windows do not confine the peer (soft-RoCE).
    #[arg(long)]
    trust_peers: bool,
    /// Traffic class of connections: the DSCP times four, as in RDMA_OPTION_ID_TOS. With RoCE the
    /// kernel derives the service level from it. The embedded fabric has none.
    #[arg(long, visible_alias = "tos", value_name = "CLASS", value_parser = traffic_class)]
    traffic_class: Option<u8>,
    /// Disable CRCs on iWARP over TCP, if the peer also disables them: for measurements, and for
    /// networks whose lower layer has its own checksum.
    #[arg(long)]
    no_crc: bool,
}

/// Opens devices on any thread.
#[derive(Clone)]
pub(crate) struct DeviceSource {
    kind: Kind,
    /// The given address for a server.
    bind: Option<ListenAddress>,
    /// The default of the address.
    any: Ipv4Addr,
    /// Whether peers may get windows that do not confine them.
    trusts: bool,
    traffic_class: Option<u8>,
    /// Whether iWARP over TCP requires CRCs.
    crc: bool,
}

#[derive(Clone)]
enum Kind {
    /// A fabric in this process.
    Embedded(Arc<Fabric>),
    /// A device of this host, or iWARP over TCP.
    Named(String),
}

impl DeviceSource {
    /// Opens the device with its own protection domain.
    pub(crate) fn open(&self) -> Result<AnyDevice, VerbError> {
        let device: AnyDevice = match &self.kind {
            Kind::Embedded(fabric) => fabric.device().into(),
            Kind::Named(device) if device == iwarp::NAME => {
                let config = IwarpConfig {
                    crc: self.crc,
                    ..IwarpConfig::default()
                };
                IwarpDevice::new(config).into()
            }
            Kind::Named(device) => AnyDevice::open(device)?,
        };
        if let Some(class) = self.traffic_class {
            device.set_traffic_class(class);
        }
        Ok(device)
    }

    /// Returns the name of the device, or `None` for the embedded fabric.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Embedded(_) => None,
            Kind::Named(name) => Some(name),
        }
    }

    /// Returns the address for a server. The port is this one if none was given.
    pub(crate) fn address(&self, port: u16) -> SocketAddr {
        let default = SocketAddr::from((self.any, port));
        self.bind.map_or(default, |bind| bind.or(self.any, port))
    }

    /// Creates a driver on a newly opened device.
    pub(crate) fn driver(
        &self,
        budget: &Budget,
        completions: u32,
    ) -> Result<Driver<AnyDevice>, DriverError> {
        let mut driver = Driver::new(&self.open()?, budget, completions)?;
        if self.trusts {
            driver.trust_peers_with_windows();
        }
        Ok(driver)
    }
}

/// The location of the ends of a subcommand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locality {
    /// Both are in this process.
    Process,
    /// One end is in this process, and iWARP over TCP reaches any peer.
    #[cfg(feature = "nfs")]
    Network,
    /// The client is in this process: the device is that of the route to the server.
    Client(IpAddr),
    /// The server is in this process: the device is that of its address.
    Server,
}

impl Options {
    /// Selects a device of this host, or the default.
    #[cfg(feature = "nfs")]
    pub(crate) fn of_host(device: Option<String>) -> Self {
        Self {
            device,
            bind: None,
            trust_peers: false,
            traffic_class: None,
            no_crc: false,
        }
    }

    /// Returns the selected device.
    pub(crate) fn source(&self, reach: Locality) -> Result<DeviceSource, Box<dyn Error>> {
        self.delayed(reach, Duration::ZERO)
    }

    /// Returns the selected device. The embedded fabric has this delay.
    pub(crate) fn delayed(
        &self,
        reach: Locality,
        delay: Duration,
    ) -> Result<DeviceSource, Box<dyn Error>> {
        let (kind, any) = match (&self.device, reach) {
            (None, Locality::Process) => (
                Kind::Embedded(Fabric::with_delay(delay)),
                Ipv4Addr::LOCALHOST,
            ),
            (None, locality) => (Kind::Named(self.selected(locality)), Ipv4Addr::UNSPECIFIED),
            (Some(device), _) => (Kind::Named(device.clone()), Ipv4Addr::UNSPECIFIED),
        };
        let is_embedded = matches!(kind, Kind::Embedded(_));
        let source = DeviceSource {
            kind,
            bind: self.bind.filter(|_| !is_embedded),
            any,
            trusts: self.trust_peers && !is_embedded,
            traffic_class: self.traffic_class,
            crc: !self.no_crc,
        };
        // If the device does not exist, this error is reported first.
        match source.open() {
            Ok(_) => Ok(source),
            Err(error) if reach == Locality::Process => {
                Err(format!("{error}; {NO_DEVICE_NEEDED}").into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Options {
    /// Returns the name of the default device.
    fn selected(&self, locality: Locality) -> String {
        let device = match locality {
            Locality::Process => return iwarp::NAME.to_owned(),
            #[cfg(feature = "nfs")]
            Locality::Network => return iwarp::NAME.to_owned(),
            Locality::Client(server) => device_towards(server),
            Locality::Server => {
                let any = Ipv4Addr::UNSPECIFIED;
                let bind = self.bind.map(|address| address.or(any, 0).ip());
                device_for_listener(bind.unwrap_or(any.into()))
            }
        };
        device.capabilities().name.clone()
    }
}

/// The hint if the device cannot be opened, for a subcommand with both ends in this process.
const NO_DEVICE_NEEDED: &str =
    "without --device there is the embedded fabric, which needs no device";

/// Parses a traffic class, in decimal or in hexadecimal after `0x`.
pub(crate) fn traffic_class(text: &str) -> Result<u8, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is not a traffic class, like 104 or 0x68"))
}
