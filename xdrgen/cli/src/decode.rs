//! `xdrgen decode`: shows bytes as a value of a type. `value` in `xdrgen-build` decodes and
//! renders; this module selects the schema, the overlays and the input.
//!
//! The schema must have no errors, because `value::decode` relies on that. The exit code is 1 for
//! bytes that are no value of the type, and the error is on standard error.

mod excerpt;
mod hex;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use xdrgen_build::Schema;
use xdrgen_build::ir::{Type, TypeDefKind};
use xdrgen_build::value::{self, Limits, Node};

use crate::args::{DecodeArgs, Input, Lints, ValueFormat};
use crate::{CommandError, check, input, say_documents};

pub(crate) fn run(arguments: DecodeArgs, verbose: bool) -> Result<ExitCode, CommandError> {
    let DecodeArgs {
        file,
        ty,
        hex,
        prefix,
        elements,
        format,
        overlays,
        schema,
        settings,
        ..
    } = arguments;
    let input = Input {
        paths: schema,
        settings,
        // No option sets the levels of lints. Those of the manifest hold.
        lints: Lints::default(),
    };
    let compilation = input::config(&input, None)?.check();
    if verbose {
        say_documents(&compilation);
    }
    if compilation.has_errors() {
        check::report_to_stderr(&compilation)?;
        return Ok(ExitCode::FAILURE);
    }
    let schema = keep_overlays(compilation.schema().clone(), &overlays)?;
    let Some(name) = ty else {
        return list(&schema, format);
    };
    let id = schema
        .find(&name)
        .map_err(|error| CommandError::Usage(format!("{error}; --list lists all types")))?;
    let bytes = read_input(file, hex)?;
    let decode = if prefix {
        value::decode_prefix
    } else {
        value::decode
    };
    let limits = Limits {
        elements,
        ..Limits::DEFAULT
    };
    match decode(&schema, &Type::Named(id), &bytes, &limits) {
        Ok(node) => show(&node, bytes.len(), format),
        Err(error) => {
            let s = if bytes.len() == 1 { "" } else { "s" };
            eprint!(
                "error: {error}\n{}",
                excerpt::hex_dump(&bytes, error.offset)
            );
            eprintln!("        = the input has {} byte{s}", bytes.len());
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Removes the overlays of all modules except the given ones. Without any, all overlays remain.
fn keep_overlays(mut schema: Schema, modules: &[String]) -> Result<Schema, CommandError> {
    if modules.is_empty() {
        return Ok(schema);
    }
    let path = |module: &xdrgen_build::ir::ModuleDef| module.path.join("::");
    let candidates: Vec<String> = schema
        .modules
        .iter()
        .filter(|module| !module.overlays.is_empty())
        .map(path)
        .collect();
    if let Some(other) = modules.iter().find(|module| !candidates.contains(module)) {
        let candidates = match candidates.as_slice() {
            [] => "no module has any".to_owned(),
            candidates => format!("{} have some", candidates.join(", ")),
        };
        return Err(CommandError::Usage(format!(
            "the module `{other}` has no overlays; {candidates}"
        )));
    }
    for module in &mut schema.modules {
        if !modules.contains(&path(module)) {
            module.overlays.clear();
        }
    }
    Ok(schema)
}

/// Reads a file or standard input.
fn read_input(file: Option<PathBuf>, hex: bool) -> Result<Vec<u8>, CommandError> {
    let file = file.filter(|file| file != Path::new("-"));
    let name = file.as_ref().map_or("standard input".into(), |file| {
        format!("`{}`", file.display())
    });
    let mut bytes = Vec::new();
    let read = match &file {
        None => io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes),
        Some(file) => std::fs::read(file),
    };
    let bytes =
        read.map_err(|error| CommandError::Usage(format!("{name} can't be read: {error}")))?;
    if !hex {
        return Ok(bytes);
    }
    hex::parse(&bytes).map_err(|error| CommandError::Usage(format!("{name}, {error}")))
}

fn show(node: &Node<'_>, all: usize, format: ValueFormat) -> Result<ExitCode, CommandError> {
    let mut out = io::stdout().lock();
    match format {
        ValueFormat::Json => writeln!(out, "{}", node.to_json())?,
        ValueFormat::Human => {
            write!(out, "{node}")?;
            match all - node.length {
                0 => {}
                1 => writeln!(out, "{:>7}  1 byte follows", node.length)?,
                left => writeln!(out, "{:>7}  {left} bytes follow", node.length)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints each type: its XDR name, its kind, and its Rust path.
fn list(schema: &Schema, format: ValueFormat) -> Result<ExitCode, CommandError> {
    let mut rows = Vec::new();
    for module in &schema.modules {
        for id in &module.types {
            let ty = schema.ty(*id);
            let kind = match ty.kind {
                TypeDefKind::Alias(_) => "typedef",
                TypeDefKind::Enum(_) => "enum",
                TypeDefKind::Struct(_) => "struct",
                TypeDefKind::Union(_) => "union",
            };
            rows.push((
                schema.qualified_name(*id),
                kind,
                format!("{}::{}", module.path.join("::"), ty.rust),
            ));
        }
    }
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut out = io::stdout().lock();
    for (name, kind, rust) in rows {
        match format {
            ValueFormat::Human => writeln!(out, "{name:width$}  {kind:7}  {rust}")?,
            ValueFormat::Json => {
                let line = json!({ "name": name, "kind": kind, "rust": rust });
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
