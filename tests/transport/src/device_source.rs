//! The devices for tests: the software fabric, iWARP over TCP, and the device in the environment.

use std::net::SocketAddr;
use std::sync::Arc;

use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::provider::iwarp::{self, IwarpConfig, IwarpDevice};
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::provider::{Capabilities, Device};

/// Opens devices.
pub trait DeviceSource {
    type Device: Device;

    /// Opens the device with its own protection domain.
    fn open(&self) -> Self::Device;

    /// Opens the server's device, which may be another one.
    fn open_server(&self) -> Self::Device {
        self.open()
    }

    /// Returns the address for a server, with any port.
    fn address(&self) -> SocketAddr;

    /// Returns true if the client's device responds while its driver is not turned.
    fn answers_alone(&self) -> bool {
        true
    }
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

/// iWARP over TCP, on the loopback interface.
#[derive(Debug)]
pub struct Iwarp;

impl DeviceSource for Iwarp {
    type Device = IwarpDevice;

    fn open(&self) -> IwarpDevice {
        IwarpDevice::default()
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    fn answers_alone(&self) -> bool {
        false
    }
}

/// Opens the device of this name. `RPCRDMA_PEER_TO_PEER` sets that mode of iWARP.
pub fn open(name: &str) -> AnyDevice {
    if name == iwarp::NAME && std::env::var_os("RPCRDMA_PEER_TO_PEER").is_some() {
        let config = IwarpConfig {
            peer_to_peer: true,
            ..IwarpConfig::default()
        };
        return IwarpDevice::new(config).into();
    }
    AnyDevice::open(name).expect("a device that works")
}

/// The device named in the environment, and the server's device if it is another one.
#[derive(Debug)]
pub struct Named {
    device: String,
    server: String,
    address: SocketAddr,
}

impl Named {
    /// Returns `None` if the environment names no device.
    pub fn new() -> Option<Self> {
        let Ok(device) = std::env::var("RPCRDMA_DEVICE") else {
            println!("RPCRDMA_DEVICE names no device to run this on");
            return None;
        };
        let address = std::env::var("RPCRDMA_ADDRESS")
            .expect("RPCRDMA_ADDRESS: an address of the server's device");
        Some(Self {
            server: std::env::var("RPCRDMA_SERVER_DEVICE").unwrap_or_else(|_| device.clone()),
            device,
            address: SocketAddr::new(address.parse().expect("an address"), 0),
        })
    }
}

impl DeviceSource for Named {
    type Device = AnyDevice;

    fn open(&self) -> AnyDevice {
        open(&self.device)
    }

    fn open_server(&self) -> AnyDevice {
        open(&self.server)
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn answers_alone(&self) -> bool {
        !matches!(self.open(), AnyDevice::Iwarp(_))
    }
}

/// Generates tests from functions that take a device source: one on the software fabric, and one
/// over iWARP.
#[macro_export]
macro_rules! on_software_and_iwarp {
    ($($name:ident),* $(,)?) => {
        mod software {
            use $crate::device_source::{Software, on};
            $(#[test] fn $name() { on(Some(Software::new()), super::$name); })*
        }
        mod iwarp {
            use $crate::device_source::{Iwarp, on};
            $(#[test] fn $name() { on(Some(Iwarp), super::$name); })*
        }
    };
}

/// Generates tests from functions that take a device source: one on the software fabric, one over
/// iWARP, and one on the named device.
#[macro_export]
macro_rules! on_every_device {
    ($($name:ident),* $(,)?) => {
        $crate::on_software_and_iwarp! { $($name),* }
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
