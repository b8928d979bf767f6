//! A client whose transport is chosen at run time.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::support::{Store, assert_error, found, key, put, run, until};
use kv1::Client;
use oncrpc::tower::TowerTransport;
use oncrpc::{BoxedTransport, Execution, Router, ServerControl, loopback, tcp};
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerBuilder, connect};
use tower::ServiceBuilder;

/// One variable has a channel over RDMA, over TCP, in memory, and below layers of tower.
#[test]
fn one_client_type_serves_all_transports() {
    run(async {
        let (store, fabric) = (Arc::new(Store::default()), Fabric::new());
        let served = store.clone();
        let router = move || Router::new().add_service(kv1::serve(served.clone()));
        let any = "127.0.0.1:0".parse().unwrap();
        let server = ServerBuilder::new(router.clone())
            .control(&ServerControl::default())
            .rdma(&fabric.device(), any)
            .tcp(any);
        let server = server.start().await.unwrap();
        let [rdma, tcp] = server.local_addrs() else {
            panic!("two addresses")
        };
        let (channel, runner) = loopback(router());
        tokio::spawn(runner);
        let limited = ServiceBuilder::new()
            .concurrency_limit(2)
            .service(channel.clone());
        let rdma = connect(&fabric.device(), *rdma, ClientConfig::new()).unwrap();
        let tcp = tcp::connect(&tcp.to_string()).await.unwrap();
        let transports = [
            BoxedTransport::new(rdma),
            BoxedTransport::new(tcp),
            BoxedTransport::new(channel),
            BoxedTransport::new(TowerTransport::new("the store", limited)),
        ];
        for (before, transport) in transports.into_iter().enumerate() {
            let length = 1000 + before;
            let kv = Client::new(transport);
            kv.put(&put("a", vec![7; length])).await.unwrap();
            let value = found(kv.get(&key("a")).await.unwrap()).unwrap();
            assert_eq!(*value, vec![7; length]);
            let error = kv.fail(&2).await.unwrap_err();
            let text = "the server does not offer the procedure";
            assert_error(&error, text, Execution::NotExecuted);
            // Another thread can await the call, which is cancelled if it is dropped.
            let waits = tokio::spawn(kv.fail(&8).into_future());
            until(|| store.waiting.load(Relaxed) == before + 1).await;
            waits.abort();
            assert!(waits.await.unwrap_err().is_cancelled());
        }
        store.go_on.notify_waiters();
        server.drain().await.unwrap();
    });
}
