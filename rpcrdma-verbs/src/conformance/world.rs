//! Two connected ends, as the cases use them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Bed;
use crate::driver::exposure::{Bound, Exposed};
use crate::memory::{Budget, Buf, Lent, Pool};
use crate::provider::{
    Access, Completion, CompletionQueue, ConnectionEvent, Device, Manager, Operation, QueuePair, QueuePairConfig,
    Queues, Remote, Result, Status,
};
use crate::queue::{Done, Endpoint, Part};

pub(super) const CONFIG: QueuePairConfig = QueuePairConfig { sends: 64, receives: 64, reads: 8, rnr_retry: false };
/// How long anything may take on the slowest device.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a connection manager tells.
pub(super) type Event<D> = ConnectionEvent<<<D as Device>::Manager as Manager<D>>::Request>;

/// Tries until something is there.
pub(super) fn until<T>(what: &str, mut try_once: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = try_once() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "it takes too long: {what}");
        // A device in software may need this processor.
        std::thread::yield_now();
    }
}

/// What is needed to make connections.
pub(super) struct Host<D: Device> {
    pub(super) completions: D::CompletionQueue,
    pub(super) manager: D::Manager,
    pub(super) pool: Pool<D>,
    pub(super) budget: Budget,
    pub(super) device: D,
    /// What was told while something else was waited for.
    told: VecDeque<Event<D>>,
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
            completions: device.completion_queue(completions).expect("a completion queue"),
            manager: device.manager().expect("a connection manager"),
            pool: Pool::new(device, &budget),
            budget,
            device: device.clone(),
            told: VecDeque::new(),
        }
    }

    /// Lets the connection manager go on: a connection takes polls of both ends.
    pub(super) fn advance(&mut self) {
        self.told.extend(self.manager.poll());
    }

    /// What has happened.
    pub(super) fn poll(&mut self) -> Option<Event<D>> {
        self.told.pop_front().or_else(|| self.manager.poll())
    }

    /// The next event.
    pub(super) fn event(&mut self) -> Event<D> {
        until("an event of the connection manager", || self.poll())
    }

    /// The next event, for which another host has to go on.
    pub(super) fn event_by(&mut self, other: &mut Self) -> Event<D> {
        until("an event of the connection manager", || {
            other.advance();
            self.poll()
        })
    }

    pub(super) fn connect(&mut self, to: std::net::SocketAddr, private_data: &[u8]) -> Result<D::QueuePair> {
        let queues = Queues { completions: &self.completions, receives: None };
        self.manager.connect(to, &CONFIG, queues, private_data)
    }

    /// The request of another host.
    pub(super) fn requested_by(&mut self, other: &mut Self) -> (<D::Manager as Manager<D>>::Request, Box<[u8]>) {
        match self.event_by(other) {
            ConnectionEvent::Requested { request, private_data, .. } => (request, private_data),
            _ => panic!("a request should have come"),
        }
    }

    pub(super) fn prepare(&mut self, request: &<D::Manager as Manager<D>>::Request) -> Result<D::QueuePair> {
        let queues = Queues { completions: &self.completions, receives: None };
        self.manager.prepare(request, &CONFIG, queues)
    }

    pub(super) fn buf(&self, octets: &[u8]) -> Buf {
        let mut buf = self.pool.take(octets.len() as u32).expect("memory");
        buf.extend_from_slice(octets);
        buf
    }
}

/// What became of something that was posted.
#[derive(Debug)]
pub(super) enum Seen {
    /// A request, by its number.
    Request(u32, Status),
    /// A receive.
    Receive(Buf, Status, Option<u32>),
}

/// A queue pair, and what its completions say.
#[derive(Debug)]
pub(super) struct End<D: Device> {
    pub(super) endpoint: Endpoint<D, u32>,
    pub(super) seen: VecDeque<Seen>,
    pub(super) host: Host<D>,
    /// Whether its end was told.
    pub(super) ended: bool,
    next: u32,
}

/// Both ends.
#[derive(Debug)]
pub(super) struct Both<D: Device> {
    pub(super) near: End<D>,
    pub(super) far: End<D>,
}

impl<D: Device> End<D> {
    pub(super) fn new(pair: D::QueuePair, host: Host<D>) -> Self {
        Self { endpoint: Endpoint::new(pair, 7), seen: VecDeque::new(), host, ended: false, next: 0 }
    }

    /// Posts receives of this size.
    pub(super) fn receives(&mut self, count: u32, octets: u32) {
        for _ in 0..count {
            self.endpoint.push_receive(self.host.pool.take(octets).expect("memory"));
        }
        self.endpoint.post().expect("receives can be posted");
    }

    /// Adds a request to the batch, and tells its number.
    pub(super) fn push(&mut self, operation: Operation, parts: &[Part], signaled: bool) -> u32 {
        self.next += 1;
        assert!(self.endpoint.push(operation, parts.iter().cloned(), signaled, self.next));
        self.next
    }

    pub(super) fn post(&mut self) {
        self.endpoint.post().expect("it can be posted");
    }

    /// Posts one request with a completion.
    pub(super) fn request(&mut self, operation: Operation, parts: &[Part]) -> u32 {
        let number = self.push(operation, parts, true);
        self.post();
        number
    }

    pub(super) fn send(&mut self, octets: &[u8]) -> u32 {
        let part = whole(self.host.buf(octets));
        self.request(Operation::Send { invalidate: None }, &[part])
    }

    /// Adds a message that goes along to the batch. If `signaled` it has a number, too: the next one.
    pub(super) fn push_along(&mut self, octets: &[u8], signaled: bool) -> u32 {
        self.next += u32::from(signaled);
        let length = octets.len() as u32;
        self.endpoint.room(length).expect("there is room").copy_from_slice(octets);
        let what = signaled.then_some(self.next);
        self.endpoint.push_inline(None, length, signaled, what);
        self.next
    }

    pub(super) fn write(&mut self, to: Remote, octets: &[u8]) -> u32 {
        let part = whole(self.host.buf(octets));
        self.request(Operation::Write { to }, &[part])
    }

    /// Reads so many octets, and tells them.
    pub(super) fn read(&mut self, from: Remote, octets: u32) -> std::result::Result<Vec<u8>, Status> {
        let mut sink = self.host.pool.take(octets).expect("memory");
        sink.as_full_mut().fill(0xee);
        sink.set_len(octets);
        let sink = Lent::from(sink);
        let number = self.request(Operation::Read { from }, &[Part { buf: sink.clone(), from: 0, length: octets }]);
        match self.done(number) {
            Status::Success => Ok(sink.into_buf().expect("the read is done").to_vec()),
            status => Err(status),
        }
    }

    /// Takes completions and connection events.
    pub(super) fn turn(&mut self) {
        let mut taken = Vec::new();
        self.host.completions.poll(&mut taken, 16).expect("no overrun");
        taken.iter().for_each(|completion| self.complete(completion));
        while let Some(event) = self.host.poll() {
            self.ended |= matches!(event, ConnectionEvent::Disconnected { .. });
        }
    }

    pub(super) fn complete(&mut self, completion: &Completion) {
        match self.endpoint.complete(completion) {
            Done::Receive(buf, status) => self.seen.push_back(Seen::Receive(buf.head, status, completion.invalidated)),
            Done::Requests(_, status) => {
                while let Some((what, is_last)) = self.endpoint.retire() {
                    let status = if is_last { status } else { Status::Success };
                    self.seen.push_back(Seen::Request(what, status));
                }
            }
            Done::Unknown => panic!("{completion:?} is of nothing that is posted, or was told before"),
        }
    }

    /// The next that is seen.
    pub(super) fn next(&mut self) -> Seen {
        until("a completion", || {
            self.turn();
            self.seen.pop_front()
        })
    }

    /// What became of a request; what is seen before it of others is left.
    pub(super) fn done(&mut self, number: u32) -> Status {
        until("the completion of a request", || {
            self.turn();
            let at = self.seen.iter().position(|seen| matches!(seen, Seen::Request(of, _) if *of == number))?;
            match self.seen.remove(at) {
                Some(Seen::Request(_, status)) => Some(status),
                _ => None,
            }
        })
    }

    /// The next message, with the key that was invalidated with it.
    pub(super) fn message(&mut self) -> std::result::Result<(Buf, Option<u32>), Status> {
        until("a message", || {
            self.turn();
            let at = self.seen.iter().position(|seen| matches!(seen, Seen::Receive(..)))?;
            match self.seen.remove(at) {
                Some(Seen::Receive(buf, Status::Success, invalidated)) => Some(Ok((buf, invalidated))),
                Some(Seen::Receive(_, status, _)) => Some(Err(status)),
                _ => None,
            }
        })
    }

    /// Waits for the end of the connection.
    pub(super) fn wait_for_end(&mut self) {
        until("the end of the connection", || {
            self.turn();
            self.ended.then_some(())
        });
    }

    /// Exposes memory to the peer on this queue pair, by a window or a registration: and where it is.
    pub(super) fn expose(&mut self, memory: &Lent, access: Access) -> (Exposed<D>, Remote) {
        let length = memory.capacity();
        let slice = memory.slice(0, length).expect("it is within");
        if !self.host.device.capabilities().windows {
            let exposed = Exposed::register(&self.host.device, &slice, access, memory.clone()).expect("it is exposed");
            let remote = Remote { address: slice.address, key: exposed.key() };
            return (exposed, remote);
        }
        let mut bound = Bound::new(&self.host.device).expect("a window");
        let key = bound.next_key();
        let part = Part { buf: memory.clone(), from: 0, length };
        let bind = self.request(Operation::Bind { window: bound.number(), key, access }, &[part]);
        assert_eq!(self.done(bind), Status::Success, "the window is bound");
        (Exposed::Window { bound, _memory: memory.clone() }, Remote { address: slice.address, key })
    }
}

/// Whether a request that the peer refuses has ended so. A device that does not acknowledge may tell anything: the end of the
/// connection says the rest.
pub(super) fn is_refused<D: Device>(device: &D, status: Status, expected: Status) -> bool {
    status == expected || !device.capabilities().acknowledges
}

/// All of a buffer, for a request.
pub(super) fn whole(buf: Buf) -> Part {
    let buf = Lent::from(buf);
    Part { from: 0, length: buf.len(), buf }
}

/// Octets that are unlike.
pub(super) fn octets(count: usize) -> Vec<u8> {
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
    far.manager.accept(request, &second, &[]).expect("it is accepted");
    for (host, pair) in [(near, &first), (far, &second)] {
        match host.event() {
            ConnectionEvent::Established { queue_pair, .. } => assert_eq!(queue_pair, pair.number()),
            _ => panic!("it should be established"),
        }
    }
    (first, second)
}

/// Connects two ends.
pub(super) fn connected<D: Device>(bed: &Bed<D>) -> Both<D> {
    let (mut near, mut far) = (Host::new(&bed.near, 256), Host::new(&bed.far, 256));
    let to = far.manager.listen(bed.address).expect("it listens");
    let (first, second) = connect_hosts(&mut near, &mut far, to);
    Both { near: End::new(first, near), far: End::new(second, far) }
}
