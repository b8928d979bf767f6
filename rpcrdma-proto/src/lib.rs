//! RPC-over-RDMA.
#![no_std]
#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));
