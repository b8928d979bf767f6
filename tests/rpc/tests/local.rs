//! Typed clients on a driver that the test turns.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{ALWAYS, Store, assert_error, key, put};
use kv1::{Client, Get, GetResults};
use oncrpc::xdr::{Item, Text};
use oncrpc::{
    CallError, CallOptions, Context, Execution, LocalPrograms, Method, PendingCall,
    ReplyCacheConfig, Resend, Router, RpcError,
};
use rpcrdma_proto::connection::Config;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_rpc_tests::kv::{GetRes, PutArgs};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, Faults, SoftwareDevice};
use rpcrdma_verbs::{
    CompletedCall, LocalChannel, LocalEvent, LocalServer, RunningServer, ServerConfig, serve,
};
use tokio::sync::oneshot;

type Device = SoftwareDevice;

struct World {
    fabric: Arc<Fabric>,
    driver: Driver<Device>,
    channel: LocalChannel<Device>,
    kv: Client<LocalChannel<Device>>,
    store: Arc<Store>,
    server: RunningServer,
}

impl World {
    fn new() -> Self {
        let (fabric, store) = (Fabric::new(), Arc::new(Store::default()));
        let served = store.clone();
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let server = serve(&fabric.device(), address, ServerConfig::new(), move || {
            Router::new().add_service(kv1::serve(served))
        });
        let server = server.unwrap();
        let mut driver = Driver::new(&fabric.device(), &Budget::new(64 << 20), 1024).unwrap();
        let address = server.local_addr();
        let channel = LocalChannel::connect(&mut driver, address, Config::client()).unwrap();
        Self {
            fabric,
            driver,
            kv: Client::new(channel.clone()),
            channel,
            store,
            server,
        }
    }

    fn event(&mut self) -> LocalEvent {
        let limit = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(event) = self.channel.poll_event(&mut self.driver) {
                return event;
            }
            assert!(Instant::now() < limit, "hangs");
            self.driver.wait(Duration::from_millis(10)).unwrap();
        }
    }

    fn completed(&mut self) -> CompletedCall {
        loop {
            if let LocalEvent::Completed(completed) = self.event() {
                return completed;
            }
        }
    }

    /// WaitingService until this call has ended, which is the only one.
    fn end<P: Method>(&mut self, call: &PendingCall<P>) -> Result<P::Results, CallError> {
        let completed = self.completed();
        let results = self.channel.read(call, &completed, P::to_results).unwrap();
        self.channel.recycle(&mut self.driver, completed);
        results
    }

    fn end_get(&mut self, call: &PendingCall<Get>) -> Option<Vec<u8>> {
        let completed = self.completed();
        let value = |results: GetRes<'_>| match results {
            GetRes::True(ok) => Some(ok.value.to_vec()),
            GetRes::False => None,
        };
        let found = self.channel.read(call, &completed, value);
        found.unwrap().unwrap()
    }
}

#[test]
fn the_results_of_the_service_are_returned() {
    let mut world = World::new();
    for length in [0, 1, 1023, 1024, 1025, 100_001, 1 << 20] {
        let value = vec![7; length];
        let args = put("a", Item::from(value.clone()));
        let call = world.kv.put(&args).begin(&mut world.driver).unwrap();
        world.end(&call).unwrap();
        let call = world.kv.get(&key("a")).begin(&mut world.driver).unwrap();
        assert_eq!(world.end_get(&call), Some(value), "{length} bytes");
    }
    let call = world.kv.get(&key("b")).begin(&mut world.driver).unwrap();
    assert_eq!(world.end_get(&call), None);
    assert_eq!(world.store.puts.load(Relaxed), 7);
}

/// Each of many calls finds its own reply by its XID.
#[test]
fn replies_are_matched_by_xid() {
    let mut world = World::new();
    let mut open: Vec<(u32, PendingCall<kv1::Fail>)> = Vec::new();
    for how in 100..116 {
        let call = world.kv.fail(&how).begin(&mut world.driver).unwrap();
        open.push((how, call));
    }
    while !open.is_empty() {
        let completed = world.completed();
        let is_its = |(_, call): &(u32, PendingCall<kv1::Fail>)| call.xid() == completed.xid();
        let at = open.iter().position(is_its).unwrap();
        let (how, call) = open.swap_remove(at);
        let result = world.channel.read(&call, &completed, |how| how);
        assert_eq!(result.unwrap().unwrap(), how);
        for (_, other) in &open {
            assert!(world.channel.read(other, &completed, |how| how).is_none());
        }
    }
}

#[test]
fn each_failure_has_its_error() {
    let mut world = World::new();
    let call = world.kv.fail(&0).begin(&mut world.driver).unwrap();
    let error = world.end(&call).unwrap_err();
    assert_error(&error, "the server failed", Execution::Unknown);
    let limit = Duration::from_millis(50);
    let call = world.kv.fail(&3).timeout(limit);
    let call = call.begin(&mut world.driver).unwrap();
    let error = world.end(&call).unwrap_err();
    assert_error(&error, "not done within 50ms: no reply", Execution::Unknown);
    let call = world.kv.fail(&3).begin(&mut world.driver).unwrap();
    world.driver.turn().unwrap();
    assert!(world.channel.cancel(&mut world.driver, &call));
    let error = world.end(&call).unwrap_err();
    let text = "the transport failed: it was cancelled";
    assert_error(&error, text, Execution::Unknown);
    // Other calls continue.
    let call = world.kv.fail(&9).begin(&mut world.driver).unwrap();
    assert_eq!(world.end(&call).unwrap(), 9);
}

/// A deadline reports what the call waited for, and a call need not wait for a connection.
#[test]
fn a_call_without_a_connection_says_so() {
    let fabric = Fabric::new();
    let mut driver = Driver::new(&fabric.device(), &Budget::new(64 << 20), 1024).unwrap();
    let address: SocketAddr = "127.0.0.1:7".parse().unwrap();
    let channel = LocalChannel::connect(&mut driver, address, Config::client()).unwrap();
    let kv = Client::new(channel.clone());
    let impatient = kv.fail(&9).wait_for_connection(false).begin(&mut driver);
    let text = "can't connect: not connected yet";
    assert_error(&impatient.unwrap_err(), text, Execution::NotExecuted);
    let call = kv.fail(&9).timeout(Duration::from_millis(300));
    let call = call.begin(&mut driver).unwrap();
    let completed = loop {
        match channel.poll_event(&mut driver) {
            Some(LocalEvent::Completed(completed)) => break completed,
            Some(_) => {}
            None => _ = driver.wait(Duration::from_millis(10)).unwrap(),
        }
    };
    let error = channel.read(&call, &completed, |how| how).unwrap();
    let text = "not done within 300ms: not connected: connect: nothing listens at 127.0.0.1:7";
    assert_error(&error.unwrap_err(), text, Execution::NotExecuted);
    let impatient = kv.fail(&9).wait_for_connection(false).begin(&mut driver);
    let text = "can't connect: connect: nothing listens at 127.0.0.1:7";
    assert_error(&impatient.unwrap_err(), text, Execution::NotExecuted);
}

/// The addresses of a name are looked up for each connection, without a runtime.
#[test]
fn a_server_is_found_by_its_name() {
    let world = World::new();
    let address = world.server.local_addr();
    let mut driver = Driver::new(&world.fabric.device(), &Budget::new(64 << 20), 1024).unwrap();
    let name = format!("localhost:{}", address.port());
    let channel = LocalChannel::connect(&mut driver, name, Config::client()).unwrap();
    let kv = Client::new(channel.clone());
    let mut driven = |awaited: fn(&LocalEvent) -> bool| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            match channel.poll_event(&mut driver) {
                Some(event) if awaited(&event) => return,
                Some(_) => {}
                // The lookup wakes the driver.
                None => _ = driver.wait(Duration::from_secs(10)).unwrap(),
            }
        }
        panic!("an event is missing");
    };
    driven(|event| matches!(event, LocalEvent::Connected(_)));
    world.server.drain().unwrap();
    driven(|event| matches!(event, LocalEvent::Disconnected { error: None, .. }));
    driven(|event| matches!(event, LocalEvent::Disconnected { error: Some(_), .. }));
    let served = world.store.clone();
    let server = serve(
        &world.fabric.device(),
        address,
        ServerConfig::new(),
        move || Router::new().add_service(kv1::serve(served)),
    );
    driven(|event| matches!(event, LocalEvent::Connected(_)));
    let call = kv.fail(&9).begin(&mut driver).unwrap();
    let completed = loop {
        driver.turn().unwrap();
        if let Some(LocalEvent::Completed(completed)) = kv.transport().poll_event(&mut driver) {
            break completed;
        }
    };
    let result = kv.transport().read(&call, &completed, |how| how).unwrap();
    assert_eq!(result.unwrap(), 9);
    server.unwrap().drain().unwrap();
}

/// The error says why the name has no address.
#[test]
fn an_unknown_name_is_reported() {
    let mut driver = Driver::new(&Fabric::new().device(), &Budget::new(64 << 20), 1024).unwrap();
    let channel = LocalChannel::connect(&mut driver, "no port", Config::client()).unwrap();
    let kv = Client::new(channel.clone());
    let error = loop {
        match channel.poll_event(&mut driver) {
            Some(LocalEvent::Disconnected { error, .. }) => break error,
            Some(event) => panic!("{event:?}"),
            None => _ = driver.wait(Duration::from_secs(10)).unwrap(),
        }
    };
    assert_eq!(error.unwrap().to_string(), "invalid socket address");
    let call = kv.fail(&9).wait_for_connection(false).begin(&mut driver);
    let error = call.unwrap_err();
    assert_eq!(error.peer(), "no port");
    let text = "can't connect: invalid socket address";
    assert_error(&error, text, Execution::NotExecuted);
}

/// An idempotent call waits for the next connection; another one fails.
#[test]
fn only_repeatable_calls_are_retransmitted() {
    let mut world = World::new();
    let begin = |world: &mut World, how: u32, resend| {
        let options = CallOptions::DEFAULT.resend(resend);
        let kv = world.kv.clone().with_options(options);
        kv.fail(&how).begin(&mut world.driver).unwrap()
    };
    let once = begin(&mut world, 4, Resend::IfUnsent);
    let again = begin(&mut world, 4, ALWAYS);
    while world.store.fails.load(Relaxed) < 2 {
        world.driver.wait(Duration::from_millis(1)).unwrap();
    }
    world.fabric.inject(Faults {
        disconnect: u16::MAX,
        ..Faults::default()
    });
    let cuts = begin(&mut world, 9, ALWAYS);
    let mut outcomes = Vec::new();
    while outcomes.len() < 3 {
        match world.event() {
            LocalEvent::Completed(completed) => {
                let call = [once, again, cuts]
                    .into_iter()
                    .find(|call| call.xid() == completed.xid())
                    .unwrap();
                let result = world.channel.read(&call, &completed, |how| how).unwrap();
                outcomes.push(result.map_err(|error| error.execution()));
            }
            LocalEvent::Disconnected { .. } => world.fabric.inject(Faults::default()),
            _ => {}
        }
    }
    let mut answered: Vec<u32> = outcomes.iter().filter_map(|outcome| outcome.ok()).collect();
    answered.sort_unstable();
    assert_eq!(answered, [4, 9]);
    assert!(outcomes.contains(&Err(Execution::Unknown)));
    // The retransmitted call was also executed once: the server recognizes it.
    assert_eq!(world.store.fails.load(Relaxed), 3);
}

#[test]
fn a_draining_channel_completes_its_calls() {
    let mut world = World::new();
    let call = world.kv.fail(&4).begin(&mut world.driver).unwrap();
    world.channel.drain(&mut world.driver);
    let refused = world.kv.fail(&9).begin(&mut world.driver).unwrap_err();
    assert_error(
        &refused,
        "the channel was shut down",
        Execution::NotExecuted,
    );
    assert_eq!(world.end(&call).unwrap(), 4);
    loop {
        if let LocalEvent::Disconnected { is_final, .. } = world.event() {
            assert!(is_final);
            break;
        }
    }
    world.server.drain().unwrap();
}

/// A client and a server on this thread.
struct Ends<P> {
    near: Driver<Device>,
    far: Driver<Device>,
    kv: Client<LocalChannel<Device>>,
    server: LocalServer<P>,
}

impl<P: LocalPrograms> Ends<P> {
    fn new(router: Router<P>) -> Self {
        let fabric = Fabric::new();
        let driver = || Driver::new(&fabric.device(), &Budget::new(64 << 20), 1024).unwrap();
        let (mut near, mut far) = (driver(), driver());
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let server = LocalServer::bind(&mut far, address, Config::server(), router).unwrap();
        let (address, config) = (server.local_addr(), Config::client());
        let channel = LocalChannel::connect(&mut near, address, config).unwrap();
        Self {
            near,
            far,
            kv: Client::new(channel),
            server,
        }
    }

    /// Turns both ends until a call has ended.
    fn completed(&mut self) -> CompletedCall {
        for _ in 0..10_000 {
            self.near.turn().unwrap();
            self.far.turn().unwrap();
            self.server.serve(&mut self.far);
            let channel = self.kv.transport();
            while let Some(event) = channel.poll_event(&mut self.near) {
                if let LocalEvent::Completed(completed) = event {
                    return completed;
                }
            }
        }
        panic!("no call ends");
    }

    fn fail(&mut self, how: u32) -> u32 {
        let call = self.kv.fail(&how).begin(&mut self.near).unwrap();
        let completed = self.completed();
        let channel = self.kv.transport();
        let result = channel.read(&call, &completed, |how| how).unwrap();
        channel.recycle(&mut self.near, completed);
        result.unwrap()
    }
}

#[test]
fn both_ends_are_driven_by_one_thread() {
    let mut ends = Ends::new(Router::new().add_service(kv1::serve(Store::default())));
    for how in 100..200 {
        assert_eq!(ends.fail(how), how);
    }
}

/// A cancelled call keeps its credit until the server answers it, but its place is free as soon as
/// its end is reported: callers who count their open calls never meet "full".
#[test]
fn cancelled_calls_free_their_places() {
    let store = Arc::new(Store::default());
    let mut ends = Ends::new(Router::new().add_service(kv1::serve(store.clone())));
    assert_eq!(ends.fail(9), 9);
    let max_calls = Config::client().max_calls;
    for _ in 0..3 {
        let (kv, near) = (&ends.kv, &mut ends.near);
        let begin = |_| kv.fail(&8).begin(near).unwrap();
        let calls: Vec<_> = (0..max_calls).map(begin).collect();
        let error = ends.kv.fail(&8).begin(&mut ends.near).unwrap_err();
        assert_error(&error, "too many calls are open", Execution::NotExecuted);
        for _ in 0..10 {
            ends.near.turn().unwrap();
            ends.far.turn().unwrap();
            ends.server.serve(&mut ends.far);
        }
        for call in &calls {
            assert!(ends.kv.transport().cancel(&mut ends.near, call));
        }
        for _ in &calls {
            let completed = ends.completed();
            let ours = |call: &&PendingCall<kv1::Fail>| call.xid() == completed.xid();
            let call = calls.iter().find(ours).unwrap();
            let result = ends.kv.transport().read(call, &completed, |how| how);
            let text = result.unwrap().unwrap_err().to_string();
            assert!(text.contains("cancelled"), "{text}");
        }
    }
    assert!(store.waiting.load(Relaxed) > 0, "no call was sent");
    store.go_on.notify_waiters();
    assert_eq!(ends.fail(10), 10);
}

/// A store whose procedures wait for a message of another thread.
struct WaitingService(Mutex<Option<oneshot::Receiver<u32>>>);

impl kv1::LocalService for WaitingService {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Ok(GetRes::False.into())
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(())
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        let waits = self.0.lock().unwrap().take();
        match waits {
            Some(message) => Ok(message.await?),
            None => Ok(how),
        }
    }
}

/// A waiting handler does not block other calls, and wakes the driver.
#[test]
fn a_waiting_handler_wakes_the_driver() {
    let (sender, receiver) = oneshot::channel();
    let waits = WaitingService(Mutex::new(Some(receiver)));
    let mut ends = Ends::new(Router::new().add_service(kv1::serve_local(waits)));
    let slow = ends.kv.fail(&1).begin(&mut ends.near).unwrap();
    ends.near.turn().unwrap();
    assert_eq!(ends.fail(2), 2);
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        sender.send(3).unwrap();
    });
    let begin = Instant::now();
    while ends.server.serve(&mut ends.far) == 0 {
        ends.far.wait(Duration::from_secs(20)).unwrap();
    }
    assert!(begin.elapsed() < Duration::from_secs(15), "not woken");
    other.join().unwrap();
    let completed = ends.completed();
    let result = ends.kv.transport().read(&slow, &completed, |how| how);
    assert_eq!(result.unwrap().unwrap(), 3);
}

/// In the steady state, neither end allocates for a call whose reply is not kept.
/// Its clients get an error at once, and its handlers run to their end.
#[test]
fn a_server_shuts_down_at_once() {
    let store = Arc::new(Store::default());
    let mut ends = Ends::new(Router::new().add_service(kv1::serve(store.clone())));
    assert_eq!(ends.fail(9), 9);
    let call = ends.kv.fail(&8).begin(&mut ends.near).unwrap();
    while store.waiting.load(Relaxed) == 0 {
        ends.near.turn().unwrap();
        ends.far.turn().unwrap();
        ends.server.serve(&mut ends.far);
    }
    ends.server.shutdown(&mut ends.far);
    assert!(ends.server.connections().is_empty());
    let completed = ends.completed();
    let result = ends.kv.transport().read(&call, &completed, |how| how);
    let error = result.unwrap().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the connection was lost"), "{text}");
    assert_eq!(error.execution(), Execution::Unknown);
    assert!(!ends.server.is_drained(), "a handler waits");
    store.go_on.notify_waiters();
    ends.server.serve(&mut ends.far);
    assert!(ends.server.is_drained());
    assert_eq!(store.waiting.load(Relaxed), 0, "the handler was stopped");
}

#[test]
fn a_call_does_not_allocate() {
    let none = ReplyCacheConfig::new().max_replies(0);
    let router = Router::new().reply_cache(none);
    let mut ends = Ends::new(router.add_service(kv1::serve(Store::default())));
    let run = |ends: &mut Ends<_>| {
        for how in 100..300 {
            ends.fail(how);
        }
    };
    run(&mut ends);
    let counted = allocation_counter::measure(|| run(&mut ends));
    assert_eq!(counted.count_total, 0, "in 200 calls");
}
