//! Typed clients and services over TCP.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::tcp::{
    Running, connect_from, cut, exchange, get_call, put_call, read_record, serve,
};
use crate::support::{ALWAYS, Store, assert_error, found, key, many_tasks_share, put, run};
use kv1::Client;
use oncrpc::tcp::{ClientConfig, Server, channel, connect};
use oncrpc::xdr::Item;
use oncrpc::{CallOptions, Channel, Execution, Router, ServerControl, ServerLimits};
use rpcrdma_rpc_tests::kv::kv::kv1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

async fn client(server: &Running) -> Client<Channel> {
    Client::new(connect(&server.address.to_string()).await.unwrap())
}

#[test]
fn the_results_of_the_service_are_returned() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let kv = client(&server).await;
        kv.null().await.unwrap();
        for length in [0, 1, 1023, 1024, 1025, 100_001, 1 << 20] {
            let value = Item::from(vec![7; length]);
            kv.put(&put("a", value.clone())).await.unwrap();
            assert_eq!(found(kv.get(&key("a")).await.unwrap()), Some(value));
        }
        assert_eq!(found(kv.get(&key("b")).await.unwrap()), None);
    });
}

#[test]
fn replies_overtake_each_other() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let kv = client(&server).await;
        let slow: Vec<_> = (0..32).map(|_| kv.fail(&4).into_future()).collect();
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        for slow in slow {
            assert_eq!(slow.await.unwrap(), 4);
        }
    });
}

#[test]
fn many_tasks_share_a_connection() {
    run(async {
        let limits = ServerLimits::new().max_calls_per_connection(5);
        let control = ServerControl::new(limits);
        let server = serve(&control).await;
        let kv = client(&server).await;
        many_tasks_share(&kv).await;
    });
}

#[test]
fn connecting_without_a_listener_fails() {
    run(async {
        let free = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let error = connect(&free.to_string()).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        let text = format!("can't connect to {free}: Connection refused (os error 111)");
        assert_eq!(error.to_string(), text);
        let config = ClientConfig::new().connect_timeout(Duration::from_millis(150));
        let (channel, runner) = channel(&free.to_string(), config);
        tokio::spawn(runner);
        let kv = Client::new(channel);
        let refused = "Connection refused (os error 111)";
        let error = kv.fail(&9).await.unwrap_err();
        assert_error(
            &error,
            &format!("can't connect: {refused}"),
            Execution::NotExecuted,
        );
        let error = kv
            .fail(&9)
            .timeout(Duration::from_millis(50))
            .await
            .unwrap_err();
        let text = format!("not done within 50ms: not connected: {refused}");
        assert_error(&error, &text, Execution::NotExecuted);
    });
}

/// Answers a call with a number, in fragments of one byte.
async fn answer(stream: &mut TcpStream, call: &[u8], number: u32) {
    let words = [1, 0, 0, 0, 0, number].map(u32::to_be_bytes);
    let reply = [&call[..4], words.as_flattened()].concat();
    for byte in &reply {
        stream.write_all(&[0, 0, 0, 1, *byte]).await.unwrap();
    }
    stream.write_all(&[0x80, 0, 0, 0]).await.unwrap();
}

#[test]
fn a_reconnection_uses_the_same_port() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connecting = tokio::spawn(async move { connect(&address).await.unwrap() });
        let (mut first, port) = listener.accept().await.unwrap();
        let kv = Client::new(connecting.await.unwrap());

        // A call that is not idempotent is interrupted: it is unknown whether it was executed.
        let put = kv.fail(&1).into_future();
        let again = kv.clone().with_options(CallOptions::DEFAULT.resend(ALWAYS));
        let resent = again.fail(&2).into_future();
        let (one, two) = (read_record(&mut first).await, read_record(&mut first).await);
        drop(first);
        let error = put.await.unwrap_err();
        let text = "the connection was lost: closed by the server";
        assert_error(&error, text, Execution::Unknown);

        // A call that may be repeated is retransmitted with the same XID, from the same port.
        let (mut second, same) = listener.accept().await.unwrap();
        assert_eq!(same, port);
        let call = read_record(&mut second).await;
        assert_ne!(call, one);
        assert_eq!(call, two);
        answer(&mut second, &call, 77).await;
        assert_eq!(resent.await.unwrap(), 77);
    });
}

/// A port that the system chose on connecting may be shared with connections to other servers, and
/// can't be bound again while one of them exists.
#[test]
fn the_port_of_a_client_can_be_bound_again() {
    run(async {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).await.unwrap();
            let address = listener.local_addr().unwrap();
            let connecting = tokio::spawn(async move { connect(&address.to_string()).await });
            let (_first, local) = listener.accept().await.unwrap();
            let _channel = connecting.await.unwrap().unwrap();
            let again = if local.is_ipv4() {
                TcpSocket::new_v4().unwrap()
            } else {
                TcpSocket::new_v6().unwrap()
            };
            again.set_reuseaddr(true).unwrap();
            again.bind(local).unwrap();
        }
    });
}

#[test]
fn reconnection_attempts_are_delayed() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let kv = Client::new(channel_of(&address));
        let call = tokio::spawn(async move { kv.get(&key("a")).await });
        let mut count = 0;
        let closes = async {
            loop {
                drop(listener.accept().await.unwrap());
                count += 1;
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(650), closes).await;
        // At once, and after 100 and 300 ms.
        assert!((2..=3).contains(&count), "{count} connections");
        call.abort();
    });
}

fn channel_of(address: &str) -> Channel {
    let (channel, runner) = channel(address, ClientConfig::new());
    tokio::spawn(runner);
    channel
}

#[test]
fn a_restarted_server_is_found_again() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let (kv, address) = (client(&server).await, server.address);
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        drop(server.end);
        server.task.await.unwrap();
        let router = Router::new().add_service(kv1::serve(Store::default()));
        let call = tokio::spawn({
            let kv = kv.clone();
            // The client may not know yet that the connection is lost: the call is idempotent.
            async move { kv.get(&key("a")).await }
        });
        tokio::time::sleep(Duration::from_millis(150)).await;
        let server = Server::bind(address, router).await.unwrap();
        tokio::spawn(server.run());
        assert_eq!(found(call.await.unwrap().unwrap()), None);
    });
}

#[test]
fn a_server_drains() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let kv = client(&server).await;
        let slow: Vec<_> = (0..8).map(|_| kv.fail(&4).into_future()).collect();
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        drop(server.end);
        for slow in slow {
            assert_eq!(slow.await.unwrap(), 4);
        }
        server.task.await.unwrap();
    });
}

#[test]
fn a_channel_drains() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let kv = client(&server).await;
        let slow = kv.fail(&4).into_future();
        drop(kv);
        assert_eq!(slow.await.unwrap(), 4);
        drop(server.end);
        server.task.await.unwrap();
    });
}

#[test]
fn server_limits_are_enforced() {
    run(async {
        let control = ServerControl::new(ServerLimits::new().max_connections(1));
        let server = serve(&control).await;
        let kv = client(&server).await;
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        let mut refused = TcpStream::connect(server.address).await.unwrap();
        assert_eq!(refused.read(&mut [0; 9]).await.unwrap(), 0);
    });
}

#[test]
fn invalid_data_affect_no_other_client() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let kv = client(&server).await;
        for rubbish in [&[0x80, 0, 0, 0][..], &[0x80, 0, 0, 3, 1, 2, 3], &[255; 400]] {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(rubbish).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(answer.is_empty());
        }
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
    });
}

#[test]
fn invalid_headers_get_the_replies_of_the_rfc() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let program = rpcrdma_rpc_tests::kv::kv::PROGRAM;
        let cases: [(&[u32], &[u32]); 7] = [
            // RPC version 3: RPC_MISMATCH, 2 to 2.
            (&[7, 0, 3, program, 1, 0, 0, 0, 0, 0], &[7, 1, 1, 0, 2, 2]),
            // Credentials of more than 400 bytes: AUTH_BADCRED.
            (&[7, 0, 2, program, 1, 0, 1, 404, 0, 0], &[7, 1, 1, 1, 1]),
            // AUTH_SYS without a body: AUTH_BADCRED.
            (&[7, 0, 2, program, 1, 1, 1, 0, 0, 0], &[7, 1, 1, 1, 1]),
            (
                &[7, 0, 2, program + 1, 1, 0, 0, 0, 0, 0],
                &[7, 1, 0, 0, 0, 1],
            ),
            (
                &[7, 0, 2, program, 2, 0, 0, 0, 0, 0],
                &[7, 1, 0, 0, 0, 2, 1, 1],
            ),
            (&[7, 0, 2, program, 1, 99, 0, 0, 0, 0], &[7, 1, 0, 0, 0, 3]),
            // Trailing bytes.
            (
                &[7, 0, 2, program, 1, 3, 0, 0, 0, 0, 9, 9],
                &[7, 1, 0, 0, 0, 4],
            ),
        ];
        for (call, reply) in cases {
            let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let call: Vec<u8> = bytes(call);
            stream
                .write_u32(1 << 31 | u32::try_from(call.len()).unwrap())
                .await
                .unwrap();
            stream.write_all(&call).await.unwrap();
            let expected: Vec<u8> = bytes(reply);
            assert_eq!(read_record(&mut stream).await, expected);
        }
    });
}

#[test]
fn a_retransmitted_call_is_not_executed_again() {
    run(async {
        let server = serve(&ServerControl::default()).await;
        let call = put_call(7, b'a');
        let mut first = connect_from("127.0.0.1:0".parse().unwrap(), server.address).await;
        let local = first.local_addr().unwrap();
        let reply = exchange(&mut first, &call).await;
        assert_eq!(server.store.puts.load(Relaxed), 1);

        // The same call on the same connection, and on the next connection from the same port.
        assert_eq!(exchange(&mut first, &call).await, reply);
        first.shutdown().await.unwrap();
        let mut end = Vec::new();
        first.read_to_end(&mut end).await.unwrap();
        cut(first);
        let mut second = connect_from(local, server.address).await;
        assert_eq!(exchange(&mut second, &call).await, reply);
        assert_eq!(server.store.puts.load(Relaxed), 1);

        // With another XID, or from another caller, it is another call.
        assert_eq!(
            exchange(&mut second, &put_call(8, b'a')).await[4..],
            reply[4..]
        );
        let mut elsewhere = TcpStream::connect(server.address).await.unwrap();
        assert_eq!(exchange(&mut elsewhere, &call).await, reply);
        assert_eq!(server.store.puts.load(Relaxed), 3);

        // An idempotent call is executed again.
        let get = get_call(9, b'a');
        exchange(&mut second, &get).await;
        exchange(&mut second, &get).await;
        assert_eq!(server.store.gets.load(Relaxed), 2);
    });
}
