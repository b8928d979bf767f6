//! The end of a server on threads of its own.
//!
//! The states are ordered, and the loop of `rpc_transport::server` moves only to a greater state.
//! When the handle is dropped, threads drain but do not shut down: the future of the shutdown must
//! then stay pending. `server_builder` also ends its servers over TCP by an `Ending`.

use std::future::{Future, pending};
use std::pin::Pin;

use ::tokio::sync::watch;

/// What a server does. It becomes only greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum ServerState {
    /// It accepts connections and calls.
    Serving,
    /// It answers the calls that it has received.
    Draining,
    /// It has closed its connections, and waits for its handlers.
    ShuttingDown,
}

impl ServerState {
    /// Waits until one of these futures changes the state, and returns the next state.
    pub(super) async fn changed(
        self,
        drain: Pin<&mut impl Future<Output = ()>>,
        shutdown: Pin<&mut impl Future<Output = ()>>,
    ) -> Self {
        ::tokio::select! {
            biased;
            () = shutdown, if self < Self::ShuttingDown => Self::ShuttingDown,
            () = drain, if self < Self::Draining => Self::Draining,
            else => pending().await,
        }
    }
}

/// The handle's end of the threads of a server. When all clones are dropped, the threads drain.
#[derive(Clone, Debug)]
pub(super) struct Ending(watch::Sender<ServerState>);

impl Ending {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(ServerState::Serving))
    }

    /// Changes the state of the threads.
    pub(super) fn set(&self, state: ServerState) {
        self.0.send_replace(state);
    }

    /// Returns a future for each end: the first resolves when the server drains, and the second
    /// when it shuts down.
    pub(super) fn futures(
        &self,
    ) -> (
        impl Future<Output = ()> + Send + use<>,
        impl Future<Output = ()> + Send + use<>,
    ) {
        let (mut drains, mut shuts_down) = (self.0.subscribe(), self.0.subscribe());
        let drain = async move {
            // An error says that the handle is dropped.
            let _ = drains
                .wait_for(|state| *state >= ServerState::Draining)
                .await;
        };
        let shutdown = async move {
            let state = shuts_down.wait_for(|state| *state >= ServerState::ShuttingDown);
            let is_dropped = state.await.is_err();
            if is_dropped {
                pending().await
            }
        };
        (drain, shutdown)
    }
}
