//! The OpenTelemetry spans of a call: one trace through client, server and handler.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::HashSet;
use std::future::Future;

use oncrpc::xdr::Text;
use oncrpc::{Channel, Context, Router, RpcError, ServerControl, loopback, tcp};
use opentelemetry::trace::{SpanId, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use rpcrdma_rpc_tests::kv::kv::kv1::{self, GetResults};
use rpcrdma_rpc_tests::kv::{GetRes, PutArgs};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, ServerConfig};
use support::key;
use tokio::task::{LocalSet, spawn_local};
use tracing::{Instrument as _, info_span};
use tracing_subscriber::layer::SubscriberExt as _;

/// A service whose handlers create spans, and wait in them.
#[derive(Clone)]
struct Traced;

impl kv1::Service for Traced {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        let work = tokio::task::yield_now();
        work.instrument(info_span!("look_up")).await;
        Ok(GetRes::False.into())
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(())
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        Ok(how)
    }
}

/// Makes a call within a span, and returns all spans in the order of their names.
fn spans<F: Future<Output = Channel>>(connect: impl FnOnce() -> F) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let filter = tracing_subscriber::filter::Targets::new()
        .with_target("oncrpc", tracing::Level::DEBUG)
        .with_target("opentelemetry", tracing::Level::DEBUG);
    let subscriber = tracing_subscriber::registry().with(layer).with(filter);
    let subscriber: tracing::Dispatch = subscriber.into();
    tracing::dispatcher::with_default(&subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        LocalSet::new().block_on(&runtime.unwrap(), async {
            let client = kv1::Client::new(connect().await);
            let call = async { client.get(&key("a")).await.map(drop) };
            call.instrument(info_span!("program")).await.unwrap();
        });
    });
    let mut spans = exporter.get_finished_spans().unwrap();
    // This removes the spans from the exporter.
    provider.shutdown().unwrap();
    spans.sort_by(|one, other| one.name.cmp(&other.name));
    spans
}

/// Returns the name of each span, and that of its parent.
fn tree(spans: &[SpanData]) -> Vec<(&str, Option<&str>)> {
    let name = |id: SpanId| {
        let found = spans.iter().find(|span| span.span_context.span_id() == id);
        found.map(|span| &*span.name)
    };
    let spans = spans.iter();
    spans
        .map(|span| (&*span.name, name(span.parent_span_id)))
        .collect()
}

fn traces(spans: &[SpanData]) -> usize {
    let traces = spans.iter().map(|span| span.span_context.trace_id());
    traces.collect::<HashSet<_>>().len()
}

/// Returns the value of an attribute of a span.
fn attribute(spans: &[SpanData], span: &str, name: &str) -> String {
    let span = spans.iter().find(|found| found.name == span).unwrap();
    let mut attributes = span.attributes.iter();
    let found = attributes.find(|attribute| attribute.key.as_str() == name);
    found
        .unwrap_or_else(|| panic!("{name}: {span:?}"))
        .value
        .to_string()
}

#[test]
fn a_call_within_a_process_is_one_trace() {
    let spans = spans(|| async {
        let (channel, runner) = loopback(Router::new().add_service(kv1::serve(Traced)));
        spawn_local(runner);
        channel
    });
    assert_eq!(
        tree(&spans),
        [
            ("look_up", Some("serve")),
            ("program", None),
            ("rpc", Some("program")),
            ("serve", Some("rpc")),
        ]
    );
    assert_eq!(traces(&spans), 1);
}

/// Checks the spans of a call over a transport: ONC RPC transfers no trace context, so there are
/// two traces, and the XID shows which spans belong together.
fn assert_two_traces(spans: &[SpanData]) {
    assert_eq!(
        tree(spans),
        [
            ("look_up", Some("serve")),
            ("program", None),
            ("rpc", Some("program")),
            ("serve", None),
        ]
    );
    assert_eq!(traces(spans), 2);
    for name in ["xid", "program", "version", "procedure", "name", "status"] {
        let (near, far) = (
            attribute(spans, "rpc", name),
            attribute(spans, "serve", name),
        );
        assert_eq!(near, far, "{name}");
    }
}

#[test]
fn the_ends_of_a_call_over_tcp_have_one_xid() {
    let spans = spans(|| async {
        let router = Router::new().add_service(kv1::serve(Traced));
        let server = support::tcp::serve_router(router, &ServerControl::default()).await;
        tcp::connect(&server.to_string()).await.unwrap()
    });
    assert_two_traces(&spans);
}

#[test]
fn the_ends_of_a_call_over_rdma_have_one_xid() {
    let spans = spans(|| async {
        let fabric = Fabric::new();
        let device = fabric.device();
        let router = Router::new().add_service(kv1::serve(Traced));
        let (bound, address) = tokio::sync::oneshot::channel();
        let served = fabric.device();
        spawn_local(async move {
            let any = "127.0.0.1:0".parse().unwrap();
            let bound = |address| bound.send(address).unwrap();
            let config = ServerConfig::new();
            let until = std::future::pending();
            rpcrdma_verbs::run_server(&served, any, config, router, bound, until).await
        });
        let address = address.await.unwrap();
        let (channel, runner) = rpcrdma_verbs::channel(&device, address, ClientConfig::new());
        spawn_local(runner);
        channel
    });
    assert_two_traces(&spans);
}
