//! Trees as JSON.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Node, Reading, Value};

impl Node<'_> {
    /// The tree as JSON, in one line. Each node is an object of
    ///
    /// - `name`: of a field of a struct or of what an arm of a union holds; others have no such key
    /// - `type`, `offset`, `length`: as in [`Node`]
    /// - `kind`: `int`, `unsigned int`, `hyper`, `unsigned hyper`, `float`, `double`, `quadruple`, `bool`, `enum`, `opaque`, `string`,
    ///   `struct`, `union`, `array`, `list`, `optional` or `nothing`
    /// - `value`: a number, a boolean, a member's name, a string (with U+FFFD for what is not UTF-8), hexadecimal digits of an opaque or
    ///   a quadruple, an array of the nodes of a struct, an array or a list, the node of an optional, or null. Floats that JSON
    ///   has no number for are `"NaN"`, `"inf"` and `"-inf"`.
    ///
    /// and, of an enum, `number`; of a string that is not UTF-8, `octets` in hexadecimal; of an array of elements without
    /// octets, `count`; of a union, `case`, `discriminant` (a node) and `value` (a node or null); and of an opaque that
    /// overlays know, `readings`: objects of `overlay`, `case`, `type`, and `content` (a node), `default` (true) or `error`.
    #[must_use]
    pub fn to_json(&self) -> String {
        // It can't fail: all keys are strings, and nothing in it serializes in a way of its own that could.
        serde_json::to_string(&Named { name: None, node: self }).unwrap_or_default()
    }
}

/// A node, with its name if it has one.
struct Named<'n> {
    name: Option<&'n str>,
    node: &'n Node<'n>,
}

impl<'n> Named<'n> {
    fn nodes(nodes: &'n [Node<'n>]) -> Vec<Self> {
        nodes.iter().map(|node| Self { name: None, node }).collect()
    }
}

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(name) = self.name {
            map.serialize_entry("name", name)?;
        }
        map.serialize_entry("type", &self.node.ty)?;
        map.serialize_entry("offset", &self.node.offset)?;
        map.serialize_entry("length", &self.node.length)?;
        map.serialize_entry("kind", self.node.value.kind())?;
        value(&mut map, &self.node.value)?;
        map.end()
    }
}

fn value<M: SerializeMap>(map: &mut M, value: &Value<'_>) -> Result<(), M::Error> {
    match value {
        Value::I32(number) => map.serialize_entry("value", number),
        Value::U32(number) => map.serialize_entry("value", number),
        Value::I64(number) => map.serialize_entry("value", number),
        Value::U64(number) => map.serialize_entry("value", number),
        Value::F32(bits) => float(map, &f32::from_bits(*bits), f32::from_bits(*bits).is_finite()),
        Value::F64(bits) => float(map, &f64::from_bits(*bits), f64::from_bits(*bits).is_finite()),
        Value::Quadruple(octets) => map.serialize_entry("value", &hexadecimal(octets)),
        Value::Bool(bool) => map.serialize_entry("value", bool),
        Value::Enum { name, value } => {
            map.serialize_entry("value", name)?;
            map.serialize_entry("number", value)
        }
        Value::Opaque(octets) => map.serialize_entry("value", &hexadecimal(octets)),
        Value::Overlaid { octets, readings } => {
            map.serialize_entry("value", &hexadecimal(octets))?;
            map.serialize_entry("readings", readings)
        }
        Value::String(octets) => string(map, octets),
        Value::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(|(name, node)| Named { name: Some(name), node }).collect();
            map.serialize_entry("value", &fields)
        }
        Value::Union { name, discriminant, case, content } => {
            map.serialize_entry("case", case)?;
            map.serialize_entry("discriminant", &Named { name: Some(name), node: discriminant })?;
            map.serialize_entry("value", &content.as_ref().map(|(name, node)| Named { name: Some(name), node }))
        }
        Value::Array(nodes) | Value::List(nodes) => map.serialize_entry("value", &Named::nodes(nodes)),
        Value::Optional(node) => map.serialize_entry("value", &node.as_ref().map(|node| Named { name: None, node })),
        Value::Nothing => map.serialize_entry("value", &()),
        Value::Nothings(count) => {
            map.serialize_entry("value", &())?;
            map.serialize_entry("count", count)
        }
    }
}

fn float<M: SerializeMap>(map: &mut M, float: &(impl Serialize + ToString), finite: bool) -> Result<(), M::Error> {
    if finite { map.serialize_entry("value", float) } else { map.serialize_entry("value", &float.to_string()) }
}

fn string<M: SerializeMap>(map: &mut M, octets: &[u8]) -> Result<(), M::Error> {
    map.serialize_entry("value", &String::from_utf8_lossy(octets))?;
    if std::str::from_utf8(octets).is_err() {
        map.serialize_entry("octets", &hexadecimal(octets))?;
    }
    Ok(())
}

impl Serialize for Reading<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("overlay", &self.overlay)?;
        map.serialize_entry("case", self.case)?;
        map.serialize_entry("type", &self.ty)?;
        match &self.content {
            Ok(Some(node)) => map.serialize_entry("content", &Named { name: None, node })?,
            Ok(None) => map.serialize_entry("default", &true)?,
            Err(error) => map.serialize_entry("error", &error.to_string())?,
        }
        map.end()
    }
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
