//! One device in several threads: the rules are in the documentation of [`crate::provider`] and of
//! the traits there.

#![allow(
    unsafe_code,
    reason = "memory is registered by its address, and requests are posted"
)]

use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use super::TestBed;
use super::fixture::{
    CONFIG, ConnectedEnds, Event, Host, TestEnd, connect_hosts, connected, is_refused, pattern,
    until,
};
use crate::memory::{Budget, Pool, PostedBuf};
use crate::provider::{
    Access, Completion, CompletionQueue as _, ConnectionEvent, ConnectionManager as _, Device,
    MemoryRegion as _, Operation, QueuePair as _, Queues, Receive, RemoteMemory, Sge,
    SharedReceives as _, Status, Window as _, WorkRequest,
};

/// The number of connections that one thread makes and ends, in three ways in turn.
const CONNECTIONS: usize = 24;
/// The minimum number of messages that the other thread sends at the same time.
const MESSAGES: usize = 200;

/// Exchanges messages, reads and writes until it is stopped.
fn send_until<D: Device>(bed: &TestBed<D>, stop: &AtomicBool) -> usize {
    let ConnectedEnds { mut near, mut far } = connected(bed);
    let bytes = pattern(3000);
    let target = PostedBuf::from(far.host.pool.take(3000).expect("memory"));
    let (exposed, remote) = far.expose(&target, Access::REMOTE_WRITE);
    let mut rounds = 0;
    while rounds < MESSAGES || !stop.load(Ordering::Relaxed) {
        let length = 1 + rounds * 7 % bytes.len();
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut near, &mut far];
            ends[to].receives(1, 3000);
            let sent = ends[from].send(&bytes[..length]);
            let (message, _) = ends[to].message().expect("it arrives");
            assert_eq!(&message[..], &bytes[..length]);
            assert_eq!(ends[from].wait_for(sent), Status::Success);
        }
        let written = near.write(remote, &bytes[..length]);
        assert_eq!(near.wait_for(written), Status::Success);
        rounds += 1;
    }
    drop(near);
    drop(far);
    drop(exposed);
    rounds
}

/// Makes and ends a connection with work in flight, and one object of each other kind.
fn make_and_end<D: Device>(bed: &TestBed<D>, round: usize) {
    let (mut near, mut far) = (Host::new(&bed.near, 64), Host::new(&bed.near, 64));
    let to = far.manager.listen(bed.address).expect("it listens");
    let (first, second) = connect_hosts(&mut near, &mut far, to);
    let (mut near, mut far) = (TestEnd::new(first, near), TestEnd::new(second, far));
    far.receives(4, 1024);
    let memory = PostedBuf::from(far.host.pool.take(1024).expect("memory"));
    let (exposed, remote) = far.expose(&memory, Access::REMOTE_WRITE);
    let shared = bed.near.shared_receives(8).expect("a shared queue");
    let sent = near.send(b"one");
    near.write(remote, b"two");
    match round % 3 {
        0 => assert_eq!(near.wait_for(sent), Status::Success),
        1 => {
            far.endpoint.pair().disconnect();
            near.wait_for_end();
        }
        _ => {}
    }
    drop(far);
    drop(near);
    drop(exposed);
    assert!(shared.end() && shared.end(), "nothing uses it");
    if bed.near.capabilities().windows {
        let mut window = bed.near.window().expect("a window");
        assert!(window.end() && window.end(), "it is not bound");
    }
}

/// A thread that ends objects takes only the completions and events of its own connections,
/// although any thread can read the events of a device. Both ends of each connection are on the
/// near device, and both threads listen at the same time.
pub(super) fn a_thread_ends_objects_while_another_sends<D: Device>(bed: &TestBed<D>) {
    let stop = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        let sender = TestBed {
            near: bed.near.clone(),
            far: bed.near.clone(),
            third: bed.third.clone(),
            address: bed.address,
        };
        let stop = &stop;
        let sends = scope.spawn(move || send_until(&sender, stop));
        let ends = (0..CONNECTIONS).try_for_each(|round| {
            // A thread that has failed would be waited for.
            (!sends.is_finished()).then(|| make_and_end(bed, round))
        });
        stop.store(true, Ordering::Relaxed);
        let rounds = sends.join().expect("the other thread has not failed");
        assert!(ends.is_some(), "it sends until it is told to stop");
        rounds
    });
    assert!(rounds >= MESSAGES);
}

pub(super) fn a_region_ends_in_another_thread<D: Device>(bed: &TestBed<D>) {
    let ConnectedEnds { mut near, far } = connected(bed);
    let memory = NonNull::from(Box::leak(Box::new([0u8; 64])));
    let address = memory.as_ptr().addr() as u64;
    let device = &bed.far;
    let register = |memory: NonNull<[u8; 64]>| {
        // SAFETY: the memory is freed after the registration has ended, and is not accessed before.
        unsafe { device.register(memory.cast(), 64, Access::REMOTE_WRITE) }.expect("a region")
    };
    // The address of the memory is not for other threads, but may be registered by one.
    let shared = SharedMemory(memory);
    let region = thread::scope(|scope| {
        let registers = scope.spawn(move || register(shared.get()));
        registers.join().expect("it is registered")
    });
    let remote = RemoteMemory {
        address,
        key: region.remote_key(),
    };
    let written = near.write(remote, b"in time");
    assert_eq!(near.wait_for(written), Status::Success);
    let ended = thread::spawn(move || {
        let mut region = region;
        region.deregister() && region.deregister()
    });
    assert!(ended.join().expect("it is ended"));
    let late = near.write(remote, b"too late");
    let status = near.wait_for(late);
    assert!(
        is_refused(&near.host.device, status, Status::RemoteAccess),
        "{status:?}"
    );
    drop((near, far));
    // SAFETY: it came from a box, and the registration has ended.
    let memory = unsafe { Box::from_raw(memory.as_ptr()) };
    assert!(!memory.starts_with(b"too"), "the write was refused");
}

/// Memory whose address may be used in any thread.
#[derive(Clone, Copy)]
struct SharedMemory(NonNull<[u8; 64]>);

// SAFETY: it is registered by its address, and not accessed.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    fn get(self) -> NonNull<[u8; 64]> {
        self.0
    }
}

pub(super) fn two_threads_end_one_queue<D: Device>(bed: &TestBed<D>) {
    for _ in 0..20 {
        let shared = bed.near.shared_receives(8).expect("a shared queue");
        let barrier = Barrier::new(2);
        let end = || {
            barrier.wait();
            shared.clone().end()
        };
        thread::scope(|scope| {
            let other = scope.spawn(end);
            assert!(end(), "nothing uses it");
            assert!(other.join().expect("no panic"), "both know");
        });
    }
}

/// Returns memory for a message of 64 bytes.
fn message_memory<D: Device>(device: &D) -> (PostedBuf, Sge) {
    let pool = Pool::new(device, &Budget::new(1 << 24));
    let memory = PostedBuf::from(pool.take(64).expect("memory"));
    let slice = memory.slice(0, 64).expect("it is within");
    (memory, slice)
}

/// The objects of a device that one thread owns, without memory.
struct ThreadObjects<D: Device> {
    pair: Option<D::QueuePair>,
    completions: D::CompletionQueue,
    manager: D::Manager,
}

impl<D: Device> ThreadObjects<D> {
    fn new(device: &D) -> Self {
        Self {
            pair: None,
            completions: device.completion_queue(256).expect("a completion queue"),
            manager: device.manager().expect("a connection manager"),
        }
    }

    fn event(&mut self) -> Event<D> {
        until("an event", || self.manager.poll())
    }

    /// Accepts a connection, signals it, and receives one message.
    fn serve(mut self, device: &D, accepted: &Sender<()>) -> Self {
        let ConnectionEvent::Requested { request, .. } = self.event() else {
            panic!("a request should have come");
        };
        let queues = Queues {
            completions: &self.completions,
            receives: None,
        };
        let pair = self.manager.prepare(&request, &CONFIG, queues);
        let pair = pair.expect("a queue pair");
        let receive = Receive {
            id: 5,
            slices: (0, 1),
        };
        let (_memory, slice) = message_memory(device);
        // SAFETY: the memory is there until the receive has completed, below, and gives no access.
        unsafe { pair.post_receives(&[receive], &[slice]) }.expect("it is posted");
        self.manager
            .accept(request, &pair, &[])
            .expect("it is accepted");
        accepted.send(()).expect("the other end waits for it");
        self.pair = Some(pair);
        let received = self.completion();
        assert_eq!((received.id, received.length), (5, 64));
        self
    }

    fn completion(&mut self) -> Completion {
        let mut taken = Vec::new();
        until("a completion", || {
            self.manager.poll();
            self.completions.poll(&mut taken, 1).expect("no overrun");
            taken.pop()
        })
    }
}

pub(super) fn what_one_thread_makes_another_uses<D: Device>(bed: &TestBed<D>) {
    let (mut near, mut far) = (ThreadObjects::new(&bed.near), ThreadObjects::new(&bed.far));
    let to = far.manager.listen(bed.address).expect("it listens");
    let device = bed.far.clone();
    let (accepted, is_accepted) = mpsc::channel();
    let serves = thread::spawn(move || far.serve(&device, &accepted));
    let queues = Queues {
        completions: &near.completions,
        receives: None,
    };
    let pair = near.manager.connect(to, &CONFIG, queues, &[]);
    near.pair = Some(pair.expect("it begins"));
    assert!(matches!(near.event(), ConnectionEvent::Established { .. }));
    // Linux's siw overlooks a message that arrives before it has finished accepting, until another
    // one arrives.
    is_accepted.recv().expect("the other end accepts");
    let device = bed.near.clone();
    let sends = thread::spawn(move || {
        let (_memory, slice) = message_memory(&device);
        let message = WorkRequest {
            id: 6,
            signaled: true,
            inline: false,
            slices: (0, 1),
            operation: Operation::Send { invalidate: None },
        };
        let pair = near.pair.as_ref().expect("it is connected");
        // SAFETY: the memory is there until the message is sent, below, and gives no access.
        unsafe { pair.post(&[message], &[slice]) }.expect("it is posted");
        let sent = near.completion();
        assert_eq!((sent.id, sent.status), (6, Status::Success));
        near
    });
    let near = sends.join().expect("it is sent");
    let far = serves.join().expect("it is received");
    for owned in [near, far] {
        assert!(owned.pair.is_some_and(|pair| pair.end()), "here too");
    }
}
