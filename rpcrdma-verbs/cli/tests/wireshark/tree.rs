//! The fields that a dissector shows, and the expected fields, for any schema.

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
    /// The number of notes about bytes that were not captured.
    pub(crate) truncated: usize,
    /// Notes of Wireshark itself: malformed packets of other dissectors.
    pub(crate) problems: usize,
    /// The ports of TCP: source, destination.
    pub(crate) ports: Vec<String>,
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
        .replace("&apos;", "'")
        .replace("&#x27;", "'")
        .replace("&amp;", "&")
}

/// Returns the tags of PDML, which tshark writes on one line each, but for line breaks in values.
fn tags(pdml: &str) -> impl Iterator<Item = &str> {
    pdml.split_inclusive(">\n").map(str::trim)
}

/// Parses PDML for the dissector of a protocol.
pub(crate) fn packets(pdml: &str, protocol: &str) -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut open: Vec<Element> = Vec::new();
    for line in tags(pdml) {
        if line == "<packet>" {
            open = vec![Element::default()];
        } else if line == "</packet>" {
            let packet = packet(&open.pop().unwrap(), protocol);
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
    fn lines(&self, protocol: &str, base: usize, lines: &mut Vec<Line>) {
        let own = self.name.strip_prefix(protocol);
        let own = own.and_then(|name| name.strip_prefix('.'));
        // The reading of an opaque by an overlay is not shown as a whole.
        if own != Some("message") && self.fails(protocol) {
            return;
        }
        if own.is_some_and(|name| name != "malformed") {
            let at = self.at - base;
            let show = if self.inside.is_empty() || !self.show.is_empty() {
                &self.show
            } else {
                ""
            };
            lines.push((self.name.clone(), at, self.size, show.to_owned()));
        }
        for inside in &self.inside {
            inside.lines(protocol, base, lines);
        }
    }

    /// Returns true if the reading of an overlay failed: then its note is a direct child.
    fn fails(&self, protocol: &str) -> bool {
        let unread = format!("{protocol}.unread");
        self.inside
            .iter()
            .any(|note| note.name == "_ws.expert" && !note.all(&unread).is_empty())
    }
}

/// Returns the fields of a packet, if the dissector shows any.
fn packet(root: &Element, protocol: &str) -> Option<Packet> {
    let of = |name: &str| format!("{protocol}.{name}");
    let protocols: Vec<&Element> = root.all(protocol);
    if protocols.is_empty() {
        return None;
    }
    let mut packet = Packet {
        problems: root.all("_ws.malformed").len(),
        ports: ["tcp.srcport", "tcp.dstport"]
            .iter()
            .flat_map(|name| root.all(name))
            .map(|port| port.show.clone())
            .collect(),
        ..Packet::default()
    };
    for shown in protocols {
        packet.lost += shown.all(&of("lost")).len();
        packet.truncated += shown.all(&of("truncated")).len();
        // `showname` of the note contains its text.
        if let [note] = shown.all(&of("malformed")).as_slice() {
            packet.malformed = Some(note.showname.clone());
        }
        let is_message = |inside: &&Element| inside.name == of("message");
        for message in shown.inside.iter().filter(is_message) {
            let mut lines = Vec::new();
            message.lines(protocol, message.at, &mut lines);
            packet.messages.push(lines);
        }
    }
    Some(packet)
}

/// Decodes the message of a type at the start of some bytes with the schema.
pub(crate) fn decode<'s>(
    schema: &'s Schema,
    ty: &str,
    message: &[u8],
) -> Result<Node<'s>, DecodeError> {
    let root = Type::Named(schema.find(ty).unwrap());
    value::decode_prefix(schema, &root, message, &Limits::DEFAULT)
}

/// Returns the fields of a decodable message, as the dissector of a protocol shows them.
pub(crate) fn expected(schema: &Schema, protocol: &str, message: &Node<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    Expected {
        schema,
        protocol,
        lines: &mut lines,
    }
    .node(&format!("{protocol}.message"), false, message);
    lines
}

struct Expected<'l> {
    schema: &'l Schema,
    protocol: &'l str,
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
        let (at, length, protocol) = (node.offset, node.length, self.protocol);
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
            Value::I64(number) => self.add(&leaf, at, length, number),
            Value::F32(bits) => self.add(&leaf, at, length, real(f32::from_bits(*bits).into())),
            Value::F64(bits) => self.add(&leaf, at, length, real(f64::from_bits(*bits))),
            Value::Quadruple(bytes) => self.add(&leaf, at, length, digits(bytes)),
            Value::Opaque(bytes) => {
                // The length precedes the bytes, unless it is fixed.
                let counted = length - bytes.len().next_multiple_of(4);
                self.add(&leaf, at + counted, bytes.len(), digits(bytes));
            }
            Value::String(bytes) => self.add(&leaf, at + 4, bytes.len(), text(bytes)),
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
                    self.node(&format!("{protocol}.{carrier}.{field}"), false, node);
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
                self.node(&format!("{protocol}.{carrier}.{name}"), false, discriminant);
                if let Some((content, node)) = content {
                    self.node(&format!("{protocol}.{carrier}.{content}"), false, node);
                }
            }
            Value::Array(nodes) | Value::List(nodes) => {
                parent(self);
                for node in nodes {
                    self.node(name, true, node);
                }
            }
            Value::Empty | Value::EmptyArray(_) => parent(self),
            Value::Optional(None) => {}
            Value::Optional(Some(node)) => self.node(name, element, node),
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

/// Bytes that are not text are shown as Wireshark sees fit.
pub(crate) const ANY: &str = "\u{1}";

/// Returns a string as it is shown, or [`ANY`].
fn text(bytes: &[u8]) -> String {
    let is_shown = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(is_shown) => text.to_owned(),
        _ => ANY.to_owned(),
    }
}

/// The mark of a floating-point number, of which Wireshark shows some digits. No text begins with
/// it.
pub(crate) const REAL: char = '\0';

fn real(number: f64) -> String {
    format!("{REAL}{number:e}")
}
