//! The message types of RPC-over-RDMA, compiled from the IETF's drafts.
//!
//! - [`v1`]: Version One (RFC 8166)
//! - [`v2`]: Version Two (version-two-01)
//!   - [`v2::properties`]: transport properties (xcharext-03), the form to use
//! - [`v2::characteristics`]: transport characteristics (xcharext-02): the same codes with other
//!   contents, so a connection uses one of the two
//!   - [`v2::rtr`]: message continuation and send-based data placement (rtrext-02)
//!
//! The protocol engine consists of:
//!
//! - [`version`]: version negotiation
//! - [`header`]: transport headers of both versions, parsed and validated
//! - [`error`]: the reasons to reject a message, and the error that answers it
//! - [`chunk`]: validated chunk lists of a peer: the assembly of calls, and the targets of results
//! - [`transfer`]: the choice of the transfer method: inline, reduced or long, and the reply chunks
//! - [`continuation`]: messages in several transmissions
//! - [`credit`]: flow control
//! - [`connection`]: the session with one peer over successive connections
//! - [`placement`]: the structure of receive buffers, and the layout of messages in them
//! - [`private_data`]: the private data of connection establishment
//! - [`property`]: the transport properties of a peer
//!
//! Each item's documentation names its draft, section, page and line, and shows its XDR. `decode`
//! and `encode` are methods of the traits of `xdrgen-runtime`.
//!
//! Version Two carries extensions in an opaque field; a code names its content. `OptInfo` and
//! `Property` decode such a field in one call:
//!
//! ```
//! use rpcrdma_proto::v2::properties::{OptInfo, Property};
//! use rpcrdma_proto::v2::{Body, XprtHdr};
//! use xdrgen_runtime::Decode;
//!
//! #[rustfmt::skip]
//! let message = [
//!     0, 0, 0, 7,  0, 0, 0, 2,  0, 0, 0, 32,  0, 0, 0, 5,   // XID, version, credits, RDMA2_OPTIONAL
//!     0, 0, 0, 0,  0, 0, 0, 1,  0, 0, 0, 20,                // a call, ROPT_CONNPROP, 20 bytes:
//!     0, 0, 0, 1,                                           //   one property:
//!     0, 0, 0, 1,  0, 0, 0, 4,  0, 0, 32, 0,                //     PROP_RBSIZ, 4 bytes: 8192
//!     0, 0, 0, 0,                                           //   none that will not change
//! ];
//! let header = XprtHdr::from_bytes(&message)?;
//! let Body::Optional(optional) = header.body else { return Err("no RDMA2_OPTIONAL".into()) };
//! let OptInfo::Connprop(connprop) = OptInfo::of(&optional)? else { return Err("no ROPT_CONNPROP".into()) };
//! let start: Vec<_> = connprop.start.iter().map(|property| Property::of(&property)).collect::<Result<_, _>>()?;
//! assert_eq!(start, [Property::Rbsiz(8192)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Borrowed and owned types
//!
//! The types of a module borrow from the message and allocate nothing: opaque fields are slices,
//! and sequences are checked once and decoded as they are iterated. The types of its module `owned`
//! (feature `alloc`, on by default) own their content. `From` converts borrowed to owned, and
//! `xdrgen_runtime::Owned` owned to borrowed.
//!
//! # Guarantees
//!
//! - No input or output, no clock, no threads, no `std`.
//! - No `unsafe` code, and no panic on any input from a peer.
//! - No allocation in the borrowed types.
//! - No undocumented interpretation: `spec/README.md` and `spec/errata.toml` list each decision
//!   where a draft is wrong or silent, with its reason.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::cast_possible_truncation,
        reason = "a test fails by panicking, and chooses its numbers"
    )
)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod chunk;
#[cfg(feature = "alloc")]
pub mod connection;
pub mod continuation;
pub mod credit;
pub mod error;
pub mod header;
pub mod placement;
pub mod private_data;
pub mod property;
mod sizes;
#[cfg(test)]
mod testing;
pub mod transfer;
pub mod version;

/// The runtime of the generated codecs: `Decode`, `Encode`, `Limits` and errors.
pub use xdrgen_runtime as xdr;

include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
