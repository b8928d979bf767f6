//! Futures of calls, on tokio.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::Future;
use std::ops::RangeInclusive;
use std::time::Duration;

use rpcrdma_proto::connection::{Config, Failure};
use rpcrdma_verbs::client::{Call, ClientError};
use rpcrdma_verbs::driver::{Driver, Id, Writer};
use rpcrdma_verbs::handlers::AsyncServer;
use rpcrdma_verbs::handlers::AsyncService;
use rpcrdma_verbs::local::{Client, Local};
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::rpc::{self, Credentials, Denial};
use tokio::task::{LocalSet, spawn_local};

/// Echoes at once (procedure 1), or after a while (2).
struct Echo;

impl AsyncService for Echo {
    fn program(&self) -> u32 {
        7
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    async fn call(&self, _: Id, call: &rpc::Call<'_>, results: &mut Writer<'_>) -> Result<(), Denial> {
        match call.procedure.number {
            1 => {}
            2 => tokio::time::sleep(Duration::from_millis(20)).await,
            _ => return Err(Denial::ProcedureUnavailable),
        }
        results.octets(call.arguments);
        Ok(())
    }
}

/// Runs a test with a client whose server is on the same thread.
fn with_client<F: Future<Output = ()>>(test: impl FnOnce(Client<SoftwareDevice>, Budget) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fabric = Fabric::new();
    let budget = Budget::new(1 << 26);
    LocalSet::new().block_on(&runtime, async {
        let far = Local::new(Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096).unwrap());
        let any = "127.0.0.1:0".parse().unwrap();
        let server = far.with_driver(|driver| AsyncServer::bind(driver, any, Config::server(), Echo, 8)).unwrap();
        let address = server.address();
        far.serve(server);
        spawn_local(rpcrdma_verbs::tokio::run(far));
        let near = Local::new(Driver::new(&fabric.device(), &budget, 4096).unwrap());
        spawn_local(rpcrdma_verbs::tokio::run(near.clone()));
        let client = near.connect(address, Config::client(), Credentials::none()).unwrap();
        tokio::time::timeout(Duration::from_secs(20), test(client, budget.clone())).await.unwrap();
    });
}

#[test]
fn calls_are_awaited() {
    with_client(|client, _| async move {
        let calls = (0u32..50).map(|number| client.call(Call::to(7, 1, 1), |writer| writer.put(&number).map(|_| ())));
        let calls: Vec<_> = calls.collect();
        for (number, call) in (0u32..).zip(calls) {
            let (answer, _) = call.await.unwrap();
            assert_eq!(answer.results(), number.to_be_bytes());
        }
    });
}

#[test]
fn a_deadline_is_kept_and_what_is_dropped_is_cancelled() {
    with_client(|client, _| async move {
        client.call(Call::to(7, 1, 1), |_| Ok(())).await.unwrap();
        drop(client.call(Call::to(7, 1, 1), |_| Ok(())));
        let call = Call { timeout: Some(Duration::from_millis(5)), ..Call::to(7, 1, 2) };
        let late = client.call(call, |_| Ok(())).await.unwrap_err();
        assert!(matches!(late.why, ClientError::Transport(Failure::TimedOut)), "{}", late.why);
        client.call(Call::to(7, 1, 1), |_| Ok(())).await.unwrap();
        // Both calls have given back their places by now, or do so with their replies.
        while client.session(|session| session.open()).unwrap() != (0, 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn handlers_take_their_time_beside_each_other() {
    with_client(|client, _| async move {
        client.call(Call::to(7, 1, 1), |_| Ok(())).await.unwrap();
        let began = std::time::Instant::now();
        // Twice as many as there are handlers: two rounds of 20 ms, and not sixteen.
        let slow: Vec<_> =
            (0u32..16).map(|number| client.call(Call::to(7, 1, 2), |writer| writer.put(&number).map(|_| ()))).collect();
        let quick = client.call(Call::to(7, 1, 9), |_| Ok(())).await.unwrap_err();
        assert!(matches!(quick.why, ClientError::Reply(_)), "{}", quick.why);
        for (number, call) in (0u32..).zip(slow) {
            assert_eq!(call.await.unwrap().0.results(), number.to_be_bytes());
        }
        assert!(began.elapsed() >= Duration::from_millis(40), "more handlers than there are");
    });
}
