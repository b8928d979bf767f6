//! Lowers programs, versions and procedures (RFC 5531, section 12), and rejects equal numbers, and
//! equal XDR names of versions or procedures. `clashes` checks the Rust names of procedures.
//!
//! [`lower`] runs before `lists`, which rewrites the types of arguments and results. `stubs` and
//! `reply_items` set `idempotent` and `reply_items` later.

use std::collections::{HashMap, HashSet};

use crate::ast::{self, DefinitionKind};
use crate::check::Context;
use crate::check::lower::{origin, parameter, value};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Procedure, Program, Schema, Type, Version};
use crate::names;
use crate::source::Span;

/// Lowers the programs of all modules.
pub(crate) fn lower(context: &mut Context<'_, '_>, schema: &mut Schema) {
    for (module, input) in context.inputs.iter().enumerate() {
        // Modules may share a program number: NFSv3 and NFSv4 are versions of one program.
        let mut programs = Unique::new("program");
        for definition in input
            .specifications
            .iter()
            .flat_map(|(_, specification)| &specification.definitions)
        {
            if let DefinitionKind::Program(body) = &definition.kind {
                let lowered = program(context, module, definition, body, &mut programs);
                schema.modules[module].programs.push(lowered);
            }
        }
    }
}

/// Numbers and names that must be unique.
struct Unique {
    what: &'static str,
    numbers: HashMap<u32, Span>,
    names: HashMap<String, Span>,
}

impl Unique {
    fn new(what: &'static str) -> Self {
        Self {
            what,
            numbers: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// Evaluates a number. Returns zero on an error, which is reported.
    fn number(
        &mut self,
        context: &mut Context<'_, '_>,
        module: usize,
        written: &ast::ValueExpr,
    ) -> u32 {
        let Some(number) = value(context, module, written) else {
            return 0;
        };
        let Ok(number) = u32::try_from(number) else {
            let what = if number < 0 {
                "is negative"
            } else {
                "does not fit in 32 bits"
            };
            let message = format!("the {} number {number} {what}", self.what);
            context
                .diagnostics
                .report(Diagnostic::new(Code::InvalidNumber, written.span, message));
            return 0;
        };
        if let Some(first) = self.numbers.get(&number) {
            let message = format!("two {}s have the same number {number}", self.what);
            let diagnostic = Diagnostic::new(Code::DuplicateNumber, written.span, message)
                .label("again here")
                .note_at(*first, "first here");
            context.diagnostics.report(diagnostic);
        } else {
            self.numbers.insert(number, written.span);
        }
        number
    }

    /// Reports a name that occurred before.
    fn name(&mut self, context: &mut Context<'_, '_>, name: &ast::Ident) {
        if let Some(first) = self.names.get(&name.name) {
            let message = format!("two {}s are named `{}`", self.what, name.name);
            let diagnostic = Diagnostic::new(Code::DuplicateDefinition, name.span, message)
                .label("again here")
                .note_at(*first, "first here");
            context.diagnostics.report(diagnostic);
        } else {
            self.names.insert(name.name.clone(), name.span);
        }
    }
}

fn program(
    context: &mut Context<'_, '_>,
    module: usize,
    definition: &ast::Definition,
    body: &ast::ProgramBody,
    programs: &mut Unique,
) -> Program {
    let number = programs.number(context, module, &body.number);
    let mut unique = Unique::new("version");
    let versions = body
        .versions
        .iter()
        .map(|body| version(context, module, body, &mut unique))
        .collect();
    Program {
        name: definition.name.name.clone(),
        rust: names::module_name(&definition.name.name),
        span: definition.name.span,
        number,
        versions,
        origin: origin(context.sources, definition.span, definition.name.span),
    }
}

fn version(
    context: &mut Context<'_, '_>,
    module: usize,
    body: &ast::ProgramVersion,
    versions: &mut Unique,
) -> Version {
    versions.name(context, &body.name);
    let number = versions.number(context, module, &body.number);
    let written: Vec<&str> = body
        .procedures
        .iter()
        .map(|procedure| procedure.name.name.as_str())
        .collect();
    let prefix = names::common_prefix(&written).to_owned();
    let prefixes = if prefix.is_empty() {
        Vec::new()
    } else {
        vec![prefix]
    };
    let mut unique = Unique::new("procedure");
    let procedures = body
        .procedures
        .iter()
        .map(|body| procedure(context, module, body, &prefixes, &mut unique))
        .collect();
    Version {
        name: body.name.name.clone(),
        rust: names::module_name(&body.name.name),
        span: body.name.span,
        number,
        procedures,
    }
}

fn procedure(
    context: &mut Context<'_, '_>,
    module: usize,
    body: &ast::ProgramProcedure,
    prefixes: &[String],
    procedures: &mut Unique,
) -> Procedure {
    procedures.name(context, &body.name);
    let number = procedures.number(context, module, &body.number);
    let arguments: Vec<Type> = body
        .arguments
        .iter()
        .map(|written| parameter(context, module, written))
        .collect();
    let reply = body.reply.as_ref();
    let reply = reply.map(|written| parameter(context, module, written));
    Procedure {
        name: body.name.name.clone(),
        rust: names::type_name(&body.name.name, prefixes),
        method: names::field_name(&body.name.name, prefixes),
        span: body.name.span,
        number,
        argument_names: argument_names(&body.arguments),
        arguments,
        reply,
        idempotent: false,
        reply_items: Vec::new(),
        origin: origin(context.sources, body.span, body.name.span),
    }
}

/// Returns the names of a procedure's arguments in Rust: those of the document if all have one and
/// no two are equal, and otherwise `args`, or `arg1` and so on.
fn argument_names(arguments: &[ast::Parameter]) -> Vec<String> {
    let written = arguments.iter().map(|argument| argument.name.as_ref());
    let written: Option<Vec<String>> = written
        .map(|name| name.map(|name| names::field_name(&name.name, &[])))
        .collect();
    // The methods of a service have a parameter `cx`.
    let distinct = |names: &Vec<String>| {
        let mut seen = HashSet::from(["cx"]);
        names.iter().all(|name| seen.insert(name))
    };
    match (written.filter(distinct), arguments.len()) {
        (Some(names), _) => names,
        (None, 1) => vec!["args".to_owned()],
        (None, count) => (1..=count).map(|at| format!("arg{at}")).collect(),
    }
}
