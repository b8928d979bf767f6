//! Calls that must not be executed twice, over RDMA.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use kv1::Client;
use oncrpc::{CallOptions, ReplyCache, Resend, Router, ServerControl, ServerLimits};
use rpcrdma_proto::connection::Config;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::provider::software::{Fabric, Faults};
use rpcrdma_verbs::{ClientConfig, RunningServer, ServerConfig, channel, serve};
use support::counting::Counting;
use support::random::Rng;
use support::{Store, run, run_within, until};

/// Serves a service with a reply cache.
fn start<S: kv1::Service>(
    fabric: &Arc<Fabric>,
    service: S,
    cache: &ReplyCache,
    control: &ServerControl,
) -> RunningServer {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let config = ServerConfig::new().control(control);
    let cache = cache.clone();
    let server = serve(&fabric.device(), any, config, move || {
        Router::new()
            .reply_cache(cache)
            .add_service(kv1::serve(service))
    });
    server.unwrap()
}

#[test]
fn a_call_that_comes_again_while_it_is_executed_is_answered_where_it_came_again() {
    run(async {
        let (fabric, store) = (Fabric::new(), Arc::new(Store::default()));
        let (cache, control) = (ReplyCache::default(), ServerControl::default());
        let server = start(&fabric, store.clone(), &cache, &control);
        let (channel, runner) = channel(&fabric.device(), server.local_addr(), ClientConfig::new());
        tokio::spawn(runner);
        let options = CallOptions::DEFAULT.resend(Resend::Always);
        let kv = Client::new(channel).with_options(options);
        let waits = tokio::spawn({
            let kv = kv.clone();
            async move { kv.fail(&8).await }
        });
        until(|| store.waiting.load(Relaxed) == 1).await;
        fabric.inject(Faults {
            disconnect: u16::MAX,
            ..Faults::default()
        });
        let cuts = tokio::spawn(async move { kv.fail(&9).await });
        until(|| fabric.injected().disconnects > 0).await;
        fabric.inject(Faults::default());
        assert_eq!(cuts.await.unwrap().unwrap(), 9);
        until(|| cache.stats().in_progress == 1).await;
        store.go_on.notify_waiters();
        assert_eq!(waits.await.unwrap().unwrap(), 8);
        assert_eq!(store.fails.load(Relaxed), 2);
        assert!(control.stats().accepted >= 2);
    });
}

/// A reply cache that knew clients by their addresses alone would answer the second client what the
/// first one got, and execute nothing.
#[test]
fn two_clients_of_one_address_may_have_equal_xids() {
    run(async {
        let (fabric, store) = (Fabric::new(), Arc::new(Store::default()));
        let (cache, control) = (ReplyCache::default(), ServerControl::default());
        let server = start(&fabric, store.clone(), &cache, &control);
        let clients = [(); 2].map(|()| {
            let protocol = Config {
                xid_seed: 7,
                ..Config::client()
            };
            let config = ClientConfig::new().protocol(protocol);
            let (channel, runner) = channel(&fabric.device(), server.local_addr(), config);
            tokio::spawn(runner);
            Client::new(channel)
        });
        for how in 10..30 {
            for kv in &clients {
                assert_eq!(kv.fail(&how).await.unwrap(), how);
            }
        }
        assert_eq!(store.fails.load(Relaxed), 40);
        assert_eq!((cache.stats().executed, cache.stats().hits), (40, 0));
    });
}

#[test]
fn no_call_is_executed_twice_when_connections_are_cut_at_random() {
    let mut rng = Rng::from_environment();
    run_within(Duration::from_secs(180), async {
        let fabric = Fabric::new();
        let counting = Arc::new(Counting::new(rng.split()));
        let (cache, control) = (ReplyCache::default(), limited());
        let server = start(&fabric, counting.clone(), &cache, &control);
        fabric.inject(Faults {
            seed: rng.below(u64::MAX),
            disconnect: 400,
            ..Faults::default()
        });
        counting
            .execute(|| {
                let config = ClientConfig::new();
                let (channel, runner) = channel(&fabric.device(), server.local_addr(), config);
                tokio::spawn(runner);
                channel
            })
            .await;
        counting.check(&cache, &control).await;
    });
}

/// Limits within which each client always has calls that wait for room.
fn limited() -> ServerControl {
    ServerControl::new(ServerLimits::new().max_calls_per_connection(4))
}
