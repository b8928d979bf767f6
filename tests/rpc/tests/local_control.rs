//! The control of a server on a driver that the test drives, without a runtime.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::support::{Store, assert_error};
use kv1::{Client, Fail};
use oncrpc::{Execution, Limit, PendingCall, Router, ServerControl, ServerLimits};
use rpcrdma_proto::connection::Config;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::{CompletedCall, LocalChannel, LocalEvent, LocalServer};

/// How long something may take that does not end by itself.
const LONG: Duration = Duration::from_secs(30);

struct World {
    near: Driver<SoftwareDevice>,
    far: Driver<SoftwareDevice>,
    server: LocalServer<(kv1::Server<Arc<Store>>, ())>,
    store: Arc<Store>,
    control: ServerControl,
}

impl World {
    fn new(control: ServerControl) -> Self {
        let (fabric, store) = (Fabric::new(), Arc::new(Store::default()));
        let driver = || Driver::new(&fabric.device(), &Budget::new(64 << 20), 1024).unwrap();
        let (near, mut far) = (driver(), driver());
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let router = Router::new().add_service(kv1::serve(store.clone()));
        let mut server = LocalServer::bind(&mut far, address, Config::server(), router).unwrap();
        server.control(&control);
        Self {
            near,
            far,
            server,
            store,
            control,
        }
    }

    fn connect(&mut self) -> Client<LocalChannel<SoftwareDevice>> {
        let address = self.server.local_addr();
        Client::new(LocalChannel::connect(&mut self.near, address, Config::client()).unwrap())
    }

    fn turn(&mut self) {
        self.near.turn().unwrap();
        self.far.turn().unwrap();
        self.server.serve(&mut self.far);
    }

    fn turn_until(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < LONG);
            self.turn();
        }
    }

    fn begin(&mut self, kv: &Client<LocalChannel<SoftwareDevice>>, how: u32) -> PendingCall<Fail> {
        kv.fail(&how).begin(&mut self.near).unwrap()
    }

    /// Turns both ends until a call of a client has ended.
    fn completed(&mut self, kv: &Client<LocalChannel<SoftwareDevice>>) -> CompletedCall {
        let mut ended = None;
        self.turn_until(|world| {
            if let Some(LocalEvent::Completed(completed)) =
                kv.transport().poll_event(&mut world.near)
            {
                ended = Some(completed);
            }
            ended.is_some()
        });
        ended.unwrap()
    }

    fn fail(&mut self, kv: &Client<LocalChannel<SoftwareDevice>>, how: u32) -> u32 {
        let call = self.begin(kv, how);
        let completed = self.completed(kv);
        let result = kv.transport().read(&call, &completed, |how| how);
        result.unwrap().unwrap()
    }

    /// Turns both ends until a client can't connect, and returns the reason.
    fn rejection(&mut self, kv: &Client<LocalChannel<SoftwareDevice>>) -> String {
        let mut reason = None;
        self.turn_until(|world| {
            while let Some(event) = kv.transport().poll_event(&mut world.near) {
                if let LocalEvent::Disconnected { error, .. } = event {
                    reason = error;
                }
            }
            reason.is_some()
        });
        reason.unwrap().to_string()
    }
}

#[test]
fn a_hook_decides_and_its_reason_is_told() {
    let control = ServerControl::with_hook(ServerLimits::new(), |request| {
        assert_eq!(request.transport, "rdma");
        Err("not today".into())
    });
    let mut world = World::new(control);
    let kv = world.connect();
    let reason = world.rejection(&kv);
    assert_eq!(reason, "the server rejected the connection: not today");
    assert!(world.control.stats().rejected > 0);
}

#[test]
fn connections_are_limited() {
    let limits = ServerLimits::new().max_connections_per_peer(1);
    let mut world = World::new(ServerControl::new(limits));
    let first = world.connect();
    assert_eq!(world.fail(&first, 9), 9);
    let second = world.connect();
    let reason = world.rejection(&second);
    assert_eq!(
        reason,
        "the server rejected the connection: too many connections of the peer"
    );
    assert!(world.control.stats().reached(Limit::ConnectionsPerPeer) > 0);
    first.transport().close(&mut world.near);
    assert_eq!(world.fail(&second, 9), 9);
    assert_eq!(world.control.stats().connections, 1);
}

/// The driver wakes up for the deadline of a handler.
#[test]
fn a_handler_that_never_ends_is_answered() {
    let time = Duration::from_millis(50);
    let limits = ServerLimits::new().handler_time(Some(time));
    let mut world = World::new(ServerControl::new(limits));
    let kv = world.connect();
    assert_eq!(world.fail(&kv, 9), 9);
    let begun = Instant::now();
    let calls: Vec<_> = (0..3).map(|_| world.begin(&kv, 3)).collect();
    world.turn_until(|world| world.control.stats().calls_in_flight == 3);
    // The clients are not turned: nothing else wakes the driver.
    while world.control.stats().calls_in_flight > 0 {
        world.far.wait(LONG).unwrap();
        world.server.serve(&mut world.far);
    }
    assert!(begun.elapsed() >= time && begun.elapsed() < LONG);
    for _ in &calls {
        let completed = world.completed(&kv);
        let read = |call| kv.transport().read(call, &completed, |how| how);
        let result = calls.iter().find_map(read).unwrap();
        assert_error(
            &result.unwrap_err(),
            "the server failed",
            Execution::Unknown,
        );
    }
    assert_eq!(world.control.stats().reached(Limit::HandlerTime), 3);
    assert_eq!(world.fail(&kv, 9), 9);
}

#[test]
fn calls_of_a_connection_wait_and_those_of_others_do_not() {
    let limits = ServerLimits::new().max_calls_per_connection(2);
    let mut world = World::new(ServerControl::new(limits));
    let (kv, other) = (world.connect(), world.connect());
    for _ in 0..10 {
        world.begin(&kv, 8);
    }
    world.turn_until(|world| world.control.stats().reached(Limit::CallsPerConnection) > 0);
    assert_eq!(world.fail(&other, 9), 9);
    assert_eq!(world.store.waiting.load(Relaxed), 2);
    assert_eq!(world.control.stats().calls_in_flight, 2);
    let store = world.store.clone();
    world.turn_until(|_| {
        store.go_on.notify_waiters();
        store.fails.load(Relaxed) == 11 && store.waiting.load(Relaxed) == 0
    });
    world.turn_until(|world| world.control.stats().calls_in_flight == 0);
    assert_eq!(world.control.stats().calls, 11);
}
