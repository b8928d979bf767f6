//! `rpcrdma ping`: calls to a remote server, one after the other.

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::any::AnyDevice;
use rpcrdma_verbs::{LocalChannel, LocalEvent};

use crate::block;
use crate::device_source::{self, Locality, address};
use crate::schema::block::block1::Client;
use crate::serve::PORT;

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
    /// Microseconds of each call that was answered.
    times: Vec<f64>,
}

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
        while self.count == 0 || seen.sent < self.count {
            let next = Instant::now() + Duration::from_millis(self.interval);
            self.one(&mut driver, &client, &mut seen)?;
            while seen.sent != self.count
                && let Some(left) = next.checked_duration_since(Instant::now())
            {
                driver.wait(left)?;
                while let Some(event) = client.transport().poll_event(&mut driver) {
                    seen.notice(&event);
                }
            }
        }
        seen.report();
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
                seen.notice(&event);
                let LocalEvent::Completed(completed) = event else {
                    continue;
                };
                let micros = began.elapsed().as_secs_f64() * 1e6;
                match channel.read(&call, &completed, |reply| reply == arguments) {
                    None => {}
                    Some(Ok(true)) => {
                        println!(
                            "{} bytes from {}: call {}, {micros:.1} us",
                            self.size, self.connect, seen.sent
                        );
                        seen.answered += 1;
                        seen.times.push(micros);
                        return Ok(());
                    }
                    Some(Ok(false)) => return Err("the bytes that came back are others".into()),
                    Some(Err(error)) => {
                        println!("call {}: {error}", seen.sent);
                        seen.failed += 1;
                        return Ok(());
                    }
                }
            }
        }
    }
}

impl PingStats {
    fn notice(&mut self, event: &LocalEvent) {
        match event {
            LocalEvent::Connected(version) => {
                self.connections += 1;
                println!("connected, Version {}", version.number());
            }
            LocalEvent::Disconnected { reason, error, .. } => {
                self.lost += 1;
                match error {
                    Some(error) => println!("no connection: {error}"),
                    None => println!("no connection: {reason}"),
                }
            }
            _ => {}
        }
    }

    fn report(&mut self) {
        self.times.sort_by(f64::total_cmp);
        let of = |at: usize| self.times.get(at).copied().unwrap_or_default();
        let last = self.times.len().saturating_sub(1);
        println!(
            "{:.1} us at least, {:.1} at the median, {:.1} at most",
            of(0),
            of(last / 2),
            of(last)
        );
        let Self {
            sent,
            answered,
            failed,
            connections,
            lost,
            ..
        } = self;
        println!(
            "{sent} calls: {answered} answered, {failed} failed; {connections} connections, \
            {lost} times none"
        );
    }
}
