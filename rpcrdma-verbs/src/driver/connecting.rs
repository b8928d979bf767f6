//! How a driver's connections come about, and what it is told of their ends.

use rpcrdma_proto::connection::{Config, Reason, Role, Session};
use rpcrdma_proto::private_data::PrivateData;
use tracing::debug;

use super::connection::Connection;
use super::shared::Shared;
use super::{Driver, Id, Origin, REQUESTS, seed};
use crate::provider::{ConnectionEvent, Device, Manager, QueuePair as _, QueuePairConfig, Queues};
use crate::queue::Endpoint;

impl<D: Device> Driver<D> {
    /// Begins to connect.
    pub(super) fn begin(&mut self, id: Id, now: u64) {
        let Some((server, config)) = self.slot(id).and_then(|slot| match (slot.origin, &slot.connection) {
            (Origin::Client(server), Some(connection)) => Some((server, connection.session.config().clone())),
            _ => None,
        }) else {
            return;
        };
        let pair_config = self.pair_config(&config);
        let queues = Queues { completions: &self.completions, receives: self.shared.as_ref().map(Shared::queue) };
        let begun = self.manager.connect(server, &pair_config, queues, &config.private_data().encode());
        match begun {
            Ok(pair) => self.attach(id, pair),
            Err(error) => {
                debug!(%server, %error, "can't connect");
                if let Some(connection) = self.get_mut(id) {
                    connection.session.lost(now, Reason::Unreachable);
                }
                self.touch(id);
            }
        }
    }

    fn attach(&mut self, id: Id, pair: D::QueuePair) {
        let number = pair.number();
        // Its earlier queue pair is gone.
        if let Some(earlier) = self.slot(id).and_then(|slot| slot.pair.replace(number)) {
            self.by_pair.remove(&earlier);
        }
        self.by_pair.insert(number, id);
        let endpoint = match &self.shared {
            Some(shared) => shared.endpoint(pair, id.0),
            None => Endpoint::new(pair, id.0),
        };
        if let Some(connection) = self.get_mut(id) {
            connection.endpoint = Some(endpoint);
        }
    }

    /// Takes what has happened to connections. Of those that have ended nothing is done yet: what came by them is taken first.
    pub(super) fn take_connections(&mut self) -> usize {
        let mut count = 0;
        while let Some(event) = self.manager.poll() {
            count += 1;
            let now = self.now();
            match event {
                ConnectionEvent::Requested { request, private_data, listener, .. } => {
                    // Its request is rejected, as it is dropped, where nobody listens.
                    if let Some(number) = self.listener(listener) {
                        self.accept(request, number, &private_data, now);
                    }
                }
                ConnectionEvent::Established { queue_pair, private_data } => {
                    let peer = PrivateData::find(&private_data);
                    self.with_pair(queue_pair, |connection| {
                        // An acceptor was connected before it accepted.
                        if connection.session.config().role == Role::Client {
                            let _ = connection.session.connected(now, peer);
                        }
                    });
                }
                ConnectionEvent::Failed { queue_pair, rejected, why, .. } => {
                    debug!(queue_pair, rejected, ?why, "not connected");
                    self.ended.push((queue_pair, Reason::Unreachable));
                }
                ConnectionEvent::Disconnected { queue_pair } => self.ended.push((queue_pair, Reason::Lost)),
            }
        }
        count
    }

    /// Lets go of the connections that have ended.
    #[cold]
    pub(super) fn let_go(&mut self) {
        let now = self.now();
        let mut ended = std::mem::take(&mut self.ended);
        for (queue_pair, why) in ended.drain(..) {
            self.with_pair(queue_pair, |connection| connection.lost(now, why));
        }
        self.ended = ended;
    }

    fn with_pair(&mut self, queue_pair: u32, f: impl FnOnce(&mut Connection<D>)) {
        let Some(id) = self.by_pair.get(&queue_pair).copied() else { return };
        self.touch(id);
        let mine = |connection: &&mut Connection<D>| {
            connection.endpoint.as_ref().is_some_and(|endpoint| endpoint.pair().number() == queue_pair)
        };
        if let Some(connection) = self.get_mut(id).filter(mine) {
            f(connection);
        }
    }

    /// Accepts a connection: its receives are posted first.
    fn accept(
        &mut self,
        request: <D::Manager as crate::provider::Manager<D>>::Request,
        listener: usize,
        private_data: &[u8],
        now: u64,
    ) {
        let Some(config) = self.listeners.get(listener).map(|listener| listener.config.clone()) else { return };
        let pair_config = self.pair_config(&config);
        let queues = Queues { completions: &self.completions, receives: self.shared.as_ref().map(Shared::queue) };
        let pair = match self.manager.prepare(&request, &pair_config, queues) {
            Ok(pair) => pair,
            // Its request is rejected, as it is dropped.
            Err(error) => return debug!(%error, "a connection can't be accepted"),
        };
        let ours = config.private_data().encode();
        let config = Config { role: Role::Server, seed: seed(&config), ..config };
        let Ok(session) = Session::new(config) else { return };
        let Some(id) = self.insert(session, Origin::Listener(listener)) else { return };
        self.attach(id, pair);
        if let Some(connection) = self.get_mut(id) {
            let _ = connection.session.connected(now, PrivateData::find(private_data));
        }
        self.drive_one(id, now);
        let accepted = match self.connections.get((id.0 & 0xffff) as usize).and_then(|slot| slot.connection.as_deref())
        {
            Some(Connection { endpoint: Some(endpoint), .. }) => {
                let accepted = self.manager.accept(request, endpoint.pair(), &ours);
                accepted.inspect_err(|error| debug!(%error, "a connection could not be accepted")).is_ok()
            }
            _ => false,
        };
        match self.listeners.get_mut(listener) {
            Some(listener) if accepted => listener.accepted.push(id),
            _ => self.forget(id),
        }
    }

    /// What a queue pair needs for these settings.
    fn pair_config(&self, config: &Config) -> QueuePairConfig {
        let shares = self.shared.is_some();
        // Twice what the session posts: those of the old size may still be there when it is raised.
        let receives = 2 * (config.credits + u32::from(config.serve) + config.reserve);
        // And those that are reserved for replies in several transmissions, if all calls have them.
        let reserved = config.rtr.map_or(0, |rtr| rtr.reserve.saturating_mul(config.credits));
        let receives = receives.saturating_add(reserved);
        QueuePairConfig {
            sends: REQUESTS,
            receives: if shares { 0 } else { receives },
            reads: READS.min(self.device.capabilities().reads),
            rnr_retry: shares,
        }
    }
}

/// RDMA Reads of one queue pair under way, if the device has so many.
const READS: u32 = 16;
