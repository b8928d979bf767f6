//! What tests are run on: the software fabric, and the device that the environment names.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part of it")]

use std::net::SocketAddr;
use std::sync::Arc;

use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::provider::{Capabilities, Device};

/// What opens devices.
pub trait Ground {
    type Device: Device;

    /// Opens the device, with a protection domain of its own.
    fn open(&self) -> Self::Device;

    /// Where a server can listen: at any port.
    fn address(&self) -> SocketAddr;
}

/// The software fabric.
pub struct Software(Arc<Fabric>);

impl Software {
    #[allow(clippy::unnecessary_wraps, reason = "as a device, which may not be there")]
    pub fn new() -> Option<Self> {
        Some(Self(Fabric::new()))
    }

    /// A fabric whose octets take so long from one end to the other.
    pub fn at(distance: std::time::Duration) -> Self {
        Self(Fabric::with_delay(distance))
    }
}

impl Ground for Software {
    type Device = SoftwareDevice;

    fn open(&self) -> SoftwareDevice {
        self.0.device()
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }
}

/// A fabric whose devices do not say when the peer has taken a request, as iWARP's do not.
pub struct Unacknowledging(pub Software);

impl Ground for Unacknowledging {
    type Device = SoftwareDevice;

    fn open(&self) -> SoftwareDevice {
        let capabilities = self.0.open().capabilities().clone();
        self.0.0.device_with(Capabilities { acknowledges: false, rnr_retry: false, ..capabilities })
    }

    fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

/// The device that the environment names.
#[cfg(feature = "ibverbs")]
pub struct Named {
    device: String,
    address: SocketAddr,
}

#[cfg(feature = "ibverbs")]
impl Named {
    /// None if it names none: there is nothing to run on then.
    pub fn new() -> Option<Self> {
        let Ok(device) = std::env::var("RPCRDMA_DEVICE") else {
            println!("RPCRDMA_DEVICE names no device to run this on");
            return None;
        };
        let address = std::env::var("RPCRDMA_ADDRESS").expect("RPCRDMA_ADDRESS: an address of the device");
        Some(Self { device, address: SocketAddr::new(address.parse().expect("an address"), 0) })
    }
}

#[cfg(feature = "ibverbs")]
impl Ground for Named {
    type Device = rpcrdma_verbs::provider::ibverbs::IbvDevice;

    fn open(&self) -> Self::Device {
        Self::Device::open(Some(&self.device)).expect("a device that works")
    }

    fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Makes tests of functions that take a ground: one each on the software fabric, and one on the named device.
macro_rules! on_every_ground {
    ($($name:ident),* $(,)?) => {
        mod software {
            $(#[test] fn $name() { crate::ground::on(crate::ground::Software::new(), super::$name); })*
        }
        #[cfg(feature = "ibverbs")]
        mod device {
            $(#[test] fn $name() { crate::ground::on(crate::ground::Named::new(), super::$name); })*
        }
    };
}

pub(crate) use on_every_ground;

/// Runs a test on a ground, if there is one.
pub fn on<G: Ground>(ground: Option<G>, test: impl FnOnce(&G)) {
    if let Some(ground) = ground {
        test(&ground);
    }
}
