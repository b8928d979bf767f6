//! Shell completions and manual pages, for packagers of the command.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

use clap::CommandFactory;
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
        let mut out = std::io::stdout().lock();
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
        Ok(clap_mangen::generate_to(C::command(), &self.dir).map_err(failed)?)
    }
}
