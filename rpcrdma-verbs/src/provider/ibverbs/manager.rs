//! The connection manager, on top of librdmacm: it dispatches events to connections. `queue_pair`
//! and its `establish` do the steps, and `connection` has the phase, which decides what an event
//! means.
//!
//! Looking at the descriptors is a system call, so that most polls skip it (`SELDOM`) until a
//! thread has acknowledged a completion queue. A connection whose queue pair has ended still gets
//! its events: it rejects a late answer, and then destroys a lingering queue pair (`event_queue`).
//! Connect requests for another device arrive at a listener on every address, and are rejected.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::completion_queue::any_of;
use super::connection::{Connection, IbvConnectRequest, Phase};
use super::device_state::DeviceState;
use super::event_queue::EventQueue;
use super::hint::explained;
use super::queue_pair::{PairResources, QpInner, State};
use super::sys::{Channel, CmEvent, Id, Key, Kind};
use super::{IbvDevice, IbvQueuePair};
use crate::provider::{
    self, Cause, ConnectionEvent, MAX_PRIVATE_DATA, QueuePairConfig, Queues, Result, VerbError,
    check_private_data,
};

/// The connection manager of a device.
pub struct IbvConnectionManager {
    device_state: Arc<DeviceState>,
    channel: Arc<Channel>,
    /// Events that were not polled yet, and queue pairs that wait for an answer of their peer
    /// (iWARP).
    notices: Arc<EventQueue>,
    listening: Vec<(Id, SocketAddr)>,
    connections: HashMap<Key, Entry>,
    /// Readable if any of its descriptors is.
    any: OwnedFd,
    /// The attention count of the device at the last check, and the number of polls since then.
    looked: (u32, u32),
    /// True after a request was moved to this manager: its events do not make the descriptor
    /// readable.
    has_migrated: bool,
}

/// A connection, until it is dropped.
struct Entry {
    connection: Weak<Connection>,
    pair: Weak<QpInner>,
}

/// The number of polls after which the descriptors are checked even if no thread was woken: a check
/// is a system call. A thread that was woken acknowledges a completion queue of the device, which
/// changes the attention count: then they are checked at once.
const SELDOM: u32 = 32;
/// The number of attempts to draw a free port.
const PORT_DRAWS: u32 = 16;

/// InfiniBand reasons of a rejection: by the consumer, and without a listener.
const CONSUMER: i32 = 28;
const NO_SERVICE: i32 = 8;

impl std::fmt::Debug for IbvConnectionManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Manager({})", self.device_state.capabilities.name)
    }
}

impl IbvConnectionManager {
    pub(super) fn new(device_state: &Arc<DeviceState>) -> Result<Self> {
        let (channel, notices) = (Channel::new()?, EventQueue::new()?);
        let any = any_of(
            "manager",
            &[
                channel.descriptor(),
                notices.descriptor(),
                device_state.context.descriptor(),
            ],
        )?;
        // Earlier events of the device concern no connection of this manager.
        device_state.take_events();
        let (listening, connections, looked) = (
            Vec::new(),
            HashMap::new(),
            (device_state.attention(), SELDOM),
        );
        Ok(Self {
            device_state: device_state.clone(),
            channel,
            notices,
            listening,
            connections,
            any,
            looked,
            has_migrated: false,
        })
    }

    /// Creates a connection or a listener with the traffic class of the device.
    fn new_id(&self) -> Result<Id> {
        let id = Id::new(&self.channel)?;
        if let Some(class) = self.device_state.traffic_class.get() {
            id.set_traffic_class(class)?;
        }
        Ok(id)
    }

    fn parts<'a>(&'a self, queues: &Queues<'a, IbvDevice>) -> PairResources<'a> {
        PairResources {
            device_state: &self.device_state,
            queue: &queues.completions.queue,
            shared: queues.receives.map(|shared| &*shared.shared),
            events: &self.notices,
        }
    }

    fn checked(
        &self,
        verb: &'static str,
        config: &QueuePairConfig,
        queues: &Queues<'_, IbvDevice>,
    ) -> Result<()> {
        let capabilities = &self.device_state.capabilities;
        if config.reads > capabilities.max_reads || (config.rnr_retry && !capabilities.rnr_retry) {
            return Err(VerbError {
                verb,
                cause: Cause::Limit,
            });
        }
        let of_hub = Arc::ptr_eq(&queues.completions.device_state, &self.device_state)
            && queues
                .receives
                .is_none_or(|shared| Arc::ptr_eq(&shared.shared.device_state, &self.device_state));
        if of_hub {
            Ok(())
        } else {
            Err(explained(verb, Errno::INVAL.into()))
        }
    }

    fn enter(&mut self, connection: &Arc<Connection>, pair: Weak<QpInner>) {
        if self.connections.len() == self.connections.capacity() {
            self.connections
                .retain(|_, entry| entry.connection.strong_count() > 0);
        }
        let entry = Entry {
            connection: Arc::downgrade(connection),
            pair,
        };
        self.connections.insert(connection.id.key(), entry);
    }

    fn prepare_pair(
        &mut self,
        connection: &Arc<Connection>,
        config: &QueuePairConfig,
        queues: &Queues<'_, IbvDevice>,
    ) -> Result<IbvQueuePair> {
        let pair = IbvQueuePair(QpInner::new(
            &self.parts(queues),
            config,
            connection.clone(),
            &[],
        )?);
        pair.0.initialize()?;
        self.enter(connection, Arc::downgrade(&pair.0));
        Ok(pair)
    }

    /// Returns true if there may be an event.
    fn is_readable(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.any, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec::default())) != Ok(0)
    }

    /// Processes all events.
    fn look(&mut self) {
        self.looked = (self.device_state.attention(), 0);
        if !std::mem::take(&mut self.has_migrated) && !self.is_readable() {
            return self.device_state.end_failed();
        }
        self.device_state.take_events();
        while let Some(happened) = self.channel.next() {
            tracing::trace!(?happened, "of a connection");
            self.happens(happened);
        }
    }

    fn happens(&mut self, happened: CmEvent) {
        let CmEvent {
            kind,
            of,
            status,
            private_data,
            reads,
            new,
        } = happened;
        if let Some((id, at)) = new {
            return self.requested(id, at, private_data, reads);
        }
        let Some(entry) = self.connections.get(&of) else {
            return;
        };
        let (Some(connection), pair) = (entry.connection.upgrade(), entry.pair.upgrade()) else {
            self.connections.remove(&of);
            return;
        };
        let has_ended = |pair: &QpInner| pair.state() == State::Ended;
        if let Some(pair) = pair.as_ref().filter(|pair| !has_ended(pair)) {
            self.continues(&connection, pair, kind, status, private_data);
        }
        // This also applies if the event, or another thread, has ended it.
        if pair.is_none_or(|pair| has_ended(&pair)) {
            ends(&connection, kind);
            self.notices.destroy_lingering(&connection);
        }
    }

    /// Handles a connect request of a peer.
    fn requested(&mut self, id: Id, at: Key, private_data: Box<[u8]>, reads: (u8, u8)) {
        let listener = self
            .listening
            .iter()
            .find(|(listening, _)| listening.key() == at)
            .map(|(_, address)| *address);
        let (Some(listener), Some(peer)) = (listener, id.peer()) else {
            return;
        };
        // A listener on every address receives connect requests for every device.
        if let Err(error) = self.is_ours(&id, peer) {
            tracing::warn!(%error, "a request to connect is rejected");
            return id.reject(&[]);
        }
        let connection = Connection::new(id, Phase::RequestReceived, reads, peer);
        self.enter(&connection, Weak::new());
        let request = IbvConnectRequest {
            connection,
            is_answered: false,
        };
        self.notices.push(ConnectionEvent::Requested {
            request,
            private_data,
            peer,
            listener,
        });
    }

    fn is_ours(&self, id: &Id, address: SocketAddr) -> Result<()> {
        let ours = &self.device_state.capabilities.name;
        match id.device() {
            Some(device) if device != *ours => Err(VerbError {
                verb: "rdma_resolve_addr",
                cause: Cause::OtherDevice { address, device },
            }),
            _ => Ok(()),
        }
    }

    /// Handles an event of a connection with a queue pair.
    fn continues(
        &self,
        connection: &Connection,
        pair: &Arc<QpInner>,
        kind: Kind,
        status: i32,
        private_data: Box<[u8]>,
    ) {
        let refuse = |error| pair.connect_failed(false, Box::default(), Some(error));
        let phase = connection.phase();
        match (kind, phase) {
            (Kind::AddressResolved, Phase::Resolving) => {
                let ours = self.is_ours(&connection.id, connection.peer);
                if let Err(error) = ours.and_then(|()| connection.id.resolve_route()) {
                    refuse(error);
                }
            }
            (Kind::RouteResolved, Phase::Resolving) => {
                if let Err(error) = pair.connect() {
                    refuse(error);
                }
            }
            (Kind::Responded, Phase::Requesting) => {
                if let Err(error) = pair.respond(private_data) {
                    connection.id.reject(&[]);
                    refuse(error);
                }
            }
            (Kind::Established, Phase::Requesting | Phase::Accepted) => {
                pair.establish(private_data);
            }
            (Kind::Rejected, Phase::Resolving | Phase::Requesting) => {
                let rejected = is_rejection(status, &private_data);
                pair.connect_failed(
                    rejected,
                    private_data,
                    (!rejected).then(|| unmade(status, connection.peer)),
                );
            }
            (Kind::Failed(verb), Phase::Resolving | Phase::Requesting) => {
                refuse(explained(verb, system(status)))
            }
            (Kind::Rejected | Kind::Failed(_), Phase::RequestReceived) => {
                connection.set_phase(Phase::Ended);
            }
            (Kind::Rejected | Kind::Failed(_) | Kind::Disconnected | Kind::Removed, _) => {
                pair.fail()
            }
            _ => {}
        }
    }
}

/// Handles an event of a connection without a queue pair.
fn ends(connection: &Connection, kind: Kind) {
    match kind {
        // The peer has accepted an abandoned connection.
        Kind::Responded => connection.id.reject(&[]),
        Kind::Rejected | Kind::Failed(_) | Kind::Disconnected | Kind::Removed => {
            connection.disconnect();
            connection.set_phase(Phase::Ended);
        }
        _ => {}
    }
}

/// Returns true if the consumer of the peer has rejected the connection.
fn is_rejection(status: i32, private_data: &[u8]) -> bool {
    // iWARP drivers report a rejection with this status; some use the other one for both cases.
    let reset = -Errno::CONNRESET.raw_os_error();
    let refused = -Errno::CONNREFUSED.raw_os_error();
    status == CONSUMER || status == reset || (status == refused && !private_data.is_empty())
}

/// Returns the error of a connection that was not rejected by the peer.
fn unmade(status: i32, address: SocketAddr) -> VerbError {
    let nobody = status == NO_SERVICE || status == -Errno::CONNREFUSED.raw_os_error();
    if nobody {
        return VerbError {
            verb: "rdma_connect",
            cause: Cause::Unreachable(address),
        };
    }
    explained("rdma_connect", system(status))
}

/// Converts the status of an event: a negated errno, or an InfiniBand reason.
fn system(status: i32) -> std::io::Error {
    if status < 0 {
        std::io::Error::from_raw_os_error(-status)
    } else {
        std::io::Error::other(format!(
            "reason {status} of InfiniBand's connection manager"
        ))
    }
}

impl IbvConnectionManager {
    /// Listens on an address. On iWARP, if any port is requested, the connection manager may choose
    /// one that TCP already uses: then it chooses another.
    fn listen_somewhere(&self, address: SocketAddr) -> Result<(Id, SocketAddr)> {
        let draws = if address.port() == 0 { PORT_DRAWS } else { 1 };
        let mut drawn = 1;
        loop {
            let id = self.new_id()?;
            match id.listen(address) {
                Ok(address) => return Ok((id, address)),
                Err(error) if drawn == draws || !matches!(error.cause, Cause::AddressInUse(_)) => {
                    return Err(error);
                }
                Err(_) => drawn += 1,
            }
        }
    }
}

impl provider::ConnectionManager<IbvDevice> for IbvConnectionManager {
    type Request = IbvConnectRequest;

    fn listen(&mut self, address: SocketAddr) -> Result<SocketAddr> {
        let (id, address) = self.listen_somewhere(address)?;
        self.is_ours(&id, address)?;
        self.listening.push((id, address));
        Ok(address)
    }

    fn unlisten(&mut self, address: SocketAddr) {
        self.listening.retain(|(_, known)| *known != address);
    }

    fn connect(
        &mut self,
        address: SocketAddr,
        config: &QueuePairConfig,
        queues: Queues<'_, IbvDevice>,
        private_data: &[u8],
    ) -> Result<IbvQueuePair> {
        check_private_data("connect", private_data)?;
        self.checked("connect", config, &queues)?;
        let connection = Connection::new(self.new_id()?, Phase::Resolving, (0, 0), address);
        let pair = IbvQueuePair(QpInner::new(
            &self.parts(&queues),
            config,
            connection.clone(),
            private_data,
        )?);
        pair.0.begin()?;
        connection.id.resolve_address(address)?;
        self.enter(&connection, Arc::downgrade(&pair.0));
        Ok(pair)
    }

    fn prepare(
        &mut self,
        request: &IbvConnectRequest,
        config: &QueuePairConfig,
        queues: Queues<'_, IbvDevice>,
    ) -> Result<IbvQueuePair> {
        self.checked("prepare", config, &queues)?;
        let connection = &request.connection;
        if connection.phase() != Phase::RequestReceived
            || connection.prepared.swap(true, Ordering::AcqRel)
        {
            return Err(VerbError {
                verb: "prepare",
                cause: Cause::State,
            });
        }
        // Another manager of the device may have received the request.
        let migrated = connection.id.migrate(&self.channel);
        (self.has_migrated, self.looked.1) = (true, SELDOM);
        let prepared = migrated.and_then(|()| self.prepare_pair(connection, config, &queues));
        connection
            .prepared
            .store(prepared.is_ok(), Ordering::Release);
        prepared
    }

    fn accept(
        &mut self,
        mut request: IbvConnectRequest,
        queue_pair: &IbvQueuePair,
        private_data: &[u8],
    ) -> Result<()> {
        check_private_data("accept", private_data)?;
        let pair = &queue_pair.0;
        let mine = Arc::ptr_eq(&pair.connection, &request.connection);
        if !mine
            || request.connection.phase() != Phase::RequestReceived
            || pair.state() != State::Connecting
        {
            // Dropping the request rejects the connection.
            return Err(VerbError {
                verb: "accept",
                cause: Cause::State,
            });
        }
        pair.accept(private_data)?;
        request.is_answered = true;
        Ok(())
    }

    fn reject(&mut self, mut request: IbvConnectRequest, private_data: &[u8]) {
        request.is_answered = true;
        request
            .connection
            .reject(private_data.get(..MAX_PRIVATE_DATA).unwrap_or(private_data));
    }

    fn poll(&mut self) -> Option<ConnectionEvent<IbvConnectRequest>> {
        if let Some(event) = self.notices.next() {
            return Some(event);
        }
        let (attention, calls) = self.looked;
        if attention == self.device_state.attention() && calls < SELDOM {
            self.looked.1 += 1;
            return None;
        }
        self.look();
        self.notices.next()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.any.as_fd()
    }
}

impl Drop for IbvConnectionManager {
    fn drop(&mut self) {
        // Dropping unpolled requests rejects them.
        while self.notices.next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejection_is_recognized_by_its_status() {
        assert!(
            is_rejection(CONSUMER, &[0; 148])
                && is_rejection(-Errno::CONNRESET.raw_os_error(), &[])
        );
        assert!(
            !is_rejection(NO_SERVICE, &[0; 148])
                && !is_rejection(-Errno::CONNREFUSED.raw_os_error(), &[])
        );
    }

    #[test]
    fn failed_creation_has_its_reason() {
        let address = "10.0.0.1:20049".parse().unwrap();
        assert_eq!(
            unmade(NO_SERVICE, address).to_string(),
            "rdma_connect: nothing listens at 10.0.0.1:20049"
        );
        assert!(
            unmade(-Errno::TIMEDOUT.raw_os_error(), address)
                .to_string()
                .contains("firewall")
        );
        assert!(unmade(4, address).to_string().contains("reason 4"));
    }
}
