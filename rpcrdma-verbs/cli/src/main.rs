//! The command `rpcrdma`.
#![forbid(unsafe_code)]

mod bench;
mod block;
mod decode;
mod demo;
mod device_source;
mod devices;
#[cfg(feature = "nfs")]
mod nfs;
mod output;
mod ping;
mod serve;
mod test_pair;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What the documents in `spec/` say.
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
    /// Run the server for `ping` and `bench --connect`.
    Serve(serve::Options),
    /// Call a server that `serve` runs elsewhere.
    Ping(ping::Options),
    /// Serve NFS: `rpcrdma nfs serve DIR`.
    #[cfg(feature = "nfs")]
    Nfs(nfs::Options),
    /// Print the transport header of a message.
    Decode(decode::Options),
    /// List the devices that can be used, with their capabilities.
    Devices,
}

fn main() -> ExitCode {
    let done = match Command::parse().what {
        What::Demo(options) => options.run(),
        What::Bench(options) => options.run().map(|()| true),
        What::Serve(options) => options.run().map(|()| true),
        What::Ping(options) => options.run(),
        #[cfg(feature = "nfs")]
        What::Nfs(options) => options.run().map(|()| true),
        What::Decode(options) => decode::run(&options).map(|()| true),
        What::Devices => devices::run().map(|()| true).map_err(Into::into),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => output::failed(&*error),
    }
}
