//! Shell completions and manual pages, for packagers of the command.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;
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
    let written =
        std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    written?;
    Ok(ExitCode::SUCCESS)
}
