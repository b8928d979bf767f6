//! Standard output, which may be a closed pipe or on a full disk, and the exit status.
//!
//! Subcommands print by `outln`, `print_event` or a writer, and not by `println`, which panics on a
//! closed pipe. An [`OutputError`] or [`UsageError`] must reach `failed` as this type: as text, it
//! loses its exit status (0 for a closed pipe, 2 for wrong arguments).

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;

/// The output can't be written.
#[derive(Debug)]
pub(crate) struct OutputError(io::Error);

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the output can't be written: {}", self.0)
    }
}

impl Error for OutputError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

/// The arguments contradict each other or themselves.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for UsageError {}

/// Writes a line to standard output.
pub(crate) fn line(text: fmt::Arguments<'_>) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    out.write_fmt(text)?;
    Ok(out.write_all(b"\n")?)
}

/// Works as `println!`, but returns an error from the calling function instead of a panic.
macro_rules! outln {
    ($($text:tt)*) => {
        $crate::output::line(format_args!($($text)*))?
    };
}
pub(crate) use outln;

/// Prints an event: a line of text, or a JSON object if `is_json`.
pub(crate) fn print_event(
    is_json: bool,
    text: fmt::Arguments<'_>,
    json: impl FnOnce() -> Value,
) -> Result<(), OutputError> {
    if is_json {
        line(format_args!("{}", json()))
    } else {
        line(text)
    }
}

/// Prints the error of a failed command on standard error, and returns its exit status.
pub(crate) fn failed(error: &(dyn Error + 'static)) -> ExitCode {
    if let Some(OutputError(error)) = error.downcast_ref()
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        // The reader needs no more output, as with `head`.
        return ExitCode::SUCCESS;
    }
    eprintln!("rpcrdma: {error}");
    if error.is::<UsageError>() {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}
