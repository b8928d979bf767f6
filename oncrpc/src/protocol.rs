//! The types of ONC RPC messages, generated from `spec/rpc.x` (RFC 5531).
#![allow(missing_docs, reason = "generated from a specification")]

include!(concat!(env!("OUT_DIR"), "/protocol.rs"));
