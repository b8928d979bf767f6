//! Renders trees as JSON.
//!
//! `xdrgen decode --format json` prints this for tools. They rely on the keys that
//! [`Node::to_json`] documents, and on the names that `Value::kind` returns: a change of either is
//! a change for users, and the doc comment changes with the code. The recursion has no limit of its
//! own: `decode` builds no tree deeper than `MAX_TREE_DEPTH`.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Node, Reading, Value};

impl Node<'_> {
    /// Renders the tree as JSON, on one line. Each node is an object with these keys:
    ///
    /// - `name`: the name of a struct's field, of a union's discriminant or of an arm's content;
    ///   absent in other nodes
    /// - `type`, `offset`, `length`: as in [`Node`]
    /// - `kind`: `int`, `unsigned int`, `hyper`, `unsigned hyper`, `float`, `double`, `quadruple`,
    ///   `bool`, `enum`, `opaque`, `string`, `struct`, `union`, `array`, `list`, `optional` or
    ///   `empty`
    /// - `value`: a number, a boolean, a member's name, a string (with U+FFFD in place of invalid
    ///   UTF-8), hexadecimal digits of an opaque or a quadruple, an array of the nodes of a struct,
    ///   an array or a list, or the node of an optional or of a union's arm. It is null for an
    ///   absent optional, a void arm, `empty`, and an `array` of elements with an encoded size of
    ///   zero. Floats without a JSON number are `"NaN"`, `"inf"` and `"-inf"`.
    ///
    /// Some kinds have further keys:
    ///
    /// - `enum`: `number`
    /// - `string`, if it is not UTF-8: `bytes`, in hexadecimal
    /// - `array` of elements with an encoded size of zero: `count`
    /// - `union`: `case`, and `discriminant` (a node)
    /// - `opaque` that an overlay reads: `readings`, objects with `overlay`, `case` and `type` as
    ///   in [`Reading`], and one of `content` (a node), `default` (true) and `error` (a message)
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

/// Writes `value` and the further keys of a kind.
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
