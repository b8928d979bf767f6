//! A key-value store over TCP and over RDMA: one service, and one client for both.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use oncrpc::xdr::{SharedBytes, Text};
use oncrpc::{Channel, Context, Router, RpcError, tcp};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerBuilder};
use tokio::sync::Mutex;
use xdr::{GetRes, PutArgs, kv::kv1, owned};

include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));

#[derive(Clone, Default)]
struct Store(Arc<Mutex<HashMap<String, SharedBytes>>>);

impl kv1::Service for Store {
    async fn get(&self, _: &Context, key: Text<'_>) -> Result<kv1::GetResults<'_>, RpcError> {
        Ok(match self.0.lock().await.get(key.to_str()?) {
            Some(value) => GetRes::True(value.clone().into()).into(),
            None => GetRes::False.into(),
        })
    }

    async fn put(&self, _: &Context, args: PutArgs<'_>) -> Result<(), RpcError> {
        let key = args.key.to_str()?.to_owned();
        self.0.lock().await.insert(key, args.value.into_shared());
        Ok(())
    }
}

async fn put_and_get(channel: Channel) -> Result<(), Box<dyn Error>> {
    let kv = kv1::Client::new(channel);
    let value = SharedBytes::from(vec![7; 100_000]);
    let (key, item) = ("a".try_into()?, value.clone().into());
    kv.put(&PutArgs { key, value: item }).await?;
    let got = kv.get(&"a".try_into()?).await?;
    assert!(matches!(got, owned::GetRes::True(item) if **item == *value));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (store, fabric) = (Store::default(), Fabric::new());
    let server = ServerBuilder::new(move || Router::new().add_service(kv1::serve(store.clone())))
        .rdma(&fabric.device(), "127.0.0.1:0".parse()?)
        .tcp("127.0.0.1:0".parse()?)
        .start()
        .await?;
    let (rdma, tcp) = (server.local_addrs()[0], server.local_addrs()[1]);
    put_and_get(tcp::connect(&tcp.to_string()).await?).await?;
    let channel = rpcrdma_verbs::connect(&fabric.device(), rdma, ClientConfig::new())?;
    put_and_get(channel).await?;
    server.drain().await?;
    println!("the same service, over TCP and over RDMA");
    Ok(())
}
