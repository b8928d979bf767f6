//! A client and a server on drivers in one thread, without locks and without tasks.

use std::cell::Cell;

use oncrpc::xdr::Text;
use oncrpc::{Context, Router, RpcError};
use rpcrdma_proto::connection::Config;
use rpcrdma_rpc_tests::kv::kv::kv1::{self, Client, GetResults};
use rpcrdma_rpc_tests::kv::{GetRes, PutArgs};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{LocalChannel, LocalEvent, LocalServer};

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (fabric, budget) = (Fabric::new(), Budget::new(64 << 20));
    let mut far = Driver::new(&fabric.device(), &budget, 1024)?;
    let router = Router::new().add_service(kv1::serve_local(Counter::default()));
    let address = "127.0.0.1:0".parse()?;
    let mut server = LocalServer::bind(&mut far, address, Config::server(), router)?;

    let mut near = Driver::new(&fabric.device(), &budget, 1024)?;
    let channel = LocalChannel::connect(&mut near, server.local_addr(), Config::client())?;
    let kv = Client::new(channel.clone());
    let call = kv.fail(&7).begin(&mut near)?;
    let sum = loop {
        near.turn()?;
        far.turn()?;
        server.serve(&mut far);
        if let Some(LocalEvent::Completed(completed)) = channel.poll_event(&mut near)
            && let Some(result) = channel.read(&call, &completed, |sum| sum)
        {
            break result?;
        }
    };
    assert_eq!(sum, 7);
    Ok(())
}
