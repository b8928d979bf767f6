//! The device of client and server: the embedded fabric, or a device of this host.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rpcrdma_verbs::driver::{Driver, DriverError};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::provider::{Device, VerbError};

/// The device, and the address to listen on.
#[derive(Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    /// RDMA device of this host, as `rpcrdma devices` lists it; the default is the embedded fabric.
    #[arg(long)]
    device: Option<String>,
    /// Address of the device to listen on, with or without a port.
    #[arg(long, value_parser = address)]
    bind: Option<SocketAddr>,
    /// Expose memory by windows also on a device whose windows do not confine the peer (soft-RoCE).
    #[arg(long)]
    trust_peers: bool,
}

/// Opens devices, on any thread.
pub(crate) trait DeviceSource: Clone + Send + 'static {
    type Device: Device;

    /// Opens the device with its own protection domain.
    fn open(&self) -> Result<Self::Device, VerbError>;

    /// Returns the address for a server, with any port if none was given.
    fn address(&self) -> SocketAddr;

    /// Returns true if peers may have windows that do not confine them.
    fn trusts(&self) -> bool;

    /// Creates a driver on a device of its own.
    fn driver(
        &self,
        budget: &Budget,
        completions: u32,
    ) -> Result<Driver<Self::Device>, DriverError> {
        let mut driver = Driver::new(&self.open()?, budget, completions)?;
        if self.trusts() {
            driver.trust_peers_with_windows();
        }
        Ok(driver)
    }
}

/// A fabric in this process.
#[derive(Clone)]
pub(crate) struct EmbeddedFabric(Arc<Fabric>);

impl EmbeddedFabric {
    /// Creates a fabric with a one-way delay.
    fn new(delay: Duration) -> Self {
        Self(Fabric::with_delay(delay))
    }
}

impl DeviceSource for EmbeddedFabric {
    type Device = SoftwareDevice;

    fn open(&self) -> Result<SoftwareDevice, VerbError> {
        Ok(self.0.device())
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
    }

    fn trusts(&self) -> bool {
        false
    }
}

/// A device of this host.
#[cfg(feature = "ibverbs")]
#[derive(Clone)]
pub(crate) struct HostDevice {
    device: String,
    address: SocketAddr,
    trusts: bool,
}

#[cfg(feature = "ibverbs")]
impl DeviceSource for HostDevice {
    type Device = rpcrdma_verbs::provider::ibverbs::IbvDevice;

    fn open(&self) -> Result<Self::Device, VerbError> {
        Self::Device::open(Some(&self.device))
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn trusts(&self) -> bool {
        self.trusts
    }
}

/// A subcommand that runs on any device.
pub(crate) trait Command {
    type Output;

    fn on<G: DeviceSource>(self, ground: &G) -> Result<Self::Output, Box<dyn std::error::Error>>;
}

/// Whether both ends of a subcommand are in this process, or one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locality {
    Process,
    Network,
}

impl Options {
    /// Selects a device of this host.
    #[cfg(feature = "nfs")]
    pub(crate) fn of_host(device: String) -> Self {
        Self {
            device: Some(device),
            bind: None,
            trust_peers: false,
        }
    }

    /// Runs a subcommand on the selected device.
    pub(crate) fn run<J: Command>(
        &self,
        reach: Locality,
        job: J,
    ) -> Result<J::Output, Box<dyn std::error::Error>> {
        self.run_delayed(reach, Duration::ZERO, job)
    }

    /// Runs a subcommand on the selected device. The embedded fabric has a delay.
    pub(crate) fn run_delayed<J: Command>(
        &self,
        reach: Locality,
        delay: Duration,
        job: J,
    ) -> Result<J::Output, Box<dyn std::error::Error>> {
        match (&self.device, reach) {
            (None, Locality::Process) => job.on(&EmbeddedFabric::new(delay)),
            (None, Locality::Network) => Err(NO_REMOTE.into()),
            (Some(device), _) => self.on_device(device, reach, job),
        }
    }

    #[cfg(feature = "ibverbs")]
    fn on_device<J: Command>(
        &self,
        device: &str,
        reach: Locality,
        job: J,
    ) -> Result<J::Output, Box<dyn std::error::Error>> {
        let address = self
            .bind
            .unwrap_or_else(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let ground = HostDevice {
            device: device.to_owned(),
            address,
            trusts: self.trust_peers,
        };
        // Reports first if the device does not exist.
        if let Err(error) = ground.open() {
            return Err(match reach {
                Locality::Process => format!("{error}; {NO_DEVICE_NEEDED}").into(),
                Locality::Network => error.into(),
            });
        }
        job.on(&ground)
    }

    #[cfg(not(feature = "ibverbs"))]
    fn on_device<J: Command>(
        &self,
        device: &str,
        _reach: Locality,
        _job: J,
    ) -> Result<J::Output, Box<dyn std::error::Error>> {
        Err(format!("{device}: this program was built without RDMA devices: build it with --features ibverbs").into())
    }
}

/// What helps a subcommand with both ends in this process if the device can't be opened.
#[cfg(feature = "ibverbs")]
const NO_DEVICE_NEEDED: &str =
    "without --device there is the embedded fabric, which needs no device";

/// The error if the embedded fabric is selected, and the other end is elsewhere.
const NO_REMOTE: &str = "the embedded fabric ends with this process: name a device by --device (`rpcrdma devices` lists \
    them), or try `rpcrdma demo` and `rpcrdma bench`, which have both ends here";

/// Parses an address with or without a port.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>();
    let without = || {
        text.parse::<IpAddr>()
            .map(|address| SocketAddr::new(address, 0))
    };
    with_port
        .or_else(|_| without())
        .map_err(|_| format!("{text} is no address, like 192.0.2.1 or 192.0.2.1:20049"))
}
