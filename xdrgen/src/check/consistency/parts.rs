//! Flattens a definition into a list of parts to compare: members, fields, cases.

use crate::ast::{
    ArmBody, Declaration, Declarator, Definition, DefinitionKind, EnumBody, Parameter, ProgramBody,
    ProgramProcedure, StructBody, TypeKind, TypeSpecifier, UnionBody, ValueExpr, ValueExprKind,
};
use crate::source::Span;

/// A part of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The normalized content of the part.
    pub(super) key: String,
    /// The position.
    pub(super) span: Span,
}

/// Returns the parts of a definition. The first is its kind. If the definition has a body, no other
/// part contains its name.
pub(super) fn parts(definition: &Definition) -> Vec<Part> {
    let mut parts = Parts(Vec::new());
    let name = &definition.name;
    let head = Span {
        end: name.span.end.max(definition.span.start),
        ..definition.span
    };
    let mut begin = |kind: &str| parts.push(kind, head);
    match &definition.kind {
        DefinitionKind::Const { value, .. } => {
            begin("const");
            parts.push(
                &format!("{} = {}", name.name, number(value)),
                name.span.to(value.span),
            );
        }
        DefinitionKind::Text { value, span } => {
            begin("const");
            parts.push(&format!("{} = \"{value}\"", name.name), name.span.to(*span));
        }
        DefinitionKind::Typedef(declaration) => {
            begin("typedef");
            parts.declaration(declaration);
        }
        DefinitionKind::Enum(body) => {
            begin("enum");
            parts.enumeration(body);
        }
        DefinitionKind::Struct(body) => {
            begin("struct");
            parts.structure(body);
        }
        DefinitionKind::Union(body) => {
            begin("union");
            parts.union(body);
        }
        DefinitionKind::Program(program) => {
            begin("program");
            parts.program(program);
        }
    }
    parts.0
}

struct Parts(Vec<Part>);

impl Parts {
    fn push(&mut self, key: &str, span: Span) {
        self.0.push(Part {
            key: key.to_owned(),
            span,
        });
    }

    /// Adds a field, or the declaration of a typedef. The members of an inline body are separate
    /// parts.
    fn declaration(&mut self, declaration: &Declaration) {
        let declarator = declarator(declaration);
        let ty = &declaration.ty;
        let open = if matches!(
            ty.kind,
            TypeKind::Enum(_) | TypeKind::Struct(_) | TypeKind::Union(_)
        ) {
            self.push(&type_key(ty), ty.span);
            "}".to_owned()
        } else {
            type_key(ty)
        };
        match &ty.kind {
            TypeKind::Enum(body) => self.enumeration(body),
            TypeKind::Struct(body) => self.structure(body),
            TypeKind::Union(body) => self.union(body),
            _ => {}
        }
        self.push(&format!("{open} {declarator}"), declaration.span);
    }

    fn enumeration(&mut self, body: &EnumBody) {
        // The value of the previous member, as text and as a number if it is one.
        let mut last = ("-1".to_owned(), Some(-1));
        for member in &body.members {
            last = match &member.value {
                Some(value) => (number(value), integer(value)),
                None => match last.1.and_then(|last: i128| last.checked_add(1)) {
                    Some(next) => (next.to_string(), Some(next)),
                    None => (format!("{} + 1", last.0), None),
                },
            };
            let span = member
                .value
                .as_ref()
                .map_or(member.name.span, |value| member.name.span.to(value.span));
            self.push(&format!("{} = {}", member.name.name, last.0), span);
        }
    }

    fn structure(&mut self, body: &StructBody) {
        for field in &body.fields {
            self.declaration(field);
        }
    }

    fn union(&mut self, body: &UnionBody) {
        self.declaration(&body.discriminant);
        for arm in &body.arms {
            for case in &arm.cases {
                self.push(&format!("case {}", number(case)), case.span);
            }
            let last = arm
                .cases
                .last()
                .map_or(body.discriminant.span, |case| case.span);
            self.arm(&arm.body, last);
        }
        if let Some((span, arm)) = &body.default {
            self.push("default", *span);
            self.arm(arm, *span);
        }
    }

    fn arm(&mut self, body: &ArmBody, after: Span) {
        match body {
            ArmBody::Void => self.push("void", after),
            ArmBody::Field(declaration) => self.declaration(declaration),
        }
    }

    fn program(&mut self, program: &ProgramBody) {
        for version in &program.versions {
            for procedure in &version.procedures {
                self.push(&procedure_key(procedure), procedure.span);
            }
            let span = version.name.span.to(version.number.span);
            self.push(
                &format!(
                    "version {} = {}",
                    version.name.name,
                    number(&version.number)
                ),
                span,
            );
        }
        self.push(
            &format!("= {}", number(&program.number)),
            program.number.span,
        );
    }
}

fn integer(value: &ValueExpr) -> Option<i128> {
    match &value.kind {
        ValueExprKind::Number(number) => Some(*number),
        ValueExprKind::Name(_) | ValueExprKind::Sum(..) => None,
    }
}

fn number(value: &ValueExpr) -> String {
    match &value.kind {
        ValueExprKind::Number(number) => number.to_string(),
        ValueExprKind::Name(name) => name.clone(),
        ValueExprKind::Sum(name, sum) => sum.with_name(name),
    }
}

/// Formats `name`, `*name`, `name[3]`, `name<3>` or `name<>`.
fn declarator(declaration: &Declaration) -> String {
    with_declarator(&declaration.name.name, &declaration.declarator)
}

fn with_declarator(name: &str, declarator: &Declarator) -> String {
    match declarator {
        Declarator::Plain => name.to_owned(),
        Declarator::Optional => format!("*{name}"),
        Declarator::Fixed(length) => format!("{name}[{}]", number(length)),
        Declarator::Variable(None) => format!("{name}<>"),
        Declarator::Variable(Some(bound)) => format!("{name}<{}>", number(bound)),
    }
}

/// Returns the name of a type, or the keyword of an inline body.
fn type_key(ty: &TypeSpecifier) -> String {
    match &ty.kind {
        TypeKind::Int => "int",
        TypeKind::UnsignedInt => "unsigned int",
        TypeKind::Hyper => "hyper",
        TypeKind::UnsignedHyper => "unsigned hyper",
        TypeKind::Float => "float",
        TypeKind::Double => "double",
        TypeKind::Quadruple => "quadruple",
        TypeKind::Bool => "bool",
        TypeKind::Opaque | TypeKind::ZeroCopyOpaque => "opaque",
        TypeKind::String => "string",
        TypeKind::Named { name, .. } => &name.name,
        TypeKind::Enum(_) => "enum {",
        TypeKind::Struct(_) => "struct {",
        TypeKind::Union(_) => "union {",
    }
    .to_owned()
}

/// Returns the type of an argument or a reply. The name of an argument has no meaning.
fn parameter_key(parameter: &Parameter) -> String {
    let declarator = with_declarator("", &parameter.declarator);
    format!("{}{declarator}", type_key(&parameter.ty))
}

fn procedure_key(procedure: &ProgramProcedure) -> String {
    let reply = procedure
        .reply
        .as_ref()
        .map_or_else(|| "void".to_owned(), parameter_key);
    let arguments = procedure.arguments.iter().map(parameter_key);
    let arguments: Vec<String> = arguments.collect();
    format!(
        "{reply} {}({}) = {}",
        procedure.name.name,
        arguments.join(", "),
        number(&procedure.number)
    )
}
