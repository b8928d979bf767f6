//! Compiles XDR into Rust. (Crate documentation follows with the builder.)
#![forbid(unsafe_code)]

pub mod ast;
pub mod diagnostic;
pub mod errata;
pub mod extract;
pub mod parse;
pub mod report;
pub mod source;
