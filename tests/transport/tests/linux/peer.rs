//! The Linux peer in the environment.

use std::net::{IpAddr, SocketAddr};

use rpcrdma_verbs::provider::any::AnyDevice;

/// The device of the machine, and the kernel's NFS server.
pub(crate) struct Linux {
    device: String,
    /// The address of the device, which the test shares with the kernel.
    pub(crate) address: IpAddr,
    /// The RDMA address of the kernel's NFS server.
    pub(crate) nfsd: SocketAddr,
}

impl Linux {
    /// Returns `None` and prints a message if something is missing.
    pub(crate) fn new() -> Option<Self> {
        let named = |name: &str, what| {
            let value = std::env::var(name).ok();
            if value.is_none() {
                println!("{name} is missing, {what}: there is nothing to run this on");
            }
            value
        };
        let device = named("RPCRDMA_DEVICE", "an RDMA device")?;
        let address = named("RPCRDMA_ADDRESS", "an address of the device")?;
        let nfsd = named(
            "RPCRDMA_NFSD",
            "address and port of the kernel's NFS server",
        )?;
        Some(Self {
            device,
            address: address.parse().expect("RPCRDMA_ADDRESS: an address"),
            nfsd: nfsd.parse().expect("RPCRDMA_NFSD: address and port"),
        })
    }

    pub(crate) fn open(&self) -> AnyDevice {
        AnyDevice::open(&self.device).expect("a device that works")
    }

    /// Returns an address of this machine, with any port.
    pub(crate) fn anywhere(&self) -> SocketAddr {
        SocketAddr::new(self.address, 0)
    }
}
