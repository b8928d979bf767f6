//! What a build script tells cargo.

use std::path::PathBuf;

use crate::compilation::Compilation;
use crate::config::{Config, Source};
use crate::report;

/// Prints which files to watch, and each diagnostic in a line. Outside a build script nobody reads it.
pub(crate) fn tell(config: &Config, compilation: &Compilation) {
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
