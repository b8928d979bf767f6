//! Threads that serve connections, each with a runtime and a router of its own.

use std::io;
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{iter, thread};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::accepted::Accepted;
use super::handlers::handlers_end;
use crate::placement::{ConnectionPlacement, ConnectionPlacer};
use crate::router::{Programs, Router};

/// The threads of a server. When this is dropped, each ends after its connections.
#[derive(Debug)]
pub(super) struct Threads {
    placer: ConnectionPlacer,
    threads: Vec<Thread>,
}

/// The server's end of one thread.
#[derive(Debug)]
struct Thread {
    connections: mpsc::UnboundedSender<(TcpStream, Accepted)>,
    /// The number of connections that are placed on it and have not ended.
    open: Arc<AtomicU64>,
    /// Resolves when the thread has ended.
    ended: oneshot::Receiver<()>,
}

impl Threads {
    /// Starts a number of threads, whose routers share one reply cache.
    pub(super) fn start<P: Programs>(
        count: NonZeroUsize,
        router: impl Fn() -> Router<P>,
        placement: ConnectionPlacement,
    ) -> io::Result<Self> {
        let first = router();
        let cache = first.cache().clone();
        let others = (1..count.get()).map(|_| router().reply_cache(cache.clone()));
        Ok(Self {
            placer: ConnectionPlacer::new(placement),
            threads: iter::once(first)
                .chain(others)
                .map(start)
                .collect::<io::Result<_>>()?,
        })
    }

    /// Passes a connection to a thread.
    pub(super) fn serve(&mut self, stream: TcpStream, accepted: Accepted) {
        let open = self.threads.iter().map(|thread| thread.open.load(Relaxed));
        let number = self.placer.place(accepted.address, open);
        if let Some(thread) = self.threads.get(number) {
            thread.open.fetch_add(1, Relaxed);
            // A thread ends only after this is dropped.
            let _ = thread.connections.send((stream, accepted));
        }
    }

    /// Waits until each thread has served its connections to their ends.
    pub(super) async fn end(self) {
        for Thread {
            connections, ended, ..
        } in self.threads
        {
            drop(connections);
            // An error says that the thread has ended, too.
            let _ = ended.await;
        }
    }
}

fn start<P: Programs>(router: Router<P>) -> io::Result<Thread> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (connections, receiver) = mpsc::unbounded_channel();
    let (end, ended) = oneshot::channel::<()>();
    let open = Arc::new(AtomicU64::new(0));
    let count = open.clone();
    // If there is no thread, the runtime does not end within the caller's, which would panic.
    let (runtimes, given) = std::sync::mpsc::channel::<Runtime>();
    let thread = thread::Builder::new().name("oncrpc-server".to_owned());
    let spawned = thread.spawn(move || {
        if let Ok(runtime) = given.recv() {
            run(&runtime, Arc::new(router), receiver, count);
        }
        drop(end);
    });
    if let Err(error) = spawned {
        runtime.shutdown_background();
        return Err(error);
    }
    // The thread waits for it.
    drop(runtimes.send(runtime));
    Ok(Thread {
        connections,
        open,
        ended,
    })
}

/// Serves the connections of one thread until no other can follow and all have ended.
fn run<P: Programs>(
    runtime: &Runtime,
    router: Arc<Router<P>>,
    mut receiver: mpsc::UnboundedReceiver<(TcpStream, Accepted)>,
    open: Arc<AtomicU64>,
) {
    // The router is dropped within the runtime.
    runtime.block_on(async move {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = receiver.recv() => {
                    let Some((stream, accepted)) = accepted else { break };
                    let (router, counted) = (router.clone(), Counted(open.clone()));
                    connections.spawn(async move {
                        accepted.serve(stream.try_into(), router).await;
                        drop(counted);
                    });
                }
                Some(_) = connections.join_next() => {}
            }
        }
        while connections.join_next().await.is_some() {}
        handlers_end(&router).await;
    });
}

/// A connection of a thread, until it is dropped.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
