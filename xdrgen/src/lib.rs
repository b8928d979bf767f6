//! Compiles XDR into Rust types and codecs in a build script, from Internet-Drafts and RFCs as
//! published or from `.x` files.
//!
//! The input language is XDR (RFC 4506) with programs (RFC 5531). Extensions that real files use
//! are accepted, each with a lint of its own ([`Code`]). A `build.rs` looks like this:
//!
//! ```no_run
//! use xdrgen_build::{Config, Module};
//!
//! fn main() -> Result<(), xdrgen_build::Error> {
//!     let properties = Module::new("properties")
//!         .document("spec/draft-dnoveck-nfsv4-rpcrdma-xcharext-03.txt")
//!         .strip("optinfo_");
//!     Config::new().module(properties).errata("spec/errata.toml").compile()
//! }
//! ```
//!
//! The crate depends on `xdrgen-runtime` and includes the generated code:
//!
//! ```text
//! include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));
//! ```
//!
//! # Entry points
//!
//! - In a build script: [`compile`] for one module without settings; [`Config`], [`Module`] and
//!   [`Overlay`] otherwise; [`Config::from_manifest`] for settings in a file, which the command
//!   `xdrgen` reads too. [`Config::compile`] runs the compilation.
//! - In a tool: [`Config::check`] returns a [`Compilation`] with diagnostics, a report, and the
//!   files to generate. [`report`] renders diagnostics for people, on one line, and as JSON or
//!   SARIF, and applies their fixes.
//! - To inspect bytes, or to compare generated code with an independent decoder: [`value::decode`]
//!   decodes bytes into a tree according to the schema, and [`value::encode`] encodes the tree.
//!
//! # Phases
//!
//! ```text
//! draft -> extract -> errata -> parse -> check -> IR -> emit -> format
//! ```
//!
//! 1. [`extract`] takes the XDR out of a document: the lines that begin with `///`, and the copies
//!    of definitions in running text.
//! 2. [`errata`] corrects the XDR where a published document is wrong.
//! 3. [`parse`] builds an [`ast`] and recovers after each error.
//! 4. The checks resolve names, evaluate constants, and compare a document with the copies in its
//!    text. The result is a schema in [`ir`].
//! 5. The emitter turns the schema into tokens, in one shape or both, and formats them.
//!
//! Every token has a [`source::Span`], which maps to a line and column of the document. Every
//! [`diagnostic`] has one too, except those that concern a whole file.
//!
//! # Guarantees
//!
//! - It modifies no document. It writes only Rust files, into the configured folder or `OUT_DIR`.
//! - One run reports the defects of all documents; it does not stop at the first.
//! - It does not panic on any input, and contains no `unsafe` code.
//! - It runs no other program: no preprocessor, no shell, no rustfmt.
//! - Generated code depends on no crate except `xdrgen-runtime`; with stubs, on none except
//!   `oncrpc`, which contains the runtime.
//! - The output is a function of the documents and the settings.
#![forbid(unsafe_code)]

pub mod ast;
mod check;
mod compilation;
mod config;
pub mod diagnostic;
pub mod diff;
mod driver;
mod emit;
pub mod errata;
mod error;
mod extend;
pub mod extract;
mod format;
mod include;
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
mod spelling;
mod supply;
mod toml_error;
pub mod value;
pub mod wireshark;

use std::path::PathBuf;

pub use compilation::{Compilation, is_module_name, useless_errata};
#[doc(hidden)]
pub use config::canonical;
pub use config::{Config, Module, Overlay};
pub use diagnostic::{Code, Diagnostic, Level, Levels};
pub use error::Error;
pub use format::format;
pub use ir::{Schema, Shapes, Stubs};
pub use prelude::Prelude;
pub use render::{GeneratedFile, ROOT_FILE};
pub use report::Style;

/// Returns the XDR of one document as published, without markers.
///
/// # Errors
/// Returns a report if the document cannot be read or has no XDR.
pub fn extract_file(path: impl AsRef<std::path::Path>) -> Result<String, Error> {
    compilation::extract(path.as_ref(), None)
}

/// Returns the XDR of one document that has it only in running text, without markers: of the named
/// sections and their subsections, or of the whole document if no section is named.
///
/// # Errors
/// Returns a report if the document cannot be read or has no XDR.
pub fn extract_prose(
    path: impl AsRef<std::path::Path>,
    sections: &[String],
) -> Result<String, Error> {
    compilation::extract(path.as_ref(), Some(sections))
}

/// Returns the definitions that [`extract_prose`] finds in a document, for review, and the text
/// that begins like a definition and is none.
///
/// # Errors
/// Returns a report if the document cannot be read.
pub fn prose_blocks(
    path: impl AsRef<std::path::Path>,
    sections: &[String],
) -> Result<extract::ProseBlocks, Error> {
    compilation::prose_blocks(path.as_ref(), sections)
}

/// The version of the contract between generated code and `xdrgen-runtime`. Generated code checks
/// it at compile time. It equals `ABI` of `xdrgen-runtime`: both change together, when generated
/// code needs another runtime.
pub const RUNTIME_ABI: u32 = 1;

/// Compiles documents into one module, with both shapes and all preludes. Use it in a build script.
///
/// ```no_run
/// fn main() -> Result<(), xdrgen_build::Error> {
///     xdrgen_build::compile("nfs4", ["spec/rfc7863.txt"])
/// }
/// ```
///
/// # Errors
/// As [`Config::compile`].
pub fn compile<P: Into<PathBuf>>(
    module: &str,
    documents: impl IntoIterator<Item = P>,
) -> Result<(), Error> {
    let module = documents
        .into_iter()
        .fold(Module::new(module), |module, document| {
            module.document(document)
        });
    Config::new().module(module).compile()
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
