//! Prints the connections, messages and losses of a capture, in the order of the capture.
//!
//! The events and fields of the JSON are for programs: `tests/wireshark.rs` reads them. `frame`
//! must be called before the events of a frame, since it sets their time. The stored calls name the
//! procedures of replies, and `capture` finds by `has_call` which connection a reply belongs to.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use rpcrdma_proto::connection::Properties;
use serde_json::{Value, json};

use super::file::Frame;
use super::message::Message;
use super::packet;
use super::rpc::{RpcCall, RpcHeader};
use crate::output::OutputError;

/// The maximum calls of all connections that are stored, to name the procedures of their replies.
const MAX_CALLS: usize = 1 << 16;

/// The sending end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Sender {
    Client,
    Server,
}

impl Sender {
    /// Returns the sender on a side of a connection whose client is on the side `client`.
    pub(super) const fn of_side(side: usize, client: usize) -> Self {
        if side == client {
            Self::Client
        } else {
            Self::Server
        }
    }

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    const fn arrow(self) -> &'static str {
        match self {
            Self::Client => "client ---->",
            Self::Server => "<---- server",
        }
    }
}

/// The number of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ConnectionNumber(pub(super) usize);

/// Prints events while the capture is read.
pub(super) struct Report<W> {
    out: W,
    json: bool,
    draft: Properties,
    began: Option<Duration>,
    now: Duration,
    connections: usize,
    messages: u64,
    others: u64,
    losses: u64,
    frames: u64,
    truncated: u64,
    fragments: u64,
    /// The number of frames of each link type that is not supported.
    unsupported: BTreeMap<i32, u64>,
    /// Whether the capture has more concurrent connections than are tracked.
    overflown: bool,
    calls: BTreeMap<(ConnectionNumber, Sender, u32), RpcCall>,
}

impl<W: Write> Report<W> {
    pub(super) const fn new(out: W, json: bool, draft: Properties) -> Self {
        Self {
            out,
            json,
            draft,
            began: None,
            now: Duration::ZERO,
            connections: 0,
            messages: 0,
            others: 0,
            losses: 0,
            frames: 0,
            truncated: 0,
            fragments: 0,
            unsupported: BTreeMap::new(),
            overflown: false,
            calls: BTreeMap::new(),
        }
    }

    /// Counts a frame, and sets the time of the following events.
    pub(super) fn frame(&mut self, frame: &Frame<'_>) {
        // A frame without a time has that of the frame before it.
        if let Some(time) = frame.time {
            let began = *self.began.get_or_insert(time);
            self.now = time.saturating_sub(began);
        }
        self.frames += 1;
        self.truncated += u64::from(frame.is_truncated());
        if !packet::is_supported(frame.link) {
            *self.unsupported.entry(frame.link.0).or_default() += 1;
        }
    }

    /// Counts a fragment, which is not decoded.
    pub(super) const fn fragment(&mut self) {
        self.fragments += 1;
    }

    /// Returns a link type that is not supported, if no frame has another one.
    pub(super) fn only_unsupported(&self) -> Option<i32> {
        let (link, _) = self.unsupported.first_key_value()?;
        let count: u64 = self.unsupported.values().sum();
        (count == self.frames).then_some(*link)
    }

    /// Parses a Send as a message, on a connection with or without `seen` messages.
    pub(super) fn parse<'a>(&mut self, bytes: &'a [u8], seen: bool) -> Option<Message<'a>> {
        let message = Message::parse(bytes, self.draft, seen);
        self.others += u64::from(message.is_none());
        message
    }

    /// Returns true if a call of `sender` with this XID is outstanding.
    pub(super) fn has_call(&self, of: ConnectionNumber, sender: Sender, xid: u32) -> bool {
        self.calls.contains_key(&(of, sender, xid))
    }

    /// Records that a connection is not tracked, because there are too many.
    pub(super) const fn overflow(&mut self) {
        self.overflown = true;
    }

    /// Announces a connection.
    pub(super) fn connection(
        &mut self,
        over: &str,
        client: &str,
        server: &str,
    ) -> Result<ConnectionNumber, OutputError> {
        self.connections += 1;
        let number = self.connections;
        if self.json {
            let event = json!({
                "event": "connection", "connection": number, "over": over,
                "client": client, "server": server, "time": self.now.as_secs_f64(),
            });
            writeln!(self.out, "{event}")?;
        } else {
            writeln!(
                self.out,
                "connection {number}: client {client}, server {server}, {over}"
            )?;
        }
        Ok(ConnectionNumber(number))
    }

    /// Prints a message that was received in this number of packets or segments.
    pub(super) fn message(
        &mut self,
        of: ConnectionNumber,
        from: Sender,
        message: &Message<'_>,
        packets: usize,
    ) -> Result<(), OutputError> {
        self.messages += 1;
        let rpc = self.rpc(of, from, message);
        if self.json {
            let mut event = self.event("message", of, from);
            event.insert("packets".to_owned(), packets.into());
            message.add_to(&mut event);
            let rpc = rpc.map(|(_, json)| json);
            event.insert("rpc".to_owned(), rpc.unwrap_or(Value::Null));
            writeln!(self.out, "{}", Value::Object(event))?;
        } else {
            let rpc = rpc.map(|(text, _)| format!("; {text}")).unwrap_or_default();
            let packets = match packets {
                1 => String::new(),
                count => format!(", in {count} packets"),
            };
            let begin = self.begin(of, from);
            writeln!(self.out, "{begin}  {}{rpc}{packets}", message.text())?;
        }
        Ok(())
    }

    /// Prints that data are missing in the capture.
    pub(super) fn lost(
        &mut self,
        of: ConnectionNumber,
        from: Sender,
        what: &str,
    ) -> Result<(), OutputError> {
        self.losses += 1;
        if self.json {
            let mut event = self.event("lost", of, from);
            event.insert("what".to_owned(), what.into());
            writeln!(self.out, "{}", Value::Object(event))?;
        } else {
            let begin = self.begin(of, from);
            writeln!(self.out, "{begin}  NOT IN THE CAPTURE: {what}")?;
        }
        Ok(())
    }

    /// Prints the counts, and the damage of the file.
    pub(super) fn finish(&mut self, damage: Option<&str>) -> Result<(), OutputError> {
        if self.json {
            let event = json!({
                "event": "summary", "messages": self.messages, "connections": self.connections,
                "losses": self.losses, "other_sends": self.others, "damage": damage,
                "truncated": self.truncated, "fragments": self.fragments,
                "unsupported": self.unsupported, "overflown": self.overflown,
            });
            writeln!(self.out, "{event}")?;
            return Ok(());
        }
        let text = self.counts();
        writeln!(self.out, "{text}")?;
        if self.truncated > 0 {
            let text = counted(self.truncated, "frame was", "frames were");
            writeln!(self.out, "{text} not captured to the end")?;
        }
        if self.fragments > 0 {
            let (one, many) = (
                "fragment of an IP packet was",
                "fragments of IP packets were",
            );
            let text = counted(self.fragments, one, many);
            writeln!(self.out, "{text} not decoded")?;
        }
        for (link, count) in &self.unsupported {
            let text = counted(*count, "frame has", "frames have");
            writeln!(
                self.out,
                "{text} the link type {link}, which is not supported"
            )?;
        }
        if self.overflown {
            let text = "there are more connections at once than are followed";
            writeln!(self.out, "{text}: some were not decoded")?;
        }
        if let Some(damage) = damage {
            writeln!(self.out, "{damage}")?;
        }
        Ok(())
    }

    /// Returns the numbers of messages, connections and losses.
    fn counts(&self) -> String {
        let mut text = counted(self.messages, "message", "messages");
        text += " of ";
        text += &counted(self.connections as u64, "connection", "connections");
        if self.losses > 0 {
            text += ", ";
            text += &counted(self.losses, "loss", "losses");
        }
        if self.others > 0 {
            let (one, many) = ("Send of another protocol", "Sends of other protocols");
            text += ", ";
            text += &counted(self.others, one, many);
        }
        text
    }

    fn begin(&self, ConnectionNumber(number): ConnectionNumber, from: Sender) -> String {
        let (seconds, micros) = (self.now.as_secs(), self.now.subsec_micros());
        format!("{seconds:>4}.{micros:06}  #{number} {}", from.arrow())
    }

    fn event(
        &self,
        name: &str,
        ConnectionNumber(number): ConnectionNumber,
        from: Sender,
    ) -> serde_json::Map<String, Value> {
        let mut event = serde_json::Map::new();
        event.insert("event".to_owned(), name.into());
        event.insert("time".to_owned(), self.now.as_secs_f64().into());
        event.insert("connection".to_owned(), number.into());
        event.insert("from".to_owned(), from.name().into());
        event
    }

    /// Returns a description of the RPC message. A reply has the procedure of its call.
    fn rpc(
        &mut self,
        of: ConnectionNumber,
        from: Sender,
        message: &Message<'_>,
    ) -> Option<(String, Value)> {
        let xid = message.xid()?;
        match message.rpc? {
            RpcHeader::Call(call) => {
                if self.calls.len() >= MAX_CALLS {
                    self.calls.pop_first();
                }
                self.calls.insert((of, from, xid), call);
                let RpcCall {
                    program,
                    version,
                    procedure,
                } = call;
                let json = json!({
                    "program": program, "version": version, "procedure": procedure,
                    "name": call.to_string(),
                });
                Some((call.to_string(), json))
            }
            RpcHeader::Reply(reply) => {
                let call = self.calls.remove(&(of, from.other(), xid));
                let name = call.map(|call| call.to_string());
                let json = json!({ "status": reply.name(), "name": name });
                let text = match name {
                    Some(name) => format!("{name}: {}", reply.name()),
                    None => reply.name().to_owned(),
                };
                Some((text, json))
            }
        }
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
