//! A server on several threads, at one address.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use kv1::{Client, GetResults, Service};
use oncrpc::xdr::Text;
use oncrpc::{Channel, Context, Router, RpcError, ServerControl, ServerLimits};
use rpcrdma_rpc_tests::kv::PutArgs;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::iwarp::{IwarpConfig, IwarpDevice};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ConnectionPlacement, RunningServers, ServerBuilder, channel};
use support::{run, until};

/// The service of one thread: FAIL returns the thread's number.
struct Numbered {
    number: u32,
    go_on: Arc<tokio::sync::Notify>,
    waiting: Arc<AtomicU32>,
}

impl Service for Numbered {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        if how == 8 {
            let goes_on = self.go_on.notified();
            self.waiting.fetch_add(1, Relaxed);
            goes_on.await;
        }
        Ok(self.number)
    }
}

/// A server on threads whose services are numbered from zero.
struct Threads<D> {
    device: D,
    server: RunningServers,
    go_on: Arc<tokio::sync::Notify>,
    waiting: Arc<AtomicU32>,
}

impl<D: Device> Threads<D> {
    async fn start(device: &D, threads: usize, placement: ConnectionPlacement) -> Self {
        Self::with(device, threads, placement, &ServerControl::default()).await
    }

    async fn with(
        device: &D,
        threads: usize,
        place: ConnectionPlacement,
        control: &ServerControl,
    ) -> Self {
        let (next, go_on) = (AtomicU32::new(0), Arc::new(tokio::sync::Notify::new()));
        let (waits, waiting) = (go_on.clone(), Arc::new(AtomicU32::new(0)));
        let count = waiting.clone();
        let router = move || {
            Router::new().add_service(kv1::serve(Numbered {
                number: next.fetch_add(1, Relaxed),
                go_on: waits.clone(),
                waiting: count.clone(),
            }))
        };
        let server = ServerBuilder::new(router)
            .threads(NonZeroUsize::new(threads).unwrap())
            .placement(place)
            .control(control)
            .rdma(device, "127.0.0.1:0".parse().unwrap());
        Self {
            device: device.clone(),
            server: server.start().await.unwrap(),
            go_on,
            waiting,
        }
    }

    /// Connects, and returns the number of the thread that serves the connection.
    async fn connect(&self) -> (Client<Channel>, u32) {
        let address = self.server.local_addrs()[0];
        let (channel, runner) = channel(&self.device, address, ClientConfig::new());
        tokio::spawn(runner);
        let kv = Client::new(channel);
        let number = kv.fail(&9).await.unwrap();
        (kv, number)
    }
}

async fn go_in_turn<D: Device>(device: &D) {
    let server = Threads::start(device, 3, ConnectionPlacement::RoundRobin).await;
    for number in (0..3).cycle().take(12) {
        let (kv, on) = server.connect().await;
        assert_eq!(on, number);
        // A connection stays on its thread.
        assert_eq!(kv.fail(&9).await.unwrap(), number);
    }
    server.server.drain().await.unwrap();
}

#[test]
fn connections_are_assigned_in_turn() {
    run(async { go_in_turn(&Fabric::new().device()).await });
}

#[test]
fn connections_of_other_processes_are_assigned_in_turn() {
    run(async { go_in_turn(&IwarpDevice::new(IwarpConfig::default())).await });
}

#[test]
fn the_least_loaded_thread_gets_the_next_connection() {
    run(async {
        let (fabric, fewest) = (Fabric::new(), ConnectionPlacement::FewestConnections);
        let server = Threads::start(&fabric.device(), 2, fewest).await;
        let mut clients = Vec::new();
        for number in [0, 1, 0, 1] {
            let (kv, on) = server.connect().await;
            assert_eq!(on, number);
            clients.push((kv, on));
        }
        // Both connections of the second thread end, which the acceptor notices a little later.
        clients.retain(|(_, on)| *on == 0);
        let mut last = 0;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let (kv, on) = server.connect().await;
            last = on;
            if on == 1 {
                clients.push((kv, on));
                break;
            }
        }
        assert_eq!(last, 1);
        assert_eq!(server.connect().await.1, 1);
    });
}

#[test]
fn a_function_of_the_peer_selects_the_thread() {
    run(async {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        // Thread numbers are taken modulo the number of threads.
        let place = ConnectionPlacement::by_peer(move |peer| {
            assert!(peer.port() != 0);
            count.fetch_add(1, Relaxed);
            usize::MAX
        });
        let server = Threads::start(&Fabric::new().device(), 2, place).await;
        for _ in 0..4 {
            assert_eq!(server.connect().await.1, 1);
        }
        assert_eq!(asked.load(Relaxed), 4);
    });
}

#[test]
fn threads_share_the_limits() {
    run(async {
        let control = ServerControl::new(ServerLimits::new().max_connections_per_peer(3));
        let device = Fabric::new().device();
        let server = Threads::with(&device, 2, ConnectionPlacement::RoundRobin, &control).await;
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(server.connect().await);
        }
        let address = server.server.local_addrs()[0];
        let (channel, runner) = channel(&device, address, ClientConfig::new());
        tokio::spawn(runner);
        let kv = Client::new(channel);
        let rejected = kv.fail(&9).wait_for_connection(false).await;
        let error = rejected.unwrap_err().to_string();
        assert!(
            error.contains("too many connections of the peer"),
            "{error}"
        );
    });
}

#[test]
fn all_threads_drain_before_the_server_ends() {
    run(async {
        let server =
            Threads::start(&Fabric::new().device(), 2, ConnectionPlacement::RoundRobin).await;
        let mut calls = Vec::new();
        for _ in 0..4 {
            let (kv, on) = server.connect().await;
            calls.push(tokio::spawn(async move {
                assert_eq!(kv.fail(&8).await.unwrap(), on);
            }));
        }
        until(|| server.waiting.load(Relaxed) == 4).await;
        let drained = tokio::spawn(server.server.drain());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!drained.is_finished(), "calls wait for their handlers");
        server.go_on.notify_waiters();
        for call in calls {
            call.await.unwrap();
        }
        drained.await.unwrap().unwrap();
    });
}
