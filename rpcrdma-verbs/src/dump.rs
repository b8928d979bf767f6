//! Transport headers as text.
//!
//! The wording is output of the command `rpcrdma`: lines of text, and the JSON field `malformed`
//! for a message without a header. Its tests and its users depend on both.
//!
//! ```
//! use rpcrdma_verbs::dump::Dump;
//! use rpcrdma_proto::connection::Properties;
//!
//! // The header of a call whose message is in a chunk (RDMA2_NOMSG), cut after its chunk lists.
//! let message = [0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 32, 0, 0, 0, 1];
//! let dump = Dump::new(&message).with_properties(Properties::Characteristics);
//! println!("{dump}");
//! assert!(dump.to_string().contains("0x00000009"));
//! ```

mod groups;
mod operations;

use std::borrow::Cow;
use std::fmt;

use rpcrdma_proto::chunk::{ChunkError, ChunkLimits, Segment, WriteChunk};
use rpcrdma_proto::connection::Properties;
use rpcrdma_proto::error::PeerError;
use rpcrdma_proto::header::{Chunks, Header, HeaderBody};
use rpcrdma_proto::v2::MsgType;
use rpcrdma_proto::version::Version;

/// Displays the header of a message in one line. With `{:#}`, chunks and properties have lines of
/// their own.
///
/// A message does not show which draft of properties its connection uses. [`Dump::with_properties`]
/// sets it.
///
/// ```
/// use rpcrdma_verbs::dump::Dump;
///
/// #[rustfmt::skip]
/// let message = [
///     0, 0, 0, 7,  0, 0, 0, 2,  0, 0, 0, 32,  0, 0, 0, 0,  0, 0, 0, 0,
///     0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,
///     0, 0, 0, 7,  0, 0, 0, 0,
/// ];
/// let text = Dump::new(&message).to_string();
/// assert_eq!(text, "RDMA2_MSG call 0x00000007, 32 credits, 8 bytes inline");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dump<'a> {
    message: &'a [u8],
    draft: Properties,
}

impl<'a> Dump<'a> {
    /// Displays a message that begins with its transport header. Properties are decoded as those of
    /// xcharext-03.
    #[must_use]
    pub const fn new(message: &'a [u8]) -> Self {
        Self {
            message,
            draft: Properties::Properties,
        }
    }

    /// Sets the draft of the connection: xcharext-02 uses the same codes for other types.
    #[must_use]
    pub const fn with_properties(self, draft: Properties) -> Self {
        Self { draft, ..self }
    }
}

impl Dump<'_> {
    /// Returns true if the message begins with a transport header. Otherwise the text says why not.
    #[must_use]
    pub fn is_header(&self) -> bool {
        Header::parse(self.message, Version::Two).is_ok()
    }
}

/// All offered chunks are displayed: only a chunk beyond the address space is invalid.
const NO_LIMITS: ChunkLimits = ChunkLimits {
    max_segments: u32::MAX,
    max_bytes: u32::MAX,
};

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Version 2 is the highest accepted version: headers of version 1 are displayed, too.
        let header = match Header::parse(self.message, Version::Two) {
            Ok(header) => header,
            Err(refusal) => return refusal.fmt(f),
        };
        let Header {
            xid,
            version,
            credits,
            body,
        } = header;
        let by_version =
            |one: &'static str, two: &'static str| if version == Version::One { one } else { two };
        match body {
            HeaderBody::Message {
                direction,
                chunks,
                payload,
            } => {
                let name = by_version("RDMA_MSG", "RDMA2_MSG");
                let direction = direction_name(direction);
                write!(
                    f,
                    "{name} {direction} {xid:#010x}, {credits} credits, {} bytes inline",
                    payload.len()
                )?;
                show(&chunks, f)
            }
            HeaderBody::Long { direction, chunks } => {
                let direction = direction.map_or("message", direction_name);
                write!(
                    f,
                    "{} {direction} {xid:#010x}, {credits} credits",
                    by_version("RDMA_NOMSG", "RDMA2_NOMSG")
                )?;
                show(&chunks, f)
            }
            HeaderBody::Operation {
                direction,
                code,
                info,
                payload,
            } => {
                write!(
                    f,
                    "{} {} {xid:#010x}, {credits} credits",
                    operation(code, self.draft),
                    direction_name(direction)
                )?;
                operations::show(code, self.draft, info, f)?;
                groups::show(code, info, f)?;
                if payload.is_empty() {
                    Ok(())
                } else {
                    write!(f, ", {} bytes inline", payload.len())
                }
            }
            HeaderBody::Error(error) => {
                write!(
                    f,
                    "{} {xid:#010x}: ",
                    by_version("RDMA_ERROR", "RDMA2_ERROR")
                )?;
                match error {
                    PeerError::Versions { low, high } => {
                        write!(f, "versions {low} to {high} are spoken")
                    }
                    PeerError::Header => f.write_str(by_version("ERR_CHUNK", "bad header")),
                    PeerError::Operation => f.write_str("the operation is not known"),
                }
            }
        }
    }
}

fn direction_name(direction: MsgType) -> &'static str {
    if direction == MsgType::Call {
        "call"
    } else {
        "reply"
    }
}

fn operation(code: u32, draft: Properties) -> Cow<'static, str> {
    let name = operations::name(code, draft).or_else(|| groups::name(code));
    name.map_or_else(|| format!("operation {code}").into(), Cow::Borrowed)
}

fn show(chunks: &Chunks<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for read in chunks.reads().iter() {
        separate(f)?;
        write!(f, "Read at {} of ", read.position)?;
        segment(&read.target, f)?;
    }
    for chunk in chunks.writes(&NO_LIMITS) {
        write_chunk("Write chunk", chunk, f)?;
    }
    if let Some(chunk) = chunks.reply(&NO_LIMITS).transpose() {
        write_chunk("Reply chunk", chunk, f)?;
    }
    Ok(())
}

fn write_chunk(
    name: &str,
    chunk: Result<WriteChunk<'_>, ChunkError>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    separate(f)?;
    let chunk = match chunk {
        Ok(chunk) => chunk,
        Err(error) => return write!(f, "invalid {name}: {error}"),
    };
    write!(f, "{name} of")?;
    for one in chunk.segments() {
        f.write_str(" ")?;
        segment(&one, f)?;
    }
    Ok(())
}

fn separate(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(if f.alternate() { "\n    " } else { ", " })
}

fn segment(segment: &Segment, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Segment {
        handle,
        length,
        offset,
    } = segment;
    if f.alternate() {
        write!(f, "{length} bytes at {offset:#x} by key {handle:#010x}")
    } else {
        write!(f, "{length}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_chunk_is_displayed() {
        // A call of Version One with a Write chunk and a Reply chunk, of a segment each.
        let segment = |offset: u32| [9, 4096, offset, u32::MAX];
        let chunks = [&[0, 1, 1][..], &segment(1), &[0, 1, 1], &segment(u32::MAX)];
        let words = [&[7, 1, 32, 0], &chunks.concat()[..], &[7, 0]].concat();
        let message: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(
            Dump::new(&message).to_string(),
            "RDMA_MSG call 0x00000007, 32 credits, 8 bytes inline, Write chunk of 4096, \
            invalid Reply chunk: a segment ends beyond the address space"
        );
    }
}
