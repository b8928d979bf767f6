//! An acceptor of iWARP over TCP, and initiators without a device.
#![allow(dead_code, reason = "no test uses all of it")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rpcrdma_iwarp::{
    FpduProgress, FramerPiece, IwarpEvent, IwarpStream, MpaInitiator, MpaOptions, OutgoingKind,
    OutgoingMessage, Placement, ReadDepths, ReceiveRoom, StagAccess, StagError, Terminate,
};
use rpcrdma_verbs::provider::iwarp::{
    IwarpCompletionQueue, IwarpConnectionManager, IwarpDevice, IwarpQueuePair, IwarpRegion,
    IwarpSharedReceives,
};
use rpcrdma_verbs::provider::{
    Access, CompletionQueue as _, ConnectionEvent, ConnectionManager as _, Device as _,
    QueuePairConfig, Queues,
};

const PATIENCE: Duration = Duration::from_secs(20);
const DEPTHS: ReadDepths = ReadDepths { ird: 64, ord: 64 };
const CONFIG: QueuePairConfig = QueuePairConfig {
    sends: 64,
    receives: 64,
    reads: 64,
    rnr_retry: true,
};

pub(crate) fn until<T>(what: &str, mut try_once: impl FnMut() -> Option<T>) -> T {
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
pub(crate) struct Peer {
    pub(crate) socket: TcpStream,
    pub(crate) stream: IwarpStream,
}

impl Peer {
    /// Returns everything that is queued.
    pub(crate) fn queued(&self) -> Vec<u8> {
        let pieces = self.stream.pieces().map(|piece| match piece {
            FramerPiece::Owned(bytes) => bytes,
            FramerPiece::Payload { .. } => &[],
        });
        pieces.collect::<Vec<_>>().concat()
    }

    /// Sends a message of several segments.
    pub(crate) fn send_segments(&mut self, message: &[u8]) {
        let kind = OutgoingKind::Send {
            solicited: false,
            invalidate: None,
        };
        let mut outgoing = OutgoingMessage::new(0, kind, message.len().try_into().unwrap());
        let framer = self.stream.framer();
        while !framer.push_segment(&mut outgoing, &[message]).unwrap() {}
        let pieces = self.stream.pieces().map(|piece| match piece {
            FramerPiece::Owned(bytes) => bytes,
            FramerPiece::Payload { offset, len, .. } => &message[offset as usize..][..len],
        });
        let bytes = pieces.collect::<Vec<_>>().concat();
        self.socket.write_all(&bytes).unwrap();
        self.stream.framer().sent(bytes.len());
    }

    /// Sends everything that is queued, except the last `left` bytes.
    pub(crate) fn flush_except(&mut self, left: usize) {
        let bytes = self.queued();
        let count = bytes.len() - left;
        self.socket.write_all(&bytes[..count]).unwrap();
        self.stream.framer().sent(count);
    }

    /// Sends a message, except the last `left` bytes of its FPDU.
    pub(crate) fn send_except(&mut self, left: usize, message: &[u8]) {
        let kind = OutgoingKind::Send {
            solicited: false,
            invalidate: None,
        };
        assert!(self.stream.framer().push_copied(kind, &[message]));
        self.flush_except(left);
    }

    /// Processes what has arrived. Returns a Terminate.
    pub(crate) fn receive(&mut self) -> Option<Terminate> {
        self.socket.set_nonblocking(true).unwrap();
        let mut buffer = vec![0; 1 << 16];
        let mut rest = match self.socket.read(&mut buffer) {
            Ok(0) => panic!("the connection has ended"),
            Ok(count) => &buffer[..count],
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return None;
            }
        };
        loop {
            let (taken, progress) = self.stream.advance(rest, &mut Readable).unwrap();
            rest = &rest[taken..];
            match progress {
                FpduProgress::Event(IwarpEvent::Terminated(terminate)) => return Some(terminate),
                FpduProgress::Event(_) => {}
                FpduProgress::Place { len, .. } if !rest.is_empty() => {
                    let (part, after) = rest.split_at(len.min(rest.len()));
                    self.stream.placed(part);
                    rest = after;
                }
                _ => return None,
            }
        }
    }
}

/// Accepts responses to RDMA Reads, and nothing else.
struct Readable;

impl Placement for Readable {
    fn check(&mut self, _: u32, _: u64, _: u64, access: StagAccess) -> Result<(), StagError> {
        let is_response = access == StagAccess::ReadResponse;
        is_response.then_some(()).ok_or(StagError::Invalid)
    }

    fn receive_room(&mut self, _: u32) -> ReceiveRoom {
        ReceiveRoom::Missing
    }

    fn may_invalidate(&mut self, _: u32) -> bool {
        false
    }
}

pub(crate) struct Acceptor {
    pub(crate) completions: IwarpCompletionQueue,
    manager: IwarpConnectionManager,
    address: SocketAddr,
}

impl Acceptor {
    pub(crate) fn new(device: &IwarpDevice) -> Self {
        let mut manager = device.manager().unwrap();
        Self {
            completions: device.completion_queue(64).unwrap(),
            address: manager.listen(([127, 0, 0, 1], 0).into()).unwrap(),
            manager,
        }
    }

    pub(crate) fn connection(
        &mut self,
        receives: Option<&IwarpSharedReceives>,
    ) -> (IwarpQueuePair, Peer) {
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

    /// Polls many times.
    pub(crate) fn poll(&self) {
        for _ in 0..1000 {
            self.completions.poll(&mut Vec::new(), 16).unwrap();
            thread::yield_now();
        }
    }
}

/// The addresses of registered memory, which is never freed: LeakSanitizer finds it by them.
static MEMORY: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Memory that is registered until it is dropped.
pub(crate) fn registered(device: &IwarpDevice, length: usize) -> (IwarpRegion, u64) {
    let memory = NonNull::from(Box::leak(vec![7u8; length].into_boxed_slice()));
    let address = memory.cast::<u8>().as_ptr().addr();
    MEMORY.lock().unwrap().push(address);
    let access = Access {
        remote_read: true,
        remote_write: true,
        ..Access::LOCAL_WRITE
    };
    // SAFETY: the memory is never freed.
    let region = unsafe { device.register(memory.cast(), length, access) }.unwrap();
    (region, address as u64)
}
