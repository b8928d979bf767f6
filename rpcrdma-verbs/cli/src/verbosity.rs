//! Logs of the libraries, on standard error: standard output has only the results of the command.
//!
//! `-v` takes precedence over RUST_LOG, and RUST_LOG over the level of the subcommand
//! (`Action::default_level` in `main`). `main` calls `start` once, before the subcommand runs.

use std::io;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::output::UsageError;

#[derive(clap::Args)]
pub(crate) struct Verbosity {
    /// Log connections and rejected calls on standard error; with -vv also each call, with -vvv
    /// everything. By default, the variable RUST_LOG selects the logs.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl Verbosity {
    /// Starts logging at the default level, unless another one is requested.
    pub(crate) fn start(&self, default: &str) -> Result<(), UsageError> {
        let variable = std::env::var("RUST_LOG").ok();
        let variable = variable.filter(|filter| !filter.is_empty());
        let filter = match self.verbose {
            0 => variable.as_deref().unwrap_or(default),
            1 => "info",
            2 => "debug",
            _ => "trace",
        };
        let targets: Targets = filter
            .parse()
            .map_err(|error| UsageError(format!("RUST_LOG={filter}: {error}")))?;
        let lines = fmt::layer().with_writer(io::stderr).with_ansi(false);
        let subscriber = tracing_subscriber::registry().with(lines).with(targets);
        subscriber
            .try_init()
            .map_err(|error| UsageError(error.to_string()))
    }
}
