//! A key-value store, compiled from `spec/store.x`, and its service.
#![forbid(unsafe_code)]

mod service;

/// The code that the compiler generates from the specification.
#[allow(missing_docs, reason = "generated from a specification")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));
}

pub use generated::store;
pub use service::Store;
