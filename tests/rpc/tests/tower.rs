//! Typed clients over layers of tower.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::{Store, assert_error, found, key, put, run, until};
use kv1::Client;
use oncrpc::tower::TowerTransport;
use oncrpc::{
    CallError, CallErrorKind, Channel, Execution, ReceivedMessage, Request, Router, loopback,
};
use rpcrdma_rpc_tests::kv::kv::kv1;
use tower::ServiceBuilder;
use tower::retry::Policy;

fn channel() -> (Channel, Arc<Store>) {
    let store = Arc::new(Store::default());
    let (channel, runner) = loopback(Router::new().add_service(kv1::serve(store.clone())));
    tokio::spawn(runner);
    (channel, store)
}

#[test]
fn calls_and_errors_pass_through_layers() {
    run(async {
        let (channel, _) = channel();
        let service = ServiceBuilder::new()
            .concurrency_limit(2)
            .timeout(Duration::from_secs(30))
            .service(channel);
        let kv = Client::new(TowerTransport::new("the store", service));
        kv.put(&put("a", vec![7; 5000])).await.unwrap();
        let value = found(kv.get(&key("a")).await.unwrap()).unwrap();
        assert_eq!(*value, [7; 5000]);
        let error = kv.fail(&2).await.unwrap_err();
        let text = "the server does not offer the procedure";
        assert_error(&error, text, Execution::NotExecuted);
        assert_eq!(error.peer(), "the store");
    });
}

#[test]
fn a_layer_timeout_leaves_the_execution_unknown() {
    run(async {
        let (channel, store) = channel();
        let service = ServiceBuilder::new()
            .timeout(Duration::from_millis(20))
            .service(channel);
        let kv = Client::new(TowerTransport::new("the store", service));
        let error = kv.fail(&3).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Middleware(_)));
        assert_error(&error, "request timed out", Execution::Unknown);
        assert_eq!(error.peer(), "the store");
        assert_eq!(store.fails.load(Relaxed), 1);
    });
}

/// The errors of a tower buffer have the channel's errors as their source.
#[test]
fn a_layer_error_contains_the_channels_error() {
    /// A service that is never ready.
    #[derive(Clone)]
    struct Closed(CallError);

    impl tower::Service<Request> for Closed {
        type Response = ReceivedMessage;
        type Error = CallError;
        type Future = std::future::Pending<Result<ReceivedMessage, CallError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
            Poll::Ready(Err(self.0.clone()))
        }

        fn call(&mut self, _: Request) -> Self::Future {
            std::future::pending()
        }
    }

    run(async {
        let (channel, _) = channel();
        channel.shutdown();
        let closed = Client::new(channel).fail(&7).await.unwrap_err();
        let service = ServiceBuilder::new().buffer(8).service(Closed(closed));
        let kv = Client::new(TowerTransport::new("the store", service));
        let error = kv.fail(&7).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Middleware(_)));
        assert_eq!(error.execution(), Execution::NotExecuted);
        assert!(
            error.to_string().contains("the channel was shut down"),
            "{error}"
        );
    });
}

#[test]
fn a_layer_repeats_unexecuted_calls() {
    #[derive(Clone)]
    struct RetryUnexecuted(u32);

    impl Policy<Request, ReceivedMessage, CallError> for RetryUnexecuted {
        type Future = std::future::Ready<()>;

        fn retry(
            &mut self,
            _: &mut Request,
            result: &mut Result<ReceivedMessage, CallError>,
        ) -> Option<Self::Future> {
            let error = result.as_ref().err()?;
            self.0 = self.0.checked_sub(1)?;
            (error.execution() == Execution::NotExecuted).then(|| std::future::ready(()))
        }

        fn clone_request(&mut self, request: &Request) -> Option<Request> {
            Some(request.clone())
        }
    }

    /// Fails every second time, before it passes a call on.
    #[derive(Clone)]
    struct FlakyService(Channel, Arc<AtomicU32>);

    impl tower::Service<Request> for FlakyService {
        type Response = ReceivedMessage;
        type Error = CallError;
        type Future = Pin<Box<dyn Future<Output = Result<ReceivedMessage, CallError>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request) -> Self::Future {
            if self.1.fetch_add(1, Relaxed).is_multiple_of(2) {
                let kind = CallErrorKind::Shutdown;
                let error = request.error("flaky".into(), kind, Execution::NotExecuted);
                return Box::pin(std::future::ready(Err(error)));
            }
            Box::pin(tower::Service::call(&mut self.0, request))
        }
    }

    run(async {
        let (channel, store) = channel();
        let flaky = FlakyService(channel, Arc::default());
        let service = ServiceBuilder::new()
            .retry(RetryUnexecuted(1))
            .service(flaky);
        let kv = Client::new(TowerTransport::new("the store", service));
        for number in 100..120 {
            assert_eq!(kv.fail(&number).await.unwrap(), number);
        }
        assert_eq!(store.fails.load(Relaxed), 20);
    });
}

#[test]
fn a_call_waits_in_a_layer_for_a_slot() {
    run(async {
        let (channel, store) = channel();
        let service = ServiceBuilder::new().concurrency_limit(1).service(channel);
        let kv = Client::new(TowerTransport::new("the store", service));
        let first = tokio::spawn({
            let kv = kv.clone();
            async move { kv.fail(&8).await }
        });
        until(|| store.waiting.load(Relaxed) == 1).await;
        let second = tokio::spawn(async move { kv.fail(&9).await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(store.fails.load(Relaxed), 1);
        store.go_on.notify_one();
        assert_eq!(first.await.unwrap().unwrap(), 8);
        assert_eq!(second.await.unwrap().unwrap(), 9);
    });
}
