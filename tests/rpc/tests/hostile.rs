//! Peers that mean harm, over TCP: what they take, and what others notice of them.
//!
//! The server runs on a thread of its own, whose heap is measured. The peers have an address of
//! their own. While they attack and while they do not, in turns, another client measures how long
//! its calls take.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use allocation_counter::AllocationInfo;
use oncrpc::tcp::{Server, connect};
use oncrpc::xdr::Text;
use oncrpc::{Channel, Context, Limit, Router, RpcError, ServerControl, ServerLimits};
use rpcrdma_rpc_tests::kv::kv::kv1::{self, Client, GetResults, Service};
use rpcrdma_rpc_tests::kv::{PutArgs, owned};
use socket2::SockRef;
use support::tcp::{fail_call, get_call, send_record};
use support::{run_within, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;

/// Bytes of a result of GET.
const RESULT: usize = 64 << 10;

/// Makes new results for each call, and waits for ever if it is told to.
struct Heavy;

impl Service for Heavy {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        let value = vec![7; RESULT].into();
        Ok(owned::GetRes::True(owned::GetOk { value }.into()).into())
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(())
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        if how == 3 {
            std::future::pending::<()>().await;
        }
        Ok(how)
    }
}

const MIB: usize = 1 << 20;
/// Connections of one peer.
const CONNECTIONS: usize = 100;

fn limits() -> ServerLimits {
    ServerLimits::new()
        .max_connections_per_peer(CONNECTIONS)
        .max_calls_per_peer(200)
        .max_bytes(32 * MIB)
        .max_bytes_per_peer(8 * MIB)
        .max_bytes_per_connection(MIB)
        .handler_time(Some(Duration::from_millis(500)))
}

/// What a peer with all of its connections can make the server hold: its budget, what each
/// connection always has, and of each connection a result that exceeds the budget.
const BUDGET: usize = 8 * MIB + CONNECTIONS * ((96 << 10) + RESULT);

struct Running {
    address: SocketAddr,
    control: ServerControl,
    end: oneshot::Sender<()>,
    thread: JoinHandle<AllocationInfo>,
}

impl Running {
    fn start() -> Self {
        let control = ServerControl::new(limits());
        let (bound, address) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let controlled = control.clone();
        let thread = std::thread::spawn(move || {
            allocation_counter::measure(|| {
                on_this_thread(async {
                    let router = Router::new().add_service(kv1::serve(Heavy));
                    let server = Server::bind("127.0.0.1:0", router).await.unwrap();
                    bound.send(server.local_addr().unwrap()).unwrap();
                    let ended = async {
                        let _ = ended.await;
                    };
                    // Calls that never end are not waited for.
                    tokio::select! {
                        () = server.control(&controlled).run() => {}
                        () = ended => {}
                    }
                });
            })
        });
        Self {
            address: address.recv().unwrap(),
            control,
            end,
            thread,
        }
    }

    /// Ends the server, and returns the most bytes that its heap had.
    fn peak(self) -> usize {
        drop(self.end);
        usize::try_from(self.thread.join().unwrap().bytes_max).unwrap()
    }
}

fn on_this_thread(future: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future);
}

/// A connection of the peer that attacks, which cuts it when it ends. The system buffers little.
async fn hostile(server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
    socket.set_recv_buffer_size(8192).unwrap();
    let stream = socket.connect(server).await.unwrap();
    let linger = Some(Duration::ZERO);
    SockRef::from(&stream).set_linger(linger).unwrap();
    stream
}

/// Attacks on a thread of its own until it is dropped.
struct Attack {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Attack {
    fn start<F: Future<Output = ()>>(attack: impl FnOnce() -> F + Send + 'static) -> Self {
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            on_this_thread(async {
                tokio::select! {
                    () = attack() => {}
                    _ = ended => {}
                }
            });
        });
        Self {
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking());
        }
    }
}

/// Waits until a peer has all that it can get.
async fn settle(control: &ServerControl) {
    let (mut before, mut unchanged) = (None, 0);
    while unchanged < 5 {
        let stats = control.stats();
        let now = Some((stats.calls, stats.bytes));
        unchanged = if now == before { unchanged + 1 } else { 0 };
        before = now;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Makes calls, and adds how long each takes.
async fn measure(kv: &Client<Channel>, times: &mut Vec<Duration>) {
    for number in 0..150 {
        let started = Instant::now();
        assert_eq!(kv.fail(&(9 + number)).await.unwrap(), 9 + number);
        times.push(started.elapsed());
    }
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[times.len() * percent / 100]
}

/// How often a peer attacks, and how often the whole is measured at most: others use the machine.
const TURNS: usize = 10;
const ATTEMPTS: usize = 20;
static ALONE: Mutex<()> = Mutex::new(());
/// Differences below this are of the machine.
const NOISE: Duration = Duration::from_micros(200);

/// Lets peers attack in turns, until `is_up` each time, and checks what another client and the
/// memory of the server notice of it.
fn attack<F, A>(limit: Limit, attack: A, is_up: impl Fn(&ServerControl) -> bool)
where
    F: Future<Output = ()>,
    A: Fn(SocketAddr) -> F + Clone + Send + 'static,
{
    // What another test takes of the machine is no part of what is measured.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Running::start();
    let (address, control) = (server.address, server.control.clone());
    run_within(Duration::from_secs(300), async move {
        let kv = Client::new(connect(&address.to_string()).await.unwrap());
        for attempt in 1.. {
            let (mut quiet, mut attacked) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                let attacks = attack.clone();
                let attack = Attack::start(move || attacks(address));
                until(|| is_up(&control)).await;
                settle(&control).await;
                measure(&kv, &mut attacked).await;
                let bytes = control.stats().bytes;
                assert!(bytes <= BUDGET, "{bytes} bytes");
                drop(attack);
                until(|| {
                    let stats = control.stats();
                    (stats.connections, stats.calls_in_flight) == (1, 0)
                })
                .await;
                measure(&kv, &mut quiet).await;
            }
            let [before, during] = [&mut quiet, &mut attacked].map(|times| percentile(times, 99));
            println!("{limit}: 99 % of calls take {before:?}, and {during:?} under attack");
            if during <= 2 * before + NOISE {
                break;
            }
            assert!(
                attempt < ATTEMPTS,
                "{before:?}, and {during:?} under attack"
            );
        }
        assert!(control.stats().reached(limit) > 0);
    });
    let peak = server.peak();
    println!("{limit}: {peak} bytes at most");
    // The runtime, the other client, and the lists of what is open.
    assert!(peak <= BUDGET + MIB, "{peak} bytes");
}

/// Opens 1,000 connections each time: 10,000 in all. As many as the server accepts stay open.
async fn connect_often(server: SocketAddr) {
    let mut open = Vec::new();
    let mut count = 0;
    loop {
        let mut stream = hostile(server).await;
        count += 1;
        if open.len() < CONNECTIONS {
            open.push(stream);
            continue;
        }
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
        if count >= 1000 {
            return std::future::pending().await;
        }
        if count % 10 == 0 {
            // The other end of these connections has the same processors.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[test]
fn many_connections() {
    attack(Limit::ConnectionsPerPeer, connect_often, |control| {
        control.stats().connections > CONNECTIONS
    });
}

/// Asks for many results on each connection, and reads none.
async fn never_read(server: SocketAddr) {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = hostile(server).await;
        let calls = async {
            for xid in 0..1000 {
                send_record(&mut stream, &get_call(xid, b'a')).await;
            }
        };
        // The server stops reading.
        let _ = tokio::time::timeout(Duration::from_millis(1), calls).await;
        open.push(stream);
    }
    std::future::pending().await
}

#[test]
fn peers_that_never_read() {
    attack(Limit::BytesPerPeer, never_read, |control| {
        let stats = control.stats();
        stats.connections > CONNECTIONS && stats.bytes >= 7 * MIB
    });
}

/// Sends all of a long call but its last byte, on each connection.
async fn send_half(server: SocketAddr) {
    let half = vec![0; MIB];
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let (mut stream, half) = (hostile(server).await, half.clone());
        tasks.push(tokio::spawn(async move {
            stream.write_all(&[0x80, 0x10, 0, 1]).await.unwrap();
            stream.write_all(&half).await.unwrap();
            std::future::pending::<()>().await;
        }));
    }
    std::future::pending().await
}

#[test]
fn peers_that_send_half_a_call() {
    attack(Limit::BytesPerPeer, send_half, |control| {
        let stats = control.stats();
        stats.connections > CONNECTIONS && stats.bytes >= 7 * MIB
    });
}

/// Calls what never returns.
async fn call_for_ever(server: SocketAddr) {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = hostile(server).await;
        for xid in 0..20 {
            send_record(&mut stream, &fail_call(xid, 3)).await;
        }
        open.push(stream);
    }
    std::future::pending().await
}

#[test]
fn handlers_that_never_end() {
    attack(Limit::CallsPerPeer, call_for_ever, |control| {
        control.stats().calls_in_flight >= 200
    });
}
