//! The command `xdrgen`: a thin front end of the library `xdrgen-build`. Each larger command has a
//! module, and the smaller ones are here.
//!
//! `exit_code` turns the failures of all commands into exit codes: 2 for invalid arguments, 1 for a
//! report or for output that cannot be written, and 0 for a pipe that the reader has closed.
//! Scripts rely on these codes. `--verbose` and errors use standard error, so that results stay
//! parseable.
#![forbid(unsafe_code)]

mod args;
mod check;
mod decode;
mod diff;
mod fmt;
mod input;
mod lsp;
mod replace;
mod shell;
mod wireshark;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use xdrgen_build::{Code, Compilation, Config, Level};

use args::{Cli, Command, ValueFormat};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return asked_or_wrong(&error),
    };
    exit_code(run(cli.command, cli.verbose))
}

/// Prints the requested help, or the error in the arguments.
fn asked_or_wrong(error: &clap::Error) -> ExitCode {
    match error.print() {
        Err(unwritten) if !error.use_stderr() => exit_code(Err(CommandError::Output(unwritten))),
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

/// Prints the reason for a failure on standard error, and returns the exit status.
fn exit_code(done: Result<ExitCode, CommandError>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(CommandError::Usage(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
        Err(CommandError::Report(report)) => {
            eprintln!("{report}");
            ExitCode::FAILURE
        }
        // The reader closed the pipe, as `head` does.
        Err(CommandError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(CommandError::Output(error)) => {
            eprintln!("error: the output can't be written: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The error of a command.
pub(crate) enum CommandError {
    /// Invalid arguments.
    Usage(String),
    /// The output cannot be written.
    Output(io::Error),
    /// A report of defects.
    Report(xdrgen_build::Error),
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

fn run(command: Command, verbose: bool) -> Result<ExitCode, CommandError> {
    match command {
        Command::Extract {
            files,
            prose,
            section,
        } => extract(&files, prose.then_some(section.as_slice())),
        Command::Check(arguments) => check::run(&arguments, verbose),
        Command::Generate {
            input,
            output,
            shape,
            module,
            strip,
            wireshark,
        } => {
            let naming = input::Naming {
                shape: shape.map(Into::into),
                module,
                strip,
            };
            let config = input::config(&input, Some(naming))?;
            match wireshark::requested_dissector(wireshark) {
                Some(dissector) => wireshark::generate(&config, &dissector, &output, verbose),
                None => generate(&config, &output, verbose),
            }
        }
        Command::Decode(arguments) => decode::run(arguments, verbose),
        Command::Diff(arguments) => diff::run(arguments, verbose),
        Command::Lsp(arguments) => lsp::run(arguments),
        Command::Fmt(arguments) => fmt::run(&arguments, verbose),
        Command::Lints {
            explain: Some(code),
            ..
        } => explain(code),
        Command::Lints { format, .. } => lints(format),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { dir } => shell::man(&dir),
    }
}

/// Prints the XDR of documents. With `prose`, prints the definitions in these sections of their
/// running text.
fn extract(
    files: &[std::path::PathBuf],
    prose: Option<&[String]>,
) -> Result<ExitCode, CommandError> {
    let mut out = io::stdout().lock();
    let mut failed = false;
    for file in files {
        let extracted = match prose {
            None => xdrgen_build::extract_file(file),
            Some(sections) => {
                say_blocks(file, sections);
                xdrgen_build::extract_prose(file, sections)
            }
        };
        match extracted {
            Ok(xdr) => out.write_all(xdr.as_bytes())?,
            Err(error) => {
                eprintln!("{error}");
                failed = true;
            }
        }
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints which definitions are taken from the running text of a document, and which text begins
/// like a definition and is not taken, for review.
fn say_blocks(file: &std::path::Path, sections: &[String]) {
    // An unreadable document is reported when it is extracted.
    let found = xdrgen_build::prose_blocks(file, sections).unwrap_or_default();
    let taken = found.taken.into_iter().map(|block| {
        let repeats = block.repeats;
        let repeats = repeats.map(|line| format!(" (as in line {line}, not taken)"));
        let what = block.names.join(", ") + &repeats.unwrap_or_default();
        (block.lines, block.section, what)
    });
    let rejected = found.rejected.into_iter().map(|block| {
        let what = format!("not taken: `{}`: {}", block.begin, block.reason);
        (block.lines, block.section, what)
    });
    let mut blocks: Vec<_> = taken.chain(rejected).collect();
    blocks.sort();
    for ((first, last), section, what) in blocks {
        let section = section.map(|section| format!("section {section}, "));
        let section = section.unwrap_or_default();
        let file = file.display();
        eprintln!("{file}: {section}lines {first} to {last}: {what}");
    }
}

/// Prints which documents were read.
pub(crate) fn say_documents(compilation: &Compilation) {
    for (_, document) in compilation.sources().documents() {
        eprintln!("read {}: {} lines", document.name(), document.line_count());
    }
}

fn generate(
    config: &Config,
    output: &std::path::Path,
    verbose: bool,
) -> Result<ExitCode, CommandError> {
    let compilation = config.check();
    if verbose {
        say_documents(&compilation);
    }
    check::report_to_stderr(&compilation)?;
    if !compilation.has_errors() {
        compilation.write(output).map_err(CommandError::Report)?;
        if verbose {
            for file in compilation.generate().map_err(CommandError::Report)? {
                eprintln!("wrote {}", output.join(file.name).display());
            }
        }
    }
    Ok(status(&compilation))
}

pub(crate) fn status(compilation: &Compilation) -> ExitCode {
    if compilation.has_errors() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// The documentation page of all codes.
const CODES: &str = include_str!("../lints.md");

/// Prints the section of the page for a code, with an example.
fn explain(code: Code) -> Result<ExitCode, CommandError> {
    let heading = format!("## `{code}`\n");
    let section = CODES.split_once(&heading).map(|(_, rest)| rest);
    let section = section.and_then(|rest| rest.split("\n## ").next());
    let mut out = io::stdout().lock();
    match section {
        Some(section) => writeln!(out, "{code}\n\n{}", section.trim())?,
        None => writeln!(out, "{code}\n\n{}", code.explanation())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn lints(format: ValueFormat) -> Result<ExitCode, CommandError> {
    let mut out = io::stdout().lock();
    for code in Code::ALL {
        let level = code.default_level().map_or("error", Level::name);
        let (name, meaning) = (code.name(), code.explanation());
        match format {
            ValueFormat::Human => writeln!(out, "{name:22} {level:6} {meaning}")?,
            ValueFormat::Json => {
                let line = json!({ "name": name, "level": level, "meaning": meaning });
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
