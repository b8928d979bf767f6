//! Random calls of all kinds: clients begin, cancel and end them, and a server calls back.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rpcrdma_proto::connection::{CallFailure, Config, SessionCallError};
use rpcrdma_proto::version::Version;
use rpcrdma_verbs::client::{Answered, Call, CallId, Client, ClientError, ClientEvent};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::Device;
use rpcrdma_verbs::rpc::Credentials;
use rpcrdma_verbs::server::Server;

use super::{BLOCK, Block, ECHO, NULL, READ, READY, Random, WRITE, block, call, sum};

/// The time without progress after which a test counts as stuck.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

/// A call with its expected results.
pub struct Open {
    pub expected: Expected,
    pub timed: bool,
    pub cancelled: bool,
}

pub enum Expected {
    Nothing,
    Bytes(Vec<u8>),
    Block(u32),
    Sum(Vec<u8>),
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Bytes(bytes) => write!(f, "{} bytes, back", bytes.len()),
            Self::Block(count) => write!(f, "{count} bytes of the block"),
            Self::Sum(bytes) => write!(f, "the sum of {} bytes", bytes.len()),
        }
    }
}

/// Counts of what happened.
#[derive(Default, Debug)]
pub struct Tally {
    pub answered: u64,
    pub timed_out: u64,
    pub cancelled: u64,
    pub closed: u64,
    pub dropped: u64,
    pub called_back: u64,
}

/// A client with its driver.
pub struct Caller<D: Device> {
    pub client: Client,
    pub driver: Driver<D>,
    pub budget: Budget,
    pub open: HashMap<CallId, Open>,
    pub random: Random,
    pub block: &'static [u8],
    pub tally: Tally,
    pub moved: Instant,
}

/// Timeouts for tests: lost connections are established again at once.
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

impl<D: Device> Caller<D> {
    pub fn new(device: &D, address: SocketAddr, number: u64, seed: u64) -> Self {
        let budget = Budget::new(1 << 28);
        let mut driver = Driver::new(device, &budget, 1 << 14).unwrap();
        let highest = if number % 3 == 2 {
            Version::One
        } else {
            Version::Two
        };
        let windows = device.capabilities().windows;
        let config = quick(Config {
            max_version: highest,
            remote_invalidation: windows && number.is_multiple_of(2),
            ..Config::client()
        });
        let client = Client::connect(&mut driver, address, config, Credentials::none()).unwrap();
        let (random, block) = (Random(seed ^ number << 32), block());
        let (open, tally, moved) = (HashMap::new(), Tally::default(), Instant::now());
        Self {
            client,
            driver,
            budget,
            open,
            random,
            block,
            tally,
            moved,
        }
    }

    /// Begins, cancels or continues something.
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
        let (count, first) = (
            self.random.below(most) as usize & !3,
            self.random.below(BLOCK as u64 / 2) as usize,
        );
        self.block[first..first + count].to_vec()
    }

    pub fn begin(&mut self) {
        if self.open.len() > 40 {
            return;
        }
        let timeout = self
            .random
            .one_in(6)
            .then(|| Duration::from_micros(self.random.below(5000)));
        let (mut call_, expected) = match self.random.below(8) {
            0 | 1 => (call(NULL, 0), Expected::Nothing),
            2 => (call(READY, 0), Expected::Nothing),
            3 | 4 => {
                let most = *[64, 1500, 6000, 70_000]
                    .get(self.random.below(4) as usize)
                    .unwrap();
                let bytes = self.bytes(most);
                (call(ECHO, bytes.len() as u32), Expected::Bytes(bytes))
            }
            5 | 6 => {
                let most = if self.random.one_in(4) {
                    BLOCK as u64
                } else {
                    20_000
                };
                let count = self.random.below(most) as u32 + 1;
                (call(READ, count + 8), Expected::Block(count))
            }
            _ => {
                let most = if self.random.one_in(4) {
                    200_000
                } else {
                    10_000
                };
                (call(WRITE, 4), Expected::Sum(self.bytes(most)))
            }
        };
        call_.timeout = timeout;
        if let Expected::Block(count) = expected
            && !self.random.one_in(4)
        {
            let mut result = self.driver.pool().take(count).unwrap();
            result.as_full_mut().fill(0x99);
            call_.results.push(result);
        }
        let pool = self.driver.pool().clone();
        let begun = self
            .client
            .call(&mut self.driver, call_, |writer| match &expected {
                Expected::Nothing => Ok(()),
                Expected::Bytes(bytes) => {
                    writer.bytes(bytes);
                    Ok(())
                }
                Expected::Block(count) => writer.put(count).map(|_| ()),
                Expected::Sum(bytes) => {
                    let mut data = pool.take(bytes.len() as u32).unwrap();
                    data.extend_from_slice(bytes);
                    writer.item(data).map(|_| ())
                }
            });
        let id = match begun {
            Ok(id) => id,
            // Calls that were given up keep their slots until they are answered.
            Err(refused) if refused.error == ClientError::Call(SessionCallError::Full) => return,
            Err(refused) => panic!("with {} open: {refused}", self.open.len()),
        };
        let open = Open {
            expected,
            timed: timeout.is_some(),
            cancelled: false,
        };
        assert!(
            self.open.insert(id, open).is_none(),
            "{id:?} is open already"
        );
    }

    pub fn cancel(&mut self) {
        let at = self.random.below(self.open.len() as u64) as usize;
        let id = *self.open.keys().nth(at).unwrap();
        // A call that has ended, but was not reported yet, keeps its result.
        if self.client.cancel(&mut self.driver, id) {
            self.open.get_mut(&id).unwrap().cancelled = true;
        }
    }

    pub fn take(&mut self) {
        while let Some(event) = self.client.event(&mut self.driver) {
            match event {
                ClientEvent::Answered { call, answer } => self.answered(call, &answer),
                ClientEvent::Failed { call, why } => self.failed(call, why),
                ClientEvent::CalledBack(arrival) => {
                    self.tally.called_back += 1;
                    // It fails if the connection is gone.
                    let _ =
                        self.client
                            .reply(&mut self.driver, arrival.call, arrival.xid, |writer| {
                                writer.bytes(&[1; 64]);
                                Ok(())
                            });
                }
                ClientEvent::Ready(_) => {}
                ClientEvent::Closed { last, .. } => {
                    assert!(!last, "nobody has ended it");
                    self.tally.closed += 1;
                }
            }
        }
    }

    fn answered(&mut self, id: CallId, answer: &Answered) {
        self.moved = Instant::now();
        let open = self
            .open
            .remove(&id)
            .expect("it was open: no call ends twice");
        self.tally.answered += 1;
        let memory = self.client.take_memory(&mut self.driver, id);
        match open.expected {
            Expected::Nothing => assert!(answer.results().is_empty()),
            Expected::Bytes(bytes) => assert!(
                answer.results() == bytes,
                "an echo of {} bytes",
                bytes.len()
            ),
            Expected::Sum(bytes) => {
                assert_eq!(
                    answer.results(),
                    sum([bytes.as_slice()]).to_be_bytes(),
                    "{} bytes",
                    bytes.len()
                );
                assert!(
                    *memory.items[0] == *bytes,
                    "the data come back as they were"
                );
            }
            Expected::Block(count) => {
                let (length, inline) = answer.results().split_at(4);
                assert_eq!(length, count.to_be_bytes());
                let expected = &self.block[..count as usize];
                match memory.results.first().filter(|result| !result.is_empty()) {
                    Some(result) => assert!(
                        **result == *expected && inline.is_empty(),
                        "{count} bytes apart"
                    ),
                    None => assert!(
                        inline.get(..count as usize) == Some(expected),
                        "{count} bytes inline"
                    ),
                }
            }
        }
    }

    fn failed(&mut self, id: CallId, why: ClientError) {
        self.moved = Instant::now();
        let open = self
            .open
            .remove(&id)
            .expect("it was open: no call ends twice");
        drop(self.client.take_memory(&mut self.driver, id));
        match why {
            ClientError::Transport(CallFailure::TimedOut) if open.timed => {
                self.tally.timed_out += 1
            }
            ClientError::Transport(CallFailure::Cancelled) if open.cancelled => {
                self.tally.cancelled += 1
            }
            why => panic!(
                "a call of {} that is sent again until it is answered has failed: {why}",
                open.expected
            ),
        }
    }

    pub fn assert_moving(&self) {
        let stage = self.client.session(&self.driver).map(|session| {
            (
                session.state(),
                session.outstanding(),
                session.available_credits(),
            )
        });
        assert!(
            self.open.is_empty() || self.moved.elapsed() < PATIENCE,
            "{} calls are stuck: {stage:?}, {:?}",
            self.open.len(),
            self.tally
        );
    }
}

/// A server with its driver.
pub struct Host<D: Device> {
    pub server: Server<Block<D>>,
    pub driver: Driver<D>,
    pub budget: Budget,
    pub begun: u64,
    pub ended: u64,
}

impl<D: Device> Host<D> {
    pub fn new(device: &D, address: SocketAddr) -> Self {
        let budget = Budget::new(1 << 29);
        let mut driver = Driver::new(device, &budget, 1 << 14).unwrap();
        let block = Block::new(driver.pool());
        let server = Server::bind(&mut driver, address, server_config(), block).unwrap();
        Self {
            server,
            driver,
            budget,
            begun: 0,
            ended: 0,
        }
    }

    pub fn step(&mut self, random: &mut Random) {
        if random.one_in(8) {
            self.driver
                .wait(Duration::from_micros(random.below(50)))
                .unwrap();
        } else {
            self.driver.turn().unwrap();
        }
        self.server.serve(&mut self.driver);
        if random.one_in(8)
            && let Some(to) = self.server.service().ready.pop()
        {
            let call = Call {
                timeout: Some(Duration::from_millis(50)),
                ..call(ECHO, 64)
            };
            self.begun += u64::from(
                self.server
                    .call_back(&mut self.driver, to, call, |_| Ok(()))
                    .is_ok(),
            );
        }
        while let Some((_, event)) = self.server.event() {
            self.ended += 1;
            if let ClientEvent::Failed { why, .. } = event {
                // A client of Version One accepts none, and does not say so: they wait.
                let expected = matches!(
                    why,
                    ClientError::Transport(CallFailure::Closed(_) | CallFailure::TimedOut)
                );
                assert!(expected, "{why}");
            }
        }
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
        assert!(
            Instant::now() < patience,
            "{} of {} backward calls have ended",
            host.ended,
            host.begun
        );
    }
}

/// Drops a client with everything that it has begun.
pub fn gone<D: Device>(caller: Caller<D>) -> Tally {
    let Caller {
        client,
        driver,
        budget,
        open,
        mut tally,
        ..
    } = caller;
    tally.dropped += open.len() as u64;
    drop((client, driver));
    assert_eq!(budget.used(), 0, "of a client that is gone");
    tally
}

pub fn begin() -> (u64, Instant) {
    let seed = variable("RPCRDMA_SOAK_SEED", std::process::id().into());
    println!("RPCRDMA_SOAK_SEED={seed}");
    (
        seed,
        Instant::now() + Duration::from_secs(variable("RPCRDMA_SOAK_SECONDS", 3)),
    )
}
