//! `rpcrdma stat`: prints the metrics of a running server.

mod exposition;
mod http;
mod report;

use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use crate::output::outln;
use crate::serve::shutdown_flag;
use crate::server_name::{HostPort, METRICS_PORT};
use crate::units::time;
use exposition::Page;
use report::Report;

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Host and port of the metrics (default port 9464) of `rpcrdma serve --metrics` or `rpcrdma
    /// nfs serve --metrics`.
    #[arg(value_name = "HOST[:PORT]", default_value = "127.0.0.1")]
    server: HostPort,
    /// Print the metrics repeatedly, with their change per second.
    #[arg(long, value_name = "TIME", value_parser = time)]
    interval: Option<Duration>,
    /// Number of times to print the metrics; 0 for no limit.
    #[arg(long, default_value_t = 0, requires = "interval")]
    count: u64,
    /// Timeout of one request.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    timeout: Duration,
    /// Also print metrics that are zero.
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print a line of JSON for each request.
    #[arg(long)]
    json: bool,
}

/// The interval at which the signal flag is checked.
const GLANCE: Duration = Duration::from_millis(100);

impl Options {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let server = self.server.resolve(METRICS_PORT)?;
        let stop = shutdown_flag()?;
        let mut before: Option<(Page, Instant)> = None;
        let mut count = 0;
        loop {
            let body = http::get(server, self.timeout);
            let body = body.map_err(|error| format!("{server}: {error}"))?;
            let at = Instant::now();
            let page: Page = body.parse().map_err(|error| format!("{server}: {error}"))?;
            let earlier = before.as_ref();
            let earlier = earlier.map(|(page, then)| (page, at.duration_since(*then)));
            self.print(&Report::new(&page, earlier), count > 0)?;
            (before, count) = (Some((page, at)), count + 1);
            let Some(interval) = self.interval else {
                return Ok(());
            };
            while at.elapsed() < interval || count == self.count {
                if count == self.count || stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(GLANCE.min(interval.saturating_sub(at.elapsed())));
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    fn print(&self, report: &Report<'_>, is_again: bool) -> Result<(), Box<dyn Error>> {
        if self.json {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let since = since.unwrap_or_default().as_secs_f64();
            outln!("{}", report.json(since));
            return Ok(());
        }
        if is_again {
            outln!("");
        }
        for line in report.lines(self.all) {
            outln!("{line}");
        }
        Ok(())
    }
}
