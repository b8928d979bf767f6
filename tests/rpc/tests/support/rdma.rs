//! A store that is served over RDMA.

use std::net::SocketAddr;
use std::sync::Arc;

use oncrpc::{Channel, Router};
use rpcrdma_rpc_tests::kv::kv::kv1::{self, Client};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, RunningServer, ServerConfig, channel, serve};

use super::Store;

/// A server and its fabric.
#[derive(Debug)]
pub struct Running {
    pub fabric: Arc<Fabric>,
    pub server: RunningServer,
    pub store: Arc<Store>,
}

/// Serves a store on a new fabric.
pub fn start(config: ServerConfig) -> Running {
    let (fabric, store) = (Fabric::new(), Arc::new(Store::default()));
    let served = store.clone();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = serve(&fabric.device(), any, config, move || {
        Router::new().add_service(kv1::serve(served))
    });
    Running {
        fabric,
        server: server.unwrap(),
        store,
    }
}

impl Running {
    /// Returns a client whose runner is a task.
    pub fn client(&self, config: ClientConfig) -> Client<Channel> {
        let address = self.server.local_addr();
        let (channel, runner) = channel(&self.fabric.device(), address, config);
        tokio::spawn(runner);
        Client::new(channel)
    }
}
