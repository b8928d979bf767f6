//! Compiles XDR into Rust.
#![forbid(unsafe_code)]

pub mod ast;
mod check;
mod compilation;
mod config;
pub mod diagnostic;
mod driver;
mod emit;
pub mod errata;
mod error;
pub mod extract;
pub mod ir;
mod layout;
mod manifest;
mod names;
pub mod outline;
pub mod parse;
mod prelude;
mod render;
pub mod report;
pub mod source;

use std::path::PathBuf;

pub use compilation::{Compilation, is_module_name, useless_errata};
pub use config::{Config, Module, Overlay};
pub use diagnostic::{Code, Diagnostic, Level, Levels};
pub use error::Error;
pub use ir::{Schema, Shapes};
pub use prelude::Prelude;
pub use render::{GeneratedFile, TREE};
pub use report::Style;

/// The XDR of one document, without markers, as it was published.
///
/// # Errors
/// The document can't be read, or has no XDR.
pub fn extract_file(path: impl AsRef<std::path::Path>) -> Result<String, Error> {
    compilation::extract(path.as_ref())
}

/// The contract between generated code and `xdrgen-runtime` that this compiler emits for.
pub const RUNTIME_ABI: u32 = 1;

/// Compiles documents into one module, in both shapes, with all preludes.
///
/// # Errors
/// As [`Config::compile`].
pub fn compile<P: Into<PathBuf>>(module: &str, documents: impl IntoIterator<Item = P>) -> Result<(), Error> {
    let module = documents.into_iter().fold(Module::new(module), |module, document| module.document(document));
    Config::new().module(module).compile()
}
