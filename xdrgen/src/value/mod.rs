//! Decodes bytes into trees of values, and encodes trees, according to a schema. No code is
//! generated or compiled.
//!
//! The command `xdrgen decode` shows these trees, and tests compare them with generated code. This
//! codec follows RFC 4506 and the [`ir`](crate::ir) and shares no code with the runtime. It accepts
//! the same input as the runtime, within the same [`Limits`].
//!
//! ```
//! use xdrgen_build::ir::Type;
//! use xdrgen_build::value::{self, DecodeErrorKind, Limits, Value};
//! use xdrgen_build::{Config, Module};
//!
//! let xdr = "struct point { int x; bool known; }; typedef point line<2>;";
//! let compilation = Config::new().module(Module::new("shapes").text("shapes.x", xdr)).check();
//! let schema = compilation.schema();
//! let line = Type::Named(schema.find("line")?);
//!
//! let bytes = [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1];
//! let tree = value::decode(schema, &line, &bytes, &Limits::DEFAULT)?;
//! let Value::Array(points) = &tree.value else { panic!("a line is an array") };
//! let Value::Struct(fields) = &points[0].value else { panic!("a point is a struct") };
//! let (name, x) = &fields[0];
//! assert_eq!((*name, x.offset, &x.value), ("x", 4, &Value::I32(7)));
//! assert_eq!(value::encode(schema, &line, &tree)?, bytes);
//! println!("{tree}");
//!
//! let bytes = [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 2];
//! let error = value::decode(schema, &line, &bytes, &Limits::DEFAULT).unwrap_err();
//! assert_eq!((error.kind, error.offset), (DecodeErrorKind::InvalidBool, 8));
//! assert_eq!(error.to_string(), "[0].known: boolean is neither 0 nor 1 at byte 8");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! For any bytes and any schema, decoding terminates, does not panic, and allocates in proportion
//! to the input and not to a count in it. A tree is for inspection: a node takes about 80 times the
//! size of a small element, and [`Limits::elements`] bounds the number of nodes. The depth of a
//! tree is at most [`MAX_TREE_DEPTH`], so recursion over it is safe.

mod decode;
mod encode;
mod error;
mod find;
mod json;
mod path;
mod text;

use std::borrow::Cow;

use crate::ir::{Primitive, Schema, Type, TypeDefKind};

pub use decode::{MAX_TREE_DEPTH, decode, decode_prefix};
pub use encode::{EncodeError, EncodeErrorKind, encode};
pub use error::{DecodeError, DecodeErrorKind};
pub use find::FindError;

/// A value and its position in the input.
///
/// `Display` writes the tree as text for people, with a line for each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node<'s> {
    /// The offset of the first byte in the input. The encoder ignores it.
    pub offset: usize,
    /// The length in bytes, with the padding of the value and its parts. The encoder ignores it.
    pub length: usize,
    /// The type in XDR syntax: `rpcrdma2_segment`, `unsigned int`, `opaque<64>`, `int *`. A linked
    /// list has the type of a pointer to its element. The encoder ignores it.
    pub ty: Cow<'s, str>,
    /// The value.
    pub value: Value<'s>,
}

impl<'s> From<Value<'s>> for Node<'s> {
    /// Creates a node to encode, without a position and a type.
    fn from(value: Value<'s>) -> Self {
        Self {
            offset: 0,
            length: 0,
            ty: Cow::Borrowed(""),
            value,
        }
    }
}

/// A value of XDR. Names are those of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'s> {
    /// `int` (RFC 4506, section 4.1).
    I32(i32),
    /// `unsigned int` (4.2).
    U32(u32),
    /// `hyper` (4.5).
    I64(i64),
    /// `unsigned hyper` (4.5).
    U64(u64),
    /// `float`, as its bits (4.6), so that NaN payloads are preserved.
    F32(u32),
    /// `double`, as its bits (4.7).
    F64(u64),
    /// `quadruple`, as its bytes (4.8).
    Quadruple([u8; 16]),
    /// `bool` (4.4).
    Bool(bool),
    /// A member of an enum (4.3).
    Enum {
        /// The first name of the member; `unknown` for a value of an open enum without a member.
        /// The encoder ignores it.
        name: &'s str,
        /// The value of the member.
        value: i32,
    },
    /// `opaque[N]` or `opaque<N>` (4.9, 4.10), without its padding.
    Opaque(Vec<u8>),
    /// The `opaque<N>` of an [`OverlayDef`](crate::ir::OverlayDef) with a known code.
    TypedOpaque {
        /// The bytes, which are encoded.
        bytes: Vec<u8>,
        /// The content according to each overlay that knows the code. The encoder ignores it; to
        /// change the content, encode it separately.
        readings: Vec<Reading<'s>>,
    },
    /// `string<N>` (4.11), which need not be UTF-8.
    String(Vec<u8>),
    /// The fields of a struct (4.14), in order.
    Struct(Vec<(&'s str, Node<'s>)>),
    /// A union (4.15).
    Union {
        /// The discriminant's name.
        name: &'s str,
        /// The discriminant.
        discriminant: Box<Node<'s>>,
        /// The case as written, a constant's name or a number; or `default`. The encoder ignores
        /// it.
        case: &'s str,
        /// The name and the value of the arm's content; `None` is void.
        content: Option<(&'s str, Box<Node<'s>>)>,
    },
    /// The elements of `T x[N]` or `T x<N>` (4.12, 4.13).
    Array(Vec<Node<'s>>),
    /// The elements of a linked list (4.19), each without its pointer to the next.
    List(Vec<Node<'s>>),
    /// Optional data (4.19).
    Optional(Option<Box<Node<'s>>>),
    /// The only value of a type with an encoded size of zero: `opaque[0]`, an array of no elements,
    /// a struct of such fields.
    Empty,
    /// `T x<N>` with a number of elements whose encoded size is zero.
    EmptyArray(u32),
}

/// The content of an opaque field according to an overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading<'s> {
    /// The path of the overlay's module, and the overlay's name in Rust: `v2::properties::OptInfo`.
    pub overlay: String,
    /// The constant whose value is the code.
    pub case: &'s str,
    /// The content's type, as in [`Node`].
    pub ty: Cow<'s, str>,
    /// The content, which takes all bytes of the opaque. `None` is the default value, if the
    /// overlay encodes it as zero bytes. An error concerns only the content: the enclosing value is
    /// well-formed whatever the opaque contains.
    pub content: Result<Option<Box<Node<'s>>>, DecodeError>,
}

/// The limits of a decode. They are those of the runtime, and count in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The maximum number of open levels: values of a type within itself, and elements of
    /// variable-length sequences that are not plain.
    pub depth: u32,
    /// The maximum total number of elements of variable-length arrays and linked lists. In
    /// addition, an array of elements with an encoded size of zero has at most 65,536.
    pub elements: u32,
    /// The maximum length of the input in bytes, including data after a prefix.
    pub bytes: u32,
}

impl Limits {
    /// 64 levels, 16,777,216 elements, and any input whose offsets fit in 32 bits.
    pub const DEFAULT: Self = Self {
        depth: 64,
        elements: 1 << 24,
        bytes: u32::MAX,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Value<'_> {
    /// Returns the kind of the value, as messages and JSON name it.
    fn kind(&self) -> &'static str {
        match self {
            Self::I32(_) => "int",
            Self::U32(_) => "unsigned int",
            Self::I64(_) => "hyper",
            Self::U64(_) => "unsigned hyper",
            Self::F32(_) => "float",
            Self::F64(_) => "double",
            Self::Quadruple(_) => "quadruple",
            Self::Bool(_) => "bool",
            Self::Enum { .. } => "enum",
            Self::Opaque(_) | Self::TypedOpaque { .. } => "opaque",
            Self::String(_) => "string",
            Self::Struct(_) => "struct",
            Self::Union { .. } => "union",
            Self::Array(_) | Self::EmptyArray(_) => "array",
            Self::List(_) => "list",
            Self::Optional(_) => "optional",
            Self::Empty => "empty",
        }
    }
}

/// Returns a type in XDR syntax.
fn name_of<'s>(schema: &'s Schema, ty: &Type) -> Cow<'s, str> {
    let bound = |max: &Option<u32>| max.map(|max| max.to_string()).unwrap_or_default();
    Cow::Owned(match ty {
        Type::Primitive(primitive) => return Cow::Borrowed(primitive_name(*primitive)),
        Type::Named(id) => return Cow::Borrowed(&schema.ty(*id).name),
        Type::Opaque(None) => return Cow::Borrowed("opaque<>"),
        Type::String(None) => return Cow::Borrowed("string<>"),
        Type::FixedOpaque(length) => format!("opaque[{length}]"),
        Type::Opaque(Some(max)) => format!("opaque<{max}>"),
        Type::String(Some(max)) => format!("string<{max}>"),
        Type::Item(content) | Type::Nested(content) => return name_of(schema, content),
        Type::Fixed(element, length) => format!("{}[{length}]", name_of(schema, element)),
        Type::Array(element, max) => format!("{}<{}>", name_of(schema, element), bound(max)),
        Type::Optional(element) | Type::List(element) => format!("{} *", name_of(schema, element)),
        Type::Recursive(id) => format!("{} *", schema.ty(*id).name),
    })
}

fn primitive_name(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::I32 => "int",
        Primitive::U32 => "unsigned int",
        Primitive::I64 => "hyper",
        Primitive::U64 => "unsigned hyper",
        Primitive::F32 => "float",
        Primitive::F64 => "double",
        Primitive::Quadruple => "quadruple",
        Primitive::Bool => "bool",
    }
}

/// Returns true if the encoded size of a type is zero.
pub(crate) fn is_empty(schema: &Schema, ty: &Type) -> bool {
    match ty {
        Type::FixedOpaque(length) => *length == 0,
        Type::Fixed(element, length) => *length == 0 || is_empty(schema, element),
        Type::Named(id) => schema.ty(*id).layout.min == 0,
        _ => false,
    }
}

/// Returns true if an element of a sequence opens no level of nesting: it has a fixed size, and all
/// bit patterns are valid.
pub(crate) fn is_plain(schema: &Schema, ty: &Type) -> bool {
    match schema.resolve(ty) {
        Type::Primitive(primitive) => *primitive != Primitive::Bool,
        Type::FixedOpaque(length) => length % 4 == 0,
        Type::Fixed(element, _) => is_plain(schema, element),
        Type::Named(id) => {
            matches!(schema.ty(*id).kind, TypeDefKind::Struct(_)) && schema.ty(*id).layout.plain
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
