//! Servers that call their clients over TCP, with peers that send arbitrary messages.

use crate::support;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::tcp::{cut, fail_call, put_call, read_record, send_record};
use crate::support::{Store, assert_error, run, until};
use kv1::{Client, GetResults, Service};
use oncrpc::xdr::Text;
use oncrpc::{
    CallError, Channel, Context, Execution, Limit, Router, RpcError, ServerControl, ServerLimits,
    tcp,
};
use rpcrdma_rpc_tests::kv::PutArgs;
use rpcrdma_rpc_tests::kv::kv::kv1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

/// A server whose FAIL calls the client's FAIL.
#[derive(Default)]
struct Mirror {
    results: Mutex<Vec<Result<u32, CallError>>>,
    channel: Mutex<Option<Channel>>,
    connections: Mutex<Vec<Option<u64>>>,
    puts: AtomicUsize,
    /// Lets the PUTs of the key `w` and the FAILs of [`WAITS`] end.
    go_on: Notify,
}

/// The FAIL that waits after its call to the client, which gets no answer, has failed.
const WAITS: u32 = 7;

impl Mirror {
    /// Takes the result of a backward call once it is available.
    async fn result(&self) -> Result<u32, CallError> {
        until(|| !self.results.lock().unwrap().is_empty()).await;
        self.results.lock().unwrap().remove(0)
    }
}

impl Service for Mirror {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn put(&self, _: &Context, args: PutArgs<'_>) -> Result<(), RpcError> {
        let goes_on = self.go_on.notified();
        self.puts.fetch_add(1, Relaxed);
        if args.key.as_bytes() == b"w" {
            goes_on.await;
        }
        Ok(())
    }

    async fn fail(&self, cx: &Context, how: u32) -> Result<u32, RpcError> {
        let channel = cx.caller();
        *self.channel.lock().unwrap() = Some(channel.clone());
        self.connections.lock().unwrap().push(cx.connection());
        let goes_on = self.go_on.notified();
        let client = Client::new(channel);
        let call = client.fail(&how);
        let result = if how == WAITS {
            call.timeout(Duration::from_millis(50)).await
        } else {
            call.await
        };
        self.results.lock().unwrap().push(result.clone());
        if how == WAITS {
            goes_on.await;
        }
        Ok(result?)
    }
}

struct Running {
    address: SocketAddr,
    mirror: Arc<Mirror>,
    end: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

async fn serve(control: &ServerControl) -> Running {
    let mirror = Arc::new(Mirror::default());
    let router = Router::new().add_service(kv1::serve(mirror.clone()));
    let server = tcp::Server::bind("127.0.0.1:0", router).await.unwrap();
    let server = server.control(control);
    let address = server.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let task = tokio::spawn(server.run_until(async {
        let _ = ended.await;
    }));
    Running {
        address,
        mirror,
        end,
        task,
    }
}

async fn connect(address: SocketAddr) -> (Client<Channel>, Arc<Store>) {
    let store = Arc::new(Store::default());
    let services = Router::new().add_service(kv1::serve(store.clone()));
    let config = tcp::ClientConfig::new();
    let channel = tcp::connect_with_services(&address.to_string(), config, services).await;
    (Client::new(channel.unwrap()), store)
}

fn word(record: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(record[4 * at..][..4].try_into().unwrap())
}

/// Returns a reply of FAIL (RFC 5531, section 9).
fn fail_reply(xid: u32, result: u32) -> Vec<u8> {
    let words = [xid, 1, 0, 0, 0, 0, result];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The two directions of one connection have independent XIDs.
#[test]
fn both_directions_may_have_the_same_xids() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let mut client = TcpStream::connect(server.address).await.unwrap();
        send_record(&mut client, &fail_call(1, 9)).await;
        let first = read_record(&mut client).await;
        assert_eq!(
            (word(&first, 1), word(&first, 5), word(&first, 10)),
            (0, 3, 9)
        );
        let next = word(&first, 0).wrapping_add(1);
        send_record(&mut client, &fail_reply(word(&first, 0), 10)).await;
        assert_eq!(read_record(&mut client).await, fail_reply(1, 10));

        // The client's call has the XID that the server's next call will have.
        send_record(&mut client, &fail_call(next, 11)).await;
        let call = read_record(&mut client).await;
        assert_eq!((word(&call, 0), word(&call, 1)), (next, 0));
        send_record(&mut client, &fail_reply(next, 12)).await;
        assert_eq!(read_record(&mut client).await, fail_reply(next, 12));
    });
}

/// A reply without a call is dropped, and a malformed reply fails its call.
#[test]
fn unmatched_replies_are_harmless() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let mut client = TcpStream::connect(server.address).await.unwrap();
        send_record(&mut client, &fail_reply(77, 1)).await;
        send_record(&mut client, &fail_call(1, 9)).await;
        let call = read_record(&mut client).await;
        let xid = word(&call, 0);
        send_record(&mut client, &fail_reply(xid.wrapping_sub(1), 1)).await;
        send_record(&mut client, &fail_reply(xid, 10)[..26]).await;
        let error = server.mirror.result().await.unwrap_err();
        assert_eq!(error.execution(), Execution::Executed, "{error}");
        assert!(error.to_string().contains("can't be decoded"), "{error}");
        // The first of two replies is used.
        assert_eq!(word(&read_record(&mut client).await, 0), 1);
        send_record(&mut client, &fail_call(2, 9)).await;
        let xid = word(&read_record(&mut client).await, 0);
        send_record(&mut client, &fail_reply(xid, 20)).await;
        send_record(&mut client, &fail_reply(xid, 21)).await;
        assert_eq!(read_record(&mut client).await, fail_reply(2, 20));
        assert_eq!(server.mirror.result().await.unwrap(), 20);
    });
}

#[test]
fn calls_fail_with_their_connection() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let text = "the connection was lost: closed by the client";
        // The client closes its side, and still receives replies.
        let mut client = TcpStream::connect(server.address).await.unwrap();
        send_record(&mut client, &fail_call(1, 9)).await;
        read_record(&mut client).await;
        client.shutdown().await.unwrap();
        let error = server.mirror.result().await.unwrap_err();
        assert_error(&error, text, Execution::Unknown);
        // The handler has failed, and the reply reports it.
        assert_eq!(word(&read_record(&mut client).await, 0), 1);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        // Later calls are not executed.
        let channel = server.mirror.channel.lock().unwrap().clone().unwrap();
        let error = Client::new(channel).fail(&9).await.unwrap_err();
        assert_error(&error, text, Execution::NotExecuted);

        let mut client = TcpStream::connect(server.address).await.unwrap();
        send_record(&mut client, &fail_call(1, 9)).await;
        read_record(&mut client).await;
        cut(client);
        let error = server.mirror.result().await.unwrap_err();
        assert!(
            error.to_string().contains("the connection was lost"),
            "{error}"
        );
        assert_eq!(error.execution(), Execution::Unknown);
        let connections = server.mirror.connections.lock().unwrap().clone();
        assert!(connections[0].is_some() && connections[0] != connections[1]);
    });
}

#[test]
fn a_reconnected_client_is_called_again() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        // A proxy that cuts its first connection.
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, store) = connect(proxy.local_addr().unwrap()).await;
        let (mut near, _) = proxy.accept().await.unwrap();
        let mut far = TcpStream::connect(server.address).await.unwrap();
        let first = tokio::spawn({
            let client = client.clone();
            async move { client.fail(&3).await }
        });
        let relayed = tokio::spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            panic!("an end has closed the connection");
        });
        until(|| store.fails.load(Relaxed) == 1).await;
        // Both streams end when they are dropped.
        relayed.abort();
        let error = server.mirror.result().await.unwrap_err();
        assert_eq!(error.execution(), Execution::Unknown, "{error}");
        first.await.unwrap().unwrap_err();
        tokio::spawn(async move {
            let (mut near, _) = proxy.accept().await.unwrap();
            let mut far = TcpStream::connect(server.address).await.unwrap();
            tokio::io::copy_bidirectional(&mut near, &mut far)
                .await
                .unwrap();
        });
        assert_eq!(client.fail(&9).await.unwrap(), 9);
    });
}

/// The deadline of a call holds, although the client sends without a pause.
#[test]
fn deadlines_hold_while_a_client_floods_its_server() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let mut client = TcpStream::connect(server.address).await.unwrap();
        send_record(&mut client, &fail_call(1, WAITS)).await;
        let client = client.into_std().unwrap();
        client.set_nonblocking(false).unwrap();
        let flood = std::thread::spawn({
            let mut client = client.try_clone().unwrap();
            move || {
                let replies = [0x80, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 1].repeat(10_000);
                while std::io::Write::write_all(&mut client, &replies).is_ok() {}
            }
        });
        let result = tokio::time::timeout(Duration::from_secs(10), server.mirror.result());
        let error = result.await.unwrap().unwrap_err();
        // On a busy machine the call may not have been sent whole, beside the flood.
        let text = error.to_string();
        assert!(text.contains(": not done within 50ms: "), "{text}");
        assert_eq!(error.execution(), Execution::Unknown);
        client.shutdown(std::net::Shutdown::Both).unwrap();
        flood.join().unwrap();
    });
}

/// Neither end stops before the calls in progress are answered.
#[test]
fn both_ends_drain() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let (client, store) = connect(server.address).await;
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.fail(&8).await }
        });
        until(|| store.waiting.load(Relaxed) == 1).await;
        drop(server.end);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!server.task.is_finished() && !call.is_finished());
        store.go_on.notify_waiters();
        assert_eq!(call.await.unwrap().unwrap(), 8);
        server.task.await.unwrap();

        // A client whose last handle was dropped still answers.
        let server = serve(&ServerControl::default()).await;
        let (client, store) = connect(server.address).await;
        client.fail(&9).await.unwrap();
        let channel = server.mirror.channel.lock().unwrap().clone().unwrap();
        let call = tokio::spawn(async move { Client::new(channel).fail(&8).await });
        until(|| store.waiting.load(Relaxed) == 1).await;
        drop(client);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!call.is_finished());
        store.go_on.notify_waiters();
        assert_eq!(call.await.unwrap().unwrap(), 8);
        let channel = server.mirror.channel.lock().unwrap().clone().unwrap();
        let error = Client::new(channel).fail(&9).await.unwrap_err();
        assert!(
            error.to_string().contains("the connection was lost"),
            "{error}"
        );
    });
}

/// A handler that waits for its client receives the reply, even if many calls arrive before it.
#[test]
fn replies_pass_calls_delayed_by_limits() {
    run(async {
        let limits = ServerLimits::new().max_calls_per_connection(2);
        let control = ServerControl::new(limits);
        let server = serve(&control).await;
        let mut client = TcpStream::connect(server.address).await.unwrap();
        send_record(&mut client, &fail_call(1, 9)).await;
        send_record(&mut client, &fail_call(2, 9)).await;
        let xids = [
            read_record(&mut client).await,
            read_record(&mut client).await,
        ];
        // Two handlers wait, which is the limit.
        send_record(&mut client, &put_call(3, b'a')).await;
        send_record(&mut client, &put_call(4, b'a')).await;
        send_record(&mut client, &fail_reply(word(&xids[0], 0), 5)).await;
        let mut replied = Vec::new();
        for _ in 0..3 {
            replied.push(word(&read_record(&mut client).await, 0));
        }
        replied.sort_unstable();
        assert_eq!(replied, [1, 3, 4]);
        assert_eq!(server.mirror.puts.load(Relaxed), 2);
        send_record(&mut client, &fail_reply(word(&xids[1], 0), 6)).await;
        assert_eq!(read_record(&mut client).await, fail_reply(2, 6));

        // The number of delayed calls is limited.
        send_record(&mut client, &fail_call(11, 9)).await;
        send_record(&mut client, &fail_call(12, 9)).await;
        assert_eq!(word(&read_record(&mut client).await, 1), 0);
        assert_eq!(word(&read_record(&mut client).await, 1), 0);
        for xid in 13..16 {
            send_record(&mut client, &put_call(xid, b'a')).await;
        }
        let gone = client.read(&mut [0; 1]).await;
        assert!(matches!(gone, Ok(0) | Err(_)), "{gone:?}");
        assert_eq!(server.mirror.puts.load(Relaxed), 2);
        assert!(control.stats().reached(Limit::CallsPerConnection) > 0);
    });
}

const MIB: usize = 1 << 20;

/// Returns a PUT of a long value under a key of one letter.
fn long_put(xid: u32, key: u8, len: usize) -> Vec<u8> {
    let mut call = put_call(xid, key);
    call.truncate(call.len() - 4);
    call.extend_from_slice(&u32::try_from(len).unwrap().to_be_bytes());
    call.resize(call.len() + len, 7);
    call
}

/// Connects a client, and calls FAIL, whose handler waits for an answer of the client. Returns the
/// connection, and the answer.
async fn call_and_owe(server: &Running, xid: u32) -> (TcpStream, Vec<u8>) {
    let mut client = TcpStream::connect(server.address).await.unwrap();
    send_record(&mut client, &fail_call(xid, 9)).await;
    let call = read_record(&mut client).await;
    (client, fail_reply(word(&call, 0), 9))
}

#[test]
fn a_delayed_call_counts_once() {
    run(async {
        let limits = ServerLimits::new().max_calls_per_connection(1);
        let control = ServerControl::new(limits);
        let server = serve(&control).await;
        let (mut client, answer) = call_and_owe(&server, 1).await;
        send_record(&mut client, &long_put(2, b'w', MIB)).await;
        // The PUT is delayed when the next record is read.
        let put = long_put(3, b'a', MIB / 2);
        let marker = (1 << 31 | u32::try_from(put.len()).unwrap()).to_be_bytes();
        client.write_all(&marker).await.unwrap();
        until(|| control.stats().bytes >= MIB + MIB / 2).await;
        control.set_limits(limits.max_calls_per_connection(2));
        until(|| control.stats().calls_in_flight == 2).await;
        let bytes = control.stats().bytes;
        assert!((MIB + MIB / 2..2 * MIB).contains(&bytes), "{bytes}");
        server.mirror.go_on.notify_waiters();
        client.write_all(&put).await.unwrap();
        send_record(&mut client, &answer).await;
        for _ in 0..3 {
            read_record(&mut client).await;
        }
        until(|| control.stats().bytes == 0).await;
    });
}

/// A call that begins while a record is being read does not change the count of the record.
#[test]
fn a_delayed_call_leaves_the_count_of_the_next_record() {
    run(async {
        let limits = ServerLimits::new().max_calls_per_connection(1);
        let control = ServerControl::new(limits);
        let server = serve(&control).await;
        let (mut client, _) = call_and_owe(&server, 1).await;
        send_record(&mut client, &put_call(2, b'w')).await;
        client.write_all(&[0x80, 0x10, 0, 0, 1]).await.unwrap();
        until(|| control.stats().bytes >= MIB).await;
        control.set_limits(limits.max_calls_per_connection(2));
        until(|| control.stats().calls_in_flight == 2).await;
        assert!(control.stats().bytes >= MIB);
        drop(client);
        until(|| control.stats().bytes < MIB).await;
    });
}

/// A record that is read beyond the limits counts, too, and the call in it begins although it is
/// larger than they are.
#[test]
fn calls_beyond_the_limits_count_and_begin() {
    run(async {
        let limits = ServerLimits::new().max_calls_per_connection(1);
        let control = ServerControl::new(limits.max_bytes_per_peer(MIB / 2));
        let server = serve(&control).await;
        let (mut client, answer) = call_and_owe(&server, 1).await;
        let put = long_put(2, b'a', MIB);
        let marker = (1 << 31 | u32::try_from(put.len()).unwrap()).to_be_bytes();
        let (half, rest) = put.split_at(put.len() / 2);
        client.write_all(&[&marker, half].concat()).await.unwrap();
        until(|| control.stats().bytes >= MIB).await;
        client.write_all(rest).await.unwrap();
        send_record(&mut client, &answer).await;
        let replies = [
            read_record(&mut client).await,
            read_record(&mut client).await,
        ];
        assert_eq!(replies.map(|reply| word(&reply, 0)), [1, 2]);
        until(|| control.stats().bytes == 0).await;
    });
}

/// A call that was read beyond the limits waits for them, also when no answer is owed any more.
#[test]
fn a_call_beyond_the_limits_waits_after_the_last_answer() {
    run(async {
        let control = ServerControl::new(ServerLimits::new().max_calls_per_connection(2));
        let server = serve(&control).await;
        let mut client = TcpStream::connect(server.address).await.unwrap();
        send_record(&mut client, &put_call(1, b'w')).await;
        send_record(&mut client, &fail_call(2, WAITS)).await;
        read_record(&mut client).await;
        // The server reads on, as it waits for an answer.
        let put = put_call(3, b'a');
        let marker = (1 << 31 | u32::try_from(put.len()).unwrap()).to_be_bytes();
        client.write_all(&marker).await.unwrap();
        server.mirror.result().await.unwrap_err();
        client.write_all(&put).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(server.mirror.puts.load(Relaxed), 1);
        server.mirror.go_on.notify_waiters();
        for _ in 0..3 {
            read_record(&mut client).await;
        }
        assert_eq!(server.mirror.puts.load(Relaxed), 2);
    });
}

/// A connection that drains reads no more, and leaves the queue for the limits to others.
#[test]
fn a_draining_connection_leaves_the_queue() {
    run(async {
        let limits = ServerLimits::new().max_bytes_per_peer(2 * MIB);
        let control = ServerControl::new(limits.handler_time(None));
        let [draining, other] = [serve(&control).await, serve(&control).await];
        let (mut first, answer) = call_and_owe(&draining, 1).await;
        send_record(&mut first, &put_call(2, b'w')).await;
        send_record(&mut first, &answer).await;
        assert_eq!(word(&read_record(&mut first).await, 0), 1);
        // All of the memory.
        let mut long = TcpStream::connect(other.address).await.unwrap();
        let marker = [0x80, 0x20, 0, 0];
        long.write_all(&marker).await.unwrap();
        until(|| control.stats().bytes >= 2 * MIB).await;
        // It waits for memory while its handler waits.
        let before = control.stats().reached(Limit::BytesPerPeer);
        first.write_all(&marker).await.unwrap();
        until(|| control.stats().reached(Limit::BytesPerPeer) > before).await;
        drop(draining.end);
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(long);
        let mut last = TcpStream::connect(other.address).await.unwrap();
        send_record(&mut last, &long_put(3, b'a', MIB)).await;
        assert_eq!(word(&read_record(&mut last).await, 0), 3);
        draining.mirror.go_on.notify_waiters();
        assert_eq!(word(&read_record(&mut first).await, 0), 2);
        draining.task.await.unwrap();
    });
}

/// A call that was read beyond the limits is answered by a connection that drains, although the
/// record behind it is never read to its end.
#[test]
fn a_draining_connection_answers_delayed_calls() {
    run(async {
        let limits = ServerLimits::new().max_calls_per_connection(1);
        let control = ServerControl::new(limits.max_bytes_per_connection(64 << 10));
        let server = serve(&control).await;
        let (mut client, answer) = call_and_owe(&server, 1).await;
        send_record(&mut client, &answer).await;
        read_record(&mut client).await;
        send_record(&mut client, &put_call(2, b'w')).await;
        until(|| server.mirror.puts.load(Relaxed) == 1).await;
        let channel = server.mirror.channel.lock().unwrap().clone().unwrap();
        let owed = tokio::spawn(async move { Client::new(channel).fail(&9).await });
        read_record(&mut client).await;
        send_record(&mut client, &put_call(3, b'a')).await;
        client.write_all(&[0x80, 0x10, 0, 0, 1]).await.unwrap();
        until(|| control.stats().bytes >= MIB).await;
        drop(server.end);
        owed.abort();
        tokio::time::sleep(Duration::from_millis(20)).await;
        server.mirror.go_on.notify_waiters();
        for xid in [2, 3] {
            assert_eq!(word(&read_record(&mut client).await, 0), xid);
        }
        server.task.await.unwrap();
    });
}

/// Short calls take nothing of the budgets while a call of their connection waits.
#[test]
fn short_calls_use_the_minimum_of_their_connection() {
    run(async {
        let control = ServerControl::new(ServerLimits::new().max_bytes_per_peer(MIB));
        let server = serve(&control).await;
        let mut client = TcpStream::connect(server.address).await.unwrap();
        send_record(&mut client, &put_call(1, b'w')).await;
        until(|| server.mirror.puts.load(Relaxed) == 1).await;
        // All of the memory.
        let mut long = TcpStream::connect(server.address).await.unwrap();
        long.write_all(&[0x80, 0x20, 0, 0]).await.unwrap();
        until(|| control.stats().bytes >= MIB).await;
        for xid in 2..10 {
            send_record(&mut client, &put_call(xid, b'a')).await;
            assert_eq!(word(&read_record(&mut client).await, 0), xid);
        }
        assert_eq!(control.stats().reached(Limit::BytesPerPeer), 0);
        server.mirror.go_on.notify_waiters();
        assert_eq!(word(&read_record(&mut client).await, 0), 1);
    });
}

/// A client serves only a bounded number of calls of its server.
#[test]
fn excessive_backward_calls_end_the_connection() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let store = Arc::new(Store::default());
        let services = Router::new().add_service(kv1::serve(store.clone()));
        let config = tcp::ClientConfig::new().max_served(4);
        let address = listener.local_addr().unwrap().to_string();
        let channel = tcp::connect_with_services(&address, config, services).await;
        let kv = Client::new(channel.unwrap());
        let (mut server, _) = listener.accept().await.unwrap();
        // After that, there is no room even for a call that is answered at once.
        for xid in 0..100 {
            send_record(&mut server, &fail_call(xid, 9)).await;
            assert_eq!(read_record(&mut server).await, fail_reply(xid, 9));
        }
        let waits = tokio::spawn(kv.fail(&9).into_future());
        read_record(&mut server).await;
        for xid in 0..5 {
            send_record(&mut server, &fail_call(xid, 3)).await;
        }
        let error = waits.await.unwrap().unwrap_err();
        let text = "the connection was lost: the server has more than 4 calls in flight";
        assert_error(&error, text, Execution::Unknown);
        let gone = server.read(&mut [0; 1]).await;
        assert!(matches!(gone, Ok(0) | Err(_)), "{gone:?}");
        assert_eq!(store.fails.load(Relaxed), 104);

        // A server that does not receive replies loses its connection, too.
        let call = tokio::spawn(async move { kv.fail(&9).await });
        let (mut server, _) = listener.accept().await.unwrap();
        let big = vec![7; 1 << 20];
        kv_put(&mut server, &big).await;
        let mut sent = 0;
        while sent < 1000 {
            let get = support::tcp::get_call(sent, b'a');
            let marker = (1 << 31 | u32::try_from(get.len()).unwrap()).to_be_bytes();
            if server
                .write_all(&[&marker[..], &get].concat())
                .await
                .is_err()
            {
                break;
            }
            sent += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(sent < 1000);
        let gets = store.gets.load(Relaxed);
        assert!(gets < 100, "{gets}");
        call.abort();
    });
}

/// Puts a value under the key `a`.
async fn kv_put(server: &mut TcpStream, value: &[u8]) {
    let mut call = put_call(7, b'a');
    call.truncate(call.len() - 4);
    call.extend_from_slice(&u32::try_from(value.len()).unwrap().to_be_bytes());
    call.extend_from_slice(value);
    // The call that made the client connect may arrive first.
    send_record(server, &call).await;
    while word(&read_record(server).await, 1) == 0 {}
}
