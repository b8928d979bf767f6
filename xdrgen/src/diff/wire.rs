//! Types as they are on the wire: without names, and with one form for what is encoded alike.

use crate::ir::{Enum, Primitive, Schema, Type, TypeDefKind, TypeId};

/// A type, or a definition.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form<'s> {
    Type(&'s Type),
    Definition(TypeId),
}

/// What is encoded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'s> {
    /// `int`, `unsigned int`, `bool` or an enum: one word.
    Word(Words<'s>),
    /// Another type without parts.
    Primitive(Primitive),
    FixedOpaque(u32),
    /// An opaque or a string.
    Opaque(Option<u32>),
    Fixed(Form<'s>, u32),
    /// An array, or an optional, which is one of at most one element.
    Array(Form<'s>, Option<u32>),
    /// A linked list.
    List(Form<'s>),
    /// A struct or a union.
    Definition(TypeId),
}

/// The values that a word can have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Words<'s> {
    Signed,
    Unsigned,
    Bool,
    /// The members of an enum, and whether others are values, too.
    Members(&'s Enum),
}

impl Words<'_> {
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

    /// Returns true if each of these values is one of others, with the same meaning.
    pub(super) fn are_in(self, others: Words<'_>) -> bool {
        match (self, others) {
            // The upper half has another meaning.
            (Self::Signed, Words::Unsigned) | (Self::Unsigned, Words::Signed) => false,
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

/// Returns what a form is on the wire. Aliases are followed.
pub(super) fn wire<'s>(schema: &'s Schema, form: Form<'s>) -> Wire<'s> {
    let mut form = form;
    loop {
        let ty = match form {
            Form::Type(ty) => schema.resolve(ty),
            Form::Definition(id) => match &schema.ty(id).kind {
                TypeDefKind::Alias(target) => schema.resolve(target),
                TypeDefKind::Enum(body) => return Wire::Word(Words::Members(body)),
                TypeDefKind::Struct(_) | TypeDefKind::Union(_) => return Wire::Definition(id),
            },
        };
        form = match ty {
            Type::Named(id) => Form::Definition(*id),
            Type::Item(content) | Type::Nested(content) => Form::Type(content),
            Type::Primitive(primitive) => return of_primitive(*primitive),
            Type::FixedOpaque(len) => return Wire::FixedOpaque(*len),
            Type::Opaque(max) | Type::String(max) => return Wire::Opaque(*max),
            Type::Fixed(element, len) => return Wire::Fixed(Form::Type(element), *len),
            Type::Array(element, max) => return Wire::Array(Form::Type(element), *max),
            Type::Optional(content) => return Wire::Array(Form::Type(content), Some(1)),
            Type::Recursive(id) => return Wire::Array(Form::Definition(*id), Some(1)),
            Type::List(element) => return Wire::List(Form::Type(element)),
        };
    }
}

fn of_primitive<'s>(primitive: Primitive) -> Wire<'s> {
    match primitive {
        Primitive::I32 => Wire::Word(Words::Signed),
        Primitive::U32 => Wire::Word(Words::Unsigned),
        Primitive::Bool => Wire::Word(Words::Bool),
        other => Wire::Primitive(other),
    }
}

/// Returns the name of a definition if a form is one by itself.
pub(super) fn definition(form: Form<'_>) -> Option<TypeId> {
    match form {
        Form::Definition(id) => Some(id),
        Form::Type(Type::Named(id)) => Some(*id),
        Form::Type(Type::Nested(content) | Type::Item(content)) => match **content {
            Type::Named(id) => Some(id),
            _ => None,
        },
        Form::Type(_) => None,
    }
}

/// Returns a form as XDR writes it, without the name of a field.
pub(super) fn describe(schema: &Schema, form: Form<'_>) -> String {
    let bound = |max: Option<u32>| max.map(|max| max.to_string()).unwrap_or_default();
    let of = |ty| describe(schema, Form::Type(ty));
    let ty = match form {
        Form::Type(ty) => ty,
        Form::Definition(id) => return schema.ty(id).name.clone(),
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
