//! The error type of the builder API.

use std::fmt;
use std::io;

use crate::diagnostic::Diagnostic;
use crate::report::{self, Style};
use crate::source::SourceMap;

/// The number of errors that a report shows; the others are counted.
const MAX_ERRORS: usize = 20;

/// A failed compilation. Both `Display` and `Debug` write the whole report, so that `main` of a
/// build script may return this error.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// Creates the error of a failed compilation. Its report has [`MAX_ERRORS`] errors at most.
    pub(crate) fn of(sources: &SourceMap, diagnostics: &[Diagnostic]) -> Self {
        let errors = diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.is_error())
            .count();
        let mut shown = report::folded(diagnostics);
        let mut count = 0;
        shown.retain(|found| {
            count += usize::from(found.is_error());
            count <= MAX_ERRORS
        });
        let report = report::human(sources, &shown, Style::Plain);
        let s = if errors == 1 { "" } else { "s" };
        let hidden = match count.checked_sub(MAX_ERRORS) {
            None | Some(0) => String::new(),
            Some(hidden) => format!(" ({hidden} not shown)"),
        };
        Self(format!("{report}\n{errors} error{s}{hidden}"))
    }

    pub(crate) fn unreadable(name: &str, error: &io::Error) -> Self {
        Self(format!("error: `{name}` can't be read: {error}"))
    }

    pub(crate) fn unwritable(name: &str, error: &io::Error) -> Self {
        Self(format!("error: `{name}` can't be written: {error}"))
    }

    pub(crate) fn no_out_dir() -> Self {
        Self("error: no folder to write to: outside a build script, call `out_dir`".to_owned())
    }

    pub(crate) fn emitted(message: &str) -> Self {
        Self(format!(
            "error: xdrgen-build emitted invalid Rust (this is a bug in xdrgen-build): {message}"
        ))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
