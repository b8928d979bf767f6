//! `rpcrdma nfs bench`: measures operations per second and latencies of each operation.
//!
//! The operations run in the order of `Operation::ALL`: WRITE comes before READ, and `remove`
//! removes what `create` created. All workers must have ended before the temporary directory
//! (`scratch`) is removed, or a call in flight creates a file in it again. Signals are caught from
//! before this directory exists.

use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use oncrpc::Channel;
use oncrpc::xdr::SharedBytes;
use rpcrdma_nfs::client::{Client, ClientError};
use rpcrdma_nfs::nfs3::{ACCESS3_READ, Createhow3, Ftype3, Sattr3, SetMode3, StableHow};
use rpcrdma_nfs::{FileHandle, Object};
use tokio::task::JoinSet;

use super::remote::{Access, AnyError, OpenedObject, Remote};
use super::scratch::ScratchDir;
use super::signals::Signals;
use crate::output::{OutputError, outln};
use crate::units::{size_u32, time};

#[derive(clap::Args)]
pub(super) struct Bench {
    #[command(flatten)]
    pub(super) access: Access,
    /// Directory of a server, in which a temporary directory is created.
    #[arg(value_name = "SERVER:/PATH", value_parser = Remote::parse)]
    pub(super) dir: Remote,
    /// Time for each operation; `remove` makes as many calls as `create`.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    duration: Duration,
    /// Calls in flight.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    depth: u16,
    /// Bytes of a READ and of a WRITE, up to the server's limit.
    #[arg(long, value_name = "BYTES", value_parser = some_bytes, default_value = "4K")]
    size: u32,
    /// Print a line of JSON for each operation.
    #[arg(long)]
    json: bool,
}

fn some_bytes(text: &str) -> Result<u32, String> {
    let bytes = size_u32(text)?;
    let some = Some(bytes).filter(|bytes| *bytes > 0);
    some.ok_or_else(|| "one byte is the least".to_owned())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Null,
    Getattr,
    Lookup,
    Access,
    Readdirplus,
    Read,
    Write,
    WriteStable,
    Create,
    Remove,
}

impl Operation {
    const ALL: [Self; 10] = [
        Self::Null,
        Self::Getattr,
        Self::Lookup,
        Self::Access,
        Self::Readdirplus,
        Self::Write,
        Self::WriteStable,
        Self::Read,
        Self::Create,
        Self::Remove,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Getattr => "getattr",
            Self::Lookup => "lookup",
            Self::Access => "access",
            Self::Readdirplus => "readdirplus",
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteStable => "write-stable",
            Self::Create => "create",
            Self::Remove => "remove",
        }
    }
}

/// The objects that the workers use.
struct Workspace {
    client: Client<Channel>,
    /// The directory of the benchmark, which contains `FILE`.
    dir: FileHandle,
    file: FileHandle,
    data: SharedBytes,
    /// Set by a signal or an error: the workers end after their calls in flight.
    stop: Arc<AtomicBool>,
}

impl Workspace {
    fn must_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

const FILE: &str = "file";

/// The time when a worker stops.
#[derive(Clone, Copy)]
enum Until {
    Time(Instant),
    Count(u64),
}

type Times = Histogram<u64>;

/// The number of a worker, and its times.
type WorkerResult = Result<(usize, Times), Box<dyn Error + Send + Sync>>;

impl Bench {
    pub(super) async fn run(&self) -> Result<(), AnyError> {
        let OpenedObject { client, object } = self.access.open(&self.dir).await?;
        if object.attributes.r#type != Ftype3::Dir {
            return Err("the benchmark needs a directory".into());
        }
        // This comes before the directory is created, so that no signal leaves it on the server.
        let mut signals = Signals::new(false)?;
        let scratch = ScratchDir::create(client.clone(), object.handle).await?;
        let stop = Arc::default();
        let mut done = pin!(self.measure_in(client, &scratch, &stop));
        tokio::select! {
            done = &mut done => return done,
            () = signals.end() => stop.store(true, Ordering::Relaxed),
        }
        let name = &scratch.name;
        eprintln!("rpcrdma: removing {name} from the server; a second signal ends this");
        tokio::select! {
            done = done => done,
            () = signals.end() => Err(format!("interrupted: {name} remains on the server").into()),
        }
    }

    /// Measures all operations in a directory, and removes it. An error of the benchmark takes
    /// precedence over one of the removal.
    async fn measure_in(
        &self,
        client: Client<Channel>,
        scratch: &ScratchDir,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), AnyError> {
        let measured = match self.workspace(client, scratch.handle, stop).await {
            Ok(workspace) => self.measure_all(&Arc::new(workspace)).await,
            Err(error) => Err(error.into()),
        };
        let Err(error) = scratch.remove().await else {
            return measured;
        };
        let remains = format!(
            "{} could not be removed from the server: {error}",
            scratch.name
        );
        if measured.is_ok() {
            return Err(remains.into());
        }
        eprintln!("rpcrdma: {remains}");
        measured
    }

    async fn workspace(
        &self,
        client: Client<Channel>,
        dir: FileHandle,
        stop: &Arc<AtomicBool>,
    ) -> Result<Workspace, ClientError> {
        let file = create(&client, &dir, FILE).await?.handle;
        let limits = client.limits();
        let size = self.size.min(limits.read).min(limits.write) as usize;
        let mut data = client.stubs().transport().item_buf(size);
        data.fill(0x5a);
        let data = data.into_shared(size);
        let how = StableHow::FileSync;
        client.write(&file, 0, data.clone(), how).await?;
        Ok(Workspace {
            client,
            dir,
            file,
            data,
            stop: stop.clone(),
        })
    }

    async fn measure_all(&self, workspace: &Arc<Workspace>) -> Result<(), AnyError> {
        self.title(workspace.data.len())?;
        let mut created = vec![0; self.depth.into()];
        for operation in Operation::ALL {
            let began = Instant::now();
            let times = self.measure(workspace, operation, &mut created).await?;
            self.report(operation, &times, began.elapsed())?;
        }
        Ok(())
    }

    /// Measures one operation. `created` has the number of files of each worker. All workers have
    /// ended when this returns: no call of them is in flight.
    async fn measure(
        &self,
        workspace: &Arc<Workspace>,
        operation: Operation,
        created: &mut [u64],
    ) -> Result<Times, AnyError> {
        let end = Instant::now() + self.duration;
        let mut workers = JoinSet::new();
        for (worker, count) in created.iter().enumerate() {
            let until = match operation {
                Operation::Remove => Until::Count(*count),
                _ => Until::Time(end),
            };
            workers.spawn(work(workspace.clone(), operation, worker, until));
        }
        let mut times = Ok(Times::new(3)?);
        while let Some(done) = workers.join_next().await {
            times = times.and_then(|times| add(times, done?, operation, created));
            if times.is_err() {
                workspace.stop.store(true, Ordering::Relaxed);
            }
        }
        if times.is_ok() && workspace.must_stop() {
            return Err("interrupted".into());
        }
        times
    }

    fn title(&self, size: usize) -> Result<(), OutputError> {
        if self.json {
            return Ok(());
        }
        let [rate, p50, p90, p99, max] = ["per second", "p50 us", "p90 us", "p99 us", "max us"];
        outln!("{} in flight, {size} bytes", self.depth);
        outln!(
            "{:12} {rate:>10} {p50:>10} {p90:>10} {p99:>10} {max:>10}",
            "operation"
        );
        Ok(())
    }

    fn report(
        &self,
        operation: Operation,
        times: &Times,
        took: Duration,
    ) -> Result<(), OutputError> {
        let rate = times.len() as f64 / took.as_secs_f64();
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|at| times.value_at_quantile(at) as f64 / 1e3);
        let (name, max) = (operation.name(), times.max() as f64 / 1e3);
        if self.json {
            let latency = serde_json::json!({ "p50": p50, "p90": p90, "p99": p99, "max": max });
            let line = serde_json::json!({
                "operation": name, "calls": times.len(), "per_second": rate, "latency_us": latency,
            });
            outln!("{line}");
        } else {
            outln!("{name:12} {rate:>10.0} {p50:>10.1} {p90:>10.1} {p99:>10.1} {max:>10.1}");
        }
        Ok(())
    }
}

/// Adds the times of a worker to those of an operation.
fn add(
    mut times: Times,
    of_worker: WorkerResult,
    operation: Operation,
    created: &mut [u64],
) -> Result<Times, AnyError> {
    let (worker, of_worker) = of_worker.map_err(|error| error as AnyError)?;
    if operation == Operation::Create
        && let Some(count) = created.get_mut(worker)
    {
        *count = of_worker.len();
    }
    times.add(of_worker)?;
    Ok(times)
}

/// Makes successive calls, and at least one, so that each operation has a latency.
async fn work(
    workspace: Arc<Workspace>,
    operation: Operation,
    worker: usize,
    until: Until,
) -> WorkerResult {
    let mut times = Times::new(3)?;
    loop {
        let is_over = match until {
            _ if workspace.must_stop() => true,
            Until::Time(end) => !times.is_empty() && Instant::now() >= end,
            Until::Count(count) => times.len() >= count,
        };
        if is_over {
            return Ok((worker, times));
        }
        let name = format!("{worker}-{}", times.len());
        let began = Instant::now();
        once(&workspace, operation, &name).await?;
        times.record(u64::try_from(began.elapsed().as_nanos())?)?;
    }
}

fn create<'c>(
    client: &'c Client<Channel>,
    dir: &'c FileHandle,
    name: &'c str,
) -> impl Future<Output = Result<Object, ClientError>> + Send + 'c {
    let attributes = Sattr3 {
        mode: SetMode3::True(0o600),
        ..Sattr3::UNSET
    };
    async move {
        let how = Createhow3::Unchecked(attributes);
        client.create(dir, name, &how).await
    }
}

/// Makes one call.
async fn once(workspace: &Workspace, operation: Operation, name: &str) -> Result<(), ClientError> {
    let Workspace {
        client,
        dir,
        file,
        data,
        ..
    } = workspace;
    let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
    match operation {
        Operation::Null => client.stubs().null().await?,
        Operation::Getattr => drop(client.attributes(file).await?),
        Operation::Lookup => drop(client.lookup(dir, FILE).await?),
        Operation::Access => drop(client.access(file, ACCESS3_READ).await?),
        Operation::Readdirplus => drop(client.read_dir_plus(dir).next().await?),
        Operation::Read => drop(client.read(file, 0, count).await?),
        Operation::Write => {
            let how = StableHow::Unstable;
            client.write(file, 0, data.clone(), how).await?;
        }
        Operation::WriteStable => {
            let how = StableHow::FileSync;
            client.write(file, 0, data.clone(), how).await?;
        }
        Operation::Create => drop(create(client, dir, name).await?),
        Operation::Remove => client.remove(dir, name).await?,
    }
    Ok(())
}
