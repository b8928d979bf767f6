//! Rejection of messages that break a rule.
//!
//! [`Refusal::action`] is the table of RFC 8166, sections 4.5 and 4.6, which also applies to
//! Version Two (version-two-01, section 4.2.3), with decisions D12 to D15 of `spec/README.md`. Its
//! order matters: an error or a reply is never answered, whatever else is wrong with it, or two
//! ends would exchange errors for ever. Errors of both versions are encoded as those of Version
//! Two, whose numbers are the same.
//!
//! ```
//! use rpcrdma_proto::error::{PeerError, RefusalAction, RefusalReason};
//! use rpcrdma_proto::header::Header;
//! use rpcrdma_proto::version::Version;
//!
//! // An end that supports only Version One receives a message of Version Two, and answers.
//! #[rustfmt::skip]
//! let message = [
//!     0, 0, 0, 7,  0, 0, 0, 2,  0, 0, 0, 32,  0, 0, 0, 0,  0, 0, 0, 0,
//!     0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,
//! ];
//! let refusal = Header::parse(&message, Version::One).expect_err("another version");
//! assert_eq!((refusal.xid, refusal.reason), (7, RefusalReason::Version));
//! let action = refusal.action(false, Version::One, Version::One);
//! assert_eq!(action, RefusalAction::Answer(PeerError::Versions { low: 1, high: 1 }));
//! ```

use core::fmt;

use crate::chunk::ChunkError;
use crate::continuation::GroupError;
use crate::v2;
use crate::v2::MsgType;
use crate::version::Version;
use crate::xdr::{self, Encode};

/// An error message of either end: what this end reports about a message, or what the peer reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeerError {
    /// The peer does not support the version: `ERR_VERS`, `RDMA2_ERR_VERS`.
    Versions {
        /// The lowest version that it supports.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// The peer could not process the header: `ERR_CHUNK`, `RDMA2_ERR_BAD_HEADER`, which have the
    /// same number on the wire.
    Header,
    /// The peer does not know the operation: `RDMA2_ERR_INVAL_OPTION`.
    Operation,
}

/// Describes the rule that a message breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The message is too short to trust its XID.
    Short,
    /// The version is not supported.
    Version,
    /// The version does not have the procedure.
    Procedure,
    /// Version One's `RDMA_MSGP`, which must not be sent (RFC 8166, section 4.6.1).
    Padded,
    /// Version One's `RDMA_DONE`, which must not be sent (RFC 8166, section 4.6.2).
    Done,
    /// The header is not valid XDR of its type.
    Xdr(xdr::Error),
    /// A required RPC message is missing.
    NoMessage,
    /// Bytes follow a header that allows none.
    Payload,
    /// The RPC message has another XID than the header.
    Xid,
    /// The RPC message has another direction than the header, or is neither a call nor a reply.
    Direction,
    /// An operation is sent as a call and must be a reply, or the reverse.
    OperationDirection,
    /// The chunks or transmissions of the message break a rule, or exceed a limit.
    Chunks(ChunkError),
    /// Calls in this direction, or with chunks, are not accepted.
    NotAccepted,
    /// The operation is unknown, or not accepted.
    Operation,
    /// The upper layer rejects the call, or no transfer method fits its reply.
    Rejected,
    /// The peer reported the transmissions of the reply to this call as broken, and the reply
    /// cannot be sent again: the call is refused after all.
    BrokenReply,
    /// The message breaks a group of transmissions (rtrext-02, section 9.5).
    Group(GroupError),
    /// A reply in Version One on a connection of Version Two.
    ReplyVersion,
    /// The consumer has too many events to take before this one.
    TooManyEvents,
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "too short for a header",
            Self::Version => "an unsupported version",
            Self::Procedure => "a procedure that the version does not have",
            Self::Padded => "RDMA_MSGP, which must not be sent",
            Self::Done => "RDMA_DONE, which must not be sent",
            Self::Xdr(error) => return error.fmt(f),
            Self::NoMessage => "no RPC message",
            Self::Payload => "bytes follow the header where none may",
            Self::Xid => "header and RPC message have different XIDs",
            Self::Direction => "header and RPC message have different directions",
            Self::OperationDirection => "the operation does not go in this direction",
            Self::Chunks(fault) => return fault.fmt(f),
            Self::NotAccepted => "such calls are not accepted",
            Self::Operation => "the operation is unknown or not accepted",
            Self::Rejected => "the call is rejected, or its reply cannot be sent",
            Self::BrokenReply => "the reply was broken and cannot be sent again",
            Self::Group(error) => {
                return write!(f, "its group of transmissions is broken: {error}");
            }
            Self::ReplyVersion => "a reply in Version One on a connection of Version Two",
            Self::TooManyEvents => "the consumer has not taken the events before it",
        })
    }
}

/// A message that breaks a rule, with what determines the action, and what an error message needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The XID; zero if the message is too short.
    pub xid: u32,
    /// The version as received.
    pub vers: u32,
    /// The broken rule.
    pub reason: RefusalReason,
    /// The direction, if the message states one.
    pub direction: Option<MsgType>,
    /// Whether the message is itself an error message.
    pub error: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reason == RefusalReason::Short {
            return f.write_str("a message that is too short for a header");
        }
        write!(
            f,
            "message {:#010x} of version {}: {}",
            self.xid, self.vers, self.reason
        )
    }
}

impl core::error::Error for Refusal {}

/// The action to take on a message that breaks a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalAction {
    /// Answer with this error.
    Answer(PeerError),
    /// Drop the message and count it.
    Drop,
}

impl Refusal {
    /// Returns the refusal of a message that lacks even the fixed fields.
    pub(crate) const fn short() -> Self {
        Self {
            xid: 0,
            vers: 0,
            reason: RefusalReason::Short,
            direction: None,
            error: false,
        }
    }

    /// Returns the refusal of a message of this direction whose header is valid.
    #[cfg(feature = "alloc")]
    pub(crate) const fn of_message(
        xid: u32,
        version: Version,
        direction: MsgType,
        reason: RefusalReason,
    ) -> Self {
        Self {
            xid,
            vers: version.number(),
            reason,
            direction: Some(direction),
            error: false,
        }
    }

    /// Returns the action to take. `is_reply` tells whether a message that states no direction
    /// counts as a reply: this end has a call in flight with the XID, or serves no calls. `lowest`
    /// and `highest` are the supported versions.
    ///
    /// Errors, replies, `RDMA_DONE` and messages without a trustworthy XID are never answered.
    // spec: v2-5.2-a, v2-5.2-b, v2-4.2.3-a
    // spec: rfc8166-4.2.4-c, rfc8166-4.2.4-d, rfc8166-4.5-b, rfc8166-4.5-c, rfc8166-4.5-g
    // spec: rfc8166-4.5.1-a, rfc8166-4.5.2-a, rfc8166-4.6.1-b, rfc8166-4.6.2-b
    #[must_use]
    pub fn action(&self, is_reply: bool, lowest: Version, highest: Version) -> RefusalAction {
        let reply = match self.direction {
            Some(direction) => direction == MsgType::Reply,
            None => is_reply,
        };
        match self.reason {
            _ if self.error => RefusalAction::Drop,
            RefusalReason::Short
            | RefusalReason::Done
            | RefusalReason::Group(_)
            | RefusalReason::ReplyVersion
            | RefusalReason::TooManyEvents => RefusalAction::Drop,
            // Who receives a reply is a requester, which sends no errors (RFC 8166, section 4.2.4).
            _ if reply => RefusalAction::Drop,
            RefusalReason::Version => RefusalAction::Answer(PeerError::Versions {
                low: lowest.number(),
                high: highest.number(),
            }),
            RefusalReason::Operation => RefusalAction::Answer(PeerError::Operation),
            RefusalReason::Procedure
            | RefusalReason::Padded
            | RefusalReason::Xdr(_)
            | RefusalReason::NoMessage
            | RefusalReason::Payload
            | RefusalReason::Xid
            | RefusalReason::Direction
            | RefusalReason::OperationDirection
            | RefusalReason::Chunks(_)
            | RefusalReason::NotAccepted
            | RefusalReason::Rejected
            | RefusalReason::BrokenReply => RefusalAction::Answer(PeerError::Header),
        }
    }

    /// Writes the error message to the beginning of `buffer` with this credit value, and returns
    /// its length: 20 to 28 bytes.
    ///
    /// The message has the version of the refused message, even if this end does not support it:
    /// the layout of errors is the same in all versions (RFC 8166, section 4.5).
    ///
    /// # Errors
    /// `BufferFull`.
    // spec: rfc8166-4.5-d, rfc8166-4.5-e, rfc8166-4.5-f
    pub fn write_error(
        &self,
        error: PeerError,
        credit: u32,
        buffer: &mut [u8],
    ) -> xdr::Result<usize> {
        let (xid, vers) = (self.xid, self.vers);
        let header = |error| v2::XprtHdr {
            xid,
            vers,
            credit,
            body: v2::Body::Error(error),
        };
        match error {
            PeerError::Versions { low, high } => header(v2::Error::Vers(v2::ErrVers {
                vers_low: low,
                vers_high: high,
            }))
            .encode_to_slice(buffer),
            // ERR_CHUNK of Version One has the same number.
            PeerError::Header => header(v2::Error::BadHeader).encode_to_slice(buffer),
            PeerError::Operation => header(v2::Error::InvalOption).encode_to_slice(buffer),
        }
    }
}
