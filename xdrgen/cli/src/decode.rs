//! `xdrgen decode`: octets as a value of a type.

mod excerpt;
mod hex;

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use xdrgen_build::Schema;
use xdrgen_build::ir::{Type, TypeDefKind};
use xdrgen_build::value::{self, Limits, Node};

use crate::args::{Decode, Format, Input, Lints, Shown};
use crate::{Failure, input, print_to};

pub(crate) fn run(arguments: Decode) -> Result<ExitCode, Failure> {
    let Decode { file, ty, hex, prefix, elements, format, overlays, schema, settings, .. } = arguments;
    let input = Input { paths: schema, settings, lints: Lints::default() };
    let compilation = input::config(&input, None)?.check();
    if compilation.has_errors() {
        print_to(&mut io::stderr().lock(), &compilation, Format::Human, io::stderr().is_terminal())?;
        return Ok(ExitCode::FAILURE);
    }
    let schema = read_by(compilation.schema().clone(), &overlays)?;
    let Some(name) = ty else { return list(&schema) };
    let id = schema.find(&name).map_err(|error| Failure::Usage(format!("{error}; --list lists all types")))?;
    let octets = octets(file, hex)?;
    let decode = if prefix { value::decode_prefix } else { value::decode };
    let limits = Limits { elements, ..Limits::DEFAULT };
    match decode(&schema, &Type::Named(id), &octets, &limits) {
        Ok(node) => show(&node, octets.len(), format),
        Err(error) => {
            let s = if octets.len() == 1 { "" } else { "s" };
            eprint!("error: {error}\n{}", excerpt::around(&octets, error.offset));
            eprintln!("        = the input has {} octet{s}", octets.len());
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The schema with the overlays of these modules alone, or of all.
fn read_by(mut schema: Schema, modules: &[String]) -> Result<Schema, Failure> {
    if modules.is_empty() {
        return Ok(schema);
    }
    let path = |module: &xdrgen_build::ir::Module| module.path.join("::");
    let having: Vec<String> = schema.modules.iter().filter(|module| !module.overlays.is_empty()).map(path).collect();
    if let Some(other) = modules.iter().find(|module| !having.contains(module)) {
        let having = if having.is_empty() { "no module has".to_owned() } else { format!("{} have", having.join(", ")) };
        return Err(Failure::Usage(format!("no module `{other}` has overlays; {having}")));
    }
    for module in &mut schema.modules {
        if !modules.contains(&path(module)) {
            module.overlays.clear();
        }
    }
    Ok(schema)
}

/// All octets of a file or of the standard input.
fn octets(file: Option<PathBuf>, hex: bool) -> Result<Vec<u8>, Failure> {
    let file = file.filter(|file| file != Path::new("-"));
    let name = file.as_ref().map_or("the standard input".into(), |file| format!("`{}`", file.display()));
    let mut octets = Vec::new();
    let read = match &file {
        None => io::stdin().lock().read_to_end(&mut octets).map(|_| octets),
        Some(file) => std::fs::read(file),
    };
    let octets = read.map_err(|error| Failure::Usage(format!("{name} can't be read: {error}")))?;
    if !hex {
        return Ok(octets);
    }
    hex::parse(&octets).map_err(|error| Failure::Usage(format!("{name}, {error}")))
}

fn show(node: &Node<'_>, all: usize, format: Shown) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    match format {
        Shown::Json => writeln!(out, "{}", node.to_json())?,
        Shown::Human => {
            write!(out, "{node}")?;
            match all - node.length {
                0 => {}
                1 => writeln!(out, "{:>7}  1 octet follows", node.length)?,
                left => writeln!(out, "{:>7}  {left} octets follow", node.length)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Each type by its name in XDR, with what it is, and its path in Rust.
fn list(schema: &Schema) -> Result<ExitCode, Failure> {
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
            rows.push((schema.qualified_name(*id), kind, format!("{}::{}", module.path.join("::"), ty.rust)));
        }
    }
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut out = io::stdout().lock();
    for (name, kind, rust) in rows {
        writeln!(out, "{name:width$}  {kind:7}  {rust}")?;
    }
    Ok(ExitCode::SUCCESS)
}
