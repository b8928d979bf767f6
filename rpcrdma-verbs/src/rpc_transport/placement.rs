//! The placement of connections on the threads of a server.
//!
//! `oncrpc::ConnectionPlacer` chooses a thread, and `ServerControl::select_queue` limits the
//! requests that wait there. The acceptor counts the connections of a thread as placed less ended,
//! so the thread must `hand_over` each request that it takes, and `tell` how many are left. `close`
//! ends the thread's part: the acceptor then places requests on other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ::tokio::sync::Semaphore;
use ::tokio::sync::mpsc::{Receiver, Sender, channel};
use oncrpc::{ConnectRequest, ConnectionPlacement, ConnectionPlacer, ServerControl};

use super::connections::STOPPING;

use crate::driver::{Driver, IncomingConnection, ListenerHandle};
use crate::provider::Device;

/// The acceptor: it takes requests to connect, and passes them to the threads. If the thread of a
/// request has ended, or too many requests wait for it, the next one gets it.
pub(super) struct Acceptor<D: Device> {
    placer: ConnectionPlacer,
    control: ServerControl,
    threads: Vec<Outlet<D>>,
}

/// The acceptor's end of one thread.
struct Outlet<D: Device> {
    requests: Sender<IncomingConnection<D>>,
    placed: u64,
    /// The number of those that have ended or were rejected.
    ended: Arc<AtomicU64>,
}

/// The requests to connect that are placed on a thread.
pub(super) struct Inlet<D: Device> {
    requests: Receiver<IncomingConnection<D>>,
    taken: u64,
    told: u64,
    ended: Arc<AtomicU64>,
}

/// Returns an acceptor, and the ends of this number of threads.
pub(super) fn acceptor<D: Device>(
    threads: usize,
    placement: ConnectionPlacement,
    control: &ServerControl,
) -> (Acceptor<D>, Vec<Inlet<D>>) {
    let (threads, inlets) = (0..threads).map(|_| outlet()).unzip();
    let acceptor = Acceptor {
        placer: ConnectionPlacer::new(placement),
        control: control.clone(),
        threads,
    };
    (acceptor, inlets)
}

/// Returns the acceptor of a server with one thread, and the thread's end.
pub(super) fn acceptor_of_one<D: Device>(control: &ServerControl) -> (Acceptor<D>, Inlet<D>) {
    let (thread, inlet) = outlet();
    let acceptor = Acceptor {
        placer: ConnectionPlacer::new(ConnectionPlacement::RoundRobin),
        control: control.clone(),
        threads: vec![thread],
    };
    (acceptor, inlet)
}

/// Returns both ends of the queue of requests to a thread.
fn outlet<D: Device>() -> (Outlet<D>, Inlet<D>) {
    // The acceptor limits the length.
    let (sender, receiver) = channel(Semaphore::MAX_PERMITS);
    let ended = Arc::new(AtomicU64::new(0));
    let outlet = Outlet {
        requests: sender,
        placed: 0,
        ended: ended.clone(),
    };
    let inlet = Inlet {
        requests: receiver,
        taken: 0,
        told: 0,
        ended,
    };
    (outlet, inlet)
}

impl<D: Device> Acceptor<D> {
    /// Passes arrived requests to the threads. Returns their number.
    pub(super) fn place(&mut self, driver: &mut Driver<D>, listener: ListenerHandle) -> usize {
        let mut count = 0;
        while let Some(request) = driver.next_request(listener) {
            count += 1;
            if let Err((request, reason)) = self.place_one(request) {
                driver.reject(request, &reason);
            }
        }
        count
    }

    /// Passes a request to a thread; or returns it, and why it is rejected.
    fn place_one(
        &mut self,
        mut request: IncomingConnection<D>,
    ) -> Result<(), (IncomingConnection<D>, String)> {
        let open = self.threads.iter().map(Outlet::connections);
        let first = self.placer.place(request.peer(), open);
        self.threads.rotate_left(first);
        let placed = loop {
            match self.select_thread(&request) {
                Err(reason) => break Err((request, reason)),
                Ok(thread) => match thread.requests.try_send(request) {
                    Ok(()) => {
                        thread.placed += 1;
                        break Ok(());
                    }
                    // The thread has just ended.
                    Err(refused) => request = refused.into_inner(),
                },
            }
        };
        self.threads.rotate_right(first);
        placed
    }

    /// Returns the first thread for which the request may wait, or why it is rejected.
    fn select_thread(&mut self, request: &IncomingConnection<D>) -> Result<&mut Outlet<D>, String> {
        let mut open: Vec<_> = self
            .threads
            .iter_mut()
            .filter(|one| one.is_open())
            .collect();
        if open.is_empty() {
            return Err(STOPPING.to_owned());
        }
        let (peer, data) = (request.peer(), request.private_data());
        let request = ConnectRequest::new(peer, "rdma", data);
        let lengths = open.iter().map(|thread| thread.waiting());
        let selected = self.control.select_queue(&request, lengths);
        Ok(open.swap_remove(selected.map_err(|reason| reason.to_string())?))
    }
}

impl<D: Device> Outlet<D> {
    fn connections(&self) -> u64 {
        self.placed.saturating_sub(self.ended.load(Relaxed))
    }

    fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Returns the number of requests that wait for the thread.
    fn waiting(&self) -> usize {
        self.requests.max_capacity() - self.requests.capacity()
    }
}

impl<D: Device> Inlet<D> {
    /// Passes arrived requests to the thread's listener. Returns their number.
    pub(super) fn take(&mut self, driver: &mut Driver<D>, listener: ListenerHandle) -> usize {
        let mut count = 0;
        while let Ok(request) = self.requests.try_recv() {
            self.hand_over(driver, listener, request);
            count += 1;
        }
        count
    }

    /// Waits for the next request; for ever if none can follow.
    pub(super) async fn next(&mut self) -> IncomingConnection<D> {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    pub(super) fn hand_over(
        &mut self,
        driver: &mut Driver<D>,
        listener: ListenerHandle,
        request: IncomingConnection<D>,
    ) {
        self.taken += 1;
        driver.hand_over(listener, request);
    }

    /// Informs the acceptor how many of the taken requests are left, as connections or undecided.
    pub(super) fn tell(&mut self, left: usize) {
        let ended = self.taken.saturating_sub(left as u64);
        if ended != self.told {
            self.told = ended;
            self.ended.store(ended, Relaxed);
        }
    }

    /// Accepts no more requests, and rejects the waiting ones.
    pub(super) fn close(&mut self, driver: &mut Driver<D>) {
        self.requests.close();
        while let Ok(request) = self.requests.try_recv() {
            driver.reject(request, STOPPING);
        }
    }
}
