//! A server on two threads, each with a service of its own that is not `Send`.

use std::cell::Cell;
use std::error::Error;
use std::num::NonZeroUsize;

use oncrpc::xdr::Text;
use oncrpc::{Context, Router, RpcError};
use rpcrdma_rpc_tests::kv::kv::kv1::{self, Client, GetResults};
use rpcrdma_rpc_tests::kv::{GetRes, PutArgs};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerBuilder, connect};

#[derive(Default)]
struct Counter(Cell<u32>);

impl kv1::LocalService for Counter {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Ok(GetRes::False.into())
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(())
    }

    async fn fail(&self, _: &Context, more: u32) -> Result<u32, RpcError> {
        self.0.set(self.0.get() + more);
        Ok(self.0.get())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (fabric, threads) = (Fabric::new(), NonZeroUsize::new(2));
    let router = || Router::new().add_service(kv1::serve_local(Counter::default()));
    let server = ServerBuilder::new(router)
        .threads(threads.ok_or("no threads")?)
        .rdma(&fabric.device(), "127.0.0.1:0".parse()?)
        .start()
        .await?;
    let address = server.local_addrs()[0];
    // The connections are placed on the threads in turn.
    for sum in [7, 7, 14, 14] {
        let channel = connect(&fabric.device(), address, ClientConfig::new())?;
        assert_eq!(Client::new(channel).fail(&7).await?, sum);
    }
    server.drain().await?;
    Ok(())
}
