//! `xdrgen fmt`: formats XDR files. `xdrgen_build::format` decides the form. A file with a syntax
//! error stays as it is, and the others are formatted. `replace` writes a file, so that a change by
//! another program is not lost. With `--check` nothing is written to files or standard output.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use crate::args::FmtArgs;
use crate::{CommandError, replace};

/// The result for a file.
enum Outcome {
    Unchanged,
    Changed,
    Broken,
}

pub(crate) fn run(arguments: &FmtArgs, verbose: bool) -> Result<ExitCode, CommandError> {
    let mut failed = false;
    for file in &arguments.files {
        let outcome = if file.as_os_str() == "-" {
            standard_input(arguments.check)?
        } else {
            of_file(file, arguments.check)?
        };
        failed |= match outcome {
            Outcome::Unchanged => false,
            Outcome::Changed => {
                if arguments.check || verbose {
                    println_path(file)?;
                }
                arguments.check
            }
            Outcome::Broken => true,
        };
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints the path of a changed file on standard error, which leaves standard output to the texts.
fn println_path(file: &Path) -> Result<(), CommandError> {
    writeln!(io::stderr().lock(), "{}", file.display())?;
    Ok(())
}

fn of_file(file: &Path, check: bool) -> Result<Outcome, CommandError> {
    let name = file.to_string_lossy();
    let fault = |error: io::Error| CommandError::Usage(format!("`{name}` can't be read: {error}"));
    let old = fs::read_to_string(file).map_err(fault)?;
    let Some(new) = formatted(&name, &old) else {
        return Ok(Outcome::Broken);
    };
    if new == old {
        return Ok(Outcome::Unchanged);
    }
    if !check {
        replace::file(&name, &old, &new)?;
    }
    Ok(Outcome::Changed)
}

/// Formats standard input, and writes it to standard output.
fn standard_input(check: bool) -> Result<Outcome, CommandError> {
    let mut old = String::new();
    let fault = |error: io::Error| CommandError::Usage(format!("the input can't be read: {error}"));
    io::stdin().read_to_string(&mut old).map_err(fault)?;
    let Some(new) = formatted("-", &old) else {
        return Ok(Outcome::Broken);
    };
    if !check {
        io::stdout().lock().write_all(new.as_bytes())?;
    }
    Ok(if new == old {
        Outcome::Unchanged
    } else {
        Outcome::Changed
    })
}

/// Returns the formatted text, or reports the syntax errors.
fn formatted(name: &str, text: &str) -> Option<String> {
    match xdrgen_build::format(name, text) {
        Ok(text) => Some(text),
        Err(error) => {
            eprintln!("{error}");
            None
        }
    }
}
