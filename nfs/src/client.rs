//! An NFSv3 client over any transport of `oncrpc`: TCP, RDMA, or within a process.
//!
//! [`mount`] returns the handle of a root. A [`Client`] calls the procedures of NFSv3 with it:
//!
//! ```
//! use oncrpc::{AuthSys, CallOptions, loopback};
//! use rpcrdma_nfs::client::{Client, mount};
//! use rpcrdma_nfs::nfs3::{Createhow3, Sattr3, StableHow};
//! use rpcrdma_nfs::{Export, MemoryFileSystem, Squash, router};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let export = Export::new(MemoryFileSystem::new(1 << 20)).squash(Squash::None);
//! let (channel, runner) = loopback(router(export));
//! tokio::spawn(runner);
//!
//! let options = CallOptions::DEFAULT.credentials(AuthSys::new("here"));
//! let root = mount(&channel, &options, "/").await?;
//! let client = Client::new(channel, options, root).await?;
//! let file = client.create(&root, "file", &Createhow3::Guarded(Sattr3::UNSET)).await?;
//! client.write_all(&file.handle, 0, &b"content"[..], StableHow::Unstable).await?;
//! assert_eq!(client.lookup_path(&root, "/file").await?.attributes.size, 7);
//! let mut content = [0; 100];
//! assert_eq!(client.read_into(&file.handle, 0, &mut content).await?, 7);
//! # Ok(())
//! # }
//! ```
//!
//! The client retransmits a call of an idempotent procedure if its connection is lost. A call of
//! any other procedure fails in this case, and [`ClientError::execution`] tells whether the server
//! may have executed it. See `oncrpc::Resend` for servers with a reply cache.
//!
//! NFS3ERR_JUKEBOX is reported like any other error: the client has no clock, and its user repeats
//! the call later.

mod base;
mod error;
mod information;
mod listing;
mod mounting;
mod naming;
mod outcome;
mod reading;
mod writing;

pub use base::{Client, TransferLimits};
pub use error::{ClientError, ProtocolFault};
pub use listing::DirectoryStream;
pub use mounting::mount;
pub use reading::{ReadPart, ReadStream};
