//! The command `rpcrdma`.
#![forbid(unsafe_code)]

mod bench;
mod decode;
mod demo;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::software::Fabric;

/// RPC-over-RDMA, shown, measured and decoded: on an embedded software fabric that needs no RDMA device.
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Run a client and a server through every feature, and show each message.
    Demo,
    /// Measure calls between a client and a server in this process.
    Bench(bench::Options),
    /// Print the transport header of a message.
    Decode(decode::Options),
    /// List what there is to run on, and what it can do.
    Devices,
}

fn main() -> ExitCode {
    let done = match Command::parse().what {
        What::Demo => return demo::run(),
        What::Bench(options) => bench::run(&options),
        What::Decode(options) => decode::run(&options),
        What::Devices => {
            devices();
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rpcrdma: {error}");
            ExitCode::FAILURE
        }
    }
}

fn devices() {
    let device = Fabric::new().device();
    let can = device.capabilities();
    let windows = if can.windows { "type-2 memory windows" } else { "registration per call" };
    println!("{}: in this process, nothing to install", can.name);
    println!("    exposes memory by {windows}; {} slices a request, {} for an RDMA Read", can.slices, can.read_slices);
    println!("    {} RDMA Reads under way, {} octets a request", can.reads, can.message);
}
