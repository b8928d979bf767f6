//! An echo of the same size and depth with futures on tokio: tasks that share a channel, and the
//! task that drives it, over one connection.

use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use oncrpc::{Channel, Router};
use rpcrdma_proto::connection::Config;
use rpcrdma_verbs::{ClientConfig, RunningServer, ServerConfig, channel, run_server, serve};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use super::{Options, SAMPLES, least_median_most};
use crate::block::{self, BlockService};
use crate::device_source::DeviceSource;
use crate::schema::block::block1::{self, Client};

/// The number of worker threads of the runtime, if the server has its own thread.
const WORKERS: usize = 2;
/// The warm-up time of the tasks.
const WARM_UP: Duration = Duration::from_millis(300);

/// Measures the nanoseconds per call over one connection: minimum, median and maximum.
pub(super) fn measure(
    options: &Options,
    source: &DeviceSource,
) -> Result<[f64; 3], Box<dyn Error>> {
    if options.apart {
        apart(options, source)
    } else {
        together(options, source)
    }
}

/// Measures with the server on its own thread, and the tasks on two threads.
fn apart(options: &Options, source: &DeviceSource) -> Result<[f64; 3], Box<dyn Error>> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()?;
    let (device, address) = (source.open()?, source.address(0));
    let server: RunningServer = serve(&device, address, server_config(options), router)?;
    let address = server.local_addr();
    let samples = runtime.block_on(async {
        let (channel, runner) = channel(&source.open()?, address, client_config(options));
        tokio::spawn(runner);
        sample(options, channel).await
    });
    drop(runtime);
    server.drain()?;
    samples
}

/// Measures with everything on one thread.
fn together(options: &Options, source: &DeviceSource) -> Result<[f64; 3], Box<dyn Error>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let (bound, binding) = oneshot::channel();
        let (device, address, config) = (source.open()?, source.address(0), server_config(options));
        let server = tokio::task::spawn_local(async move {
            let bound = |address| {
                // The other end of the channel waits for it.
                let _ = bound.send(address);
            };
            run_server(&device, address, config, router(), bound, pending()).await
        });
        let Ok(address) = binding.await else {
            server.await??;
            return Err("the server has ended".into());
        };
        let (channel, runner) = channel(&source.open()?, address, client_config(options));
        tokio::task::spawn_local(runner);
        let samples = sample(options, channel).await;
        server.abort();
        samples
    })
}

fn router() -> Router<crate::block::Programs> {
    Router::new().add_service(block1::serve_local(BlockService::without_blocks()))
}

fn server_config(options: &Options) -> ServerConfig {
    ServerConfig::new().protocol(Config {
        max_served: options.depth,
        ..Config::server()
    })
}

fn client_config(options: &Options) -> ClientConfig {
    ClientConfig::new().protocol(Config {
        max_calls: options.depth.saturating_add(16),
        credits: options.depth.into(),
        max_version: options.protocol,
        ..Config::client()
    })
}

/// Makes successive calls until one fails.
async fn calls(client: Client<Channel>, size: u32, done: Arc<AtomicU64>) {
    let arguments = vec![0x5a; size as usize];
    loop {
        let call = block::echo(&client, &arguments);
        match call.reply().await.and_then(|reply| reply.read(<[u8]>::len)) {
            Ok(_) => done.fetch_add(1, Relaxed),
            Err(error) => return eprintln!("rpcrdma: {error}"),
        };
    }
}

async fn sample(options: &Options, channel: Channel) -> Result<[f64; 3], Box<dyn Error>> {
    let (client, done) = (Client::new(channel), Arc::new(AtomicU64::new(0)));
    for _ in 0..options.depth {
        tokio::spawn(calls(client.clone(), options.size, done.clone()));
    }
    tokio::time::sleep(WARM_UP).await;
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let (began, before) = (Instant::now(), done.load(Relaxed));
        tokio::time::sleep(options.duration / SAMPLES).await;
        let calls = (done.load(Relaxed) - before).max(1);
        samples.push(began.elapsed().as_nanos() as f64 / calls as f64);
    }
    Ok(least_median_most(samples))
}
