//! A server whose metrics Prometheus collects: `cargo run -p kv-metrics`, then
//! `curl http://127.0.0.1:9464/metrics`.
//!
//! The process also has two clients, over RDMA and over TCP, that call the server several times per
//! second.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use kv_store::{Store, store::PutArgs, store::store::v1};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use oncrpc::{Channel, Router, ServerControl, tcp};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerBuilder, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Serve a key-value store, call it, and offer its metrics to Prometheus.
#[derive(Parser)]
struct Options {
    /// Address of the metrics.
    #[arg(long, default_value = "127.0.0.1:9464")]
    metrics: SocketAddr,
}

/// The name of the server in labels.
const NAME: &str = "kv";
/// The upper bounds of the buckets of histograms, in seconds. Without buckets, the exporter
/// computes quantiles, which cannot be added over servers.
const BUCKETS: [f64; 9] = [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 0.1, 1.0];
/// The interval at which histogram values are sorted into buckets: they use memory until then.
const UPKEEP: Duration = Duration::from_secs(5);
/// The timeout of an HTTP request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval between the calls of a client.
const PAUSE: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    // This comes before the first call: metrics keep the handles that the recorder gives them.
    let recorder = PrometheusBuilder::new().set_buckets(&BUCKETS)?;
    let metrics = recorder.install_recorder()?;
    rpcrdma_verbs::describe_metrics();

    let (store, fabric) = (Store::new(1 << 20), Fabric::new());
    let control = ServerControl::default();
    let server = ServerBuilder::new(move || Router::new().add_service(v1::serve(store.clone())))
        .control(&control)
        .rdma_config(ServerConfig::new().publish_metrics(NAME))
        .rdma(&fabric.device(), "127.0.0.1:0".parse()?)
        .tcp("127.0.0.1:0".parse()?)
        .start()
        .await?;
    let (rdma, tcp) = (server.local_addrs()[0], server.local_addrs()[1]);
    let rdma = rpcrdma_verbs::connect(&fabric.device(), rdma, ClientConfig::new())?;
    let tcp = tcp::connect(&tcp.to_string()).await?;

    let listener = TcpListener::bind(options.metrics).await?;
    println!("metrics at http://{}/metrics", listener.local_addr()?);
    tokio::spawn(upkeep(metrics.clone()));
    tokio::select! {
        ended = call(rdma) => ended,
        ended = call(tcp) => ended,
        ended = export(listener, metrics, control) => Ok(ended?),
    }
}

/// Puts and gets a value again and again.
async fn call(channel: Channel) -> Result<(), Box<dyn Error>> {
    let client = v1::Client::new(channel);
    loop {
        let (key, value) = ("key".try_into()?, vec![7; 10_000].into());
        client.put(&PutArgs { key, value }).await?;
        client.get(&"key".try_into()?).await?;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn upkeep(metrics: PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP).await;
        metrics.run_upkeep();
    }
}

/// Responds to HTTP requests.
async fn export(
    listener: TcpListener,
    metrics: PrometheusHandle,
    control: ServerControl,
) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let (metrics, control) = (metrics.clone(), control.clone());
        let response = async move {
            control.publish_metrics(NAME);
            respond(stream, &metrics.render()).await
        };
        // A client that disconnects or sends nothing is not an error of the server.
        tokio::spawn(tokio::time::timeout(REQUEST_TIMEOUT, response));
    }
}

/// Sends the metrics whatever the request is: there is only one page.
async fn respond(mut stream: TcpStream, body: &str) -> io::Result<()> {
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < 8192 {
        match stream.read(&mut part).await? {
            0 => break,
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
        Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await
}
