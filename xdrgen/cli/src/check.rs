//! `xdrgen check`: reports the defects of documents, and repairs them. `generate`, `decode` and
//! `wireshark` print their reports through [`report_to_stderr`].
//!
//! For people, consequences of one defect are folded and the number of errors is limited. The other
//! formats have every diagnostic, unless `--max-errors` or `--quiet` is given. The exit code
//! depends on all diagnostics, printed or not.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use xdrgen_build::report;
use xdrgen_build::{Compilation, Config, Diagnostic, Style, useless_errata};

use crate::args::{CheckArgs, ReportFormat};
use crate::{CommandError, input, replace, say_documents, status};

pub(crate) fn run(arguments: &CheckArgs, verbose: bool) -> Result<ExitCode, CommandError> {
    let config = input::config(&arguments.input, None)?;
    let mut compilation = useless_errata(&config);
    if verbose {
        say_documents(&compilation);
    }
    if arguments.fix && fix(&compilation, arguments.quiet)? {
        compilation = useless_errata(&config);
    }
    let found = selected(compilation.diagnostics(), arguments);
    let mut out = io::stdout().lock();
    print(&mut out, &compilation, &found, arguments)?;
    let is_clean = compilation.diagnostics().is_empty();
    if arguments.format == ReportFormat::Human && is_clean && !arguments.quiet {
        writeln!(out, "{}", clean(&config))?;
    }
    out.flush()?;
    Ok(status(&compilation))
}

/// Returns the diagnostics to print. For people, diagnostics that follow from one defect are folded
/// into one.
fn selected(all: &[Diagnostic], arguments: &CheckArgs) -> Vec<Diagnostic> {
    let human = arguments.format == ReportFormat::Human;
    let max_errors = arguments.max_errors.or(human.then_some(report::MAX_ERRORS));
    let mut found = if human {
        report::folded(all)
    } else {
        all.to_vec()
    };
    report::limit(&mut found, max_errors);
    found.retain(|found| found.is_error() || !arguments.quiet);
    found
}

/// Prints diagnostics on standard output.
fn print(
    out: &mut impl Write,
    compilation: &Compilation,
    found: &[Diagnostic],
    arguments: &CheckArgs,
) -> Result<(), CommandError> {
    let sources = compilation.sources();
    match arguments.format {
        ReportFormat::Human if arguments.quiet => {
            let style = style(io::stdout().is_terminal());
            out.write_all(report::human(sources, found, style).as_bytes())?;
        }
        ReportFormat::Human => human(out, compilation, found, io::stdout().is_terminal())?,
        ReportFormat::Short => {
            for diagnostic in found {
                writeln!(out, "{}", report::short(sources, diagnostic))?;
            }
        }
        ReportFormat::Json => out.write_all(report::json(sources, found).as_bytes())?,
        ReportFormat::Sarif => out.write_all(report::sarif(sources, found).as_bytes())?,
        ReportFormat::Github => out.write_all(report::github(sources, found).as_bytes())?,
    }
    Ok(())
}

/// Prints diagnostics for people on standard error, in the form of a check without options.
pub(crate) fn report_to_stderr(compilation: &Compilation) -> Result<(), CommandError> {
    let (mut out, coloured) = (io::stderr().lock(), io::stderr().is_terminal());
    let mut found = report::folded(compilation.diagnostics());
    report::limit(&mut found, Some(report::MAX_ERRORS));
    human(&mut out, compilation, &found, coloured)
}

/// Prints diagnostics for people, and their total number.
fn human(
    out: &mut impl Write,
    compilation: &Compilation,
    found: &[Diagnostic],
    coloured: bool,
) -> Result<(), CommandError> {
    let report = report::human(compilation.sources(), found, style(coloured));
    out.write_all(report.as_bytes())?;
    let all = compilation.diagnostics();
    if !all.is_empty() {
        let hidden = all.len() - found.len();
        let hidden = match hidden {
            0 => String::new(),
            _ => format!(" ({} not shown)", count(hidden, "error")),
        };
        writeln!(out, "\n{}{hidden}", summary(all))?;
    }
    Ok(())
}

fn style(coloured: bool) -> Style {
    if coloured {
        Style::Coloured
    } else {
        Style::Plain
    }
}

/// Applies the suggested fixes, and prints which documents they change. Returns whether there were
/// any fixes.
fn fix(compilation: &Compilation, quiet: bool) -> Result<bool, CommandError> {
    let fixed = report::fixed_documents(compilation.sources(), compilation.diagnostics());
    for document in &fixed {
        replace::file(&document.name, &document.old, &document.new)?;
        if !quiet {
            let fixes = match document.fixes {
                1 => "1 fix".to_owned(),
                number => format!("{number} fixes"),
            };
            eprintln!("{}: {fixes}", document.name);
        }
    }
    Ok(!fixed.is_empty())
}

/// Returns `6 documents: no defects`.
fn clean(config: &Config) -> String {
    format!("{}: no defects", count(config.document_count(), "document"))
}

/// Returns `3 errors, 1 warning`.
fn summary(all: &[Diagnostic]) -> String {
    let errors = all.iter().filter(|found| found.is_error()).count();
    let warnings = count(all.len() - errors, "warning");
    format!("{}, {warnings}", count(errors, "error"))
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
