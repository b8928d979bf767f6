//! The chunks of calls, as the transports of the servers count them: a chunk here is one RDMA Read
//! or one RDMA Write, and data in the message are none.
#![allow(dead_code, unreachable_pub, reason = "several tests share it")]

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// A call of a world's client, or several, and the RDMA Reads and Writes of the server for them.
pub struct Row<W: 'static> {
    pub name: &'static str,
    pub moved: [u64; 2],
    /// The same with rtrext-02, where a long message goes in several Sends.
    pub with_rtr: [u64; 2],
    pub calls: Box<dyn for<'a> Fn(&'a W) -> Calls<'a>>,
}

pub type Calls<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub fn row<W, F>(name: &'static str, moved: [u64; 2], calls: F) -> Row<W>
where
    F: for<'a> Fn(&'a W) -> Calls<'a> + 'static,
{
    Row {
        name,
        moved,
        with_rtr: moved,
        calls: Box::new(calls),
    }
}

impl<W> Row<W> {
    pub fn with_rtr(self, with_rtr: [u64; 2]) -> Self {
        Self { with_rtr, ..self }
    }
}

/// What the servers have published.
struct Recorded {
    snapshotter: Snapshotter,
    servers: Mutex<HashMap<String, Published>>,
}

/// The counters of a server. It publishes them once a second.
#[derive(Clone, Copy, Default)]
struct Published {
    /// How often snapshots have had the counters.
    times: u32,
    /// RDMA Reads and Writes since the start of the server.
    counts: [u64; 2],
}

/// Returns the recorder of the process.
fn recorded() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        recorder.install().unwrap();
        Recorded {
            snapshotter,
            servers: Mutex::default(),
        }
    })
}

/// Begins to record the counters of the servers of this process.
pub fn record() {
    recorded();
}

impl Recorded {
    /// Takes what was published since the last snapshot, of all servers.
    fn take(&self) -> MutexGuard<'_, HashMap<String, Published>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let key = key.key();
            let server = key.labels().find(|label| label.key() == "driver");
            let (Some(server), DebugValue::Counter(count @ 1..)) = (server, value) else {
                continue;
            };
            let published = servers.entry(server.value().to_owned()).or_default();
            let [reads, writes] = &mut published.counts;
            match key.name() {
                "rdma_reads_total" => *reads = count.max(*reads),
                "rdma_writes_total" => *writes = count.max(*writes),
                "rdma_sends_total" => published.times += 1,
                _ => {}
            }
        }
        servers
    }

    /// Waits for counters of a server that it has published after this call.
    async fn counts(&self, server: &str, since: u32) -> [u64; 2] {
        loop {
            // A snapshot may divide a publication, which the next publication completes.
            if let Some(published) = self.take().get(server)
                && published.times >= since + 2
            {
                return published.counts;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn all(&self, servers: &[String]) -> Vec<[u64; 2]> {
        let since: Vec<u32> = {
            let known = self.take();
            let times = |server| {
                known
                    .get(server)
                    .map_or(0, |published: &Published| published.times)
            };
            servers.iter().map(times).collect()
        };
        let mut counts = Vec::new();
        for (server, since) in servers.iter().zip(since) {
            counts.push(self.counts(server, since).await);
        }
        counts
    }
}

/// Returns the RDMA Reads and Writes of each server during some work. A server has the name of its
/// metrics, and one thread.
pub async fn reads_and_writes<W: Future<Output = ()>>(names: &[String], work: W) -> Vec<[u64; 2]> {
    let servers: Vec<String> = names.iter().map(|name| format!("{name}-0")).collect();
    let before = recorded().all(&servers).await;
    work.await;
    let after = recorded().all(&servers).await;
    let pairs = after.iter().zip(before);
    pairs
        .map(|(after, before)| [after[0] - before[0], after[1] - before[1]])
        .collect()
}
