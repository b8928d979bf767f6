//! Calls that must not be executed twice, over TCP.

use crate::support;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::attack::on_this_thread;
use crate::support::counting::Counting;
use crate::support::random::Rng;
use crate::support::tcp::{
    connect_from, cut, exchange, fail_call, get_call, put_call, read_record, send_record,
    serve_router,
};
use crate::support::{ALWAYS, Store, run, run_within, until};
use oncrpc::tcp::{ClientConfig, Server, channel};
use oncrpc::{
    CallError, CallErrorKind, CallOptions, ConnectionPlacement, Execution, ReplyCache,
    ReplyCacheConfig, Resend, Router, ServerControl,
};
use rpcrdma_rpc_tests::kv::kv::kv1::{self, Client};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Serves a store with a reply cache.
async fn serve(cache: &ReplyCache) -> (Arc<Store>, SocketAddr) {
    let store = Arc::new(Store::default());
    let router = Router::new().add_service(kv1::serve(store.clone()));
    let server = serve_router(router.reply_cache(cache.clone()), &ServerControl::default()).await;
    (store, server)
}

/// Returns the reply with these results to a call.
fn reply_to(call: &[u8], results: &[u8]) -> Vec<u8> {
    [&call[..4], &[0, 0, 0, 1], &[0; 16], results].concat()
}

fn any_port() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

#[test]
fn a_retransmission_during_execution_gets_the_reply() {
    run(async {
        let cache = ReplyCache::default();
        let (store, server) = serve(&cache).await;
        let mut first = connect_from(any_port(), server).await;
        let local = first.local_addr().unwrap();
        send_record(&mut first, &fail_call(7, 8)).await;
        until(|| store.waiting.load(Relaxed) == 1).await;
        cut(first);
        let mut second = connect_from(local, server).await;
        send_record(&mut second, &fail_call(7, 8)).await;
        until(|| cache.stats().in_progress == 1).await;
        // It does not block other calls.
        let other = exchange(&mut second, &fail_call(8, 9)).await;
        assert_eq!(other[..4], [0, 0, 0, 8]);
        store.go_on.notify_waiters();
        let reply = read_record(&mut second).await;
        assert_eq!((&reply[..4], reply[27]), (&[0, 0, 0, 7][..], 8));
        assert_eq!(store.fails.load(Relaxed), 2);
        assert_eq!(exchange(&mut second, &fail_call(7, 8)).await, reply);
        assert_eq!((store.fails.load(Relaxed), cache.stats().hits), (2, 1));
    });
}

#[test]
fn credentials_and_arguments_distinguish_calls() {
    run(async {
        let cache = ReplyCache::default();
        let (store, server) = serve(&cache).await;
        let mut stream = connect_from(any_port(), server).await;
        let mut call = fail_call(7, 9);
        exchange(&mut stream, &call).await;
        exchange(&mut stream, &fail_call(7, 10)).await;
        // A flavor that the service ignores, without a body.
        call[27] = 99;
        exchange(&mut stream, &call).await;
        assert_eq!(store.fails.load(Relaxed), 3);
    });
}

/// The limits of the guarantee in the documentation: each of them is counted, and a retransmitted
/// call is executed again.
#[test]
fn the_guarantee_has_the_documented_limits() {
    run(async {
        let config = ReplyCacheConfig::new();
        let again = [fail_call(1, 9), fail_call(2, 9), fail_call(1, 9)];
        let expect = async |cache: &ReplyCache, executed| {
            let (store, server) = serve(cache).await;
            let mut stream = connect_from(any_port(), server).await;
            for call in &again {
                exchange(&mut stream, call).await;
            }
            assert_eq!(store.fails.load(Relaxed), executed);
            stream.local_addr().unwrap()
        };
        let cache = ReplyCache::new(config);
        let local = expect(&cache, 2).await;
        // Eviction, and age.
        let cache = ReplyCache::new(config.max_replies(1));
        expect(&cache, 3).await;
        assert_eq!(cache.stats().evicted, 2);
        let cache = ReplyCache::new(config.max_age(Duration::ZERO));
        expect(&cache, 3).await;
        assert_eq!(cache.stats().expired, 3);
        // A reply that is too large is lost, but the call is not executed again.
        let cache = ReplyCache::new(config.max_reply(10));
        expect(&cache, 2).await;
        assert_eq!(cache.stats().too_large, 2);
        // A restarted server has an empty cache. Calls are counted while those to the server before
        // can come again.
        let cache = ReplyCache::new(config);
        let (store, server) = serve(&cache).await;
        let mut stream = connect_from(local, server).await;
        exchange(&mut stream, &again[0]).await;
        assert_eq!(store.fails.load(Relaxed), 1);
        assert_eq!(cache.stats().after_start, 1);
        let cache = ReplyCache::new(config.max_age(Duration::ZERO));
        expect(&cache, 3).await;
        assert_eq!(cache.stats().after_start, 0);
    });
}

/// Bytes that are allocated at most while a cache of this size gets many calls of one connection.
fn peak_with_cache(max_bytes: usize) -> u64 {
    let counted = allocation_counter::measure(|| {
        on_this_thread(async {
            let cache = ReplyCache::new(ReplyCacheConfig::new().max_bytes(max_bytes));
            let (_, server) = serve(&cache).await;
            let mut stream = connect_from(any_port(), server).await;
            for first in (0..12_000).step_by(100) {
                for xid in first..first + 100 {
                    send_record(&mut stream, &fail_call(xid, 9)).await;
                }
                for _ in 0..100 {
                    read_record(&mut stream).await;
                }
            }
            let is_full = cache.stats().evicted > 0;
            assert_eq!(is_full, max_bytes > 0);
        });
    });
    counted.bytes_max
}

#[test]
fn the_bound_of_the_cache_holds_for_small_replies() {
    let without = peak_with_cache(0);
    for max_bytes in [1 << 20, 3 << 19, 2 << 20] {
        let taken = peak_with_cache(max_bytes).saturating_sub(without);
        println!("{taken} bytes for {max_bytes}");
        assert!(taken <= max_bytes as u64, "{taken} bytes for {max_bytes}");
    }
}

#[test]
fn routers_share_one_cache() {
    run(async {
        let cache = ReplyCache::default();
        let ((one, first), (two, second)) = (serve(&cache).await, serve(&cache).await);
        let mut stream = connect_from(any_port(), first).await;
        let local = stream.local_addr().unwrap();
        let reply = exchange(&mut stream, &put_call(1, b'a')).await;
        exchange(&mut stream, &get_call(2, b'a')).await;
        let mut stream = connect_from(local, second).await;
        assert_eq!(exchange(&mut stream, &put_call(1, b'a')).await, reply);
        assert_eq!((one.puts.load(Relaxed), two.puts.load(Relaxed)), (1, 0));
        assert_eq!(cache.stats().executed, 1, "GET is idempotent");
    });
}

/// Each connection of the client is on another thread.
#[test]
fn threads_share_one_cache() {
    run(async {
        let store = Arc::new(Store::default());
        let (served, in_turn) = (store.clone(), ConnectionPlacement::RoundRobin);
        let router = move || Router::new().add_service(kv1::serve(served.clone()));
        let threads = NonZeroUsize::new(2).unwrap();
        let server = Server::bind_threads("127.0.0.1:0", threads, router, in_turn);
        let server = server.await.unwrap();
        let address = server.local_addr().unwrap();
        tokio::spawn(server.run());
        let mut first = connect_from(any_port(), address).await;
        let local = first.local_addr().unwrap();
        let reply = exchange(&mut first, &put_call(1, b'a')).await;
        cut(first);
        let mut second = connect_from(local, address).await;
        assert_eq!(exchange(&mut second, &put_call(1, b'a')).await, reply);
        assert_eq!(store.puts.load(Relaxed), 1);
    });
}

/// If the client cannot reuse its port, no reply cache recognizes it, so calls that were sent are
/// not retransmitted.
#[test]
fn another_port_is_another_client() {
    run(async { while !loses_its_port().await {} });
}

/// Returns false if the client's port cannot be taken: for a minute after its end, a connection of
/// another program keeps the ports of its two ends.
async fn loses_its_port() -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let (channel, runner) = channel(&server, ClientConfig::new());
    tokio::spawn(runner);
    let kv = Client::new(channel);
    let always = kv.fail(&9).resend(ALWAYS).into_future();
    let (mut first, local) = listener.accept().await.unwrap();
    read_record(&mut first).await;
    let idempotent = tokio::spawn({
        let kv = kv.clone();
        async move { kv.null().await }
    });
    // The port is free for the server's end only after the client has closed its own.
    drop((first, listener));
    let taking = tokio::time::timeout(Duration::from_millis(300), taken(local));
    let Ok(taken) = taking.await else {
        return false;
    };
    let listener = TcpListener::bind(&server).await.unwrap();
    let (mut second, other) = listener.accept().await.unwrap();
    assert_ne!(other, local);
    let error = always.await.unwrap_err();
    assert!(
        matches!(error.kind(), CallErrorKind::ConnectionLost(_)),
        "{error}"
    );
    assert_eq!(error.execution(), Execution::Unknown);
    // NULL may be executed twice.
    let call = read_record(&mut second).await;
    send_record(&mut second, &reply_to(&call, &[])).await;
    idempotent.await.unwrap().unwrap();
    drop(taken);
    true
}

/// Waits until a port is free, and takes it.
async fn taken(local: SocketAddr) -> TcpListener {
    loop {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        if socket.bind(local).is_ok() {
            break socket.listen(1).unwrap();
        }
        tokio::task::yield_now().await;
    }
}

/// Returns the options of a server that keeps replies for this time.
fn kept_for(cache_lifetime: Duration) -> CallOptions {
    CallOptions::DEFAULT.resend(Resend::Always { cache_lifetime })
}

#[track_caller]
fn assert_expired(error: &CallError) {
    let text = "the connection was lost, and not restored within the lifetime of the reply cache: \
        closed by the server";
    support::assert_error(error, text, Execution::Unknown);
}

/// When the server may have forgotten the reply, a call is not sent again.
#[test]
fn a_call_is_not_retransmitted_after_the_lifetime_of_the_cache() {
    const LIFETIME: Duration = Duration::from_millis(300);
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (channel, runner) = channel(
            &listener.local_addr().unwrap().to_string(),
            ClientConfig::new(),
        );
        tokio::spawn(runner);
        let kv = Client::new(channel).with_options(kept_for(LIFETIME));
        let (late, idempotent) = tokio::join!(kv.fail(&9).into_future(), async {
            let (mut first, _) = listener.accept().await.unwrap();
            let late = read_record(&mut first).await;
            let idempotent = tokio::spawn({
                let kv = kv.clone();
                async move { kv.null().await }
            });
            let null = read_record(&mut first).await;
            // It waits for its reply as long as its connection lives.
            tokio::time::sleep(2 * LIFETIME).await;
            drop(first);
            let (mut second, _) = listener.accept().await.unwrap();
            let again = read_record(&mut second).await;
            assert_ne!(late, null);
            assert_eq!(again, null, "NULL is idempotent");
            send_record(&mut second, &reply_to(&again, &[])).await;
            idempotent.await.unwrap()
        });
        assert_expired(&late.unwrap_err());
        idempotent.unwrap();
    });
}

#[test]
fn a_call_that_waits_for_a_connection_fails_at_the_end_of_the_lifetime() {
    const LIFETIME: Duration = Duration::from_millis(300);
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let config = ClientConfig::new().connect_timeout(Duration::from_secs(3600));
        let (channel, runner) = channel(&server.to_string(), config);
        tokio::spawn(runner);
        let kv = Client::new(channel).with_options(kept_for(LIFETIME));
        let started = std::time::Instant::now();
        let sent = kv.fail(&9).into_future();
        let (mut first, _) = listener.accept().await.unwrap();
        read_record(&mut first).await;
        drop((listener, first));
        assert_expired(&sent.await.unwrap_err());
        let elapsed = started.elapsed();
        assert!(
            elapsed >= LIFETIME && elapsed < 20 * LIFETIME,
            "{elapsed:?}"
        );
        // The next call is sent alone.
        let next = kv.fail(&8).into_future();
        let listener = TcpListener::bind(server).await.unwrap();
        let (mut second, _) = listener.accept().await.unwrap();
        let call = read_record(&mut second).await;
        assert_eq!(call[43], 8);
        send_record(&mut second, &reply_to(&call, &[0, 0, 0, 8])).await;
        assert_eq!(next.await.unwrap(), 8);
    });
}

/// Within the lifetime, calls are sent again any number of times.
#[test]
fn a_call_is_retransmitted_within_the_lifetime_of_the_cache() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let (channel, runner) = channel(&server, ClientConfig::new());
        tokio::spawn(runner);
        let kv = Client::new(channel).with_options(kept_for(Duration::from_secs(50)));
        let call = kv.fail(&9).into_future();
        let mut calls = Vec::new();
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().await.unwrap();
            calls.push(read_record(&mut stream).await);
        }
        assert!(calls.iter().all(|call| *call == calls[0]));
        let (mut last, _) = listener.accept().await.unwrap();
        let again = read_record(&mut last).await;
        send_record(&mut last, &reply_to(&again, &[0, 0, 0, 9])).await;
        assert_eq!(call.await.unwrap(), 9);
    });
}

#[test]
fn a_fail_fast_call_fails_with_the_first_attempt() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        drop(listener);
        let config = ClientConfig::new().connect_timeout(Duration::from_secs(3600));
        let (channel, runner) = channel(&server.to_string(), config);
        tokio::spawn(runner);
        let kv = Client::new(channel);
        let waits = kv.fail(&9).into_future();
        let options = CallOptions::DEFAULT.wait_for_connection(false);
        let impatient = kv.clone().with_options(options);
        for _ in 0..10 {
            let error = impatient.fail(&9).await.unwrap_err();
            assert!(matches!(error.kind(), CallErrorKind::Connect(_)), "{error}");
            assert_eq!(error.execution(), Execution::NotExecuted);
        }
        let store = Arc::new(Store::default());
        let router = Router::new().add_service(kv1::serve(store.clone()));
        tokio::spawn(Server::bind(server, router).await.unwrap().run());
        assert_eq!(waits.await.unwrap(), 9);
        assert_eq!(impatient.fail(&9).await.unwrap(), 9);
    });
}

/// Forwards connections, and cuts each after a random number of bytes. The server sees every client
/// at another address, with the client's port.
async fn cutting_proxy(server: SocketAddr, mut rng: Rng, cuts: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (client, from) = listener.accept().await.unwrap();
            let (rng, cuts) = (rng.split(), cuts.clone());
            tokio::spawn(async move {
                let local = ([127, 0, 0, 2], from.port()).into();
                let _ = forward(client, local, server, rng, &cuts).await;
            });
        }
    });
    address
}

async fn forward(
    mut client: TcpStream,
    local: SocketAddr,
    server: SocketAddr,
    mut rng: Rng,
    cuts: &AtomicBool,
) -> io::Result<()> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(local)?;
    // A lost packet is retransmitted only after a second, and the client also reconnects.
    let connecting = tokio::time::timeout(Duration::from_millis(200), socket.connect(server));
    let mut upstream = connecting.await??;
    let linger = Some(Duration::ZERO);
    socket2::SockRef::from(&upstream).set_linger(linger)?;
    let mut left = usize::try_from(1 + rng.below(16_000)).unwrap();
    let mut buffers = [[0; 512]; 2];
    let [up, down] = &mut buffers;
    loop {
        let (from, to, bytes) = tokio::select! {
            count = client.read(up) => (count?, &mut upstream, &up[..]),
            count = upstream.read(down) => (count?, &mut client, &down[..]),
        };
        let count = if cuts.load(Relaxed) {
            from.min(left)
        } else {
            from
        };
        to.write_all(&bytes[..count]).await?;
        left = left.saturating_sub(count);
        if from == 0 || left == 0 && cuts.load(Relaxed) {
            break;
        }
    }
    // The server's end is closed first, so that its port is free when the client reconnects.
    drop(upstream);
    if rng.below(2) == 0 {
        cut(client);
    }
    Ok(())
}

#[test]
fn no_call_is_executed_twice_when_connections_are_cut_at_random() {
    cut_at_random(None);
}

#[test]
fn no_call_is_executed_twice_when_connections_to_threads_are_cut_at_random() {
    cut_at_random(NonZeroUsize::new(3));
}

/// `threads`: those of the server, or tasks of the runtime.
fn cut_at_random(threads: Option<NonZeroUsize>) {
    let mut rng = Rng::from_environment();
    run_within(Duration::from_secs(180), async {
        let counting = Arc::new(Counting::new(rng.split()));
        let cache = ReplyCache::default();
        let control = ServerControl::default();
        let (served, kept) = (counting.clone(), cache.clone());
        let router = move || {
            let router = Router::new().add_service(kv1::serve(served.clone()));
            router.reply_cache(kept.clone())
        };
        let server = match threads {
            None => serve_router(router(), &control).await,
            Some(threads) => {
                let in_turn = ConnectionPlacement::RoundRobin;
                let server = Server::bind_threads("127.0.0.1:0", threads, router, in_turn).await;
                let server = server.unwrap().control(&control);
                let address = server.local_addr().unwrap();
                tokio::spawn(server.run());
                address
            }
        };
        let cuts = Arc::new(AtomicBool::new(true));
        let proxy = cutting_proxy(server, rng.split(), cuts.clone()).await;
        counting
            .execute(|| {
                let (channel, runner) = channel(&proxy.to_string(), ClientConfig::new());
                tokio::spawn(runner);
                channel
            })
            .await;
        counting.check(&cache, &control).await;
    });
}
