//! A store that several tests serve.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod attack;
pub mod counting;
pub mod iwarp;
pub mod random;
pub mod rdma;
pub mod table;
pub mod tcp;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use oncrpc::xdr::{Item, SharedBytes, Text};
use oncrpc::{CallError, Channel, Context, Execution, Resend, RpcError};

use rpcrdma_rpc_tests::kv::kv::kv1::{Client, GetResults, Service};
use rpcrdma_rpc_tests::kv::{GetOk, GetRes, PutArgs, owned};

/// Retransmits every call: no test lasts as long as a server keeps replies.
pub const ALWAYS: Resend = Resend::Always {
    cache_lifetime: Duration::from_secs(100),
};

/// A key-value store that counts the executions of its procedures.
#[derive(Debug, Default)]
pub struct Store {
    values: Mutex<HashMap<String, SharedBytes>>,
    pub puts: AtomicUsize,
    pub gets: AtomicUsize,
    pub fails: AtomicUsize,
    /// The deadline of the last FAIL.
    pub deadline: Mutex<Option<Instant>>,
    /// The FAILs that wait for a notification.
    pub waiting: AtomicUsize,
    pub go_on: tokio::sync::Notify,
}

impl Store {
    /// Returns the value of a key that is there.
    pub fn value(&self, key: &str) -> SharedBytes {
        self.values.lock().unwrap()[key].clone()
    }

    /// Stores a value.
    pub fn insert(&self, key: &str, value: SharedBytes) {
        self.values.lock().unwrap().insert(key.to_owned(), value);
    }
}

impl Service for Store {
    async fn get(&self, _: &Context, key: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        self.gets.fetch_add(1, Relaxed);
        let key = std::str::from_utf8(key.as_bytes())?;
        let value = self.values.lock().unwrap().get(key).cloned();
        let found = match value {
            Some(value) => GetRes::True(GetOk {
                value: value.into(),
            }),
            None => GetRes::False,
        };
        Ok(found.into())
    }

    async fn put(&self, _: &Context, args: PutArgs<'_>) -> Result<(), RpcError> {
        self.puts.fetch_add(1, Relaxed);
        let key = std::str::from_utf8(args.key.as_bytes())?.to_owned();
        self.values
            .lock()
            .unwrap()
            .insert(key, args.value.into_shared());
        Ok(())
    }

    async fn fail(&self, cx: &Context, how: u32) -> Result<u32, RpcError> {
        self.fails.fetch_add(1, Relaxed);
        *self.deadline.lock().unwrap() = cx.deadline();
        match how {
            0 => panic!("told to"),
            1 => Err(std::io::Error::other("disk on fire").into()),
            2 => Err(RpcError::ProcedureUnavailable),
            3 => std::future::pending().await,
            4 => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok(4)
            }
            5 => match cx.credentials() {
                oncrpc::Credentials::Sys(user) => Ok(user.uid),
                _ => Err(RpcError::Auth(oncrpc::protocol::AuthStat::AuthTooweak)),
            },
            6 => Err(RpcError::NoReply),
            8 => {
                let goes_on = self.go_on.notified();
                self.waiting.fetch_add(1, Relaxed);
                goes_on.await;
                self.waiting.fetch_sub(1, Relaxed);
                Ok(8)
            }
            how => Ok(how),
        }
    }
}

/// Runs a test on several threads.
pub fn run(test: impl Future<Output = ()>) {
    run_within(Duration::from_secs(60), test);
}

/// Runs a long test with this time limit.
pub fn run_within(limit: Duration, test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("hangs") });
}

/// Waits until a condition is true.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Asserts the complete text of an error, whether the call was executed, and that the tutorial's
/// table has the error.
#[track_caller]
pub fn assert_error(error: &CallError, text: &str, execution: Execution) {
    let (name, peer) = (error.procedure().name, error.peer());
    let whole = format!("{name} of program 0x20000001 version 1 at {peer}: {text} ({execution})");
    assert_eq!(error.to_string(), whole);
    assert_eq!(error.execution(), execution);
    table::assert_documented(text, execution);
}

/// Makes calls in many tasks that share a connection, and cancels a tenth of them.
pub async fn many_tasks_share(kv: &Client<Channel>) {
    let tasks: Vec<_> = (0..64u32)
        .map(|task| {
            let kv = kv.clone();
            tokio::spawn(async move {
                for number in 100..150 {
                    if number % 10 == 0 {
                        let call = kv.fail(&4).into_future();
                        let _ = tokio::time::timeout(Duration::from_micros(50), call).await;
                    }
                    assert_eq!(kv.fail(&(number + task)).await.unwrap(), number + task);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// A key of a request for a value.
pub fn key(key: &str) -> Text<'_> {
    key.try_into().unwrap()
}

/// A request to store a value.
pub fn put<'a>(key: &'a str, value: impl Into<Item<'a>>) -> PutArgs<'a> {
    PutArgs {
        key: key.try_into().unwrap(),
        value: value.into(),
    }
}

/// The value in a result.
pub fn found(res: owned::GetRes) -> Option<Item<'static>> {
    match res {
        owned::GetRes::True(ok) => Some(ok.value),
        owned::GetRes::False => None,
    }
}
