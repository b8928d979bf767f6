//! Cancelled calls, and dropped channels, clients and servers, release all their resources.

use crate::support;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::random::Rng;
use crate::support::rdma::start;
use crate::support::{Store, assert_error, run, until};
use kv1::{Client, GetResults, Service};
use oncrpc::xdr::Text;
use oncrpc::{Channel, Context, Execution, Router, RpcError, ServerControl, ServerLimits};
use rpcrdma_proto::connection::Config;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_rpc_tests::kv::{GetRes, PutArgs};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerConfig, channel_with_services, run_server};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Records the numbers of its calls in order. Every 16th call takes some time.
#[derive(Default)]
struct Order(Mutex<Vec<u32>>);

impl Service for Order {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Ok(GetRes::False.into())
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(())
    }

    async fn fail(&self, _: &Context, number: u32) -> Result<u32, RpcError> {
        self.0.lock().unwrap().push(number);
        if number.is_multiple_of(16) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(number)
    }
}

/// More calls than may be in flight, of which a random tenth is cancelled at a random time: no call
/// fails for lack of a slot, and the server receives them in the order in which they were made.
#[test]
fn cancelled_calls_free_their_slots() {
    let (fabric, order) = (Fabric::new(), Arc::new(Order::default()));
    let served = order.clone();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = rpcrdma_verbs::serve(&fabric.device(), any, ServerConfig::new(), move || {
        Router::new().add_service(kv1::serve(served))
    })
    .unwrap();
    let mut rng = Rng::from_environment();
    run(async move {
        let protocol = Config {
            max_calls: 16,
            credits: 16,
            ..Config::client()
        };
        let config = ClientConfig::new().protocol(protocol);
        let address = server.local_addr();
        let (channel, runner) = rpcrdma_verbs::channel(&fabric.device(), address, config);
        tokio::spawn(runner);
        let kv = Client::new(channel);
        let mut waiting = Vec::new();
        for number in 1..=10_000 {
            let call = kv.fail(&number).into_future();
            if rng.below(10) == 0 {
                let patience = Duration::from_micros(rng.below(500));
                let given_up = tokio::time::timeout(patience, call);
                waiting.push((number, tokio::spawn(async { given_up.await.ok() })));
            } else {
                waiting.push((number, tokio::spawn(async { Some(call.await) })));
            }
            if waiting.len() == 64 {
                for (number, call) in waiting.drain(..) {
                    // It was answered or cancelled.
                    let answer = call.await.unwrap().map(Result::unwrap);
                    assert!(answer.is_none_or(|answer| answer == number));
                }
            }
        }
    });
    let order = order.0.lock().unwrap();
    assert!(order.len() > 8_000, "{} calls", order.len());
    assert!(order.is_sorted(), "calls overtake each other");
}

/// Its GETs wait until they may go on.
struct Waiting {
    gets: AtomicUsize,
    go_on: tokio::sync::Semaphore,
}

impl Service for Waiting {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        self.gets.fetch_add(1, Relaxed);
        let _permit = self.go_on.acquire().await?;
        Ok(GetRes::False.into())
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(())
    }

    async fn fail(&self, _: &Context, number: u32) -> Result<u32, RpcError> {
        Ok(number)
    }
}

/// Calls that have all the memory for results are cancelled: those that are made at the same time
/// wait for the memory.
#[test]
fn cancelled_calls_return_their_memory() {
    let service = Arc::new(Waiting {
        gets: AtomicUsize::new(0),
        go_on: tokio::sync::Semaphore::new(0),
    });
    let fabric = Fabric::new();
    let served = service.clone();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = rpcrdma_verbs::serve(&fabric.device(), any, ServerConfig::new(), move || {
        Router::new().add_service(kv1::serve(served))
    })
    .unwrap();
    run(async move {
        let config = ClientConfig::new().memory(4 << 20);
        let (channel, runner) =
            rpcrdma_verbs::channel(&fabric.device(), server.local_addr(), config);
        tokio::spawn(runner);
        let kv = Client::new(channel);
        assert_eq!(kv.fail(&1).await.unwrap(), 1);
        for _ in 0..20 {
            let get = || tokio::spawn(kv.get(&support::key("a")).into_future());
            let before = service.gets.load(Relaxed);
            let calls = [(); 8].map(|()| get());
            until(|| service.gets.load(Relaxed) > before).await;
            calls.iter().for_each(|call| call.abort());
            // An aborted task drops its call later.
            for call in calls {
                drop(call.await);
            }
            let again = [(); 2].map(|()| get());
            service.go_on.add_permits(1);
            for call in again {
                call.await.unwrap().unwrap();
            }
            service.go_on.forget_permits(1);
        }
    });
}

/// A service whose handlers call another server.
struct Proxy(Client<Channel>);

impl Service for Proxy {
    async fn get(&self, _: &Context, key: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Ok(self.0.get(&key).await?.into())
    }

    async fn put(&self, _: &Context, args: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(self.0.put(&args).await?)
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        Ok(self.0.fail(&how).await?)
    }
}

/// A server that stops during a call drops its handlers and the futures that they wait for. Its
/// clients get errors, and its address is free.
#[test]
fn a_dropped_server_releases_everything() {
    let backend = start(ServerConfig::new());
    run(async move {
        let local = LocalSet::new();
        let (fabric, store) = (backend.fabric.clone(), backend.store.clone());
        let upstream = backend.client(ClientConfig::new());
        local
            .run_until(async move {
                let mut address: SocketAddr = "127.0.0.1:0".parse().unwrap();
                for round in 1..=3 {
                    let proxy = Arc::new(Proxy(upstream.clone()));
                    let (bound, binding) = oneshot::channel();
                    let (device, served) = (fabric.device(), proxy.clone());
                    let server = tokio::task::spawn_local(async move {
                        let router = Router::new().add_service(kv1::serve(served));
                        let tell = |address| bound.send(address).unwrap();
                        let never = std::future::pending();
                        let config = ServerConfig::new();
                        run_server(&device, address, config, router, tell, never).await
                    });
                    address = binding.await.unwrap();
                    let config = ClientConfig::new();
                    let (channel, runner) =
                        rpcrdma_verbs::channel(&fabric.device(), address, config);
                    tokio::spawn(runner);
                    let kv = Client::new(channel);
                    for how in 100..120 {
                        assert_eq!(kv.fail(&how).await.unwrap(), how);
                    }
                    let waits = tokio::spawn(kv.fail(&8).into_future());
                    until(|| store.waiting.load(Relaxed) == round).await;
                    assert_eq!(Arc::strong_count(&proxy), 2);
                    server.abort();
                    assert!(server.await.unwrap_err().is_cancelled());
                    assert_eq!(Arc::strong_count(&proxy), 1, "a handler is kept");
                    let error = waits.await.unwrap().unwrap_err();
                    let text = error.to_string();
                    assert!(text.contains("the connection was lost"), "{text}");
                }
            })
            .await;
    });
}

/// A client with services that is dropped ends its calls in progress, and then its services.
#[test]
fn a_dropped_client_releases_everything() {
    let running = start(ServerConfig::new());
    run(async move {
        let address = running.server.local_addr();
        for round in 0..20 {
            let services = Arc::new(Store::default());
            let router = Router::new().add_service(kv1::serve(services.clone()));
            let (device, config) = (running.fabric.device(), ClientConfig::new());
            let (channel, runner) = channel_with_services(&device, address, config, router);
            let runner = tokio::spawn(runner);
            let kv = Client::new(channel);
            kv.null().await.unwrap();
            let last = kv.fail(&(100 + round)).into_future();
            drop(kv);
            assert_eq!(last.await.unwrap(), 100 + round, "what it has begun ends");
            runner.await.unwrap().unwrap();
            assert_eq!(Arc::strong_count(&services), 1);
        }
        // A client that never had a connection.
        let nowhere = "127.0.0.1:9";
        let (device, config) = (running.fabric.device(), ClientConfig::new());
        let (channel, runner) = rpcrdma_verbs::channel(&device, nowhere, config);
        let runner = tokio::spawn(runner);
        let call = Client::new(channel).fail(&9).into_future();
        drop(call);
        runner.await.unwrap().unwrap();
    });
}

/// Drains a channel while a call waits for its reply; then shuts the channel down, or cancels the
/// call. Both end the runner.
async fn drains<R>(store: &Store, shuts_down: bool, (channel, runner): (Channel, R))
where
    R: Future<Output: Send> + Send + 'static,
{
    let before = store.fails.load(Relaxed);
    let runner = tokio::spawn(runner);
    let call = tokio::spawn(Client::new(channel.clone()).fail(&3).into_future());
    until(|| store.fails.load(Relaxed) > before).await;
    channel.drain();
    tokio::time::sleep(Duration::from_millis(20)).await;
    if shuts_down {
        channel.shutdown();
        let error = call.await.unwrap().unwrap_err();
        assert_error(&error, "the channel was shut down", Execution::Unknown);
    } else {
        call.abort();
    }
    runner.await.unwrap();
}

#[test]
fn a_channel_that_drains_can_be_shut_down() {
    let over_rdma = start(ServerConfig::new());
    run(async move {
        let over_tcp = support::tcp::serve(&ServerControl::new(ServerLimits::default())).await;
        for shuts_down in [true, false] {
            let store = Arc::new(Store::default());
            let router = Router::new().add_service(kv1::serve(store.clone()));
            drains(&store, shuts_down, oncrpc::loopback(router)).await;

            let address = over_tcp.address.to_string();
            let config = oncrpc::tcp::ClientConfig::new();
            let connection = oncrpc::tcp::channel(&address, config);
            drains(&over_tcp.store, shuts_down, connection).await;

            let (device, address) = (over_rdma.fabric.device(), over_rdma.server.local_addr());
            let connection = rpcrdma_verbs::channel(&device, address, ClientConfig::new());
            drains(&over_rdma.store, shuts_down, connection).await;
        }
    });
}
