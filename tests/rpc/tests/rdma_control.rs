//! The control of a server over RDMA: which clients may connect, and the limits.

use crate::support;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::support::rdma::Running;
use crate::support::{assert_error, run, until};
use kv1::Client;
use oncrpc::{Channel, Execution, Limit, Router, ServerControl, ServerLimits, tcp};
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::{ClientConfig, ServerConfig};

fn start(control: &ServerControl) -> Running {
    support::rdma::start(ServerConfig::new().control(control))
}

fn client(server: &Running) -> Client<Channel> {
    server.client(ClientConfig::new())
}

#[test]
fn a_hook_rejects_with_its_reason() {
    run(async {
        let control = ServerControl::with_hook(ServerLimits::new(), |request| {
            assert_eq!(request.transport, "rdma");
            assert_eq!(request.address.ip().to_string(), "127.0.0.1");
            // RFC 8797, section 4: the format identifier.
            assert_eq!(request.private_data[..4], [0xf6, 0xab, 0x0e, 0x18]);
            Err("not on the list of clients that may connect, nor on any other of them".into())
        });
        let server = start(&control);
        let call = client(&server).fail(&9).wait_for_connection(false).await;
        // The part of the reason that fits a rejection.
        let text = "can't connect: the server rejected the connection: \
                    not on the list of clients that may connect, nor on any ";
        assert_error(&call.unwrap_err(), text, Execution::NotExecuted);
        assert!(control.stats().rejected > 0);
        assert_eq!(server.store.fails.load(Relaxed), 0);
    });
}

#[test]
fn connections_are_limited_over_both_transports_together() {
    run(async {
        let control = ServerControl::new(ServerLimits::new().max_connections_per_peer(2));
        let server = start(&control);
        let router = Router::new().add_service(kv1::serve(server.store.clone()));
        let over_tcp = tcp::Server::bind("127.0.0.1:0", router).await.unwrap();
        let address = over_tcp.local_addr().unwrap().to_string();
        tokio::spawn(over_tcp.control(&control).run());
        let over_tcp = Client::new(tcp::connect(&address).await.unwrap());
        assert_eq!(over_tcp.fail(&9).await.unwrap(), 9);
        let first = client(&server);
        assert_eq!(first.fail(&9).await.unwrap(), 9);
        let rejected = client(&server).fail(&9).wait_for_connection(false).await;
        let text = "can't connect: the server rejected the connection: \
                    too many connections of the peer";
        assert_error(&rejected.unwrap_err(), text, Execution::NotExecuted);
        assert!(control.stats().reached(Limit::ConnectionsPerPeer) > 0);
        drop(first);
        until(|| control.stats().connections == 1).await;
        assert_eq!(client(&server).fail(&9).await.unwrap(), 9);
    });
}

#[test]
fn an_endless_handler_times_out() {
    run(async {
        let limits = ServerLimits::new().handler_time(Some(Duration::from_millis(50)));
        let control = ServerControl::new(limits);
        let server = start(&control);
        let kv = client(&server);
        let error = kv.fail(&3).await.unwrap_err();
        assert_error(&error, "the server failed", Execution::Unknown);
        let stats = control.stats();
        assert_eq!(stats.reached(Limit::HandlerTime), 1);
        until(|| control.stats().calls_in_flight == 0).await;
        let deadline = server.store.deadline.lock().unwrap().unwrap();
        assert!(deadline <= Instant::now());
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
    });
}

#[test]
fn a_busy_connection_does_not_delay_others() {
    run(async {
        let limits = ServerLimits::new().max_calls_per_connection(2);
        let control = ServerControl::new(limits);
        let server = start(&control);
        let (kv, other) = (client(&server), client(&server));
        let calls: Vec<_> = (0..10).map(|_| kv.fail(&8).into_future()).collect();
        let calls = tokio::spawn(async move {
            for call in calls {
                assert_eq!(call.await.unwrap(), 8);
            }
        });
        until(|| control.stats().reached(Limit::CallsPerConnection) > 0).await;
        assert_eq!(other.fail(&9).await.unwrap(), 9);
        assert_eq!(server.store.waiting.load(Relaxed), 2);
        assert_eq!(control.stats().calls_in_flight, 2);
        let go_on = async {
            loop {
                server.store.go_on.notify_waiters();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            ended = calls => ended.unwrap(),
            () = go_on => {}
        }
        assert_eq!(server.store.fails.load(Relaxed), 11);
        until(|| control.stats().calls_in_flight == 0).await;
        assert_eq!(control.stats().calls, 11);
    });
}

/// Waiting calls end with their connection. The slot of a call whose handler waits becomes free
/// when the handler ends.
#[test]
fn calls_of_a_lost_client_are_not_begun() {
    run(async {
        let limits = ServerLimits::new().max_calls_per_connection(1);
        let control = ServerControl::new(limits);
        let server = start(&control);
        let kv = client(&server);
        let calls: Vec<_> = (0..10).map(|_| kv.fail(&8).into_future()).collect();
        until(|| control.stats().reached(Limit::CallsPerConnection) > 0).await;
        kv.transport().shutdown();
        drop((kv, calls));
        until(|| control.stats().connections == 0).await;
        assert_eq!(control.stats().calls_in_flight, 1, "its handler goes on");
        server.store.go_on.notify_waiters();
        until(|| control.stats().calls_in_flight == 0).await;
        assert_eq!(client(&server).fail(&9).await.unwrap(), 9);
        assert_eq!(server.store.fails.load(Relaxed), 2);
    });
}
