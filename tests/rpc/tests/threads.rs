//! A server on several threads, at one address.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::support::tcp::{connect_from, cut, fail_call, send_record};
use crate::support::{run, until};
use kv1::{Client, GetResults, LocalService, Service};
use oncrpc::xdr::Text;
use oncrpc::{
    CallErrorKind, Channel, ConnectionPlacement, Context, Limit, Router, RpcError, ServerControl,
    ServerLimits, tcp,
};
use rpcrdma_rpc_tests::kv::PutArgs;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::provider::iwarp::{IwarpConfig, IwarpDevice};
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{ClientConfig, RunningServers, ServerBuilder, channel};

/// The service of one thread: FAIL returns the thread's number.
struct Numbered {
    number: u32,
    waits: Arc<Waits>,
}

/// The calls of FAIL that wait.
#[derive(Default)]
struct Waits {
    go_on: tokio::sync::Notify,
    begun: AtomicU32,
    ended: AtomicU32,
}

impl Service for Numbered {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        if how == 8 {
            let goes_on = self.waits.go_on.notified();
            self.waits.begun.fetch_add(1, Relaxed);
            goes_on.await;
            self.waits.ended.fetch_add(1, Relaxed);
        }
        Ok(self.number)
    }
}

/// The transport of a server's clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Over {
    Rdma,
    Tcp,
}

/// A server at an address over each transport, on threads whose services are numbered from zero.
struct Threads<D> {
    device: D,
    server: RunningServers,
    over: Over,
    threads: u32,
    waits: Arc<Waits>,
}

impl<D: Device> Threads<D> {
    async fn start(over: Over, device: &D, threads: u32, placement: ConnectionPlacement) -> Self {
        let control = ServerControl::default();
        Self::with(over, device, threads, placement, &control).await
    }

    async fn with(
        over: Over,
        device: &D,
        threads: u32,
        place: ConnectionPlacement,
        control: &ServerControl,
    ) -> Self {
        let (next, waits) = (AtomicU32::new(0), Arc::new(Waits::default()));
        let shared = waits.clone();
        let router = move || {
            Router::new().add_service(kv1::serve(Numbered {
                number: next.fetch_add(1, Relaxed),
                waits: shared.clone(),
            }))
        };
        let server = ServerBuilder::new(router)
            .threads(NonZeroUsize::new(threads.try_into().unwrap()).unwrap())
            .placement(place)
            .control(control)
            .rdma(device, "127.0.0.1:0".parse().unwrap())
            .tcp("127.0.0.1:0".parse().unwrap());
        Self {
            device: device.clone(),
            server: server.start().await.unwrap(),
            over,
            threads,
            waits,
        }
    }

    fn client(&self) -> Client<Channel> {
        let [rdma, tcp] = *self.server.local_addrs() else {
            panic!("the server has two addresses")
        };
        Client::new(match self.over {
            Over::Rdma => {
                let (channel, runner) = channel(&self.device, rdma, ClientConfig::new());
                tokio::spawn(runner);
                channel
            }
            Over::Tcp => {
                let (channel, runner) = tcp::channel(&tcp.to_string(), tcp::ClientConfig::new());
                tokio::spawn(runner);
                channel
            }
        })
    }

    /// Connects, and returns the number of the thread that serves the connection.
    async fn connect(&self) -> (Client<Channel>, u32) {
        let kv = self.client();
        let number = kv.fail(&9).await.unwrap();
        let first = match self.over {
            Over::Rdma => 0,
            Over::Tcp => self.threads,
        };
        (kv, number - first)
    }
}

async fn go_in_turn<D: Device>(over: Over, device: &D) {
    let server = Threads::start(over, device, 3, ConnectionPlacement::RoundRobin).await;
    let mut numbers = Vec::new();
    for number in (0..3).cycle().take(12) {
        let (kv, on) = server.connect().await;
        assert_eq!(on, number);
        // A connection stays on its thread.
        numbers.push(kv.fail(&9).await.unwrap());
        assert_eq!(numbers.last(), Some(&kv.fail(&9).await.unwrap()));
    }
    assert_eq!(numbers[..3], numbers[3..6]);
    server.server.drain().await.unwrap();
}

#[test]
fn connections_are_assigned_in_turn() {
    run(async { go_in_turn(Over::Rdma, &Fabric::new().device()).await });
    run(async { go_in_turn(Over::Tcp, &Fabric::new().device()).await });
}

#[test]
fn connections_of_other_processes_are_assigned_in_turn() {
    run(async { go_in_turn(Over::Rdma, &IwarpDevice::new(IwarpConfig::default())).await });
}

#[test]
fn the_least_loaded_thread_gets_the_next_connection() {
    for over in [Over::Rdma, Over::Tcp] {
        least_loaded_is_next(over);
    }
}

fn least_loaded_is_next(over: Over) {
    run(async {
        let (fabric, fewest) = (Fabric::new(), ConnectionPlacement::FewestConnections);
        let server = Threads::start(over, &fabric.device(), 2, fewest).await;
        let mut clients = Vec::new();
        for number in [0, 1, 0, 1] {
            let (kv, on) = server.connect().await;
            assert_eq!(on, number);
            clients.push((kv, on));
        }
        // Both connections of the second thread end, which the acceptor notices a little later.
        clients.retain(|(_, on)| *on == 0);
        let mut last = 0;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let (kv, on) = server.connect().await;
            last = on;
            if on == 1 {
                clients.push((kv, on));
                break;
            }
        }
        assert_eq!(last, 1);
        assert_eq!(server.connect().await.1, 1);
    });
}

#[test]
fn a_function_of_the_peer_selects_the_thread() {
    for over in [Over::Rdma, Over::Tcp] {
        peer_selects(over);
    }
}

fn peer_selects(over: Over) {
    run(async {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        // Thread numbers are taken modulo the number of threads.
        let place = ConnectionPlacement::by_peer(move |peer| {
            assert!(peer.port() != 0);
            count.fetch_add(1, Relaxed);
            usize::MAX
        });
        let server = Threads::start(over, &Fabric::new().device(), 2, place).await;
        for _ in 0..4 {
            assert_eq!(server.connect().await.1, 1);
        }
        assert_eq!(asked.load(Relaxed), 4);
    });
}

#[test]
fn threads_share_the_limits() {
    for over in [Over::Rdma, Over::Tcp] {
        limits_hold(over);
    }
}

fn limits_hold(over: Over) {
    run(async {
        let control = ServerControl::new(ServerLimits::new().max_connections_per_peer(3));
        let (device, in_turn) = (Fabric::new().device(), ConnectionPlacement::RoundRobin);
        let server = Threads::with(over, &device, 2, in_turn, &control).await;
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(server.connect().await);
        }
        let call = server.client().fail(&9).wait_for_connection(false).await;
        let error = call.unwrap_err();
        match over {
            Over::Rdma => {
                let text = error.to_string();
                assert!(text.contains("too many connections of the peer"), "{text}");
                assert_eq!(control.stats().rejected, 1);
            }
            // The server can only close. If it does so before the call is sent, it is sent again.
            Over::Tcp => {
                let lost = matches!(error.kind(), CallErrorKind::ConnectionLost(_));
                assert!(
                    lost || matches!(error.kind(), CallErrorKind::Connect(_)),
                    "{error}"
                );
                assert!(control.stats().rejected > 0);
            }
        }
    });
}

/// Without room in the queue of any thread, a request to connect is rejected.
#[test]
fn requests_that_wait_for_a_thread_are_limited() {
    run(async {
        let control = ServerControl::new(ServerLimits::new().max_waiting_connections(0));
        let (device, in_turn) = (Fabric::new().device(), ConnectionPlacement::RoundRobin);
        let server = Threads::with(Over::Rdma, &device, 2, in_turn, &control).await;
        let call = server.client().fail(&9).wait_for_connection(false).await;
        let text = call.unwrap_err().to_string();
        assert!(
            text.contains("too many connections wait to be accepted"),
            "{text}"
        );
        let stats = control.stats();
        assert_eq!((stats.accepted, stats.rejected), (0, 1));
        assert_eq!(stats.reached(Limit::WaitingConnections), 1);
        control.set_limits(ServerLimits::new());
        server.connect().await;
    });
}

#[test]
fn all_threads_drain_before_the_server_ends() {
    for over in [Over::Rdma, Over::Tcp] {
        drains(over);
    }
}

fn drains(over: Over) {
    run(async {
        let (device, in_turn) = (Fabric::new().device(), ConnectionPlacement::RoundRobin);
        let server = Threads::start(over, &device, 2, in_turn).await;
        let mut calls = Vec::new();
        for _ in 0..4 {
            let (kv, _) = server.connect().await;
            calls.push(tokio::spawn(async move { kv.fail(&8).await.unwrap() }));
        }
        until(|| server.waits.begun.load(Relaxed) == 4).await;
        let drained = tokio::spawn(server.server.drain());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!drained.is_finished(), "calls wait for their handlers");
        server.waits.go_on.notify_waiters();
        for call in calls {
            call.await.unwrap();
        }
        drained.await.unwrap().unwrap();
        assert_eq!(server.waits.ended.load(Relaxed), 4);
    });
}

/// A server does not end before a handler whose connection was lost.
#[test]
fn handlers_end_before_the_server() {
    for threads in [None, NonZeroUsize::new(2)] {
        handlers_end_before(threads);
    }
}

/// `threads`: those of the server, or tasks of the runtime.
fn handlers_end_before(threads: Option<NonZeroUsize>) {
    run(async {
        let (waits, control) = (Arc::new(Waits::default()), ServerControl::default());
        let shared = waits.clone();
        let mut server = ServerBuilder::new(move || {
            Router::new().add_service(kv1::serve(Numbered {
                number: 0,
                waits: shared.clone(),
            }))
        });
        if let Some(threads) = threads {
            server = server.threads(threads);
        }
        let any = "127.0.0.1:0".parse().unwrap();
        let server = server.control(&control).tcp(any).start().await.unwrap();
        let mut stream = connect_from(any, server.local_addrs()[0]).await;
        send_record(&mut stream, &fail_call(1, 8)).await;
        until(|| waits.begun.load(Relaxed) == 1).await;
        cut(stream);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let drained = tokio::spawn(server.drain());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!drained.is_finished(), "a handler waits");
        waits.go_on.notify_waiters();
        drained.await.unwrap().unwrap();
        assert_eq!(waits.ended.load(Relaxed), 1);
    });
}

/// A service that is not `Send`: FAIL returns how often this thread has executed it.
struct Counter {
    thread: ThreadId,
    calls: Rc<Cell<u32>>,
}

impl LocalService for Counter {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn fail(&self, _: &Context, _: u32) -> Result<u32, RpcError> {
        let calls = self.calls.clone();
        // Its future has a value that is not `Send`, and continues on the same thread.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(thread::current().id(), self.thread);
        calls.set(calls.get() + 1);
        Ok(calls.get())
    }
}

#[test]
fn each_thread_has_a_service_that_is_not_send() {
    run(async {
        let fabric = Fabric::new();
        let router = || {
            Router::new().add_service(kv1::serve_local(Counter {
                thread: thread::current().id(),
                calls: Rc::default(),
            }))
        };
        let server = ServerBuilder::new(router)
            .threads(NonZeroUsize::new(2).unwrap())
            .rdma(&fabric.device(), "127.0.0.1:0".parse().unwrap());
        let server = server.start().await.unwrap();
        // In turns, the connections are on the first and on the second thread.
        let mut clients = Vec::new();
        for before in [0, 0, 3, 3] {
            let config = ClientConfig::new();
            let (channel, runner) = channel(&fabric.device(), server.local_addrs()[0], config);
            tokio::spawn(runner);
            let kv = Client::new(channel);
            for call in 1..=3 {
                assert_eq!(kv.fail(&9).await.unwrap(), before + call);
            }
            clients.push(kv);
        }
        server.drain().await.unwrap();
    });
}
