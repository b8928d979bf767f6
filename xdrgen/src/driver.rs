//! What a build script calls, and what it tells cargo.

use std::path::PathBuf;

use crate::compilation::Compilation;
use crate::config::{Config, Source};
use crate::error::Error;
use crate::report;

impl Config {
    /// Reads and checks everything, and writes nothing.
    #[must_use]
    pub fn check(&self) -> Compilation {
        Compilation::run(self)
    }

    /// Compiles, as a build script does: writes one file for each module, and `xdrgen.rs` with the tree of them; tells
    /// cargo which files to watch; shows warnings and errors as cargo's own.
    ///
    /// ```text
    /// include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));
    /// ```
    ///
    /// # Errors
    /// A document has a defect, or a file can't be read or written. The error's text is the whole report.
    pub fn compile(&self) -> Result<(), Error> {
        let folder = match &self.out_dir {
            Some(folder) => folder.clone(),
            None => std::env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(Error::no_out_dir)?,
        };
        let compilation = self.check();
        tell(self, &compilation);
        compilation.write(&folder)
    }
}

/// Prints which files to watch, and each diagnostic in a line. Outside a build script nobody reads it.
fn tell(config: &Config, compilation: &Compilation) {
    if std::env::var_os("OUT_DIR").is_none() {
        return;
    }
    let documents = config.modules.iter().flat_map(|module| &module.documents).filter_map(Source::file);
    let settings = config.errata.iter().chain(&config.manifest).map(PathBuf::as_path);
    for file in documents.chain(settings) {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    for diagnostic in compilation.diagnostics() {
        let kind = if diagnostic.is_error() { "error" } else { "warning" };
        println!("cargo::{kind}={}", report::short(compilation.sources(), diagnostic));
    }
}
