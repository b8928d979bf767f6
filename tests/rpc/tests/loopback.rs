//! Typed clients and services in one process.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::{Store, assert_error, found, key, put, run};
use kv1::Client;
use oncrpc::xdr::{Item, SharedBytes};
use oncrpc::{
    AuthSys, CallErrorKind, CallOptions, Channel, Context, Execution, Progress, ReplyStatus,
    Router, RpcError, loopback,
};
use rpcrdma_rpc_tests::kv::kv::{kv1, kv3};

/// A client of a store in this process.
fn client() -> (Client<Channel>, Arc<Store>) {
    let store = Arc::new(Store::default());
    let (channel, runner) = loopback(Router::new().add_service(kv1::serve(store.clone())));
    tokio::spawn(runner);
    (Client::new(channel), store)
}

#[test]
fn the_results_of_the_service_are_returned() {
    run(async {
        let (kv, store) = client();
        kv.null().await.unwrap();
        assert_eq!(found(kv.get(&key("a")).await.unwrap()), None);
        let value = Item::from(&b"first"[..]);
        kv.put(&put("a", value.clone())).await.unwrap();
        assert_eq!(found(kv.get(&key("a")).await.unwrap()), Some(value));
        assert_eq!((store.gets.load(Relaxed), store.puts.load(Relaxed)), (2, 1));
    });
}

#[test]
fn a_shared_item_is_not_copied() {
    run(async {
        let (kv, _) = client();
        let data = SharedBytes::from(vec![7; 100_000]);
        let before = data.as_ptr();
        kv.put(&put("a", data)).await.unwrap();
        let value = found(kv.get(&key("a")).await.unwrap()).unwrap();
        assert_eq!((value.len(), value.as_ptr()), (100_000, before));
    });
}

#[test]
fn a_client_is_shared_by_tasks_on_several_threads() {
    run(async {
        let (kv, _) = client();
        let tasks: Vec<_> = (0..64u32)
            .map(|task| {
                let kv = kv.clone();
                tokio::spawn(async move {
                    for how in 100..200 {
                        assert_eq!(kv.fail(&(how + task)).await.unwrap(), how + task);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn each_failure_has_its_error() {
    run(async {
        let (kv, _) = client();
        let error = kv.fail(&0).await.unwrap_err();
        assert_eq!(error.peer().to_string(), "loopback");
        assert_error(&error, "the server failed", Execution::Unknown);
        let error = kv.fail(&1).await.unwrap_err();
        assert_error(&error, "the server failed", Execution::Unknown);
        let error = kv.fail(&2).await.unwrap_err();
        assert_error(
            &error,
            "the server does not offer the procedure",
            Execution::NotExecuted,
        );
        let error = kv.fail(&5).await.unwrap_err();
        let text = "the server refuses the credentials: AUTH_TOOWEAK";
        assert_error(&error, text, Execution::NotExecuted);
        let error = kv
            .fail(&3)
            .timeout(Duration::from_millis(300))
            .await
            .unwrap_err();
        assert_error(
            &error,
            "not done within 300ms: no reply",
            Execution::Unknown,
        );
        let long = put("a", vec![0u8; (1 << 20) + 1]);
        let error = kv.put(&long).await.unwrap_err();
        let text = "the arguments can't be encoded: length exceeds its bound at byte 8";
        assert_error(&error, text, Execution::NotExecuted);
        // The text has the cause.
        assert!(error.source().is_none());
        // Other calls continue after a panic.
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
    });
}

#[test]
fn a_call_carries_its_credentials() {
    run(async {
        let (kv, _) = client();
        let user = |uid| AuthSys {
            uid,
            gids: vec![1, 2],
            ..AuthSys::new("here")
        };
        assert_eq!(kv.fail(&5).credentials(user(7)).await.unwrap(), 7);
        let kv = kv.with_options(CallOptions::DEFAULT.credentials(user(8)));
        assert_eq!(kv.fail(&5).await.unwrap(), 8);
    });
}

#[test]
fn calls_fail_when_their_runner_ends() {
    run(async {
        let store = Arc::new(Store::default());
        let router = Router::new().add_service(kv1::serve(store.clone()));
        let (channel, runner) = loopback(router);
        let kv = Client::new(channel);
        let runner = tokio::spawn(runner);
        let waits = tokio::spawn({
            let kv = kv.clone();
            async move { kv.fail(&3).await.unwrap_err() }
        });
        while store.fails.load(Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        runner.abort();
        let error = waits.await.unwrap();
        assert_error(&error, "the channel's runner has ended", Execution::Unknown);
        let error = kv.fail(&9).await.unwrap_err();
        assert_error(
            &error,
            "the channel's runner has ended",
            Execution::NotExecuted,
        );
    });
}

#[test]
fn a_channel_drains_and_shuts_down() {
    run(async {
        let (kv, _) = client();
        let slow = kv.fail(&4).into_future();
        kv.transport().drain();
        let error = kv.fail(&9).await.unwrap_err();
        assert_error(&error, "the channel was shut down", Execution::NotExecuted);
        assert_eq!(slow.await.unwrap(), 4);
        let (kv, _) = client();
        let slow = kv.fail(&4).into_future();
        kv.transport().shutdown();
        let error = slow.await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Shutdown));
    });
}

#[test]
fn cancelled_calls_free_their_slots() {
    run(async {
        let (kv, _) = client();
        for _ in 0..1000 {
            // There are more calls than slots, and none of them is ever answered.
            let never = kv.fail(&3).into_future();
            let _ = tokio::time::timeout(Duration::from_micros(1), never).await;
        }
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
    });
}

#[test]
fn a_call_without_a_slot_fails_at_its_deadline() {
    run(async {
        let (kv, _) = client();
        let blocked: Vec<_> = (0..128).map(|_| kv.fail(&3).into_future()).collect();
        let error = kv
            .fail(&9)
            .timeout(Duration::from_millis(20))
            .await
            .unwrap_err();
        assert!(matches!(
            error.kind(),
            CallErrorKind::DeadlineExceeded {
                progress: Progress::Queued,
                ..
            }
        ));
        assert_eq!(error.execution(), Execution::NotExecuted);
        drop(blocked);
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
    });
}

#[test]
fn unknown_programs_and_versions_are_rejected() {
    struct Version7;
    impl oncrpc::xdr::Procedure for Version7 {
        const PROGRAM: u32 = rpcrdma_rpc_tests::kv::kv::PROGRAM;
        const VERSION: u32 = 7;
        const NUMBER: u32 = 1;
        const NAME: &'static str = "GET";
        type Args<'a> = ();
        type Reply<'a> = ();
    }
    impl oncrpc::Method for Version7 {
        type Results = ();
        fn to_results((): ()) {}
    }
    struct Version2;
    impl oncrpc::xdr::Procedure for Version2 {
        const PROGRAM: u32 = rpcrdma_rpc_tests::kv::kv::PROGRAM;
        const VERSION: u32 = 2;
        const NUMBER: u32 = 1;
        const NAME: &'static str = "GET";
        type Args<'a> = ();
        type Reply<'a> = ();
    }
    impl oncrpc::Method for Version2 {
        type Results = ();
        fn to_results((): ()) {}
    }
    struct Three;
    impl kv3::Service for Three {
        async fn count(&self, _: &Context) -> Result<u32, RpcError> {
            Ok(3)
        }
    }
    struct Other;
    impl oncrpc::xdr::Procedure for Other {
        const PROGRAM: u32 = 1;
        const VERSION: u32 = 1;
        const NUMBER: u32 = 0;
        const NAME: &'static str = "NULL";
        type Args<'a> = ();
        type Reply<'a> = ();
    }
    impl oncrpc::Method for Other {
        type Results = ();
        fn to_results((): ()) {}
    }
    run(async {
        let (kv, _) = client();
        let options = CallOptions::DEFAULT;
        let call = oncrpc::Call::<_, Version7>::new(kv.transport(), &options, &());
        let error = call.await.unwrap_err();
        let mismatch = ReplyStatus::ProgramMismatch { low: 1, high: 1 };
        assert!(matches!(error.kind(), CallErrorKind::Status(status) if *status == mismatch));
        let call = oncrpc::Call::<_, Other>::new(kv.transport(), &options, &());
        let error = call.await.unwrap_err();
        let unavailable = ReplyStatus::ProgramUnavailable;
        assert!(matches!(error.kind(), CallErrorKind::Status(status) if *status == unavailable));
        // The range of several versions, within which one is missing.
        let router = Router::new().add_service(kv1::serve(Arc::new(Store::default())));
        let (both, runner) = loopback(router.add_service(kv3::serve(Three)));
        tokio::spawn(runner);
        assert_eq!(kv3::Client::new(both.clone()).count().await.unwrap(), 3);
        assert_eq!(Client::new(both.clone()).fail(&9).await.unwrap(), 9);
        let call = oncrpc::Call::<_, Version2>::new(&both, &options, &());
        let error = call.await.unwrap_err();
        let mismatch = ReplyStatus::ProgramMismatch { low: 1, high: 3 };
        assert!(matches!(error.kind(), CallErrorKind::Status(status) if *status == mismatch));
    });
}
