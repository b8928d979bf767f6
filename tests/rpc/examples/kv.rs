//! A key-value store over TCP and over RDMA: one service, and one client for both.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use oncrpc::xdr::{SharedBytes, Text};
use oncrpc::{Channel, Context, Router, RpcError, tcp};
use rpcrdma_rpc_tests::kv::kv::kv1::{self, Client, GetResults};
use rpcrdma_rpc_tests::kv::{GetOk, GetRes, PutArgs, owned};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerBuilder};

#[derive(Clone, Default)]
struct Store(Arc<Mutex<HashMap<String, SharedBytes>>>);

impl kv1::Service for Store {
    async fn get(&self, _: &Context, key: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        let values = self
            .0
            .lock()
            .map_err(|_| std::io::Error::other("poisoned"))?;
        let found = match values.get(key.to_str()?) {
            Some(value) => GetRes::True(GetOk {
                value: value.clone().into(),
            }),
            None => GetRes::False,
        };
        Ok(found.into())
    }

    async fn put(&self, _: &Context, args: PutArgs<'_>) -> Result<(), RpcError> {
        let key = args.key.to_str()?.to_owned();
        let mut values = self
            .0
            .lock()
            .map_err(|_| std::io::Error::other("poisoned"))?;
        values.insert(key, args.value.into_shared());
        Ok(())
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        Ok(how)
    }
}

async fn put_and_get(channel: Channel) -> Result<(), Box<dyn std::error::Error>> {
    let kv = Client::new(channel);
    let value = SharedBytes::from(vec![7; 100_000]);
    kv.put(&PutArgs {
        key: "a".try_into()?,
        value: value.clone().into(),
    })
    .await?;
    match kv.get(&"a".try_into()?).await? {
        owned::GetRes::True(ok) => assert_eq!(*ok.value, *value),
        owned::GetRes::False => return Err("no value".into()),
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (store, fabric) = (Store::default(), Fabric::new());
    let server = ServerBuilder::new(move || Router::new().add_service(kv1::serve(store.clone())))
        .rdma(&fabric.device(), "127.0.0.1:0".parse()?)
        .tcp("127.0.0.1:0".parse()?)
        .start()
        .await?;
    let (rdma, tcp) = (server.local_addrs()[0], server.local_addrs()[1].to_string());
    put_and_get(tcp::connect(&tcp).await?).await?;
    let channel = rpcrdma_verbs::connect(&fabric.device(), rdma, ClientConfig::new())?;
    put_and_get(channel).await?;
    server.drain().await?;
    println!("the same service, over TCP and over RDMA");
    Ok(())
}
