//! Several calls, and several replies, are written in one system call.

use std::fs;
use std::sync::{Arc, mpsc};
use std::thread;

use crate::support::Store;
use kv1::Client;
use oncrpc::tcp::{Server, connect};
use oncrpc::{ReplyCacheConfig, Router};
use rpcrdma_rpc_tests::kv::kv::kv1;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// Tasks that call, each with one call in flight.
const TASKS: u32 = 64;
/// Calls of each task.
const CALLS: u32 = 50;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns how often this thread has written, as the kernel counts `write` and `writev`.
fn writes() -> u32 {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("syscw: "));
    line.unwrap().parse().unwrap()
}

/// Asserts that a system call has written at least eight messages on average.
#[track_caller]
fn assert_few(writes: u32) {
    assert!(writes >= 1, "they are counted");
    assert!(writes * 8 <= TASKS * CALLS, "{writes} writes");
}

#[test]
fn messages_share_system_calls() {
    let (bound, address) = mpsc::channel();
    let (end, ended) = oneshot::channel::<()>();
    let server = thread::spawn(move || {
        runtime().block_on(async {
            let router = Router::new().add_service(kv1::serve(Arc::new(Store::default())));
            let router = router.reply_cache(ReplyCacheConfig::new().max_bytes(0));
            let server = Server::bind("127.0.0.1:0", router).await.unwrap();
            bound.send(server.local_addr().unwrap()).unwrap();
            let before = writes();
            server.run_until(async { ended.await.unwrap() }).await;
            writes() - before
        })
    });
    let address = address.recv().unwrap().to_string();
    runtime().block_on(async {
        let kv = Client::new(connect(&address).await.unwrap());
        let before = writes();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let kv = kv.clone();
                tokio::spawn(async move {
                    for call in 0..CALLS {
                        let number = 100 + task * CALLS + call;
                        assert_eq!(kv.fail(&number).await.unwrap(), number);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_few(writes() - before);
    });
    end.send(()).unwrap();
    assert_few(server.join().unwrap());
}
