//! The calls of the tutorial: deadlines, repetition, and a test in one process.

use std::error::Error;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::{Store, run};
use kv1::Client;
use oncrpc::{CallError, CallErrorKind, Channel, Execution, Router, loopback, tcp};
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_rpc_tests::kv::{PutArgs, owned};

/// Stores a value, in several attempts if need be.
async fn put(kv: &Client<Channel>, args: &PutArgs<'_>) -> Result<(), CallError> {
    let mut pause = Duration::from_millis(100);
    for _ in 1..5 {
        match kv.put(args).timeout(Duration::from_millis(500)).await {
            Err(error) if error.is_retryable() => tokio::time::sleep(pause).await,
            done => return done,
        }
        pause *= 2;
    }
    kv.put(args).await
}

#[tokio::test]
async fn a_value_is_found_under_its_key() -> Result<(), Box<dyn Error>> {
    let store = Arc::new(Store::default());
    let (channel, runner) = loopback(Router::new().add_service(kv1::serve(store)));
    tokio::spawn(runner);
    let kv = Client::new(channel);
    let (key, value) = ("a".try_into()?, vec![7; 100].into());
    kv.put(&PutArgs { key, value }).await?;
    let got = kv.get(&"a".try_into()?).await?;
    assert!(matches!(got, owned::GetRes::True(ok) if *ok.value == [7; 100]));
    Ok(())
}

fn args(len: usize) -> PutArgs<'static> {
    PutArgs {
        key: "a".try_into().unwrap(),
        value: vec![7; len].into(),
    }
}

#[test]
fn a_call_is_repeated_until_the_server_listens() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let (channel, runner) = tcp::channel(&address, tcp::ClientConfig::new());
        tokio::spawn(runner);
        let stored = tokio::spawn(async move { put(&Client::new(channel), &args(100)).await });
        // The first attempt fails before the server listens.
        tokio::time::sleep(Duration::from_millis(550)).await;
        let store = Arc::new(Store::default());
        let router = Router::new().add_service(kv1::serve(store.clone()));
        let server = tcp::Server::bind(&address, router).await.unwrap();
        tokio::spawn(server.run());
        stored.await.unwrap().unwrap();
        assert_eq!(store.puts.load(Relaxed), 1);
    });
}

/// The call was not executed, but another attempt would fail, too.
#[test]
fn a_call_that_cannot_be_encoded_is_not_repeated() {
    run(async {
        let (channel, _runner) = loopback(Router::new());
        let error = put(&Client::new(channel), &args(1 << 21))
            .await
            .unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Encode(_)), "{error}");
        assert_eq!(error.execution(), Execution::NotExecuted);
    });
}
