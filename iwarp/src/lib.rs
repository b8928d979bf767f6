#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod crc;
mod fpdu_receiver;
mod framer;
mod mpa;
mod segment;
mod stag;
mod stream;
mod terminate;

pub use fpdu_receiver::{
    FpduDestination, FpduProgress, FpduReceiver, IwarpEvent, Placement, ReadSink, ReceiveRoom,
};
pub use framer::{Framer, FramerPiece, OutgoingKind, OutgoingMessage, PayloadTooShort, mulpdu};
pub use mpa::{
    MAX_PRIVATE_DATA, MpaEstablished, MpaInitiator, MpaOptions, MpaRequest, MpaResponder,
    ReadDepths, RtrTypes, SetupError,
};
pub use segment::{RdmapOpcode, ReadRequestHeader};
pub use stag::{StagAccess, StagError, StagRegion, StagTable};
pub use stream::IwarpStream;
pub use terminate::{Terminate, TerminateCode};

/// Returns the number of padding bytes after a ULPDU of `len` bytes, which align the CRC to 4
/// bytes.
const fn padding(len: usize) -> usize {
    // rfc: 5044-4.1-b
    (4 - (2 + len) % 4) % 4
}
