//! One server at several addresses.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::{SocketAddr, TcpListener};
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use kv1::{Client, GetResults};
use oncrpc::xdr::Text;
use oncrpc::{
    CallError, Channel, Context, Execution, ReplyCache, Router, RpcError, ServerControl,
    ServerLimits, tcp,
};
use rpcrdma_rpc_tests::kv::PutArgs;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, RunningServers, ServerBuilder, channel};
use support::{Store, assert_error, run, until};
use tokio::task::JoinHandle;

/// A store over RDMA and over TCP.
struct TestServer {
    fabric: Arc<Fabric>,
    store: Arc<Store>,
    server: RunningServers,
}

impl TestServer {
    async fn start(control: &ServerControl) -> Self {
        let (fabric, store) = (Fabric::new(), Arc::new(Store::default()));
        let server = server(&store)
            .control(control)
            .rdma(&fabric.device(), any())
            .tcp(any());
        Self {
            fabric,
            store,
            server: server.start().await.unwrap(),
        }
    }

    fn over_rdma(&self) -> Client<Channel> {
        let address = self.server.local_addrs()[0];
        let config = ClientConfig::new();
        let (channel, runner) = channel(&self.fabric.device(), address, config);
        tokio::spawn(runner);
        Client::new(channel)
    }

    async fn over_tcp(&self) -> Client<Channel> {
        let address = self.server.local_addrs()[1].to_string();
        Client::new(tcp::connect(&address).await.unwrap())
    }
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn server(store: &Arc<Store>) -> ServerBuilder<(kv1::Server<Arc<Store>>, ())> {
    let store = store.clone();
    ServerBuilder::new(move || Router::new().add_service(kv1::serve(store.clone())))
}

/// The server's reply cache is for routers that have none of their own.
#[test]
fn a_router_keeps_its_reply_cache() {
    run(async {
        for is_own in [true, false] {
            let [of_router, of_server] = [(); 2].map(|()| ReplyCache::default());
            let (store, cache) = (Arc::new(Store::default()), of_router.clone());
            let router = move || {
                let router = Router::new().add_service(kv1::serve(store.clone()));
                if is_own {
                    router.reply_cache(cache.clone())
                } else {
                    router
                }
            };
            let server = ServerBuilder::new(router).reply_cache(of_server.clone());
            let server = server.tcp(any()).start().await.unwrap();
            let address = server.local_addrs()[0].to_string();
            let kv = Client::new(tcp::connect(&address).await.unwrap());
            assert_eq!(kv.fail(&9).await.unwrap(), 9);
            let executed = [of_router, of_server].map(|cache| cache.stats().executed);
            assert_eq!(executed, [u64::from(is_own), u64::from(!is_own)]);
        }
    });
}

#[test]
fn all_addresses_share_services_and_limits() {
    run(async {
        let control = ServerControl::new(ServerLimits::new().max_connections_per_peer(2));
        let server = TestServer::start(&control).await;
        let (rdma, tcp) = (server.over_rdma(), server.over_tcp().await);
        assert_eq!(rdma.fail(&9).await.unwrap(), 9);
        assert_eq!(tcp.fail(&10).await.unwrap(), 10);
        assert_eq!(server.store.fails.load(Relaxed), 2);
        let third = server.over_rdma();
        let rejected = third.fail(&9).wait_for_connection(false).await;
        let text = "can't connect: the server rejected the connection: \
                    too many connections of the peer";
        assert_error(&rejected.unwrap_err(), text, Execution::NotExecuted);
    });
}

/// A service that keeps its thread busy.
struct Slow;

impl kv1::Service for Slow {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        std::thread::sleep(Duration::from_micros(300));
        Ok(how)
    }
}

/// The server's thread never sleeps: there is always another call.
#[test]
fn a_busy_server_drains() {
    run(async {
        let fabric = Fabric::new();
        let server = ServerBuilder::new(|| Router::new().add_service(kv1::serve(Slow)));
        let server = server.rdma(&fabric.device(), any()).start().await.unwrap();
        let address = server.local_addrs()[0];
        for _ in 0..16 {
            let (channel, runner) = channel(&fabric.device(), address, ClientConfig::new());
            tokio::spawn(runner);
            let kv = Client::new(channel);
            for _ in 0..32 {
                let kv = kv.clone();
                tokio::spawn(async move { while kv.fail(&9).await.is_ok() {} });
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        let drained = tokio::time::timeout(Duration::from_secs(5), server.drain());
        drained.await.expect("it does not drain").unwrap();
    });
}

#[test]
fn a_server_drains_at_all_addresses() {
    run(async {
        let server = TestServer::start(&ServerControl::default()).await;
        let calls = [server.over_rdma(), server.over_tcp().await]
            .map(|client| tokio::spawn(async move { client.fail(&8).await }));
        let store = server.store.clone();
        until(|| store.waiting.load(Relaxed) == 2).await;
        let drained = tokio::spawn(server.server.drain());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!drained.is_finished(), "calls wait for their handlers");
        store.go_on.notify_waiters();
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap(), 8);
        }
        drained.await.unwrap().unwrap();
    });
}

/// Begins a call over each transport whose handler waits.
async fn waiting_calls(server: &TestServer) -> [JoinHandle<Result<u32, CallError>>; 2] {
    let calls = [server.over_rdma(), server.over_tcp().await]
        .map(|client| tokio::spawn(async move { client.fail(&8).await }));
    let store = server.store.clone();
    until(|| store.waiting.load(Relaxed) == 2).await;
    calls
}

/// Checks that calls fail since their connections were closed while their handlers ran.
async fn assert_closed(calls: [JoinHandle<Result<u32, CallError>>; 2]) {
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the connection was lost"), "{text}");
        assert_eq!(error.execution(), Execution::Unknown, "{text}");
    }
}

/// Clients get an error at once. Handlers run to their end, for which the server waits.
#[test]
fn a_server_shuts_down_at_all_addresses() {
    run(async {
        let server = TestServer::start(&ServerControl::default()).await;
        let calls = waiting_calls(&server).await;
        let (clients, store) = ([server.over_rdma(), server.over_tcp().await], server.store);
        let ended = tokio::spawn(server.server.shutdown());
        assert_closed(calls).await;
        for client in clients {
            let call = || client.fail(&9).wait_for_connection(false);
            let mut error = call().await.unwrap_err();
            while error.execution() == Execution::Unknown {
                // The client had not noticed yet that the server has closed its connection.
                let (text, lost) = (error.to_string(), "the connection was lost");
                assert!(
                    text.contains(lost) || text.contains("can't connect"),
                    "{text}"
                );
                error = call().await.unwrap_err();
            }
            assert_eq!(error.execution(), Execution::NotExecuted, "{error}");
        }
        assert_eq!(store.waiting.load(Relaxed), 2, "a handler was stopped");
        assert!(!ended.is_finished(), "handlers run");
        store.go_on.notify_waiters();
        ended.await.unwrap().unwrap();
        assert_eq!(store.waiting.load(Relaxed), 0, "a handler was stopped");
    });
}

#[test]
fn a_drain_may_end_in_a_shutdown() {
    run(async {
        let server = TestServer::start(&ServerControl::default()).await;
        let calls = waiting_calls(&server).await;
        let store = server.store;
        let ended = tokio::spawn(server.server.drain_within(Duration::from_millis(50)));
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(calls.iter().all(|call| !call.is_finished()), "it drains");
        assert_closed(calls).await;
        store.go_on.notify_waiters();
        ended.await.unwrap().unwrap();
        // A server without calls drains before the time is over.
        let idle = TestServer::start(&ServerControl::default()).await;
        let drained = idle.server.drain_within(Duration::from_secs(3600));
        drained.await.unwrap();
    });
}

#[test]
fn an_unavailable_address_prevents_the_start() {
    run(async {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let (fabric, store) = (Fabric::new(), Arc::new(Store::default()));
        let rdma: SocketAddr = "127.0.0.1:20049".parse().unwrap();
        let server = |tcp| server(&store).rdma(&fabric.device(), rdma).tcp(tcp);
        let error = server(address).start().await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{address}: ")), "{error}");
        // The address over RDMA becomes free as soon as its thread has ended.
        while let Err(error) = server(any()).start().await {
            assert!(error.to_string().contains("in use"), "{error}");
            tokio::task::yield_now().await;
        }
    });
}

/// Returns the processor time of this process's threads with a name.
#[cfg(target_os = "linux")]
fn processor_time(name: &str) -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of_thread = |thread: PathBuf| {
        let comm = std::fs::read_to_string(thread.join("comm")).ok()?;
        let times = std::fs::read_to_string(thread.join("schedstat")).ok()?;
        let run = times.split(' ').next()?.parse().ok()?;
        (comm.trim_end() == name).then_some(Duration::from_nanos(run))
    };
    threads
        .filter_map(|thread| of_thread(thread.unwrap().path()))
        .sum()
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_server_uses_no_processor_time() {
    run(async {
        let server = TestServer::start(&ServerControl::default()).await;
        let client = server.over_rdma();
        assert_eq!(client.fail(&9).await.unwrap(), 9);
        // After each sleep, the server polls for work for a shorter time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = processor_time("rpcrdma-server");
        assert!(before > Duration::ZERO, "it has served");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let taken = processor_time("rpcrdma-server").saturating_sub(before);
        assert!(taken < Duration::from_millis(40), "{taken:?} of 2 s");
    });
}
