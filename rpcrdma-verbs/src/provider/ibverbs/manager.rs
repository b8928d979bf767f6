//! The connection manager: librdmacm's events become the contract's.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};

use rustix::io::Errno;

use super::connection::{Connection, Phase, Request};
use super::hint::explained;
use super::hub::Hub;
use super::notices::Notices;
use super::pair::{Pair, Parts, State};
use super::queue::any_of;
use super::sys::{Channel, Happened, Id, Key, Kind};
use super::{IbvDevice, QueuePair};
use crate::provider::{self, Cause, ConnectionEvent, PRIVATE_DATA, QueuePairConfig, Queues, Result, VerbError};

/// The connection manager of a device.
pub struct Manager {
    hub: Rc<Hub>,
    channel: Rc<Channel>,
    notices: Rc<Notices>,
    listening: Vec<(Id, SocketAddr)>,
    connections: HashMap<Key, Entry>,
    /// Of all that can wake it.
    any: OwnedFd,
    /// The hub's attention at the last look, and calls since then.
    looked: (u32, u32),
}

/// A connection, as long as there is one.
struct Entry {
    connection: Weak<Connection>,
    pair: Weak<Pair>,
}

/// Calls of `poll` after which the descriptors are looked at, though nobody is about to wait: a look is a system call.
const SELDOM: u32 = 32;

/// InfiniBand's reasons for a rejection: the consumer's own, and that nobody listens.
const CONSUMER: i32 = 28;
const NO_SERVICE: i32 = 8;

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Manager({})", self.hub.capabilities.name)
    }
}

impl Manager {
    pub(super) fn new(hub: &Rc<Hub>) -> Result<Self> {
        let (channel, notices) = (Channel::new()?, Notices::new()?);
        let any = any_of("manager", &[channel.descriptor(), notices.descriptor(), hub.context.descriptor()])?;
        // What was there before has nothing to do with it.
        hub.take_events();
        let (listening, connections, looked) = (Vec::new(), HashMap::new(), (hub.attention(), SELDOM));
        Ok(Self { hub: hub.clone(), channel, notices, listening, connections, any, looked })
    }

    fn parts<'a>(&'a self, queues: &Queues<'a, IbvDevice>) -> Parts<'a> {
        Parts {
            hub: &self.hub,
            queue: &queues.completions.queue,
            shared: queues.receives.map(|shared| &*shared.shared),
            notices: &self.notices,
        }
    }

    fn checked(&self, verb: &'static str, config: &QueuePairConfig, queues: &Queues<'_, IbvDevice>) -> Result<()> {
        let capabilities = &self.hub.capabilities;
        if config.reads > capabilities.reads || (config.rnr_retry && !capabilities.rnr_retry) {
            return Err(VerbError { verb, cause: Cause::Limit });
        }
        let of_hub = Rc::ptr_eq(&queues.completions.hub, &self.hub)
            && queues.receives.is_none_or(|shared| Rc::ptr_eq(&shared.shared.hub, &self.hub));
        if of_hub { Ok(()) } else { Err(explained(verb, Errno::INVAL.into())) }
    }

    fn enter(&mut self, connection: &Rc<Connection>, pair: Weak<Pair>) {
        if self.connections.len() == self.connections.capacity() {
            self.connections.retain(|_, entry| entry.connection.strong_count() > 0);
        }
        let entry = Entry { connection: Rc::downgrade(connection), pair };
        self.connections.insert(connection.id.key(), entry);
    }

    /// Takes what has happened: whether there was anything.
    fn look(&mut self) {
        self.looked = (self.hub.attention(), 0);
        self.hub.take_events();
        while let Some(happened) = self.channel.next() {
            tracing::trace!(?happened, "of a connection");
            self.happens(happened);
        }
    }

    fn happens(&mut self, happened: Happened) {
        let Happened { kind, of, status, private_data, reads, new } = happened;
        if let Some((id, at)) = new {
            return self.requested(id, at, private_data, reads);
        }
        let Some(entry) = self.connections.get(&of) else { return };
        let (Some(connection), pair) = (entry.connection.upgrade(), entry.pair.upgrade()) else {
            self.connections.remove(&of);
            return;
        };
        match pair.filter(|pair| pair.state() != State::Ended) {
            Some(pair) => self.continues(&connection, &pair, kind, status, private_data),
            None => {
                ends(&connection, kind);
                self.notices.let_go(&connection);
            }
        }
    }

    /// Somebody asks for a connection.
    fn requested(&mut self, id: Id, at: Key, private_data: Box<[u8]>, reads: (u8, u8)) {
        let listener = self.listening.iter().find(|(listening, _)| listening.key() == at).map(|(_, address)| *address);
        let (Some(listener), Some(peer)) = (listener, id.peer()) else { return };
        // One that listens at every address hears of every device.
        if let Err(error) = self.is_ours(&id, peer) {
            tracing::warn!(%error, "a request to connect is rejected");
            return id.reject(&[]);
        }
        let connection = Connection::new(id, Phase::Asked, reads, peer);
        self.enter(&connection, Weak::new());
        let request = Request { connection, answered: false };
        self.notices.tell(ConnectionEvent::Requested { request, private_data, peer, listener });
    }

    fn is_ours(&self, id: &Id, address: SocketAddr) -> Result<()> {
        let ours = &self.hub.capabilities.name;
        match id.device() {
            Some(device) if device != *ours => {
                Err(VerbError { verb: "rdma_resolve_addr", cause: Cause::OtherDevice { address, device } })
            }
            _ => Ok(()),
        }
    }

    /// Something has happened to a connection with a queue pair.
    fn continues(&self, connection: &Connection, pair: &Rc<Pair>, kind: Kind, status: i32, private_data: Box<[u8]>) {
        let refuse = |why| pair.is_refused(false, Box::default(), Some(why));
        let phase = connection.phase.get();
        match (kind, phase) {
            (Kind::AddressResolved, Phase::Resolving) => {
                let ours = self.is_ours(&connection.id, connection.peer);
                if let Err(why) = ours.and_then(|()| connection.id.resolve_route()) {
                    refuse(why);
                }
            }
            (Kind::RouteResolved, Phase::Resolving) => {
                if let Err(why) = pair.ask() {
                    refuse(why);
                }
            }
            (Kind::Responded, Phase::Asking) => match pair.respond() {
                Ok(()) => self.established(pair, private_data),
                Err(why) => {
                    connection.id.reject(&[]);
                    refuse(why);
                }
            },
            (Kind::Established, Phase::Asking | Phase::Accepted) => {
                pair.is_ready();
                self.established(pair, private_data);
            }
            (Kind::Rejected, Phase::Resolving | Phase::Asking) => {
                let rejected = is_rejection(status, &private_data);
                pair.is_refused(rejected, private_data, (!rejected).then(|| unmade(status, connection.peer)));
            }
            (Kind::Failed(verb), Phase::Resolving | Phase::Asking) => refuse(explained(verb, system(status))),
            (Kind::Rejected | Kind::Failed(_), Phase::Asked) => connection.phase.set(Phase::Ended),
            (Kind::Rejected | Kind::Failed(_) | Kind::Disconnected | Kind::Removed, _) => pair.fail(),
            _ => {}
        }
    }

    fn established(&self, pair: &Pair, private_data: Box<[u8]>) {
        self.notices.tell(ConnectionEvent::Established { queue_pair: pair.number, private_data });
    }
}

/// What happens to a connection that has no queue pair yet, or no more.
fn ends(connection: &Connection, kind: Kind) {
    match kind {
        // The peer has accepted what was given up.
        Kind::Responded => connection.id.reject(&[]),
        Kind::Rejected | Kind::Failed(_) | Kind::Disconnected | Kind::Removed => {
            connection.hang_up();
            connection.phase.set(Phase::Ended);
        }
        _ => {}
    }
}

/// Whether somebody has rejected a connection, and not something.
fn is_rejection(status: i32, private_data: &[u8]) -> bool {
    // iWARP's stacks tell an answer by this one; some tell the other, for both.
    let reset = -Errno::CONNRESET.raw_os_error();
    let refused = -Errno::CONNREFUSED.raw_os_error();
    status == CONSUMER || status == reset || (status == refused && !private_data.is_empty())
}

/// Why a connection was not made, though nobody has rejected it.
fn unmade(status: i32, address: SocketAddr) -> VerbError {
    let nobody = status == NO_SERVICE || status == -Errno::CONNREFUSED.raw_os_error();
    if nobody {
        return VerbError { verb: "rdma_connect", cause: Cause::Unreachable(address) };
    }
    explained("rdma_connect", system(status))
}

/// What a status of an event says: an errno, negated, or a reason of InfiniBand's.
fn system(status: i32) -> std::io::Error {
    if status < 0 {
        std::io::Error::from_raw_os_error(-status)
    } else {
        std::io::Error::other(format!("reason {status} of InfiniBand's connection manager"))
    }
}

fn fits(verb: &'static str, private_data: &[u8]) -> Result<()> {
    if private_data.len() <= PRIVATE_DATA { Ok(()) } else { Err(VerbError { verb, cause: Cause::PrivateData }) }
}

impl provider::Manager<IbvDevice> for Manager {
    type Request = Request;

    fn listen(&mut self, address: SocketAddr) -> Result<SocketAddr> {
        let id = Id::new(&self.channel)?;
        let address = id.listen(address)?;
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
    ) -> Result<QueuePair> {
        fits("connect", private_data)?;
        self.checked("connect", config, &queues)?;
        let connection = Connection::new(Id::new(&self.channel)?, Phase::Resolving, (0, 0), address);
        let pair = QueuePair(Pair::new(&self.parts(&queues), config, connection.clone(), private_data)?);
        pair.0.begin()?;
        connection.id.resolve_address(address)?;
        self.enter(&connection, Rc::downgrade(&pair.0));
        Ok(pair)
    }

    fn prepare(
        &mut self,
        request: &Request,
        config: &QueuePairConfig,
        queues: Queues<'_, IbvDevice>,
    ) -> Result<QueuePair> {
        self.checked("prepare", config, &queues)?;
        let connection = &request.connection;
        if connection.phase.get() != Phase::Asked || connection.prepared.get() {
            return Err(VerbError { verb: "prepare", cause: Cause::State });
        }
        let pair = QueuePair(Pair::new(&self.parts(&queues), config, connection.clone(), &[])?);
        pair.0.initialize()?;
        connection.prepared.set(true);
        self.enter(connection, Rc::downgrade(&pair.0));
        Ok(pair)
    }

    fn accept(&mut self, mut request: Request, queue_pair: &QueuePair, private_data: &[u8]) -> Result<()> {
        fits("accept", private_data)?;
        let pair = &queue_pair.0;
        let mine = Rc::ptr_eq(&pair.connection, &request.connection);
        if !mine || request.connection.phase.get() != Phase::Asked || pair.state() != State::Connecting {
            // It is rejected as it is dropped.
            return Err(VerbError { verb: "accept", cause: Cause::State });
        }
        pair.accept(private_data)?;
        request.answered = true;
        Ok(())
    }

    fn reject(&mut self, mut request: Request, private_data: &[u8]) {
        request.answered = true;
        request.connection.reject(private_data.get(..PRIVATE_DATA).unwrap_or(private_data));
    }

    fn poll(&mut self) -> Option<ConnectionEvent<Request>> {
        if let Some(event) = self.notices.next() {
            return Some(event);
        }
        let (attention, calls) = self.looked;
        if attention == self.hub.attention() && calls < SELDOM {
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

impl Drop for Manager {
    fn drop(&mut self) {
        // Requests that nobody takes are rejected as they are dropped.
        while self.notices.next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_is_somebodys() {
        assert!(is_rejection(CONSUMER, &[0; 148]) && is_rejection(-Errno::CONNRESET.raw_os_error(), &[]));
        assert!(!is_rejection(NO_SERVICE, &[0; 148]) && !is_rejection(-Errno::CONNREFUSED.raw_os_error(), &[]));
    }

    #[test]
    fn what_was_not_made_says_why() {
        let address = "10.0.0.1:20049".parse().unwrap();
        assert_eq!(unmade(NO_SERVICE, address).to_string(), "rdma_connect: nobody listens at 10.0.0.1:20049");
        assert!(unmade(-Errno::TIMEDOUT.raw_os_error(), address).to_string().contains("firewall"));
        assert!(unmade(4, address).to_string().contains("reason 4"));
    }
}
