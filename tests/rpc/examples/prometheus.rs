//! A server whose metrics Prometheus collects: `cargo run --example prometheus -- 127.0.0.1:9464`,
//! then `curl http://127.0.0.1:9464/metrics`. Without an address it makes some calls and prints the
//! metrics once.

use std::error::Error;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use oncrpc::xdr::Text;
use oncrpc::{Context, Router, RpcError, ServerControl, tcp};
use rpcrdma_rpc_tests::kv::kv::kv1::{self, Client, GetResults};
use rpcrdma_rpc_tests::kv::{GetRes, PutArgs};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A store that stores nothing.
struct Nothing;

impl kv1::Service for Nothing {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Ok(GetRes::False.into())
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(())
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        Ok(how)
    }
}

/// Returns the metrics as Prometheus reads them.
fn scrape(metrics: &PrometheusHandle, control: &ServerControl) -> String {
    control.publish_metrics("kv");
    metrics.run_upkeep();
    metrics.render()
}

/// Responds to each HTTP request with the metrics.
async fn export(
    address: &str,
    metrics: &PrometheusHandle,
    control: &ServerControl,
) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        // The content of the request is ignored: there is only one page.
        let _ = stream.read(&mut [0; 1024]).await?;
        let body = scrape(metrics, control);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
        let head = format!(
            "{head}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // This comes before the first call: metrics keep the handles that the recorder gives them.
    let metrics = PrometheusBuilder::new().install_recorder()?;
    oncrpc::describe_metrics();
    let router = Router::new().add_service(kv1::serve(Nothing));
    let control = ServerControl::default();
    let server = tcp::Server::bind("127.0.0.1:0", router).await?;
    let server = server.control(&control);
    let client = Client::new(tcp::connect(&server.local_addr()?.to_string()).await?);
    tokio::spawn(server.run());
    for _ in 0..100 {
        client.get(&"key".try_into()?).await?;
    }
    match std::env::args().nth(1) {
        Some(address) => export(&address, &metrics, &control).await,
        None => {
            print!("{}", scrape(&metrics, &control));
            Ok(())
        }
    }
}
