//! The entry points for a build script, and its output for cargo.
//!
//! `compilation` decides what a run reads and writes. Cargo runs a build script again only after a
//! change of a file that `print_directives` prints, so a setting that names another input file, or
//! another kind of file that `compilation` reads, needs a line there. `Config::compile` prints the
//! directives before it writes the files: cargo then watches the inputs of a failed compilation
//! too.

use std::path::PathBuf;

use crate::compilation::Compilation;
use crate::config::{Config, DocumentSource};
use crate::error::Error;
use crate::report;

impl Config {
    /// Reads and checks all documents, and writes nothing.
    #[must_use]
    pub fn check(&self) -> Compilation {
        Compilation::run(self)
    }

    /// Compiles all modules, for use in a build script. Writes one file for each module and
    /// `xdrgen.rs`, which includes them as a tree of modules. Prints the files for cargo to watch,
    /// and prints warnings and errors as cargo directives.
    ///
    /// ```text
    /// include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));
    /// ```
    ///
    /// # Errors
    /// Returns the whole report if a document has a defect or a file cannot be read or written.
    pub fn compile(&self) -> Result<(), Error> {
        let folder = match &self.out_dir {
            Some(folder) => folder.clone(),
            None => std::env::var_os("OUT_DIR")
                .map(PathBuf::from)
                .ok_or_else(Error::no_out_dir)?,
        };
        let compilation = self.check();
        print_directives(self, &compilation);
        compilation.write(&folder)
    }
}

/// Prints cargo directives: the files to watch, and each diagnostic on one line. Prints nothing
/// outside a build script.
fn print_directives(config: &Config, compilation: &Compilation) {
    if std::env::var_os("OUT_DIR").is_none() {
        return;
    }
    let documents = config
        .modules
        .iter()
        .flat_map(|module| &module.documents)
        .filter_map(DocumentSource::file);
    let settings = config
        .errata
        .iter()
        .chain(&config.manifest)
        .map(PathBuf::as_path);
    let included = compilation.included().iter().map(PathBuf::as_path);
    for file in documents.chain(settings).chain(included) {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    for diagnostic in compilation.diagnostics() {
        let kind = if diagnostic.is_error() {
            "error"
        } else {
            "warning"
        };
        println!(
            "cargo::{kind}={}",
            report::short(compilation.sources(), diagnostic)
        );
    }
}
