//! The server of the key-value store: over RDMA and TCP, on several threads.
//!
//! On SIGTERM and SIGINT it drains: it accepts no more connections, and answers the calls in
//! flight.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use clap::Parser;
use kv_store::{Store, store::store::v1};
use oncrpc::{
    ConnectionPlacement, ReplyCache, ReplyCacheConfig, Router, ServerControl, ServerLimits,
};
use rpcrdma_verbs::provider::Device as _;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::{ServerBuilder, ServerConfig};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Serve a key-value store over RDMA and TCP.
#[derive(Parser)]
struct Options {
    /// RDMA device; `iwarp` needs none.
    #[arg(long, default_value = "iwarp")]
    device: String,
    /// Address over RDMA.
    #[arg(long, default_value = "127.0.0.1:20049")]
    rdma: SocketAddr,
    /// Address over TCP.
    #[arg(long, default_value = "127.0.0.1:2049")]
    tcp: SocketAddr,
    /// Threads for each address.
    #[arg(long, default_value = "2")]
    threads: NonZeroUsize,
    /// Host that may connect, by default this one; may be given several times.
    #[arg(long, value_name = "ADDRESS", default_values = ["127.0.0.1", "::1"])]
    allow: Vec<IpAddr>,
    /// Most connections of one host.
    #[arg(long, default_value_t = 256)]
    max_connections: usize,
    /// Most MiB of keys and values.
    #[arg(long, default_value_t = 1024)]
    max_mib: usize,
    /// Seconds for outstanding calls after a signal.
    #[arg(long, default_value_t = 10)]
    grace: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // RUST_LOG selects what is logged.
    let filter = EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let options = Options::parse();
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let (control, cache) = (control(&options), reply_cache());
    let store = Store::new(options.max_mib << 20);
    let device = AnyDevice::open(&options.device)?;
    let server = ServerBuilder::new(move || Router::new().add_service(v1::serve(store.clone())))
        .control(&control)
        .reply_cache(cache.clone())
        .threads(options.threads)
        .placement(ConnectionPlacement::FewestConnections)
        .rdma_config(ServerConfig::new().max_calls(64).memory(1 << 30))
        .rdma(&device, options.rdma)
        .tcp(options.tcp)
        .start()
        .await?;
    let [rdma, tcp] = server.local_addrs() else {
        return Err("the server has two addresses".into());
    };
    let device = &device.capabilities().name;
    println!("serving over RDMA at {rdma} on {device}, over TCP at {tcp}");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    println!("draining");
    let grace = Duration::from_secs(options.grace);
    let drained = tokio::select! {
        drained = tokio::time::timeout(grace, server.drain()) => drained.map_err(|_| "calls are \
            left"),
        _ = terminate.recv() => Err("told to end at once"),
        _ = interrupt.recv() => Err("told to end at once"),
    };
    let (taken, executed) = (control.stats(), cache.stats());
    println!(
        "{} connections accepted, {} rejected; {} calls executed, {} answered again",
        taken.accepted, taken.rejected, executed.executed, executed.hits
    );
    match drained {
        Ok(ended) => Ok(ended?),
        // The threads still serve, and end with the process.
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(1)
        }
    }
}

/// Returns the control, which admits peers and limits both transports together.
fn control(options: &Options) -> ServerControl {
    let limits = ServerLimits::new()
        .max_connections(4096)
        .max_connections_per_peer(options.max_connections)
        .max_bytes(512 << 20)
        .handler_time(Some(Duration::from_secs(10)));
    let allowed = options.allow.clone();
    ServerControl::with_hook(limits, move |request| {
        if allowed.contains(&request.address.ip()) {
            Ok(())
        } else {
            Err("this host is not allowed".into())
        }
    })
}

/// Returns the reply cache, which prevents a second execution of a retransmitted PUT or DELETE.
fn reply_cache() -> ReplyCache {
    let config = ReplyCacheConfig::new().max_bytes(64 << 20);
    ReplyCache::new(config.max_age(Duration::from_secs(120)))
}
