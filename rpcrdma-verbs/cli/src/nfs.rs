//! `rpcrdma nfs`: a server of NFSv3 and MOUNT over TCP and RDMA, and a client of any such server.

mod copy;
mod list;
mod measure;
mod offer;
mod registration;
mod remote;

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;

use rpcrdma_nfs::{Export, FileSystem, MemoryFileSystem, router};
use rpcrdma_verbs::ServerBuilder;
use rpcrdma_verbs::provider::Device as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::device_source::{self, Locality, address};
use crate::output::{OutputError, outln};
use crate::serve::{GRACE, PORT};
use offer::Offer;
use registration::Registration;

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
    /// List a directory of an NFSv3 server.
    Ls(list::List),
    /// Print a file of an NFSv3 server.
    Cat(list::Cat),
    /// Copy a file from or to an NFSv3 server.
    Cp(copy::Copy),
    /// Measure the operations of an NFSv3 server, one after the other.
    Bench(measure::Bench),
}

#[derive(clap::Args)]
struct Serve {
    #[command(flatten)]
    offer: Offer,
    /// Address for NFS and MOUNT over TCP; the default port is 2049.
    #[arg(long, value_name = "ADDR", value_parser = tcp_address, default_value = "0.0.0.0")]
    tcp: SocketAddr,
    /// Serve NFS over RDMA, too, at this address, 0.0.0.0 by default; the default port is 20049.
    #[arg(long, value_name = "ADDR", value_parser = rdma_address, num_args = 0..=1,
        default_missing_value = "0.0.0.0", require_equals = true)]
    rdma: Option<SocketAddr>,
    /// RDMA device of this host, as `rpcrdma devices` lists it, for `--rdma`; the default is iWARP
    /// over TCP, which needs none.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Threads that serve connections over RDMA, each with a driver.
    #[arg(long, value_name = "COUNT", default_value = "1")]
    threads: NonZeroUsize,
    /// Path that clients mount.
    #[arg(long, value_name = "PATH", value_parser = path, default_value = "/")]
    export: String,
    /// Register the services at the rpcbind of this host, and remove them in the end. Without
    /// rpcbind, the server serves nevertheless.
    #[arg(long)]
    rpcbind: bool,
}

impl Options {
    /// Returns true if it is a server.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.what, What::Serve(_))
    }

    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let done = runtime.block_on(async {
            match self.what {
                What::Serve(serve) => serve.run().await,
                What::Ls(list) => list.run().await,
                What::Cat(cat) => cat.run().await,
                What::Cp(copy) => copy.run().await,
                What::Bench(bench) => bench.run().await,
            }
        });
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
        let mut server = ServerBuilder::new(move || router(export.clone()))
            .threads(self.threads)
            .tcp(self.tcp);
        let mut name = None;
        if self.rdma.is_some() || self.device.is_some() {
            let source = device_source::Options::of_host(self.device.clone());
            let device = source.source(Locality::Network)?.open()?;
            let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
            server = server.rdma(&device, self.rdma.unwrap_or(any));
            name = Some(device.capabilities().name.clone());
        }
        let server = server.start().await?;
        let registration = self.rpcbind.then(|| Registration::of(server.local_addrs()));
        self.announce(server.local_addrs(), name.as_deref())?;

        signals.next().await;
        outln!("draining");
        drop(registration);
        tokio::select! {
            drained = server.drain() => drained?,
            () = tokio::time::sleep(GRACE) => return Err("some calls got no reply in time".into()),
            () = signals.next() => return Err("stopped before all calls had replies".into()),
        }
        outln!("drained");
        Ok(())
    }

    /// Says where the services are. The first line is for programs.
    fn announce(&self, addresses: &[SocketAddr], device: Option<&str>) -> Result<(), OutputError> {
        let [tcp, rdma @ ..] = addresses else {
            return Ok(());
        };
        let rdma = rdma.first();
        let device = device.zip(rdma);
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
