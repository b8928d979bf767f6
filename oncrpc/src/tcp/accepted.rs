//! A connection that a server has admitted, until it is served.
//!
//! `server` creates an `Accepted`, and passes it to a task or to a thread with its own runtime
//! (`threads`). So an `Accepted` is `Send`, and `serve` creates the rest of the connection's state,
//! on the thread that serves it. `connection` serves the calls, and `ends` stops it. The permit
//! counts the connection until its last handler has ended, which may be after the return of
//! `serve`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use super::backward::Backward;
use super::connection::{Connection, Ends};
use super::handlers::Handlers;
use super::server_config::ServerConfig;
use super::set_options;
use crate::caller::CallerChannel;
use crate::permit::ConnectionPermit;
use crate::router::{Programs, Router};
use crate::service::Peer;

/// An admitted connection, without its stream.
#[derive(Debug)]
pub(super) struct Accepted {
    /// The address of the client.
    pub(super) address: SocketAddr,
    /// The number of the connection, which no other connection of the server has.
    pub(super) number: u64,
    pub(super) permit: ConnectionPermit,
    pub(super) config: ServerConfig,
    /// The signals of the server to drain and to shut down.
    pub(super) ends: Ends,
}

impl Accepted {
    /// Serves the connection to its end. `stream` is an error if the runtime of the thread does not
    /// take the stream: then the connection ends at once.
    pub(super) async fn serve<P: Programs>(
        self,
        stream: io::Result<TcpStream>,
        router: Arc<Router<P>>,
    ) {
        let Self {
            address, config, ..
        } = self;
        let (caller, submissions) = CallerChannel::new(self.number, address.to_string(), None);
        let peer = Arc::new(Peer {
            address: Some(address),
            transport: "tcp",
            memory: None,
            caller: Ok(caller.clone()),
            status: None,
        });
        let (max_calls, max_record) = (config.max_backward_calls, config.max_record);
        let backward = Backward::new(caller, submissions, max_calls, max_record);
        let handlers = Handlers::new(router, peer.clone());
        let connection = Connection::new(handlers, backward, self.permit, max_record);
        tracing::info!(%peer, "connected");
        let prepared = stream.and_then(|stream| {
            set_options(&stream, config.keepalive)?;
            Ok(stream)
        });
        let ended = match prepared {
            Ok(stream) => connection.run(stream, self.ends).await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => tracing::info!(%peer, "connection closed"),
            Err(error) => tracing::info!(%peer, %error, "connection lost"),
        }
    }
}
