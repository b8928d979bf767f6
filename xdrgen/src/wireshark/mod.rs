//! Emits a dissector for Wireshark: a Lua script that shows the messages of a type, with the
//! overlays of all modules.
//!
//! The script contains tables of the types and fields that a message can contain, and an
//! interpreter of these tables, `dissector.lua`, which follows RFC 4506 and the [`ir`](crate::ir)
//! as [`value`](crate::value) does. A value of an external type, with all bytes after it, is shown
//! as bytes: only its code in Rust knows its length.

mod lua;
mod tables;

use std::fmt::{self, Write as _};

use crate::ir::{Field, Primitive, Schema, Type, TypeDefKind, TypeId};
use crate::value::FindError;
use lua::LuaValue;
use tables::Builder;

/// The interpreter, which follows the tables in each script.
const INTERPRETER: &str = include_str!("dissector.lua");

/// The settings of a dissector.
///
/// ```
/// use xdrgen_build::wireshark::Dissector;
/// use xdrgen_build::{Config, Module};
///
/// let xdr = "struct greeting { unsigned int magic; string name<32>; };";
/// let compilation = Config::new().module(Module::new("hello").text("hello.x", xdr)).check();
/// let dissector = Dissector::new("greeting").protocol("hello").expect("magic", 7);
/// let lua = dissector.generate(compilation.schema())?;
/// assert!(lua.contains("hello.greeting.name"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dissector {
    message: String,
    protocol: Option<String>,
    expected: Vec<(String, u32)>,
    payload: Option<String>,
}

/// The reason why no dissector can be generated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DissectorError {
    /// No type, or more than one, has the name.
    Type(FindError),
    /// The type of the message is not a struct.
    NotAStruct(String),
    /// The message has no such field, or the field is not a 32-bit number at a fixed offset.
    Field(String),
    /// Wireshark does not accept this as a protocol's name.
    Protocol(String),
}

impl fmt::Display for DissectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(error) => error.fmt(f),
            Self::NotAStruct(name) => write!(f, "`{name}` is not a struct"),
            Self::Field(name) => write!(
                f,
                "the message has no field `{name}` that is a 32-bit number with only fields of \
                 fixed size before it"
            ),
            Self::Protocol(name) => write!(
                f,
                "`{name}` is no name of a protocol: it has a letter, and otherwise lower-case \
                 letters, digits, `_`, `-` and `.`"
            ),
        }
    }
}

impl std::error::Error for DissectorError {}

impl From<FindError> for DissectorError {
    fn from(error: FindError) -> Self {
        Self::Type(error)
    }
}

impl Dissector {
    /// Creates the settings for messages of a type, by the names that [`Schema::find`] takes.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            protocol: None,
            expected: Vec::new(),
            payload: None,
        }
    }

    /// Sets the protocol's name, such as `rpcrdma2`, which is the prefix of all field names. The
    /// default is the name of the message's type.
    #[must_use]
    pub fn protocol(mut self, name: impl Into<String>) -> Self {
        self.protocol = Some(name.into());
        self
    }

    /// Distinguishes messages from those of other protocols by the value of a field. A message that
    /// has this value and cannot be decoded is shown as malformed. Without such a field, only bytes
    /// that can be decoded, up to a value of an external type, are shown as a message.
    #[must_use]
    pub fn expect(mut self, field: impl Into<String>, value: u32) -> Self {
        self.expected.push((field.into(), value));
        self
    }

    /// Allows bytes after a message, and sets the dissector that shows them, by its name in
    /// Wireshark, such as `rpc`. With an empty name they are not dissected.
    #[must_use]
    pub fn payload(mut self, dissector: impl Into<String>) -> Self {
        self.payload = Some(dissector.into());
        self
    }

    /// Returns the file name: the protocol's name with the extension `lua`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.lua", self.name())
    }

    /// Generates the file.
    ///
    /// The schema must come from a compilation without errors.
    ///
    /// # Errors
    /// Fails if the settings name an item that the schema does not contain, or a name that
    /// Wireshark does not accept.
    pub fn generate(&self, schema: &Schema) -> Result<String, DissectorError> {
        let root = schema.find(&self.message)?;
        let protocol = self.name();
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c);
        let letter = protocol.chars().any(|c| c.is_ascii_lowercase());
        if !letter || !protocol.chars().all(allowed) {
            return Err(DissectorError::Protocol(protocol));
        }
        let fields = match resolved(schema, root) {
            (id, TypeDefKind::Struct(fields)) if schema.ty(id).external.is_none() => fields,
            _ => return Err(DissectorError::NotAStruct(self.message.clone())),
        };
        let expected = self.expected.iter().map(|(name, value)| {
            let offset = offset_of(schema, fields, name);
            let offset = offset.ok_or_else(|| DissectorError::Field(name.clone()))?;
            let numbers = [offset.into(), i128::from(*value)].map(LuaValue::Integer);
            Ok(LuaValue::List(numbers.into()))
        });
        let expected = expected.collect::<Result<_, DissectorError>>()?;
        let settings = LuaValue::Record(vec![
            ("protocol", LuaValue::text(&protocol)),
            ("title", LuaValue::text(protocol.to_uppercase())),
            ("match", LuaValue::List(expected)),
            ("prefix", LuaValue::Bool(self.payload.is_some())),
            (
                "payload",
                LuaValue::text(self.payload.as_deref().unwrap_or_default()),
            ),
        ]);
        Ok(self.file(schema, root, &protocol, &settings))
    }

    fn name(&self) -> String {
        let default = || {
            let last = self.message.rsplit("::").next();
            last.unwrap_or_default().to_lowercase()
        };
        self.protocol.clone().unwrap_or_else(default)
    }

    fn file(&self, schema: &Schema, root: TypeId, protocol: &str, settings: &LuaValue) -> String {
        let tables = Builder::new(schema, protocol).build(root);
        let mut text = format!(
            "-- @generated by xdrgen-build: a Wireshark dissector of {}\n",
            schema.qualified_name(root)
        );
        for module in schema
            .modules
            .iter()
            .filter(|module| !module.documents.is_empty())
        {
            let (path, documents) = (module.path.join("::"), module.documents.join(", "));
            let _ = writeln!(text, "-- {path}: {}", documents.escape_debug());
        }
        let _ = write!(text, "\nlocal settings = {settings}\n\nlocal rows = {{\n");
        let mut lines = |name: &str, values: &[LuaValue]| {
            let _ = write!(text, "{name}");
            for value in values {
                let _ = writeln!(text, "    {value},");
            }
            text.push_str("}\n");
        };
        lines("", &tables.fields);
        lines("\nlocal types = {\n", &tables.types);
        lines("\nlocal overlays = {\n", &tables.overlays);
        let _ = writeln!(text, "\nlocal root = {}", tables.root);
        text.push_str(INTERPRETER);
        text
    }
}

/// Resolves a name for a struct.
fn resolved(schema: &Schema, id: TypeId) -> (TypeId, &TypeDefKind) {
    match schema.resolve(&Type::Named(id)) {
        Type::Named(id) => (*id, &schema.ty(*id).kind),
        _ => (id, &schema.ty(id).kind),
    }
}

/// Returns the offset of a 32-bit number behind fields of fixed size.
fn offset_of(schema: &Schema, fields: &[Field], name: &str) -> Option<u32> {
    let mut offset = 0;
    for field in fields {
        let ty = schema.resolve(&field.ty);
        if field.name == name {
            let primitives = [Primitive::U32, Primitive::I32];
            let number = match ty {
                Type::Primitive(primitive) => primitives.contains(primitive),
                Type::Named(id) => matches!(schema.ty(*id).kind, TypeDefKind::Enum(_)),
                _ => false,
            };
            return number.then_some(offset);
        }
        let layout = schema.layout_of(ty);
        let size = (layout.max == Some(layout.min)).then_some(layout.min)?;
        offset = offset.checked_add(u32::try_from(size).ok()?)?;
    }
    None
}

#[cfg(test)]
mod tests;
