//! The devices for tests: the software fabric, and the device that the environment names.

use std::net::SocketAddr;
use std::sync::Arc;

use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::provider::{Capabilities, Device};

/// Opens devices.
pub trait DeviceSource {
    type Device: Device;

    /// Opens the device with its own protection domain.
    fn open(&self) -> Self::Device;

    /// Returns the address for a server, with any port.
    fn address(&self) -> SocketAddr;
}

/// The software fabric.
#[derive(Debug)]
pub struct Software(Arc<Fabric>);

impl Software {
    pub fn new() -> Self {
        Self(Fabric::new())
    }

    /// Creates a fabric with a one-way delay.
    pub fn at(distance: std::time::Duration) -> Self {
        Self(Fabric::with_delay(distance))
    }
}

impl Default for Software {
    fn default() -> Self {
        Self::new()
    }
}

impl DeviceSource for Software {
    type Device = SoftwareDevice;

    fn open(&self) -> SoftwareDevice {
        self.0.device()
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }
}

/// A fabric whose devices do not acknowledge, like iWARP devices.
#[derive(Debug)]
pub struct Unacknowledging(pub Software);

impl DeviceSource for Unacknowledging {
    type Device = SoftwareDevice;

    fn open(&self) -> SoftwareDevice {
        let capabilities = self.0.open().capabilities().clone();
        self.0.0.device_with(Capabilities {
            acknowledges: false,
            rnr_retry: false,
            ..capabilities
        })
    }

    fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

/// The device that the environment names.
#[cfg(feature = "ibverbs")]
#[derive(Debug)]
pub struct Named {
    device: String,
    address: SocketAddr,
}

#[cfg(feature = "ibverbs")]
impl Named {
    /// Returns `None` if the environment names no device.
    pub fn new() -> Option<Self> {
        let Ok(device) = std::env::var("RPCRDMA_DEVICE") else {
            println!("RPCRDMA_DEVICE names no device to run this on");
            return None;
        };
        let address =
            std::env::var("RPCRDMA_ADDRESS").expect("RPCRDMA_ADDRESS: an address of the device");
        Some(Self {
            device,
            address: SocketAddr::new(address.parse().expect("an address"), 0),
        })
    }
}

#[cfg(feature = "ibverbs")]
impl DeviceSource for Named {
    type Device = rpcrdma_verbs::provider::ibverbs::IbvDevice;

    fn open(&self) -> Self::Device {
        Self::Device::open(Some(&self.device)).expect("a device that works")
    }

    fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Makes tests of functions that take a device source: one each on the software fabric, and one on
/// the named device.
#[macro_export]
macro_rules! on_every_device {
    ($($name:ident),* $(,)?) => {
        mod software {
            use $crate::device_source::{Software, on};
            $(#[test] fn $name() { on(Some(Software::new()), super::$name); })*
        }
        #[cfg(feature = "ibverbs")]
        mod device {
            use $crate::device_source::{Named, on};
            $(#[test] fn $name() { on(Named::new(), super::$name); })*
        }
    };
}

/// Runs a test on a device source, if there is one.
pub fn on<G: DeviceSource>(source: Option<G>, test: impl FnOnce(&G)) {
    if let Some(source) = source {
        test(&source);
    }
}
