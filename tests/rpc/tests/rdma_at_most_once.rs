//! Calls that must not be executed twice, over RDMA.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::counting::Counting;
use crate::support::random::Rng;
use crate::support::rdma::{self, Running};
use crate::support::{ALWAYS, Store, run, run_within, until};
use kv1::Client;
use oncrpc::{
    CallErrorKind, CallOptions, Channel, Execution, ReplyCache, Resend, Router, ServerControl,
    ServerLimits,
};
use rpcrdma_proto::connection::Config;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::provider::software::{Fabric, Faults};
use rpcrdma_verbs::{ClientConfig, RunningServers, ServerBuilder, ServerConfig, channel};

/// Serves a service with a reply cache on this number of threads.
async fn start<S: kv1::Service + Clone>(
    fabric: &Arc<Fabric>,
    threads: usize,
    service: S,
    (cache, control): (&ReplyCache, &ServerControl),
) -> RunningServers {
    let router = move || Router::new().add_service(kv1::serve(service.clone()));
    let server = ServerBuilder::new(router)
        .control(control)
        .reply_cache(cache.clone())
        .threads(NonZeroUsize::new(threads).unwrap())
        .rdma(&fabric.device(), "127.0.0.1:0".parse().unwrap());
    server.start().await.unwrap()
}

/// Returns a channel to the server, whose runner is a task.
fn connect(fabric: &Arc<Fabric>, server: &RunningServers, config: ClientConfig) -> Channel {
    let (channel, runner) = channel(&fabric.device(), server.local_addrs()[0], config);
    tokio::spawn(runner);
    channel
}

#[test]
fn a_retransmission_during_execution_gets_the_reply() {
    assert_retransmission_is_answered(1);
}

/// The next connection is served by the other thread.
#[test]
fn a_retransmission_to_another_thread_gets_the_reply() {
    assert_retransmission_is_answered(2);
}

fn assert_retransmission_is_answered(threads: usize) {
    run(async {
        let (fabric, store) = (Fabric::new(), Arc::new(Store::default()));
        let (cache, control) = (ReplyCache::default(), ServerControl::default());
        let server = start(&fabric, threads, store.clone(), (&cache, &control)).await;
        let channel = connect(&fabric, &server, ClientConfig::new());
        let options = CallOptions::DEFAULT.resend(ALWAYS);
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

/// When the server may have forgotten the reply, a call is not sent again. Idempotent calls are.
#[test]
fn a_call_is_not_retransmitted_after_the_lifetime_of_the_cache() {
    const LIFETIME: Duration = Duration::from_millis(200);
    run(async {
        let (fabric, store) = (Fabric::new(), Arc::new(Store::default()));
        let (cache, control) = (ReplyCache::default(), ServerControl::default());
        let server = start(&fabric, 1, store.clone(), (&cache, &control)).await;
        let options = CallOptions::DEFAULT.resend(Resend::Always {
            cache_lifetime: LIFETIME,
        });
        let kv = Client::new(connect(&fabric, &server, ClientConfig::new())).with_options(options);
        let late = tokio::spawn({
            let kv = kv.clone();
            async move { kv.fail(&8).await }
        });
        until(|| store.waiting.load(Relaxed) == 1).await;
        tokio::time::sleep(2 * LIFETIME).await;
        assert!(!late.is_finished(), "it waits while its connection lives");
        fabric.inject(Faults {
            disconnect: u16::MAX,
            ..Faults::default()
        });
        let null = tokio::spawn({
            let kv = kv.clone();
            async move { kv.null().await }
        });
        let error = late.await.unwrap().unwrap_err();
        assert!(
            matches!(error.kind(), CallErrorKind::ReplyCacheExpired(_)),
            "{error}"
        );
        assert_eq!(error.execution(), Execution::Unknown);
        tokio::time::sleep(2 * LIFETIME).await;
        fabric.inject(Faults::default());
        null.await.unwrap().unwrap();
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        assert_eq!(
            (store.fails.load(Relaxed), cache.stats().in_progress),
            (2, 0)
        );
        store.go_on.notify_waiters();
    });
}

/// Calls that do not wait for a connection fail at the first failed attempt to connect. One that
/// waited for a credit when the connection was lost was not executed.
#[test]
fn a_call_that_the_lost_connection_did_not_carry_is_not_executed() {
    run(async {
        let protocol = Config {
            max_served: 1,
            ..Config::server()
        };
        let running = rdma::start(ServerConfig::new().protocol(protocol));
        let options = CallOptions::DEFAULT
            .resend(ALWAYS)
            .wait_for_connection(false);
        let kv = running.client(ClientConfig::new()).with_options(options);
        // The credits are known.
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        let call = |how: u32| {
            let kv = kv.clone();
            tokio::spawn(async move { kv.fail(&how).await.unwrap_err() })
        };
        let sent = call(8);
        until(|| running.store.waiting.load(Relaxed) == 1).await;
        let unsent = call(9);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let Running { server, store, .. } = running;
        let ended = tokio::task::spawn_blocking(move || server.shutdown());
        for (call, execution) in [(sent, Execution::Unknown), (unsent, Execution::NotExecuted)] {
            let error = call.await.unwrap();
            assert!(matches!(error.kind(), CallErrorKind::Connect(_)), "{error}");
            assert_eq!(error.execution(), execution);
        }
        assert_eq!(store.fails.load(Relaxed), 2);
        store.go_on.notify_waiters();
        ended.await.unwrap().unwrap();
    });
}

/// A reply cache that identified clients only by their addresses would send the first client's
/// reply to the second one, and execute nothing.
#[test]
fn two_clients_of_one_address_may_have_equal_xids() {
    run(async {
        let (fabric, store) = (Fabric::new(), Arc::new(Store::default()));
        let (cache, control) = (ReplyCache::default(), ServerControl::default());
        let server = start(&fabric, 1, store.clone(), (&cache, &control)).await;
        let clients = [(); 2].map(|()| {
            let protocol = Config {
                xid_seed: 7,
                ..Config::client()
            };
            let config = ClientConfig::new().protocol(protocol);
            Client::new(connect(&fabric, &server, config))
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
    is_executed_once(1);
}

#[test]
fn no_call_is_executed_twice_by_several_threads() {
    is_executed_once(3);
}

fn is_executed_once(threads: usize) {
    let mut rng = Rng::from_environment();
    run_within(Duration::from_secs(180), async {
        let fabric = Fabric::new();
        let counting = Arc::new(Counting::new(rng.split()));
        let (cache, control) = (ReplyCache::default(), limited());
        let server = start(&fabric, threads, counting.clone(), (&cache, &control)).await;
        fabric.inject(Faults {
            seed: rng.below(u64::MAX),
            disconnect: 400,
            ..Faults::default()
        });
        counting
            .execute(|| connect(&fabric, &server, ClientConfig::new()))
            .await;
        counting.check(&cache, &control).await;
    });
}

/// Returns limits with which each client always has calls that wait for room.
fn limited() -> ServerControl {
    ServerControl::new(ServerLimits::new().max_calls_per_connection(4))
}
