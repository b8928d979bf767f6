//! A key-value store and a catalog, compiled from `spec/`, for the tests of clients and services.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "generated from a specification")]

include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));

/// Compiles the example of the page on iWARP.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/iwarp.md")]
struct IwarpPage;
