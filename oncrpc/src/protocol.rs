//! The types of ONC RPC messages, generated from `spec/rpc.x` (RFC 5531).
//!
//! A call without arguments, from its bytes:
//!
//! ```
//! use oncrpc::protocol::{RpcMsg, RpcMsgBody};
//! use oncrpc::xdr::Decode as _;
//!
//! #[rustfmt::skip]
//! let bytes = [
//!     0, 0, 0, 7,  0, 0, 0, 0,                            // the XID, and CALL
//!     0, 0, 0, 2,  0, 1, 0x86, 0xa3,  0, 0, 0, 3,  0, 0, 0, 0, // NFS version 3, procedure 0
//!     0, 0, 0, 0,  0, 0, 0, 0,                            // the credentials: AUTH_NONE
//!     0, 0, 0, 0,  0, 0, 0, 0,                            // the verifier
//! ];
//! let message = RpcMsg::from_bytes(&bytes)?;
//! let RpcMsgBody::Call(call) = message.body else { panic!("no call") };
//! assert_eq!((message.xid, call.prog, call.vers, call.r#proc), (7, 100_003, 3, 0));
//! # Ok::<(), oncrpc::xdr::Error>(())
//! ```
#![allow(missing_docs, reason = "generated from a specification")]

include!(concat!(env!("OUT_DIR"), "/protocol.rs"));
