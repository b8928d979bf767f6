//! Encodes trees (RFC 4506) and checks them against the schema. A caller may have built the tree,
//! so that each part is checked, also against bounds and members. A tree that `decode` returns must
//! encode to its bytes. `MAX_TREE_DEPTH` bounds the recursion.

use std::fmt;

use super::path::{Path, Step};
use super::{MAX_TREE_DEPTH, Node, Value, is_empty, name_of};
use crate::ir::{Content, Discriminant, Enum, Field, Primitive, Schema, Type, TypeDefKind, Union};

/// Encodes a tree as a value of `ty`: the inverse of [`decode`](super::decode). The caller may have
/// built or changed the tree. The encoder ignores descriptive parts: offsets, lengths, names of
/// types, members and cases, and the readings of overlays.
///
/// # Errors
/// Returns the first part of the tree that is not a value of its type.
pub fn encode(schema: &Schema, ty: &Type, node: &Node<'_>) -> Result<Vec<u8>, EncodeError> {
    let mut encoder = Encoder {
        schema,
        bytes: Vec::new(),
        tree_depth: 0,
        path: Path::default(),
    };
    match encoder.node(ty, node) {
        Ok(()) => Ok(encoder.bytes),
        Err(kind) => Err(EncodeError {
            kind,
            path: encoder.path.to_string(),
        }),
    }
}

/// The error for a tree that is not a value of the type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// The kind of error.
    pub kind: EncodeErrorKind,
    /// The path of the field or element, as in [`DecodeError`](super::DecodeError). Empty for the
    /// whole value.
    pub path: String,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for EncodeError {}

/// The kinds of [`EncodeError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// The kind of value differs from the type's.
    Mismatch {
        /// The type in XDR syntax.
        expected: String,
        /// The kind of the value.
        found: &'static str,
    },
    /// The name of a field differs from the struct's next field, or the content from that of the
    /// arm; `None` is no field or content.
    WrongField {
        /// The name in the schema.
        expected: Option<String>,
        /// The name in the tree.
        found: Option<String>,
    },
    /// The number is not a member of the enum.
    NotAMember(i32),
    /// The union has no arm for the discriminant, shown as its encoded 32 bits.
    NoArm(u32),
    /// The number of bytes or elements differs from the fixed length.
    WrongLength {
        /// The required number.
        expected: u32,
        /// The number in the tree.
        found: usize,
    },
    /// The number of bytes or elements exceeds the bound.
    TooLong {
        /// The bound.
        max: u32,
        /// The number in the tree.
        found: usize,
    },
    /// The tree is deeper than [`MAX_TREE_DEPTH`].
    TooDeep,
}

impl fmt::Display for EncodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = |name: &Option<String>| {
            name.as_ref()
                .map_or("nothing".to_owned(), |name| format!("`{name}`"))
        };
        match self {
            Self::Mismatch { expected, found } => {
                write!(f, "expected `{expected}`, found `{found}`")
            }
            Self::WrongField { expected, found } => {
                write!(f, "expected {}, found {}", field(expected), field(found))
            }
            Self::NotAMember(value) => write!(f, "{value} is not a member of the enumeration"),
            Self::NoArm(bits) => write!(f, "discriminant {bits} without an arm"),
            Self::WrongLength { expected, found } => write!(f, "length {found} is not {expected}"),
            Self::TooLong { max, found } => write!(f, "length {found} exceeds the bound {max}"),
            Self::TooDeep => f.write_str("the tree is too deep"),
        }
    }
}

type Result<T, E = EncodeErrorKind> = std::result::Result<T, E>;

struct Encoder<'s> {
    schema: &'s Schema,
    bytes: Vec<u8>,
    /// The number of enclosing nodes.
    tree_depth: usize,
    path: Path<'s>,
}

/// Primitive items.
impl Encoder<'_> {
    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_be_bytes());
    }

    /// Encodes a count of bytes or elements.
    fn length(&mut self, found: usize, max: Option<u32>) -> Result<()> {
        let max = max.unwrap_or(u32::MAX);
        let length = u32::try_from(found).ok().filter(|length| *length <= max);
        self.word(length.ok_or(EncodeErrorKind::TooLong { max, found })?);
        Ok(())
    }

    /// Encodes bytes and their padding (RFC 4506, section 3).
    fn padded(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let padding = bytes.len().next_multiple_of(4) - bytes.len();
        self.bytes.extend(std::iter::repeat_n(0, padding));
    }
}

/// Types.
impl<'s> Encoder<'s> {
    fn node(&mut self, ty: &Type, node: &Node<'_>) -> Result<()> {
        if self.tree_depth == MAX_TREE_DEPTH {
            return Err(EncodeErrorKind::TooDeep);
        }
        self.tree_depth += 1;
        self.value(ty, &node.value)?;
        self.tree_depth -= 1;
        Ok(())
    }

    fn value(&mut self, ty: &Type, value: &Value<'_>) -> Result<()> {
        match (self.schema.resolve(ty), value) {
            (_, Value::Empty) if is_empty(self.schema, ty) => Ok(()),
            (Type::Primitive(primitive), value) => self.primitive(*primitive, value),
            (Type::FixedOpaque(length), Value::Opaque(bytes)) => {
                check_length(*length, bytes.len())?;
                self.padded(bytes);
                Ok(())
            }
            (Type::Opaque(max), Value::Opaque(bytes) | Value::TypedOpaque { bytes, .. })
            | (Type::String(max), Value::String(bytes)) => {
                self.length(bytes.len(), *max)?;
                self.padded(bytes);
                Ok(())
            }
            (Type::Item(content) | Type::Nested(content), value) => self.value(content, value),
            (Type::Fixed(element, length), Value::Array(nodes)) => {
                check_length(*length, nodes.len())?;
                self.elements(element, nodes, false)
            }
            (Type::Array(element, max), Value::Array(nodes)) => {
                self.length(nodes.len(), *max)?;
                self.elements(element, nodes, false)
            }
            (Type::Array(element, max), Value::EmptyArray(count))
                if is_empty(self.schema, element) =>
            {
                self.length(usize::try_from(*count).unwrap_or(usize::MAX), *max)
            }
            (Type::List(element), Value::List(nodes)) => {
                self.elements(element, nodes, true)?;
                self.word(0);
                Ok(())
            }
            (Type::Optional(element), Value::Optional(node)) => {
                self.optional(element, node.as_deref())
            }
            (Type::Recursive(id), Value::Optional(node)) => {
                self.optional(&Type::Named(*id), node.as_deref())
            }
            (Type::Named(id), value) if self.schema.ty(*id).external.is_some() => {
                Err(self.mismatch(ty, value))
            }
            (Type::Named(id), value) => self.defined(&self.schema.ty(*id).kind, ty, value),
            (_, value) => Err(self.mismatch(ty, value)),
        }
    }

    fn mismatch(&self, ty: &Type, value: &Value<'_>) -> EncodeErrorKind {
        EncodeErrorKind::Mismatch {
            expected: name_of(self.schema, ty).into_owned(),
            found: value.kind(),
        }
    }

    fn part(&mut self, step: Step<'s>, ty: &Type, node: &Node<'_>) -> Result<()> {
        self.path.enter(step);
        self.node(ty, node)?;
        self.path.leave();
        Ok(())
    }

    fn primitive(&mut self, primitive: Primitive, value: &Value<'_>) -> Result<()> {
        match (primitive, value) {
            (Primitive::I32, Value::I32(number)) => self.bytes.extend(number.to_be_bytes()),
            (Primitive::U32, Value::U32(number)) => self.bytes.extend(number.to_be_bytes()),
            (Primitive::I64, Value::I64(number)) => self.bytes.extend(number.to_be_bytes()),
            (Primitive::U64, Value::U64(number)) => self.bytes.extend(number.to_be_bytes()),
            (Primitive::F32, Value::F32(bits)) => self.bytes.extend(bits.to_be_bytes()),
            (Primitive::F64, Value::F64(bits)) => self.bytes.extend(bits.to_be_bytes()),
            (Primitive::Quadruple, Value::Quadruple(bytes)) => self.bytes.extend(bytes),
            (Primitive::Bool, Value::Bool(bool)) => self.word(u32::from(*bool)),
            _ => return Err(self.mismatch(&Type::Primitive(primitive), value)),
        }
        Ok(())
    }

    /// Encodes the elements of a sequence. In a list, TRUE precedes each.
    fn elements(&mut self, ty: &Type, nodes: &[Node<'_>], linked: bool) -> Result<()> {
        for (at, node) in (0..).zip(nodes) {
            if linked {
                self.word(1);
            }
            self.part(Step::Index(at), ty, node)?;
        }
        Ok(())
    }

    fn optional(&mut self, ty: &Type, node: Option<&Node<'_>>) -> Result<()> {
        self.word(u32::from(node.is_some()));
        node.map_or(Ok(()), |node| self.node(ty, node))
    }

    fn defined(&mut self, kind: &'s TypeDefKind, ty: &Type, value: &Value<'_>) -> Result<()> {
        match (kind, value) {
            (TypeDefKind::Enum(body), Value::Enum { value, .. }) => self.member(body, *value),
            (TypeDefKind::Struct(fields), Value::Struct(nodes)) => self.structure(fields, nodes),
            (
                TypeDefKind::Union(union),
                Value::Union {
                    discriminant,
                    content,
                    ..
                },
            ) => {
                let content = content.as_ref().map(|(name, node)| (*name, &**node));
                self.union(union, discriminant, content)
            }
            _ => Err(self.mismatch(ty, value)),
        }
    }

    fn member(&mut self, body: &Enum, value: i32) -> Result<()> {
        if !body.open && !body.members.iter().any(|member| member.value == value) {
            return Err(EncodeErrorKind::NotAMember(value));
        }
        self.word(value.cast_unsigned());
        Ok(())
    }

    fn structure(&mut self, fields: &'s [Field], nodes: &[(&str, Node<'_>)]) -> Result<()> {
        for at in 0..fields.len().max(nodes.len()) {
            match (fields.get(at), nodes.get(at)) {
                (Some(field), Some((name, node))) if field.name == *name => {
                    self.part(Step::Field(&field.name), &field.ty, node)?;
                }
                (field, node) => {
                    return Err(wrong_field(
                        field.map(|field| field.name.as_str()),
                        node.map(|(name, _)| *name),
                    ));
                }
            }
        }
        Ok(())
    }

    fn union(
        &mut self,
        union: &'s Union,
        which: &Node<'_>,
        content: Option<(&str, &Node<'_>)>,
    ) -> Result<()> {
        let bits = self.discriminant(union, which)?;
        match (self.arm(union, bits)?, content) {
            (None, None) => Ok(()),
            (Some((name, ty)), Some((found, node))) if name == found => {
                self.part(Step::Field(name), ty, node)
            }
            (expected, found) => Err(wrong_field(
                expected.as_ref().map(|(name, _)| name.as_str()),
                found.map(|(name, _)| name),
            )),
        }
    }

    /// Encodes a discriminant and returns its bits.
    fn discriminant(&mut self, union: &Union, node: &Node<'_>) -> Result<u32> {
        let ty = match union.discriminant {
            Discriminant::I32 => Type::Primitive(Primitive::I32),
            Discriminant::U32 => Type::Primitive(Primitive::U32),
            Discriminant::Bool => Type::Primitive(Primitive::Bool),
            Discriminant::Enum(id) => Type::Named(id),
        };
        self.node(&ty, node)?;
        Ok(match &node.value {
            Value::I32(value) | Value::Enum { value, .. } => value.cast_unsigned(),
            Value::U32(value) => *value,
            other => u32::from(*other == Value::Bool(true)),
        })
    }

    fn arm(&self, union: &'s Union, bits: u32) -> Result<&'s Content> {
        let arm = union
            .arms
            .iter()
            .find(|arm| arm.value == bits)
            .map(|arm| &arm.content);
        arm.or(union.default.as_ref())
            .ok_or(EncodeErrorKind::NoArm(bits))
    }
}

fn check_length(expected: u32, found: usize) -> Result<()> {
    let same = u32::try_from(found).is_ok_and(|found| found == expected);
    if same {
        Ok(())
    } else {
        Err(EncodeErrorKind::WrongLength { expected, found })
    }
}

fn wrong_field(expected: Option<&str>, found: Option<&str>) -> EncodeErrorKind {
    EncodeErrorKind::WrongField {
        expected: expected.map(str::to_owned),
        found: found.map(str::to_owned),
    }
}
