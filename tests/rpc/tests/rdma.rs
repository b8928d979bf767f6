//! Typed clients and services over RDMA.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::{Store, assert_error, found, key, many_tasks_share, put, run};
use kv1::Client;
use oncrpc::xdr::Item;
use oncrpc::{AuthSys, Channel, Execution, Router};
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_verbs::provider::software::Fabric;
use rpcrdma_verbs::{self, ClientConfig, RunningServer, ServerConfig, connect, serve};

struct Running {
    fabric: Arc<Fabric>,
    server: RunningServer,
    store: Arc<Store>,
}

fn start() -> Running {
    start_at(Fabric::new(), "127.0.0.1:0".parse().unwrap())
}

fn start_at(fabric: Arc<Fabric>, address: SocketAddr) -> Running {
    let store = Arc::new(Store::default());
    let served = store.clone();
    let server = serve(&fabric.device(), address, ServerConfig::new(), move || {
        Router::new().add_service(kv1::serve(served))
    });
    Running {
        fabric,
        server: server.unwrap(),
        store,
    }
}

fn client(running: &Running) -> Client<Channel> {
    let fabric = &running.fabric;
    let address = running.server.local_addr();
    Client::new(connect(&fabric.device(), address, ClientConfig::new()).unwrap())
}

#[test]
fn the_results_of_the_service_are_returned() {
    let server = start();
    let kv = client(&server);
    run(async move {
        kv.null().await.unwrap();
        for length in [0, 1, 1023, 1024, 1025, 100_001, 1 << 20] {
            let value = Item::from(vec![7; length]);
            kv.put(&put("a", value.clone())).await.unwrap();
            assert_eq!(
                found(kv.get(&key("a")).await.unwrap()),
                Some(value),
                "{length} bytes"
            );
        }
        assert_eq!(found(kv.get(&key("b")).await.unwrap()), None);
        let user = AuthSys {
            uid: 7,
            ..AuthSys::new("here")
        };
        assert_eq!(kv.fail(&5).credentials(user).await.unwrap(), 7);
    });
    assert_eq!(server.store.puts.load(Relaxed), 7);
    server.server.drain().unwrap();
}

/// A name is resolved for each connection. The server has one of the addresses of `localhost`.
#[test]
fn a_server_is_found_by_its_name() {
    let first = start();
    let (fabric, address) = (first.fabric.clone(), first.server.local_addr());
    let name = format!("localhost:{}", address.port());
    let kv = Client::new(connect(&fabric.device(), &*name, ClientConfig::new()).unwrap());
    run(async move {
        kv.null().await.unwrap();
        first.server.drain().unwrap();
        let error = kv.null().wait_for_connection(false).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!(" at {name}: ")), "{text}");
        let second = start_at(fabric, address);
        kv.null().await.unwrap();
        second.server.drain().unwrap();
    });
}

#[test]
fn many_tasks_share_a_connection() {
    let server = start();
    let kv = client(&server);
    run(async move {
        many_tasks_share(&kv).await;
    });
}

#[test]
fn each_failure_has_its_error() {
    let server = start();
    let kv = client(&server);
    run(async move {
        let error = kv.fail(&0).await.unwrap_err();
        assert_error(&error, "the server failed", Execution::Unknown);
        let error = kv.fail(&2).await.unwrap_err();
        let text = "the server does not offer the procedure";
        assert_error(&error, text, Execution::NotExecuted);
        let error = kv
            .fail(&3)
            .timeout(Duration::from_millis(50))
            .await
            .unwrap_err();
        assert_error(&error, "not done within 50ms: no reply", Execution::Unknown);
        // Other calls continue.
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
    });
}

/// The runner of a channel is a task of an ordinary tokio runtime.
#[test]
fn a_runner_is_a_task() {
    let running = start();
    run(async move {
        let address = running.server.local_addr();
        let config = ClientConfig::new();
        let (channel, runner) = rpcrdma_verbs::channel(&running.fabric.device(), address, config);
        let runner = tokio::spawn(runner);
        let kv = Client::new(channel);
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        drop(kv);
        runner.await.unwrap().unwrap();
    });
}

/// Sends arguments that were written into the memory of the channel.
#[test]
fn an_item_is_sent_from_registered_memory() {
    let running = start();
    let fabric = running.fabric.clone();
    run(async move {
        let (channel, runner) = rpcrdma_verbs::channel(
            &fabric.device(),
            running.server.local_addr(),
            ClientConfig::new(),
        );
        tokio::spawn(runner);
        let kv = Client::new(channel.clone());
        for len in [100_000, 1, 0, 1 << 20] {
            let mut buf = channel.item_buf(len);
            let filled = tokio::task::spawn_blocking(move || {
                buf.fill(7);
                buf.into_item(len)
            });
            kv.put(&put("key", filled.await.unwrap())).await.unwrap();
            let value = found(kv.get(&key("key")).await.unwrap()).unwrap();
            assert_eq!(*value, vec![7; len]);
        }
    });
}

/// Data that a Read chunk brings begin at a page, wherever the message has them, and a service can
/// keep them. Another server of the process sends them.
#[test]
fn data_are_kept_where_the_device_has_placed_them() {
    let running = start();
    let (kv, store) = (client(&running), running.store.clone());
    let device = running.fabric.device();
    let any = "127.0.0.1:0".parse().unwrap();
    let served = store.clone();
    let other = serve(&device, any, ServerConfig::new(), move || {
        Router::new().add_service(kv1::serve(served))
    });
    let other = other.unwrap();
    let channel = connect(&device, other.local_addr(), ClientConfig::new()).unwrap();
    run(async move {
        for (name, len) in [("k", 4096), ("key", 100_001), ("another key", 1 << 20)] {
            let value = Item::from(vec![7; len]);
            kv.put(&put(name, value.clone())).await.unwrap();
            let kept = store.value(name);
            assert!(kept.as_bytes().as_ptr().addr().is_multiple_of(4096));
            let found = found(Client::new(channel.clone()).get(&key(name)).await.unwrap());
            assert_eq!(found, Some(value));
        }
    });
    other.drain().unwrap();
}

#[test]
fn connecting_without_a_listener_fails() {
    let fabric = Fabric::new();
    let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let kv = Client::new(connect(&fabric.device(), address, ClientConfig::new()).unwrap());
    run(async move {
        let error = kv
            .fail(&9)
            .timeout(Duration::from_millis(300))
            .await
            .unwrap_err();
        let text = "not done within 300ms: not connected: connect: nothing listens at 127.0.0.1:9";
        assert_error(&error, text, Execution::NotExecuted);
    });
}

#[test]
fn a_call_without_a_deadline_fails_without_a_listener() {
    let fabric = Fabric::new();
    let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let config = ClientConfig::new().connect_timeout(Duration::from_millis(50));
    let kv = Client::new(connect(&fabric.device(), address, config).unwrap());
    run(async move {
        for _ in 0..2 {
            let error = kv.fail(&9).await.unwrap_err();
            let text = "can't connect: connect: nothing listens at 127.0.0.1:9";
            assert_error(&error, text, Execution::NotExecuted);
        }
    });
}

#[test]
fn a_fail_fast_call_fails_with_the_first_attempt() {
    let fabric = Fabric::new();
    let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let config = ClientConfig::new().connect_timeout(Duration::from_secs(3600));
    let kv = Client::new(connect(&fabric.device(), address, config).unwrap());
    run(async move {
        let waits = kv.fail(&9).into_future();
        for _ in 0..10 {
            let error = kv.fail(&9).wait_for_connection(false).await.unwrap_err();
            let text = "can't connect: connect: nothing listens at 127.0.0.1:9";
            assert_error(&error, text, Execution::NotExecuted);
        }
        let waits = tokio::time::timeout(Duration::from_millis(10), waits);
        assert!(waits.await.is_err(), "still waits");
    });
}

#[test]
fn a_server_and_a_channel_drain() {
    let server = start();
    let kv = client(&server);
    let drained = run_value(async move {
        let slow: Vec<_> = (0..8).map(|_| kv.fail(&4).into_future()).collect();
        assert_eq!(kv.fail(&9).await.unwrap(), 9);
        let drained = std::thread::spawn(move || server.server.drain().unwrap());
        for slow in slow {
            assert_eq!(slow.await.unwrap(), 4);
        }
        drained
    });
    drained.join().unwrap();
}

fn run_value<T: Send + 'static>(test: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    run(async move { sender.send(test.await).unwrap() });
    receiver.recv().unwrap()
}
