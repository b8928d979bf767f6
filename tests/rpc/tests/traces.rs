//! Handlers belong to the trace of their caller, if both are in one process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex};

use oncrpc::{Router, loopback};
use rpcrdma_rpc_tests::kv::kv::kv1;
use support::{Store, key};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Instrument as _, Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// Records the path and the status of each ended span.
#[derive(Clone, Default)]
struct SpanRecorder(Arc<Mutex<Vec<String>>>);

/// The fields of a span with the called procedure and the outcome.
#[derive(Default)]
struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if matches!(field.name(), "peer" | "name" | "status") {
            self.0.push(format!("{}={value:?}", field.name()));
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanRecorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        cx.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        let span = cx.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let span = cx.span(&id).unwrap();
        let path: Vec<_> = span.scope().from_root().map(|span| span.name()).collect();
        let fields = span.extensions().get::<Fields>().unwrap().0.join(" ");
        self.0
            .lock()
            .unwrap()
            .push(format!("{} {fields}", path.join("/")));
    }
}

#[test]
fn a_handler_joins_the_trace_of_its_caller() {
    let ended = SpanRecorder::default();
    let subscriber = tracing_subscriber::registry().with(ended.clone());
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(async {
            let (channel, runner) =
                loopback(Router::new().add_service(kv1::serve(Arc::new(Store::default()))));
            tokio::spawn(runner);
            let client = kv1::Client::new(channel);
            let call = async { client.get(&key("a")).await.map(drop) };
            call.instrument(info_span!("program")).await.unwrap();
        });
    });
    let ended = ended.0.lock().unwrap().clone();
    let of = |path: &str| ended.iter().find(|line| line.starts_with(path)).unwrap();
    assert_eq!(
        of("program/rpc/serve "),
        "program/rpc/serve peer=memory name=\"KV_GET\" status=success"
    );
    assert_eq!(
        of("program/rpc "),
        "program/rpc name=\"KV_GET\" peer=\"loopback\" status=success"
    );
    assert!(of("program ").starts_with("program "));
}
