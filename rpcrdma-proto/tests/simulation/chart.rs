//! A run as a sequence chart: the inputs and outputs of both ends, and the messages between them,
//! decoded from their bytes.

use std::fmt::{self, Write as _};

use rpcrdma_proto::chunk::ChunkLimits;
use rpcrdma_proto::error::PeerError;
use rpcrdma_proto::header::{Chunks, Header, HeaderBody};
use rpcrdma_proto::v2::MsgType;
use rpcrdma_proto::v2::properties::{ROPT_CONNPROP, ROPT_REQPROP, ROPT_RESPROP, ROPT_UPDPROP};
use rpcrdma_proto::v2::rtr::{ROPT_REPTERR, ROPT_XMTCONT, ROPT_XMTREQ, ROPT_XMTRESP};
use rpcrdma_proto::version::Version;

use super::message::Message;
use super::script::CLIENT;

/// The events of one pair.
#[derive(Clone, Default, Debug)]
pub(crate) struct Chart {
    pair: usize,
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    at: u64,
    end: usize,
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Note,
    Message,
    /// A lost message.
    Lost,
}

/// Columns of the chart, without the time.
const WIDTH: usize = 96;

/// Lines that are printed.
const MOST: usize = 300;

impl Chart {
    pub(crate) fn new(pair: usize) -> Self {
        Self {
            pair,
            lines: Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, at: u64, pair: usize, end: usize, text: String) {
        if pair == self.pair {
            self.lines.push(Line {
                at,
                end,
                text,
                kind: Kind::Note,
            });
        }
    }

    pub(crate) fn message(
        &mut self,
        at: u64,
        pair: usize,
        end: usize,
        message: &Message,
        lost: bool,
    ) {
        if pair == self.pair {
            let kind = if lost { Kind::Lost } else { Kind::Message };
            self.lines.push(Line {
                at,
                end,
                text: describe(message),
                kind,
            });
        }
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>9}  {:<w$}{:>w$}",
            "us",
            "client",
            "server",
            w = WIDTH / 2
        )?;
        for Line {
            at,
            end,
            text,
            kind,
        } in self.lines.iter().take(MOST)
        {
            let (right, left) = if *kind == Kind::Lost {
                ('x', 'x')
            } else {
                ('>', '<')
            };
            let line = match (*kind == Kind::Note, *end == CLIENT) {
                (false, true) => format!("{:-<w$}{right}", format!("-- {text} "), w = WIDTH - 1),
                (false, false) => format!("{left}{:->w$}", format!(" {text} --"), w = WIDTH - 1),
                (true, true) => text.clone(),
                (true, false) => format!("{text:>WIDTH$}"),
            };
            writeln!(f, "{at:>9}  {}", line.trim_end())?;
        }
        if self.lines.len() > MOST {
            writeln!(f, "and {} more", self.lines.len() - MOST)
        } else {
            Ok(())
        }
    }
}

/// A message in a line.
fn describe(message: &Message) -> String {
    let header = match Header::parse(message.bytes(), Version::Two) {
        Ok(header) => header,
        Err(refusal) => return format!("{refusal}"),
    };
    let two = header.version == Version::Two;
    let (rdma, xid, credits) = (
        if two { "RDMA2" } else { "RDMA" },
        header.xid,
        header.credits,
    );
    let mut text = match header.body {
        HeaderBody::Message {
            direction,
            chunks,
            payload,
        } => {
            let bytes = payload.len();
            format!(
                "{rdma}_MSG, {} {xid:#x}, {credits} credits, {bytes} bytes{}",
                way(Some(direction)),
                lists(&chunks)
            )
        }
        HeaderBody::Long { direction, chunks } => {
            format!(
                "{rdma}_NOMSG, {} {xid:#x}, {credits} credits{}",
                way(direction),
                lists(&chunks)
            )
        }
        HeaderBody::Operation {
            direction, code, ..
        } => {
            format!(
                "{}, {} {xid:#x}, {credits} credits",
                operation(code),
                way(Some(direction))
            )
        }
        HeaderBody::Error(error) => format!("{rdma}_ERROR, {xid:#x}, {}", peer_error(error)),
    };
    for target in message.targets() {
        let _ = write!(text, ", after a Write of {}", target.length);
    }
    if message.invalidate.is_some() {
        text.push_str(", invalidates");
    }
    text
}

fn way(direction: Option<MsgType>) -> &'static str {
    match direction {
        Some(MsgType::Call) => "call",
        Some(MsgType::Reply) => "reply",
        None => "call or reply",
    }
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

fn peer_error(error: PeerError) -> String {
    match error {
        PeerError::Versions { low, high } => format!("versions {low} to {high}"),
        PeerError::Header => "bad header".to_owned(),
        PeerError::Operation => "unknown operation".to_owned(),
    }
}

/// The chunk lists, in few words.
fn lists(chunks: &Chunks<'_>) -> String {
    let mut text = String::new();
    let reads: u32 = chunks
        .reads()
        .iter()
        .map(|segment| segment.target.length)
        .sum();
    if !chunks.reads().is_empty() {
        let _ = write!(text, ", Read {reads}");
    }
    for chunk in chunks.writes(&ChunkLimits::DEFAULT).flatten() {
        let _ = write!(text, ", Write chunk {}", chunk.capacity());
    }
    if let Ok(Some(chunk)) = chunks.reply(&ChunkLimits::DEFAULT) {
        let _ = write!(text, ", Reply chunk {}", chunk.capacity());
    }
    text
}
