//! Handlers belong to the trace of their caller, if both are in one process; and what a server logs
//! of calls that fail.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io;
use std::sync::{Arc, Mutex};

use oncrpc::xdr::{Procedure, Text};
use oncrpc::{Call, CallOptions, Method, Router, loopback};
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

/// The text of a log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// KV_PUT with another argument: a key that is too long.
struct LongKey;

impl Procedure for LongKey {
    const PROGRAM: u32 = kv1::Put::PROGRAM;
    const VERSION: u32 = kv1::Put::VERSION;
    const NUMBER: u32 = kv1::Put::NUMBER;
    const NAME: &'static str = "KV_PUT";
    type Args<'a> = Text<'a>;
    type Reply<'a> = ();
}

impl Method for LongKey {
    type Results = ();
    fn to_results((): ()) {}
}

/// The reply cannot carry the field of arguments that are not decoded, nor the text of a panic.
#[test]
fn a_server_logs_why_calls_fail() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(async {
            let store = Arc::new(Store::default());
            let (channel, runner) = loopback(Router::new().add_service(kv1::serve(store)));
            tokio::spawn(runner);
            let options = CallOptions::DEFAULT;
            let long = "x".repeat(65);
            let key = Text::try_from(long.as_str()).unwrap();
            let call = Call::<_, LongKey>::new(&channel, &options, &key);
            call.await.unwrap_err();
            kv1::Client::new(channel).fail(&0).await.unwrap_err();
        });
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let has = |line: &str, parts: [&str; 3]| parts.iter().all(|part| line.contains(part));
    let refused = [
        "call refused",
        "KV_PUT",
        "the arguments can't be decoded: key: ",
    ];
    assert!(log.lines().any(|line| has(line, refused)), "{log}");
    let panicked = ["handler panicked", "KV_FAIL", "told to"];
    assert!(log.lines().any(|line| has(line, panicked)), "{log}");
}
