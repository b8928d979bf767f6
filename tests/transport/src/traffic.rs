//! Random calls of all kinds: clients begin, cancel and finish calls, and a server calls back.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use oncrpc::{CallError, CallErrorKind, Method, PendingCall, ReplyLimits, Router};
use rpcrdma_proto::connection::{CallFailure, Config, ConnState};
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::{CompletedCall, LocalChannel, LocalEvent, LocalServer};

use crate::block::{self, Block, Callback, checksum};
use crate::block1::{Client, Echo, Null, Read, Ready, Write};
use crate::callback1;
use crate::ends::{self, Programs, begin_echo};
use crate::random::Random;
use crate::schema::{ReadArgs, Region};

/// The time without progress after which a test counts as stuck.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A call, and its expected result.
#[derive(Debug)]
pub struct Open {
    pub call: Pending,
    pub is_timed: bool,
    pub is_cancelled: bool,
}

/// A call in flight.
#[derive(Debug)]
pub enum Pending {
    Null(PendingCall<Null>),
    Ready(PendingCall<Ready>),
    /// Returns the same bytes.
    Echo(PendingCall<Echo>, Vec<u8>),
    /// Returns this number of bytes of the block.
    Read(PendingCall<Read>, u32),
    /// Returns the checksum of the bytes.
    Write(PendingCall<Write>, Vec<u8>),
}

impl Pending {
    fn xid(&self) -> u32 {
        match self {
            Self::Null(call) => call.xid(),
            Self::Ready(call) => call.xid(),
            Self::Echo(call, _) => call.xid(),
            Self::Read(call, _) => call.xid(),
            Self::Write(call, _) => call.xid(),
        }
    }

    /// Checks the reply.
    fn check<D: Device>(
        &self,
        channel: &LocalChannel<D>,
        completed: &CompletedCall,
    ) -> Result<(), CallError> {
        fn read<D: Device, P: Method>(
            channel: &LocalChannel<D>,
            call: &PendingCall<P>,
            completed: &CompletedCall,
            check: impl FnOnce(P::Reply<'_>),
        ) -> Result<(), CallError> {
            channel.read(call, completed, check).expect("its own reply")
        }
        match self {
            Self::Null(call) => read(channel, call, completed, |()| ()),
            Self::Ready(call) => read(channel, call, completed, |()| ()),
            Self::Echo(call, bytes) => read(channel, call, completed, |reply| {
                assert!(reply == bytes, "an echo of {} bytes", bytes.len());
            }),
            Self::Read(call, count) => read(channel, call, completed, |reply| {
                let is_same = reply.bytes.as_bytes() == &block::bytes()[..*count as usize];
                assert!(is_same, "{count} bytes of the block");
            }),
            Self::Write(call, bytes) => read(channel, call, completed, |sum| {
                assert_eq!(sum, checksum(bytes), "{} bytes", bytes.len());
            }),
        }
    }
}

/// The counts of events.
#[derive(Default, Debug)]
pub struct Tally {
    pub answered: u64,
    pub timed_out: u64,
    pub cancelled: u64,
    pub disconnected: u64,
    pub dropped: u64,
    pub called_back: u64,
}

/// Sets timeouts for tests: lost connections are established again at once.
pub fn quick(config: Config) -> Config {
    Config {
        reconnect_delay: 200,
        max_reconnect_delay: 20_000,
        negotiation_timeout: 200_000,
        version_cache_ttl: 50_000,
        ..config
    }
}

pub fn server_config() -> Config {
    quick(Config {
        send_with_invalidate: true,
        ..Config::server()
    })
}

/// A client with its driver.
pub struct Caller<D: Device> {
    pub client: Client<LocalChannel<D>>,
    pub driver: Driver<D>,
    pub budget: Budget,
    pub open: HashMap<u32, Open>,
    pub random: Random,
    pub callback: Callback,
    pub tally: Tally,
    pub moved: Instant,
}

impl<D: Device> Caller<D> {
    pub fn new(device: &D, address: SocketAddr, number: u64, seed: u64) -> Self {
        let budget = Budget::new(1 << 28);
        let mut driver = Driver::new(device, &budget, 1 << 14).unwrap();
        let is_first = number % 3 == 2;
        let windows = device.capabilities().windows;
        let config = quick(Config {
            max_version: if is_first { Version::One } else { Version::Two },
            remote_invalidation: windows && number.is_multiple_of(2),
            ..Config::client()
        });
        let callback = Callback::default();
        let services = Router::new().add_service(callback1::serve_local(callback.clone()));
        let channel = LocalChannel::connect_with_services(&mut driver, address, config, services);
        Self {
            client: ends::client(channel.unwrap()),
            driver,
            budget,
            open: HashMap::new(),
            random: Random(seed ^ number << 32),
            callback,
            tally: Tally::default(),
            moved: Instant::now(),
        }
    }

    /// Begins or cancels a call, or continues.
    pub fn step(&mut self) {
        match self.random.below(64) {
            0..=23 => self.begin(),
            24 if !self.open.is_empty() && self.random.one_in(8) => self.cancel(),
            25 => {
                let most = Duration::from_micros(self.random.below(100));
                self.driver.wait(most).unwrap();
            }
            _ => {
                self.driver.turn().unwrap();
            }
        }
        self.take();
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let count = self.random.below(most) as usize & !3;
        let first = self.random.below(block::SIZE as u64 / 2) as usize;
        block::bytes()[first..first + count].to_vec()
    }

    /// Begins a random call, unless there are many.
    pub fn begin(&mut self) {
        if self.open.len() > 40 {
            return;
        }
        let is_timed = self.random.one_in(6);
        let timeout = Duration::from_micros(self.random.below(5000));
        let options = oncrpc::CallOptions::DEFAULT;
        let client = Client::new(self.client.transport().clone()).with_options(if is_timed {
            options.timeout(timeout)
        } else {
            options
        });
        // A cancelled call that is not answered yet takes no place of another call.
        match self.begin_one(&client) {
            Ok(call) => self.add(call, is_timed),
            Err(error) => panic!("with {} open: {error}", self.open.len()),
        }
    }

    fn begin_one(&mut self, client: &Client<LocalChannel<D>>) -> Result<Pending, CallError> {
        Ok(match self.random.below(8) {
            0 | 1 => Pending::Null(client.null().begin(&mut self.driver)?),
            2 => Pending::Ready(client.ready().begin(&mut self.driver)?),
            3 | 4 => {
                let most = [64, 1500, 6000, 70_000][self.random.below(4) as usize];
                let bytes = self.bytes(most);
                Pending::Echo(begin_echo(client, &mut self.driver, &bytes)?, bytes)
            }
            5 | 6 => {
                let is_large = self.random.one_in(4);
                let most = if is_large {
                    block::SIZE as u64 / 2
                } else {
                    20_000
                };
                let count = self.random.below(most) as u32 + 1;
                let call = client.read(&ReadArgs { count }).begin(&mut self.driver)?;
                Pending::Read(call, count)
            }
            _ => {
                let is_large = self.random.one_in(4);
                let bytes = self.bytes(if is_large { 200_000 } else { 10_000 });
                let item = ends::item(self.driver.pool(), &bytes);
                let call = client.write(&Region { bytes: item });
                Pending::Write(call.begin(&mut self.driver)?, bytes)
            }
        })
    }

    /// Begins a call without a deadline that does nothing.
    pub fn begin_null(&mut self) {
        let call = self.client.null().begin(&mut self.driver).unwrap();
        self.add(Pending::Null(call), false);
    }

    fn add(&mut self, call: Pending, is_timed: bool) {
        let xid = call.xid();
        let open = Open {
            call,
            is_timed,
            is_cancelled: false,
        };
        let other = self.open.insert(xid, open);
        assert!(other.is_none(), "{xid:#x} is open already");
    }

    pub fn cancel(&mut self) {
        let at = self.random.below(self.open.len() as u64) as usize;
        let open = self.open.values_mut().nth(at).unwrap();
        let (channel, driver) = (self.client.transport(), &mut self.driver);
        // A call that has ended but was not reported yet keeps its result.
        open.is_cancelled |= match &open.call {
            Pending::Null(call) => channel.cancel(driver, call),
            Pending::Ready(call) => channel.cancel(driver, call),
            Pending::Echo(call, _) => channel.cancel(driver, call),
            Pending::Read(call, _) => channel.cancel(driver, call),
            Pending::Write(call, _) => channel.cancel(driver, call),
        };
    }

    /// Processes the events.
    pub fn take(&mut self) {
        while let Some(event) = self.client.transport().poll_event(&mut self.driver) {
            match event {
                LocalEvent::Completed(completed) => self.ended(completed),
                LocalEvent::Disconnected { is_final, .. } => {
                    assert!(!is_final, "nobody has ended it");
                    self.tally.disconnected += 1;
                }
                _ => {}
            }
        }
        self.tally.called_back = self.callback.served();
    }

    fn ended(&mut self, completed: CompletedCall) {
        self.moved = Instant::now();
        let open = self.open.remove(&completed.xid());
        let open = open.expect("it was open: no call ends twice");
        let channel = self.client.transport();
        let result = open.call.check(channel, &completed);
        channel.recycle(&mut self.driver, completed);
        match result {
            Ok(()) => self.tally.answered += 1,
            Err(error) => match failure(&error) {
                Some(CallFailure::TimedOut) if open.is_timed => self.tally.timed_out += 1,
                Some(CallFailure::Cancelled) if open.is_cancelled => self.tally.cancelled += 1,
                _ => panic!("a call that is sent again until it is answered has failed: {error}"),
            },
        }
    }

    /// Fails if calls are open and none has ended for a long time.
    pub fn assert_moving(&self) {
        let id = self.client.transport().id();
        let session = self.driver.session(id).map(|session| {
            let credits = session.available_credits();
            (session.state(), session.outstanding(), credits)
        });
        assert!(
            self.open.is_empty() || self.moved.elapsed() < PATIENCE,
            "{} calls are stuck: {session:?}, {:?}",
            self.open.len(),
            self.tally
        );
    }

    /// Returns true while the connection is being established.
    pub fn is_connecting(&self) -> bool {
        let session = self.driver.session(self.client.transport().id());
        session.is_some_and(|session| session.state() == ConnState::Connecting)
    }

    /// Drops the client with all its calls.
    pub fn end(self) -> Tally {
        let dropped = self.open.len() as u64;
        drop((self.client, self.driver, self.open));
        assert_eq!(self.budget.used(), 0, "of a client that is gone");
        Tally {
            dropped,
            ..self.tally
        }
    }
}

/// Returns the reason why the engine has ended a call, if it has.
pub fn failure(error: &CallError) -> Option<CallFailure> {
    match error.kind() {
        CallErrorKind::Transport(cause) | CallErrorKind::Connect(cause) => {
            cause.downcast_ref().copied()
        }
        CallErrorKind::ConnectionLost(reason) => {
            let reason = reason.downcast_ref().copied()?;
            Some(CallFailure::Closed(reason))
        }
        CallErrorKind::DeadlineExceeded { .. } => Some(CallFailure::TimedOut),
        _ => None,
    }
}

/// A server with its driver, which calls its clients back.
pub struct Host<D: Device> {
    pub server: LocalServer<Programs>,
    pub block: Block,
    pub driver: Driver<D>,
    pub budget: Budget,
    /// The number of backward calls begun.
    pub begun: u64,
    /// The number of backward calls that have ended.
    pub ended: u64,
    /// The called clients, by the numbers of their connections.
    called: HashMap<u64, CalledBack<D>>,
}

/// A channel back to a client, with the calls in flight.
struct CalledBack<D: Device> {
    client: callback1::Client<LocalChannel<D>>,
    calls: HashMap<u32, PendingCall<callback1::Echo>>,
}

/// The argument of a backward call, which its client returns.
const BACKWARD: &[u8] = &[1; 64];

impl<D: Device> CalledBack<D> {
    fn new(channel: LocalChannel<D>) -> Self {
        Self {
            client: callback1::Client::new(channel),
            calls: HashMap::new(),
        }
    }

    /// Begins a call. Returns false if the connection is lost.
    fn begin(&mut self, driver: &mut Driver<D>) -> bool {
        let call = self.client.echo(&BACKWARD);
        let limits = ReplyLimits::new(Some(4 + BACKWARD.len() as u64));
        let call = call.reply_limits(limits).timeout(Duration::from_millis(50));
        let begun = call.begin(driver).ok();
        self.calls.extend(begun.map(|call| (call.xid(), call)));
        begun.is_some()
    }

    /// Processes ended calls. Returns their number, and whether the connection is lost.
    fn take(&mut self, driver: &mut Driver<D>) -> (u64, bool) {
        let channel = self.client.transport();
        let mut ended = 0;
        while let Some(event) = channel.poll_event(driver) {
            let completed = match event {
                LocalEvent::Completed(completed) => completed,
                LocalEvent::Disconnected { .. } => return (ended, true),
                _ => continue,
            };
            let call = self.calls.remove(&completed.xid());
            let call = call.expect("it was open: no call ends twice");
            let check = |reply: &[u8]| assert_eq!(reply, BACKWARD);
            let result = channel.read(&call, &completed, check).expect("its reply");
            if let Err(error) = result {
                let expected = matches!(
                    failure(&error),
                    Some(CallFailure::Closed(_) | CallFailure::TimedOut)
                );
                assert!(expected, "{error}");
            }
            channel.recycle(driver, completed);
            ended += 1;
        }
        (ended, false)
    }
}

impl<D: Device> Host<D> {
    pub fn new(device: &D, address: SocketAddr) -> Self {
        let budget = Budget::new(1 << 29);
        let mut driver = Driver::new(device, &budget, 1 << 14).unwrap();
        let block = Block::default();
        let server = ends::serve(&mut driver, address, server_config(), &block);
        Self {
            server,
            block,
            driver,
            budget,
            begun: 0,
            ended: 0,
            called: HashMap::new(),
        }
    }

    pub fn step(&mut self, random: &mut Random) {
        if random.one_in(8) {
            let most = Duration::from_micros(random.below(50));
            self.driver.wait(most).unwrap();
        } else {
            self.driver.turn().unwrap();
        }
        self.server.serve(&mut self.driver);
        self.take();
        if random.one_in(8)
            && let Some(connection) = self.block.take_ready()
        {
            self.call_back(connection);
        }
    }

    /// Calls a client, if it is connected.
    fn call_back(&mut self, connection: u64) {
        if let Some(channel) = self.server.caller(connection) {
            let called = self.called.entry(connection);
            let called = called.or_insert_with(|| CalledBack::new(channel));
            self.begun += u64::from(called.begin(&mut self.driver));
        }
    }

    /// Processes ended backward calls.
    fn take(&mut self) {
        self.called.retain(|_, called| {
            let (ended, is_gone) = called.take(&mut self.driver);
            self.ended += ended;
            assert!(!is_gone || called.calls.is_empty(), "calls that never end");
            !is_gone
        });
    }

    /// Drops the server.
    pub fn end(self) {
        assert_eq!(self.begun, self.ended + self.in_flight());
        drop((self.server, self.driver, self.called));
        drop(self.block);
        assert_eq!(self.budget.used(), 0, "of a server that is gone");
    }

    fn in_flight(&self) -> u64 {
        self.called
            .values()
            .map(|called| called.calls.len() as u64)
            .sum()
    }
}

/// Turns all ends until every call has ended, including backward calls.
pub fn settle<D: Device>(callers: &mut [Caller<D>], host: &mut Host<D>, random: &mut Random) {
    let patience = Instant::now() + PATIENCE;
    while callers.iter().any(|caller| !caller.open.is_empty()) || host.ended < host.begun {
        for caller in &mut *callers {
            caller.driver.turn().unwrap();
            caller.take();
            caller.assert_moving();
        }
        host.step(random);
        let (ended, begun) = (host.ended, host.begun);
        assert!(
            Instant::now() < patience,
            "{ended} of {begun} backward calls have ended"
        );
    }
}
