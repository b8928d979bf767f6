//! Renders trees as text for people: a line for each node, with the columns offset, name, type and
//! value.
//!
//! `xdrgen decode` prints this text, and may append a line (`show` in its `decode.rs`), which
//! relies on the line feed at the end of each line and repeats the width of the offsets. Tools read
//! JSON (`json`), so the layout may change, together with snapshots and docs/guide.md. The
//! recursion has no limit of its own: `decode` builds no tree deeper than `MAX_TREE_DEPTH`.

use std::fmt;

use super::{Node, Reading, Value};

/// The maximum width of the columns of names and types, in characters. The widest entry within this
/// maximum determines the width; a longer one is written in full and shifts the rest of its line.
const MAX_WIDTH: usize = 40;

/// The maximum number of bytes of an opaque to show.
const MAX_OPAQUE: usize = 16;

/// The maximum number of bytes of a string to show.
const MAX_STRING: usize = 60;

/// Writes a line for each node: its offset in the whole input, its name, its type and its value.
/// The root has no name: its type is in that column. A leaf is shown in full, except long opaques
/// and strings. The line of a union shows its discriminant, that of a sequence the number of its
/// elements, and that of an optional its content.
impl fmt::Display for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tree = Tree::default();
        tree.add(self.offset, 0, &self.ty, "", summary(&self.value));
        tree.add_parts(1, &self.value);
        let width = |of: fn(&Line) -> &str| {
            tree.lines
                .iter()
                .map(|line| of(line).chars().count())
                .filter(|width| *width <= MAX_WIDTH)
                .max()
                .unwrap_or(0)
        };
        let (labels, types) = (width(|line| &line.label), width(|line| &line.ty));
        for line in &tree.lines {
            let Line {
                offset,
                label,
                ty,
                value,
            } = line;
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
        self.lines.push(Line {
            offset,
            label: format!("{:1$}{label}", "", 2 * level),
            ty: ty.to_owned(),
            value,
        });
    }

    fn node(&mut self, level: usize, label: &str, node: &Node<'_>) {
        self.add(node.offset, level, label, &node.ty, summary(&node.value));
        self.add_parts(level + 1, &node.value);
    }

    /// Adds the lines of a value's parts. Values of further kinds have no parts to show: `summary`
    /// shows discriminants.
    fn add_parts(&mut self, level: usize, value: &Value<'_>) {
        match value {
            Value::Struct(fields) => fields
                .iter()
                .for_each(|(name, node)| self.node(level, name, node)),
            Value::Union {
                content: Some((name, node)),
                ..
            } => self.node(level, name, node),
            Value::Array(nodes) | Value::List(nodes) => {
                for (at, node) in nodes.iter().enumerate() {
                    self.node(level, &format!("[{at}]"), node);
                }
            }
            // The content of an optional shares the line of its pointer.
            Value::Optional(Some(node)) => self.add_parts(level, &node.value),
            Value::TypedOpaque { readings, .. } => {
                for reading in readings {
                    self.reading(level, reading, readings.len() > 1);
                }
            }
            _ => {}
        }
    }

    /// Adds the reading of an overlay. If there are several readings, each shows its overlay.
    fn reading(&mut self, level: usize, reading: &Reading<'_>, several: bool) {
        let label = format!("as {}", reading.case);
        let source = if several {
            format!("(by {})", reading.overlay)
        } else {
            String::new()
        };
        let with_source = |text: String| {
            if text.is_empty() {
                source.clone()
            } else {
                format!("{text} {source}").trim_end().to_owned()
            }
        };
        match &reading.content {
            Ok(Some(node)) => {
                self.add(
                    node.offset,
                    level,
                    &label,
                    &reading.ty,
                    with_source(summary(&node.value)),
                );
                self.add_parts(level + 1, &node.value);
            }
            // A default value has the offset of the line above.
            Ok(None) => {
                let offset = self.lines.last().map_or(0, |line| line.offset);
                self.add(
                    offset,
                    level,
                    &label,
                    &reading.ty,
                    with_source("the default value".to_owned()),
                );
            }
            Err(error) => self.add(
                error.offset,
                level,
                &label,
                &reading.ty,
                with_source(format!("malformed: {error}")),
            ),
        }
    }
}

/// Returns what the last column shows for a value.
fn summary(value: &Value<'_>) -> String {
    match value {
        Value::I32(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        Value::U32(number) => unsigned(u64::from(*number)),
        Value::U64(number) => unsigned(*number),
        Value::F32(bits) => float(
            &f32::from_bits(*bits),
            f32::from_bits(*bits).is_nan(),
            u64::from(*bits),
        ),
        Value::F64(bits) => float(
            &f64::from_bits(*bits),
            f64::from_bits(*bits).is_nan(),
            *bits,
        ),
        Value::Quadruple(bytes) => groups(bytes),
        Value::Bool(true) => "TRUE".to_owned(),
        Value::Bool(false) => "FALSE".to_owned(),
        Value::Enum { name, value } => format!("{name} ({value})"),
        Value::Opaque(bytes) | Value::TypedOpaque { bytes, .. } => opaque(bytes),
        Value::String(bytes) => string(bytes),
        Value::Struct(_) => String::new(),
        Value::Union {
            name,
            discriminant,
            case,
            content,
        } => union(name, &discriminant.value, case, content.is_none()),
        Value::Array(nodes) | Value::List(nodes) => count(nodes.len(), "element"),
        Value::Optional(None) => "absent".to_owned(),
        Value::Optional(Some(node)) => {
            let inner = summary(&node.value);
            if inner.is_empty() {
                "present".to_owned()
            } else {
                inner
            }
        }
        Value::Empty => "no bytes".to_owned(),
        Value::EmptyArray(number) => {
            format!(
                "{} without bytes",
                count(usize::try_from(*number).unwrap_or(0), "element")
            )
        }
    }
}

/// Returns a count such as `1 element`.
fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn unsigned(number: u64) -> String {
    if number < 10 {
        number.to_string()
    } else {
        format!("{number} ({number:#x})")
    }
}

fn float(float: &impl fmt::Debug, nan: bool, bits: u64) -> String {
    if nan {
        format!("NaN ({bits:#x})")
    } else {
        format!("{float:?}")
    }
}

/// Returns `rdma_proc = RDMA2_MSG (0)`, and the case if it is not written as the member's name or
/// the number.
fn union(name: &str, discriminant: &Value<'_>, case: &str, void: bool) -> String {
    let which = summary(discriminant);
    let same_name = match discriminant {
        Value::Enum { name, .. } => *name == case,
        Value::U32(number) => number.to_string() == case,
        _ => which == case,
    };
    let case = match (same_name, case) {
        (true, _) => String::new(),
        (false, "default") => ", default".to_owned(),
        (false, case) => format!(", case {case}"),
    };
    format!("{name} = {which}{case}{}", if void { ", void" } else { "" })
}

/// Formats bytes in groups of four: `00000001 6162`.
fn groups(bytes: &[u8]) -> String {
    let word = |word: &[u8]| {
        word.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    bytes.chunks(4).map(word).collect::<Vec<_>>().join(" ")
}

/// Returns `00000001 6162 |....ab| 6 bytes`.
fn opaque(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return count(0, "byte");
    }
    let shown = bytes.get(..MAX_OPAQUE).unwrap_or(bytes);
    let printable = |byte: &u8| {
        if byte.is_ascii_graphic() || *byte == b' ' {
            char::from(*byte)
        } else {
            '.'
        }
    };
    let printable: String = shown.iter().map(printable).collect();
    let more = if shown.len() < bytes.len() { " .." } else { "" };
    format!(
        "{}{more} |{printable}{more}| {}",
        groups(shown),
        count(bytes.len(), "byte")
    )
}

/// Returns a string in quotes, with escapes for unprintable characters.
fn string(bytes: &[u8]) -> String {
    let mut end = bytes.len().min(MAX_STRING);
    // Avoids a cut within a character.
    while end < bytes.len()
        && end > MAX_STRING - 4
        && bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80)
    {
        end -= 1;
    }
    let shown = bytes.get(..end).unwrap_or(bytes);
    let mut text: String = shown
        .utf8_chunks()
        .map(|part| {
            format!(
                "{}{}",
                part.valid().escape_debug(),
                part.invalid().escape_ascii()
            )
        })
        .collect();
    text = format!("\"{text}\"");
    if end < bytes.len() {
        format!("{text} .. {}", count(bytes.len(), "byte"))
    } else {
        text
    }
}
