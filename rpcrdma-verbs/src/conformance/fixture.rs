//! Two connected ends for the cases. `TestEnd` posts by `queue::Endpoint`, as a driver does, so
//! that the cases also test it. `until` limits every wait.
//!
//! `TestEnd::complete` panics if a completion belongs to nothing that is posted: so each case tests
//! that a provider reports each request once. Fields are dropped in the order of their declaration:
//! the queue pair before the memory that it uses.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::TestBed;
use crate::driver::exposure::{ExposedRegion, KeyedWindow, WindowBinding};
use crate::memory::{Budget, Buf, Pool, PostedBuf};
use crate::provider::{
    Access, Completion, CompletionQueue, ConnectionEvent, ConnectionManager, Device, Operation,
    QueuePair, QueuePairConfig, Queues, RemoteMemory, Result, Status,
};
use crate::queue::{BufRange, CompletionKind, Endpoint};

pub(super) const CONFIG: QueuePairConfig = QueuePairConfig {
    sends: 64,
    receives: 64,
    reads: 8,
    rnr_retry: false,
};
/// The timeout for anything on the slowest device.
const TIMEOUT: Duration = Duration::from_secs(20);

/// An event of a connection manager.
pub(super) type Event<D> =
    ConnectionEvent<<<D as Device>::Manager as ConnectionManager<D>>::Request>;

/// Polls until there is a value.
pub(super) fn until<T>(what: &str, mut try_once: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    let mut tries = 0u32;
    loop {
        if let Some(found) = try_once() {
            return found;
        }
        assert!(began.elapsed() < TIMEOUT, "it takes too long: {what}");
        // A software device may need this processor, and an emulated machine the host's.
        if tries < 64 {
            tries += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// A device with the objects that establish connections.
pub(super) struct Host<D: Device> {
    pub(super) completions: D::CompletionQueue,
    pub(super) manager: D::Manager,
    pub(super) pool: Pool<D>,
    pub(super) budget: Budget,
    pub(super) device: D,
    /// The settings of its queue pairs.
    pub(super) config: QueuePairConfig,
    /// Events that arrived while something else was awaited.
    pending: VecDeque<Event<D>>,
}

impl<D: Device> std::fmt::Debug for Host<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Host({:?})", self.device)
    }
}

impl<D: Device> Host<D> {
    pub(super) fn new(device: &D, completions: u32) -> Self {
        let budget = Budget::new(1 << 28);
        Self {
            completions: device
                .completion_queue(completions)
                .expect("a completion queue"),
            manager: device.manager().expect("a connection manager"),
            pool: Pool::new(device, &budget),
            budget,
            device: device.clone(),
            config: CONFIG,
            pending: VecDeque::new(),
        }
    }

    /// Polls the connection manager: establishing a connection takes polls of both ends.
    pub(super) fn advance(&mut self) {
        self.pending.extend(self.manager.poll());
    }

    /// Returns the next event, if there is one.
    pub(super) fn poll(&mut self) -> Option<Event<D>> {
        self.pending.pop_front().or_else(|| self.manager.poll())
    }

    /// Waits for the next event.
    pub(super) fn event(&mut self) -> Event<D> {
        until("an event of the connection manager", || self.poll())
    }

    /// Waits for the next event, while it polls another host.
    pub(super) fn event_by(&mut self, other: &mut Self) -> Event<D> {
        until("an event of the connection manager", || {
            other.advance();
            self.poll()
        })
    }

    pub(super) fn connect(
        &mut self,
        to: std::net::SocketAddr,
        private_data: &[u8],
    ) -> Result<D::QueuePair> {
        let queues = Queues {
            completions: &self.completions,
            receives: None,
        };
        self.manager.connect(to, &self.config, queues, private_data)
    }

    /// Waits for the connect request of another host.
    pub(super) fn requested_by(
        &mut self,
        other: &mut Self,
    ) -> (<D::Manager as ConnectionManager<D>>::Request, Box<[u8]>) {
        let event = until("a request for a connection", || {
            other.advance();
            other.check_connects();
            self.poll()
        });
        match event {
            ConnectionEvent::Requested {
                request,
                private_data,
                ..
            } => (request, private_data),
            _ => panic!("a request should have come"),
        }
    }

    /// Panics with the error if a connection of this host has failed: the peer waits for it in
    /// vain.
    fn check_connects(&self) {
        for event in &self.pending {
            if let ConnectionEvent::Failed {
                rejected: false,
                error,
                ..
            } = event
            {
                panic!("the connection can't be established: {error:?}");
            }
        }
    }

    pub(super) fn prepare(
        &mut self,
        request: &<D::Manager as ConnectionManager<D>>::Request,
    ) -> Result<D::QueuePair> {
        let queues = Queues {
            completions: &self.completions,
            receives: None,
        };
        self.manager.prepare(request, &self.config, queues)
    }

    pub(super) fn buf(&self, bytes: &[u8]) -> Buf {
        let mut buf = self.pool.take(bytes.len() as u32).expect("memory");
        buf.extend_from_slice(bytes);
        buf
    }
}

/// The outcome of something that was posted.
#[derive(Debug)]
pub(super) enum TestEvent {
    /// A request, with its number.
    Request(u32, Status),
    /// A receive.
    Receive(Buf, Status, Option<u32>),
}

/// A queue pair, with its completions.
#[derive(Debug)]
pub(super) struct TestEnd<D: Device> {
    pub(super) endpoint: Endpoint<D, u32>,
    pub(super) events: VecDeque<TestEvent>,
    pub(super) host: Host<D>,
    /// True after the disconnection was reported.
    pub(super) is_disconnected: bool,
    next: u32,
}

/// Both ends of a connection.
#[derive(Debug)]
pub(super) struct ConnectedEnds<D: Device> {
    pub(super) near: TestEnd<D>,
    pub(super) far: TestEnd<D>,
}

impl<D: Device> TestEnd<D> {
    pub(super) fn new(pair: D::QueuePair, host: Host<D>) -> Self {
        Self {
            endpoint: Endpoint::new(&host.device, pair, 7),
            events: VecDeque::new(),
            host,
            is_disconnected: false,
            next: 0,
        }
    }

    /// Posts receives of this size.
    pub(super) fn receives(&mut self, count: u32, bytes: u32) {
        for _ in 0..count {
            self.endpoint
                .push_receive(self.host.pool.take(bytes).expect("memory"));
        }
        self.endpoint.post().expect("receives can be posted");
    }

    /// Adds a request to the batch, and returns its number.
    pub(super) fn push(&mut self, operation: Operation, parts: &[BufRange], signaled: bool) -> u32 {
        self.next += 1;
        assert!(
            self.endpoint
                .push(operation, parts.iter().cloned(), signaled, self.next)
        );
        self.next
    }

    pub(super) fn post(&mut self) {
        self.endpoint.post().expect("it can be posted");
    }

    /// Posts one signaled request.
    pub(super) fn request(&mut self, operation: Operation, parts: &[BufRange]) -> u32 {
        let number = self.push(operation, parts, true);
        self.post();
        number
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> u32 {
        let part = whole_range(self.host.buf(bytes));
        self.request(Operation::Send { invalidate: None }, &[part])
    }

    /// Adds an inline message to the batch. If it is signaled, it has the next number.
    pub(super) fn push_inline(&mut self, bytes: &[u8], signaled: bool) -> u32 {
        self.next += u32::from(signaled);
        let length = bytes.len() as u32;
        self.endpoint
            .inline_room(length)
            .expect("there is room")
            .copy_from_slice(bytes);
        let what = signaled.then_some(self.next);
        self.endpoint.push_inline(None, length, signaled, what);
        self.next
    }

    pub(super) fn write(&mut self, to: RemoteMemory, bytes: &[u8]) -> u32 {
        let part = whole_range(self.host.buf(bytes));
        self.request(Operation::Write { to }, &[part])
    }

    /// Reads bytes from the peer, and returns them.
    pub(super) fn read(
        &mut self,
        from: RemoteMemory,
        bytes: u32,
    ) -> std::result::Result<Vec<u8>, Status> {
        let mut sink = self.host.pool.take(bytes).expect("memory");
        sink.as_full_mut().fill(0xee);
        sink.set_len(bytes);
        let sink = PostedBuf::from(sink);
        let number = self.request(
            Operation::Read { from },
            &[BufRange {
                buf: sink.clone(),
                offset: 0,
                length: bytes,
            }],
        );
        match self.wait_for(number) {
            Status::Success => Ok(sink.into_buf().expect("the read is done").to_vec()),
            status => Err(status),
        }
    }

    /// Takes completions and connection events.
    pub(super) fn turn(&mut self) {
        let mut taken = Vec::new();
        self.host
            .completions
            .poll(&mut taken, 16)
            .expect("no overrun");
        taken
            .iter()
            .for_each(|completion| self.complete(completion));
        while let Some(event) = self.host.poll() {
            self.is_disconnected |= matches!(event, ConnectionEvent::Disconnected { .. });
        }
    }

    pub(super) fn complete(&mut self, completion: &Completion) {
        match self.endpoint.complete(completion) {
            CompletionKind::Receive(buf, status) => self.events.push_back(TestEvent::Receive(
                buf.first,
                status,
                completion.invalidated,
            )),
            CompletionKind::Requests(status) => {
                while let Some((what, is_last)) = self.endpoint.retire() {
                    let status = if is_last { status } else { Status::Success };
                    self.events.push_back(TestEvent::Request(what, status));
                }
            }
            CompletionKind::Unknown => {
                panic!("{completion:?} is of nothing that is posted, or was told before")
            }
        }
    }

    /// Waits for the next outcome.
    pub(super) fn next(&mut self) -> TestEvent {
        until("a completion", || {
            self.turn();
            self.events.pop_front()
        })
    }

    /// Waits for the outcome of a request, and keeps earlier outcomes of others.
    pub(super) fn wait_for(&mut self, number: u32) -> Status {
        until("the completion of a request", || {
            self.turn();
            let at = self
                .events
                .iter()
                .position(|events| matches!(events, TestEvent::Request(of, _) if *of == number))?;
            match self.events.remove(at) {
                Some(TestEvent::Request(_, status)) => Some(status),
                _ => None,
            }
        })
    }

    /// Waits for the next message, and returns it with the key that it has invalidated.
    pub(super) fn message(&mut self) -> std::result::Result<(Buf, Option<u32>), Status> {
        until("a message", || {
            self.turn();
            let at = self
                .events
                .iter()
                .position(|events| matches!(events, TestEvent::Receive(..)))?;
            match self.events.remove(at) {
                Some(TestEvent::Receive(buf, Status::Success, invalidated)) => {
                    Some(Ok((buf, invalidated)))
                }
                Some(TestEvent::Receive(_, status, _)) => Some(Err(status)),
                _ => None,
            }
        })
    }

    /// Waits for the end of the connection.
    pub(super) fn wait_for_end(&mut self) {
        until("the end of the connection", || {
            self.turn();
            self.is_disconnected.then_some(())
        });
    }

    /// Exposes memory to the peer of this queue pair, by a window or a registration. Returns its
    /// address and key.
    pub(super) fn expose(
        &mut self,
        memory: &PostedBuf,
        access: Access,
    ) -> (ExposedRegion<D>, RemoteMemory) {
        let length = memory.capacity();
        let slice = memory.slice(0, length).expect("it is within");
        if !self.host.device.capabilities().windows {
            let exposed =
                ExposedRegion::register(&self.host.device, memory.clone(), (0, length), access);
            let exposed = exposed.expect("it is exposed");
            let remote = RemoteMemory {
                address: slice.address,
                key: exposed.key(),
            };
            return (exposed, remote);
        }
        let mut bound = KeyedWindow::new(&self.host.device).expect("a window");
        let key = bound.next_key();
        let part = BufRange {
            buf: memory.clone(),
            offset: 0,
            length,
        };
        let bind = self.request(
            Operation::Bind {
                window: bound.number(),
                key,
                access,
            },
            &[part],
        );
        assert_eq!(self.wait_for(bind), Status::Success, "the window is bound");
        (
            ExposedRegion::Window(WindowBinding::new(bound, memory.clone())),
            RemoteMemory {
                address: slice.address,
                key,
            },
        )
    }
}

/// Checks the status of a request that the peer rejects. On a device that does not acknowledge, any
/// status is correct, because the end of the connection is the answer.
pub(super) fn is_refused<D: Device>(device: &D, status: Status, expected: Status) -> bool {
    status == expected || !device.capabilities().acknowledges
}

/// Returns the whole range of a buffer.
pub(super) fn whole_range(buf: Buf) -> BufRange {
    let buf = PostedBuf::from(buf);
    BufRange {
        offset: 0,
        length: buf.len(),
        buf,
    }
}

/// Returns bytes that differ from each other.
pub(super) fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

/// Connects two hosts.
pub(super) fn connect_hosts<D: Device>(
    near: &mut Host<D>,
    far: &mut Host<D>,
    to: std::net::SocketAddr,
) -> (D::QueuePair, D::QueuePair) {
    let first = near.connect(to, &[]).expect("it begins");
    let (request, _) = far.requested_by(near);
    let second = far.prepare(&request).expect("a queue pair");
    far.manager
        .accept(request, &second, &[])
        .expect("it is accepted");
    for (host, pair) in [(near, &first), (far, &second)] {
        match host.event() {
            ConnectionEvent::Established { queue_pair, .. } => {
                assert_eq!(queue_pair, pair.number())
            }
            _ => panic!("it should be established"),
        }
    }
    (first, second)
}

/// Connects two ends.
pub(super) fn connected<D: Device>(bed: &TestBed<D>) -> ConnectedEnds<D> {
    connected_with(bed, CONFIG)
}

/// Connects two ends whose messages wait for receives.
pub(super) fn connected_with_retries<D: Device>(bed: &TestBed<D>) -> ConnectedEnds<D> {
    let rnr_retry = true;
    connected_with(
        bed,
        QueuePairConfig {
            rnr_retry,
            ..CONFIG
        },
    )
}

fn connected_with<D: Device>(bed: &TestBed<D>, config: QueuePairConfig) -> ConnectedEnds<D> {
    let (mut near, mut far) = (Host::new(&bed.near, 256), Host::new(&bed.far, 256));
    (near.config, far.config) = (config, config);
    let to = far.manager.listen(bed.address).expect("it listens");
    let (first, second) = connect_hosts(&mut near, &mut far, to);
    ConnectedEnds {
        near: TestEnd::new(first, near),
        far: TestEnd::new(second, far),
    }
}
