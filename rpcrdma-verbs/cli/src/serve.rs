//! `rpcrdma serve`: a server for `rpcrdma ping` and `rpcrdma bench --connect`.
//!
//! One thread drives the device, serves `block`, and drains after a signal or `--duration`. The
//! metrics start before the server listens, and the flag of the signals exists before the line
//! `serving` is printed: programs wait for this line before they send signals. Other subcommands
//! also use `PORT`, `GRACE` and `shutdown_flag`.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::Device;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::block::BlockService;
use crate::device_source::{self, Locality};
use crate::output::{Count, print_event};
use crate::units::time;

/// The port of NFS over RDMA (RFC 5667).
pub(crate) const PORT: u16 = 20049;
/// The number of readable blocks.
const BLOCKS: usize = 16;

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: device_source::Options,
    /// Maximum number of outstanding calls on each connection.
    #[arg(long, default_value_t = 32)]
    depth: u16,
    /// Stop after this time, as after SIGTERM: outstanding calls are answered first.
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Print a line of JSON for each event.
    #[arg(long)]
    json: bool,
    #[cfg(feature = "metrics")]
    #[command(flatten)]
    metrics: crate::exporter::Options,
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let source = self.source.source(Locality::Server)?;
        let mut driver = source.driver(&Budget::new(1 << 30), COMPLETIONS)?;
        let block = BlockService::new(&driver, BLOCKS)?;
        let address = source.address(PORT);
        let config = Config {
            max_served: self.depth,
            ..Config::server()
        };
        #[cfg(feature = "metrics")]
        let publishes = self.metrics.start(|| ())?.is_some();
        let mut server = block.bind(&mut driver, address, config)?;
        // This comes before the line that says that it serves, so that no signal is missed.
        let stop = shutdown_flag()?;
        let (address, device) = (server.local_addr(), &driver.device().capabilities().name);
        print_event(
            self.json,
            format_args!("serving at {address} on {device}"),
            || json!({ "event": "serving", "address": address, "device": &**device }),
        )?;
        let began = Instant::now();
        let (mut connections, mut ends) = (0, None);
        #[cfg(feature = "metrics")]
        let mut publish_at = Instant::now();
        while !server.is_drained() {
            let is_over = self
                .duration
                .is_some_and(|duration| began.elapsed() >= duration);
            if ends.is_none() && (is_over || stop.load(Ordering::Relaxed)) {
                server.drain(&mut driver);
                ends = Some(Instant::now());
            }
            if ends.is_some_and(|since| since.elapsed() >= GRACE) {
                break;
            }
            driver.wait(Duration::from_secs(1))?;
            server.serve(&mut driver);
            #[cfg(feature = "metrics")]
            if publishes && publish_at <= Instant::now() {
                publish_at = Instant::now() + PUBLISH_INTERVAL;
                driver.publish_metrics("serve");
            }
            if connections != server.connections().len() {
                connections = server.connections().len();
                let calls = block.served();
                print_event(
                    self.json,
                    format_args!(
                        "{}, {} served",
                        Count(connections as u64, "connection"),
                        Count(calls, "call")
                    ),
                    || json!({ "event": "connections", "count": connections, "calls": calls }),
                )?;
            }
        }
        let calls = block.served();
        print_event(
            self.json,
            format_args!("{} served", Count(calls, "call")),
            || json!({ "event": "end", "calls": calls }),
        )?;
        Ok(())
    }
}

/// Returns the flag that SIGINT and SIGTERM set. A second signal ends the process at once.
pub(crate) fn shutdown_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 1, stop.clone())?;
        flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// The interval at which the driver's metrics are published.
#[cfg(feature = "metrics")]
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
/// The time limit for outstanding calls after a stop.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// The completion queue size, for a few hundred connections.
const COMPLETIONS: u32 = 1 << 14;
