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

impl Error for OutputError {}

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

/// A number of things, as text: `1 call`, `2 calls`.
pub(crate) struct Count(pub(crate) u64, pub(crate) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        let plural = if *count == 1 { "" } else { "s" };
        write!(f, "{count} {what}{plural}")
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

#[cfg(test)]
mod tests {
    use rpcrdma_proto::connection::SessionCallError;
    use rpcrdma_proto::xdr::{Error as XdrError, ErrorKind};
    use rpcrdma_verbs::TransportError;
    use rpcrdma_verbs::driver::{
        BeginError, CallBuffers, ConnectError, DriverError, OutgoingCallError, OutgoingReplyError,
        WriteError,
    };
    use rpcrdma_verbs::memory::MemoryError;
    use rpcrdma_verbs::provider::{Cause, VerbError};

    use super::*;

    /// Returns true if the text of an error contains that of a source, so that a report with both
    /// repeats it.
    fn repeats_a_source(error: &(dyn Error + 'static)) -> bool {
        let mut chain = std::iter::successors(Some(error), |&error| error.source());
        let text = error.to_string();
        chain.any(|source| !std::ptr::addr_eq(source, error) && text.contains(&source.to_string()))
    }

    fn system() -> io::Error {
        io::Error::other("disk on fire")
    }

    fn verb() -> VerbError {
        VerbError {
            verb: "poll",
            cause: Cause::System(system()),
        }
    }

    #[test]
    fn one_thing_is_not_plural() {
        let counts = [0, 1, 2].map(|count| Count(count, "call").to_string());
        assert_eq!(counts, ["0 calls", "1 call", "2 calls"]);
    }

    #[test]
    fn no_error_repeats_its_source() {
        let xdr = WriteError::Xdr(XdrError::new(ErrorKind::TooLong, 4));
        let begin = BeginError {
            error: OutgoingCallError::Call(SessionCallError::Full),
            buffers: Box::<CallBuffers>::default(),
        };
        let mut errors: Vec<Box<dyn Error>> = vec![
            Box::new(verb()),
            Box::new(MemoryError::Device(verb())),
            Box::new(DriverError::Device(verb())),
            Box::new(DriverError::Memory(MemoryError::Device(verb()))),
            Box::new(ConnectError::Device(verb())),
            Box::new(ConnectError::Unresolved(system())),
            Box::new(TransportError::System(system())),
            Box::new(TransportError::Driver(verb().into())),
            Box::new(xdr),
            Box::new(OutgoingCallError::Write(xdr)),
            Box::new(OutgoingReplyError::Write(xdr)),
            Box::new(begin),
            Box::new(OutputError(system())),
        ];
        errors.extend(of_nfs());
        for error in errors {
            assert!(!repeats_a_source(&*error), "{error}");
        }
    }

    #[cfg(not(feature = "nfs"))]
    fn of_nfs() -> Vec<Box<dyn Error>> {
        Vec::new()
    }

    #[cfg(feature = "nfs")]
    fn of_nfs() -> Vec<Box<dyn Error>> {
        use oncrpc::{CallError, CallErrorKind, Execution, ProcedureId};
        use rpcrdma_nfs::RpcbindError;
        use rpcrdma_nfs::client::ClientError;

        let procedure = ProcedureId {
            program: 100_003,
            version: 3,
            number: 0,
            name: "NULL",
        };
        let call = || {
            let kind = CallErrorKind::Shutdown;
            CallError::new(procedure, "storage-1", kind, Execution::NotExecuted)
        };
        vec![
            Box::new(ClientError::Rpc(call())),
            Box::new(RpcbindError::Unreachable(system())),
        ]
    }
}
