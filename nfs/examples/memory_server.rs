//! Serves an in-memory file system by NFSv3 and MOUNT at one TCP port. With the feature `ibverbs`
//! it also serves at a port of an RDMA device.
//!
//! ```console
//! $ cargo run -p rpcrdma-nfs --example memory_server -- 127.0.0.1:2049
//! # mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=2049,mountproto=tcp,nolock \
//!     127.0.0.1:/ /mnt
//! ```
//!
//! Arguments: the address (default 127.0.0.1:2049), MiB of memory (default 1024), and with
//! `ibverbs` the address of a device, such as 10.0.0.1:20049. A mount over RDMA needs the options
//! `-o vers=3,proto=rdma,port=20049,mountport=2049,mountproto=tcp,nolock`. User 0 is not squashed:
//! use this server only where every client is trusted.

use std::sync::Arc;

use oncrpc::tcp::Server;
use rpcrdma_nfs::{Export, MemoryFileSystem, Squash, router};

type AnyError = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:2049".to_owned());
    let mib: u64 = args.next().map_or(Ok(1024), |mib| mib.parse())?;
    let memory = MemoryFileSystem::new(mib << 20);
    let export = Arc::new(Export::new(memory).squash(Squash::None));
    #[cfg(feature = "ibverbs")]
    let _rdma = match args.next() {
        Some(address) => Some(rdma::serve(&address, router(export.clone()))?),
        None => None,
    };
    let server = Server::bind(&address, router(export)).await?;
    println!("serving {}", server.local_addr()?);
    server.run().await;
    Ok(())
}

/// The same services over RDMA.
#[cfg(feature = "ibverbs")]
mod rdma {
    use rpcrdma_nfs::rpcrdma_verbs::provider::ibverbs::IbvDevice;
    use rpcrdma_nfs::rpcrdma_verbs::{RunningServer, ServerConfig, serve as offer};
    use rpcrdma_nfs::{MemoryFileSystem, NfsRouter};

    use super::AnyError;

    pub(super) fn serve(
        address: &str,
        router: NfsRouter<MemoryFileSystem>,
    ) -> Result<RunningServer, AnyError> {
        let (device, config) = (IbvDevice::open(None)?, ServerConfig::new());
        let server = offer(&device, address.parse()?, config, move || router)?;
        println!("serving {} over RDMA", server.local_addr());
        Ok(server)
    }
}
