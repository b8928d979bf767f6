//! Transport headers, to be read by people.

mod groups;

use std::fmt;

use rpcrdma_proto::chunk::{Limits, Segment};
use rpcrdma_proto::error::PeerError;
use rpcrdma_proto::header::{Body, Chunks, Header};
use rpcrdma_proto::property::{Ability, Basic};
use rpcrdma_proto::v2::MsgType;
use rpcrdma_proto::v2::properties::{
    Connprop, Propval, ROPT_CONNPROP, ROPT_REQPROP, ROPT_RESPROP, ROPT_UPDPROP, Reqprop, Resprop, Updprop,
};
use rpcrdma_proto::v2::rtr::{ROPT_REPTERR, ROPT_XMTCONT, ROPT_XMTREQ, ROPT_XMTRESP};
use rpcrdma_proto::version::Version;
use rpcrdma_proto::xdr::Decode;

/// Shows the header of a message: one line, or with `{:#}` its chunks and properties on lines of their own.
///
/// Properties are read as xcharext-03 has them. Of xcharext-02, which has the same codes, updates and what is pending are not shown.
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
/// assert_eq!(Dump(&message).to_string(), "RDMA2_MSG call 0x00000007, 32 credits, 8 octets inline");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dump<'a>(pub &'a [u8]);

/// Whatever is offered, it is shown.
const ALL: Limits = Limits { segments: u32::MAX, octets: u32::MAX };

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = match Header::parse(self.0, Version::Two) {
            Ok(header) => header,
            Err(refusal) => return refusal.fmt(f),
        };
        let Header { xid, version, credits, body } = header;
        let name = |one: &'static str, two: &'static str| if version == Version::One { one } else { two };
        match body {
            Body::Message { direction, chunks, payload } => {
                let (name, direction) = (name("RDMA_MSG", "RDMA2_MSG"), word(direction));
                write!(f, "{name} {direction} {xid:#010x}, {credits} credits, {} octets inline", payload.len())?;
                show(&chunks, f)
            }
            Body::Long { direction, chunks } => {
                let direction = direction.map_or("message", word);
                write!(f, "{} {direction} {xid:#010x}, {credits} credits", name("RDMA_NOMSG", "RDMA2_NOMSG"))?;
                show(&chunks, f)
            }
            Body::Operation { direction, code, info, payload } => {
                write!(f, "{} {} {xid:#010x}, {credits} credits", operation(code), word(direction))?;
                properties(code, info, f)?;
                if payload.is_empty() { Ok(()) } else { write!(f, ", {} octets inline", payload.len()) }
            }
            Body::Error(error) => {
                write!(f, "{} {xid:#010x}: ", name("RDMA_ERROR", "RDMA2_ERROR"))?;
                match error {
                    PeerError::Versions { low, high } => write!(f, "versions {low} to {high} are spoken"),
                    PeerError::Header => f.write_str(name("ERR_CHUNK", "bad header")),
                    PeerError::Operation => f.write_str("the operation is not known"),
                }
            }
        }
    }
}

fn word(direction: MsgType) -> &'static str {
    if direction == MsgType::Call { "call" } else { "reply" }
}

fn operation(code: u32) -> String {
    match code {
        ROPT_CONNPROP => "ROPT_CONNPROP".to_owned(),
        ROPT_REQPROP => "ROPT_REQPROP".to_owned(),
        ROPT_RESPROP => "ROPT_RESPROP".to_owned(),
        ROPT_UPDPROP => "ROPT_UPDPROP".to_owned(),
        ROPT_XMTREQ => "ROPT_XMTREQ".to_owned(),
        ROPT_XMTRESP => "ROPT_XMTRESP".to_owned(),
        ROPT_XMTCONT => "ROPT_XMTCONT".to_owned(),
        ROPT_REPTERR => "ROPT_REPTERR".to_owned(),
        other => format!("operation {other}"),
    }
}

fn show(chunks: &Chunks<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for read in chunks.reads().iter() {
        separate(f)?;
        write!(f, "Read at {} of ", read.position)?;
        segment(&read.target, f)?;
    }
    for chunk in chunks.writes(&ALL).flatten() {
        separate(f)?;
        f.write_str("Write chunk of")?;
        for one in chunk.segments() {
            f.write_str(" ")?;
            segment(&one, f)?;
        }
    }
    if let Ok(Some(chunk)) = chunks.reply(&ALL) {
        separate(f)?;
        f.write_str("Reply chunk of")?;
        for one in chunk.segments() {
            f.write_str(" ")?;
            segment(&one, f)?;
        }
    }
    Ok(())
}

fn separate(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(if f.alternate() { "\n    " } else { ", " })
}

fn segment(segment: &Segment, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Segment { handle, length, offset } = segment;
    if f.alternate() {
        write!(f, "{length} octets at {offset:#x} by key {handle:#010x}")
    } else {
        write!(f, "{length}")
    }
}

fn properties(code: u32, info: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match code {
        ROPT_CONNPROP => Connprop::from_bytes(info).map_or(Ok(()), |told| values("", told.start.iter(), f)),
        ROPT_REQPROP => Reqprop::from_bytes(info).map_or(Ok(()), |asked| values("", asked.want.iter(), f)),
        ROPT_UPDPROP => Updprop::from_bytes(info).map_or(Ok(()), |told| values("", told.now.iter(), f)),
        ROPT_RESPROP => Resprop::from_bytes(info).map_or(Ok(()), |answer| {
            subset("done", answer.done.iter(), f)?;
            subset("rejected", answer.rej.iter(), f)?;
            values("instead ", answer.other.iter(), f)
        }),
        _ => groups::show(code, info, f),
    }
}

fn values<'a>(what: &str, values: impl Iterator<Item = Propval<'a>>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for value in values {
        separate(f)?;
        match Basic::of(&value) {
            Ok(Some(Basic::ReceiveBufferSize(size))) => write!(f, "{what}receive buffers of {size} octets")?,
            Ok(Some(Basic::RemoteInvalidation(on))) => {
                write!(f, "{what}remote invalidation {}", if on { "wanted" } else { "not wanted" })?;
            }
            Ok(Some(Basic::BackwardSupport(support))) => write!(f, "{what}backward calls {support}")?,
            Ok(None) => match Ability::of(&value) {
                Ok(Some(ability)) => groups::ability(what, &ability, f)?,
                _ => write!(f, "{what}property {} of {} octets", value.which, value.data.len())?,
            },
            Err(error) => write!(f, "{what}property {}: {error}", value.which)?,
        }
    }
    Ok(())
}

fn subset(what: &str, words: impl Iterator<Item = u32>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, word) in words.enumerate().filter(|(_, word)| *word != 0) {
        separate(f)?;
        write!(f, "{what}")?;
        for bit in (0..32).filter(|bit| word >> bit & 1 == 1) {
            write!(f, " {}", 32 * at + bit)?;
        }
    }
    Ok(())
}
