//! A connection without the engine: messages as bytes, and memory that the peer can access.

#![allow(unsafe_code, reason = "memory is given by address, as verbs want it")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use rpcrdma_verbs::provider::any::{AnyCompletionQueue, AnyDevice, AnyQueuePair};
use rpcrdma_verbs::provider::{
    Access, CompletionQueue as _, ConnectionEvent, ConnectionManager as _, Device,
    MemoryRegion as _, Operation, QueuePair as _, QueuePairConfig, Queues, Receive, RemoteMemory,
    Sge, Status, Window as _, WorkRequest,
};

type Region = <AnyDevice as Device>::Region;
type Window = <AnyDevice as Device>::Window;
type Manager = <AnyDevice as Device>::Manager;
type Request = <Manager as rpcrdma_verbs::provider::ConnectionManager<AnyDevice>>::Request;

/// The number and the size of receives: the maximum length of Linux's messages.
const RECEIVES: u32 = 64;
const RECEIVE: u32 = 4096;
/// The number and size of the Sends of a connection.
const SENDS: u32 = 256;
const SEND: u32 = 8192;
/// The number of bytes that the peer can access.
pub(crate) const REACHED: u32 = 1 << 16;

/// The timeout of each step, even on an emulated machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The ids of the completions of Sends, and of RDMA Reads and Writes; receives have their number.
const SENT: u64 = 1 << 32;
const MOVED: u64 = SENT + 1;

/// Memory that is accessed by address only, because a device may change it at any time.
struct Block {
    base: NonNull<u8>,
    length: u32,
    /// True if the device may still access it.
    is_kept: bool,
}

impl Block {
    fn new(length: u32) -> Self {
        let bytes = Box::leak(vec![0; length as usize].into_boxed_slice());
        Self {
            base: NonNull::from(bytes).cast(),
            length,
            is_kept: false,
        }
    }

    fn place(&self, at: u32, length: usize) -> NonNull<u8> {
        assert!(at as usize + length <= self.length as usize);
        // SAFETY: It is within the block, as was just asserted.
        unsafe { self.base.add(at as usize) }
    }

    /// Writes bytes. No posted request may still need this range.
    fn write(&self, at: u32, bytes: &[u8]) {
        let to = self.place(at, bytes.len());
        // SAFETY: `place` checks the bounds. No reference to the bytes of the block is ever made,
        // and the source is not part of it.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) }
    }

    /// Reads bytes. The device's writes to this range must have completed.
    fn read(&self, at: u32, length: u32) -> Vec<u8> {
        let from = self.place(at, length as usize);
        let mut bytes = vec![0; length as usize];
        // SAFETY: As in `write`; the vector is another allocation.
        unsafe {
            from.copy_to_nonoverlapping(NonNull::from(bytes.as_mut_slice()).cast(), length as usize)
        }
        bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let bytes = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.length as usize);
        // SAFETY: `new` has leaked this box, and nothing else frees it.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

/// A registered block. The region ends before its memory is freed.
struct Memory {
    region: Region,
    block: Block,
}

impl Memory {
    fn new(device: &AnyDevice, length: u32, access: Access) -> Self {
        let block = Block::new(length);
        // SAFETY: The block is freed after the region has ended, or never, and is accessed by
        // address only.
        let region = unsafe { device.register(block.base, length as usize, access) }
            .expect("registered memory");
        Self { region, block }
    }

    fn slice(&self, at: u32, length: u32) -> Sge {
        let address = self.block.place(at, length as usize).as_ptr() as u64;
        Sge {
            address,
            length,
            key: self.region.local_key(),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.block.is_kept = !self.region.deregister();
    }
}

/// An event of the peer.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum PeerEvent {
    /// A message, with the key that it has invalidated.
    Message(Vec<u8>, Option<u32>),
    /// Nothing, within the timeout.
    Nothing,
    /// The connection is lost.
    Lost,
}

/// A connection. The queue pair is dropped first; after that, nothing accesses the memory.
pub(crate) struct Wire {
    pair: AnyQueuePair,
    window: Option<(Window, u32)>,
    completions: AnyCompletionQueue,
    manager: Manager,
    receives: Memory,
    sends: Memory,
    reached: Memory,
    sent: u32,
    moved: u32,
    came: VecDeque<(Vec<u8>, Option<u32>)>,
    lost: bool,
}

/// The parts of a connection.
struct Parts {
    config: QueuePairConfig,
    completions: AnyCompletionQueue,
    manager: Manager,
    memory: [Memory; 3],
}

impl Parts {
    fn new(device: &AnyDevice) -> Self {
        let able = device.capabilities();
        let everything = Access {
            remote_read: true,
            bind: able.windows,
            ..Access::REMOTE_WRITE
        };
        Self {
            config: QueuePairConfig {
                sends: SENDS + 8,
                receives: RECEIVES,
                reads: 8,
                rnr_retry: able.rnr_retry,
            },
            completions: device
                .completion_queue(2 * (SENDS + RECEIVES))
                .expect("a completion queue"),
            manager: device.manager().expect("a connection manager"),
            memory: [
                Memory::new(device, RECEIVES * RECEIVE, Access::LOCAL_WRITE),
                Memory::new(device, SENDS * SEND, Access::LOCAL_READ),
                Memory::new(device, REACHED, everything),
            ],
        }
    }

    fn wire(self, pair: AnyQueuePair) -> Wire {
        let [receives, sends, reached] = self.memory;
        let (completions, manager, window) = (self.completions, self.manager, None);
        let came = VecDeque::new();
        let mut wire = Wire {
            pair,
            window,
            completions,
            manager,
            receives,
            sends,
            reached,
            sent: 0,
            moved: 0,
            came,
            lost: false,
        };
        (0..RECEIVES).for_each(|number| wire.post_receive(number));
        wire
    }
}

impl Wire {
    /// Connects, and returns the private data of the peer, or `None` if the peer rejects.
    pub(crate) fn connect(
        device: &AnyDevice,
        to: SocketAddr,
        private_data: &[u8],
    ) -> (Self, Box<[u8]>) {
        let mut parts = Parts::new(device);
        let queues = Queues {
            completions: &parts.completions,
            receives: None,
        };
        let pair = parts
            .manager
            .connect(to, &parts.config, queues, private_data)
            .expect("a queue pair");
        let mut wire = parts.wire(pair);
        let said = wire.established();
        (wire, said)
    }

    /// Waits until the connection is established.
    fn established(&mut self) -> Box<[u8]> {
        match next(&mut self.manager) {
            ConnectionEvent::Established { private_data, .. } => private_data,
            other => panic!("there is no connection: {other:?}"),
        }
    }

    fn post_receive(&mut self, number: u32) {
        let slices = [self.receives.slice(number * RECEIVE, RECEIVE)];
        let receive = Receive {
            id: number.into(),
            slices: (0, 1),
        };
        // SAFETY: The memory outlives the queue pair, and is read after the completion of the
        // receive.
        unsafe { self.pair.post_receives(&[receive], &slices) }.expect("a receive");
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        assert!(
            self.sent < SENDS,
            "a connection has memory for {SENDS} messages"
        );
        let at = self.sent * SEND;
        self.sent += 1;
        self.sends.block.write(at, bytes);
        let slices = [self
            .sends
            .slice(at, u32::try_from(bytes.len()).expect("a short message"))];
        // An empty message has no entry.
        self.post(
            Operation::Send { invalidate: None },
            &slices[..usize::from(!bytes.is_empty())],
        );
    }

    fn post(&mut self, operation: Operation, slices: &[Sge]) {
        let count = u32::try_from(slices.len()).expect("one slice");
        let request = WorkRequest {
            id: match operation {
                Operation::Read { .. } | Operation::Write { .. } => MOVED,
                _ => SENT,
            },
            signaled: true,
            inline: false,
            slices: (0, count),
            operation,
        };
        // SAFETY: The memory outlives the queue pair. Each Send uses its own memory once. The
        // memory of a window is accessed by address only.
        let posted = unsafe { self.pair.post(&[request], slices) };
        // It fails if the connection was lost meanwhile.
        self.lost |= posted.is_err();
    }

    /// Returns the next event within this time.
    pub(crate) fn receive(&mut self, within: Duration) -> PeerEvent {
        let began = Instant::now();
        loop {
            self.poll();
            if let Some((bytes, invalidated)) = self.came.pop_front() {
                return PeerEvent::Message(bytes, invalidated);
            }
            if self.lost {
                return PeerEvent::Lost;
            }
            if began.elapsed() > within {
                return PeerEvent::Nothing;
            }
            // The kernel may need this processor.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn poll(&mut self) {
        let mut completions = Vec::new();
        // Completions before the end must not be missed, so the manager is polled first.
        let ended = matches!(
            self.manager.poll(),
            Some(ConnectionEvent::Disconnected { .. })
        );
        self.completions
            .poll(&mut completions, 64)
            .expect("a completion queue that works");
        for done in completions {
            if done.status != Status::Success {
                self.lost = true;
            } else if done.id == MOVED {
                self.moved += 1;
            } else if done.id < SENT {
                let number = u32::try_from(done.id).expect("a receive");
                self.came.push_back((
                    self.receives.block.read(number * RECEIVE, done.length),
                    done.invalidated,
                ));
                if !ended {
                    self.post_receive(number);
                }
            }
        }
        self.lost |= ended;
    }

    /// Reads the peer's memory into the accessible memory, and waits for it.
    pub(crate) fn fetch(&mut self, from: RemoteMemory, at: u32, length: u32) {
        self.transfer(Operation::Read { from }, at, length);
    }

    /// Writes accessible memory to the peer's, and waits for it.
    pub(crate) fn store(&mut self, to: RemoteMemory, at: u32, length: u32) {
        self.transfer(Operation::Write { to }, at, length);
    }

    fn transfer(&mut self, operation: Operation, at: u32, length: u32) {
        let (moved, began) = (self.moved, Instant::now());
        self.post(operation, &[self.reached.slice(at, length)]);
        while self.moved == moved {
            assert!(!self.lost, "the connection is lost");
            assert!(began.elapsed() < PATIENCE, "the data do not come");
            self.poll();
        }
    }

    /// Returns a segment of the accessible memory as in a header: handle, length, and the two words
    /// of the offset.
    pub(crate) fn segment(&self, at: u32, length: u32) -> [u32; 4] {
        let address = self.reached.slice(at, length).address;
        let words = [address >> 32, address & 0xffff_ffff]
            .map(|word| u32::try_from(word).expect("half of it"));
        let key = self
            .window
            .as_ref()
            .map_or(self.reached.region.remote_key(), |(_, key)| *key);
        [key, length, words[0], words[1]]
    }

    /// Binds a window to all accessible memory, and uses its key, which can be invalidated, instead
    /// of that of the region.
    pub(crate) fn bind(&mut self, device: &AnyDevice) {
        let window = device.window().expect("a window");
        let (number, key) = (
            window.number(),
            window.key() & !0xff | (window.key() + 1) & 0xff,
        );
        let all = [self.reached.slice(0, REACHED)];
        self.post(
            Operation::Bind {
                window: number,
                key,
                access: Access::REMOTE_WRITE,
            },
            &all,
        );
        self.window = Some((window, key));
    }

    /// Writes bytes for the peer, before the peer knows their address.
    pub(crate) fn expose(&mut self, at: u32, bytes: &[u8]) {
        self.reached.block.write(at, bytes);
    }

    /// Returns the peer's data, after the peer has reported that they are written.
    pub(crate) fn written(&self, at: u32, length: u32) -> Vec<u8> {
        self.reached.block.read(at, length)
    }
}

/// Waits for the next event.
fn next(manager: &mut Manager) -> ConnectionEvent<Request> {
    let began = Instant::now();
    loop {
        if let Some(event) = manager.poll() {
            return event;
        }
        assert!(began.elapsed() < PATIENCE, "the connection takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A listener for one connection.
pub(crate) struct Acceptor {
    parts: Parts,
    /// The address.
    pub(crate) address: SocketAddr,
}

impl Acceptor {
    pub(crate) fn new(device: &AnyDevice, address: SocketAddr) -> Self {
        let mut parts = Parts::new(device);
        let address = parts
            .manager
            .listen(address)
            .expect("an address to listen at");
        Self { parts, address }
    }

    /// Accepts a connection, and returns it with the private data of the peer.
    pub(crate) fn accept(mut self, private_data: &[u8]) -> (Wire, Box<[u8]>) {
        let ConnectionEvent::Requested {
            request,
            private_data: said,
            ..
        } = next(&mut self.parts.manager)
        else {
            panic!("somebody should want to connect")
        };
        let queues = Queues {
            completions: &self.parts.completions,
            receives: None,
        };
        let pair = self
            .parts
            .manager
            .prepare(&request, &self.parts.config, queues)
            .expect("a queue pair");
        let mut wire = self.parts.wire(pair);
        wire.manager
            .accept(request, &wire.pair, private_data)
            .expect("a peer that is still there");
        (wire, said)
    }
}
