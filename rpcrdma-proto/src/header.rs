//! Received transport headers of both versions: parsed, and checked against the rules that do not
//! depend on the connection.
//!
//! A [`Header`] obeys these rules. A message that breaks one becomes a [`Refusal`], and
//! [`Refusal::action`] returns the consequence. `crate::chunk` validates the chunk lists, and
//! `connection` decodes the content of an operation. `Header::plain` must accept only messages that
//! `decode` accepts, with the same result; a test compares both.
//!
//! ```
//! use rpcrdma_proto::header::{Header, HeaderBody};
//! use rpcrdma_proto::version::Version;
//!
//! // A reply of Version One whose message is in the Reply chunk (RDMA_NOMSG).
//! #[rustfmt::skip]
//! let message = [
//!     0, 0, 0, 7,  0, 0, 0, 1,  0, 0, 0, 32,  0, 0, 0, 1,        // the XID, the version, credits
//!     0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 1,  0, 0, 0, 1,         // the Reply chunk has a segment
//!     0, 0, 0, 9,  0, 0, 16, 0,  0, 0, 0, 0, 0, 0, 0, 0,         // handle 9, 4096 bytes, offset 0
//! ];
//! let header = Header::parse(&message, Version::Two)?;
//! assert_eq!((header.xid, header.version), (7, Version::One));
//! assert!(matches!(header.body, HeaderBody::Long { direction: None, .. }));
//! # Ok::<(), rpcrdma_proto::error::Refusal>(())
//! ```

mod write;

use crate::chunk::{ChunkError, ChunkLimits, ReadList, WriteChunk};
use crate::error::{PeerError, Refusal, RefusalReason};
use crate::v2::MsgType;
use crate::version::Version;
use crate::xdr::{self, Array, Decode, List};
use crate::{v1, v2};

pub use write::OutgoingHeader;

/// A transport header, and the message that follows it.
///
/// ```
/// use rpcrdma_proto::header::{Header, HeaderBody};
/// use rpcrdma_proto::v2::MsgType;
/// use rpcrdma_proto::version::Version;
///
/// #[rustfmt::skip]
/// let message = [
///     0, 0, 0, 7,  0, 0, 0, 2,  0, 0, 0, 32,  0, 0, 0, 0,  0, 0, 0, 0,  // the header
///     0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,                             // no chunks
///     0, 0, 0, 7,  0, 0, 0, 0,                                          // the RPC call: XID, CALL
/// ];
/// let header = Header::parse(&message, Version::Two)?;
/// assert_eq!((header.xid, header.version, header.credits), (7, Version::Two, 32));
/// let HeaderBody::Message { direction: MsgType::Call, payload, .. } = header.body else {
///     panic!("no call");
/// };
/// assert_eq!(payload.len(), 8);
/// # Ok::<(), rpcrdma_proto::error::Refusal>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The transaction.
    pub xid: u32,
    /// The version of the message, and of its answer.
    pub version: Version,
    /// Credits asked for by a call, or granted by a reply or an error.
    pub credits: u32,
    /// What the message is.
    pub body: HeaderBody<'a>,
}

/// The kind and the content of a message.
#[derive(Clone, Copy, Debug)]
pub enum HeaderBody<'a> {
    /// An RPC message inline: `RDMA_MSG`, `RDMA2_MSG`. Its XID and direction are those of the
    /// header.
    Message {
        /// Call or reply.
        direction: MsgType,
        /// The chunk lists, not validated yet.
        chunks: Chunks<'a>,
        /// The RPC message without its reduced data: the rest of the bytes, eight or more.
        payload: &'a [u8],
    },
    /// An RPC message which is a chunk itself: `RDMA_NOMSG`, `RDMA2_NOMSG`.
    Long {
        /// Call or reply; `None` in Version One, whose header has no direction (decision D12).
        direction: Option<MsgType>,
        /// The chunk lists, not validated yet.
        chunks: Chunks<'a>,
    },
    /// An operation of an extension: `RDMA2_OPTIONAL`.
    Operation {
        /// Call or reply.
        direction: MsgType,
        /// Which operation.
        code: u32,
        /// The content.
        info: &'a [u8],
        /// All, part or none of an RPC message: the rest of the bytes.
        payload: &'a [u8],
    },
    /// An error that the peer reports: `RDMA_ERROR`, `RDMA2_ERROR`.
    Error(PeerError),
}

/// The chunk lists of either version.
#[derive(Clone, Copy, Debug)]
pub enum Chunks<'a> {
    /// Of Version One.
    V1 {
        /// The Read list.
        reads: List<'a, v1::ReadChunk>,
        /// The Write list.
        writes: List<'a, v1::WriteChunk<'a>>,
        /// The Reply chunk.
        reply: Option<Array<'a, v1::Segment>>,
    },
    /// Of Version Two.
    V2 {
        /// The Read list.
        reads: List<'a, v2::ReadSegment>,
        /// The Write list.
        writes: List<'a, v2::WriteChunk<'a>>,
        /// The Reply chunk.
        reply: Option<Array<'a, v2::Segment>>,
    },
}

impl<'a> Chunks<'a> {
    /// Returns the Read list.
    #[must_use]
    pub fn reads(&self) -> ReadList<'a> {
        match *self {
            Self::V1 { reads, .. } => reads.into(),
            Self::V2 { reads, .. } => reads.into(),
        }
    }

    /// Returns the Write chunks, each validated.
    pub fn writes(
        &self,
        limits: &ChunkLimits,
    ) -> impl Iterator<Item = Result<WriteChunk<'a>, ChunkError>> + use<'a> {
        let limits = *limits;
        let (one, two) = match *self {
            Self::V1 { writes, .. } => (Some(writes), None),
            Self::V2 { writes, .. } => (None, Some(writes)),
        };
        let one = one
            .into_iter()
            .flat_map(|list| list.iter())
            .map(move |chunk| WriteChunk::v1(chunk.target, &limits));
        let two = two
            .into_iter()
            .flat_map(|list| list.iter())
            .map(move |chunk| WriteChunk::v2(chunk.target, &limits));
        one.chain(two)
    }

    /// Returns the Reply chunk, validated.
    ///
    /// # Errors
    /// Its numbers overflow, or exceed the limits.
    pub fn reply(&self, limits: &ChunkLimits) -> Result<Option<WriteChunk<'a>>, ChunkError> {
        match *self {
            Self::V1 { reply, .. } => reply
                .map(|target| WriteChunk::v1(target, limits))
                .transpose(),
            Self::V2 { reply, .. } => reply
                .map(|target| WriteChunk::v2(target, limits))
                .transpose(),
        }
    }

    /// Returns the chunks of a message without any, of either version.
    pub(crate) fn none() -> Self {
        Self::V2 {
            reads: List::from(&[]),
            writes: List::from(&[]),
            reply: None,
        }
    }

    /// Returns these chunks, unless there are none.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn some(&self) -> Option<&Self> {
        Some(self).filter(|chunks| !chunks.is_empty())
    }

    /// Returns whether the message has no chunks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::V1 {
                reads,
                writes,
                reply,
            } => reads.is_empty() && writes.is_empty() && reply.is_none(),
            Self::V2 {
                reads,
                writes,
                reply,
            } => reads.is_empty() && writes.is_empty() && reply.is_none(),
        }
    }
}

/// Bytes of the fields that are fixed for all versions.
const FIXED: usize = 16;

impl<'a> Header<'a> {
    /// Parses a message, of a version up to `highest`.
    ///
    /// A session computes where a payload begins from its length, so a payload extends to the end
    /// of `message`. Of an operation, the beginning with the whole `info` is enough.
    ///
    /// # Errors
    /// The message breaks a rule. The refusal has the rule, and the data for an answer.
    pub fn parse(message: &'a [u8], highest: Version) -> Result<Self, Refusal> {
        match Self::plain(message, highest) {
            Some(header) => Ok(header),
            None => Self::decode(message, highest),
        }
    }

    /// Decodes an `RDMA2_MSG` without chunks that keeps the rules, as most messages do: eight
    /// words, whose last three are empty lists, and the first two words of the RPC message. Returns
    /// `None` for any other message, which needs the decoder.
    ///
    /// Without it, an RPC with 15 others in flight takes 10 % more instructions at both ends
    /// together (`rpcrdma-benches count transport/v2-16`: 5,971 to 5,436).
    // spec: v2-4.2.1-a, bd-5.1-d, bd-5.2-d
    #[inline(always)]
    pub(crate) fn plain(message: &'a [u8], highest: Version) -> Option<Self> {
        let [
            xid,
            2,
            credits,
            0,
            direction,
            0,
            0,
            0,
            rpc_xid,
            rpc_direction,
        ] = words(message)?
        else {
            return None;
        };
        if (xid, direction) != (rpc_xid, rpc_direction) || highest != Version::Two {
            return None;
        }
        let direction = MsgType::from_value(direction.cast_signed())?;
        let body = HeaderBody::Message {
            direction,
            chunks: Chunks::none(),
            payload: message.get(32..)?,
        };
        Some(Self {
            xid,
            version: Version::Two,
            credits,
            body,
        })
    }

    // spec: rfc8166-4.2.2-a, rfc8166-4.5-a
    fn decode(message: &'a [u8], highest: Version) -> Result<Self, Refusal> {
        let Some([xid, vers, credits, procedure]) = words(message) else {
            return Err(Refusal::short());
        };
        let refusal = |why| Refusal {
            xid,
            vers,
            reason: why,
            direction: None,
            error: procedure == ERROR,
        };
        let version = match Version::from_number(vers) {
            Some(version) if version <= highest => version,
            // Its XID cannot be trusted.
            _ if message.len() < MIN_LEN && procedure != ERROR => return Err(Refusal::short()),
            _ => return Err(refusal(RefusalReason::Version)),
        };
        let parsed = match version {
            Version::One => version_one(message),
            Version::Two => version_two(message),
        };
        match parsed.and_then(|body| consistent(xid, body)) {
            Ok(body) => Ok(Self {
                xid,
                version,
                credits,
                body,
            }),
            Err(why) => Err(Refusal {
                direction: direction(message, version),
                ..refusal(why)
            }),
        }
    }
}

/// Returns the first words of a message.
fn words<const N: usize>(message: &[u8]) -> Option<[u32; N]> {
    let words: &[[u8; 4]; N] = message.as_chunks().0.first_chunk()?;
    Some(words.map(u32::from_be_bytes))
}

/// `RDMA_ERROR` and `RDMA2_ERROR`: fixed for all versions.
const ERROR: u32 = 4;

/// The minimum length in bytes of a message that is not an error, of Version One or of a version
/// that is not supported (RFC 8166, section 4.5).
const MIN_LEN: usize = 28;

// spec: rfc8166-4.2.4-a, rfc8166-4.5-a
fn version_one(message: &[u8]) -> Result<HeaderBody<'_>, RefusalReason> {
    // The error's layout is shorter than the least message.
    let error = message.get(12..FIXED) == Some(&ERROR.to_be_bytes());
    if message.len() < MIN_LEN && !error {
        return Err(RefusalReason::Short);
    }
    let (header, payload) = v1::Msg::from_prefix(message).map_err(xdr_error)?;
    match header.body {
        v1::Body::Msg(v1::Header {
            reads,
            writes,
            reply,
        }) => {
            // A Version One header has no direction. The RPC message has it.
            let direction = rpc_direction(payload)?;
            let chunks = Chunks::V1 {
                reads,
                writes,
                reply: reply.map(|chunk| chunk.target),
            };
            Ok(HeaderBody::Message {
                direction,
                chunks,
                payload,
            })
        }
        v1::Body::Nomsg(v1::HeaderNomsg {
            reads,
            writes,
            reply,
        }) => {
            nothing_follows(payload)?;
            let chunks = Chunks::V1 {
                reads,
                writes,
                reply: reply.map(|chunk| chunk.target),
            };
            Ok(HeaderBody::Long {
                direction: None,
                chunks,
            })
        }
        v1::Body::Msgp(_) => Err(RefusalReason::Padded),
        v1::Body::Done => Err(RefusalReason::Done),
        v1::Body::Error(error) => {
            nothing_follows(payload)?;
            Ok(HeaderBody::Error(match error {
                v1::Error::Vers(range) => PeerError::Versions {
                    low: range.vers_low,
                    high: range.vers_high,
                },
                v1::Error::Chunk => PeerError::Header,
            }))
        }
    }
}

fn version_two(message: &[u8]) -> Result<HeaderBody<'_>, RefusalReason> {
    let (header, payload) = v2::XprtHdr::from_prefix(message).map_err(xdr_error)?;
    match header.body {
        v2::Body::Msg(v2::ChunkLists {
            direction,
            reads,
            writes,
            reply,
        }) => {
            if rpc_direction(payload)? != direction {
                return Err(RefusalReason::Direction);
            }
            let chunks = Chunks::V2 {
                reads,
                writes,
                reply: reply.map(|chunk| chunk.target),
            };
            Ok(HeaderBody::Message {
                direction,
                chunks,
                payload,
            })
        }
        v2::Body::Nomsg(v2::ChunkLists {
            direction,
            reads,
            writes,
            reply,
        }) => {
            nothing_follows(payload)?;
            let chunks = Chunks::V2 {
                reads,
                writes,
                reply: reply.map(|chunk| chunk.target),
            };
            Ok(HeaderBody::Long {
                direction: Some(direction),
                chunks,
            })
        }
        v2::Body::Error(error) => {
            nothing_follows(payload)?;
            Ok(HeaderBody::Error(match error {
                v2::Error::Vers(range) => PeerError::Versions {
                    low: range.vers_low,
                    high: range.vers_high,
                },
                v2::Error::BadHeader => PeerError::Header,
                v2::Error::InvalOption => PeerError::Operation,
            }))
        }
        v2::Body::Optional(v2::Optional {
            optdir,
            opttype,
            optinfo,
        }) => Ok(HeaderBody::Operation {
            direction: optdir,
            code: opttype,
            info: optinfo,
            payload,
        }),
    }
}

/// Checks the rules that hold in both versions.
// spec: bd-5.1-d, bd-5.2-d
// spec: rfc8166-4.2.1-a, rfc8166-4.2.4-b
fn consistent(xid: u32, body: HeaderBody<'_>) -> Result<HeaderBody<'_>, RefusalReason> {
    match body {
        HeaderBody::Message { payload, .. }
            if payload.first_chunk() != Some(&xid.to_be_bytes()) =>
        {
            Err(RefusalReason::Xid)
        }
        HeaderBody::Long { chunks, .. } if chunks.is_empty() => Err(RefusalReason::NoMessage),
        _ => Ok(body),
    }
}

/// Returns the direction in an RPC message (RFC 5531, section 9): its second word.
// spec: v2-4.2.1-a
fn rpc_direction(payload: &[u8]) -> Result<MsgType, RefusalReason> {
    let Some([_, mtype]) = words(payload) else {
        return Err(RefusalReason::NoMessage);
    };
    MsgType::from_value(mtype.cast_signed()).ok_or(RefusalReason::Direction)
}

/// Checks that no bytes follow a header without a payload (version-two-01, section 4.2.1, and
/// decision D13).
// spec: v2-4.2.1-b
fn nothing_follows(payload: &[u8]) -> Result<(), RefusalReason> {
    if payload.is_empty() {
        Ok(())
    } else {
        Err(RefusalReason::Payload)
    }
}

fn xdr_error(error: xdr::Error) -> RefusalReason {
    match (error.kind(), error.offset()) {
        (xdr::ErrorKind::InvalidDiscriminant, 12) => RefusalReason::Procedure,
        _ => RefusalReason::Xdr(error),
    }
}

/// Returns the direction in the fifth word of a Version Two message, even if the message is
/// invalid.
fn direction(message: &[u8], version: Version) -> Option<MsgType> {
    let (fixed, rest) = message.split_first_chunk::<FIXED>()?;
    let is_rpc_message = matches!(fixed, [.., 0, 0, 0, 0 | 1 | 5]) && version == Version::Two;
    let word = rest.first_chunk().filter(|_| is_rpc_message)?;
    MsgType::from_value(i32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests;
