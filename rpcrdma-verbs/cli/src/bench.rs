//! `rpcrdma bench`: calls between a client and a server in this process, on one thread.

use std::error::Error;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::client::{Call, ClientEvent};

use rpcrdma_verbs::measure::ping_pong;
use rpcrdma_verbs::provider::software::Fabric;

use crate::world::{ECHO, PROGRAM, World};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Octets of arguments, and of results.
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Calls under way at once.
    #[arg(long, default_value_t = 16)]
    depth: u16,
    /// How long to measure.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Print one object of JSON.
    #[arg(long)]
    json: bool,
}

/// Rounds between two looks at the clock.
const ROUNDS: usize = 64;

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let depth = options.depth.max(1);
    let (calls, credits) = (depth.saturating_add(16), depth.into());
    let client = Config { calls, credits, ..Config::client() };
    let server = Config { serve: depth, ..Config::server() };
    let mut world = World::new(client, server)?;
    let arguments = vec![0x5a; options.size as usize];
    // The connection, and memory that is made once.
    measure(&mut world, &arguments, depth, Duration::from_millis(300))?;
    let mut samples = Vec::new();
    for _ in 0..5 {
        samples.push(measure(&mut world, &arguments, depth, Duration::from_millis(options.seconds * 200))?);
    }
    samples.sort_by(f64::total_cmp);
    let (least, median, most) = (samples[0], samples[2], samples[4]);
    // The same messages without RPC: 72 octets of headers there, 56 back, in Version Two.
    let sizes = (options.size + 72, options.size + 56);
    let mut raw = Vec::new();
    for _ in 0..5 {
        let fabric = Fabric::new();
        raw.push(ping_pong(&fabric.device(), &fabric.device(), sizes, depth.into(), 200_000)?);
    }
    raw.sort_by(f64::total_cmp);
    let raw = raw[2];
    let (rate, octets) = (1e9 / median, 2e9 * f64::from(options.size) / median);
    if options.json {
        let json = serde_json::json!({
            "size": options.size, "depth": depth,
            "ns_per_rpc": median, "ns_per_rpc_least": least, "ns_per_rpc_most": most,
            "raw_ns": raw, "rpc_per_second": rate, "bytes_per_second": octets,
        });
        println!("{json}");
    } else {
        println!("{} octets each way, {depth} under way, both ends on one thread:", options.size);
        println!("    {raw:.0} ns for the same messages without RPC");
        println!(
            "    {median:.0} ns for each call ({least:.0} to {most:.0}), {rate:.0} calls in a second, {:.0} MB/s",
            octets / 1e6
        );
    }
    Ok(())
}

/// Nanoseconds for each call.
fn measure(world: &mut World, arguments: &[u8], depth: u16, time: Duration) -> Result<f64, Box<dyn Error>> {
    let largest_results = u32::try_from(arguments.len())?;
    let (mut begun, mut done) = (0u64, 0u64);
    let began = Instant::now();
    while began.elapsed() < time {
        for _ in 0..ROUNDS {
            while begun - done < depth.into() {
                let call = Call { largest_results, ..Call::to(PROGRAM, 1, ECHO) };
                let call = world.client.call(&mut world.near, call, |writer| {
                    writer.octets(arguments);
                    Ok(())
                });
                call?;
                begun += 1;
            }
            world.turn()?;
            while let Some(event) = world.client.event(&mut world.near) {
                match event {
                    ClientEvent::Answered { .. } => done += 1,
                    ClientEvent::Failed { why, .. } => return Err(why.into()),
                    _ => {}
                }
            }
        }
    }
    // Those that are still under way are not counted, but ended.
    let elapsed = began.elapsed();
    let measured = done;
    while done < begun {
        world.turn()?;
        while let Some(event) = world.client.event(&mut world.near) {
            done += u64::from(matches!(event, ClientEvent::Answered { .. } | ClientEvent::Failed { .. }));
        }
    }
    Ok(elapsed.as_nanos() as f64 / measured.max(1) as f64)
}
