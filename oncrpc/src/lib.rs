//! ONC RPC version 2 (RFC 5531) for any transport, with one over TCP.
//!
//! `xdrgen-build` compiles a `program` of an `.x` file into a client and a service trait that are
//! generic over [`Transport`]. This crate has what they need: messages, credentials, dispatch,
//! channels, and TCP. `rpcrdma-verbs` adds RPC-over-RDMA.
//!
//! - A client makes calls on a [`Channel`], from any thread. A runner drives the transport.
//! - A server offers a [`Router`] of services at an address.
//!
//! ```
//! use oncrpc::{Channel, Router, tcp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // With generated code: `Router::new().add_service(kv1::serve(store))`.
//! let server = tcp::Server::bind("127.0.0.1:0", Router::new()).await?;
//! let address = server.local_addr()?.to_string();
//! tokio::spawn(server.run());
//! let channel: Channel = tcp::connect(&address).await?;
//! // With generated code: `kv1::Client::new(channel).get(&key).await?`.
//! # drop(channel);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod auth;
mod boxed;
#[cfg(feature = "tokio")]
mod budget;
mod call;
mod caller;
#[cfg(feature = "tokio")]
mod calls;
mod channel;
mod client_security;
#[cfg(feature = "tokio")]
mod control;
#[cfg(feature = "tokio")]
mod current_limits;
mod error;
mod header;
mod item_buf;
mod keyed_hash;
mod limits;
#[cfg(feature = "tokio")]
mod loopback;
mod message;
mod metering;
#[cfg(feature = "tokio")]
mod permit;
mod placement;
mod procedure;
pub mod protocol;
mod reply;
mod reply_cache;
mod request;
mod router;
mod server_security;
mod service;
mod span;
#[cfg(feature = "tokio")]
pub mod tcp;
#[cfg(feature = "tower")]
pub mod tower;
mod transport;

pub use auth::{AuthSys, Credentials, OtherCredentials};
pub use boxed::{BoxedCall, BoxedTransport};
pub use call::{Call, CallOptions, ReplyFuture, ResultsFuture};
pub use caller::CallerChannel;
pub use channel::{CallId, Channel, ChannelCall, ChannelEvent, Submission, Submissions};
pub use client_security::{CallSecurity, ClientSecurity, SecurityError};
#[cfg(feature = "tokio")]
pub use control::{ConnectRequest, RejectReason, ServerControl, ServerStats};
pub use error::{BackwardError, CallError, CallErrorKind, Execution, Progress};
pub use header::ReplyStatus;
pub use item_buf::{ItemAllocator, ItemBuf, ItemMemory};
pub use limits::{Limit, ServerLimits};
#[cfg(feature = "tokio")]
pub use loopback::{loopback, loopback_with_services};
pub use message::{Body, BodyEncoder, OutgoingReply, ReceivedMessage, ShortItem};
#[cfg(feature = "metrics")]
pub use metering::{count_failed_call, describe_metrics};
#[cfg(feature = "tokio")]
pub use permit::{CallPermit, ConnectionPermit, LimitCounter};
pub use placement::{ConnectionPlacement, ConnectionPlacer};
pub use procedure::{MAX_REPLY_ITEMS, Method, ProcedureId, ReplyLimits};
pub use reply::{PendingCall, Reply};
pub use reply_cache::{ReplyCache, ReplyCacheConfig, ReplyCacheStats};
pub use request::{Request, Resend};
pub use router::{LocalPrograms, OfferedVersions, Programs, Router};
pub use server_security::{Acceptance, ProtectedCall, ReplySecurity, ServerSecurity, Verifier};
pub use service::{
    ConnectionStatus, Context, Dispatch, HandlerDeadline, IncomingCall, LocalDispatch, Peer,
    ReplyWriter, RpcError,
};
pub use transport::{AsyncTransport, LocalTransport, Transport};
/// The runtime of generated code.
pub use xdrgen_runtime as xdr;

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../README.md")]
struct Readme;
