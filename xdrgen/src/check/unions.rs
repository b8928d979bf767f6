//! Lowers the arms of unions and checks discriminants, cases and names (RFC 4506, section 4.15).
//!
//! The emitters rely on the result: no two arms have one value, each value belongs to the
//! discriminant's type, and a default arm exists only if some value reaches the arm. A union of
//! `bool` has no default arm.

use std::collections::{HashMap, HashSet};

use crate::ast;
use crate::check::Context;
use crate::check::lower::{ResolvedName, declaration, resolve_name, value};
use crate::check::symbols::TypeSyntax;
use crate::check::values::ValueId;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arm, Content, Discriminant, Member, Primitive, Schema, Type, TypeDefKind, TypeId};
use crate::names;
use crate::source::Span;

/// Adds the arms of all unions. It runs after enums are opened and their members renamed, and
/// before `lists::find` adds types: until then, types have the same indexes in the symbol table and
/// in the schema.
pub(crate) fn lower(context: &mut Context<'_, '_>, schema: &mut Schema) {
    for at in 0..schema.types.len() {
        let source = &context.symbols.types[at];
        if let TypeSyntax::Union(body) = source.syntax {
            let (module, name) = (source.module, source.name_span);
            union(context, schema, module, at, body, name);
        }
    }
}

fn union(
    context: &mut Context<'_, '_>,
    schema: &mut Schema,
    module: usize,
    at: usize,
    body: &ast::UnionBody,
    name: Span,
) {
    let discriminant = discriminant(context, schema, module, body);
    if body.arms.is_empty() {
        let message = format!("the union `{}` has no arms", schema.types[at].name);
        let diagnostic = Diagnostic::new(Code::EmptyUnion, name, message)
            .label("RFC 4506 requires at least one `case`");
        context.diagnostics.report(diagnostic);
    }
    duplicate_names(context, body);
    let contents: Vec<Content> = body
        .arms
        .iter()
        .map(|arm| content(context, module, &arm.body))
        .collect();
    let default = body
        .default
        .as_ref()
        .map(|(_, arm)| content(context, module, arm));
    let mut arms = Vec::new();
    if let Some(discriminant) = discriminant {
        let mut cases = Cases {
            context,
            schema,
            module,
            discriminant,
            values: members_of(schema, discriminant)
                .iter()
                .map(|each| each.value)
                .collect(),
            seen: HashMap::new(),
        };
        for (arm, content) in body.arms.iter().zip(&contents) {
            for case in &arm.cases {
                arms.extend(cases.case(case).map(|value| (case, value, content.clone())));
            }
        }
        if body.default.is_none() {
            cases.report_missing(name);
        }
    }
    let mut arms: Vec<Arm> = arms
        .into_iter()
        .map(|(case, value, content)| arm(context, case, value, content))
        .collect();
    let default = default
        .and_then(|content| simplify_default(schema, discriminant, &mut arms, content, name));
    let names = arm_names(context, schema, module, discriminant, &arms);
    // It is no union if the configuration supplies its Rust type.
    if let TypeDefKind::Union(union) = &mut schema.types[at].kind {
        union.discriminant = discriminant.unwrap_or(Discriminant::I32);
        union.arms = arms;
        union.default = default;
        for (arm, rust) in union.arms.iter_mut().zip(names) {
            arm.rust = rust;
        }
    }
}

fn arm(context: &Context<'_, '_>, case: &ast::ValueExpr, value: u32, content: Content) -> Arm {
    let case_text = context.sources.slice(case.span).to_owned();
    Arm {
        case: case_text,
        rust: String::new(),
        span: case.span,
        value,
        content,
    }
}

/// Simplifies a default arm. For a bool it becomes an arm for the other value; if no value reaches
/// it, it is dropped. Values without a member reach that of an open enum.
fn simplify_default(
    schema: &Schema,
    discriminant: Option<Discriminant>,
    arms: &mut Vec<Arm>,
    content: Content,
    span: Span,
) -> Option<Content> {
    match discriminant? {
        Discriminant::Bool => {
            for (value, case) in [(0, "FALSE"), (1, "TRUE")] {
                if !arms.iter().any(|arm| arm.value == value) {
                    let (case, rust) = (case.to_owned(), String::new());
                    arms.push(Arm {
                        case,
                        rust,
                        span,
                        value,
                        content: content.clone(),
                    });
                }
            }
            None
        }
        Discriminant::Enum(id) => {
            let TypeDefKind::Enum(body) = &schema.ty(id).kind else {
                return Some(content);
            };
            let values: HashSet<u32> = arms.iter().map(|arm| arm.value).collect();
            let has_arm = |member: &Member| values.contains(&member.value.cast_unsigned());
            let left = !body.members.iter().all(has_arm);
            (left || body.open).then_some(content)
        }
        Discriminant::I32 | Discriminant::U32 => Some(content),
    }
}

/// Returns the type of a discriminant: `int`, `unsigned int`, `bool` or an enum (RFC 4506, section
/// 4.15).
fn discriminant(
    context: &mut Context<'_, '_>,
    schema: &Schema,
    module: usize,
    body: &ast::UnionBody,
) -> Option<Discriminant> {
    let ty = declaration(context, module, &body.discriminant);
    let found = match schema.resolve(&ty) {
        Type::Primitive(Primitive::I32) => Some(Discriminant::I32),
        Type::Primitive(Primitive::U32) => Some(Discriminant::U32),
        Type::Primitive(Primitive::Bool) => Some(Discriminant::Bool),
        Type::Named(id) if matches!(schema.ty(*id).kind, TypeDefKind::Enum(_)) => {
            Some(Discriminant::Enum(*id))
        }
        _ => None,
    };
    if found.is_none() {
        let written = context.sources.slice(body.discriminant.ty.span);
        let message = format!("`{written}` can't be the type of a discriminant");
        let diagnostic = Diagnostic::new(
            Code::InvalidDiscriminant,
            body.discriminant.ty.span,
            message,
        )
        .label("expected `int`, `unsigned int`, `bool` or an enum");
        context.diagnostics.report(diagnostic);
    }
    found
}

fn content(context: &mut Context<'_, '_>, module: usize, body: &ast::ArmBody) -> Content {
    match body {
        ast::ArmBody::Void => None,
        ast::ArmBody::Field(field) => {
            let ty = declaration(context, module, field);
            Some((field.name.name.clone(), ty))
        }
    }
}

/// Reports arms with equal names, and as a lint the first arm with the discriminant's name.
fn duplicate_names(context: &mut Context<'_, '_>, body: &ast::UnionBody) {
    let mut seen: HashMap<&str, Span> = HashMap::new();
    let discriminant = &body.discriminant.name;
    seen.insert(&discriminant.name, discriminant.span);
    for field in body.fields() {
        let name = field.name.name.as_str();
        match seen.get(name) {
            Some(first) => {
                let (code, message) = if *first == discriminant.span {
                    let what = "an arm of the union and the discriminant are both named";
                    (Code::DiscriminantName, format!("{what} `{name}`"))
                } else {
                    let message = format!("two arms of the union are named `{name}`");
                    (Code::DuplicateArm, message)
                };
                let diagnostic = Diagnostic::new(code, field.name.span, message)
                    .label("again here")
                    .note_at(*first, "first here");
                context.diagnostics.report(diagnostic);
                // Of two arms with the discriminant's name, the second is an error.
                if code == Code::DiscriminantName {
                    seen.insert(name, field.name.span);
                }
            }
            None => {
                seen.insert(name, field.name.span);
            }
        }
    }
}

/// Checks the cases of one union against its discriminant.
struct Cases<'x, 'a, 'c> {
    context: &'x mut Context<'a, 'c>,
    schema: &'x Schema,
    module: usize,
    discriminant: Discriminant,
    /// The values of the discriminant's enum.
    values: HashSet<i32>,
    seen: HashMap<u32, Span>,
}

impl Cases<'_, '_, '_> {
    /// Returns the encoded value of a case. Returns `None` on an error, which is reported.
    fn case(&mut self, case: &ast::ValueExpr) -> Option<u32> {
        let number = match self.scoped(case) {
            Some(id) => self.context.symbols.values.get(id)?,
            None => value(self.context, self.module, case)?,
        };
        if !self.check_value(case, number) {
            return None;
        }
        // The discriminant has 32 bits, and `check_value` checked that the number is in the range
        // of its type.
        let bits = i32::try_from(number)
            .map(i32::cast_unsigned)
            .ok()
            .or_else(|| u32::try_from(number).ok())?;
        if let Some(first) = self.seen.insert(bits, case.span) {
            let message = format!("two cases of the union have the value {number}");
            let diagnostic = Diagnostic::new(Code::DuplicateCase, case.span, message)
                .label("again here")
                .note_at(first, "first here");
            self.context.diagnostics.report(diagnostic);
            return None;
        }
        Some(bits)
    }

    /// Returns the member that a case names, if members are scoped by their enum.
    fn scoped(&self, case: &ast::ValueExpr) -> Option<ValueId> {
        match (&case.kind, self.discriminant) {
            (ast::ValueExprKind::Name(name), Discriminant::Enum(id)) => {
                self.context.symbols.member_of(id, name)
            }
            _ => None,
        }
    }

    /// Returns true if the value of a case is a value of the discriminant's type.
    fn check_value(&mut self, case: &ast::ValueExpr, number: i128) -> bool {
        let (fits, ty) = match self.discriminant {
            Discriminant::I32 => (
                Primitive::I32
                    .range()
                    .is_some_and(|range| range.contains(&number)),
                "int",
            ),
            Discriminant::U32 => (
                Primitive::U32
                    .range()
                    .is_some_and(|range| range.contains(&number)),
                "unsigned int",
            ),
            Discriminant::Bool => ((0..=1).contains(&number), "bool"),
            Discriminant::Enum(id) => return self.member(case, number, id),
        };
        if !fits {
            let message = format!("{number} is not a value of `{ty}`, the discriminant's type");
            self.context
                .diagnostics
                .report(Diagnostic::new(Code::ForeignCase, case.span, message));
        }
        fits
    }

    fn member(&mut self, case: &ast::ValueExpr, number: i128, id: TypeId) -> bool {
        let definition = self.schema.ty(id);
        let TypeDefKind::Enum(body) = &definition.kind else {
            return false;
        };
        let other = match &case.kind {
            _ if self.scoped(case).is_some() => None,
            ast::ValueExprKind::Name(name) => {
                match resolve_name(self.context, self.module, name, case.span) {
                    Some(ResolvedName::Value(value)) => self
                        .context
                        .symbols
                        .values
                        .source(value)
                        .parent_enum
                        .filter(|parent| *parent != id),
                    _ => None,
                }
            }
            ast::ValueExprKind::Number(_) | ast::ValueExprKind::Sum(..) => None,
        };
        let is_value = |number| self.values.contains(&number);
        let found = other.is_none() && i32::try_from(number).is_ok_and(is_value);
        if !found {
            let written = self.context.sources.slice(case.span);
            let message = format!(
                "`{written}` is not a member of `{}`, the discriminant's enum",
                definition.name
            );
            let mut diagnostic = Diagnostic::new(Code::ForeignCase, case.span, message).note_at(
                definition.span,
                format!("`{}` is defined here", definition.name),
            );
            let names = body.members.iter().map(|member| member.name.as_str());
            if let Some(near) = self.context.symbols.nearest_of(written, names) {
                diagnostic = diagnostic.fix(case.span, near, format!("a member `{near}` exists"));
            }
            self.context.diagnostics.report(diagnostic);
        }
        found
    }

    /// Reports members of the enum without an arm, which RFC 4506 allows.
    fn report_missing(&mut self, name: Span) {
        let Discriminant::Enum(id) = self.discriminant else {
            return;
        };
        let TypeDefKind::Enum(body) = &self.schema.ty(id).kind else {
            return;
        };
        let missing: Vec<&str> = body
            .members
            .iter()
            .filter(|member| !self.seen.contains_key(&member.value.cast_unsigned()))
            .map(|member| member.name.as_str())
            .collect();
        if !missing.is_empty() {
            let message = format!(
                "no arm for {}: these values are decode errors",
                list(&missing)
            );
            self.context
                .diagnostics
                .report(Diagnostic::new(Code::MissingArms, name, message));
        }
    }
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .take(5)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = names.len().saturating_sub(5);
    if more == 0 {
        quoted.join(", ")
    } else {
        format!("{} and {more} more", quoted.join(", "))
    }
}

/// Returns the members of a discriminant's enum.
fn members_of(schema: &Schema, discriminant: Discriminant) -> &[Member] {
    match discriminant {
        Discriminant::Enum(id) => match &schema.ty(id).kind {
            TypeDefKind::Enum(body) => &body.members,
            _ => &[],
        },
        _ => &[],
    }
}

/// Returns the variants' names: those of the enum's members, `True` and `False`, or the names of
/// the cases. The configuration may rename cases later.
fn arm_names(
    context: &Context<'_, '_>,
    schema: &Schema,
    module: usize,
    discriminant: Option<Discriminant>,
    arms: &[Arm],
) -> Vec<String> {
    let written: Vec<&str> = arms.iter().map(|arm| arm.case.as_str()).collect();
    let mut prefixes = vec![names::common_prefix(&written).to_owned()];
    prefixes.retain(|prefix| !prefix.is_empty());
    prefixes.extend(context.inputs[module].strip.iter().cloned());
    let members = discriminant.map_or(&[][..], |discriminant| members_of(schema, discriminant));
    let members: HashMap<u32, &Member> = members
        .iter()
        .map(|member| (member.value.cast_unsigned(), member))
        .collect();
    let name = |arm: &Arm| match discriminant {
        Some(Discriminant::Bool) => if arm.value == 0 { "False" } else { "True" }.to_owned(),
        Some(Discriminant::Enum(_)) => {
            let member = members.get(&arm.value);
            member.map_or_else(|| arm.case.clone(), |member| member.rust.clone())
        }
        _ if arm.case.starts_with('-') => format!("Minus{}", arm.case.trim_start_matches('-')),
        _ if arm.case.starts_with(|first: char| first.is_ascii_digit()) => format!("V{}", arm.case),
        _ => names::type_name(&arm.case, &prefixes),
    };
    arms.iter().map(name).collect()
}
