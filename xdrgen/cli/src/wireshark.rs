//! `xdrgen generate --wireshark TYPE`: writes a dissector in place of Rust.
//!
//! This module owns the order of the steps: documents are compiled, their diagnostics are reported,
//! and the dissector is generated and written only if there are no errors. `Dissector` owns the
//! text and the name of the file, and checks the names of the arguments. A file whose text does not
//! change is not written, so that its modification time stays.

use std::path::Path;
use std::process::ExitCode;

use xdrgen_build::Config;
use xdrgen_build::wireshark::Dissector;

use crate::args::WiresharkArgs;
use crate::{CommandError, check, say_documents, status};

/// Returns the dissector that the arguments request; `None` without `--wireshark`. (Clap rejects
/// the other arguments then.)
pub(crate) fn requested_dissector(arguments: WiresharkArgs) -> Option<Dissector> {
    let root_type = arguments.wireshark?;
    let mut dissector = Dissector::new(root_type);
    if let Some(name) = arguments.protocol {
        dissector = dissector.protocol(name);
    }
    if let Some(name) = arguments.payload {
        dissector = dissector.payload(name);
    }
    for (field, value) in arguments.expect {
        dissector = dissector.expect(field, value);
    }
    Some(dissector)
}

/// Compiles the documents, reports their diagnostics, and writes the dissector into a folder, which
/// is created if it does not exist. After errors in the documents nothing is written.
pub(crate) fn generate(
    config: &Config,
    dissector: &Dissector,
    folder: &Path,
    verbose: bool,
) -> Result<ExitCode, CommandError> {
    let compilation = config.check();
    if verbose {
        say_documents(&compilation);
    }
    check::report_to_stderr(&compilation)?;
    if compilation.has_errors() {
        return Ok(status(&compilation));
    }
    let generated = dissector.generate(compilation.schema());
    let text = generated.map_err(|error| CommandError::Usage(error.to_string()))?;
    let path = folder.join(dissector.file_name());
    let is_changed = !std::fs::read_to_string(&path).is_ok_and(|old| old == text);
    if is_changed {
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, &text))
            .map_err(|error| {
                let text = format!("`{}` can't be written: {error}", path.display());
                // Not of the error's own kind: a broken pipe is no failure of a command.
                CommandError::Output(std::io::Error::other(text))
            })?;
    }
    if verbose {
        let done = if is_changed { "wrote" } else { "unchanged:" };
        eprintln!("{done} {}", path.display());
    }
    Ok(status(&compilation))
}
