//! The error of the builder API: one finished report, for people.
//!
//! The compilation, the formatter, the manifest and the driver of build scripts create it. A build
//! script returns it from `main`, and cargo prints it by `Debug`: so `Debug` equals `Display`, and
//! the report has no colours.

use std::fmt;
use std::io;

use crate::diagnostic::Diagnostic;
use crate::report::{self, MAX_ERRORS, Style};
use crate::source::SourceMap;

/// A failed compilation. Both `Display` and `Debug` write the whole report, so that `main` of a
/// build script may return this error.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// Creates the error of diagnostics of which at least one is an error. The report folds and
    /// limits them as `xdrgen check` does: it has at most [`MAX_ERRORS`] errors, all warnings, and
    /// the number of errors that are not shown, also of those that were folded.
    pub(crate) fn of(sources: &SourceMap, diagnostics: &[Diagnostic]) -> Self {
        let errors = |all: &[Diagnostic]| all.iter().filter(|found| found.is_error()).count();
        let mut shown = report::folded(diagnostics);
        report::limit(&mut shown, Some(MAX_ERRORS));
        let total = errors(diagnostics);
        let plural = if total == 1 { "" } else { "s" };
        let hidden = match total - errors(&shown) {
            0 => String::new(),
            hidden => format!(" ({hidden} not shown)"),
        };
        let report = report::human(sources, &shown, Style::Plain);
        Self(format!("{report}\n{total} error{plural}{hidden}"))
    }

    /// Creates the error of a manifest that cannot be read.
    pub(crate) fn unreadable(name: &str, error: &io::Error) -> Self {
        Self(format!("error: `{name}` can't be read: {error}"))
    }

    /// Creates the error of a file or folder that cannot be written.
    pub(crate) fn unwritable(name: &str, error: &io::Error) -> Self {
        Self(format!("error: `{name}` can't be written: {error}"))
    }

    /// Creates the error of a compilation for which neither `OUT_DIR` nor
    /// [`Config::out_dir`](crate::Config::out_dir) names a folder.
    pub(crate) fn no_out_dir() -> Self {
        Self("error: no folder to write to: outside a build script, call `out_dir`".to_owned())
    }

    /// Creates the error of generated code that is not valid Rust.
    pub(crate) fn invalid_rust(message: &str) -> Self {
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
