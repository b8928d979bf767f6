//! Where Linux is, as the environment says.

use std::net::{IpAddr, SocketAddr};

use rpcrdma_verbs::provider::ibverbs::IbvDevice;

/// The machine's device, and the kernel's NFS server.
pub(crate) struct Linux {
    device: String,
    /// The device's address, which is ours and the kernel's.
    pub(crate) address: IpAddr,
    /// Where the kernel's NFS server listens for RDMA.
    pub(crate) nfsd: SocketAddr,
}

impl Linux {
    /// None if something is missing, which is said: there is nothing to run on then.
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
        let nfsd = named("RPCRDMA_NFSD", "address and port of the kernel's NFS server")?;
        Some(Self {
            device,
            address: address.parse().expect("RPCRDMA_ADDRESS: an address"),
            nfsd: nfsd.parse().expect("RPCRDMA_NFSD: address and port"),
        })
    }

    pub(crate) fn open(&self) -> IbvDevice {
        IbvDevice::open(Some(&self.device)).expect("a device that works")
    }

    /// An address of ours, with any port.
    pub(crate) fn anywhere(&self) -> SocketAddr {
        SocketAddr::new(self.address, 0)
    }
}
