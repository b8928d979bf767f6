//! Records over TCP that are too long, or that arrive in many fragments.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::tcp::{exchange, fail_call, get_call, read_record, send_record, serve_with};
use crate::support::{Store, assert_error, found, key, put, run, until};
use kv1::{Client, GetResults, Service};
use oncrpc::tcp::{ClientConfig, Server, ServerConfig, connect, connect_with};
use oncrpc::xdr::{Item, Text};
use oncrpc::{CallError, Context, Execution, Limit, Router, RpcError, ServerControl, ServerLimits};
use rpcrdma_rpc_tests::kv::PutArgs;
use rpcrdma_rpc_tests::kv::kv::kv1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// The maximum size of a record in most of these tests.
const MAX: usize = 1000;

/// A record with the beginning of a reply to no call.
const REPLY: [u8; 12] = [0x80, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 1];

/// Returns a GARBAGE_ARGS (RFC 5531, section 9).
fn garbage_args(xid: u32) -> Vec<u8> {
    [xid, 1, 0, 0, 0, 4].map(u32::to_be_bytes).concat()
}

/// Returns a call of FAIL with arguments that are longer than they should be.
fn long_call(xid: u32, len: usize) -> Vec<u8> {
    let mut call = fail_call(xid, 9);
    call.resize(len, 0);
    call
}

/// The client knows its own limit: nothing of the call is sent, and no other call fails.
#[test]
fn a_call_longer_than_the_limit_of_its_client_is_not_sent() {
    run(async {
        let server = serve_with(ServerConfig::new(), &ServerControl::default()).await;
        let config = ClientConfig::new().max_record(MAX);
        let channel = connect_with(&server.address.to_string(), config).await;
        let kv = Client::new(channel.unwrap());
        let waits = tokio::spawn(kv.fail(&8).into_future());
        until(|| server.store.waiting.load(Relaxed) == 1).await;
        // The header has 40 bytes, the key and the count of the value 12.
        kv.put(&put("a", vec![7; MAX - 52])).await.unwrap();
        let error = kv.put(&put("a", vec![7; MAX - 51])).await.unwrap_err();
        assert_error(
            &error,
            "the call exceeds 1000 bytes",
            Execution::NotExecuted,
        );
        assert!(!error.is_retryable());
        assert_eq!(server.store.puts.load(Relaxed), 1);
        server.store.go_on.notify_waiters();
        assert_eq!(waits.await.unwrap().unwrap(), 8);
    });
}

/// The server refuses the call, and goes on with the connection.
#[test]
fn a_call_longer_than_the_limit_of_the_server_is_refused() {
    run(async {
        let config = ServerConfig::new().max_record(MAX);
        let server = serve_with(config, &ServerControl::default()).await;
        let kv = Client::new(connect(&server.address.to_string()).await.unwrap());
        let waits = tokio::spawn(kv.fail(&8).into_future());
        until(|| server.store.waiting.load(Relaxed) == 1).await;
        let error = kv.put(&put("a", vec![7; 100_000])).await.unwrap_err();
        let text = "the server can't decode the arguments";
        assert_error(&error, text, Execution::NotExecuted);
        assert_eq!(server.store.puts.load(Relaxed), 0);
        server.store.go_on.notify_waiters();
        assert_eq!(waits.await.unwrap().unwrap(), 8);
    });
}

/// Sends a record in fragments of a size.
async fn send_fragments(stream: &mut TcpStream, record: &[u8], size: usize) {
    let mut bytes = Vec::new();
    for part in record.chunks(size) {
        bytes.extend_from_slice(&u32::try_from(part.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes.extend_from_slice(&[0x80, 0, 0, 0]);
    stream.write_all(&bytes).await.unwrap();
}

#[test]
fn long_calls_are_refused_in_any_fragments() {
    run(async {
        let config = ServerConfig::new().max_record(MAX);
        let server = serve_with(config, &ServerControl::default()).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        for size in [1, 4, 7, 100, 999, 1001, 5000] {
            send_fragments(&mut stream, &long_call(7, 5000), size).await;
            assert_eq!(read_record(&mut stream).await, garbage_args(7), "{size}");
            let reply = exchange(&mut stream, &fail_call(8, 9)).await;
            assert_eq!(reply[..4], [0, 0, 0, 8]);
        }
        // A reply to no call is discarded.
        let mut reply = [5, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
        reply.resize(5000, 0);
        send_record(&mut stream, &reply).await;
        let reply = exchange(&mut stream, &fail_call(9, 9)).await;
        assert_eq!(reply[..4], [0, 0, 0, 9]);
    });
}

/// What is no message of RPC ends the connection at once.
#[test]
fn long_records_of_another_protocol_end_the_connection() {
    run(async {
        let config = ServerConfig::new().max_record(MAX);
        let server = serve_with(config, &ServerControl::default()).await;
        // A request of HTTP, and calls of another version of RPC.
        let version = [1 << 31 | 5000, 7, 0, 3].map(u32::to_be_bytes).concat();
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &version] {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            let read = stream.read(&mut [0; 1]).await;
            assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        }
    });
}

/// A long call has to arrive in time, too.
#[test]
fn a_long_call_that_never_ends_ends_its_connection() {
    run(async {
        let limits = ServerLimits::new().transfer_time(Some(Duration::from_millis(50)));
        let control = ServerControl::new(limits);
        let server = serve_with(ServerConfig::new().max_record(MAX), &control).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let marker = (1 << 31 | 1_000_000u32).to_be_bytes();
        stream.write_all(&marker).await.unwrap();
        stream.write_all(&long_call(7, 500_000)).await.unwrap();
        let read = stream.read(&mut [0; 1]).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        assert_eq!(control.stats().reached(Limit::TransferTime), 1);
    });
}

/// The reply is discarded. The call fails, even an idempotent one, and no other does.
#[test]
fn a_reply_longer_than_the_limit_of_its_client_fails_its_call() {
    run(async {
        let server = serve_with(ServerConfig::new(), &ServerControl::default()).await;
        let address = server.address.to_string();
        let kv = Client::new(connect(&address).await.unwrap());
        kv.put(&put("a", vec![7; 100_000])).await.unwrap();
        let config = ClientConfig::new().max_record(MAX);
        let kv = Client::new(connect_with(&address, config).await.unwrap());
        let waits = tokio::spawn(kv.fail(&8).into_future());
        until(|| server.store.waiting.load(Relaxed) == 1).await;
        let get = kv.get(&key("a")).timeout(Duration::from_secs(1)).await;
        let text = "the reply exceeds 1000 bytes";
        assert_error(&get.unwrap_err(), text, Execution::Executed);
        assert_eq!(server.store.gets.load(Relaxed), 1);
        server.store.go_on.notify_waiters();
        assert_eq!(waits.await.unwrap().unwrap(), 8);
    });
}

/// A handler that stores a long value at its caller, and reads it back.
#[derive(Default)]
struct Backward(Mutex<Vec<CallError>>);

impl Service for Backward {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn fail(&self, cx: &Context, len: u32) -> Result<u32, RpcError> {
        let client = Client::new(cx.caller());
        let long = put("a", vec![7; len as usize]);
        let second = Duration::from_secs(1);
        let put = client.put(&long).timeout(second).await.err();
        let got = client.get(&key("a")).timeout(second).await.err();
        self.0.lock().unwrap().extend(put.into_iter().chain(got));
        Ok(client.fail(&9).await?)
    }
}

/// Each end has its limits in the backward direction, too.
#[test]
fn long_backward_messages_fail_their_calls() {
    run(async {
        let store = Arc::new(Store::default());
        let backward = Arc::new(Backward::default());
        let router = Router::new().add_service(kv1::serve(backward.clone()));
        let server = Server::bind("127.0.0.1:0", router).await.unwrap();
        let server = server.config(ServerConfig::new().max_record(10 * MAX));
        let address = server.local_addr().unwrap().to_string();
        tokio::spawn(server.run());
        let services = || Router::new().add_service(kv1::serve(store.clone()));
        let config = ClientConfig::new().max_record(MAX);
        let channel = oncrpc::tcp::connect_with_services(&address, config, services());
        let kv = Client::new(channel.await.unwrap());
        let take = || std::mem::take(&mut *backward.0.lock().unwrap());

        // The client takes no such call.
        assert_eq!(kv.fail(&5000).await.unwrap(), 9);
        let errors = take();
        let text = "the server can't decode the arguments";
        assert_error(&errors[0], text, Execution::NotExecuted);
        assert_eq!(errors.len(), 1, "{errors:?}");
        // The server sends no such call, and takes no such reply.
        let long = put("a", vec![7; 20_000]);
        let local = oncrpc::loopback(services());
        tokio::spawn(local.1);
        Client::new(local.0).put(&long).await.unwrap();
        assert_eq!(kv.fail(&20_000).await.unwrap(), 9);
        let errors = take();
        let text = "the call exceeds 10000 bytes";
        assert_error(&errors[0], text, Execution::NotExecuted);
        let text = "the reply exceeds 10000 bytes";
        assert_error(&errors[1], text, Execution::Executed);
    });
}

/// Counts its turns on the thread of a test.
fn turns() -> Arc<AtomicU64> {
    let turns = Arc::new(AtomicU64::new(0));
    let counted = turns.clone();
    tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Relaxed);
            tokio::task::yield_now().await;
        }
    });
    turns
}

/// Returns how many turns another task has on the thread of a server until it has read these
/// bytes, which precede a call.
fn turns_during(bytes: Vec<u8>) -> u64 {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(async {
        let server = serve_with(ServerConfig::new(), &ServerControl::default()).await;
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(1 << 20).unwrap();
        let mut stream = socket.connect(server.address).await.unwrap();
        let bytes = [&bytes[..], &[0x80, 0, 0, 44], &fail_call(7, 9)].concat();
        exchange(&mut stream, &fail_call(6, 9)).await;
        // All is in the buffers of the system before the server reads.
        let stream = stream.into_std().unwrap();
        let written = std::io::Write::write(&mut &stream, &bytes).unwrap();
        assert_eq!(written, bytes.len());
        let mut stream = TcpStream::from_std(stream).unwrap();
        let turns = turns();
        read_record(&mut stream).await;
        turns.load(Relaxed)
    })
}

/// A peer that sends without a pause, what takes no time each, does not keep the thread.
#[test]
fn short_messages_and_fragments_leave_time_to_others() {
    let fragments = [0, 0, 0, 0].repeat(50_000);
    let turns = turns_during(fragments);
    assert!(turns >= 50, "{turns} turns during fragments without bytes");
    let turns = turns_during(REPLY.repeat(15_000));
    assert!(turns >= 50, "{turns} turns during replies to no call");
}

/// Fragments without bytes are no progress.
#[test]
fn a_record_of_empty_fragments_has_to_end_in_time() {
    run(async {
        let limits = ServerLimits::new().transfer_time(Some(Duration::from_millis(100)));
        let control = ServerControl::new(limits);
        let server = serve_with(ServerConfig::new(), &control).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let fragments = [0, 0, 0, 0].repeat(10_000);
        while stream.write_all(&fragments).await.is_ok() {}
        assert_eq!(control.stats().reached(Limit::TransferTime), 1);
    });
}

/// The deadline of a call holds, although a server sends without a pause.
#[test]
fn deadlines_hold_while_a_server_floods_its_client() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let flood = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let replies = REPLY.repeat(10_000);
            while std::io::Write::write_all(&mut stream, &replies).is_ok() {}
        });
        let kv = Client::new(connect(&address).await.unwrap());
        let error = kv.fail(&9).timeout(Duration::from_millis(50));
        let error = tokio::time::timeout(Duration::from_secs(10), error);
        let error = error.await.unwrap().unwrap_err();
        // On a busy machine the call may not have been sent, beside the flood.
        let text = error.to_string();
        assert!(text.contains(": not done within 50ms: "), "{text}");
        assert_ne!(error.execution(), Execution::Executed);
        kv.transport().shutdown();
        flood.join().unwrap();
    });
}

/// The replies to accepted calls arrive, although the client goes on to send.
#[test]
fn a_draining_server_loses_no_reply() {
    run(async {
        let server = serve_with(ServerConfig::new(), &ServerControl::default()).await;
        let address = server.address.to_string();
        let kv = Client::new(connect(&address).await.unwrap());
        let value = Item::from(vec![7; 1 << 20]);
        kv.put(&put("a", value.clone())).await.unwrap();
        assert_eq!(found(kv.get(&key("a")).await.unwrap()), Some(value));
        drop(kv);
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(server.address).await.unwrap();
        send_record(&mut stream, &get_call(1, b'a')).await;
        until(|| server.store.gets.load(Relaxed) == 2).await;
        drop(server.end);
        for xid in 2..20 {
            send_record(&mut stream, &get_call(xid, b'a')).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut replies = Vec::new();
        stream.read_to_end(&mut replies).await.unwrap();
        // On a busy machine the server accepts some of the later calls before it drains.
        let accepted = server.store.gets.load(Relaxed) - 1;
        assert_eq!(replies.len(), accepted * (4 + 24 + 4 + 4 + (1 << 20)));
        assert!(accepted < 19, "the server does not drain");
        drop(stream);
        server.task.await.unwrap();
    });
}
