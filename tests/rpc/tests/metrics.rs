//! The metrics of a deterministic run.
//!
//! A process has one recorder, and metrics keep the handles that it gave them: so there is one
//! test.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write as _;
use std::sync::Arc;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use oncrpc::{
    CallOptions, Channel, ConnectRequest, ReplyCache, ReplyCacheConfig, Router, ServerControl,
    ServerLimits, loopback, tcp,
};
use rpcrdma_rpc_tests::kv::kv::kv1;
use support::{Store, key, put};

/// Returns a line for each metric, in order. The values of histograms differ from run to run.
fn lines(snapshotter: &Snapshotter) -> String {
    let all = snapshotter.snapshot().into_vec().into_iter();
    let mut lines: Vec<_> = all
        .map(|(key, _, _, value)| {
            let mut line = key.key().name().to_owned();
            for label in key.key().labels() {
                write!(line, " {}={}", label.key(), label.value()).unwrap();
            }
            match value {
                DebugValue::Counter(value) => write!(line, ": {value}").unwrap(),
                DebugValue::Gauge(value) => write!(line, ": {value}").unwrap(),
                DebugValue::Histogram(values) => write!(line, ": {} values", values.len()).unwrap(),
            }
            line
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

/// Makes calls of each kind: successful ones, failed ones, and one of an unknown program.
async fn calls(client: &kv1::Client<Channel>) {
    client.null().await.unwrap();
    client.put(&put("a", vec![7; 1000])).await.unwrap();
    for _ in 0..20 {
        client.get(&key("a")).await.unwrap();
    }
    client.fail(&1).await.unwrap_err();
    client.null().program(100_003, 3).await.unwrap_err();
}

/// Fails to reach a server.
async fn fail_to_connect() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let (channel, runner) = tcp::channel(&address, tcp::ClientConfig::new());
    tokio::spawn(runner);
    let options = CallOptions::DEFAULT.wait_for_connection(false);
    let client = kv1::Client::new(channel).with_options(options);
    client.get(&key("a")).await.unwrap_err();
}

#[test]
fn calls_limits_and_replies_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let store = Arc::new(Store::default());
        let (channel, runner) = loopback(Router::new().add_service(kv1::serve(store.clone())));
        tokio::spawn(runner);
        calls(&kv1::Client::new(channel)).await;
        fail_to_connect().await;

        let control = ServerControl::new(ServerLimits::new().max_connections(1));
        let cache = ReplyCache::new(ReplyCacheConfig::new());
        let router = Router::new().add_service(kv1::serve(store));
        let router = router.reply_cache(cache.clone());
        let address = support::tcp::serve_router(router, &control).await;
        let address = address.to_string();
        let client = kv1::Client::new(tcp::connect(&address).await.unwrap());
        client.put(&put("b", vec![1; 10])).await.unwrap();
        // There is no room for a second connection.
        let second = ConnectRequest::new(([127, 0, 0, 1], 7).into(), "tcp", &[]);
        control.admit(&second).unwrap_err();
        control.publish_metrics("kv");
        cache.publish_metrics("kv");
    });
    insta::assert_snapshot!(lines(&snapshotter));
}
