//! Shell completions and manual pages, for packagers of the command.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::output::OutputError;

#[derive(clap::Args)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints a script for the shell to source.
    pub(crate) fn run<C: CommandFactory>(&self) -> Result<(), Box<dyn Error>> {
        let mut script = Vec::new();
        let mut command = C::command();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        let mut out = io::stdout().lock();
        Ok(out.write_all(&script).map_err(OutputError::from)?)
    }
}

#[derive(clap::Args)]
pub(crate) struct Man {
    /// Folder for the pages, which is created if it does not exist.
    dir: PathBuf,
}

impl Man {
    /// Writes a page for the command, and one for each subcommand.
    pub(crate) fn run<C: CommandFactory>(&self) -> Result<(), Box<dyn Error>> {
        let failed = |error| format!("{}: {error}", self.dir.display());
        std::fs::create_dir_all(&self.dir).map_err(failed)?;
        let mut command = C::command().disable_help_subcommand(true);
        command.build();
        let version = format!("{} {}", command.get_name(), env!("CARGO_PKG_VERSION"));
        Ok(write_pages(&command, &version, &self.dir).map_err(failed)?)
    }
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
