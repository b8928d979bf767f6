//! Renders trees of decoded values as JSON.
//!
//! `xdrgen decode --format json` prints this for tools. The tools rely on the keys and values that
//! [`Node::to_json`] documents, and on the names of kinds that `Value::kind` returns. So a change
//! of either is a change for users, and also changes that documentation. The recursion here has no
//! limit of its own, since `decode` builds no tree deeper than `MAX_TREE_DEPTH`.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Node, Reading, Value};

impl Node<'_> {
    /// Renders the tree as JSON, on one line. Each node is an object with these keys:
    ///
    /// - `name`: the name of a struct's field, of a union's discriminant or of an arm's content;
    ///   absent in other nodes
    /// - `type`, `offset`, `length`: as in [`Node`]
    /// - `kind`: the kind of the value, see below
    /// - `value`: the value
    ///
    /// | `kind` | `value` | further keys |
    /// |---|---|---|
    /// | `int`, `unsigned int`, `hyper`, `unsigned hyper` | a number | |
    /// | `float`, `double` | a number, or `"NaN"`, `"inf"` or `"-inf"` | |
    /// | `quadruple` | hexadecimal digits | |
    /// | `bool` | a boolean | |
    /// | `enum` | the member's name; `"unknown"` if an open enum has no such member | `number` |
    /// | `opaque` | hexadecimal digits | `readings`, if an overlay reads it |
    /// | `string` | a string, with U+FFFD for invalid UTF-8 | `bytes`, if invalid: hexadecimal |
    /// | `struct`, `array`, `list` | an array of nodes | |
    /// | `array` of elements with an encoded size of zero | null | `count` |
    /// | `optional` | a node, or null if it is absent | |
    /// | `union` | the arm's node, or null if it is void | `case`, and `discriminant` (a node) |
    /// | `empty` | null | |
    ///
    /// `readings` is an array of objects with `overlay`, `case` and `type` as in [`Reading`], and
    /// one of `content` (a node), `default` (true) and `error` (a message).
    #[must_use]
    pub fn to_json(&self) -> String {
        // Serialization cannot fail: all keys are strings, and the `Serialize` implementations here
        // return no errors of their own.
        serde_json::to_string(&NamedNode {
            name: None,
            node: self,
        })
        .unwrap_or_default()
    }
}

/// A node with its name, if it has one.
struct NamedNode<'n> {
    name: Option<&'n str>,
    node: &'n Node<'n>,
}

impl<'n> NamedNode<'n> {
    fn nodes(nodes: &'n [Node<'n>]) -> Vec<Self> {
        nodes.iter().map(|node| Self { name: None, node }).collect()
    }
}

impl Serialize for NamedNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(name) = self.name {
            map.serialize_entry("name", name)?;
        }
        map.serialize_entry("type", &self.node.ty)?;
        map.serialize_entry("offset", &self.node.offset)?;
        map.serialize_entry("length", &self.node.length)?;
        map.serialize_entry("kind", self.node.value.kind())?;
        serialize_value(&mut map, &self.node.value)?;
        map.end()
    }
}

/// Adds the key `value`, and the further keys of its kind.
fn serialize_value<M: SerializeMap>(map: &mut M, value: &Value<'_>) -> Result<(), M::Error> {
    match value {
        Value::I32(number) => map.serialize_entry("value", number),
        Value::U32(number) => map.serialize_entry("value", number),
        Value::I64(number) => map.serialize_entry("value", number),
        Value::U64(number) => map.serialize_entry("value", number),
        Value::F32(bits) => float(
            map,
            &f32::from_bits(*bits),
            f32::from_bits(*bits).is_finite(),
        ),
        Value::F64(bits) => float(
            map,
            &f64::from_bits(*bits),
            f64::from_bits(*bits).is_finite(),
        ),
        Value::Quadruple(bytes) => map.serialize_entry("value", &hexadecimal(bytes)),
        Value::Bool(is_true) => map.serialize_entry("value", is_true),
        Value::Enum {
            name,
            value: number,
        } => {
            map.serialize_entry("value", name)?;
            map.serialize_entry("number", number)
        }
        Value::Opaque(bytes) => map.serialize_entry("value", &hexadecimal(bytes)),
        Value::TypedOpaque { bytes, readings } => {
            map.serialize_entry("value", &hexadecimal(bytes))?;
            map.serialize_entry("readings", readings)
        }
        Value::String(bytes) => string(map, bytes),
        Value::Struct(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, node)| NamedNode {
                    name: Some(name),
                    node,
                })
                .collect();
            map.serialize_entry("value", &fields)
        }
        Value::Union {
            name,
            discriminant,
            case,
            content,
        } => {
            map.serialize_entry("case", case)?;
            map.serialize_entry(
                "discriminant",
                &NamedNode {
                    name: Some(name),
                    node: discriminant,
                },
            )?;
            map.serialize_entry(
                "value",
                &content.as_ref().map(|(name, node)| NamedNode {
                    name: Some(name),
                    node,
                }),
            )
        }
        Value::Array(nodes) | Value::List(nodes) => {
            map.serialize_entry("value", &NamedNode::nodes(nodes))
        }
        Value::Optional(node) => map.serialize_entry(
            "value",
            &node.as_ref().map(|node| NamedNode { name: None, node }),
        ),
        Value::Empty => map.serialize_entry("value", &()),
        Value::EmptyArray(count) => {
            map.serialize_entry("value", &())?;
            map.serialize_entry("count", count)
        }
    }
}

fn float<M: SerializeMap>(
    map: &mut M,
    float: &(impl Serialize + ToString),
    is_finite: bool,
) -> Result<(), M::Error> {
    if is_finite {
        map.serialize_entry("value", float)
    } else {
        map.serialize_entry("value", &float.to_string())
    }
}

fn string<M: SerializeMap>(map: &mut M, bytes: &[u8]) -> Result<(), M::Error> {
    map.serialize_entry("value", &String::from_utf8_lossy(bytes))?;
    if std::str::from_utf8(bytes).is_err() {
        map.serialize_entry("bytes", &hexadecimal(bytes))?;
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
            Ok(Some(node)) => map.serialize_entry("content", &NamedNode { name: None, node })?,
            Ok(None) => map.serialize_entry("default", &true)?,
            Err(error) => map.serialize_entry("error", &error.to_string())?,
        }
        map.end()
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
