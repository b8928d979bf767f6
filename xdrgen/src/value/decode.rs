//! Decodes bytes into trees (RFC 4506).
//!
//! The decoder accepts the input that the runtime accepts, and charges `Limits` in the same way,
//! but shares no code with the runtime: tests compare both. `dissector.lua` follows this decoder.
//! Each cycle of calls passes through `value_within_depth`, whose limit bounds the stack here, and
//! the recursion over trees in `encode`, `text` and `json`.

use super::path::{Path, Step};
use super::{
    DecodeError, DecodeErrorKind, Limits, Node, Reading, Value, is_empty, is_plain, name_of,
};
use crate::ir::{
    Content, Discriminant, Enum, Field, OverlayDef, Primitive, Schema, Type, TypeDefKind, TypeId,
    Union,
};

/// The maximum depth of a tree. Each struct, union, array, optional and so on is a level. Deeper
/// input is a [`DepthLimit`](DecodeErrorKind::DepthLimit) error. The limit bounds the stack;
/// generated code has static types instead, and [`Limits::depth`] for recursion. Only a type with
/// more than seven nodes per level can reach it within the default limits.
pub const MAX_TREE_DEPTH: usize = 512;

/// The maximum nesting depth of overlay contents. Deeper content remains opaque: each level may
/// have several readings, so the number of trees grows exponentially.
const MAX_OVERLAY_DEPTH: usize = 4;

/// The maximum number of elements of an array whose elements have an encoded size of zero.
const MAX_EMPTY_ELEMENTS: u32 = 1 << 16;

/// Decodes all of `bytes` as a value of `ty`.
///
/// The schema must come from a compilation without errors; otherwise the result is meaningless.
///
/// # Errors
/// Returns the first error in input order. Returns
/// [`TrailingBytes`](DecodeErrorKind::TrailingBytes) if the value ends before the input.
pub fn decode<'s>(
    schema: &'s Schema,
    ty: &Type,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Node<'s>, DecodeError> {
    Decoder::new(schema, bytes, limits)?.decode_all(ty)
}

/// Decodes a value of `ty` at the start of `bytes`, such as a header before a payload. The node's
/// length is the end of the value.
///
/// # Errors
/// As [`decode`], except `TrailingBytes`.
pub fn decode_prefix<'s>(
    schema: &'s Schema,
    ty: &Type,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Node<'s>, DecodeError> {
    let mut decoder = Decoder::new(schema, bytes, limits)?;
    decoder.node(ty).map_err(|fault| decoder.error(fault))
}

/// An error without its path, which the decoder adds.
#[derive(Clone, Copy)]
struct Fault {
    kind: DecodeErrorKind,
    offset: usize,
}

type Result<T, E = Fault> = std::result::Result<T, E>;

#[derive(Clone)]
struct Decoder<'s, 'o> {
    schema: &'s Schema,
    /// The overlays of all modules, with the modules' paths.
    overlays: Vec<(&'s [String], &'s OverlayDef)>,
    /// The input, up to the end of this decode.
    bytes: &'o [u8],
    /// The offset of the next byte.
    at: usize,
    limits: Limits,
    /// The number of levels that may still be entered.
    depth: u32,
    /// The number of elements that may still be decoded.
    elements: u32,
    /// The number of enclosing nodes.
    tree_depth: usize,
    /// The number of enclosing overlays.
    overlay_depth: usize,
    path: Path<'s>,
}

impl<'s, 'o> Decoder<'s, 'o> {
    fn new(schema: &'s Schema, bytes: &'o [u8], limits: &Limits) -> Result<Self, DecodeError> {
        let max = usize::try_from(limits.bytes).unwrap_or(usize::MAX);
        if bytes.len() > max {
            return Err(DecodeError {
                kind: DecodeErrorKind::SizeLimit,
                offset: max,
                path: String::new(),
            });
        }
        let overlays = schema.modules.iter().flat_map(|module| {
            let path = module.path.as_slice();
            module.overlays.iter().map(move |overlay| (path, overlay))
        });
        Ok(Self {
            schema,
            overlays: overlays.collect(),
            bytes,
            at: 0,
            limits: *limits,
            depth: limits.depth,
            elements: limits.elements,
            tree_depth: 0,
            overlay_depth: 0,
            path: Path::default(),
        })
    }

    fn error(&self, Fault { kind, offset }: Fault) -> DecodeError {
        DecodeError {
            kind,
            offset,
            path: self.path.to_string(),
        }
    }

    /// Decodes a value that takes all bytes.
    fn decode_all(&mut self, ty: &Type) -> Result<Node<'s>, DecodeError> {
        let node = self.node(ty).map_err(|fault| self.error(fault))?;
        if self.at < self.bytes.len() {
            return Err(self.error(self.fault(DecodeErrorKind::TrailingBytes)));
        }
        Ok(node)
    }

    /// Returns an error at the next byte.
    fn fault(&self, kind: DecodeErrorKind) -> Fault {
        Fault {
            kind,
            offset: self.at,
        }
    }
}

/// Primitive items.
impl<'o> Decoder<'_, 'o> {
    fn take(&mut self, length: usize) -> Result<&'o [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest
            .get(..length)
            .ok_or(self.fault(DecodeErrorKind::UnexpectedEnd))?;
        self.at += length;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let end = self.fault(DecodeErrorKind::UnexpectedEnd);
        self.take(N)?.try_into().map_err(|_| end)
    }

    fn word(&mut self) -> Result<u32> {
        self.fixed().map(u32::from_be_bytes)
    }

    fn bool(&mut self) -> Result<bool> {
        let fault = self.fault(DecodeErrorKind::InvalidBool);
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(fault),
        }
    }

    /// Decodes a count of bytes or elements.
    fn length(&mut self, max: Option<u32>) -> Result<u32> {
        let fault = self.fault(DecodeErrorKind::TooLong);
        let length = self.word()?;
        if max.is_some_and(|max| length > max) {
            Err(fault)
        } else {
            Ok(length)
        }
    }

    /// Decodes a count and that many bytes.
    fn counted(&mut self, max: Option<u32>) -> Result<Vec<u8>> {
        let length = self.length(max)?;
        self.padded(length)
    }

    /// Decodes bytes and their padding (RFC 4506, section 3).
    fn padded(&mut self, length: u32) -> Result<Vec<u8>> {
        let bytes = self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        let fault = self.fault(DecodeErrorKind::InvalidPadding);
        let padding = self.take(bytes.len().next_multiple_of(4) - bytes.len())?;
        if padding.iter().any(|byte| *byte != 0) {
            Err(fault)
        } else {
            Ok(bytes.to_vec())
        }
    }
}

/// Types.
impl<'s> Decoder<'s, '_> {
    fn node(&mut self, ty: &Type) -> Result<Node<'s>> {
        let offset = self.at;
        let value = self.value_within_depth(ty)?;
        Ok(Node {
            offset,
            length: self.at - offset,
            ty: name_of(self.schema, ty),
            value,
        })
    }

    fn value_within_depth(&mut self, ty: &Type) -> Result<Value<'s>> {
        if self.tree_depth == MAX_TREE_DEPTH {
            return Err(self.fault(DecodeErrorKind::DepthLimit));
        }
        if is_empty(self.schema, ty) {
            return Ok(Value::Empty);
        }
        self.tree_depth += 1;
        let value = self.value(ty);
        self.tree_depth -= 1;
        value
    }

    /// Each kind of type has a function of its own, so that stack frames are small: these functions
    /// recurse to the depth of the tree.
    fn value(&mut self, ty: &Type) -> Result<Value<'s>> {
        match self.schema.resolve(ty) {
            Type::Primitive(primitive) => self.primitive(*primitive),
            Type::FixedOpaque(length) => self.padded(*length).map(Value::Opaque),
            Type::Opaque(max) => self.counted(*max).map(Value::Opaque),
            Type::String(max) => self.counted(*max).map(Value::String),
            Type::Item(content) => self.value(content),
            Type::Fixed(element, length) => self.fixed_array(element, *length),
            Type::Array(element, max) => self.array(element, *max),
            Type::List(element) => self.list(element),
            Type::Optional(element) => self.optional(element),
            Type::Recursive(id) => self.recursive(*id),
            Type::Nested(content) => self.deeper(|decoder| decoder.value(content)),
            Type::Named(id) => self.defined(*id),
        }
    }

    fn optional(&mut self, ty: &Type) -> Result<Value<'s>> {
        if !self.bool()? {
            return Ok(Value::Optional(None));
        }
        let node = self.node(ty)?;
        Ok(Value::Optional(Some(Box::new(node))))
    }

    fn recursive(&mut self, id: TypeId) -> Result<Value<'s>> {
        if !self.bool()? {
            return Ok(Value::Optional(None));
        }
        let node = self.deeper(|decoder| decoder.node(&Type::Named(id)))?;
        Ok(Value::Optional(Some(Box::new(node))))
    }

    /// Decodes a field or an element.
    fn part(&mut self, step: Step<'s>, ty: &Type) -> Result<Node<'s>> {
        self.path.enter(step);
        let node = self.node(ty);
        if node.is_ok() {
            self.path.leave();
        }
        node
    }

    fn boxed_part(&mut self, step: Step<'s>, ty: &Type) -> Result<Box<Node<'s>>> {
        self.part(step, ty).map(Box::new)
    }

    fn primitive(&mut self, primitive: Primitive) -> Result<Value<'s>> {
        Ok(match primitive {
            Primitive::I32 => Value::I32(i32::from_be_bytes(self.fixed()?)),
            Primitive::U32 => Value::U32(self.word()?),
            Primitive::I64 => Value::I64(i64::from_be_bytes(self.fixed()?)),
            Primitive::U64 => Value::U64(u64::from_be_bytes(self.fixed()?)),
            Primitive::F32 => Value::F32(self.word()?),
            Primitive::F64 => Value::F64(u64::from_be_bytes(self.fixed()?)),
            Primitive::Quadruple => Value::Quadruple(self.fixed()?),
            Primitive::Bool => Value::Bool(self.bool()?),
        })
    }

    fn defined(&mut self, id: TypeId) -> Result<Value<'s>> {
        let definition = self.schema.ty(id);
        if definition.external.is_some() {
            return Err(self.fault(DecodeErrorKind::ExternalType));
        }
        match &definition.kind {
            TypeDefKind::Enum(body) => {
                let fault = self.fault(DecodeErrorKind::InvalidEnum);
                let value = self.word()?.cast_signed();
                member(body, value).ok_or(fault)
            }
            TypeDefKind::Struct(fields) => self.structure(id, fields),
            TypeDefKind::Union(union) => self.union(union),
            // Resolution leaves no alias, except in a cycle of typedefs.
            TypeDefKind::Alias(_) => Ok(Value::Empty),
        }
    }

    fn structure(&mut self, id: TypeId, fields: &'s [Field]) -> Result<Value<'s>> {
        let mut nodes = Vec::new();
        for field in fields {
            nodes.push((
                field.name.as_str(),
                self.part(Step::Field(&field.name), &field.ty)?,
            ));
        }
        if self.overlay_depth < MAX_OVERLAY_DEPTH {
            self.add_readings(id, &mut nodes);
        }
        Ok(Value::Struct(nodes))
    }

    fn union(&mut self, union: &'s Union) -> Result<Value<'s>> {
        let (discriminant, case, content) = self.arm(union)?;
        let content = match content {
            None => None,
            Some((name, ty)) => Some((name.as_str(), self.boxed_part(Step::Field(name), ty)?)),
        };
        Ok(Value::Union {
            name: &union.name,
            discriminant,
            case,
            content,
        })
    }

    /// Decodes the discriminant. Returns it with the selected case and its content.
    fn arm(&mut self, union: &'s Union) -> Result<(Box<Node<'s>>, &'s str, &'s Content)> {
        let offset = self.at;
        let bits = self.word()?;
        let (case, content) = match (
            union.arms.iter().find(|arm| arm.value == bits),
            &union.default,
        ) {
            (Some(arm), _) => (arm.case.as_str(), &arm.content),
            (None, Some(content)) => ("default", content),
            (None, None) => {
                return Err(Fault {
                    kind: DecodeErrorKind::InvalidDiscriminant,
                    offset,
                });
            }
        };
        Ok((
            Box::new(self.discriminant(union, bits, offset)?),
            case,
            content,
        ))
    }

    /// Returns the node of a discriminant that has been read.
    fn discriminant(&self, union: &Union, bits: u32, offset: usize) -> Result<Node<'s>> {
        let (ty, value) = match union.discriminant {
            Discriminant::I32 => (
                Type::Primitive(Primitive::I32),
                Some(Value::I32(bits.cast_signed())),
            ),
            Discriminant::U32 => (Type::Primitive(Primitive::U32), Some(Value::U32(bits))),
            Discriminant::Bool => (
                Type::Primitive(Primitive::Bool),
                (bits < 2).then_some(Value::Bool(bits == 1)),
            ),
            Discriminant::Enum(id) => {
                let value = match &self.schema.ty(id).kind {
                    TypeDefKind::Enum(body) => member(body, bits.cast_signed()),
                    _ => None,
                };
                (Type::Named(id), value)
            }
        };
        let kind = if union.discriminant == Discriminant::Bool {
            DecodeErrorKind::InvalidBool
        } else {
            DecodeErrorKind::InvalidEnum
        };
        let value = value.ok_or(Fault { kind, offset })?;
        Ok(Node {
            offset,
            length: 4,
            ty: name_of(self.schema, &ty),
            value,
        })
    }
}

/// Sequences.
impl<'s> Decoder<'s, '_> {
    fn fixed_array(&mut self, element: &Type, length: u32) -> Result<Value<'s>> {
        let mut nodes = Vec::new();
        for at in 0..length {
            nodes.push(self.part(Step::Index(at), element)?);
        }
        Ok(Value::Array(nodes))
    }

    fn array(&mut self, element: &Type, max: Option<u32>) -> Result<Value<'s>> {
        let count = self.length(max)?;
        let empty = is_empty(self.schema, element);
        if empty && count > MAX_EMPTY_ELEMENTS {
            return Err(self.fault(DecodeErrorKind::ElementLimit));
        }
        self.charge(count)?;
        // Elements with an encoded size of zero are all alike; one is decoded.
        let decoded = if empty { count.min(1) } else { count };
        let mut nodes = Vec::new();
        for at in 0..decoded {
            nodes.push(self.element(at, element)?);
        }
        Ok(if empty {
            Value::EmptyArray(count)
        } else {
            Value::Array(nodes)
        })
    }

    fn list(&mut self, element: &Type) -> Result<Value<'s>> {
        let mut nodes = Vec::new();
        let mut count = 0_u32;
        while self.bool()? {
            self.charge(1)?;
            nodes.push(self.element(count, element)?);
            count = count.saturating_add(1);
        }
        Ok(Value::List(nodes))
    }

    fn charge(&mut self, count: u32) -> Result<()> {
        self.elements = self
            .elements
            .checked_sub(count)
            .ok_or(self.fault(DecodeErrorKind::ElementLimit))?;
        Ok(())
    }

    /// Decodes an element, one level deeper unless it is plain.
    fn element(&mut self, at: u32, ty: &Type) -> Result<Node<'s>> {
        self.path.enter(Step::Index(at));
        let node = if is_plain(self.schema, ty) {
            self.node(ty)
        } else {
            self.deeper(|decoder| decoder.node(ty))
        };
        if node.is_ok() {
            self.path.leave();
        }
        node
    }

    fn deeper<T>(&mut self, decode: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.depth;
        self.depth = before
            .checked_sub(1)
            .ok_or(self.fault(DecodeErrorKind::DepthLimit))?;
        let value = decode(self);
        self.depth = before;
        value
    }
}

/// Overlays.
impl<'s> Decoder<'s, '_> {
    /// Adds readings to the opaque fields of a struct that have overlays.
    fn add_readings(&self, carrier: TypeId, fields: &mut [(&'s str, Node<'s>)]) {
        for (module, overlay) in self
            .overlays
            .iter()
            .filter(|(_, overlay)| overlay.carrier == carrier)
        {
            let Some(Value::U32(code)) = fields.get(overlay.code).map(|(_, node)| &node.value)
            else {
                continue;
            };
            let Some(case) = overlay.cases.iter().find(|case| case.code == *code) else {
                continue;
            };
            let Some((name, data)) = fields.get_mut(overlay.data) else {
                continue;
            };
            let content = match opaque_bytes(&data.value) {
                None => continue,
                Some([]) if overlay.empty_is_default => Ok(None),
                // The bytes follow a length of 4 bytes.
                Some(bytes) => self
                    .content(name, data.offset + 4, bytes.len(), &case.ty)
                    .map(Some),
            };
            let path = module
                .iter()
                .chain([&overlay.rust])
                .map(String::as_str)
                .collect::<Vec<_>>();
            let ty = name_of(self.schema, &case.ty);
            let reading = Reading {
                overlay: path.join("::"),
                case: &case.constant,
                ty,
                content,
            };
            add_reading(&mut data.value, reading);
        }
    }

    /// Decodes the content of an opaque, as a separate decode with its own limits.
    fn content(
        &self,
        name: &'s str,
        at: usize,
        length: usize,
        ty: &Type,
    ) -> Result<Box<Node<'s>>, DecodeError> {
        let mut decoder = Self {
            bytes: self.bytes.get(..at + length).unwrap_or_default(),
            at,
            depth: self.limits.depth,
            elements: self.limits.elements,
            overlay_depth: self.overlay_depth + 1,
            ..self.clone()
        };
        decoder.path.enter(Step::Field(name));
        decoder.decode_all(ty).map(Box::new)
    }
}

fn opaque_bytes<'v>(value: &'v Value<'_>) -> Option<&'v [u8]> {
    match value {
        Value::Opaque(bytes) | Value::TypedOpaque { bytes, .. } => Some(bytes),
        _ => None,
    }
}

fn add_reading<'s>(value: &mut Value<'s>, reading: Reading<'s>) {
    match value {
        Value::TypedOpaque { readings, .. } => readings.push(reading),
        Value::Opaque(bytes) => {
            *value = Value::TypedOpaque {
                bytes: std::mem::take(bytes),
                readings: vec![reading],
            };
        }
        _ => {}
    }
}

fn member(body: &Enum, value: i32) -> Option<Value<'_>> {
    let member = body.members.iter().find(|member| member.value == value);
    let name = match member {
        Some(member) => &member.name,
        None if body.open => "unknown",
        None => return None,
    };
    Some(Value::Enum { name, value })
}
