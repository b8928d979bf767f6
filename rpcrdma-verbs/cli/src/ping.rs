//! `rpcrdma ping`: calls to a remote server, one after the other.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::{LocalChannel, LocalEvent};

use crate::block;
use crate::device_source::{self, Locality, address};
use crate::output::{OutputError, outln};
use crate::schema::block::block1::Client;
use crate::serve::{PORT, told_to_end};

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    source: device_source::Options,
    /// Address of a server that `rpcrdma serve` runs; the default port is 20049.
    #[arg(long, value_parser = address)]
    connect: SocketAddr,
    /// Number of calls; 0 for no limit.
    #[arg(long, default_value_t = 4)]
    count: u64,
    /// Bytes of arguments and of results.
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Interval between calls in milliseconds.
    #[arg(long, default_value_t = 1000)]
    interval: u64,
    /// Timeout of a call in milliseconds, including the connection setup.
    #[arg(long, default_value_t = 10_000)]
    timeout: u64,
}

/// Statistics of the calls and of the connection.
#[derive(Default)]
struct PingStats {
    sent: u64,
    answered: u64,
    failed: u64,
    connections: u64,
    lost: u64,
    times: Option<Times>,
}

/// The nanoseconds of the calls that were answered: three digits of each, in constant memory.
type Times = Histogram<u64>;

impl Options {
    /// Returns true if all calls were answered.
    pub(crate) fn run(mut self) -> Result<bool, Box<dyn Error>> {
        let source = self.source.source(Locality::Network)?;
        if self.connect.port() == 0 {
            self.connect.set_port(PORT);
        }
        let mut driver = source.driver(&Budget::new(1 << 28), 1 << 12)?;
        let config = Config {
            max_reconnect_delay: 1_000_000,
            ..Config::client()
        };
        let channel = LocalChannel::connect(&mut driver, self.connect, config)?;
        let client = block::client(channel);
        let mut seen = PingStats::default();
        let told = told_to_end()?;
        let is_over = || told.load(Ordering::Relaxed);
        while (self.count == 0 || seen.sent < self.count) && !is_over() {
            let next = Instant::now() + Duration::from_millis(self.interval);
            self.one(&mut driver, &client, &mut seen)?;
            while seen.sent != self.count
                && !is_over()
                && let Some(left) = next.checked_duration_since(Instant::now())
            {
                // A signal does not end the sleep.
                driver.wait(left.min(Duration::from_millis(100)))?;
                while let Some(event) = client.transport().poll_event(&mut driver) {
                    seen.notice(&event)?;
                }
            }
        }
        seen.report()?;
        Ok(seen.failed == 0)
    }
}

impl Options {
    /// Makes one call, and waits for its end.
    fn one(
        &self,
        driver: &mut Driver<AnyDevice>,
        client: &Client<LocalChannel<AnyDevice>>,
        seen: &mut PingStats,
    ) -> Result<(), Box<dyn Error>> {
        let arguments = vec![0x5a; self.size as usize];
        let timeout = Duration::from_millis(self.timeout);
        let began = Instant::now();
        let call = block::echo(client, &arguments).timeout(timeout);
        let call = call.begin(driver)?;
        seen.sent += 1;
        let channel = client.transport();
        loop {
            driver.wait(Duration::from_secs(1))?;
            while let Some(event) = channel.poll_event(driver) {
                seen.notice(&event)?;
                let LocalEvent::Completed(completed) = event else {
                    continue;
                };
                let took = began.elapsed();
                let micros = took.as_secs_f64() * 1e6;
                match channel.read(&call, &completed, |reply| reply == arguments) {
                    None => {}
                    Some(Ok(true)) => {
                        outln!(
                            "{} bytes from {}: call {}, {micros:.1} us",
                            self.size,
                            self.connect,
                            seen.sent
                        );
                        seen.answered += 1;
                        seen.add(took)?;
                        return Ok(());
                    }
                    Some(Ok(false)) => return Err("the bytes that came back are others".into()),
                    Some(Err(error)) => {
                        outln!("call {}: {error}", seen.sent);
                        seen.failed += 1;
                        return Ok(());
                    }
                }
            }
        }
    }
}

impl PingStats {
    fn notice(&mut self, event: &LocalEvent) -> Result<(), OutputError> {
        match event {
            LocalEvent::Connected(version) => {
                self.connections += 1;
                outln!("connected, Version {}", version.number());
            }
            LocalEvent::Disconnected { reason, error, .. } => {
                self.lost += 1;
                match error {
                    Some(error) => outln!("no connection: {error}"),
                    None => outln!("no connection: {reason}"),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, took: Duration) -> Result<(), Box<dyn Error>> {
        if self.times.is_none() {
            self.times = Some(Times::new(3)?);
        }
        if let Some(times) = &mut self.times {
            times.record(u64::try_from(took.as_nanos())?)?;
        }
        Ok(())
    }

    fn report(&self) -> Result<(), OutputError> {
        if let Some(times) = &self.times {
            let micros = |nanos: u64| nanos as f64 / 1e3;
            let at = |quantile| micros(times.value_at_quantile(quantile));
            outln!(
                "{:.1} us at least, {:.1} at the median, {:.1} at 99 %, {:.1} at most",
                micros(times.min()),
                at(0.5),
                at(0.99),
                micros(times.max())
            );
        }
        let Self {
            sent,
            answered,
            failed,
            connections,
            lost,
            ..
        } = self;
        outln!(
            "{sent} calls: {answered} answered, {failed} failed; {connections} connections, \
            {lost} times none"
        );
        Ok(())
    }
}
