//! The command `rpcrdma`.
//!
//! Each subcommand has a module with `Options`, whose comments are the help and the manual pages.
//! This module decides the exit status: 0 after success, 1 if `run` returns false, and that of
//! `output::failed` after an error. A subcommand that serves needs a log level in `default_level`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod bench;
mod block;
mod capture;
mod decode;
mod demo;
mod device_source;
mod devices;
#[cfg(feature = "metrics")]
mod exporter;
mod listen_address;
mod missing_equals;
#[cfg(feature = "nfs")]
mod nfs;
mod output;
mod ping;
mod program_name;
mod progress;
mod serve;
mod server_name;
mod shell;
mod stat;
mod test_pair;
mod timed_stream;
mod units;
mod verbosity;

use std::error::Error;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser, Subcommand};

use missing_equals::MissingEquals;
use output::OutputError;

/// The schema of the documents in `spec/`.
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "generated"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));
}
pub(crate) use generated::schema;

/// Demonstrates, measures and decodes RPC-over-RDMA, on an embedded software fabric that needs no
/// RDMA device, or on a device.
#[derive(Parser)]
#[command(name = "rpcrdma", version)]
struct Command {
    #[command(flatten)]
    verbosity: verbosity::Verbosity,
    #[command(subcommand)]
    what: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run a client and a server through every feature, and show each message.
    Demo(demo::Options),
    /// Measure calls between clients and a server.
    Bench(bench::Options),
    /// Run the server for `ping` and `bench --connect`.
    Serve(serve::Options),
    /// Call a remote server that `serve` runs.
    Ping(ping::Options),
    /// Print the metrics of a server that runs with `--metrics`.
    Stat(stat::Options),
    /// Serve NFS, or use an NFS server: `rpcrdma nfs serve DIR`, `rpcrdma nfs ls SERVER:/PATH`.
    #[cfg(feature = "nfs")]
    Nfs(nfs::Options),
    /// Print the transport header of a message, or the messages of a capture.
    Decode(decode::Options),
    /// List the available devices, with their capabilities.
    Devices(devices::Options),
    /// Print completions for a shell.
    #[command(hide = true)]
    Completions(shell::Completions),
    /// Write manual pages.
    #[command(hide = true)]
    Man(shell::Man),
}

impl Action {
    /// Returns the default log level: clients print events themselves.
    fn default_level(&self) -> &'static str {
        match self {
            Self::Serve(_) => "warn",
            #[cfg(feature = "nfs")]
            Self::Nfs(options) if options.is_server() => "warn",
            _ => "off",
        }
    }

    /// Returns true if the command succeeded.
    fn run(self) -> Result<bool, Box<dyn Error>> {
        match self {
            Self::Demo(options) => options.run(),
            Self::Bench(options) => options.run().map(|()| true),
            Self::Serve(options) => options.run().map(|()| true),
            Self::Ping(options) => options.run(),
            Self::Stat(options) => options.run().map(|()| true),
            #[cfg(feature = "nfs")]
            Self::Nfs(options) => options.run(),
            Self::Decode(options) => decode::run(&options).map(|()| true),
            Self::Devices(options) => options.run().map(|()| true),
            Self::Completions(options) => options.run::<Command>().map(|()| true),
            Self::Man(options) => options.run::<Command>().map(|()| true),
        }
    }
}

fn main() -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) => return asked_or_wrong(with_hint(error)),
    };
    let level = command.what.default_level();
    let started = command.verbosity.start(level).map_err(Into::into);
    match started.and_then(|()| command.what.run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => output::failed(&*error),
    }
}

/// Adds a hint to the errors of the arguments, if an option lacks its `=`.
fn with_hint(mut error: clap::Error) -> clap::Error {
    let hint = MissingEquals::find(&Command::command(), std::env::args_os());
    if let Some(hint) = hint {
        let hint = ContextValue::StyledStrs(vec![hint.to_string().into()]);
        error.insert(ContextKind::Suggested, hint);
    }
    error
}

/// Prints the requested help, or the errors of the arguments.
fn asked_or_wrong(error: clap::Error) -> ExitCode {
    match error.print() {
        Err(unwritten) if !error.use_stderr() => output::failed(&OutputError::from(unwritten)),
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}
