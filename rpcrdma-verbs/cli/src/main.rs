//! The command `rpcrdma`.
#![forbid(unsafe_code)]

mod bench;
mod block;
mod decode;
mod demo;
mod devices;
mod ground;
mod ping;
mod serve;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// RPC-over-RDMA, shown, measured and decoded: on an embedded software fabric that needs no RDMA device, or on one.
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Run a client and a server through every feature, and show each message.
    Demo(demo::Options),
    /// Measure calls between clients and a server.
    Bench(bench::Options),
    /// Serve what `ping` and `bench --connect` call.
    Serve(serve::Options),
    /// Call a server that `serve` runs elsewhere.
    Ping(ping::Options),
    /// Print the transport header of a message.
    Decode(decode::Options),
    /// List what there is to run on, and what it can do.
    Devices,
}

fn main() -> ExitCode {
    let done = match Command::parse().what {
        What::Demo(options) => options.run(),
        What::Bench(options) => options.run().map(|()| true),
        What::Serve(options) => options.run().map(|()| true),
        What::Ping(options) => options.run(),
        What::Decode(options) => decode::run(&options).map(|()| true),
        What::Devices => {
            devices::run();
            Ok(true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rpcrdma: {error}");
            ExitCode::FAILURE
        }
    }
}
