//! Renders syntax as text in one canonical form, so that tests can compare it.

use crate::ast::{
    ArmBody, Declaration, Declarator, DefinitionKind, EnumBody, Keyword, Parameter,
    ProgramProcedure, Specification, StructBody, TypeKind, TypeSpecifier, UnionBody, ValueExpr,
    ValueExprKind,
};

/// Renders each definition on a line.
pub(super) fn specification(specification: &Specification) -> String {
    let definitions = specification.definitions.iter().map(|definition| {
        let name = &definition.name.name;
        match &definition.kind {
            DefinitionKind::Const { ty, value: number } => {
                let ty = ty
                    .as_ref()
                    .map(|ty| format!("{} ", specifier(ty)))
                    .unwrap_or_default();
                format!("const {ty}{name} = {};", value(number))
            }
            DefinitionKind::Text { value, .. } => format!("const {name} = {value:?};"),
            DefinitionKind::Typedef(declared) => format!("typedef {};", declaration(declared)),
            DefinitionKind::Enum(body) => format!("enum {name} {};", enumeration(body)),
            DefinitionKind::Struct(body) => format!("struct {name} {};", structure(body)),
            DefinitionKind::Union(body) => format!("union {name} {};", union(body)),
            DefinitionKind::Program(program) => {
                let versions = program.versions.iter().map(|version| {
                    let procedures: String = version.procedures.iter().map(procedure).collect();
                    format!(
                        "version {} {{ {procedures}}} = {}; ",
                        version.name.name,
                        value(&version.number)
                    )
                });
                format!(
                    "program {name} {{ {}}} = {};",
                    versions.collect::<String>(),
                    value(&program.number)
                )
            }
        }
    });
    definitions.collect::<Vec<_>>().join("\n")
}

fn procedure(procedure: &ProgramProcedure) -> String {
    let reply = procedure
        .reply
        .as_ref()
        .map_or("void".to_owned(), parameter);
    let arguments: Vec<String> = procedure.arguments.iter().map(parameter).collect();
    let arguments = if arguments.is_empty() {
        "void".to_owned()
    } else {
        arguments.join(", ")
    };
    format!(
        "{reply} {}({arguments}) = {}; ",
        procedure.name.name,
        value(&procedure.number)
    )
}

fn parameter(parameter: &Parameter) -> String {
    let name = parameter.name.as_ref();
    let name = name.map_or(String::new(), |name| format!(" {}", name.name));
    declared(&specifier(&parameter.ty), &name, &parameter.declarator)
}

fn value(value: &ValueExpr) -> String {
    match &value.kind {
        ValueExprKind::Number(number) => number.to_string(),
        ValueExprKind::Name(name) => name.clone(),
        ValueExprKind::Sum(name, sum) => sum.with_name(name),
    }
}

fn declaration(declaration: &Declaration) -> String {
    let name = format!(" {}", declaration.name.name);
    declared(&specifier(&declaration.ty), &name, &declaration.declarator)
}

fn declared(ty: &str, name: &str, declarator: &Declarator) -> String {
    match declarator {
        Declarator::Plain => format!("{ty}{name}"),
        Declarator::Optional => format!("{ty} *{}", name.trim_start()),
        Declarator::Fixed(size) => format!("{ty}{name}[{}]", value(size)),
        Declarator::Variable(bound) => format!(
            "{ty}{name}<{}>",
            bound.as_ref().map(value).unwrap_or_default()
        ),
    }
}

fn specifier(ty: &TypeSpecifier) -> String {
    match &ty.kind {
        TypeKind::Int => "int".to_owned(),
        TypeKind::UnsignedInt => "unsigned int".to_owned(),
        TypeKind::Hyper => "hyper".to_owned(),
        TypeKind::UnsignedHyper => "unsigned hyper".to_owned(),
        TypeKind::Float => "float".to_owned(),
        TypeKind::Double => "double".to_owned(),
        TypeKind::Quadruple => "quadruple".to_owned(),
        TypeKind::Bool => "bool".to_owned(),
        TypeKind::Opaque => "opaque".to_owned(),
        TypeKind::ZeroCopyOpaque => "zcopaque".to_owned(),
        TypeKind::String => "string".to_owned(),
        TypeKind::Named { name, keyword } => {
            let keyword = match keyword {
                Some(Keyword::Struct) => "struct ",
                Some(Keyword::Enum) => "enum ",
                Some(Keyword::Union) => "union ",
                None => "",
            };
            format!("{keyword}{}", name.name)
        }
        TypeKind::Enum(body) => format!("enum {}", enumeration(body)),
        TypeKind::Struct(body) => format!("struct {}", structure(body)),
        TypeKind::Union(body) => format!("union {}", union(body)),
    }
}

fn enumeration(body: &EnumBody) -> String {
    let members = body.members.iter().map(|member| match &member.value {
        Some(number) => format!("{} = {}", member.name.name, value(number)),
        None => member.name.name.clone(),
    });
    format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
}

fn structure(body: &StructBody) -> String {
    let fields: String = body
        .fields
        .iter()
        .map(|field| format!("{}; ", declaration(field)))
        .collect();
    format!("{{ {fields}}}")
}

fn union(body: &UnionBody) -> String {
    let mut arms = String::new();
    for arm in &body.arms {
        let cases: String = arm
            .cases
            .iter()
            .map(|case| format!("case {}: ", value(case)))
            .collect();
        arms += &format!("{cases}{} ", arm_body(&arm.body));
    }
    if let Some((_, default)) = &body.default {
        arms += &format!("default: {} ", arm_body(default));
    }
    format!("switch ({}) {{ {arms}}}", declaration(&body.discriminant))
}

fn arm_body(body: &ArmBody) -> String {
    match body {
        ArmBody::Void => "void;".to_owned(),
        ArmBody::Field(field) => format!("{};", declaration(field)),
    }
}
