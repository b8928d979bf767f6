//! The error type of the builder API.

use std::fmt;
use std::io;

use crate::diagnostic::Diagnostic;
use crate::report::{self, Style};
use crate::source::SourceMap;

/// A failed compilation. Both `Display` and `Debug` write the whole report, so that `main` of a
/// build script may return this error.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub(crate) fn of(sources: &SourceMap, diagnostics: &[Diagnostic]) -> Self {
        let errors = diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.is_error())
            .count();
        let report = report::human(sources, diagnostics, Style::Plain);
        let s = if errors == 1 { "" } else { "s" };
        Self(format!("{report}\n{errors} error{s}"))
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
