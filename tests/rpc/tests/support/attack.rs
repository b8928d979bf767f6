//! Peers that mean harm: what they take of a server, and what others notice of them.
//!
//! The server runs on a thread of its own, whose heap is measured. The peers have an address of
//! their own. While they attack and while they do not, in turns, another client measures how long
//! its calls take.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use allocation_counter::AllocationInfo;
use oncrpc::xdr::Text;
use oncrpc::{
    Channel, Context, Limit, ReplyCacheConfig, Router, RpcError, ServerControl, ServerLimits,
    ServerStats,
};
use rpcrdma_rpc_tests::kv::kv::kv1::{self, Client, GetResults, Service};
use rpcrdma_rpc_tests::kv::{PutArgs, owned};
use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;

use super::{key, run_within, until};

/// What the server offers.
pub type AttackedRouter = Router<(kv1::Server<Heavy>, ())>;

/// A transport that is attacked.
pub trait Transport: Copy + Send + 'static {
    /// Bytes that the server may take beside the peer's budget.
    const FIXED: usize;

    /// Serves until it is dropped.
    fn serve(
        self,
        router: AttackedRouter,
        control: ServerControl,
        bound: mpsc::Sender<SocketAddr>,
    ) -> impl Future<Output = ()>;

    /// Connects a client that means no harm.
    fn connect(self, server: SocketAddr) -> impl Future<Output = Channel> + Send;
}

/// Bytes of a result of GET.
pub const RESULT: usize = 64 << 10;
/// The key whose result has more bytes, and their number.
pub const LARGE: u8 = b'l';
pub const LARGE_RESULT: usize = 256 << 10;

/// The key whose PUT takes longer than transfers may take.
pub const SLOW: &str = "slow";

/// Makes new results for each call, and waits for ever if it is told to.
#[derive(Debug)]
pub struct Heavy;

impl Service for Heavy {
    async fn get(&self, _: &Context, key: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        let is_large = key.as_bytes() == [LARGE];
        let value = vec![7; if is_large { LARGE_RESULT } else { RESULT }].into();
        Ok(owned::GetRes::True(owned::GetOk { value }.into()).into())
    }

    async fn put(&self, _: &Context, args: PutArgs<'_>) -> Result<(), RpcError> {
        if args.key.as_bytes() == SLOW.as_bytes() {
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
        Ok(())
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        if how == 3 {
            std::future::pending::<()>().await;
        }
        Ok(how)
    }
}

pub const MIB: usize = 1 << 20;
/// Connections of one peer.
pub const CONNECTIONS: usize = 100;

fn limits() -> ServerLimits {
    ServerLimits::new()
        .max_connections_per_peer(CONNECTIONS)
        .max_calls_per_peer(200)
        .max_bytes(32 * MIB)
        .max_bytes_per_peer(8 * MIB)
        .max_bytes_per_connection(MIB)
        .handler_time(Some(Duration::from_millis(500)))
}

/// The bound of the reply cache. The more often a test measures, the more calls it gets.
const REPLIES: usize = MIB;

/// What a peer with all of its connections can make the server hold: its budget, what each
/// connection always has, of each connection a result that exceeds the budget, and the reply cache.
const BUDGET: usize = 8 * MIB + CONNECTIONS * ((96 << 10) + RESULT) + REPLIES;

struct Running {
    address: SocketAddr,
    control: ServerControl,
    end: oneshot::Sender<()>,
    thread: JoinHandle<AllocationInfo>,
}

impl Running {
    fn start(transport: impl Transport) -> Self {
        let control = ServerControl::new(limits());
        let (bound, address) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let controlled = control.clone();
        let thread = std::thread::spawn(move || {
            allocation_counter::measure(|| {
                on_this_thread(async {
                    let router = Router::new().add_service(kv1::serve(Heavy));
                    let router = router.reply_cache(ReplyCacheConfig::new().max_bytes(REPLIES));
                    // Calls that never end are not waited for.
                    tokio::select! {
                        () = transport.serve(router, controlled, bound) => {}
                        _ = ended => {}
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

/// Runs a future on this thread, on which allocations are counted.
pub fn on_this_thread(future: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future);
}

/// A connection of the peer that attacks, which cuts it when it ends. The system buffers little.
pub async fn hostile(server: SocketAddr) -> TcpStream {
    let connected = try_hostile(server).await;
    connected.unwrap_or_else(|error| panic!("can't connect: {error}"))
}

/// The same, or the error of a server that rejects it.
pub async fn try_hostile(server: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
    socket.set_recv_buffer_size(8192).unwrap();
    let stream = socket.connect(server).await?;
    stream.set_nodelay(true)?;
    let linger = Some(Duration::ZERO);
    SockRef::from(&stream).set_linger(linger)?;
    Ok(stream)
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

/// Waits until a peer has all that it can get, but not for ever: it may go on.
async fn settle(control: &ServerControl) {
    let (mut before, mut unchanged) = (None, 0);
    for _ in 0..100 {
        if unchanged == 5 {
            return;
        }
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
        if number % 10 == 0 {
            // It takes memory of the server.
            let owned::GetRes::True(found) = kv.get(&key("a")).await.unwrap() else {
                panic!("no value");
            };
            assert_eq!(found.value.len(), RESULT);
        }
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
/// memory of the server notice of it. `is_up` gets the counters, and how often the limit was
/// reached in this turn.
pub fn attack<T, F, A>(
    transport: T,
    limit: Limit,
    attack: A,
    is_up: impl Fn(&ServerStats, u64) -> bool,
) where
    T: Transport,
    F: Future<Output = ()>,
    A: Fn(SocketAddr) -> F + Clone + Send + 'static,
{
    // What another test takes of the machine is no part of what is measured.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Running::start(transport);
    let (address, control) = (server.address, server.control.clone());
    run_within(Duration::from_secs(300), async move {
        let kv = Client::new(transport.connect(address).await);
        for attempt in 1.. {
            let (mut quiet, mut attacked) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                let attacks = attack.clone();
                let before = control.stats().reached(limit);
                let attack = Attack::start(move || attacks(address));
                until(|| {
                    let stats = control.stats();
                    is_up(&stats, stats.reached(limit) - before)
                })
                .await;
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
    assert!(peak <= BUDGET + T::FIXED, "{peak} bytes");
}
