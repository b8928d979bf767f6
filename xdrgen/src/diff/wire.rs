//! The wire form of types: without names, and equal for types that have the same encoding.
//! `compare` reports no change between two types of one form, so that types with different
//! encodings must have different forms. `int`, `unsigned int`, `bool` and enums differ in their
//! [`WordValues`].

use crate::ir::{Enum, Primitive, Schema, Type, TypeDefKind, TypeId};

/// A reference to a type or to a definition.
#[derive(Clone, Copy, Debug)]
pub(super) enum TypeRef<'s> {
    Type(&'s Type),
    Definition(TypeId),
}

/// The encoding of a type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'s> {
    /// `int`, `unsigned int`, `bool` or an enum: one word.
    Word(WordValues<'s>),
    /// Another type without parts.
    Primitive(Primitive),
    FixedOpaque(u32),
    /// An opaque or a string.
    Opaque(Option<u32>),
    Fixed(TypeRef<'s>, u32),
    /// An array, or an optional, which is encoded as an array of at most one element.
    Array(TypeRef<'s>, Option<u32>),
    /// A linked list.
    List(TypeRef<'s>),
    /// A struct or a union.
    Definition(TypeId),
}

impl<'s> Wire<'s> {
    /// Returns the type of the elements of an array or a list.
    pub(super) fn element(self) -> Option<TypeRef<'s>> {
        match self {
            Self::Fixed(element, _) | Self::Array(element, _) | Self::List(element) => {
                Some(element)
            }
            _ => None,
        }
    }
}

/// The values that a word can have.
#[derive(Clone, Copy, Debug)]
pub(super) enum WordValues<'s> {
    Signed,
    Unsigned,
    Bool,
    /// The members of an enum. An open enum also has other values.
    Members(&'s Enum),
}

impl WordValues<'_> {
    pub(super) fn contains(self, value: i32) -> bool {
        match self {
            Self::Signed | Self::Unsigned => true,
            Self::Bool => value == 0 || value == 1,
            Self::Members(body) => {
                body.open || body.members.iter().any(|member| member.value == value)
            }
        }
    }

    fn is_all(self) -> bool {
        match self {
            Self::Signed | Self::Unsigned => true,
            Self::Bool => false,
            Self::Members(body) => body.open,
        }
    }

    /// Returns the values, unless every word is one.
    pub(super) fn listed(self) -> Option<Vec<i32>> {
        match self {
            Self::Bool => Some(vec![0, 1]),
            Self::Members(body) if !body.open => {
                Some(body.members.iter().map(|member| member.value).collect())
            }
            Self::Signed | Self::Unsigned | Self::Members(_) => None,
        }
    }

    /// Returns true if `others` contains each of these values with the same meaning.
    pub(super) fn are_in(self, others: WordValues<'_>) -> bool {
        match (self, others) {
            // The upper half of the values has another meaning.
            (Self::Signed, WordValues::Unsigned) | (Self::Unsigned, WordValues::Signed) => false,
            _ if others.is_all() => true,
            (Self::Bool, _) => [0, 1].into_iter().all(|value| others.contains(value)),
            (Self::Members(body), _) if !body.open => body
                .members
                .iter()
                .all(|member| others.contains(member.value)),
            _ => false,
        }
    }
}

/// Returns the wire form of a type. Aliases are followed.
pub(super) fn wire<'s>(schema: &'s Schema, form: TypeRef<'s>) -> Wire<'s> {
    let mut form = form;
    loop {
        let ty = match form {
            TypeRef::Type(ty) => schema.resolve(ty),
            TypeRef::Definition(id) => match &schema.ty(id).kind {
                TypeDefKind::Alias(target) => schema.resolve(target),
                TypeDefKind::Enum(body) => return Wire::Word(WordValues::Members(body)),
                TypeDefKind::Struct(_) | TypeDefKind::Union(_) => return Wire::Definition(id),
            },
        };
        form = match ty {
            Type::Named(id) => TypeRef::Definition(*id),
            Type::Item(content) | Type::Nested(content) => TypeRef::Type(content),
            Type::Primitive(primitive) => return of_primitive(*primitive),
            Type::FixedOpaque(len) => return Wire::FixedOpaque(*len),
            Type::Opaque(max) | Type::String(max) => return Wire::Opaque(*max),
            Type::Fixed(element, len) => return Wire::Fixed(TypeRef::Type(element), *len),
            Type::Array(element, max) => return Wire::Array(TypeRef::Type(element), *max),
            Type::Optional(content) => return Wire::Array(TypeRef::Type(content), Some(1)),
            Type::Recursive(id) => return Wire::Array(TypeRef::Definition(*id), Some(1)),
            Type::List(element) => return Wire::List(TypeRef::Type(element)),
        };
    }
}

fn of_primitive<'s>(primitive: Primitive) -> Wire<'s> {
    match primitive {
        Primitive::I32 => Wire::Word(WordValues::Signed),
        Primitive::U32 => Wire::Word(WordValues::Unsigned),
        Primitive::Bool => Wire::Word(WordValues::Bool),
        other => Wire::Primitive(other),
    }
}

/// Returns the definition that a type consists of, if it is a named type.
pub(super) fn definition(form: TypeRef<'_>) -> Option<TypeId> {
    match form {
        TypeRef::Definition(id) => Some(id),
        TypeRef::Type(Type::Named(id)) => Some(*id),
        TypeRef::Type(Type::Nested(content) | Type::Item(content)) => match **content {
            Type::Named(id) => Some(id),
            _ => None,
        },
        TypeRef::Type(_) => None,
    }
}

/// Returns a type in XDR syntax, without the name of a field.
pub(super) fn describe(schema: &Schema, form: TypeRef<'_>) -> String {
    let bound = |max: Option<u32>| max.map(|max| max.to_string()).unwrap_or_default();
    let of = |ty| describe(schema, TypeRef::Type(ty));
    let ty = match form {
        TypeRef::Type(ty) => ty,
        TypeRef::Definition(id) => return schema.ty(id).name.clone(),
    };
    match ty {
        Type::Named(id) => schema.ty(*id).name.clone(),
        Type::Recursive(id) => format!("{} *", schema.ty(*id).name),
        Type::Item(content) | Type::Nested(content) => of(content),
        Type::Primitive(primitive) => name_of(*primitive).to_owned(),
        Type::FixedOpaque(len) => format!("opaque[{len}]"),
        Type::Opaque(max) => format!("opaque<{}>", bound(*max)),
        Type::String(max) => format!("string<{}>", bound(*max)),
        Type::Fixed(element, len) => format!("{}[{len}]", of(element)),
        Type::Array(element, max) => format!("{}<{}>", of(element), bound(*max)),
        Type::Optional(content) => format!("{} *", of(content)),
        Type::List(element) => format!("list of {}", of(element)),
    }
}

fn name_of(primitive: Primitive) -> &'static str {
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
