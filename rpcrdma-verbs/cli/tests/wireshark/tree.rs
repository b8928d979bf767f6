//! The fields that a dissector shows, and the expected fields.

use xdrgen_build::Schema;
use xdrgen_build::ir::{Type, TypeDefKind};
use xdrgen_build::value::{self, DecodeError, Limits, Node, Value};

/// A field: name, offset in the message, length and value.
pub(crate) type Line = (String, usize, usize, String);

/// A packet with content of the dissector.
#[derive(Default, Debug)]
pub(crate) struct Packet {
    /// The fields of each message, without those of failed readings.
    pub(crate) messages: Vec<Vec<Line>>,
    /// The error of a malformed message.
    pub(crate) malformed: Option<String>,
    /// The number of notes about missing packets.
    pub(crate) lost: usize,
    /// Notes of Wireshark itself: malformed packets of other dissectors.
    pub(crate) problems: usize,
}

/// A PDML element.
#[derive(Default, Debug)]
struct Element {
    name: String,
    showname: String,
    at: usize,
    size: usize,
    show: String,
    inside: Vec<Element>,
}

fn attribute(line: &str, name: &str) -> String {
    let begin = format!(" {name}=\"");
    let value = line
        .split_once(&begin)
        .and_then(|(_, rest)| rest.split_once('"'));
    let value = value.map_or("", |(value, _)| value);
    value
        .replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// Parses PDML, in which tshark writes each element on one line.
pub(crate) fn packets(pdml: &str) -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut open: Vec<Element> = Vec::new();
    for line in pdml.lines().map(str::trim) {
        if line == "<packet>" {
            open = vec![Element::default()];
        } else if line == "</packet>" {
            let packet = packet(&open.pop().unwrap());
            packets.extend(packet);
        } else if line.starts_with("<field ") || line.starts_with("<proto ") {
            let number = |name| attribute(line, name).parse().unwrap_or(0);
            open.push(Element {
                name: attribute(line, "name"),
                showname: attribute(line, "showname"),
                at: number("pos"),
                size: number("size"),
                show: attribute(line, "show"),
                inside: Vec::new(),
            });
            if line.ends_with("/>") {
                close(&mut open);
            }
        } else if line.starts_with("</field") || line.starts_with("</proto") {
            close(&mut open);
        }
    }
    packets
}

fn close(open: &mut Vec<Element>) {
    let done = open.pop().unwrap();
    open.last_mut().unwrap().inside.push(done);
}

impl Element {
    fn find<'e>(&'e self, name: &str, found: &mut Vec<&'e Element>) {
        if self.name == name {
            found.push(self);
        }
        for inside in &self.inside {
            inside.find(name, found);
        }
    }

    fn all(&self, name: &str) -> Vec<&Element> {
        let mut found = Vec::new();
        self.find(name, &mut found);
        found
    }

    /// Adds the fields of a message whose first byte is at `base`.
    fn lines(&self, base: usize, lines: &mut Vec<Line>) {
        // The reading of an opaque by an overlay is not shown as a whole.
        if self.name != "rpcrdma2.message" && self.fails() {
            return;
        }
        if self.name.starts_with("rpcrdma2.") && self.name != "rpcrdma2.malformed" {
            let at = self.at - base;
            let show = if self.inside.is_empty() || !self.show.is_empty() {
                &self.show
            } else {
                ""
            };
            lines.push((self.name.clone(), at, self.size, show.to_owned()));
        }
        for inside in &self.inside {
            inside.lines(base, lines);
        }
    }

    /// Returns true if the reading of an overlay failed: then its note is a direct child.
    fn fails(&self) -> bool {
        self.inside
            .iter()
            .any(|note| note.name == "_ws.expert" && !note.all("rpcrdma2.unread").is_empty())
    }
}

/// Returns the fields of a packet, if the dissector shows any.
fn packet(root: &Element) -> Option<Packet> {
    let protocols: Vec<&Element> = root.all("rpcrdma2");
    if protocols.is_empty() {
        return None;
    }
    let mut packet = Packet {
        problems: root.all("_ws.malformed").len(),
        ..Packet::default()
    };
    for protocol in protocols {
        packet.lost += protocol.all("rpcrdma2.lost").len();
        // `showname` of the note contains its text.
        if let [note] = protocol.all("rpcrdma2.malformed").as_slice() {
            packet.malformed = Some(note.showname.clone());
        }
        for message in protocol
            .inside
            .iter()
            .filter(|inside| inside.name == "rpcrdma2.message")
        {
            let mut lines = Vec::new();
            message.lines(message.at, &mut lines);
            packet.messages.push(lines);
        }
    }
    Some(packet)
}

/// Decodes the header of a message with the schema.
pub(crate) fn decode<'s>(schema: &'s Schema, message: &[u8]) -> Result<Node<'s>, DecodeError> {
    let root = Type::Named(schema.find("rpcrdma2_xprt_hdr").unwrap());
    value::decode_prefix(schema, &root, message, &Limits::DEFAULT)
}

/// Returns the fields of a decodable message.
pub(crate) fn expected(schema: &Schema, message: &[u8]) -> Vec<Line> {
    let node = decode(schema, message).unwrap();
    let mut lines = Vec::new();
    Expected {
        schema,
        lines: &mut lines,
    }
    .node("rpcrdma2.message", false, &node);
    lines
}

struct Expected<'l> {
    schema: &'l Schema,
    lines: &'l mut Vec<Line>,
}

impl Expected<'_> {
    fn add(&mut self, name: &str, at: usize, length: usize, show: impl ToString) {
        self.lines
            .push((name.to_owned(), at, length, show.to_string()));
    }

    /// Adds a value. Elements of sequences have the name `item` if they have no fields, and no name
    /// otherwise.
    fn node(&mut self, name: &str, element: bool, node: &Node<'_>) {
        let (at, length) = (node.offset, node.length);
        let leaf = if element {
            format!("{name}.item")
        } else {
            name.to_owned()
        };
        let parent = |this: &mut Self| {
            if !element {
                this.add(name, at, length, "");
            }
        };
        match &node.value {
            Value::U32(number) => self.add(&leaf, at, length, number),
            Value::U64(number) => self.add(&leaf, at, length, number),
            Value::I32(number) => self.add(&leaf, at, length, number),
            Value::Bool(value) => self.add(&leaf, at, length, u8::from(*value)),
            Value::Enum { value, .. } => self.add(&leaf, at, length, value),
            Value::Opaque(bytes) => self.add(&leaf, at + 4, bytes.len(), digits(bytes)),
            Value::TypedOpaque { bytes, readings } => {
                self.add(&leaf, at + 4, bytes.len(), digits(bytes));
                let carrier = name.rsplit_once('.').unwrap().0;
                for reading in readings {
                    if let Ok(Some(content)) = &reading.content {
                        self.node(&format!("{carrier}.{}", reading.case), false, content);
                    }
                }
            }
            Value::Struct(fields) => {
                parent(self);
                let carrier = self.definition(&node.ty);
                for (field, node) in fields {
                    self.node(&format!("rpcrdma2.{carrier}.{field}"), false, node);
                }
            }
            Value::Union {
                name,
                discriminant,
                content,
                ..
            } => {
                parent(self);
                let carrier = self.definition(&node.ty);
                self.node(&format!("rpcrdma2.{carrier}.{name}"), false, discriminant);
                if let Some((content, node)) = content {
                    self.node(&format!("rpcrdma2.{carrier}.{content}"), false, node);
                }
            }
            Value::Array(nodes) | Value::List(nodes) => {
                parent(self);
                for node in nodes {
                    self.node(name, true, node);
                }
            }
            Value::Optional(None) => {}
            Value::Optional(Some(node)) => self.node(name, element, node),
            other => panic!("the drafts have no {other:?}"),
        }
    }

    /// Returns the name of the struct or union behind a typedef.
    fn definition(&self, ty: &str) -> String {
        let named = Type::Named(self.schema.find(ty).unwrap());
        let Type::Named(id) = self.schema.resolve(&named) else {
            panic!("{ty} has no parts");
        };
        let definition = self.schema.ty(*id);
        assert!(!matches!(definition.kind, TypeDefKind::Alias(_)));
        definition.name.clone()
    }
}

fn digits(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(":")
}
