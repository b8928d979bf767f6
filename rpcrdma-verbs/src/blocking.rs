//! A client that waits: for programs that have a thread to spare, and for tests.
//!
//! It has a driver of its own. While it waits it sleeps, unless told to spin.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use rpcrdma_proto::connection::{Config, Session};

use crate::client::{self, Answered, Call, CallId, ClientError, ClientEvent};
use crate::driver::{BeginError, CallBuffers, Driver, DriverError, WriteError, Writer};
use crate::memory::{Budget, Pool};
use crate::provider::Device;
use crate::rpc::Credentials;

/// A client that waits for each of its calls.
///
/// ```
/// use rpcrdma_proto::connection::Config;
/// use rpcrdma_verbs::blocking::Client;
/// use rpcrdma_verbs::client::Call;
/// use rpcrdma_verbs::memory::Budget;
/// use rpcrdma_verbs::provider::software::Fabric;
/// use rpcrdma_verbs::rpc::Credentials;
/// use std::time::Duration;
///
/// let device = Fabric::new().device();
/// let nobody = "127.0.0.1:20049".parse()?;
/// let mut client = Client::connect(&device, &Budget::new(1 << 26), nobody, Config::client(), Credentials::none())?;
/// // Nobody listens: the call waits for a connection as long as it may.
/// let call = Call { timeout: Some(Duration::from_millis(20)), ..Call::to(100_003, 3, 0) };
/// assert!(client.call(call, |_| Ok(())).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Client<D: Device> {
    driver: Driver<D>,
    client: client::Client,
}

/// Why a call has no results.
#[derive(Debug)]
pub enum Error {
    /// The call has failed.
    Call(ClientError),
    /// The driver can't go on.
    Driver(DriverError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Driver(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// How a call has ended: its results, and its memory.
pub type Ended = (Answered, CallBuffers);

/// Completions that may wait at once.
const COMPLETIONS: u32 = 4096;
/// How long it sleeps before it looks again whether it lost a wake-up.
const NAP: Duration = Duration::from_millis(100);

impl<D: Device> Client<D> {
    /// A client of the server at an address, with memory within this budget.
    ///
    /// # Errors
    /// The settings make no sense, or the device refuses.
    pub fn connect(
        device: &D,
        budget: &Budget,
        server: SocketAddr,
        config: Config,
        credentials: Credentials,
    ) -> Result<Self, DriverError> {
        let mut driver = Driver::new(device, budget, COMPLETIONS)?;
        let client = client::Client::connect(&mut driver, server, config, credentials)?;
        Ok(Self { driver, client })
    }

    /// The pool of registered buffers, for items and results.
    #[must_use]
    pub fn pool(&self) -> &Pool<D> {
        self.driver.pool()
    }

    /// The engine of its connection: version, properties, counters.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.client.session(&self.driver)
    }

    /// Calls, and waits for the reply. Backward calls that come meanwhile are declined.
    ///
    /// # Errors
    /// The call has failed; its memory is given back.
    pub fn call(
        &mut self,
        call: Call,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Result<Ended, BeginError<Error>> {
        let call = self
            .client
            .call(&mut self.driver, call, write)
            .map_err(|refused| refused.map(Error::Call))?;
        let ended = self.wait(call);
        let memory = self.client.take_memory(&mut self.driver, call);
        match ended {
            Ok(answered) => Ok((answered, memory)),
            Err(why) => Err(BeginError {
                error: why,
                buffers: Box::new(memory),
            }),
        }
    }

    fn wait(&mut self, call: CallId) -> Result<Answered, Error> {
        self.driver.turn().map_err(Error::Driver)?;
        loop {
            while let Some(event) = self.client.event(&mut self.driver) {
                match event {
                    ClientEvent::Answered {
                        call: ended,
                        answer,
                    } if ended == call => return Ok(answer),
                    ClientEvent::Failed { call: ended, why } if ended == call => {
                        return Err(Error::Call(why));
                    }
                    ClientEvent::CalledBack(arrival) => {
                        if let Some(session) = self.driver.session_mut(self.client.id()) {
                            // It has ended already if its connection is gone.
                            let _ = session.reject(arrival.call);
                        }
                    }
                    _ => {}
                }
            }
            self.driver.wait(NAP).map_err(Error::Driver)?;
        }
    }
}
