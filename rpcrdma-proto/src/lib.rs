//! RPC-over-RDMA.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));
