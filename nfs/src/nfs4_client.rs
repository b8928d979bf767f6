//! An NFSv4.1 client (RFC 8881) over any bidirectional transport of `oncrpc`: sessions, opens,
//! delegations, and recalls.
//!
//! An [`Nfs4Session`] executes a COMPOUND that is not idempotent at most once, even if the
//! connection is lost.
//! [`Nfs4Callbacks`] serves the calls of the server, which arrive over the same connection. An
//! [`Nfs4Client`] opens, reads and writes files.
//!
//! ```no_run
//! use oncrpc::{AuthSys, CallOptions, tcp};
//! use rpcrdma_nfs::nfs4_client::{
//!     Nfs4Callbacks, Nfs4Client, Nfs4Config, Nfs4Open, Nfs4Recall, Nfs4Session,
//! };
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let callbacks = Nfs4Callbacks::new();
//!     // Or over RDMA: rpcrdma_verbs::connect_with_services(&device, address, config, services)?
//!     let (config, services) = (tcp::ClientConfig::new(), callbacks.router());
//!     let channel = tcp::connect_with_services("storage-1:2049", config, services).await?;
//!     let options = CallOptions::DEFAULT.credentials(AuthSys::new("my-host"));
//!     let config = Nfs4Config::new("my-host reader", [0, 0, 0, 0, 0, 0, 0, 1]);
//!     let session = Nfs4Session::new(channel, options, &config, &callbacks).await?;
//!     let client = Nfs4Client::new(session).await?;
//!
//!     let (dir, _) = client.lookup_path(client.root(), "export").await?;
//!     let file = client.open(&dir, b"file", Nfs4Open::READ).await?;
//!     let part = client.read(&file.handle, file.stateid, 0, 4096).await?;
//!     println!("{} bytes", part.data.len());
//!     if file.delegation.is_some()
//!         && let Nfs4Recall::Delegation { handle, stateid, .. } = callbacks.next_recall().await
//!     {
//!         client.return_delegation(&handle, stateid).await?;
//!     }
//!     client.close(&file).await?;
//!     client.into_session().destroy().await?;
//!     Ok(())
//! }
//! ```
//!
//! The client has no clock: its user renews the lease, and repeats calls after NFS4ERR_DELAY and
//! NFS4ERR_GRACE.

mod attributes;
mod callback_server;
mod callbacks;
mod client_ids;
mod compound;
mod config;
mod creation;
mod delegations;
mod error;
mod files;
mod opening;
mod session;
mod slots;

pub use attributes::{Nfs4Attributes, Nfs4SetAttributes};
pub use callback_server::Nfs4CallbackRouter;
pub use callbacks::{Nfs4Callbacks, Nfs4Recall};
pub use compound::{Nfs4Compound, Nfs4Results};
pub use config::Nfs4Config;
pub use creation::Nfs4SessionLimits;
pub use error::{Nfs4Error, Nfs4Fault};
pub use files::{Nfs4Client, Nfs4ReadPart, Nfs4Written};
pub use opening::{Nfs4Delegation, Nfs4Open, Nfs4OpenFile};
pub use session::Nfs4Session;
