//! Trees for people: a line for each leaf, in columns.

use std::fmt;

use super::{Node, Reading, Value};

/// The columns of names and of types are no wider than this because of a line or two.
const WIDEST: usize = 40;

/// So many octets of an opaque are shown.
const SHOWN: usize = 16;

/// So many octets of a string are shown.
const LEGIBLE: usize = 60;

/// The offset, the name, the type and the value: of a leaf in full, but for long opaques and strings; of a union its discriminant; of a
/// sequence the number of its elements.
impl fmt::Display for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tree = Tree::default();
        tree.add(self.offset, 0, &self.ty, "", summary(&self.value));
        tree.inside(1, &self.value);
        let width = |of: fn(&Line) -> &str| {
            tree.lines.iter().map(|line| of(line).chars().count()).filter(|width| *width <= WIDEST).max().unwrap_or(0)
        };
        let (labels, types) = (width(|line| &line.label), width(|line| &line.ty));
        for line in &tree.lines {
            let Line { offset, label, ty, value } = line;
            let text = format!("{offset:>7}  {label:labels$}  {ty:types$}  {value}");
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

struct Line {
    offset: usize,
    label: String,
    ty: String,
    value: String,
}

#[derive(Default)]
struct Tree {
    lines: Vec<Line>,
}

impl Tree {
    fn add(&mut self, offset: usize, level: usize, label: &str, ty: &str, value: String) {
        self.lines.push(Line { offset, label: format!("{:1$}{label}", "", 2 * level), ty: ty.to_owned(), value });
    }

    fn node(&mut self, level: usize, label: &str, node: &Node<'_>) {
        self.add(node.offset, level, label, &node.ty, summary(&node.value));
        self.inside(level + 1, &node.value);
    }

    /// The lines below that of a value.
    fn inside(&mut self, level: usize, value: &Value<'_>) {
        match value {
            Value::Struct(fields) => fields.iter().for_each(|(name, node)| self.node(level, name, node)),
            Value::Union { content: Some((name, node)), .. } => self.node(level, name, node),
            Value::Array(nodes) | Value::List(nodes) => {
                for (at, node) in nodes.iter().enumerate() {
                    self.node(level, &format!("[{at}]"), node);
                }
            }
            // What is optional has the line of its pointer.
            Value::Optional(Some(node)) => self.inside(level, &node.value),
            Value::Overlaid { readings, .. } => {
                for reading in readings {
                    self.reading(level, reading, readings.len() > 1);
                }
            }
            _ => {}
        }
    }

    /// What an overlay makes of an opaque; of several each says whose it is.
    fn reading(&mut self, level: usize, reading: &Reading<'_>, several: bool) {
        let label = format!("as {}", reading.case);
        let whose = if several { format!("(by {})", reading.overlay) } else { String::new() };
        let with = |text: String| {
            if text.is_empty() { whose.clone() } else { format!("{text} {whose}").trim_end().to_owned() }
        };
        match &reading.content {
            Ok(Some(node)) => {
                self.add(node.offset, level, &label, &reading.ty, with(summary(&node.value)));
                self.inside(level + 1, &node.value);
            }
            // The place is that of the line above.
            Ok(None) => {
                let offset = self.lines.last().map_or(0, |line| line.offset);
                self.add(offset, level, &label, &reading.ty, with("the default value".to_owned()));
            }
            Err(error) => self.add(error.offset, level, &label, &reading.ty, with(format!("malformed: {error}"))),
        }
    }
}

/// What the line of a value says of it.
fn summary(value: &Value<'_>) -> String {
    match value {
        Value::I32(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        Value::U32(number) => unsigned(u64::from(*number)),
        Value::U64(number) => unsigned(*number),
        Value::F32(bits) => float(&f32::from_bits(*bits), f32::from_bits(*bits).is_nan(), u64::from(*bits)),
        Value::F64(bits) => float(&f64::from_bits(*bits), f64::from_bits(*bits).is_nan(), *bits),
        Value::Quadruple(octets) => groups(octets),
        Value::Bool(true) => "TRUE".to_owned(),
        Value::Bool(false) => "FALSE".to_owned(),
        Value::Enum { name, value } => format!("{name} ({value})"),
        Value::Opaque(octets) | Value::Overlaid { octets, .. } => opaque(octets),
        Value::String(octets) => string(octets),
        Value::Struct(_) => String::new(),
        Value::Union { name, discriminant, case, content } => union(name, &discriminant.value, case, content.is_none()),
        Value::Array(nodes) | Value::List(nodes) => count(nodes.len(), "element"),
        Value::Optional(None) => "absent".to_owned(),
        Value::Optional(Some(node)) => {
            let inner = summary(&node.value);
            if inner.is_empty() { "present".to_owned() } else { inner }
        }
        Value::Nothing => "no octets".to_owned(),
        Value::Nothings(number) => {
            format!("{} without octets", count(usize::try_from(*number).unwrap_or(0), "element"))
        }
    }
}

/// `1 element`
fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn unsigned(number: u64) -> String {
    if number < 10 { number.to_string() } else { format!("{number} ({number:#x})") }
}

fn float(float: &impl fmt::Debug, nan: bool, bits: u64) -> String {
    if nan { format!("NaN ({bits:#x})") } else { format!("{float:?}") }
}

/// `rdma_proc = RDMA2_MSG (0)`, with the case where it is called otherwise.
fn union(name: &str, discriminant: &Value<'_>, case: &str, void: bool) -> String {
    let which = summary(discriminant);
    let called = match discriminant {
        Value::Enum { name, .. } => *name == case,
        _ => which == case,
    };
    let case = match (called, case) {
        (true, _) => String::new(),
        (false, "default") => ", default".to_owned(),
        (false, case) => format!(", case {case}"),
    };
    format!("{name} = {which}{case}{}", if void { ", void" } else { "" })
}

/// Octets in words of four: `00000001 6162`.
fn groups(octets: &[u8]) -> String {
    let word = |word: &[u8]| word.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    octets.chunks(4).map(word).collect::<Vec<_>>().join(" ")
}

/// `00000001 6162 |....ab| 6 octets`
fn opaque(octets: &[u8]) -> String {
    if octets.is_empty() {
        return count(0, "octet");
    }
    let shown = octets.get(..SHOWN).unwrap_or(octets);
    let hint = |octet: &u8| if octet.is_ascii_graphic() || *octet == b' ' { char::from(*octet) } else { '.' };
    let hint: String = shown.iter().map(hint).collect();
    let more = if shown.len() < octets.len() { " .." } else { "" };
    format!("{}{more} |{hint}{more}| {}", groups(shown), count(octets.len(), "octet"))
}

/// A string in quotes, with escapes for what can't be shown.
fn string(octets: &[u8]) -> String {
    let mut end = octets.len().min(LEGIBLE);
    // Not within a character.
    while end < octets.len() && end > LEGIBLE - 4 && octets.get(end).is_some_and(|octet| octet & 0xc0 == 0x80) {
        end -= 1;
    }
    let shown = octets.get(..end).unwrap_or(octets);
    let mut text: String = shown
        .utf8_chunks()
        .map(|part| format!("{}{}", part.valid().escape_debug(), part.invalid().escape_ascii()))
        .collect();
    text = format!("\"{text}\"");
    if end < octets.len() { format!("{text} .. {}", count(octets.len(), "octet")) } else { text }
}
