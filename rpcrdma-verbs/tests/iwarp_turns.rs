//! Queue pairs of iWARP over TCP take turns: none keeps a poll to itself, or wakes more than needed.
#![cfg(feature = "iwarp")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "memory is registered and posted by its address")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rpcrdma_iwarp::{FramerPiece, IwarpStream, MpaInitiator, MpaOptions, OutgoingKind, ReadDepths};
use rpcrdma_verbs::provider::iwarp::{
    IwarpCompletionQueue, IwarpConnectionManager, IwarpDevice, IwarpQueuePair, IwarpSharedReceives,
};
use rpcrdma_verbs::provider::{
    Access, CompletionQueue as _, ConnectionEvent, ConnectionManager as _, Device as _,
    MemoryRegion as _, QueuePair as _, QueuePairConfig, Queues, Receive, Sge, SharedReceives as _,
    Status,
};

const PATIENCE: Duration = Duration::from_secs(20);
const DEPTHS: ReadDepths = ReadDepths { ird: 64, ord: 64 };
const CONFIG: QueuePairConfig = QueuePairConfig {
    sends: 64,
    receives: 64,
    reads: 64,
    rnr_retry: true,
};

fn until<T>(what: &str, mut try_once: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = try_once() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "it takes too long: {what}");
        thread::yield_now();
    }
}

/// An initiator without a device.
struct Peer {
    socket: TcpStream,
    stream: IwarpStream,
}

impl Peer {
    /// Returns everything that is queued.
    fn queued(&self) -> Vec<u8> {
        let pieces = self.stream.pieces().map(|piece| match piece {
            FramerPiece::Owned(bytes) => bytes,
            FramerPiece::Payload { .. } => &[],
        });
        pieces.collect::<Vec<_>>().concat()
    }

    /// Sends everything that is queued, except the last `left` bytes.
    fn flush_except(&mut self, left: usize) {
        let bytes = self.queued();
        let count = bytes.len() - left;
        self.socket.write_all(&bytes[..count]).unwrap();
        self.stream.framer().sent(count);
    }

    /// Sends a message, except the last `left` bytes of its FPDU.
    fn send_except(&mut self, left: usize, message: &[u8]) {
        let kind = OutgoingKind::Send {
            solicited: false,
            invalidate: None,
        };
        assert!(self.stream.framer().push_copied(kind, &[message]));
        self.flush_except(left);
    }
}

struct Acceptor {
    completions: IwarpCompletionQueue,
    manager: IwarpConnectionManager,
    address: SocketAddr,
}

impl Acceptor {
    fn new(device: &IwarpDevice) -> Self {
        let mut manager = device.manager().unwrap();
        Self {
            completions: device.completion_queue(64).unwrap(),
            address: manager.listen(([127, 0, 0, 1], 0).into()).unwrap(),
            manager,
        }
    }

    fn connection(&mut self, receives: Option<&IwarpSharedReceives>) -> (IwarpQueuePair, Peer) {
        let options = MpaOptions {
            crc: true,
            depths: Some(DEPTHS),
            rtr: None,
            private_data: Vec::new(),
        };
        let (mut initiator, request) = MpaInitiator::new(options).unwrap();
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.write_all(&request).unwrap();
        let request = until("a request", || match self.manager.poll() {
            Some(ConnectionEvent::Requested { request, .. }) => Some(request),
            _ => None,
        });
        let queues = Queues {
            completions: &self.completions,
            receives,
        };
        let pair = self.manager.prepare(&request, &CONFIG, queues).unwrap();
        self.manager.accept(request, &pair, &[]).unwrap();
        let established = until("the reply", || {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            initiator.receive(&byte).unwrap().1
        });
        let stream = IwarpStream::initiator(&established, DEPTHS, 1 << 16);
        (pair, Peer { socket, stream })
    }
}

/// The addresses of registered memory, which is never freed: LeakSanitizer finds it by them.
static MEMORY: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Memory that is registered until it is dropped.
fn registered(
    device: &IwarpDevice,
    length: usize,
) -> (impl rpcrdma_verbs::provider::MemoryRegion, u64) {
    let memory = NonNull::from(Box::leak(vec![7u8; length].into_boxed_slice()));
    let address = memory.cast::<u8>().as_ptr().addr();
    MEMORY.lock().unwrap().push(address);
    let access = Access {
        remote_read: true,
        ..Access::LOCAL_WRITE
    };
    // SAFETY: the memory is never freed.
    let region = unsafe { device.register(memory.cast(), length, access) }.unwrap();
    (region, address as u64)
}

/// A peer that reads as fast as this end sends does not keep the thread that polls.
#[test]
fn one_poll_sends_a_part_of_the_responses() {
    const LENGTH: u32 = 8 << 20;
    const READS: usize = 64;
    const TOTAL: usize = LENGTH as usize * READS;
    let device = IwarpDevice::default();
    let (region, address) = registered(&device, LENGTH as usize);
    let mut acceptor = Acceptor::new(&device);
    let (_pair, mut peer) = acceptor.connection(None);
    for _ in 0..READS {
        let source = (region.remote_key(), address);
        assert!(peer.stream.push_read(1, LENGTH, source));
    }
    peer.flush_except(0);
    let received = AtomicUsize::new(0);
    let most = thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 20];
            while received.load(Ordering::Relaxed) < TOTAL {
                let count = peer.socket.read(&mut buffer).unwrap();
                assert_ne!(count, 0, "the connection has ended");
                received.fetch_add(count, Ordering::Relaxed);
            }
        });
        let mut most = 0;
        until("the responses", || {
            let before = received.load(Ordering::Relaxed);
            acceptor.completions.poll(&mut Vec::new(), 16).unwrap();
            let after = received.load(Ordering::Relaxed);
            most = most.max(after - before);
            (after >= TOTAL).then_some(most)
        })
    });
    // It sends 4 MiB, and some are in the buffers of the sockets before.
    assert!(most < 64 << 20, "{most} bytes in one poll");
}

/// Posts the receive 5.
fn post(shared: &IwarpSharedReceives, address: u64, key: u32) {
    let receive = Receive {
        id: 5,
        slices: (0, 1),
    };
    let slice = Sge {
        address,
        length: 64,
        key,
    };
    // SAFETY: the memory is never freed, and nothing else uses it.
    unsafe { shared.post(&[receive], &[slice]) }.unwrap();
}

/// A receive that a queue pair was to take goes to the next one if it ends.
#[test]
fn a_receive_goes_to_the_next_that_waits() {
    let device = IwarpDevice::default();
    let (region, address) = registered(&device, 64);
    let shared = device.shared_receives(4).unwrap();
    let mut acceptor = Acceptor::new(&device);
    let (first, mut first_peer) = acceptor.connection(Some(&shared));
    let (second, mut second_peer) = acceptor.connection(Some(&shared));
    let mut done = Vec::new();
    for peer in [&mut first_peer, &mut second_peer] {
        peer.send_except(0, b"early");
        for _ in 0..1000 {
            acceptor.completions.poll(&mut done, 16).unwrap();
            thread::yield_now();
        }
    }
    assert!(done.is_empty(), "both wait");
    post(&shared, address, region.local_key());
    assert!(first.end());
    until("the message", || {
        acceptor.completions.poll(&mut done, 16).unwrap();
        done.first().map(|_| ())
    });
    assert_eq!((done[0].id, done[0].queue_pair), (5, second.number()));
}

/// The end of a queue pair does not lose the receive of a message that has arrived in part.
#[test]
fn a_receive_in_use_returns_at_the_end() {
    let device = IwarpDevice::default();
    let (region, address) = registered(&device, 64);
    let shared = device.shared_receives(4).unwrap();
    let mut acceptor = Acceptor::new(&device);
    let (pair, mut peer) = acceptor.connection(Some(&shared));
    post(&shared, address, region.local_key());
    peer.send_except(4, b"without its CRC");
    let mut done = Vec::new();
    for _ in 0..1000 {
        acceptor.completions.poll(&mut done, 16).unwrap();
        thread::yield_now();
    }
    assert!(done.is_empty() && pair.end());
    acceptor.completions.poll(&mut done, 16).unwrap();
    let done = done.iter().map(|done| (done.id, done.status));
    assert_eq!(done.collect::<Vec<_>>(), [(5, Status::Flushed)]);
}
