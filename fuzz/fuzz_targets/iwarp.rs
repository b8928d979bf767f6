//! Runs arbitrary bytes as the stream of an iWARP connection: raw, or as ULPDUs that are framed
//! with their length and CRC, so that DDP and RDMAP see all of them. Payload goes within the memory
//! that was offered, and what is outstanding is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcrdma_iwarp::{
    FpduDestination, FpduProgress, IwarpEvent, IwarpStream, MpaEstablished, Placement, ReadDepths,
    ReceiveRoom, RtrTypes, StagAccess, StagError,
};

/// The length of the memory that the peer may access, and its STag.
const REGION: u64 = 4096;
const STAG: u32 = 0x100;
/// The length of each receive.
const RECEIVE: u64 = 512;
/// How many RDMA Reads of either end are outstanding at most.
const DEPTH: u16 = 2;

#[derive(Default)]
struct Memory {
    receives: u8,
    /// The lengths of the RDMA Reads of ours.
    sinks: std::collections::VecDeque<u32>,
}

impl Placement for Memory {
    fn check(
        &mut self,
        stag: u32,
        offset: u64,
        len: u64,
        access: StagAccess,
    ) -> Result<(), StagError> {
        match (access, offset.checked_add(len)) {
            (StagAccess::ReadResponse, _) => Ok(()),
            (_, None) => Err(StagError::Wrap),
            _ if stag != STAG => Err(StagError::Invalid),
            (_, Some(end)) if end > REGION => Err(StagError::Bounds),
            _ => Ok(()),
        }
    }

    fn receive_room(&mut self, _: u32) -> ReceiveRoom {
        match self.receives {
            0 => ReceiveRoom::Missing,
            // The caller looks again.
            number if number % 4 == 3 => {
                self.receives -= 1;
                ReceiveRoom::Later
            }
            _ => ReceiveRoom::Bytes(RECEIVE),
        }
    }

    fn may_invalidate(&mut self, stag: u32) -> bool {
        stag == STAG
    }
}

impl Memory {
    fn check_placed(&self, destination: FpduDestination, len: usize) {
        let len = len as u64;
        assert!(len > 0);
        match destination {
            FpduDestination::Tagged { stag, offset } => {
                assert!(stag == STAG && offset + len <= REGION);
            }
            FpduDestination::Sink { offset } => {
                let sink = self.sinks.front().expect("a Read is outstanding");
                assert!(offset + len <= u64::from(*sink));
            }
            FpduDestination::Receive { offset, .. } => {
                assert!(u64::from(offset) + len <= RECEIVE);
            }
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&[flags, receives, cut], bytes)) = input.split_first_chunk() else {
        return;
    };
    let is_framed = flags & 1 != 0;
    let depths = ReadDepths {
        ird: DEPTH,
        ord: DEPTH,
    };
    let established = MpaEstablished {
        crc: is_framed,
        markers: false,
        depths: Some(depths),
        peer_depths: Some(depths),
        rtr: (flags & 2 != 0).then_some(RtrTypes {
            read: true,
            ..RtrTypes::default()
        }),
        private_data: Vec::new(),
    };
    let mut stream = if flags & 4 != 0 {
        IwarpStream::initiator(&established, depths, 1448)
    } else {
        IwarpStream::responder(&established, depths, 1448)
    };
    let mut memory = Memory {
        receives,
        ..Memory::default()
    };
    // The Read that says that an initiator is ready has no bytes.
    if flags & 6 == 6 {
        memory.sinks.push_back(0);
    }
    if flags & 8 != 0 && stream.push_read(1, 700, (2, 3)) {
        memory.sinks.push_back(700);
    }
    let bytes = if is_framed {
        framed(bytes)
    } else {
        bytes.to_vec()
    };
    let mut pending = Vec::new();
    for part in bytes.chunks(usize::from(cut) + 1) {
        pending.extend_from_slice(part);
        if !take(&mut stream, &mut memory, &mut pending) {
            return;
        }
    }
});

/// Takes what has come. Returns false at the end of the stream.
fn take(stream: &mut IwarpStream, memory: &mut Memory, pending: &mut Vec<u8>) -> bool {
    let mut input = &pending[..];
    loop {
        let Ok((taken, progress)) = stream.advance(input, memory) else {
            assert!(stream.has_ended());
            return false;
        };
        input = &input[taken..];
        match progress {
            FpduProgress::NeedInput => break,
            FpduProgress::Stalled => {}
            FpduProgress::Place { destination, len } => {
                memory.check_placed(destination, len);
                if input.is_empty() {
                    break;
                }
                let (placed, rest) = input.split_at(len.min(input.len()));
                stream.placed(placed);
                input = rest;
            }
            FpduProgress::Event(event) => match event {
                IwarpEvent::Received { len, .. } => {
                    assert!(u64::from(len) <= RECEIVE);
                    memory.receives -= 1;
                }
                IwarpEvent::ReadDone => {
                    memory.sinks.pop_front();
                }
                IwarpEvent::ReadRequested(_) => {
                    assert!(stream.response_at(usize::from(DEPTH)).is_none());
                }
                IwarpEvent::Terminated(_) => assert!(stream.has_ended()),
                IwarpEvent::Written { .. } => {}
            },
        }
    }
    *pending = input.to_vec();
    true
}

/// Frames ULPDUs, each of which follows a byte with its length, with their lengths and CRCs.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let Some((&len, rest)) = bytes.split_first() {
        let (ulpdu, rest) = rest.split_at(usize::from(len).min(rest.len()));
        bytes = rest;
        let from = stream.len();
        stream.extend_from_slice(&(ulpdu.len() as u16).to_be_bytes());
        stream.extend_from_slice(ulpdu);
        while (stream.len() - from) % 4 != 0 {
            stream.push(0);
        }
        let sum = crc32c::crc32c(&stream[from..]);
        stream.extend_from_slice(&sum.to_le_bytes());
    }
    stream
}
