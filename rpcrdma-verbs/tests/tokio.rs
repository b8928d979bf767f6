//! Futures of calls on tokio.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::Future;
use std::ops::RangeInclusive;
use std::time::Duration;

use rpcrdma_proto::connection::{CallFailure, Config};
use rpcrdma_verbs::client::{self, Call, ClientError, ClientEvent};
use rpcrdma_verbs::driver::{ConnectionId, Driver, Writer};
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

    async fn call(
        &self,
        _: ConnectionId,
        call: &rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        match call.procedure.number {
            1 => {}
            2 => tokio::time::sleep(Duration::from_millis(20)).await,
            _ => return Err(Denial::ProcedureUnavailable),
        }
        results.bytes(call.arguments);
        Ok(())
    }
}

/// Runs a test with a client whose server is on the same thread.
fn with_client<F: Future<Output = ()>>(test: impl FnOnce(Client<SoftwareDevice>, Budget) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let fabric = Fabric::new();
    let budget = Budget::new(1 << 26);
    LocalSet::new().block_on(&runtime, async {
        let far = Local::new(Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096).unwrap());
        let any = "127.0.0.1:0".parse().unwrap();
        let server = far
            .with_driver(|driver| AsyncServer::bind(driver, any, Config::server(), Echo, 8))
            .unwrap();
        let address = server.address();
        far.serve(server);
        spawn_local(rpcrdma_verbs::tokio::run(far));
        let near = Local::new(Driver::new(&fabric.device(), &budget, 4096).unwrap());
        spawn_local(rpcrdma_verbs::tokio::run(near.clone()));
        let client = near
            .connect(address, Config::client(), Credentials::none())
            .unwrap();
        tokio::time::timeout(Duration::from_secs(20), test(client, budget.clone()))
            .await
            .unwrap();
    });
}

#[test]
fn calls_are_awaited() {
    with_client(|client, _| async move {
        let calls = (0u32..50)
            .map(|number| client.call(Call::to(7, 1, 1), |writer| writer.put(&number).map(|_| ())));
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
        let call = Call {
            timeout: Some(Duration::from_millis(5)),
            ..Call::to(7, 1, 2)
        };
        let late = client.call(call, |_| Ok(())).await.unwrap_err();
        assert!(
            matches!(late.error, ClientError::Transport(CallFailure::TimedOut)),
            "{}",
            late.error
        );
        client.call(Call::to(7, 1, 1), |_| Ok(())).await.unwrap();
        // Both calls have returned their slots by now, or return them with their replies.
        while client.session(|session| session.outstanding()).unwrap() != (0, 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn handlers_take_their_time_beside_each_other() {
    with_client(|client, _| async move {
        client.call(Call::to(7, 1, 1), |_| Ok(())).await.unwrap();
        let began = std::time::Instant::now();
        // There are twice as many calls as handlers: two rounds of 20 ms, not sixteen.
        let slow: Vec<_> = (0u32..16)
            .map(|number| client.call(Call::to(7, 1, 2), |writer| writer.put(&number).map(|_| ())))
            .collect();
        let quick = client
            .call(Call::to(7, 1, 9), |_| Ok(()))
            .await
            .unwrap_err();
        assert!(
            matches!(quick.error, ClientError::Reply(_)),
            "{}",
            quick.error
        );
        for (number, call) in (0u32..).zip(slow) {
            assert_eq!(call.await.unwrap().0.results(), number.to_be_bytes());
        }
        assert!(
            began.elapsed() >= Duration::from_millis(40),
            "more handlers than there are"
        );
    });
}

/// Creates a driver with its own budget, which this thread turns.
fn local(fabric: &std::sync::Arc<Fabric>, budget: &Budget) -> Local<SoftwareDevice> {
    let local = Local::new(Driver::new(&fabric.device(), budget, 4096).unwrap());
    spawn_local(rpcrdma_verbs::tokio::run(local.clone()));
    local
}

/// Runs a test that creates its own ends.
fn with_fabric<F: Future<Output = ()>>(test: impl FnOnce(std::sync::Arc<Fabric>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(20), test(Fabric::new()))
            .await
            .unwrap();
    });
}

fn any() -> std::net::SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Calls another server for each reply.
struct Proxy(Client<SoftwareDevice>);

impl AsyncService for Proxy {
    fn program(&self) -> u32 {
        7
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    async fn call(
        &self,
        _: ConnectionId,
        call: &rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        let asked = Call {
            largest_results: 64,
            ..Call::to(7, 1, call.procedure.number)
        };
        let reply = self.0.call(asked, |writer| {
            writer.bytes(call.arguments);
            Ok(())
        });
        let (answer, _) = reply.await.map_err(|_| Denial::System)?;
        results.bytes(answer.results());
        Ok(())
    }
}

#[test]
fn handlers_make_calls_by_the_driver_that_serves() {
    with_fabric(|fabric| async move {
        let budgets = [0; 3].map(|_| Budget::new(1 << 26));
        let [near, middle, far] = budgets.each_ref().map(|budget| local(&fabric, budget));
        let backend = far
            .with_driver(|driver| AsyncServer::bind(driver, any(), Config::server(), Echo, 2))
            .unwrap();
        let client = middle
            .connect(backend.address(), Config::client(), Credentials::none())
            .unwrap();
        far.serve(backend);
        let proxy = middle.with_driver(|driver| {
            AsyncServer::bind(driver, any(), Config::server(), Proxy(client), 4)
        });
        let proxy = proxy.unwrap();
        let client = near
            .connect(proxy.address(), Config::client(), Credentials::none())
            .unwrap();
        middle.serve(proxy);
        let calls: Vec<_> = (0u32..20)
            .map(|number| {
                client.call(Call::to(7, 1, 1 + number % 2), |writer| {
                    writer.put(&number).map(|_| ())
                })
            })
            .collect();
        for (number, call) in (0u32..).zip(calls) {
            assert_eq!(call.await.unwrap().0.results(), number.to_be_bytes());
        }
        // What a handler waits for is dropped with it.
        let slow = client.call(
            Call {
                timeout: Some(Duration::from_millis(200)),
                ..Call::to(7, 1, 2)
            },
            |_| Ok(()),
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
        middle.stop();
        assert!(matches!(
            slow.await.unwrap_err().error,
            ClientError::Transport(CallFailure::TimedOut)
        ));
    });
}

/// Program 9: procedure 1 declares that its caller accepts calls, 2 returns what that caller
/// replies.
struct Asks(Local<SoftwareDevice>);

impl AsyncService for Asks {
    fn program(&self) -> u32 {
        9
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn is_ready(&self, call: &rpc::Call<'_>) -> bool {
        call.procedure.number == 1
    }

    async fn call(
        &self,
        from: ConnectionId,
        call: &rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        if call.procedure.number == 1 {
            return Ok(());
        }
        let asked = Call {
            largest_results: 64,
            ..Call::to(7, 1, 2)
        };
        let reply = self.0.call_back(from, asked, |writer| {
            writer.bytes(call.arguments);
            Ok(())
        });
        let (answer, _) = reply.await.map_err(|_| Denial::System)?;
        results.bytes(answer.results());
        Ok(())
    }
}

#[test]
fn handlers_call_back_and_clients_answer_with_handlers() {
    with_fabric(|fabric| async move {
        let budgets = [0; 2].map(|_| Budget::new(1 << 26));
        let [near, far] = budgets.each_ref().map(|budget| local(&fabric, budget));
        let server = AsyncServer::bind::<SoftwareDevice>;
        let server = far
            .with_driver(|driver| server(driver, any(), Config::server(), Asks(far.clone()), 4))
            .unwrap();
        let client = near
            .connect(server.address(), Config::client(), Credentials::none())
            .unwrap();
        far.serve(server);
        let ask =
            |number: u32| client.call(Call::to(9, 1, 2), |writer| writer.put(&number).map(|_| ()));
        // A caller that has not declared that it accepts calls is not called.
        assert!(matches!(
            ask(0).await.unwrap_err().error,
            ClientError::Reply(_)
        ));
        client.call(Call::to(9, 1, 1), |_| Ok(())).await.unwrap();
        client.serve(Echo, 2);
        let calls: Vec<_> = (0u32..10).map(ask).collect();
        for (number, call) in (0u32..).zip(calls) {
            assert_eq!(call.await.unwrap().0.results(), number.to_be_bytes());
        }
        // A handler that waits for its caller, which is gone.
        drop(ask(10));
        tokio::time::sleep(Duration::from_millis(5)).await;
        near.stop();
        far.stop();
    });
}

#[test]
fn what_is_stopped_keeps_nothing() {
    let budget = Budget::new(1 << 26);
    with_fabric(|fabric| {
        let budget = budget.clone();
        async move {
            let far = Local::new(Driver::new(&fabric.device(), &budget, 4096).unwrap());
            let runs = spawn_local(rpcrdma_verbs::tokio::run(far.clone()));
            let server = AsyncServer::bind::<SoftwareDevice>;
            let server = far
                .with_driver(|driver| server(driver, any(), Config::server(), Asks(far.clone()), 4))
                .unwrap();
            let address = server.address();
            far.serve(server);
            let near_budget = Budget::new(1 << 26);
            let client = local(&fabric, &near_budget)
                .connect(address, Config::client(), Credentials::none())
                .unwrap();
            client.call(Call::to(9, 1, 1), |_| Ok(())).await.unwrap();
            assert!(budget.used() > 0);
            far.stop();
            runs.abort();
            let _ = runs.await;
        }
    });
    assert_eq!(budget.used(), 0);
}

/// On drivers without a runtime: the server turns once, and the client has its reply.
#[test]
fn replies_leave_with_serve() {
    let fabric = Fabric::new();
    let driver = || Driver::new(&fabric.device(), &Budget::new(1 << 26), 4096).unwrap();
    let (mut near, mut far) = (driver(), driver());
    let mut server = AsyncServer::bind(&mut far, any(), Config::server(), Echo, 2).unwrap();
    let client = client::Client::connect(
        &mut near,
        server.address(),
        Config::client(),
        Credentials::none(),
    )
    .unwrap();
    // The first call also has to connect.
    for turns in [20, 1] {
        let call = client
            .call(&mut near, Call::to(7, 1, 1), |_| Ok(()))
            .unwrap();
        for _ in 0..turns {
            near.turn().unwrap();
            far.turn().unwrap();
            server.serve(&mut far);
            near.turn().unwrap();
        }
        let events: Vec<_> = std::iter::from_fn(|| client.event(&mut near)).collect();
        assert!(
            matches!(events.last(), Some(ClientEvent::Answered { call: of, .. }) if *of == call),
            "{events:?}"
        );
    }
}

/// Replies after a while, and counts the calls that it has begun.
struct Slow(std::rc::Rc<std::cell::Cell<u32>>);

impl AsyncService for Slow {
    fn program(&self) -> u32 {
        7
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    async fn call(
        &self,
        _: ConnectionId,
        _: &rpc::Call<'_>,
        _: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        self.0.set(self.0.get() + 1);
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }
}

#[test]
fn what_has_come_is_answered_before_all_is_drained() {
    with_fabric(|fabric| async move {
        let budgets = [0; 2].map(|_| Budget::new(1 << 26));
        let [near, far] = budgets.each_ref().map(|budget| local(&fabric, budget));
        let begun = std::rc::Rc::new(std::cell::Cell::new(0));
        let slow = Slow(begun.clone());
        let server = far
            .with_driver(|driver| AsyncServer::bind(driver, any(), Config::server(), slow, 2))
            .unwrap();
        let client = near
            .connect(server.address(), Config::client(), Credentials::none())
            .unwrap();
        far.serve(server);
        // The first reply grants credits for all that follow.
        client.call(Call::to(7, 1, 2), |_| Ok(())).await.unwrap();
        begun.set(0);
        // Two rounds of 20 ms, at the same time.
        let slow: Vec<_> = (0..4)
            .map(|_| client.call(Call::to(7, 1, 2), |_| Ok(())))
            .collect();
        while begun.get() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        far.drain().await;
        for call in slow {
            call.await.unwrap();
        }
        far.drain().await;
        let late = Call {
            timeout: Some(Duration::from_millis(50)),
            ..Call::to(7, 1, 1)
        };
        assert!(
            client.call(late, |_| Ok(())).await.is_err(),
            "nobody is there any more"
        );
    });
}

#[test]
fn a_client_that_is_dropped_leaves_nothing_behind() {
    with_fabric(|fabric| async move {
        let budgets = [0; 2].map(|_| Budget::new(1 << 26));
        let [near, far] = budgets.each_ref().map(|budget| local(&fabric, budget));
        let server = AsyncServer::bind::<SoftwareDevice>;
        let server = far
            .with_driver(|driver| server(driver, any(), Config::server(), Asks(far.clone()), 4))
            .unwrap();
        let address = server.address();
        far.serve(server);
        let mut used = Vec::new();
        for number in 0u32..20 {
            let client = near
                .connect(address, Config::client(), Credentials::none())
                .unwrap();
            let witness = std::rc::Rc::new(());
            client.serve(Witness(witness.clone()), 2);
            client.call(Call::to(9, 1, 1), |_| Ok(())).await.unwrap();
            let last = client.call(Call::to(9, 1, 2), |writer| writer.put(&number).map(|_| ()));
            drop(client);
            assert_eq!(
                last.await.unwrap().0.results(),
                number.to_be_bytes(),
                "what it has begun ends"
            );
            while std::rc::Rc::strong_count(&witness) > 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            used.push(budgets.each_ref().map(Budget::used));
        }
        // The server may learn of the end of one client after the next has connected.
        let [near_first, far_first] = used[0];
        assert!(
            used.iter()
                .all(|[near, far]| *near == near_first && *far <= 3 * far_first),
            "{used:?}"
        );
        // A client that never had a connection.
        let nowhere = near
            .connect(
                ([127, 0, 0, 1], 9).into(),
                Config::client(),
                Credentials::none(),
            )
            .unwrap();
        let call = nowhere.call(Call::to(9, 1, 1), |_| Ok(()));
        drop(nowhere);
        drop(call);
        far.stop();
    });
}

/// Echoes, and counts its drops.
struct Witness(#[allow(dead_code, reason = "it is counted")] std::rc::Rc<()>);

impl AsyncService for Witness {
    fn program(&self) -> u32 {
        7
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    async fn call(
        &self,
        _: ConnectionId,
        call: &rpc::Call<'_>,
        results: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        results.bytes(call.arguments);
        Ok(())
    }
}

/// Never replies.
struct Silent;

impl AsyncService for Silent {
    fn program(&self) -> u32 {
        7
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    async fn call(
        &self,
        _: ConnectionId,
        _: &rpc::Call<'_>,
        _: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        std::future::pending().await
    }
}

#[test]
fn what_waits_when_all_is_stopped_ends_and_the_address_is_free() {
    with_fabric(|fabric| async move {
        let budgets = [0; 2].map(|_| Budget::new(1 << 26));
        let [near, far] = budgets.each_ref().map(|budget| local(&fabric, budget));
        let told = std::rc::Rc::new(std::cell::Cell::new(None));
        let bind = |address| {
            far.with_driver(|driver| {
                AsyncServer::bind(driver, address, Config::server(), From(told.clone()), 4)
            })
        };
        let server = bind(any()).unwrap();
        let address = server.address();
        let client = near
            .connect(address, Config::client(), Credentials::none())
            .unwrap();
        far.serve(server);
        client.serve(Silent, 2);
        client.call(Call::to(9, 1, 1), |_| Ok(())).await.unwrap();
        let waiting = far.call_back(told.get().unwrap(), Call::to(7, 1, 1), |_| Ok(()));
        tokio::time::sleep(Duration::from_millis(5)).await;
        far.stop();
        let refused = waiting.await.unwrap_err();
        assert!(
            matches!(
                refused.error,
                ClientError::Transport(CallFailure::Closed(_))
            ),
            "{}",
            refused.error
        );
        let gone = far
            .call_back(told.get().unwrap(), Call::to(7, 1, 1), |_| Ok(()))
            .await;
        assert!(gone.is_err());
        // The client connects to the next server.
        far.serve(bind(address).unwrap());
        client.call(Call::to(9, 1, 1), |_| Ok(())).await.unwrap();
        // A service that never replies does not keep its client from ending either.
        let again = far.call_back(told.get().unwrap(), Call::to(7, 1, 1), |_| Ok(()));
        tokio::time::sleep(Duration::from_millis(5)).await;
        near.stop();
        drop(client);
        assert!(again.await.is_err());
    });
}

/// Returns which connection has called last, and may be called back.
struct From(std::rc::Rc<std::cell::Cell<Option<ConnectionId>>>);

impl AsyncService for From {
    fn program(&self) -> u32 {
        9
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn is_ready(&self, _: &rpc::Call<'_>) -> bool {
        true
    }

    async fn call(
        &self,
        from: ConnectionId,
        _: &rpc::Call<'_>,
        _: &mut Writer<'_>,
    ) -> Result<(), Denial> {
        self.0.set(Some(from));
        Ok(())
    }
}
