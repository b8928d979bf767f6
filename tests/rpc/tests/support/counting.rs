//! A service that counts how often each call is executed, and clients of it.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncrpc::xdr::Text;
use oncrpc::{
    CallOptions, Channel, Context, Execution, ReplyCache, Resend, RpcError, ServerControl,
};
use rpcrdma_rpc_tests::kv::PutArgs;
use rpcrdma_rpc_tests::kv::kv::kv1::{Client, GetResults, Service};

use super::random::Rng;
use super::{ALWAYS, until};

/// Counts how often each call is executed.
#[derive(Debug)]
pub struct Counting {
    executed: Vec<AtomicU32>,
    rng: Mutex<Rng>,
}

impl Service for Counting {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Err(RpcError::ProcedureUnavailable)
    }

    async fn fail(&self, _: &Context, number: u32) -> Result<u32, RpcError> {
        self.executed[number as usize].fetch_add(1, Relaxed);
        let how = self.rng.lock().unwrap().below(4);
        if how == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        } else if how == 1 {
            tokio::task::yield_now().await;
        }
        Ok(!number)
    }
}

impl Counting {
    pub fn new(rng: Rng) -> Self {
        Self {
            executed: (0..CALLS).map(|_| AtomicU32::new(0)).collect(),
            rng: Mutex::new(rng),
        }
    }

    /// Makes all calls on several channels. Calls of every other channel are retransmitted over the
    /// next connection, and the others fail.
    pub async fn execute(self: &Arc<Self>, channel: impl Fn() -> Channel) {
        let mut channels = Vec::new();
        for number in 0..CHANNELS {
            let is_resent = number % 2 == 0;
            let resend = if is_resent { ALWAYS } else { Resend::IfUnsent };
            let kv = Client::new(channel()).with_options(CallOptions::DEFAULT.resend(resend));
            let numbers = CALLS / CHANNELS * number..CALLS / CHANNELS * (number + 1);
            let calls = tokio::spawn(make_calls(kv, numbers, self.clone()));
            channels.push((is_resent, calls));
        }
        for (is_resent, calls) in channels {
            let unknown = calls.await.unwrap();
            assert_eq!(unknown > 0, !is_resent, "{unknown} calls unknown");
        }
    }

    /// Asserts that no call was executed twice, that many connections were cut, and that the reply
    /// cache was needed.
    pub async fn check(&self, cache: &ReplyCache, control: &ServerControl) {
        until(|| control.stats().calls_in_flight == 0).await;
        for (number, executed) in self.executed.iter().enumerate() {
            assert!(executed.load(Relaxed) <= 1, "{number} was executed twice");
        }
        let (stats, connections) = (cache.stats(), control.stats().accepted);
        println!("{connections} connections, {stats:?}");
        assert!(
            connections > 40 && stats.hits > 0,
            "{connections} connections, {stats:?}"
        );
        assert_eq!((stats.evicted, stats.too_large), (0, 0));
    }
}

const CALLS: u32 = 10_000;
const CHANNELS: u32 = 4;
const TASKS: u32 = 32;

/// Makes the calls of a channel, with numbers of a range, in many tasks.
async fn make_calls(
    kv: Client<Channel>,
    numbers: std::ops::Range<u32>,
    counting: Arc<Counting>,
) -> u32 {
    let next = Arc::new(AtomicU32::new(numbers.start));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (kv, next) = (kv.clone(), next.clone());
            let (counting, end) = (counting.clone(), numbers.end);
            tokio::spawn(async move {
                let mut unknown = 0;
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= end {
                        return unknown;
                    }
                    let result = kv.fail(&number).await;
                    let executed = counting.executed[number as usize].load(Relaxed);
                    match result {
                        Ok(reply) => assert_eq!((reply, executed), (!number, 1), "{number}"),
                        Err(error) => {
                            assert_eq!(error.execution(), Execution::Unknown, "{error}");
                            unknown += 1;
                        }
                    }
                }
            })
        })
        .collect();
    let mut unknown = 0;
    for task in tasks {
        unknown += task.await.unwrap();
    }
    unknown
}
