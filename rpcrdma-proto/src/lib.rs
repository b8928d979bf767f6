//! The message types of RPC-over-RDMA, compiled from the IETF's drafts.
//!
//! - [`v1`]: Version One (RFC 8166)
//! - [`v2`]: Version Two (version-two-01)
//!   - [`v2::properties`]: transport properties (xcharext-03), the form to use
//!   - [`v2::characteristics`]: transport characteristics (xcharext-02): the same codes with other contents, so a
//!     connection speaks one or the other
//!   - [`v2::rtr`]: message continuation and send-based data placement (rtrext-02)
//! - [`rpc`]: the ONC RPC message that they carry, and AUTH_SYS (RFC 5531)
//!
//! On these stand the parts of the protocol's engine:
//!
//! - [`version`]: which version is spoken, and how it is found out
//! - [`header`]: transport headers of both versions, parsed and held against the rules
//! - [`error`]: what is wrong with a message, and what becomes of it
//! - [`chunk`]: what a peer's chunk lists say, validated: how a call is put together, and where results go
//! - [`travel`]: how a call travels: inline, reduced or long, and what is offered for its reply
//! - [`continuation`]: messages in several transmissions
//! - [`credit`]: how many messages may be under way
//! - [`connection`]: a session with one peer, over one connection after the other: the engine itself
//! - [`placement`]: receive buffers made of segments, and how messages are laid into them
//! - [`private_data`]: what two ends tell each other when they connect
//! - [`property`]: what is known of a peer's transport properties
//!
//! Each item's documentation names its draft, section, page and line, and shows its XDR. `decode` and `encode` are
//! methods of the traits of `xdrgen-runtime`.
//!
//! Version Two's extensions travel in an opaque field, of which a code says what it holds. `OptInfo` and `Property`
//! decode such a field in one call:
//!
//! ```
//! use rpcrdma_proto::v2::properties::{OptInfo, Property};
//! use rpcrdma_proto::v2::{Body, XprtHdr};
//! use xdrgen_runtime::Decode;
//!
//! #[rustfmt::skip]
//! let message = [
//!     0, 0, 0, 7,  0, 0, 0, 2,  0, 0, 0, 32,  0, 0, 0, 5,   // XID, version, credits, RDMA2_OPTIONAL
//!     0, 0, 0, 0,  0, 0, 0, 1,  0, 0, 0, 20,                // a call, ROPT_CONNPROP, 20 octets:
//!     0, 0, 0, 1,                                           //   one property:
//!     0, 0, 0, 1,  0, 0, 0, 4,  0, 0, 32, 0,                //     PROP_RBSIZ, 4 octets: 8192
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
//! # Two shapes
//!
//! The types of a module borrow from the message and allocate nothing: opaque fields are slices, and sequences are
//! checked once and decoded as they are iterated. Those of its `owned` (feature `alloc`, on by default) keep what
//! they hold. `From` leads from the first to the second, `xdrgen_runtime::Owned` back.
//!
//! # What it never does
//!
//! - No input or output, no clock, no threads, no `std`.
//! - No `unsafe` code, and no panic, whatever a peer sends.
//! - No allocation in the borrowed types.
//! - No reading of what a draft does not say: decisions where the drafts are wrong or silent stand in `spec/README.md`
//!   and `spec/errata.toml`, with reasons.
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
pub mod travel;
pub mod version;

/// The runtime of the generated codecs: `Decode`, `Encode`, `Limits` and errors.
pub use xdrgen_runtime as xdr;

include!(concat!(env!("OUT_DIR"), "/xdrgen.rs"));

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
