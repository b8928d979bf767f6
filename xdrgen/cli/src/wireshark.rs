//! `xdrgen generate --wireshark`: writes a dissector.

use std::path::Path;
use std::process::ExitCode;

use xdrgen_build::Config;
use xdrgen_build::wireshark::Dissector;

use crate::args::WiresharkArgs;
use crate::{CommandError, check, say_documents, status};

/// Returns the dissector that the arguments request.
pub(crate) fn dissector(arguments: WiresharkArgs) -> Option<Dissector> {
    let mut dissector = Dissector::new(arguments.wireshark?);
    if let Some(name) = arguments.protocol {
        dissector = dissector.protocol(name);
    }
    if let Some(name) = arguments.payload {
        dissector = dissector.payload(name);
    }
    let expected = arguments.expect.into_iter();
    Some(expected.fold(dissector, |dissector, (field, value)| {
        dissector.expect(field, value)
    }))
}

/// Writes the file into a folder, which is created if it does not exist.
pub(crate) fn write(
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
    let same = std::fs::read_to_string(&path).is_ok_and(|old| old == text);
    if !same {
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, &text))
            .map_err(|error| {
                let error = format!("`{}` can't be written: {error}", path.display());
                CommandError::Output(std::io::Error::other(error))
            })?;
    }
    if verbose {
        eprintln!("wrote {}", path.display());
    }
    Ok(status(&compilation))
}
