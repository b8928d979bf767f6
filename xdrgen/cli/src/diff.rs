//! `xdrgen diff`: prints the changes between two revisions. `diff` in `xdrgen-build` finds and
//! renders them. The exit code is 0 if no change is breaking, 1 if one is, and 2 for documents with
//! errors: a schema with errors is never compared. Options for documents do not apply to a folder,
//! whose manifest has settings of its own.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use xdrgen_build::diff::{self, Class};
use xdrgen_build::{Compilation, Style};

use crate::args::{DiffArgs, Input, Lints, Settings, ValueFormat};
use crate::{CommandError, input, say_documents};

/// The exit code for documents with errors, as for invalid arguments.
const TROUBLE: u8 = 2;

pub(crate) fn run(arguments: DiffArgs, verbose: bool) -> Result<ExitCode, CommandError> {
    let DiffArgs {
        old,
        new,
        errata,
        include,
        prelude,
        format,
    } = arguments;
    let compile = |path: PathBuf| {
        let is_folder = path.is_dir();
        let settings = Settings {
            manifest: None,
            // The errata of a folder are in its manifest.
            errata: if is_folder {
                Vec::new()
            } else {
                errata.clone()
            },
            no_errata: false,
            include: if is_folder {
                Vec::new()
            } else {
                include.clone()
            },
            prelude: if is_folder {
                Vec::new()
            } else {
                prelude.clone()
            },
        };
        let input = Input {
            paths: vec![path],
            settings,
            lints: Lints::default(),
        };
        input::config(&input, None).map(|config| config.check())
    };
    let [old, new] = [compile(old)?, compile(new)?];
    for compilation in [&old, &new] {
        if verbose {
            say_documents(compilation);
        }
    }
    let broken: Vec<&Compilation> = [&old, &new]
        .into_iter()
        .filter(|side| side.has_errors())
        .collect();
    for compilation in &broken {
        let style = if io::stderr().is_terminal() {
            Style::Coloured
        } else {
            Style::Plain
        };
        eprint!("{}", compilation.report(style));
    }
    if !broken.is_empty() {
        return Ok(ExitCode::from(TROUBLE));
    }
    print(&old, &new, format)
}

fn print(
    old: &Compilation,
    new: &Compilation,
    format: ValueFormat,
) -> Result<ExitCode, CommandError> {
    let changes = diff::diff(old.schema(), new.schema());
    let mut out = io::stdout().lock();
    let text = match format {
        ValueFormat::Human => diff::text(&changes, old.sources(), new.sources()),
        ValueFormat::Json => diff::json(&changes, old.sources(), new.sources()),
    };
    out.write_all(text.as_bytes())?;
    let count = |class| {
        changes
            .iter()
            .filter(|change| change.class == class)
            .count()
    };
    let breaking = count(Class::Breaking);
    if format == ValueFormat::Human {
        if changes.is_empty() {
            writeln!(out, "no changes")?;
        } else {
            let (extending, compatible) = (count(Class::Extending), count(Class::Compatible));
            writeln!(
                out,
                "{breaking} breaking, {extending} extending, {compatible} compatible"
            )?;
        }
    }
    Ok(if breaking == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
