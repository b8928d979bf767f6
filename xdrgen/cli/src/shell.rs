//! Shell completions and manual pages, for packagers of the command. Both commands are hidden from
//! `--help`. The texts come from `args`. The file names (`xdrgen-check.1`) are those that `man`
//! expects.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::CommandError;
use crate::args::Cli;

/// Prints a script that the shell sources.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "xdrgen", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages to a folder.
pub(crate) fn man(dir: &Path) -> Result<ExitCode, CommandError> {
    std::fs::create_dir_all(dir)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let version = concat!("xdrgen ", env!("CARGO_PKG_VERSION"));
    write_pages(&command, version, dir)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for a command, and one for each of its subcommands that is not hidden.
fn write_pages(command: &Command, version: &str, dir: &Path) -> io::Result<()> {
    let subcommands = command.get_subcommands();
    for subcommand in subcommands.filter(|subcommand| !subcommand.is_hide_set()) {
        write_pages(subcommand, version, dir)?;
    }
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    // clap_mangen omits an empty date, and the next argument takes its place.
    let title = format!(".TH {name} 1 \"\" \"{version}\" \"User Commands\"");
    let page = String::from_utf8_lossy(&page);
    let lines = page.lines().map(|line| match line.starts_with(".TH ") {
        true => &title,
        false => line,
    });
    let page: String = lines.flat_map(|line| [line, "\n"]).collect();
    std::fs::write(dir.join(format!("{name}.1")), page)
}
