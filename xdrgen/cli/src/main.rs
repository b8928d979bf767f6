//! The command `xdrgen`: a thin front end of the library `xdrgen-build`.
#![forbid(unsafe_code)]

mod args;
mod decode;
mod input;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use xdrgen_build::{Code, Compilation, Config, Diagnostic, Level, Style, report, useless_errata};

use args::{Cli, Command, ReportFormat};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Report(report)) => {
            eprintln!("{report}");
            ExitCode::FAILURE
        }
        // The reader closed the pipe, as `head` does.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => {
            eprintln!("error: the output can't be written: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The reason for a failure.
pub(crate) enum Failure {
    /// Invalid arguments.
    Usage(String),
    /// The output cannot be written.
    Output(io::Error),
    /// A report of defects.
    Report(xdrgen_build::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Extract { files } => extract(&files),
        Command::Check { input, format } => {
            let config = input::config(&input, None)?;
            let compilation = useless_errata(&config);
            print(&compilation, format)?;
            if format == ReportFormat::Human && compilation.diagnostics().is_empty() {
                writeln!(io::stdout(), "{}", clean(&config))?;
            }
            Ok(status(&compilation))
        }
        Command::Generate {
            input,
            output,
            shape,
            module,
            strip,
        } => {
            let naming = input::Naming {
                shape: shape.map(Into::into),
                module,
                strip,
            };
            generate(&input::config(&input, Some(naming))?, &output)
        }
        Command::Decode(arguments) => decode::run(arguments),
        Command::Lints => lints(),
    }
}

fn extract(files: &[std::path::PathBuf]) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    let mut failed = false;
    for file in files {
        match xdrgen_build::extract_file(file) {
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

fn generate(config: &Config, output: &std::path::Path) -> Result<ExitCode, Failure> {
    let compilation = config.check();
    print_to(
        &mut io::stderr().lock(),
        &compilation,
        ReportFormat::Human,
        io::stderr().is_terminal(),
    )?;
    if !compilation.has_errors() {
        compilation.write(output).map_err(Failure::Report)?;
    }
    Ok(status(&compilation))
}

fn print(compilation: &Compilation, format: ReportFormat) -> Result<(), Failure> {
    let coloured = io::stdout().is_terminal();
    print_to(&mut io::stdout().lock(), compilation, format, coloured)
}

fn print_to(
    out: &mut impl Write,
    compilation: &Compilation,
    format: ReportFormat,
    coloured: bool,
) -> Result<(), Failure> {
    let (sources, found) = (compilation.sources(), compilation.diagnostics());
    match format {
        ReportFormat::Human => {
            let style = if coloured {
                Style::Coloured
            } else {
                Style::Plain
            };
            out.write_all(report::human(sources, found, style).as_bytes())?;
            if !found.is_empty() {
                writeln!(out, "\n{}", summary(found))?;
            }
        }
        ReportFormat::Short => {
            for diagnostic in found {
                writeln!(out, "{}", report::short(sources, diagnostic))?;
            }
        }
        ReportFormat::Json => out.write_all(report::json(sources, found).as_bytes())?,
    }
    Ok(())
}

/// Returns `6 documents: no defects`.
fn clean(config: &Config) -> String {
    let documents = config.document_count();
    let s = if documents == 1 { "" } else { "s" };
    format!("{documents} document{s}: no defects")
}

/// Returns `3 errors, 1 warning`.
fn summary(found: &[Diagnostic]) -> String {
    let errors = found
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .count();
    let count = |number: usize, what: &str| {
        format!("{number} {what}{}", if number == 1 { "" } else { "s" })
    };
    format!(
        "{}, {}",
        count(errors, "error"),
        count(found.len() - errors, "warning")
    )
}

fn status(compilation: &Compilation) -> ExitCode {
    if compilation.has_errors() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn lints() -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    for code in Code::ALL {
        let level = code.default_level().map_or("error", Level::name);
        writeln!(out, "{:22} {level:6} {}", code.name(), code.explanation())?;
    }
    Ok(ExitCode::SUCCESS)
}
