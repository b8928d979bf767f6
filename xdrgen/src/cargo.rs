//! What a build script tells cargo.

use crate::compilation::Compilation;
use crate::config::Config;
use crate::report;

/// Prints which files to watch, and each diagnostic in a line. Outside a build script nobody reads it.
pub(crate) fn tell(config: &Config, compilation: &Compilation) {
    if std::env::var_os("OUT_DIR").is_none() {
        return;
    }
    let documents = config.modules.iter().flat_map(|module| &module.documents);
    for file in documents.chain(&config.errata).chain(&config.manifest) {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    for diagnostic in compilation.diagnostics() {
        let kind = if diagnostic.is_error() { "error" } else { "warning" };
        println!("cargo::{kind}={}", report::short(compilation.sources(), diagnostic));
    }
}
