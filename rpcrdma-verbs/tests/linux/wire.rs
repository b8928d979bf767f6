//! A connection without the engine: messages as octets, and memory that the peer reaches.

#![allow(unsafe_code, reason = "memory is given by address, as verbs want it")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use rpcrdma_verbs::provider::ibverbs::{CompletionQueue, IbvDevice, QueuePair};
use rpcrdma_verbs::provider::{
    Access, CompletionQueue as _, ConnectionEvent, Device, Manager as _, Operation, QueuePair as _, QueuePairConfig,
    Queues, Receive, Region as _, Slice, Status, Window as _, WorkRequest,
};

type Region = <IbvDevice as Device>::Region;
type Window = <IbvDevice as Device>::Window;
type Manager = <IbvDevice as Device>::Manager;
type Request = <Manager as rpcrdma_verbs::provider::Manager<IbvDevice>>::Request;

/// Receives, and octets of each: as many as Linux sends at most.
const RECEIVES: u32 = 64;
const RECEIVE: u32 = 4096;
/// Sends of one connection, and octets of each.
const SENDS: u32 = 256;
const SEND: u32 = 8192;
/// Octets that the peer reaches.
pub(crate) const REACHED: u32 = 1 << 16;

/// How long anything may take in an emulated machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The ids of completions: receives have their number.
const SENT: u64 = 1 << 32;

/// Memory that is accessed by address alone, as a device changes it, too.
struct Block {
    base: NonNull<u8>,
    length: u32,
}

impl Block {
    fn new(length: u32) -> Self {
        let octets = Box::leak(vec![0; length as usize].into_boxed_slice());
        Self { base: NonNull::from(octets).cast(), length }
    }

    fn place(&self, at: u32, length: usize) -> NonNull<u8> {
        assert!(at as usize + length <= self.length as usize);
        // SAFETY: It is within the block, as was just asserted.
        unsafe { self.base.add(at as usize) }
    }

    /// Nothing that was posted and the peer has yet to read may be there.
    fn write(&self, at: u32, octets: &[u8]) {
        let to = self.place(at, octets.len());
        // SAFETY: `place` has bounds. No reference to the block's octets is ever made, and `octets` is not of them.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(octets).cast(), octets.len()) }
    }

    /// What the device writes there must have completed.
    fn read(&self, at: u32, length: u32) -> Vec<u8> {
        let from = self.place(at, length as usize);
        let mut octets = vec![0; length as usize];
        // SAFETY: As in `write`; the vector is another allocation.
        unsafe { from.copy_to_nonoverlapping(NonNull::from(octets.as_mut_slice()).cast(), length as usize) }
        octets
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let octets = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.length as usize);
        // SAFETY: `new` has leaked this box, and nobody else frees it.
        drop(unsafe { Box::from_raw(octets) });
    }
}

/// A block that is registered. The region goes before its memory.
struct Memory {
    region: Region,
    block: Block,
}

impl Memory {
    fn new(device: &IbvDevice, length: u32, access: Access) -> Self {
        let block = Block::new(length);
        // SAFETY: The block goes after the region, and is accessed by address alone.
        let region = unsafe { device.register(block.base, length as usize, access) }.expect("registered memory");
        Self { region, block }
    }

    fn slice(&self, at: u32, length: u32) -> Slice {
        let address = self.block.place(at, length as usize).as_ptr() as u64;
        Slice { address, length, key: self.region.local_key() }
    }
}

/// What comes from the peer.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Got {
    /// A message, and the key that it has invalidated.
    Message(Vec<u8>, Option<u32>),
    /// Nothing, for as long as was waited.
    Nothing,
    /// The connection is lost.
    Lost,
}

/// A connection. The queue pair goes first, after which nothing touches the memory.
pub(crate) struct Wire {
    pair: QueuePair,
    window: Option<(Window, u32)>,
    completions: CompletionQueue,
    manager: Manager,
    receives: Memory,
    sends: Memory,
    reached: Memory,
    sent: u32,
    came: VecDeque<(Vec<u8>, Option<u32>)>,
    lost: bool,
}

/// The parts of which a connection is made.
struct Parts {
    config: QueuePairConfig,
    completions: CompletionQueue,
    manager: Manager,
    memory: [Memory; 3],
}

impl Parts {
    fn new(device: &IbvDevice) -> Self {
        let able = device.capabilities();
        let everything = Access { remote_read: true, bind: able.windows, ..Access::REMOTE_WRITE };
        Self {
            config: QueuePairConfig { sends: SENDS + 8, receives: RECEIVES, reads: 8, rnr_retry: able.rnr_retry },
            completions: device.completion_queue(2 * (SENDS + RECEIVES)).expect("a completion queue"),
            manager: device.manager().expect("a connection manager"),
            memory: [
                Memory::new(device, RECEIVES * RECEIVE, Access::LOCAL_WRITE),
                Memory::new(device, SENDS * SEND, Access::LOCAL_READ),
                Memory::new(device, REACHED, everything),
            ],
        }
    }

    fn wire(self, pair: QueuePair) -> Wire {
        let [receives, sends, reached] = self.memory;
        let (completions, manager, window) = (self.completions, self.manager, None);
        let came = VecDeque::new();
        let mut wire =
            Wire { pair, window, completions, manager, receives, sends, reached, sent: 0, came, lost: false };
        (0..RECEIVES).for_each(|number| wire.post_receive(number));
        wire
    }
}

impl Wire {
    /// Connects; none if the peer refuses. With it, what the peer has said.
    pub(crate) fn connect(device: &IbvDevice, to: SocketAddr, private_data: &[u8]) -> Option<(Self, Box<[u8]>)> {
        let mut parts = Parts::new(device);
        let queues = Queues { completions: &parts.completions, receives: None };
        let pair = parts.manager.connect(to, &parts.config, queues, private_data).expect("a queue pair");
        let mut wire = parts.wire(pair);
        let said = wire.established()?;
        Some((wire, said))
    }

    /// Waits until the connection is there.
    fn established(&mut self) -> Option<Box<[u8]>> {
        match next(&mut self.manager) {
            ConnectionEvent::Established { private_data, .. } => Some(private_data),
            _ => None,
        }
    }

    fn post_receive(&mut self, number: u32) {
        let slices = [self.receives.slice(number * RECEIVE, RECEIVE)];
        let receive = Receive { id: number.into(), slices: (0, 1) };
        // SAFETY: The memory stays longer than the queue pair, and is read when the receive has completed.
        unsafe { self.pair.post_receives(&[receive], &slices) }.expect("a receive");
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, octets: &[u8]) {
        assert!(self.sent < SENDS, "a connection has memory for {SENDS} messages");
        let at = self.sent * SEND;
        self.sent += 1;
        self.sends.block.write(at, octets);
        let slices = [self.sends.slice(at, u32::try_from(octets.len()).expect("a short message"))];
        // An empty message has no slice.
        self.post(Operation::Send { invalidate: None }, &slices[..usize::from(!octets.is_empty())]);
    }

    fn post(&mut self, operation: Operation, slices: &[Slice]) {
        let count = u32::try_from(slices.len()).expect("one slice");
        let request = WorkRequest { id: SENT, signaled: true, inline: false, slices: (0, count), operation };
        // SAFETY: The memory stays longer than the queue pair. What is sent has its own place, which is used once; what
        // a window is bound to is accessed by address alone.
        let posted = unsafe { self.pair.post(&[request], slices) };
        // A connection that was lost meanwhile takes none.
        self.lost |= posted.is_err();
    }

    /// The next message, or what else happens in this time.
    pub(crate) fn receive(&mut self, within: Duration) -> Got {
        let began = Instant::now();
        loop {
            self.poll();
            if let Some((octets, invalidated)) = self.came.pop_front() {
                return Got::Message(octets, invalidated);
            }
            if self.lost {
                return Got::Lost;
            }
            if began.elapsed() > within {
                return Got::Nothing;
            }
            // The kernel may need this processor.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn poll(&mut self) {
        let mut completions = Vec::new();
        // What came before the end is of interest: so the manager is asked first.
        let ended = matches!(self.manager.poll(), Some(ConnectionEvent::Disconnected { .. }));
        self.completions.poll(&mut completions, 64).expect("a completion queue that works");
        for done in completions {
            if done.status != Status::Success {
                self.lost = true;
            } else if done.id < SENT {
                let number = u32::try_from(done.id).expect("a receive");
                self.came.push_back((self.receives.block.read(number * RECEIVE, done.length), done.invalidated));
                if !ended {
                    self.post_receive(number);
                }
            }
        }
        self.lost |= ended;
    }

    /// A segment of the memory that the peer reaches, as a header has it: handle, length, and the two words of the offset.
    pub(crate) fn segment(&self, at: u32, length: u32) -> [u32; 4] {
        let address = self.reached.slice(at, length).address;
        let words = [address >> 32, address & 0xffff_ffff].map(|word| u32::try_from(word).expect("half of it"));
        let key = self.window.as_ref().map_or(self.reached.region.remote_key(), |(_, key)| *key);
        [key, length, words[0], words[1]]
    }

    /// Binds a window to all that the peer reaches, in place of the region's key: it can be invalidated.
    pub(crate) fn bind(&mut self, device: &IbvDevice) {
        let window = device.window().expect("a window");
        let (number, key) = (window.number(), window.key() & !0xff | (window.key() + 1) & 0xff);
        let all = [self.reached.slice(0, REACHED)];
        self.post(Operation::Bind { window: number, key, access: Access::REMOTE_WRITE }, &all);
        self.window = Some((window, key));
    }

    /// Puts octets where the peer reads them, before it is told of them.
    pub(crate) fn expose(&mut self, at: u32, octets: &[u8]) {
        self.reached.block.write(at, octets);
    }

    /// What the peer has written, after it has said so.
    pub(crate) fn written(&self, at: u32, length: u32) -> Vec<u8> {
        self.reached.block.read(at, length)
    }
}

/// The next event.
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

/// Waits for one connection.
pub(crate) struct Door {
    parts: Parts,
    /// Where.
    pub(crate) address: SocketAddr,
}

impl Door {
    pub(crate) fn new(device: &IbvDevice, address: SocketAddr) -> Self {
        let mut parts = Parts::new(device);
        let address = parts.manager.listen(address).expect("an address to listen at");
        Self { parts, address }
    }

    /// Accepts who comes. With it, what the peer has said.
    pub(crate) fn accept(mut self, private_data: &[u8]) -> (Wire, Box<[u8]>) {
        let ConnectionEvent::Requested { request, private_data: said, .. } = next(&mut self.parts.manager) else {
            panic!("somebody should want to connect")
        };
        let queues = Queues { completions: &self.parts.completions, receives: None };
        let pair = self.parts.manager.prepare(&request, &self.parts.config, queues).expect("a queue pair");
        let mut wire = self.parts.wire(pair);
        wire.manager.accept(request, &wire.pair, private_data).expect("a peer that is still there");
        (wire, said)
    }
}
