//! The control of a server over TCP: which clients may connect, and the limits.

use crate::support;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::support::tcp::{
    connect_from, cut, exchange, fail_call, read_record, send_record, serve, serve_router,
};
use crate::support::{Store, run, until};
use kv1::Client;
use oncrpc::tcp::connect;
use oncrpc::{
    CallErrorKind, Channel, Execution, Limit, ReplyStatus, Router, ServerControl, ServerLimits,
};
use rpcrdma_rpc_tests::kv::kv::kv1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

async fn client(address: SocketAddr) -> Client<Channel> {
    Client::new(connect(&address.to_string()).await.unwrap())
}

/// An address of this host with any port.
fn host(number: u8) -> SocketAddr {
    ([127, 0, 0, number], 0).into()
}

#[test]
fn a_hook_accepts_by_address() {
    run(async {
        let control = ServerControl::with_hook(ServerLimits::new(), |request| {
            assert_eq!((request.transport, request.private_data), ("tcp", &[][..]));
            match request.address.ip().to_string().as_str() {
                "127.0.0.2" => Err("not on the list".into()),
                _ => Ok(()),
            }
        });
        let server = serve(&control).await;
        let mut rejected = connect_from(host(2), server.address).await;
        assert_eq!(rejected.read(&mut [0; 9]).await.unwrap(), 0);
        let mut admitted = connect_from(host(3), server.address).await;
        exchange(&mut admitted, &fail_call(1, 9)).await;
        let stats = control.stats();
        assert_eq!(
            (stats.connections, stats.accepted, stats.rejected),
            (1, 1, 1)
        );
        assert_eq!(stats.calls, 1);
    });
}

#[test]
fn a_peer_at_its_connection_limit_blocks_no_other() {
    run(async {
        let limits = ServerLimits::new().max_connections_per_peer(1);
        let control = ServerControl::new(limits);
        let server = serve(&control).await;
        let mut first = connect_from(host(2), server.address).await;
        exchange(&mut first, &fail_call(1, 9)).await;
        let mut rejected = connect_from(host(2), server.address).await;
        assert_eq!(rejected.read(&mut [0; 9]).await.unwrap(), 0);
        let mut other = connect_from(host(3), server.address).await;
        exchange(&mut other, &fail_call(1, 9)).await;
        assert_eq!(control.stats().reached(Limit::ConnectionsPerPeer), 1);
        drop(first);
        until(|| control.stats().connections == 1).await;
        let mut second = connect_from(host(2), server.address).await;
        exchange(&mut second, &fail_call(2, 9)).await;
    });
}

#[test]
fn an_endless_handler_times_out() {
    run(async {
        let limits = ServerLimits::new().handler_time(Some(Duration::from_millis(50)));
        let control = ServerControl::new(limits);
        let server = serve(&control).await;
        let kv = client(server.address).await;
        let error = kv.fail(&3).await.unwrap_err();
        let failed = matches!(
            error.kind(),
            CallErrorKind::Status(ReplyStatus::SystemError)
        );
        assert!(failed, "{error}");
        assert_eq!(error.execution(), Execution::Unknown);
        let stats = control.stats();
        assert_eq!(stats.reached(Limit::HandlerTime), 1);
        assert_eq!(stats.calls_in_flight, 0);
        let deadline = server.store.deadline.lock().unwrap().unwrap();
        assert!(deadline <= Instant::now());
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
    });
}

/// A call that has begun may have had effects: if its handler was dropped, it is not executed
/// again.
#[test]
fn a_timed_out_call_is_not_executed_again() {
    run(async {
        let limits = ServerLimits::new().handler_time(Some(Duration::from_millis(50)));
        let server = serve(&ServerControl::new(limits)).await;
        let mut stream = connect_from(host(1), server.address).await;
        let reply = exchange(&mut stream, &fail_call(1, 3)).await;
        assert_eq!(exchange(&mut stream, &fail_call(1, 3)).await, reply);
        assert_eq!(server.store.fails.load(Relaxed), 1);
    });
}

/// For handlers whose work goes on once it has begun.
#[test]
fn a_router_without_handler_time_waits_for_its_handlers() {
    run(async {
        let limits = ServerLimits::new().handler_time(Some(Duration::from_millis(50)));
        let control = ServerControl::new(limits);
        let store = Arc::new(Store::default());
        let router = Router::new().add_service(kv1::serve(store.clone()));
        let address = serve_router(router.without_handler_time(), &control).await;
        let kv = client(address).await;
        // A handler that waits for ever: the call is in flight, and counts as such.
        let endless = tokio::time::timeout(Duration::from_millis(300), kv.fail(&3));
        assert!(endless.await.is_err());
        assert_eq!(control.stats().reached(Limit::HandlerTime), 0);
        assert_eq!(kv.fail(&4).await.unwrap(), 4);
        assert_eq!(*store.deadline.lock().unwrap(), None);
    });
}

#[test]
fn handlers_without_a_limit_have_no_deadline() {
    run(async {
        let control = ServerControl::new(ServerLimits::new().handler_time(None));
        let server = serve(&control).await;
        assert_eq!(client(server.address).await.fail(&4).await.unwrap(), 4);
        assert_eq!(*server.store.deadline.lock().unwrap(), None);
    });
}

#[test]
fn a_busy_peer_does_not_delay_others() {
    run(async {
        let limits = ServerLimits::new().max_calls_per_peer(2);
        let control = ServerControl::new(limits);
        let server = serve(&control).await;
        let mut many = connect_from(host(2), server.address).await;
        for xid in 0..10 {
            send_record(&mut many, &fail_call(xid, 8)).await;
        }
        until(|| control.stats().reached(Limit::CallsPerPeer) > 0).await;
        until(|| server.store.waiting.load(Relaxed) == 3).await;
        assert_eq!(control.stats().calls_in_flight, 3);
        let mut other = connect_from(host(3), server.address).await;
        exchange(&mut other, &fail_call(1, 9)).await;
        // All calls are served in turn.
        let replies = async {
            for _ in 0..10 {
                read_record(&mut many).await;
            }
        };
        let go_on = async {
            loop {
                server.store.go_on.notify_waiters();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            () = replies => {}
            () = go_on => {}
        }
        assert_eq!(server.store.fails.load(Relaxed), 11);
        assert_eq!(control.stats().calls_in_flight, 0);
    });
}

#[test]
fn a_partial_call_times_out_and_an_idle_connection_stays() {
    run(async {
        let limits = ServerLimits::new().transfer_time(Some(Duration::from_millis(100)));
        let control = ServerControl::new(limits);
        let server = serve(&control).await;
        let mut quiet = connect_from(host(2), server.address).await;
        exchange(&mut quiet, &fail_call(1, 9)).await;
        for part in [
            // A part of a fragment header, of a short call, of a long call, and of a call without
            // its other fragments.
            &[0x80, 0][..],
            &[0x80, 0, 0, 40, 1, 2, 3],
            &[0x80, 0x10, 0, 0, 1, 2, 3],
            &[0, 0, 0, 3, 1, 2, 3],
        ] {
            let mut half = connect_from(host(3), server.address).await;
            half.write_all(part).await.unwrap();
            assert_eq!(half.read(&mut [0; 9]).await.unwrap(), 0);
        }
        // A call whose bytes arrive one by one is too slow, too.
        let mut slow = connect_from(host(3), server.address).await;
        let (mut reader, mut writer) = slow.split();
        let drips = async {
            writer.write_all(&[0x80, 0, 1, 0]).await.unwrap();
            while writer.write_all(&[0]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let mut answer = [0; 9];
        tokio::select! {
            () = drips => {}
            read = reader.read(&mut answer) => assert!(read.is_err() || read.unwrap() == 0),
        }
        assert_eq!(control.stats().reached(Limit::TransferTime), 5);
        until(|| control.stats().connections == 1).await;
        assert_eq!(control.stats().bytes, 0);
        exchange(&mut quiet, &fail_call(2, 9)).await;
    });
}

#[test]
fn a_peer_that_never_reads_loses_its_connection() {
    run(async {
        let limits = ServerLimits::new().transfer_time(Some(Duration::from_millis(200)));
        let control = ServerControl::new(limits);
        let server = serve(&control).await;
        let kv = client(server.address).await;
        let value = vec![7u8; 1 << 20];
        kv.put(&support::put("a", value)).await.unwrap();
        let mut deaf = connect_from(host(2), server.address).await;
        for xid in 0..100 {
            send_record(&mut deaf, &support::tcp::get_call(xid, b'a')).await;
        }
        until(|| control.stats().reached(Limit::TransferTime) == 1).await;
        until(|| control.stats().connections == 1).await;
        let stats = control.stats();
        assert!(stats.reached(Limit::BytesPerConnection) > 0);
        assert_eq!((stats.bytes, stats.calls_in_flight), (0, 0));
        assert!(server.store.gets.load(Relaxed) < 100, "calls were read");
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
    });
}

/// A handler whose caller has disconnected counts until it ends, and so does its connection: a
/// client that reconnects repeatedly does not get more calls than one that stays connected.
#[test]
fn calls_of_lost_connections_count_until_they_end() {
    run(async {
        let control = ServerControl::new(ServerLimits::new().max_connections_per_peer(1));
        let server = serve(&control).await;
        for _ in 0..5 {
            let mut stream = connect_from(host(2), server.address).await;
            send_record(&mut stream, &fail_call(1, 8)).await;
            until(|| server.store.waiting.load(Relaxed) > 0).await;
            cut(stream);
            until(|| control.stats().connections == 0).await;
            assert_eq!(control.stats().calls_in_flight, 1);
            let mut rejected = connect_from(host(2), server.address).await;
            assert_eq!(rejected.read(&mut [0; 9]).await.unwrap(), 0);
            server.store.go_on.notify_waiters();
            until(|| control.stats().calls_in_flight == 0).await;
        }
        assert_eq!(control.stats().bytes, 0);
        assert_eq!(Arc::strong_count(&server.store), 2);
    });
}
