//! What client and server are run on: the embedded fabric, or a device of this host.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rpcrdma_verbs::driver::{Driver, DriverError};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::provider::{Device, VerbError};

/// Which device, and where it listens.
#[derive(Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    /// An RDMA device of this host, as `rpcrdma devices` lists it; without it, the embedded fabric.
    #[arg(long)]
    device: Option<String>,
    /// Where to listen: an address of the device, with a port or without.
    #[arg(long, value_parser = address)]
    bind: Option<SocketAddr>,
    /// Expose memory by windows on a device, too, whose windows do not confine the peer (soft-RoCE).
    #[arg(long)]
    trust_peers: bool,
}

/// What opens devices, for any thread.
pub(crate) trait Ground: Clone + Send + 'static {
    type Device: Device;

    /// Opens the device, with a protection domain of its own.
    fn open(&self) -> Result<Self::Device, VerbError>;

    /// Where a server can listen: at any port, if none was given.
    fn address(&self) -> SocketAddr;

    /// Whether peers are trusted with windows that do not confine them.
    fn trusts(&self) -> bool;

    /// A driver on a device of its own.
    fn driver(&self, budget: &Budget, completions: u32) -> Result<Driver<Self::Device>, DriverError> {
        let mut driver = Driver::new(&self.open()?, budget, completions)?;
        if self.trusts() {
            driver.trust_peers_with_windows();
        }
        Ok(driver)
    }
}

/// A fabric in this process.
#[derive(Clone)]
pub(crate) struct Embedded(Arc<Fabric>);

impl Embedded {
    /// One whose octets take so long from end to end.
    fn new(delay: Duration) -> Self {
        Self(Fabric::with_delay(delay))
    }
}

impl Ground for Embedded {
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
pub(crate) struct Named {
    device: String,
    address: SocketAddr,
    trusts: bool,
}

#[cfg(feature = "ibverbs")]
impl Ground for Named {
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

/// What is to be done, on whichever ground.
pub(crate) trait Job {
    type Done;

    fn on<G: Ground>(self, ground: &G) -> Result<Self::Done, Box<dyn std::error::Error>>;
}

/// Whether a job has both ends in this process, or one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Process,
    Network,
}

impl Options {
    /// Does a job on the ground that is asked for.
    pub(crate) fn run<J: Job>(&self, reach: Reach, job: J) -> Result<J::Done, Box<dyn std::error::Error>> {
        self.run_delayed(reach, Duration::ZERO, job)
    }

    /// The same, with a delay of the embedded fabric, if it is that.
    pub(crate) fn run_delayed<J: Job>(
        &self,
        reach: Reach,
        delay: Duration,
        job: J,
    ) -> Result<J::Done, Box<dyn std::error::Error>> {
        match (&self.device, reach) {
            (None, Reach::Process) => job.on(&Embedded::new(delay)),
            (None, Reach::Network) => Err(WITHIN.into()),
            (Some(device), _) => self.on_device(device, job),
        }
    }

    #[cfg(feature = "ibverbs")]
    fn on_device<J: Job>(&self, device: &str, job: J) -> Result<J::Done, Box<dyn std::error::Error>> {
        let address = self.bind.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let ground = Named { device: device.to_owned(), address, trusts: self.trust_peers };
        // Whether it is there, before anything else goes wrong.
        if let Err(error) = ground.open() {
            return Err(format!("{error}; without --device there is the embedded fabric, which needs no device").into());
        }
        job.on(&ground)
    }

    #[cfg(not(feature = "ibverbs"))]
    fn on_device<J: Job>(&self, device: &str, _job: J) -> Result<J::Done, Box<dyn std::error::Error>> {
        Err(format!("{device}: this program was built without RDMA devices: build it with --features ibverbs").into())
    }
}

/// Why what has its other end elsewhere can't be done on the embedded fabric.
const WITHIN: &str = "the embedded fabric ends with this process: name a device by --device (`rpcrdma devices` lists \
    them), or try `rpcrdma demo` and `rpcrdma bench`, which have both ends here";

/// An address with a port or without.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>();
    let without = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
    with_port.or_else(|_| without()).map_err(|_| format!("{text} is no address, like 192.0.2.1 or 192.0.2.1:20049"))
}
