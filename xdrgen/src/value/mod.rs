//! Octets as trees of values, by a schema alone: nothing is generated or compiled.
//!
//! This is for those who look at octets (the command `xdrgen decode`), and for tests that hold generated code against
//! something else than itself. It is made from RFC 4506 and the [`ir`](crate::ir), shares no code with the runtime, and
//! accepts what the runtime accepts, within the same [`Limits`].
//!
//! ```
//! use xdrgen_build::ir::Type;
//! use xdrgen_build::value::{self, ErrorKind, Limits, Value};
//! use xdrgen_build::{Config, Module};
//!
//! let xdr = "struct point { int x; bool known; }; typedef point line<2>;";
//! let compilation = Config::new().module(Module::new("shapes").text("shapes.x", xdr)).check();
//! let schema = compilation.schema();
//! let line = Type::Named(schema.find("line")?);
//!
//! let octets = [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1];
//! let tree = value::decode(schema, &line, &octets, &Limits::DEFAULT)?;
//! let Value::Array(points) = &tree.value else { panic!("a line is an array") };
//! let Value::Struct(fields) = &points[0].value else { panic!("a point is a struct") };
//! let (name, x) = &fields[0];
//! assert_eq!((*name, x.offset, &x.value), ("x", 4, &Value::I32(7)));
//! assert_eq!(value::encode(schema, &line, &tree)?, octets);
//! println!("{tree}");
//!
//! let refused = value::decode(schema, &line, &[0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 2], &Limits::DEFAULT).unwrap_err();
//! assert_eq!((refused.kind, refused.offset), (ErrorKind::InvalidBool, 8));
//! assert_eq!(refused.to_string(), "[0].known: boolean is neither 0 nor 1 at octet 8");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//!
//! For any octets and any schema it ends, does not panic, and takes memory for what is there, never for what a count
//! claims. A tree is for looking at, not for serving: a node takes some 80 times the octets of a small element, so that
//! [`Limits::elements`] is what bounds it. Trees nest no deeper than [`MOST_NESTED`], so that recursion over them is
//! safe.

mod decode;
mod encode;
mod error;
mod find;
mod json;
mod path;
mod text;

use std::borrow::Cow;

use crate::ir::{Primitive, Schema, Type, TypeDefKind};

pub use decode::{MOST_NESTED, decode, decode_prefix};
pub use encode::{EncodeError, EncodeErrorKind, encode};
pub use error::{Error, ErrorKind};
pub use find::FindError;

/// A value, and where it stands among the octets.
///
/// `Display` shows the tree, a line for each leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node<'s> {
    /// Its first octet, counted from the beginning of the input. Encoding passes it over.
    pub offset: usize,
    /// Its octets, with its padding and that of its parts. Encoding passes it over.
    pub length: usize,
    /// Its type as an author of XDR writes it: `rpcrdma2_segment`, `unsigned int`, `opaque<64>`, `int *`. A linked list is written as
    /// the pointer to its head. Encoding passes it over.
    pub ty: Cow<'s, str>,
    /// What it is.
    pub value: Value<'s>,
}

impl<'s> From<Value<'s>> for Node<'s> {
    /// A node of a tree that is made by hand, to be encoded: without a place and the name of a type.
    fn from(value: Value<'s>) -> Self {
        Self { offset: 0, length: 0, ty: Cow::Borrowed(""), value }
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
    /// `float`, as its bits (4.6): a NaN stays the one that it is.
    F32(u32),
    /// `double`, as its bits (4.7).
    F64(u64),
    /// `quadruple`, as its octets (4.8).
    Quadruple([u8; 16]),
    /// `bool` (4.4).
    Bool(bool),
    /// A member of an enum (4.3).
    Enum {
        /// The first of its names. Encoding passes it over.
        name: &'s str,
        /// Its value.
        value: i32,
    },
    /// `opaque[N]` or `opaque<N>` (4.9, 4.10), without its padding.
    Opaque(Vec<u8>),
    /// The `opaque<N>` of an [`Overlay`](crate::ir::Overlay), where the code beside it is known to one.
    Overlaid {
        /// The octets: these are encoded.
        octets: Vec<u8>,
        /// What each overlay that knows the code makes of the octets. Encoding passes them over; to change a content, encode
        /// it by itself.
        readings: Vec<Reading<'s>>,
    },
    /// `string<N>` (4.11), which may be no UTF-8.
    String(Vec<u8>),
    /// A struct's fields (4.14), in their order.
    Struct(Vec<(&'s str, Node<'s>)>),
    /// A union (4.15).
    Union {
        /// The discriminant's name.
        name: &'s str,
        /// The discriminant.
        discriminant: Box<Node<'s>>,
        /// The case as it was written, a constant's name or a number; or `default`. Encoding passes it over.
        case: &'s str,
        /// The name and the value of what the arm holds; `None` is void.
        content: Option<(&'s str, Box<Node<'s>>)>,
    },
    /// The elements of `T x[N]` or `T x<N>` (4.12, 4.13).
    Array(Vec<Node<'s>>),
    /// The elements of a linked list (4.19), each without its pointer to the next, which is not part of its octets either.
    List(Vec<Node<'s>>),
    /// Optional data (4.19).
    Optional(Option<Box<Node<'s>>>),
    /// The one value of a type that takes no octets: `opaque[0]`, an array of no elements, a struct of such.
    Nothing,
    /// `T x<N>` of so many elements that take no octets.
    Nothings(u32),
}

/// Octets of an opaque field as an overlay understands them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading<'s> {
    /// The path of the overlay's module, and the overlay's name in Rust: `v2::properties::OptInfo`.
    pub overlay: String,
    /// The constant that is the code.
    pub case: &'s str,
    /// The content's type, as that of a [`Node`].
    pub ty: Cow<'s, str>,
    /// The content, which is the whole of the octets. `None` is the default value, where the overlay says that no octets stand for
    /// it. An error is one of the content alone: what holds the opaque is well-formed whatever is in it.
    pub content: Result<Option<Box<Node<'s>>>, Error>,
}

/// What a decode accepts before it gives up: the limits of the runtime, counted alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// How many levels may be open at once: values of a type within itself, and elements of variable-length sequences that are not
    /// plain.
    pub depth: u32,
    /// How many elements all variable-length arrays and linked lists may have together. (An array of elements that take no octets
    /// has 65,536 at most.)
    pub elements: u32,
    /// The longest input, in octets, with what follows a prefix.
    pub octets: u32,
}

impl Limits {
    /// 64 levels, 16,777,216 elements, and any input whose offsets fit in 32 bits.
    pub const DEFAULT: Self = Self { depth: 64, elements: 1 << 24, octets: u32::MAX };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Value<'_> {
    /// What it is, in a word or two.
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
            Self::Opaque(_) | Self::Overlaid { .. } => "opaque",
            Self::String(_) => "string",
            Self::Struct(_) => "struct",
            Self::Union { .. } => "union",
            Self::Array(_) | Self::Nothings(_) => "array",
            Self::List(_) => "list",
            Self::Optional(_) => "optional",
            Self::Nothing => "nothing",
        }
    }
}

/// A type as an author of XDR writes it.
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

/// Whether the values of a type take no octets.
fn is_empty(schema: &Schema, ty: &Type) -> bool {
    match ty {
        Type::FixedOpaque(length) => *length == 0,
        Type::Fixed(element, length) => *length == 0 || is_empty(schema, element),
        Type::Named(id) => schema.ty(*id).layout.min == 0,
        _ => false,
    }
}

/// Whether an element of a sequence opens no level of nesting: it has a fixed size, and all octets are values.
fn is_plain(schema: &Schema, ty: &Type) -> bool {
    match schema.resolve(ty) {
        Type::Primitive(primitive) => *primitive != Primitive::Bool,
        Type::FixedOpaque(length) => length % 4 == 0,
        Type::Fixed(element, _) => is_plain(schema, element),
        Type::Named(id) => matches!(schema.ty(*id).kind, TypeDefKind::Struct(_)) && schema.ty(*id).layout.plain,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
