//! Compares a server with two threads at one address with two servers that have one thread each:
//! alternating samples over the software fabric, in calls per second.
//!
//!     cargo run --release -p rpcrdma-rpc-tests --example threads

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oncrpc::xdr::Text;
use oncrpc::{Context, Router, RpcError};
use rpcrdma_rpc_tests::kv::PutArgs;
use rpcrdma_rpc_tests::kv::kv::kv1::{self, Client, GetResults};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, RunningServers, ServerBuilder, channel};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Echo;

impl kv1::Service for Echo {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        Ok(how)
    }
}

/// The calls in flight of each client.
const DEPTH: u16 = 32;
/// The duration of a sample.
const SAMPLE: Duration = Duration::from_millis(500);

async fn serve(fabric: &Arc<Fabric>, threads: usize) -> Result<RunningServers, Failure> {
    let threads = NonZeroUsize::new(threads).ok_or("no threads")?;
    let server = ServerBuilder::new(|| Router::new().add_service(kv1::serve(Echo)))
        .threads(threads)
        .rdma(&fabric.device(), "127.0.0.1:0".parse()?);
    Ok(server.start().await?)
}

/// Calls a server from a thread, and returns the calls per second.
fn call(fabric: &Arc<Fabric>, address: SocketAddr) -> Result<f64, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let config = ClientConfig::new().max_calls(DEPTH);
        let (channel, runner) = channel(&fabric.device(), address, config);
        tokio::task::spawn_local(runner);
        let kv = Client::new(channel);
        kv.fail(&9).await?;
        let began = Instant::now();
        let tasks: Vec<_> = (0..DEPTH)
            .map(|_| {
                let kv = kv.clone();
                tokio::task::spawn_local(async move {
                    let mut count = 0u32;
                    while began.elapsed() < SAMPLE {
                        kv.fail(&9).await?;
                        count += 1;
                    }
                    Ok::<_, Failure>(count)
                })
            })
            .collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await??;
        }
        Ok(f64::from(sum) / began.elapsed().as_secs_f64())
    })
}

/// Returns the calls per second of two clients at once.
fn sample(fabric: &Arc<Fabric>, addresses: [SocketAddr; 2]) -> Result<f64, Failure> {
    let threads = addresses.map(|address| {
        let fabric = fabric.clone();
        std::thread::spawn(move || call(&fabric, address))
    });
    let mut sum = 0.0;
    for thread in threads {
        sum += thread.join().map_err(|_| "a client panicked")??;
    }
    Ok(sum)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let fabric = Fabric::new();
    let one = serve(&fabric, 2).await?;
    let two = [serve(&fabric, 1).await?, serve(&fabric, 1).await?];
    let one = [one.local_addrs()[0]; 2];
    let two = [two[0].local_addrs()[0], two[1].local_addrs()[0]];
    let mut ratios = Vec::new();
    for _ in 0..11 {
        let (shared, apart) = (sample(&fabric, one)?, sample(&fabric, two)?);
        println!("one address: {shared:.0}, two addresses: {apart:.0} calls per second");
        ratios.push(shared / apart);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "one address, two threads: {:.2} of two addresses",
        ratios[5]
    );
    Ok(())
}
