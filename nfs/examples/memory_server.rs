//! Serves an in-memory file system by NFSv3 and MOUNT at one TCP port. With the feature `rdma` it
//! also serves over RDMA: by iWARP over TCP, which needs no device, or with the feature `ibverbs`
//! by the RDMA hardware at the address.
//!
//! ```console
//! $ cargo run -p rpcrdma-nfs --example memory_server -- 127.0.0.1:2049
//! # mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=2049,mountproto=tcp,nolock \
//!     127.0.0.1:/ /mnt
//! $ cargo run -p rpcrdma-nfs --features rdma --example memory_server -- \
//!     127.0.0.1:2049 1024 127.0.0.1:20049
//! $ rpcrdma nfs ls --rdma 127.0.0.1:/
//! ```
//!
//! Arguments: the address (default 127.0.0.1:2049), MiB of memory (default 1024), and the address
//! over RDMA, such as 10.0.0.1:20049. A mount over RDMA needs the options
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
    #[cfg(feature = "rdma")]
    let _rdma = match args.next() {
        Some(address) => Some(rdma::serve(&address, router(export.clone()))?),
        None => None,
    };
    #[cfg(not(feature = "rdma"))]
    if args.next().is_some() {
        return Err("serving over RDMA needs the feature `rdma`".into());
    }
    let server = Server::bind(&address, router(export)).await?;
    println!("serving {}", server.local_addr()?);
    server.run().await;
    Ok(())
}

/// The same services over RDMA.
#[cfg(feature = "rdma")]
mod rdma {
    use std::net::SocketAddr;

    use rpcrdma_nfs::rpcrdma_verbs::provider::Device as _;
    use rpcrdma_nfs::rpcrdma_verbs::provider::route::device_for_listener;
    use rpcrdma_nfs::rpcrdma_verbs::{RunningServer, ServerConfig, serve as offer};
    use rpcrdma_nfs::{MemoryFileSystem, NfsRouter};

    use super::AnyError;

    pub(super) fn serve(
        address: &str,
        router: NfsRouter<MemoryFileSystem>,
    ) -> Result<RunningServer, AnyError> {
        let address: SocketAddr = address.parse()?;
        let device = device_for_listener(address.ip());
        let server = offer(&device, address, ServerConfig::new(), move || router)?;
        let name = &device.capabilities().name;
        println!("serving {} over RDMA on {name}", server.local_addr());
        Ok(server)
    }
}
