//! An RPC-over-RDMA message of a capture, as text and as JSON.
//!
//! `rpcrdma_proto` parses the header, and `rpcrdma_verbs::dump` makes the text. `parse` decides
//! whether a Send is a message: until one was seen on the connection, its version must be known, so
//! that Sends of other protocols are not reported. The JSON fields are for programs:
//! `tests/wireshark.rs` compares them with Wireshark.

use rpcrdma_proto::chunk::{ChunkError, ChunkLimits, Segment, WriteChunk};
use rpcrdma_proto::connection::Properties;
use rpcrdma_proto::header::{Chunks, Header, HeaderBody};
use rpcrdma_proto::v2::MsgType;
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::dump::Dump;
use serde_json::{Value, json};

use super::packet::Bytes;
use super::rpc::RpcHeader;

/// Limits that accept all chunks, except those beyond the address space.
const ALL: ChunkLimits = ChunkLimits {
    max_segments: u32::MAX,
    max_bytes: u32::MAX,
};

/// A message with its parsed headers.
pub(super) struct Message<'a> {
    bytes: &'a [u8],
    draft: Properties,
    header: Option<Header<'a>>,
    pub(super) rpc: Option<RpcHeader>,
}

impl<'a> Message<'a> {
    /// Parses the message in a Send. Returns `None` if it is not a message. If no message has been
    /// `seen` on the connection, the version must be a supported one.
    pub(super) fn parse(bytes: &'a [u8], draft: Properties, seen: bool) -> Option<Self> {
        let mut words = Bytes(bytes);
        let begins = words.u32().is_some() && words.u32().is_some_and(|v| (1..=2).contains(&v));
        if !begins && !seen {
            return None;
        }
        let header = Header::parse(bytes, Version::Two).ok();
        let rpc = header.as_ref().and_then(|header| {
            let payload = match header.body {
                HeaderBody::Message { payload, .. } | HeaderBody::Operation { payload, .. } => {
                    payload
                }
                _ => return None,
            };
            RpcHeader::parse(payload, header.xid)
        });
        Some(Self {
            bytes,
            draft,
            header,
            rpc,
        })
    }

    /// Returns the XID, if the message is long enough.
    pub(super) fn xid(&self) -> Option<u32> {
        Bytes(self.bytes).u32()
    }

    /// Returns true for a call or a part of it, and false for a reply.
    pub(super) fn is_call(&self) -> Option<bool> {
        let direction = match self.header.as_ref()?.body {
            HeaderBody::Message { direction, .. } | HeaderBody::Operation { direction, .. } => {
                Some(direction)
            }
            HeaderBody::Long { direction, .. } => direction,
            HeaderBody::Error(_) => Some(MsgType::Reply),
        };
        direction.map(|direction| direction == MsgType::Call)
    }

    /// Returns the message as one line of text.
    pub(super) fn text(&self) -> String {
        let dump = Dump::new(self.bytes).with_properties(self.draft);
        if self.header.is_some() {
            dump.to_string()
        } else {
            format!("malformed message of {} bytes: {dump}", self.bytes.len())
        }
    }

    /// Adds the fields of the message to an event.
    pub(super) fn add_to(&self, event: &mut serde_json::Map<String, Value>) {
        event.insert("xid".to_owned(), self.xid().into());
        match &self.header {
            Some(header) => self.add_header(header, event),
            None => {
                let why = Dump::new(self.bytes).to_string();
                event.insert("malformed".to_owned(), why.into());
            }
        }
        event.insert("length".to_owned(), self.bytes.len().into());
        event.insert("message".to_owned(), hexadecimal(self.bytes).into());
    }

    fn add_header(&self, header: &Header<'_>, event: &mut serde_json::Map<String, Value>) {
        let direction = self
            .is_call()
            .map(|call| if call { "call" } else { "reply" });
        event.insert(
            "version".to_owned(),
            if header.version == Version::One { 1 } else { 2 }.into(),
        );
        event.insert("type".to_owned(), self.kind().into());
        event.insert("direction".to_owned(), direction.into());
        event.insert("credits".to_owned(), header.credits.into());
        match header.body {
            HeaderBody::Message {
                chunks, payload, ..
            } => {
                add_chunks(&chunks, event);
                event.insert("inline".to_owned(), payload.len().into());
            }
            HeaderBody::Long { chunks, .. } => add_chunks(&chunks, event),
            HeaderBody::Operation { code, payload, .. } => {
                event.insert("operation".to_owned(), code.into());
                event.insert("inline".to_owned(), payload.len().into());
            }
            HeaderBody::Error(_) => {
                event.insert("error".to_owned(), self.text().into());
            }
        }
    }

    /// Returns the name of the message's type: the first word of its text.
    fn kind(&self) -> String {
        let text = self.text();
        text.split(' ')
            .next()
            .unwrap_or_default()
            .trim_end_matches(':')
            .to_owned()
    }
}

fn add_chunks(chunks: &Chunks<'_>, event: &mut serde_json::Map<String, Value>) {
    let reads = chunks.reads();
    let reads: Vec<Value> = reads
        .iter()
        .map(|read| {
            let mut value = segment(&read.target);
            value["position"] = read.position.into();
            value
        })
        .collect();
    let writes: Vec<Value> = chunks.writes(&ALL).map(write_chunk).collect();
    let reply = chunks.reply(&ALL).transpose().map(write_chunk);
    event.insert("reads".to_owned(), reads.into());
    event.insert("writes".to_owned(), writes.into());
    event.insert("reply".to_owned(), reply.into());
}

/// Returns the segments of a chunk, or the reason why it is invalid.
fn write_chunk(chunk: Result<WriteChunk<'_>, ChunkError>) -> Value {
    match chunk {
        Ok(chunk) => chunk.segments().map(|one| segment(&one)).collect(),
        Err(error) => json!({ "invalid": error.to_string() }),
    }
}

fn segment(segment: &Segment) -> Value {
    let Segment {
        handle,
        length,
        offset,
    } = *segment;
    json!({ "handle": handle, "length": length, "offset": offset })
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_beyond_the_address_space_has_the_reason() {
        // A call of Version One with a Reply chunk of one segment.
        let words = [7, 1, 32, 0, 0, 0, 1, 1, 9, 8, u32::MAX, u32::MAX, 7, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let header = Header::parse(&bytes, Version::Two).expect("a header");
        let HeaderBody::Message { chunks, .. } = &header.body else {
            panic!("{header:?}")
        };
        let mut event = serde_json::Map::new();
        add_chunks(chunks, &mut event);
        let invalid = json!({ "invalid": "a segment ends beyond the address space" });
        assert_eq!(event["reply"], invalid);
        assert_eq!(event["writes"], json!([]));
    }
}
