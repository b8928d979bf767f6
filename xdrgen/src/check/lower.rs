//! Lowers types and constants from syntax to IR. `unions` adds the arms of unions, `programs` the
//! programs, `overlays` the overlays, and `sizes` the layouts.
//!
//! Types are lowered in the order of the symbol table, so that both have the same indexes. A
//! function that returns `None` or a placeholder has reported the defect, and its callers do not
//! report it again. The values of names come from `evaluate`, which has run before.

use std::collections::HashMap;

use crate::ast::{self, Declarator, DefinitionKind, Keyword, TypeKind};
use crate::check::Context;
use crate::check::evaluate::{builtin, not_a_number, undefined};
use crate::check::symbols::{SymbolKind, SymbolTable, TypeSource, TypeSyntax, primitive};
use crate::check::values::ValueId;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{
    Constant, ConstantValue, Discriminant, Enum, Field, Layout, Member, MemberAlias, ModuleDef,
    ModuleId, Origin, Primitive, Schema, Type, TypeDef, TypeDefKind, TypeId, Union,
};
use crate::names;
use crate::source::{SourceMap, Span};

/// Lowers all modules, without programs and overlays. Layouts are computed later.
pub(crate) fn lower(context: &mut Context<'_, '_>) -> Schema {
    let mut schema = Schema::default();
    for (at, input) in context.inputs.iter().enumerate() {
        let mut module = ModuleDef {
            path: input.path.clone(),
            shapes: input.shapes,
            owned_feature: input.owned_feature.clone(),
            serde_feature: input.serde_feature.clone(),
            ..ModuleDef::default()
        };
        for (text, specification) in &input.specifications {
            let document = context
                .sources
                .document(context.sources.text(*text).document());
            module.documents.push(document.title().to_owned());
            module.licenses.extend(
                specification
                    .license
                    .clone()
                    .filter(|license| !module.licenses.contains(license)),
            );
            let constants = specification
                .definitions
                .iter()
                .filter_map(|definition| constant(context, at, definition));
            module.constants.extend(constants.collect::<Vec<_>>());
        }
        schema.modules.push(module);
    }
    for (at, source) in context.symbols.types.iter().enumerate() {
        let ty = define(context, source);
        schema.types.push(ty);
        schema.modules[source.module]
            .types
            .push(TypeId(u32::try_from(at).unwrap_or(u32::MAX)));
    }
    // Typedefs are collected last; restore document order.
    let types = &schema.types;
    for module in &mut schema.modules {
        module.types.sort_by_key(|id| types[id.0 as usize].span);
    }
    schema
}

fn constant(
    context: &mut Context<'_, '_>,
    module: usize,
    definition: &ast::Definition,
) -> Option<Constant> {
    let name = &definition.name.name;
    let entry = context.symbols.lookup(context.inputs, module, name)?;
    if entry.span != definition.name.span {
        // The constant is repeated.
        return None;
    }
    let value = match (&definition.kind, entry.kind) {
        (DefinitionKind::Text { value, .. }, SymbolKind::Text) => {
            ConstantValue::Text(value.clone())
        }
        (DefinitionKind::Const { ty, value }, SymbolKind::Value(id)) => {
            number(context, module, (name, id), (ty.as_ref(), value))?
        }
        _ => return None,
    };
    let rust = names::screaming(names::strip(name, &context.inputs[module].strip));
    Some(Constant {
        name: name.clone(),
        rust,
        value,
        span: definition.name.span,
        origin: origin(context.sources, definition.span, definition.name.span),
    })
}

/// Returns the number of a constant, and its type.
fn number(
    context: &mut Context<'_, '_>,
    module: usize,
    (name, id): (&str, ValueId),
    (written, expression): (Option<&ast::TypeSpecifier>, &ast::ValueExpr),
) -> Option<ConstantValue> {
    let value = context.symbols.values.get(id)?;
    let ty = match written {
        Some(ty) => integer_type(context, module, ty)?,
        None => inferred_type(value),
    };
    // A number without a written type may have more than 64 bits.
    if written.is_some() && !ty.range().is_some_and(|range| range.contains(&value)) {
        let message = format!("the value {value} of `{name}` is out of the range of its type");
        context
            .diagnostics
            .report(Diagnostic::new(Code::OutOfRange, expression.span, message));
        return None;
    }
    Some(ConstantValue::Number { ty, value })
}

/// Returns the type of a constant without a written type: the first that can represent the value.
fn inferred_type(value: i128) -> Primitive {
    let order = [
        Primitive::U32,
        Primitive::I32,
        Primitive::U64,
        Primitive::I64,
    ];
    order
        .into_iter()
        .find(|ty| ty.range().is_some_and(|range| range.contains(&value)))
        .unwrap_or(Primitive::I64)
}

fn integer_type(
    context: &mut Context<'_, '_>,
    module: usize,
    ty: &ast::TypeSpecifier,
) -> Option<Primitive> {
    let found = match element(context, module, ty)? {
        Type::Primitive(primitive) if primitive.range().is_some() => Some(primitive),
        Type::Named(id) => resolve_integer(context, module, id),
        _ => None,
    };
    if found.is_none() {
        context.diagnostics.report(Diagnostic::new(
            Code::WrongKind,
            ty.span,
            "the type of a constant must be an integer",
        ));
    }
    found
}

/// Returns the integer type at the end of a chain of typedefs. The walk is bounded, so it
/// terminates in a cycle of typedefs, which another check reports.
fn resolve_integer(
    context: &mut Context<'_, '_>,
    module: usize,
    mut id: TypeId,
) -> Option<Primitive> {
    for _ in 0..context.symbols.types.len() {
        let TypeSyntax::Typedef(ast::Declaration {
            ty,
            declarator: Declarator::Plain,
            ..
        }) = context.symbols.ty(id).syntax
        else {
            return None;
        };
        match element(context, module, ty)? {
            Type::Primitive(primitive) => return primitive.range().is_some().then_some(primitive),
            Type::Named(next) => id = next,
            _ => return None,
        }
    }
    None
}

/// Returns the position of a definition, for its documentation.
pub(crate) fn origin(sources: &SourceMap, span: Span, name: Span) -> Origin {
    let location = sources.locate(name);
    Origin {
        document: sources.document_of(span).title().to_owned(),
        section: location
            .section
            .map(|section| (section.number.clone(), section.title.clone())),
        page: location.page,
        line: location.line,
        xdr: sources.slice(span).to_owned(),
    }
}

fn define(context: &mut Context<'_, '_>, source: &TypeSource<'_>) -> TypeDef {
    let module = source.module;
    let kind = match source.syntax {
        TypeSyntax::Typedef(declared) => TypeDefKind::Alias(declaration(context, module, declared)),
        TypeSyntax::SwappedTypedef(declared, ty) => {
            let element = named(context, module, ty, None).unwrap_or(UNKNOWN);
            let declarator = &declared.declarator;
            TypeDefKind::Alias(apply_declarator(context, module, declarator, element))
        }
        TypeSyntax::Enum(body) => TypeDefKind::Enum(enumeration(context, module, body)),
        TypeSyntax::Struct(body) => TypeDefKind::Struct(fields(context, module, body)),
        TypeSyntax::Union(body) => TypeDefKind::Union(union(context, module, body)),
    };
    TypeDef {
        module: ModuleId(u32::try_from(module).unwrap_or(u32::MAX)),
        name: source.name.clone(),
        rust: source.rust.clone(),
        span: source.name_span,
        origin: origin(context.sources, source.span, source.name_span),
        kind,
        external: None,
        layout: Layout::default(),
    }
}

/// A placeholder for an unresolved type. An error was reported, so it is never emitted.
const UNKNOWN: Type = Type::Primitive(Primitive::U32);

/// Returns the type of a declaration. If it is defective, the defect is reported and a placeholder
/// is returned.
pub(crate) fn declaration(
    context: &mut Context<'_, '_>,
    module: usize,
    declared: &ast::Declaration,
) -> Type {
    let ast::Declaration {
        span,
        ty,
        declarator,
        ..
    } = declared;
    declared_type(context, module, (ty, declarator), *span)
}

/// Returns the type of a procedure's argument or reply.
pub(crate) fn parameter(
    context: &mut Context<'_, '_>,
    module: usize,
    written: &ast::Parameter,
) -> Type {
    let ast::Parameter {
        span,
        ty,
        declarator,
        ..
    } = written;
    declared_type(context, module, (ty, declarator), *span)
}

fn declared_type(
    context: &mut Context<'_, '_>,
    module: usize,
    (ty, declarator): (&ast::TypeSpecifier, &Declarator),
    span: Span,
) -> Type {
    let length = |context: &mut Context<'_, '_>, value: &Option<ast::ValueExpr>| {
        value
            .as_ref()
            .and_then(|value| bound(context, module, value))
    };
    match (&ty.kind, declarator) {
        (TypeKind::Opaque | TypeKind::ZeroCopyOpaque, Declarator::Fixed(value)) => {
            Type::FixedOpaque(bound(context, module, value).unwrap_or_default())
        }
        (TypeKind::Opaque | TypeKind::ZeroCopyOpaque, Declarator::Variable(max)) => {
            Type::Opaque(length(context, max))
        }
        (TypeKind::String, Declarator::Variable(max)) => Type::String(length(context, max)),
        (TypeKind::String, Declarator::Fixed(value)) => {
            let message = "a string has a bound, not a fixed length";
            context.diagnostics.report(
                Diagnostic::new(Code::Syntax, span, message)
                    .label("write `<..>` instead of `[..]`"),
            );
            Type::String(bound(context, module, value))
        }
        // rpcgen reads a bare `string` as an unbounded one.
        (TypeKind::String, _) => Type::String(None),
        (TypeKind::Opaque | TypeKind::ZeroCopyOpaque, _) => {
            let message = "`opaque` needs a length: `opaque x[N]`, `opaque x<N>` or `opaque x<>`";
            context
                .diagnostics
                .report(Diagnostic::new(Code::Syntax, span, message));
            Type::Opaque(None)
        }
        _ => {
            let element = element(context, module, ty).unwrap_or(UNKNOWN);
            apply_declarator(context, module, declarator, element)
        }
    }
}

/// Applies a declarator to the type of one element.
fn apply_declarator(
    context: &mut Context<'_, '_>,
    module: usize,
    declarator: &Declarator,
    element: Type,
) -> Type {
    match declarator {
        Declarator::Plain => element,
        Declarator::Optional => Type::Optional(Box::new(element)),
        Declarator::Fixed(value) => Type::Fixed(
            Box::new(element),
            bound(context, module, value).unwrap_or_default(),
        ),
        Declarator::Variable(None) => Type::Array(Box::new(element), None),
        Declarator::Variable(Some(value)) => {
            Type::Array(Box::new(element), bound(context, module, value))
        }
    }
}

/// Returns the type of one element. Returns `None` if it cannot be resolved, which is reported.
pub(crate) fn element(
    context: &mut Context<'_, '_>,
    module: usize,
    ty: &ast::TypeSpecifier,
) -> Option<Type> {
    match &ty.kind {
        TypeKind::Named { name, keyword } => named(context, module, name, *keyword),
        TypeKind::Opaque | TypeKind::ZeroCopyOpaque => Some(Type::Opaque(None)),
        TypeKind::String => Some(Type::String(None)),
        kind => match primitive(kind) {
            Some(primitive) => Some(Type::Primitive(primitive)),
            None => context.symbols.inline(ty.span).map(Type::Named),
        },
    }
}

fn named(
    context: &mut Context<'_, '_>,
    module: usize,
    name: &ast::Ident,
    keyword: Option<Keyword>,
) -> Option<Type> {
    let entry = context.symbols.lookup(context.inputs, module, &name.name);
    match entry.map(|entry| (entry.kind, entry.span)) {
        Some((SymbolKind::Type(id), span)) => {
            if let Some((is, isnt)) =
                keyword.and_then(|keyword| mismatch(context.symbols, id, keyword))
            {
                let message = format!("`{}` is {is}, not {isnt}", name.name);
                let diagnostic = Diagnostic::new(Code::WrongKind, name.span, message)
                    .label("RFC 4506 has only the name")
                    .note_at(span, "defined here");
                context.diagnostics.report(diagnostic);
            }
            Some(Type::Named(id))
        }
        Some((SymbolKind::Value(_) | SymbolKind::Text, span)) => {
            let message = format!("`{}` is not a type", name.name);
            let diagnostic =
                Diagnostic::new(Code::WrongKind, name.span, message).note_at(span, "defined here");
            context.diagnostics.report(diagnostic);
            None
        }
        None => from_prelude(context, module, name),
    }
}

fn from_prelude(context: &mut Context<'_, '_>, module: usize, name: &ast::Ident) -> Option<Type> {
    if let Some(primitive) = context.inputs[module].prelude(&name.name) {
        let message = format!(
            "no document declares `{}`; the prelude supplies it",
            name.name
        );
        context
            .diagnostics
            .report(Diagnostic::new(Code::PreludeType, name.span, message));
        return Some(Type::Primitive(primitive));
    }
    let message = format!("no type is named `{}`", name.name);
    let found = Diagnostic::new(Code::UndefinedType, name.span, message).label("not defined");
    let (symbols, inputs) = (context.symbols, context.inputs);
    let found = symbols.explain(inputs, module, true, name, found);
    context.diagnostics.report(found);
    None
}

/// Returns the kind of a type and the kind of the keyword before its name, if they differ.
fn mismatch(
    symbols: &SymbolTable<'_>,
    id: TypeId,
    keyword: Keyword,
) -> Option<(&'static str, &'static str)> {
    let is = match symbols.ty(id).syntax {
        TypeSyntax::Enum(_) => "an enum",
        TypeSyntax::Struct(_) => "a struct",
        TypeSyntax::Union(_) => "a union",
        TypeSyntax::Typedef(_) | TypeSyntax::SwappedTypedef(..) => return None,
    };
    let says = match keyword {
        Keyword::Enum => "an enum",
        Keyword::Struct => "a struct",
        Keyword::Union => "a union",
    };
    (is != says).then_some((is, says))
}

/// Evaluates a number or a name. Returns `None` on an error, which is reported.
pub(crate) fn value(
    context: &mut Context<'_, '_>,
    module: usize,
    expression: &ast::ValueExpr,
) -> Option<i128> {
    match &expression.kind {
        ast::ValueExprKind::Number(number) => Some(*number),
        ast::ValueExprKind::Name(name) => {
            match resolve_name(context, module, name, expression.span) {
                Some(ResolvedName::Value(id)) => context.symbols.values.get(id),
                Some(ResolvedName::Builtin(value)) => Some(value),
                None => None,
            }
        }
        ast::ValueExprKind::Sum(name, sum) => {
            let name = ast::ValueExprKind::Name(name.clone());
            let (span, kind) = (expression.span, name);
            sum.of(value(context, module, &ast::ValueExpr { span, kind })?)
        }
    }
}

/// A name in the place of a value, resolved.
pub(crate) enum ResolvedName {
    /// A constant or an enum member.
    Value(ValueId),
    /// `TRUE` or `FALSE`.
    Builtin(i128),
}

pub(crate) fn resolve_name(
    context: &mut Context<'_, '_>,
    module: usize,
    name: &str,
    span: Span,
) -> Option<ResolvedName> {
    if let Some(found) = context.symbols.ambiguous(module, name, span) {
        context.diagnostics.report(found);
        return None;
    }
    match context.symbols.lookup(context.inputs, module, name) {
        Some(entry) => match entry.kind {
            SymbolKind::Value(id) => Some(ResolvedName::Value(id)),
            kind @ (SymbolKind::Type(_) | SymbolKind::Text) => {
                let found = not_a_number(name, kind, span, entry.span);
                context.diagnostics.report(found);
                None
            }
        },
        None => {
            let found = builtin(name).map(ResolvedName::Builtin);
            if found.is_none() {
                let diagnostic = undefined(context.symbols, context.inputs, module, name, span);
                context.diagnostics.report(diagnostic);
            }
            found
        }
    }
}

/// Evaluates a length, from 0 to 2^32 - 1 (RFC 4506, sections 4.9 to 4.13).
fn bound(context: &mut Context<'_, '_>, module: usize, length: &ast::ValueExpr) -> Option<u32> {
    let number = value(context, module, length)?;
    let bound = u32::try_from(number).ok();
    if bound.is_none() {
        let what = if number < 0 {
            "can't be negative"
        } else {
            "must fit in 32 bits"
        };
        let message = format!("a length {what}, but this is {number}");
        context
            .diagnostics
            .report(Diagnostic::new(Code::InvalidBound, length.span, message));
    }
    bound
}

fn enumeration(context: &mut Context<'_, '_>, module: usize, body: &ast::EnumBody) -> Enum {
    let shared: Vec<&str> = body
        .members
        .iter()
        .map(|member| member.name.name.as_str())
        .collect();
    let mut prefixes = vec![names::common_prefix(&shared).to_owned()];
    prefixes.retain(|prefix| !prefix.is_empty());
    prefixes.extend(context.inputs[module].strip.iter().cloned());
    let mut found = Enum::default();
    let mut first_of: HashMap<i32, usize> = HashMap::new();
    for member in &body.members {
        let Some(number) = member_value(context, module, member) else {
            continue;
        };
        let name = &member.name.name;
        let lowered = Member {
            name: name.clone(),
            rust: names::type_name(name, &prefixes),
            span: member.name.span,
            value: number,
        };
        match first_of.get(&number).copied() {
            Some(first) => {
                let message = format!(
                    "`{name}` has the same value as `{}`",
                    found.members[first].name
                );
                let diagnostic = Diagnostic::new(Code::DuplicateEnumValue, lowered.span, message)
                    .note_at(found.members[first].span, "first here");
                context.diagnostics.report(diagnostic);
                found.aliases.push(MemberAlias {
                    member: lowered,
                    first,
                });
            }
            None => {
                first_of.insert(number, found.members.len());
                found.members.push(lowered);
            }
        }
    }
    found
}

fn member_value(
    context: &mut Context<'_, '_>,
    module: usize,
    member: &ast::EnumMember,
) -> Option<i32> {
    let id = match context.symbols.scoped_member(member.name.span) {
        Some(id) => id,
        None => {
            let symbols = context.symbols;
            let entry = symbols.lookup(context.inputs, module, &member.name.name)?;
            let SymbolKind::Value(id) = entry.kind else {
                return None;
            };
            id
        }
    };
    // If two members have one name, which is reported, the second has no value of its own.
    if context.symbols.values.source(id).span != member.name.span {
        return None;
    }
    let number = context.symbols.values.get(id)?;
    let fits = i32::try_from(number).ok();
    if fits.is_none() {
        let span = member
            .value
            .as_ref()
            .map_or(member.name.span, |value| value.span);
        let message = format!(
            "the value {number} of `{}` does not fit in a signed 32-bit integer",
            member.name.name
        );
        context
            .diagnostics
            .report(Diagnostic::new(Code::OutOfRange, span, message));
    }
    fits
}

fn fields(context: &mut Context<'_, '_>, module: usize, body: &ast::StructBody) -> Vec<Field> {
    let mut found: Vec<Field> = Vec::new();
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for field in &body.fields {
        let name = &field.name.name;
        if let Some(first) = seen.get(name.as_str()) {
            let diagnostic = Diagnostic::new(
                Code::DuplicateField,
                field.name.span,
                format!("two fields are named `{name}`"),
            )
            .label("again here")
            .note_at(*first, "first here");
            context.diagnostics.report(diagnostic);
        } else {
            seen.insert(name, field.name.span);
        }
        let ty = declaration(context, module, field);
        let rust = names::field_name(name, &context.inputs[module].strip);
        found.push(Field {
            name: name.clone(),
            rust,
            span: field.name.span,
            ty,
        });
    }
    found
}

/// Lowers a union without its arms; `unions` adds the arms once all types are known.
fn union(context: &mut Context<'_, '_>, module: usize, body: &ast::UnionBody) -> Union {
    let name = &body.discriminant.name.name;
    Union {
        name: name.clone(),
        rust: names::field_name(name, &context.inputs[module].strip),
        discriminant: Discriminant::I32,
        arms: Vec::new(),
        default: None,
        takes_item: false,
        visited: false,
    }
}
