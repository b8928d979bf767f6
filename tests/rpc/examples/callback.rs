//! A service that calls its client, which also offers a service.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use oncrpc::{Context, Router, RpcError, loopback_with_services};
use rpcrdma_rpc_tests::news::Story;
use rpcrdma_rpc_tests::news::news::news1;
use rpcrdma_rpc_tests::news::reader::reader1;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerConfig};

struct News;

impl news1::Service for News {
    async fn subscribe(&self, cx: &Context) -> Result<u32, RpcError> {
        let reader = reader1::Client::new(cx.caller());
        let mut count = 0;
        for headline in ["It rains", "It pours"] {
            let picture = vec![7; 10_000].into();
            let headline = headline.try_into()?;
            count = reader.read(&Story { headline, picture }).await?;
        }
        Ok(count)
    }
}

#[derive(Default)]
struct Reader(AtomicU32);

impl reader1::Service for Reader {
    async fn read(&self, _: &Context, story: Story<'_>) -> Result<u32, RpcError> {
        let Story { headline, picture } = story;
        println!("{}, with {} bytes", headline.to_str()?, picture.len());
        Ok(self.0.fetch_add(1, Relaxed) + 1)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fabric = Fabric::new();
    let address = "127.0.0.1:0".parse()?;
    let server = rpcrdma_verbs::serve(&fabric.device(), address, ServerConfig::new(), || {
        Router::new().add_service(news1::serve(News))
    })?;
    let channel = rpcrdma_verbs::connect_with_services(
        &fabric.device(),
        server.local_addr(),
        ClientConfig::new(),
        Router::new().add_service(reader1::serve(Reader::default())),
    )?;
    let news = news1::Client::new(channel);
    assert_eq!(news.subscribe().await?, 2);

    // The same within one process.
    let services = Router::new().add_service(reader1::serve(Reader::default()));
    let router = Router::new().add_service(news1::serve(News));
    let (channel, runner) = loopback_with_services(router, services);
    tokio::spawn(runner);
    assert_eq!(news1::Client::new(channel).subscribe().await?, 2);
    Ok(())
}
