//! What is wrong with a message, and what becomes of it: in one place.
//!
//! The table is RFC 8166, sections 4.5 and 4.6, which Version Two takes over (version-two-01, section 4.2.3), with decisions
//! D12 to D15 of `spec/README.md`.

use core::fmt;

use crate::v2::MsgType;
use crate::version::Version;
use crate::xdr::{self, Encode};
use crate::{v1, v2};

/// An error that a peer reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeerError {
    /// It does not know the version: `ERR_VERS`, `RDMA2_ERR_VERS`.
    Versions {
        /// The lowest that it knows.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// It could not take the header: `ERR_CHUNK`, `RDMA2_ERR_BAD_HEADER`, which travel as the same number.
    Header,
    /// It does not know the operation: `RDMA2_ERR_INVAL_OPTION`.
    Operation,
}

/// What is wrong with a message that breaks a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Why {
    /// It is too short to trust its XID.
    Short,
    /// A version that is not spoken here.
    Version,
    /// A procedure that its version does not have.
    Procedure,
    /// Version One's `RDMA_MSGP`, which nobody may send (RFC 8166, section 4.6.1).
    Padded,
    /// Version One's `RDMA_DONE`, which nobody may send (RFC 8166, section 4.6.2).
    Done,
    /// Its header is no XDR of its type.
    Xdr(xdr::Error),
    /// No RPC message where there must be one.
    NoMessage,
    /// Something follows where nothing may.
    Payload,
    /// The RPC message has another XID.
    Xid,
    /// The RPC message has another direction, or none.
    Direction,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "too short for a header",
            Self::Version => "a version that is not spoken here",
            Self::Procedure => "a procedure that the version does not have",
            Self::Padded => "RDMA_MSGP, which nobody may send",
            Self::Done => "RDMA_DONE, which nobody may send",
            Self::Xdr(error) => return error.fmt(f),
            Self::NoMessage => "no RPC message",
            Self::Payload => "something follows the header where nothing may",
            Self::Xid => "header and RPC message have different XIDs",
            Self::Direction => "header and RPC message have different directions",
        })
    }
}

/// A message that breaks a rule, and what it takes to answer it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Its transaction; zero if it is too short to tell.
    pub xid: u32,
    /// Its version, as it came.
    pub vers: u32,
    /// What is wrong.
    pub why: Why,
    /// Its direction, where it told one.
    pub direction: Option<MsgType>,
    /// Whether it is an error itself, by its procedure.
    pub error: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {:#010x} of version {}: {}", self.xid, self.vers, self.why)
    }
}

impl core::error::Error for Refusal {}

/// What becomes of a message that breaks a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The peer is told.
    Answer(PeerError),
    /// Nobody is told; it is counted.
    Drop,
}

impl Refusal {
    /// A message of which not even the fixed fields are there.
    pub(crate) const fn short() -> Self {
        Self { xid: 0, vers: 0, why: Why::Short, direction: None, error: false }
    }

    /// What becomes of the message. `ours` is whether its XID is that of a call of ours, so that what tells no direction is
    /// most likely the reply; `lowest` and `highest` are the versions spoken here.
    ///
    /// An error is never answered, nor a reply, nor what can't be trusted to have an XID.
    // spec: v2-5.2-a, v2-5.2-b, v2-4.2.3-a
    #[must_use]
    pub fn outcome(&self, ours: bool, lowest: Version, highest: Version) -> Outcome {
        let reply = match self.direction {
            Some(direction) => direction == MsgType::Reply,
            None => ours,
        };
        match self.why {
            _ if self.error => Outcome::Drop,
            Why::Short | Why::Done => Outcome::Drop,
            // A requester sends no errors (RFC 8166, section 4.2.4).
            _ if reply => Outcome::Drop,
            Why::Version => Outcome::Answer(PeerError::Versions { low: lowest.number(), high: highest.number() }),
            Why::Procedure | Why::Padded | Why::Xdr(_) | Why::NoMessage | Why::Payload | Why::Xid | Why::Direction => {
                Outcome::Answer(PeerError::Header)
            }
        }
    }

    /// Writes the answer to the beginning of `buffer`, with this credit value, and returns its octets: 20 to 28.
    ///
    /// The version is that of the message (RFC 8166, section 4.5), and the layout is that of all versions.
    ///
    /// # Errors
    /// `BufferFull`.
    pub fn answer(&self, error: PeerError, credit: u32, buffer: &mut [u8]) -> xdr::Result<usize> {
        let (xid, vers) = (self.xid, self.vers);
        let of_one = |error| v1::Msg { xid, vers, credit, body: v1::Body::Error(error) };
        let of_two = |error| v2::XprtHdr { xid, vers, credit, body: v2::Body::Error(error) };
        match error {
            PeerError::Versions { low, high } => {
                of_two(v2::Error::Vers(v2::ErrVers { vers_low: low, vers_high: high })).encode_to_slice(buffer)
            }
            PeerError::Header if vers == Version::One.number() => of_one(v1::Error::Chunk).encode_to_slice(buffer),
            PeerError::Header => of_two(v2::Error::BadHeader).encode_to_slice(buffer),
            PeerError::Operation => of_two(v2::Error::InvalOption).encode_to_slice(buffer),
        }
    }
}
