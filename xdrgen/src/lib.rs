//! Compiles XDR into Rust types and codecs, in a build script: from Internet-Drafts and RFCs as published, or from `.x`
//! files.
//!
//! XDR is RFC 4506's language, with RFC 5531's programs, and with what real files use beyond them, each as a lint of
//! its own ([`Code`]). This is a `build.rs`:
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
//! and this, in a crate that depends on `xdrgen-runtime`, takes in what it generates:
//!
//! ```text
//! include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));
//! ```
//!
//! # What to call
//!
//! - In a build script: [`compile`] for one module without settings; [`Config`], [`Module`] and [`Overlay`] for all
//!   others; [`Config::from_manifest`] where the settings are a file, which the command `xdrgen` reads too. Then
//!   [`Config::compile`], once.
//! - In a tool: [`Config::check`], then of the [`Compilation`] its diagnostics, its report, or the files it generates.
//!   [`report`] shows diagnostics for people, in a line, and as JSON.
//! - To look at octets, or to hold generated code against something else: [`value::decode`] makes a tree of them by the schema
//!   alone, and [`value::encode`] makes octets of it again.
//!
//! # What it does
//!
//! ```text
//! draft -> extract -> errata -> parse -> check -> IR -> emit -> format
//! ```
//!
//! 1. [`extract`] takes the XDR out of a document: the lines that begin with `///`, and their copies in running text.
//! 2. [`errata`] corrects it, from a list, where a document as published is wrong.
//! 3. [`parse`] makes an [`ast`] of it, and goes on after each error.
//! 4. The checks find what a name means, what a constant is worth, and what contradicts what, within a document and
//!    between its copies; what is left is [`ir`], a schema.
//! 5. The schema is emitted as tokens, in one shape or both, and formatted.
//!
//! Every token knows the line and column of the document that it comes from ([`source`]), and so does every
//! [`diagnostic`].
//!
//! # What it never does
//!
//! - It changes no document, and writes nothing but Rust files, into the folder it was told or `OUT_DIR`.
//! - It stops at no first error: one run reports every defect of every document.
//! - It panics on no input, and contains no `unsafe` code.
//! - It runs no other program: no preprocessor, no shell, no rustfmt.
//! - Its output names no crate but `xdrgen-runtime`, and depends on nothing but the documents and the settings.
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
pub mod value;

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

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
