//! The services of a client, for backward calls: what all clients share, and the services of a
//! `LocalChannel`. Those of a `Channel` are in `client`.

use std::sync::Arc;
use std::task::{Context, Waker};

use oncrpc::{BackwardError, LocalPrograms, Peer, Router};
use rpcrdma_proto::connection::Config;
use rpcrdma_proto::v2::properties::Bkreqsup;

use super::admission::CallLimits;
use super::dispatcher::{CallOfConnection, Dispatcher, Handler, Incoming, LocalSource};
use super::message::RegisteredMemory;
use crate::driver::{Driver, Payload};
use crate::memory::Pool;
use crate::provider::Device;

/// Returns the settings of a client without services: they announce it to the server in Version
/// Two, and backward calls are refused.
// spec: bd-6-a, xc3-3.3-a
pub(super) fn without_services(config: Config) -> Config {
    Config {
        backward_support: Bkreqsup::None,
        max_served: 0,
        ..config
    }
}

/// Returns the server as the peer of the client's services.
pub(super) fn server_of_services<D: Device>(pool: &Pool<D>) -> Peer {
    Peer {
        address: None,
        transport: "rdma",
        memory: Some(Arc::new(RegisteredMemory(pool.clone()))),
        // The client's own channel is the channel to the server.
        caller: Err(BackwardError::Transport),
        status: None,
    }
}

/// The services of a client, without the type of their router.
pub(super) trait LocalServices<D: Device> {
    /// Serves an arrived call.
    fn begin(&mut self, driver: &mut Driver<D>, call: CallOfConnection, payload: Payload);

    /// Continues waiting handlers.
    fn poll(&mut self, driver: &mut Driver<D>);
}

/// The services of a `LocalChannel`.
pub(super) struct LocalRouterServices<P> {
    dispatcher: Dispatcher<LocalSource<P>, dyn Handler>,
    server: Arc<Peer>,
    /// Wakes the driver.
    waker: Waker,
}

impl<P: LocalPrograms> LocalRouterServices<P> {
    pub(super) fn new<D: Device>(driver: &Driver<D>, router: Router<P>) -> Self {
        Self {
            dispatcher: Dispatcher::new(LocalSource::new(router)),
            server: Arc::new(server_of_services(driver.pool())),
            waker: driver.waker(),
        }
    }
}

impl<D: Device, P: LocalPrograms> LocalServices<D> for LocalRouterServices<P> {
    fn begin(&mut self, driver: &mut Driver<D>, call: CallOfConnection, payload: Payload) {
        let mut cx = Context::from_waker(&self.waker);
        let incoming = Incoming {
            call,
            peer: self.server.clone(),
            limits: CallLimits::default(),
        };
        self.dispatcher.begin(driver, incoming, payload, &mut cx);
    }

    fn poll(&mut self, driver: &mut Driver<D>) {
        let mut cx = Context::from_waker(&self.waker);
        self.dispatcher.poll(driver, &mut cx);
    }
}
