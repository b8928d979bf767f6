//! Code that the tests share.

#![allow(dead_code, reason = "no test uses all of it")]

use rpcrdma_iwarp::{
    FpduDestination, FpduProgress, FpduReceiver, Framer, FramerPiece, IwarpEvent, OutgoingMessage,
    Placement, ReceiveRoom, StagAccess, StagError, StagRegion, StagTable, Terminate,
};

/// The STags, receives and memory of one end.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) table: StagTable,
    pub(crate) receives: Vec<Vec<u8>>,
    pub(crate) regions: std::collections::HashMap<u32, Vec<u8>>,
    /// The STag of the memory that RDMA Reads fill.
    pub(crate) sink: u32,
}

impl Memory {
    pub(crate) fn expose(&mut self, len: usize, remote_read: bool, remote_write: bool) -> u32 {
        let len64 = len as u64;
        let region = StagRegion {
            base: 0,
            len: len64,
            remote_read,
            remote_write,
            connection: 1,
        };
        let stag = self.table.insert(region).expect("few are in use");
        self.regions.insert(stag, vec![0; len]);
        stag
    }

    pub(crate) fn put(&mut self, destination: FpduDestination, bytes: &[u8]) {
        let (memory, at) = match destination {
            FpduDestination::Tagged { stag, offset } => (
                self.regions.get_mut(&stag).unwrap(),
                usize::try_from(offset).unwrap(),
            ),
            FpduDestination::Sink { offset } => (
                self.regions.get_mut(&self.sink).unwrap(),
                usize::try_from(offset).unwrap(),
            ),
            FpduDestination::Receive { msn, offset } => {
                (&mut self.receives[msn as usize - 1], offset as usize)
            }
        };
        memory[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Placement for Memory {
    fn check(
        &mut self,
        stag: u32,
        offset: u64,
        len: u64,
        access: StagAccess,
    ) -> Result<(), StagError> {
        self.table.check(1, stag, offset, len, access)
    }

    fn receive_room(&mut self, msn: u32) -> ReceiveRoom {
        match self.receives.get(msn as usize - 1) {
            Some(receive) => ReceiveRoom::Bytes(receive.len() as u64),
            None => ReceiveRoom::Missing,
        }
    }

    fn may_invalidate(&mut self, stag: u32) -> bool {
        self.table.may_invalidate(1, stag)
    }
}

/// Processes `input` like one read of the socket. Returns the events.
pub(crate) fn feed(
    receiver: &mut FpduReceiver,
    memory: &mut Memory,
    mut input: &[u8],
) -> Result<Vec<IwarpEvent>, Terminate> {
    let mut events = Vec::new();
    loop {
        let (taken, progress) = receiver.advance(input, memory)?;
        input = &input[taken..];
        match progress {
            FpduProgress::NeedInput => {
                assert!(input.is_empty());
                return Ok(events);
            }
            FpduProgress::Event(event) => events.push(event),
            FpduProgress::Stalled => panic!("receives are there or not"),
            FpduProgress::Place { destination, len } => {
                if input.is_empty() {
                    return Ok(events);
                }
                let (bytes, rest) = input.split_at(len.min(input.len()));
                memory.put(destination, bytes);
                receiver.placed(bytes);
                input = rest;
            }
        }
    }
}

/// Frames a message, and returns the bytes of the stream. `request` is ignored.
pub(crate) fn send(framer: &mut Framer, mut message: OutgoingMessage, payload: &[u8]) -> Vec<u8> {
    // There are two slices, so that segments cross their boundary.
    let (first, second) = payload.split_at(payload.len() / 3);
    while framer.push_segment(&mut message, &[first, second]) == Ok(false) {}
    drain(framer, payload)
}

/// Returns all outgoing bytes of the framer.
pub(crate) fn drain(framer: &mut Framer, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in framer.pieces() {
        match piece {
            FramerPiece::Owned(owned) => bytes.extend(owned),
            FramerPiece::Payload { offset, len, .. } => {
                bytes.extend(&payload[offset as usize..][..len]);
            }
        }
    }
    framer.sent(bytes.len());
    assert_eq!(framer.pieces().count(), 0);
    bytes
}
