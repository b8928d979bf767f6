//! `rpcrdma ping`: makes successive calls to a remote server.
//!
//! One call is in flight at a time, on the thread that drives the device. A signal sets a flag that
//! is checked every `GLANCE`, and ends the command with its summary. `stats` prints all events, and
//! decides on success. The driver reconnects and retransmits.

mod stats;

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use oncrpc::{CallError, PendingCall};
use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::Device as _;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::{CompletedCall, LocalChannel, LocalEvent};

use crate::block;
use crate::device_source::{self, Locality};
use crate::output::OutputError;
use crate::schema::block::block1::{Client, Echo, Null};
use crate::serve::{PORT, shutdown_flag};
use crate::server_name::HostPort;
use crate::units::{size_u32, time};
use stats::PingStats;

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: device_source::Options,
    /// Host and port of the server (default port 20049). The server is run by `rpcrdma serve`, or
    /// any server with --program.
    #[arg(long, value_name = "HOST[:PORT]")]
    connect: HostPort,
    /// Call the NULL procedure of this program, in decimal or hexadecimal (0x186a3 is NFS), instead
    /// of the echo of `rpcrdma serve`. Any RPC-over-RDMA server answers it.
    #[arg(long, value_name = "NUMBER", value_parser = number, requires = "version",
        conflicts_with = "size")]
    program: Option<u32>,
    /// Version of the program.
    #[arg(long, value_name = "NUMBER", requires = "program")]
    version: Option<u32>,
    /// Number of calls; 0 for no limit.
    #[arg(long, default_value_t = 4)]
    count: u64,
    /// Bytes of arguments and of results.
    #[arg(long, value_name = "BYTES", value_parser = size_u32, default_value = "64")]
    size: u32,
    /// Interval between calls.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    interval: Duration,
    /// Timeout of a call, including the connection setup.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    timeout: Duration,
    /// Print a line of JSON for each event, and one for the summary.
    #[arg(long)]
    json: bool,
}

/// Parses a number in decimal, or in hexadecimal after `0x`.
fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text} is not a number, like 100003 or 0x186a3"))
}

impl Options {
    /// Makes calls until all are made or a signal arrives. Returns true if all were answered.
    pub(crate) fn run(self) -> Result<bool, Box<dyn Error>> {
        let server = self.connect.resolve(PORT)?;
        let source = self.source.source(Locality::Client(server.ip()))?;
        let mut driver = source.driver(&Budget::new(1 << 28), 1 << 12)?;
        let config = Config {
            max_reconnect_delay: 1_000_000,
            ..Config::client()
        };
        let channel = LocalChannel::connect(&mut driver, server, config)?;
        let mut pinger = Pinger {
            client: block::client(channel),
            arguments: vec![0x5a; self.size as usize],
            stats: PingStats::new(self.json, &driver.device().capabilities().name)?,
            stop: shutdown_flag()?,
            options: &self,
            server,
        };
        let ended = pinger.all(&mut driver);
        // An error that ends the command follows the summary of the calls before it.
        pinger.stats.report()?;
        ended?;
        Ok(pinger.stats.is_success())
    }
}

/// A client with its statistics.
struct Pinger<'a> {
    options: &'a Options,
    server: SocketAddr,
    client: Client<LocalChannel<AnyDevice>>,
    arguments: Vec<u8>,
    stats: PingStats,
    /// The flag that a signal sets.
    stop: Arc<AtomicBool>,
}

/// The call in flight.
#[derive(Clone, Copy)]
enum Pending {
    Echo(PendingCall<Echo>),
    Null(PendingCall<Null>),
}

/// The interval at which the signal flag is checked: a signal does not end the driver's sleep.
const GLANCE: Duration = Duration::from_millis(100);

impl Pinger<'_> {
    fn must_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.must_stop() || (self.options.count != 0 && self.stats.sent >= self.options.count)
    }

    /// Makes calls until all are made or a signal arrives.
    fn all(&mut self, driver: &mut Driver<AnyDevice>) -> Result<(), Box<dyn Error>> {
        while !self.is_over() {
            let next = Instant::now() + self.options.interval;
            self.one(driver)?;
            self.wait_until(driver, next)?;
        }
        Ok(())
    }

    /// Waits between two calls.
    fn wait_until(
        &mut self,
        driver: &mut Driver<AnyDevice>,
        next: Instant,
    ) -> Result<(), Box<dyn Error>> {
        while !self.is_over()
            && let Some(left) = next.checked_duration_since(Instant::now())
        {
            driver.wait(left.min(GLANCE))?;
            while let Some(event) = self.client.transport().poll_event(driver) {
                self.stats.notice(&event)?;
            }
        }
        Ok(())
    }

    /// Makes one call, and waits for its completion or a signal.
    fn one(&mut self, driver: &mut Driver<AnyDevice>) -> Result<(), Box<dyn Error>> {
        let began = Instant::now();
        let call = self.begin(driver)?;
        self.stats.sent += 1;
        while !self.must_stop() {
            driver.wait(GLANCE)?;
            while let Some(event) = self.client.transport().poll_event(driver) {
                self.stats.notice(&event)?;
                if let LocalEvent::Completed(completed) = event {
                    let took = began.elapsed();
                    let is_ours = self.end(call, &completed, took)?;
                    self.client.transport().recycle(driver, completed);
                    if is_ours {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&self, driver: &mut Driver<AnyDevice>) -> Result<Pending, CallError> {
        let timeout = self.options.timeout;
        let numbers = self.options.program.zip(self.options.version);
        if let Some((program, version)) = numbers {
            let call = self.client.null().program(program, version);
            return Ok(Pending::Null(call.timeout(timeout).begin(driver)?));
        }
        let call = block::echo(&self.client, &self.arguments);
        Ok(Pending::Echo(call.timeout(timeout).begin(driver)?))
    }

    /// Records the outcome of the call. Returns false if another call has ended.
    fn end(
        &mut self,
        call: Pending,
        completed: &CompletedCall,
        took: Duration,
    ) -> Result<bool, OutputError> {
        let channel = self.client.transport();
        let is_same = match call {
            Pending::Null(call) => channel.read(&call, completed, |()| true),
            Pending::Echo(call) => channel.read(&call, completed, |reply| reply == self.arguments),
        };
        match is_same {
            None => return Ok(false),
            Some(Ok(true)) => {
                let what = match call {
                    Pending::Null(_) => format!("a reply from {}", self.server),
                    Pending::Echo(_) => {
                        format!("{} bytes from {}", self.arguments.len(), self.server)
                    }
                };
                self.stats.answered(&what, took)?;
            }
            Some(Ok(false)) => self.stats.failed(&"the bytes that came back are others")?,
            // The procedure is the one of the option.
            Some(Err(error)) => self.stats.failed(error.kind())?,
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn program_numbers_are_parsed() {
        assert_eq!(number("100003"), Ok(100_003));
        assert_eq!(number("0x186a3"), Ok(100_003));
        assert!(number("nfs").is_err() && number("0x").is_err() && number("-1").is_err());
    }
}
