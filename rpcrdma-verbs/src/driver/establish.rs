//! How connections are established, and how their ends are handled.
//!
//! Each `Action::Connect` must be answered by `connected` or `lost`; the session decides when to
//! retry. `attach` enters the queue pair in `by_qpn`, by which events and shared receives find the
//! connection. Receives are posted before `accept_request` accepts, since the peer may send at
//! once. `driver::turn` calls `release_ended` after the completions that precede the end.

use std::net::SocketAddr;

use rpcrdma_proto::connection::{CloseReason, Config, Role, Session};
use rpcrdma_proto::private_data::PrivateData;
use tracing::{debug, info, warn};

use super::connection::Connection;
use super::listener::IncomingConnection;
use super::receive_pool::ReceivePool;
use super::{ConnectError, ConnectionId, Driver, Origin, SEND_QUEUE_DEPTH, seeds};
use crate::provider::{
    ConnectionEvent, ConnectionManager, Device, QueuePair as _, QueuePairConfig, Queues,
};
use crate::queue::Endpoint;

impl<D: Device> Driver<D> {
    /// Starts to connect, unless the server's address is not known yet.
    pub(super) fn start_connect(&mut self, id: ConnectionId, now: u64) {
        match self.slot(id).map(|slot| slot.origin) {
            Some(Origin::Client(server)) => self.connect_to(id, server, now),
            Some(Origin::NamedServer) => {
                if let Some(connection) = self.get_mut(id) {
                    connection.wants_address = true;
                }
            }
            _ => {}
        }
    }

    /// Returns whether an attempt to connect waits for the server's address. Only sessions [by
    /// name](Self::connect_by_name) wait, without a time limit.
    #[must_use]
    pub fn wants_address(&self, id: ConnectionId) -> bool {
        self.get(id)
            .is_some_and(|connection| connection.wants_address)
    }

    /// Passes the server's address to an attempt to connect. An error fails the attempt, and the
    /// next attempt follows after a delay. Without a waiting attempt, this has no effect.
    pub fn set_address(&mut self, id: ConnectionId, address: Result<SocketAddr, ConnectError>) {
        let now = self.now();
        let Some(connection) = self.get_mut(id).filter(|one| one.wants_address) else {
            return;
        };
        connection.wants_address = false;
        match address {
            Ok(address) => {
                connection.peer = address;
                self.connect_to(id, address, now);
            }
            Err(error) => self.connect_failed(id, error, now),
        }
    }

    /// Starts to connect to an address.
    fn connect_to(&mut self, id: ConnectionId, server: SocketAddr, now: u64) {
        let Some(config) = self.get(id).map(|one| one.session.config().clone()) else {
            return;
        };
        let pair_config = self.pair_config(&config);
        let queues = Queues {
            completions: &self.completions,
            receives: self.shared_receives.as_ref().map(ReceivePool::queue),
        };
        let started = self.manager.connect(
            server,
            &pair_config,
            queues,
            &config.private_data().encode(),
        );
        match started {
            Ok(pair) => self.attach(id, pair),
            Err(error) => self.connect_failed(id, ConnectError::Device(error), now),
        }
    }

    /// An attempt to connect has failed before the device made one.
    fn connect_failed(&mut self, id: ConnectionId, error: ConnectError, now: u64) {
        if let Some(connection) = self.get_mut(id) {
            connection.connect_error = Some(error);
            connection.session.lost(now, CloseReason::Unreachable);
        }
        self.touch(id);
    }

    fn attach(&mut self, id: ConnectionId, pair: D::QueuePair) {
        let number = pair.number();
        // The slot's earlier queue pair no longer exists.
        if let Some(earlier) = self.slot(id).and_then(|slot| slot.qpn.replace(number)) {
            self.by_qpn.remove(&earlier);
        }
        self.by_qpn.insert(number, id);
        let endpoint = match &self.shared_receives {
            Some(shared) => shared.endpoint(&self.device, pair, id.0),
            None => Endpoint::new(&self.device, pair, id.0),
        };
        if let Some(connection) = self.get_mut(id) {
            connection.endpoint = Some(endpoint);
        }
    }

    /// Takes the events of the connection manager. Ended connections are only noted, so that
    /// completions which arrived before the end are processed first.
    pub(super) fn poll_manager(&mut self) -> usize {
        let mut count = 0;
        while let Some(event) = self.manager.poll() {
            count += 1;
            let now = self.now();
            match event {
                ConnectionEvent::Requested {
                    request,
                    private_data,
                    listener,
                    peer,
                } => {
                    let request = IncomingConnection {
                        request,
                        peer,
                        private_data,
                    };
                    self.add_request(listener, request);
                }
                ConnectionEvent::Established {
                    queue_pair,
                    private_data,
                } => {
                    let peer = PrivateData::parse(&private_data);
                    self.with_queue_pair(queue_pair, |connection| {
                        // The session of an acceptor is connected when it accepts.
                        if connection.session.config().role == Role::Client {
                            let _ = connection.session.connected(now, peer);
                        }
                    });
                }
                ConnectionEvent::Failed {
                    queue_pair,
                    rejected,
                    private_data,
                    error,
                } => {
                    debug!(queue_pair, rejected, ?error, "not connected");
                    let error = match error {
                        _ if rejected => ConnectError::Rejected(reason(&private_data)),
                        Some(error) => ConnectError::Device(error),
                        None => ConnectError::Unanswered,
                    };
                    self.with_queue_pair(queue_pair, |connection| {
                        connection.connect_error = Some(error);
                    });
                    self.ended_queue_pairs
                        .push((queue_pair, CloseReason::Unreachable));
                }
                ConnectionEvent::Disconnected { queue_pair } => {
                    self.ended_queue_pairs.push((queue_pair, CloseReason::Lost))
                }
            }
        }
        count
    }

    /// Releases the connections that have ended.
    #[cold]
    pub(super) fn release_ended(&mut self) {
        let now = self.now();
        let mut ended = std::mem::take(&mut self.ended_queue_pairs);
        for (queue_pair, reason) in ended.drain(..) {
            self.with_queue_pair(queue_pair, |connection| connection.lost(now, reason));
        }
        self.ended_queue_pairs = ended;
    }

    fn with_queue_pair(&mut self, queue_pair: u32, f: impl FnOnce(&mut Connection<D>)) {
        let Some(id) = self.by_qpn.get(&queue_pair).copied() else {
            return;
        };
        self.touch(id);
        let mine = |connection: &&mut Connection<D>| {
            connection
                .endpoint
                .as_ref()
                .is_some_and(|endpoint| endpoint.pair().number() == queue_pair)
        };
        if let Some(connection) = self.get_mut(id).filter(mine) {
            f(connection);
        }
    }

    /// Accepts a connection, after its receives are posted.
    pub(super) fn accept_request(
        &mut self,
        request: IncomingConnection<D>,
        listener: usize,
        now: u64,
    ) -> Option<ConnectionId> {
        let IncomingConnection {
            request,
            private_data,
            peer,
        } = request;
        let config = self.listeners.get(listener)?.config.clone();
        let pair_config = self.pair_config(&config);
        let queues = Queues {
            completions: &self.completions,
            receives: self.shared_receives.as_ref().map(ReceivePool::queue),
        };
        let pair = match self.manager.prepare(&request, &pair_config, queues) {
            Ok(pair) => pair,
            // Dropping the request rejects it.
            Err(error) => {
                warn!(%peer, %error, "a connection can't be accepted");
                return None;
            }
        };
        let ours = config.private_data().encode();
        let (seed, hash_seed) = seeds(&config);
        let config = Config {
            role: Role::Server,
            xid_seed: seed,
            hash_seed,
            ..config
        };
        let session = Session::new(config).ok()?;
        let id = self.insert(session, Origin::Listener(listener), peer)?;
        self.attach(id, pair);
        if let Some(connection) = self.get_mut(id) {
            let _ = connection
                .session
                .connected(now, PrivateData::parse(&private_data));
        }
        self.drive_one(id, now);
        let accepted = match self
            .connections
            .get((id.0 & 0xffff) as usize)
            .and_then(|slot| slot.connection.as_deref())
        {
            Some(Connection {
                endpoint: Some(endpoint),
                ..
            }) => {
                let accepted = self.manager.accept(request, endpoint.pair(), &ours);
                accepted
                    .inspect_err(|error| info!(%peer, %error, "a connection could not be accepted"))
                    .is_ok()
            }
            _ => false,
        };
        if !accepted {
            self.forget(id);
        }
        accepted.then_some(id)
    }

    /// Returns the queue sizes that a session with these settings needs.
    fn pair_config(&self, config: &Config) -> QueuePairConfig {
        let shares = self.shared_receives.is_some();
        // When the receive size is raised, receives of both sizes are posted.
        let receives =
            2 * (config.credits + u32::from(config.max_served) + config.reserved_receives);
        // Each call may reserve receives for a reply in several transmissions.
        let reserved = config
            .rtr
            .map_or(0, |rtr| rtr.reply_receives.saturating_mul(config.credits));
        let receives = receives.saturating_add(reserved);
        QueuePairConfig {
            sends: SEND_QUEUE_DEPTH,
            receives: if shares { 0 } else { receives },
            reads: MAX_READS.min(self.device.capabilities().max_reads),
            rnr_retry: shares,
        }
    }
}

/// Returns the reason that a server gives for a rejection, if it is text: other servers may send
/// anything, and InfiniBand fills up with zeros.
fn reason(private_data: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(private_data).ok()?;
    let text = text.trim_end_matches('\0');
    let is_text = !text.is_empty() && !text.contains(char::is_control);
    is_text.then(|| text.to_owned())
}

/// The maximum number of RDMA Reads in flight on a queue pair, if the device supports as many.
const MAX_READS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn a_reason_is_text() {
        let padded = [b"too many connections".as_slice(), &[0; 128]].concat();
        assert_eq!(reason(&padded).as_deref(), Some("too many connections"));
        assert_eq!(
            reason("h\u{f6}chstens 3".as_bytes()).as_deref(),
            Some("h\u{f6}chstens 3")
        );
        for other in [&b""[..], &[0; 148], b"a\nb", b"\xf6\xab\x0e\x18", b"a\0b"] {
            assert_eq!(reason(other), None, "{other:?}");
        }
    }
}
