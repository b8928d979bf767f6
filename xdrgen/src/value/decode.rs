//! From octets to trees (RFC 4506).

use super::path::{Path, Step};
use super::{Error, ErrorKind, Limits, Node, Reading, Value, is_empty, is_plain, name_of};
use crate::ir::{Content, Discriminant, Enum, Field, Overlay, Primitive, Schema, Type, TypeDefKind, TypeId, Union};

/// How deep a tree nests at most, each struct, union, array and so on a level: deeper octets are a
/// [`DepthLimit`](ErrorKind::DepthLimit). It bounds the stack, where the runtime has the compiler's word for what a schema nests and
/// [`Limits::depth`] for what comes of the octets. Only types with more than seven nodes to a level can meet it within the
/// default limits.
pub const MOST_NESTED: usize = 512;

/// How many contents of overlays are decoded within each other. What is still deeper stays opaque: each level may have more than
/// one reading, and so its octets more than one tree.
const MOST_OVERLAID: usize = 4;

/// The most elements of an array whose elements take no octets.
const MOST_WITHOUT_OCTETS: u32 = 1 << 16;

/// Decodes the whole of `octets` as a value of `ty`.
///
/// The schema is that of a compilation without errors, or else what comes of it means nothing.
///
/// # Errors
/// The first thing that is wrong, in the order of the octets; [`TrailingBytes`](ErrorKind::TrailingBytes) if the value ends before
/// they do.
pub fn decode<'s>(schema: &'s Schema, ty: &Type, octets: &[u8], limits: &Limits) -> Result<Node<'s>, Error> {
    Decoder::new(schema, octets, limits)?.whole(ty)
}

/// Decodes a value of `ty` at the beginning of `octets`. The node's length says where it ends: a header before a payload.
///
/// # Errors
/// As [`decode`], but for `TrailingBytes`.
pub fn decode_prefix<'s>(schema: &'s Schema, ty: &Type, octets: &[u8], limits: &Limits) -> Result<Node<'s>, Error> {
    let mut decoder = Decoder::new(schema, octets, limits)?;
    decoder.node(ty).map_err(|fault| decoder.error(fault))
}

/// An error without its path, which the decoder knows.
#[derive(Clone, Copy)]
struct Fault {
    kind: ErrorKind,
    offset: usize,
}

type Result<T, E = Fault> = std::result::Result<T, E>;

#[derive(Clone)]
struct Decoder<'s, 'o> {
    schema: &'s Schema,
    /// The overlays of all modules, with the modules' paths.
    overlays: Vec<(&'s [String], &'s Overlay)>,
    /// From the beginning of the input to where this decode must end.
    octets: &'o [u8],
    /// The next octet.
    at: usize,
    limits: Limits,
    /// Levels that may still be entered.
    depth: u32,
    /// Elements that may still come.
    elements: u32,
    /// Nodes around the next one.
    nested: usize,
    /// Overlays around it.
    overlaid: usize,
    path: Path<'s>,
}

impl<'s, 'o> Decoder<'s, 'o> {
    fn new(schema: &'s Schema, octets: &'o [u8], limits: &Limits) -> Result<Self, Error> {
        let most = usize::try_from(limits.octets).unwrap_or(usize::MAX);
        if octets.len() > most {
            return Err(Error { kind: ErrorKind::SizeLimit, offset: most, path: String::new() });
        }
        let overlays = schema.modules.iter().flat_map(|module| {
            let path = module.path.as_slice();
            module.overlays.iter().map(move |overlay| (path, overlay))
        });
        Ok(Self {
            schema,
            overlays: overlays.collect(),
            octets,
            at: 0,
            limits: *limits,
            depth: limits.depth,
            elements: limits.elements,
            nested: 0,
            overlaid: 0,
            path: Path::default(),
        })
    }

    fn error(&self, Fault { kind, offset }: Fault) -> Error {
        Error { kind, offset, path: self.path.to_string() }
    }

    /// A value, and nothing after it.
    fn whole(&mut self, ty: &Type) -> Result<Node<'s>, Error> {
        let node = self.node(ty).map_err(|fault| self.error(fault))?;
        if self.at < self.octets.len() {
            return Err(self.error(self.fault(ErrorKind::TrailingBytes)));
        }
        Ok(node)
    }

    /// A fault at the next octet.
    fn fault(&self, kind: ErrorKind) -> Fault {
        Fault { kind, offset: self.at }
    }
}

/// Items.
impl<'o> Decoder<'_, 'o> {
    fn take(&mut self, length: usize) -> Result<&'o [u8]> {
        let rest = self.octets.get(self.at..).unwrap_or_default();
        let taken = rest.get(..length).ok_or(self.fault(ErrorKind::UnexpectedEnd))?;
        self.at += length;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let end = self.fault(ErrorKind::UnexpectedEnd);
        self.take(N)?.try_into().map_err(|_| end)
    }

    fn word(&mut self) -> Result<u32> {
        self.fixed().map(u32::from_be_bytes)
    }

    fn bool(&mut self) -> Result<bool> {
        let fault = self.fault(ErrorKind::InvalidBool);
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(fault),
        }
    }

    /// A count of octets or elements.
    fn length(&mut self, max: Option<u32>) -> Result<u32> {
        let fault = self.fault(ErrorKind::TooLong);
        let length = self.word()?;
        if max.is_some_and(|max| length > max) { Err(fault) } else { Ok(length) }
    }

    /// As many octets as a count before them says.
    fn counted(&mut self, max: Option<u32>) -> Result<Vec<u8>> {
        let length = self.length(max)?;
        self.padded(length)
    }

    /// Octets, and past their padding (RFC 4506, section 3).
    fn padded(&mut self, length: u32) -> Result<Vec<u8>> {
        let octets = self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        let fault = self.fault(ErrorKind::InvalidPadding);
        let padding = self.take(octets.len().next_multiple_of(4) - octets.len())?;
        if padding.iter().any(|octet| *octet != 0) { Err(fault) } else { Ok(octets.to_vec()) }
    }
}

/// Types.
impl<'s> Decoder<'s, '_> {
    fn node(&mut self, ty: &Type) -> Result<Node<'s>> {
        let offset = self.at;
        let value = self.guarded(ty)?;
        Ok(Node { offset, length: self.at - offset, ty: name_of(self.schema, ty), value })
    }

    fn guarded(&mut self, ty: &Type) -> Result<Value<'s>> {
        if self.nested == MOST_NESTED {
            return Err(self.fault(ErrorKind::DepthLimit));
        }
        if is_empty(self.schema, ty) {
            return Ok(Value::Nothing);
        }
        self.nested += 1;
        let value = self.value(ty);
        self.nested -= 1;
        value
    }

    /// What a type is has a function of its own each, so that none has a large frame on the stack: they call each other as deep as
    /// the tree is.
    fn value(&mut self, ty: &Type) -> Result<Value<'s>> {
        match self.schema.resolve(ty) {
            Type::Primitive(primitive) => self.primitive(*primitive),
            Type::FixedOpaque(length) => self.padded(*length).map(Value::Opaque),
            Type::Opaque(max) => self.counted(*max).map(Value::Opaque),
            Type::String(max) => self.counted(*max).map(Value::String),
            Type::Fixed(element, length) => self.fixed_array(element, *length),
            Type::Array(element, max) => self.array(element, *max),
            Type::List(element) => self.list(element),
            Type::Optional(element) => self.optional(element),
            Type::Recursive(id) => self.recursive(*id),
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
        let node = self.deeper(&Type::Named(id))?;
        Ok(Value::Optional(Some(Box::new(node))))
    }

    /// A field or an element.
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
        match &self.schema.ty(id).kind {
            TypeDefKind::Enum(body) => {
                let fault = self.fault(ErrorKind::InvalidEnum);
                let value = self.word()?.cast_signed();
                member(body, value).ok_or(fault)
            }
            TypeDefKind::Struct(fields) => self.structure(id, fields),
            TypeDefKind::Union(union) => self.union(union),
            // What is resolved is none, unless typedefs go round in a circle.
            TypeDefKind::Alias(_) => Ok(Value::Nothing),
        }
    }

    fn structure(&mut self, id: TypeId, fields: &'s [Field]) -> Result<Value<'s>> {
        let mut nodes = Vec::new();
        for field in fields {
            nodes.push((field.name.as_str(), self.part(Step::Field(&field.name), &field.ty)?));
        }
        if self.overlaid < MOST_OVERLAID {
            self.read(id, &mut nodes);
        }
        Ok(Value::Struct(nodes))
    }

    fn union(&mut self, union: &'s Union) -> Result<Value<'s>> {
        let (discriminant, case, content) = self.arm(union)?;
        let content = match content {
            None => None,
            Some((name, ty)) => Some((name.as_str(), self.boxed_part(Step::Field(name), ty)?)),
        };
        Ok(Value::Union { name: &union.name, discriminant, case, content })
    }

    /// The discriminant, the case that it chooses, and what this holds.
    fn arm(&mut self, union: &'s Union) -> Result<(Box<Node<'s>>, &'s str, &'s Content)> {
        let offset = self.at;
        let bits = self.word()?;
        let (case, content) = match (union.arms.iter().find(|arm| arm.value == bits), &union.default) {
            (Some(arm), _) => (arm.case.as_str(), &arm.content),
            (None, Some(content)) => ("default", content),
            (None, None) => return Err(Fault { kind: ErrorKind::InvalidDiscriminant, offset }),
        };
        Ok((Box::new(self.discriminant(union, bits, offset)?), case, content))
    }

    /// A discriminant that has been passed.
    fn discriminant(&self, union: &Union, bits: u32, offset: usize) -> Result<Node<'s>> {
        let (ty, value) = match union.discriminant {
            Discriminant::I32 => (Type::Primitive(Primitive::I32), Some(Value::I32(bits.cast_signed()))),
            Discriminant::U32 => (Type::Primitive(Primitive::U32), Some(Value::U32(bits))),
            Discriminant::Bool => (Type::Primitive(Primitive::Bool), (bits < 2).then_some(Value::Bool(bits == 1))),
            Discriminant::Enum(id) => {
                let value = match &self.schema.ty(id).kind {
                    TypeDefKind::Enum(body) => member(body, bits.cast_signed()),
                    _ => None,
                };
                (Type::Named(id), value)
            }
        };
        let kind =
            if union.discriminant == Discriminant::Bool { ErrorKind::InvalidBool } else { ErrorKind::InvalidEnum };
        let value = value.ok_or(Fault { kind, offset })?;
        Ok(Node { offset, length: 4, ty: name_of(self.schema, &ty), value })
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
        if empty && count > MOST_WITHOUT_OCTETS {
            return Err(self.fault(ErrorKind::ElementLimit));
        }
        self.charge(count)?;
        // Of elements without octets the first is as good as all.
        let walked = if empty { count.min(1) } else { count };
        let mut nodes = Vec::new();
        for at in 0..walked {
            nodes.push(self.element(at, element)?);
        }
        Ok(if empty { Value::Nothings(count) } else { Value::Array(nodes) })
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
        self.elements = self.elements.checked_sub(count).ok_or(self.fault(ErrorKind::ElementLimit))?;
        Ok(())
    }

    /// An element, a level deeper unless it is plain.
    fn element(&mut self, at: u32, ty: &Type) -> Result<Node<'s>> {
        self.path.enter(Step::Index(at));
        let node = if is_plain(self.schema, ty) { self.node(ty) } else { self.deeper(ty) };
        if node.is_ok() {
            self.path.leave();
        }
        node
    }

    fn deeper(&mut self, ty: &Type) -> Result<Node<'s>> {
        let before = self.depth;
        self.depth = before.checked_sub(1).ok_or(self.fault(ErrorKind::DepthLimit))?;
        let node = self.node(ty);
        self.depth = before;
        node
    }
}

/// Overlays.
impl<'s> Decoder<'s, '_> {
    /// Adds to the opaque fields of a struct what the overlays make of them.
    fn read(&self, carrier: TypeId, fields: &mut [(&'s str, Node<'s>)]) {
        for (module, overlay) in self.overlays.iter().filter(|(_, overlay)| overlay.carrier == carrier) {
            let Some(Value::U32(code)) = fields.get(overlay.code).map(|(_, node)| &node.value) else { continue };
            let Some(case) = overlay.cases.iter().find(|case| case.code == *code) else { continue };
            let Some((name, data)) = fields.get_mut(overlay.data) else { continue };
            let content = match octets_of(&data.value) {
                None => continue,
                Some([]) if overlay.empty_is_default => Ok(None),
                // The octets come after their length.
                Some(octets) => self.content(name, data.offset + 4, octets.len(), &case.ty).map(Some),
            };
            let path = module.iter().chain([&overlay.rust]).map(String::as_str).collect::<Vec<_>>();
            let ty = name_of(self.schema, &case.ty);
            let reading = Reading { overlay: path.join("::"), case: &case.constant, ty, content };
            add_reading(&mut data.value, reading);
        }
    }

    /// What fills `length` octets: a decode of its own, with limits of its own.
    fn content(&self, name: &'s str, at: usize, length: usize, ty: &Type) -> Result<Box<Node<'s>>, Error> {
        let mut decoder = Self {
            octets: self.octets.get(..at + length).unwrap_or_default(),
            at,
            depth: self.limits.depth,
            elements: self.limits.elements,
            overlaid: self.overlaid + 1,
            ..self.clone()
        };
        decoder.path.enter(Step::Field(name));
        decoder.whole(ty).map(Box::new)
    }
}

fn octets_of<'v>(value: &'v Value<'_>) -> Option<&'v [u8]> {
    match value {
        Value::Opaque(octets) | Value::Overlaid { octets, .. } => Some(octets),
        _ => None,
    }
}

fn add_reading<'s>(value: &mut Value<'s>, reading: Reading<'s>) {
    match value {
        Value::Overlaid { readings, .. } => readings.push(reading),
        Value::Opaque(octets) => {
            *value = Value::Overlaid { octets: std::mem::take(octets), readings: vec![reading] };
        }
        _ => {}
    }
}

fn member(body: &Enum, value: i32) -> Option<Value<'_>> {
    let member = body.members.iter().find(|member| member.value == value)?;
    Some(Value::Enum { name: &member.name, value })
}
