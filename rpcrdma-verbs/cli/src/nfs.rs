//! `rpcrdma nfs serve`: a file system by NFSv3 and MOUNT, over TCP and RDMA, until it is stopped.

mod offer;

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rpcrdma_nfs::{Export, FileSystem, MemoryFileSystem, router};
use rpcrdma_verbs::ServerBuilder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::device_source::{self, Locality, address};
use crate::output::{OutputError, outln};
use crate::serve::{GRACE, PORT};
use offer::Offer;

/// The port of NFS over TCP (RFC 1813, section 2.2).
const TCP_PORT: u16 = 2049;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Serve a file system by NFSv3 and MOUNT until SIGTERM or SIGINT. Every client is trusted:
    /// the server believes who its users are.
    Serve(Serve),
}

#[derive(clap::Args)]
struct Serve {
    #[command(flatten)]
    offer: Offer,
    /// Address for NFS and MOUNT over TCP; the default port is 2049.
    #[arg(long, value_name = "ADDR", value_parser = tcp_address, default_value = "0.0.0.0")]
    tcp: SocketAddr,
    /// RDMA device of this host, as `rpcrdma devices` lists it; without it, there is TCP alone.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Address of the device for NFS over RDMA, 0.0.0.0 by default; the default port is 20049.
    #[arg(long, value_name = "ADDR", value_parser = rdma_address, requires = "device")]
    rdma: Option<SocketAddr>,
    /// Path that clients mount.
    #[arg(long, value_name = "PATH", value_parser = path, default_value = "/")]
    export: String,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let What::Serve(serve) = self.what;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let done = runtime.block_on(serve.run());
        // A server that does not drain is not waited for.
        runtime.shutdown_background();
        done
    }
}

impl Serve {
    async fn run(self) -> Result<(), Box<dyn Error>> {
        match &self.offer.dir {
            #[cfg(target_os = "linux")]
            Some(dir) => {
                let export = self.offer.export(self.offer.open(dir)?);
                self.serve(export).await
            }
            #[cfg(not(target_os = "linux"))]
            Some(_) => Err("a directory can be served on Linux alone".into()),
            None => {
                let memory = MemoryFileSystem::new(self.offer.size);
                self.serve(self.offer.export(memory)).await
            }
        }
    }

    /// Serves an export until a signal comes.
    async fn serve<F: FileSystem>(&self, export: Export<F>) -> Result<(), Box<dyn Error>> {
        // Before anything is offered, so that no signal is missed.
        let mut signals = Signals::new()?;
        let export = Arc::new(export.path(&self.export));
        let mut server = ServerBuilder::new(move || router(export.clone())).tcp(self.tcp);
        if let Some(device) = self.device.clone() {
            let source = device_source::Options::of_host(device).source(Locality::Network)?;
            let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
            server = server.rdma(&source.open()?, self.rdma.unwrap_or(any));
        }
        let server = server.start().await?;
        self.announce(server.local_addrs())?;

        signals.next().await;
        outln!("draining");
        tokio::select! {
            drained = server.drain() => drained?,
            () = tokio::time::sleep(GRACE) => return Err("some calls got no reply in time".into()),
            () = signals.next() => return Err("stopped before all calls had replies".into()),
        }
        outln!("drained");
        Ok(())
    }

    /// Says where the services are. The first line is for programs.
    fn announce(&self, addresses: &[SocketAddr]) -> Result<(), OutputError> {
        let [tcp, rdma @ ..] = addresses else {
            return Ok(());
        };
        let rdma = rdma.first();
        let device = self.device.as_ref().zip(rdma);
        let device = device.map(|(device, rdma)| format!(" rdma={rdma} device={device}"));
        let device = device.unwrap_or_default();
        outln!("listening tcp={tcp}{device} export={}", self.export);
        outln!("mount on Linux, as root, with the address of this host for ADDR:");
        let mount = |proto, port| {
            outln!(
                "    mount -t nfs -o \
                vers=3,proto={proto},port={port},mountproto=tcp,mountport={},nolock ADDR:{} /mnt",
                tcp.port(),
                self.export
            );
            Ok::<(), OutputError>(())
        };
        mount("tcp", tcp.port())?;
        if let Some(rdma) = rdma {
            mount("rdma", rdma.port())?;
        }
        Ok(())
    }
}

/// SIGTERM and SIGINT.
struct Signals([Signal; 2]);

impl Signals {
    fn new() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self([terminate, signal(SignalKind::interrupt())?]))
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        let [terminate, interrupt] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

fn tcp_address(text: &str) -> Result<SocketAddr, String> {
    address_or_port(text, TCP_PORT)
}

fn rdma_address(text: &str) -> Result<SocketAddr, String> {
    address_or_port(text, PORT)
}

/// Parses an address, with a port for one that has none. Port 0 stands for any that is free.
fn address_or_port(text: &str, port: u16) -> Result<SocketAddr, String> {
    let without = |_| address(text).map(|address| SocketAddr::new(address.ip(), port));
    text.parse().or_else(without)
}

/// Parses the path of an export.
fn path(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text} is no path from the root, like / or /export"
    ))
}
