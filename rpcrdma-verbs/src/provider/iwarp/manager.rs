//! The connection manager of iWARP over TCP: listeners, and connections in their setup. It limits
//! the time and the number of setups, and pauses listeners. `connecting` has the steps of a setup,
//! and `queue_pair` the connection afterwards.
//!
//! There is no thread: setups and their time limits make progress in `poll` alone, and the
//! descriptor (of epoll) tells when to call it. While there are only listeners, most polls make no
//! system call. A socket leaves this epoll before `Qp::establish` adds it to that of its completion
//! queue. The list of deadlines also has ended setups, which `end_late_setups` skips.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use rpcrdma_iwarp::{IwarpStream, MpaEstablished, MpaInitiator, MpaOptions, ReadDepths, RtrTypes};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use super::connect_request::IwarpConnectRequest;
use super::connecting::{Connecting, Incoming, SetupFailure};
use super::queue_pair::{Qp, QpParts};
use super::{IwarpDevice, IwarpQueuePair, socket};
use crate::number_map::NumberMap;
use crate::provider::common::events::EventQueue;
use crate::provider::common::receives::ReceiveQueue;
use crate::provider::common::wakeup::{invalid, system};
use crate::provider::{
    Cause, ConnectionEvent, ConnectionManager, MAX_PRIVATE_DATA, QueuePairConfig, Queues, Result,
    VerbError, check_private_data,
};

/// The connection manager of iWARP over TCP.
#[derive(Debug)]
pub struct IwarpConnectionManager {
    device: IwarpDevice,
    events: Arc<EventQueue<IwarpConnectRequest>>,
    epoll: OwnedFd,
    listeners: NumberMap<u64, (OwnedFd, SocketAddr)>,
    setups: NumberMap<u64, Setup>,
    /// The number of setups at which those that were given up are removed.
    swept_at: usize,
    /// The setups in the order of their deadlines, including some that have ended.
    deadlines: VecDeque<(Instant, u64)>,
    timer: OwnedFd,
    next_token: u64,
    /// The number of polls. Most of them make no system call while there are only listeners.
    polls: u32,
    listening: Listening,
}

/// Whether connections are accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Listening {
    /// They are.
    Accepting,
    /// The maximum number of setups is in progress.
    Full,
    /// The system has no descriptor or no memory for another connection: until this time.
    Paused(Instant),
}

#[derive(Debug)]
enum Setup {
    Connecting(Connecting),
    Incoming(Incoming),
}

/// The tokens of the descriptors that are not sockets. Others have smaller numbers.
const EVENTS: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// While there are only listeners, one of this many polls calls `epoll_wait`.
const POLLS: u32 = 8;

/// How long listeners wait after the system has refused another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The minimum number of setups at which those that were given up are removed.
const SWEPT: usize = 64;

/// The maximum connections that one poll accepts.
const ACCEPTS: usize = 16;

impl IwarpConnectionManager {
    pub(super) fn new(device: IwarpDevice) -> Result<Self> {
        let verb = "manager";
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(system(verb))?;
        let events = Arc::new(EventQueue::new()?);
        let timer = super::completion::timer(verb)?;
        let descriptors = [(events.descriptor(), EVENTS), (timer.as_fd(), TIMER)];
        for (descriptor, token) in descriptors {
            let added = epoll::add(
                &epoll,
                descriptor,
                EventData::new_u64(token),
                EventFlags::IN,
            );
            added.map_err(system(verb))?;
        }
        Ok(Self {
            device,
            events,
            epoll,
            listeners: NumberMap::default(),
            setups: NumberMap::default(),
            swept_at: SWEPT,
            deadlines: VecDeque::new(),
            timer,
            next_token: 0,
            polls: 0,
            listening: Listening::Accepting,
        })
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn watch(&self, descriptor: &OwnedFd, token: u64, flags: EventFlags) -> Result<()> {
        let added = epoll::add(&self.epoll, descriptor, EventData::new_u64(token), flags);
        added.map_err(system("epoll"))
    }

    /// Creates a queue pair.
    fn create(
        &self,
        verb: &'static str,
        config: &QueuePairConfig,
        queues: Queues<'_, IwarpDevice>,
        socket: Option<OwnedFd>,
    ) -> Result<IwarpQueuePair> {
        // rfc: 5040-5.2.2-c, 5040-6.1-b, 5040-6.1-c, 5040-8.1.1-m
        let state = &self.device.shared;
        if config.reads > state.capabilities.max_reads {
            return Err(VerbError {
                verb,
                cause: Cause::Limit,
            });
        }
        let receives = match queues.receives {
            Some(shared) if !shared.0.is_of(&state.domain) => return Err(invalid(verb)),
            Some(shared) => ReceiveQueue::Shared(shared.0.clone()),
            None => ReceiveQueue::Own {
                queue: VecDeque::new(),
                most: config.receives as usize,
            },
        };
        // It is at most the limit of the device.
        let reads = u16::try_from(config.reads).unwrap_or(u16::MAX);
        let parts = QpParts {
            number: state.numbers.take(),
            domain: state.domain.clone(),
            completions: queues.completions.shared.clone(),
            events: self.events.clone(),
            receives,
            send_depth: config.sends,
            receive_timeout: config.rnr_retry.then_some(state.config.receive_timeout),
            fpdu_timeout: state.config.fpdu_timeout,
            depths: ReadDepths {
                ird: reads,
                ord: reads,
            },
        };
        Ok(IwarpQueuePair {
            qp: Qp::new(parts, socket),
            limits: self.device.limits(),
            ended: Once::new(),
        })
    }

    fn options(&self, depths: ReadDepths, private_data: &[u8]) -> MpaOptions {
        // rfc: 5044-1.2-b, 5044-4.4-c, 5044-4.4-d
        MpaOptions {
            crc: self.device.shared.config.crc,
            depths: Some(depths),
            rtr: self.device.shared.config.peer_to_peer.then_some(RtrTypes {
                send: false,
                write: true,
                read: true,
            }),
            private_data: private_data.to_vec(),
        }
    }

    fn fpdu_size(&self, socket: &OwnedFd) -> usize {
        let limit = self.device.shared.config.max_fpdu;
        limit.map_or_else(|| socket::fpdu_size(socket), |limit| limit as usize)
    }

    /// Adds a connection in its setup.
    fn add(&mut self, token: u64, setup: Setup) {
        let timeout = self.device.shared.config.setup_timeout;
        self.remove_given_up();
        self.setups.insert(token, setup);
        // Beyond what the clock can count there is no limit.
        if let Some(deadline) = Instant::now().checked_add(timeout) {
            self.deadlines.push_back((deadline, token));
            if self.deadlines.len() == 1 {
                self.arm_timer();
            }
        }
    }

    /// Removes setups whose queue pairs have ended, once their number may have doubled: their
    /// sockets are closed, and report nothing.
    fn remove_given_up(&mut self) {
        if self.setups.len() >= self.swept_at {
            self.setups.retain(|_, setup| match setup {
                Setup::Connecting(connecting) => connecting.qp.strong_count() > 0,
                Setup::Incoming(_) => true,
            });
            self.swept_at = SWEPT.max(2 * self.setups.len());
            if self.listening == Listening::Full {
                self.resume();
            }
        }
    }

    /// Sets the timer to the next deadline or to the end of a pause.
    fn arm_timer(&self) {
        let mut next = self.deadlines.front().map(|(deadline, _)| *deadline);
        if let Listening::Paused(until) = self.listening {
            next = Some(next.map_or(until, |deadline| deadline.min(until)));
        }
        if let Some(next) = next {
            let left = next.saturating_duration_since(Instant::now());
            super::completion::set_timer(&self.timer, left);
        }
    }

    /// Makes progress on listeners and setups.
    fn progress(&mut self) {
        let mut events = [const { MaybeUninit::uninit() }; super::completion::EVENTS];
        for event in super::completion::ready(&self.epoll, &mut events) {
            match event.data.u64() {
                EVENTS => {}
                TIMER => self.expire(),
                token if self.listeners.contains_key(&token) => self.accept_some(token),
                token => self.advance(token),
            }
        }
    }

    /// Ends setups that exceed their time limit, and a pause.
    fn expire(&mut self) {
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
        let now = Instant::now();
        if matches!(self.listening, Listening::Paused(until) if until <= now) {
            self.resume();
        }
        self.end_late_setups(now);
        self.arm_timer();
    }

    fn end_late_setups(&mut self, now: Instant) {
        // rfc: 5044-7.1.2-p, 5044-7.1.2-t
        while let Some((deadline, token)) = self.deadlines.front().copied() {
            // An ended setup leaves its deadline in the list.
            let is_over = !self.setups.contains_key(&token);
            if deadline > now && !is_over {
                return;
            }
            self.deadlines.pop_front();
            if let Some(setup) = self.remove(token) {
                tracing::debug!("a connection was not set up in time");
                if let Setup::Connecting(connecting) = setup {
                    let failure = SetupFailure::of_socket(Errno::TIMEDOUT, connecting.address);
                    self.fail(&connecting, failure);
                }
            }
        }
    }

    fn accept_some(&mut self, token: u64) {
        for _ in 0..ACCEPTS {
            if self.setups.len() >= self.device.shared.config.max_setups {
                return self.stop_accepting(Listening::Full);
            }
            let Some((listener, address)) = self.listeners.get(&token) else {
                return;
            };
            let accepted = match socket::accept(listener) {
                Ok(accepted) => accepted,
                // The connection waits in the listener, which would be ready again at once.
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    tracing::warn!(listener = %address, %error, "a connection was not accepted");
                    return self.stop_accepting(Listening::Paused(Instant::now() + PAUSE));
                }
                Err(_) => return,
            };
            let incoming = Incoming::new(accepted, *address);
            let token = self.token();
            if self.watch(&incoming.socket, token, EventFlags::IN).is_ok() {
                self.add(token, Setup::Incoming(incoming));
                self.advance(token);
            }
        }
    }

    /// Leaves connections in the listeners until a setup has ended, or until the end of a pause.
    fn stop_accepting(&mut self, listening: Listening) {
        self.listening = listening;
        self.watch_listeners(EventFlags::empty());
        self.arm_timer();
    }

    /// Accepts connections again.
    fn resume(&mut self) {
        self.listening = Listening::Accepting;
        self.watch_listeners(EventFlags::IN);
    }

    fn watch_listeners(&self, flags: EventFlags) {
        for (token, (listener, _)) in &self.listeners {
            let token = EventData::new_u64(*token);
            // It fails only for descriptors that are not registered.
            let _ = epoll::modify(&self.epoll, listener, token, flags);
        }
    }

    /// Removes a setup, which makes room for another one.
    fn remove(&mut self, token: u64) -> Option<Setup> {
        let setup = self.setups.remove(&token);
        if self.listening == Listening::Full {
            self.resume();
        }
        setup
    }

    fn advance(&mut self, token: u64) {
        match self.setups.get_mut(&token) {
            None => {}
            Some(Setup::Incoming(_)) => self.advance_incoming(token),
            Some(Setup::Connecting(_)) => self.advance_connecting(token),
        }
    }

    fn advance_incoming(&mut self, token: u64) {
        // rfc: 5044-7.1.2-c, 5044-7.1.2-d
        let Some(Setup::Incoming(incoming)) = self.setups.get_mut(&token) else {
            return;
        };
        let advanced = incoming.advance();
        if matches!(advanced, Ok(None)) {
            return;
        }
        let Some(Setup::Incoming(incoming)) = self.remove(token) else {
            return;
        };
        match advanced {
            Ok(Some(request)) => {
                let _ = epoll::delete(&self.epoll, &incoming.socket);
                self.events.push(ConnectionEvent::Requested {
                    private_data: request.private_data().into(),
                    peer: incoming.peer,
                    listener: incoming.listener,
                    request: IwarpConnectRequest::new(incoming.socket, request),
                });
            }
            Ok(None) | Err(None) => {}
            Err(Some(error)) => {
                tracing::debug!(peer = %incoming.peer, %error, "a connection was not set up");
            }
        }
    }

    fn advance_connecting(&mut self, token: u64) {
        let Some(Setup::Connecting(connecting)) = self.setups.get_mut(&token) else {
            return;
        };
        let Some(qp) = connecting.qp.upgrade() else {
            self.remove(token);
            return;
        };
        let was_sending = connecting.is_sending();
        let Some(advanced) = qp.with_socket(|socket| connecting.advance(socket)) else {
            self.remove(token);
            return;
        };
        if let Ok(None) = advanced {
            if was_sending && !connecting.is_sending() {
                let (token, flags) = (EventData::new_u64(token), EventFlags::IN);
                qp.with_socket(|socket| epoll::modify(&self.epoll, socket, token, flags));
            }
            return;
        }
        let Some(Setup::Connecting(connecting)) = self.remove(token) else {
            return;
        };
        match advanced {
            Ok(Some(established)) => self.establish(&connecting, &qp, &established),
            Ok(None) => {}
            Err(failure) => self.fail(&connecting, failure),
        }
    }

    fn establish(&self, connecting: &Connecting, qp: &Qp, established: &MpaEstablished) {
        // rfc: 5044-7.1.2-j
        let size = qp.with_socket(|socket| {
            let _ = epoll::delete(&self.epoll, socket);
            self.fpdu_size(socket)
        });
        if let Some(size) = size {
            let stream = IwarpStream::initiator(established, qp.depths, size);
            // An initiator that requests peer-to-peer mode knows that the peer handles it.
            let nudges = established.rtr.is_none();
            if !qp.establish((stream, nudges), None, &established.private_data) {
                let failure = SetupFailure::of_socket(Errno::NOMEM, connecting.address);
                self.fail(connecting, failure);
            }
        }
    }

    /// Reports that a connection could not be established.
    fn fail(&self, connecting: &Connecting, failure: SetupFailure) {
        // rfc: 5044-7.1.2-m
        let Some(qp) = connecting.qp.upgrade().filter(|qp| qp.refuse()) else {
            return;
        };
        let (rejected, private_data, error) = match failure {
            SetupFailure::Rejected(data) => (true, data, None),
            SetupFailure::Error(error) => (false, Vec::new(), Some(error)),
        };
        self.events.push(ConnectionEvent::Failed {
            queue_pair: qp.number,
            rejected,
            private_data: private_data.into(),
            error,
        });
    }

    /// Returns true if this poll must call `epoll_wait`.
    fn is_due(&mut self) -> bool {
        self.polls = self.polls.wrapping_add(1);
        !self.setups.is_empty() || self.polls.is_multiple_of(POLLS)
    }
}

impl Drop for IwarpConnectionManager {
    fn drop(&mut self) {
        // Dropping the events rejects the requests that were not polled.
        self.events.clear();
    }
}

impl ConnectionManager<IwarpDevice> for IwarpConnectionManager {
    type Request = IwarpConnectRequest;

    fn listen(&mut self, address: SocketAddr) -> Result<SocketAddr> {
        let (listener, address) = socket::listen(address, self.device.shared.traffic_class.get())?;
        let token = self.token();
        self.watch(&listener, token, EventFlags::IN)?;
        self.listeners.insert(token, (listener, address));
        Ok(address)
    }

    fn unlisten(&mut self, address: SocketAddr) {
        self.listeners.retain(|_, (_, known)| *known != address);
    }

    fn connect(
        &mut self,
        address: SocketAddr,
        config: &QueuePairConfig,
        queues: Queues<'_, IwarpDevice>,
        private_data: &[u8],
    ) -> Result<IwarpQueuePair> {
        check_private_data("connect", private_data)?;
        let pair = self.create("connect", config, queues, None)?;
        let token = self.token();
        let begun = MpaInitiator::new(self.options(pair.qp.depths, private_data));
        let begun = begun.map_err(|_| VerbError {
            verb: "connect",
            cause: Cause::PrivateData,
        })?;
        let connecting = Connecting::new(Arc::downgrade(&pair.qp), address, begun);
        match socket::connect(&address, self.device.shared.traffic_class.get()) {
            Ok(socket) => {
                self.watch(&socket, token, EventFlags::IN | EventFlags::OUT)?;
                pair.qp.set_socket(socket);
                self.add(token, Setup::Connecting(connecting));
            }
            // As on a device, the failure is reported later.
            Err(error) => self.fail(&connecting, SetupFailure::of_socket(error, address)),
        }
        Ok(pair)
    }

    fn prepare(
        &mut self,
        request: &IwarpConnectRequest,
        config: &QueuePairConfig,
        queues: Queues<'_, IwarpDevice>,
    ) -> Result<IwarpQueuePair> {
        let pair = self.create("prepare", config, queues, None)?;
        match request.prepared.set(pair.qp.number) {
            Ok(()) => Ok(pair),
            Err(_) => Err(VerbError {
                verb: "prepare",
                cause: Cause::State,
            }),
        }
    }

    fn accept(
        &mut self,
        mut request: IwarpConnectRequest,
        queue_pair: &IwarpQueuePair,
        private_data: &[u8],
    ) -> Result<()> {
        check_private_data("accept", private_data)?;
        let wrong_state = || VerbError {
            verb: "accept",
            cause: Cause::State,
        };
        let qp = &queue_pair.qp;
        if request.prepared.get() != Some(&qp.number) || !qp.is_connecting() {
            return Err(wrong_state());
        }
        let open = request.open.take();
        let (socket, mpa) = open
            // An initiator sends nothing before the reply.
            .filter(|(socket, _)| socket::is_silent(socket))
            .ok_or_else(wrong_state)?;
        let options = self.options(qp.depths, private_data);
        let (reply, established) = mpa.accept(&options).map_err(|_| wrong_state())?;
        let stream = IwarpStream::responder(&established, qp.depths, self.fpdu_size(&socket));
        // The socket has not sent anything, so there is room for the reply.
        let sent = socket::send(&socket, &[IoSlice::new(&reply)]);
        if sent != Ok(reply.len()) || !qp.establish((stream, false), Some(socket), &[]) {
            return Err(wrong_state());
        }
        Ok(())
    }

    fn reject(&mut self, mut request: IwarpConnectRequest, private_data: &[u8]) {
        let private_data = private_data.get(..MAX_PRIVATE_DATA).unwrap_or(private_data);
        request.answer(|request| request.reject(private_data).ok());
    }

    fn poll(&mut self) -> Option<ConnectionEvent<IwarpConnectRequest>> {
        if let Some(event) = self.events.poll() {
            return Some(event);
        }
        if !self.is_due() {
            return None;
        }
        self.progress();
        self.events.poll()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::IwarpConfig;
    use super::*;
    use crate::provider::Device as _;

    /// Without a time limit, a connection that is given up would otherwise stay for ever.
    #[test]
    fn setups_that_are_given_up_are_forgotten() {
        let device = IwarpDevice::new(IwarpConfig {
            setup_timeout: Duration::MAX,
            ..IwarpConfig::default()
        });
        // It never answers.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let completions = device.completion_queue(16).unwrap();
        let mut manager = device.manager().unwrap();
        let config = QueuePairConfig {
            sends: 1,
            receives: 1,
            reads: 1,
            rnr_retry: false,
        };
        for _ in 0..1000 {
            let queues = Queues {
                completions: &completions,
                receives: None,
            };
            drop(manager.connect(address, &config, queues, &[]).unwrap());
        }
        assert!(manager.setups.len() < 200, "{}", manager.setups.len());
    }
}
