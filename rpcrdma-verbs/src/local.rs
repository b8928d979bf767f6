//! Calls as futures, on one thread: for any runtime that can wait for a descriptor.
//!
//! A [`Local`] owns a driver. Whoever runs it turns it when it is woken: `tokio::run` does (feature `tokio`). Nothing crosses threads, so
//! that a future of a call takes no lock and wakes nobody but its own task.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rpcrdma_proto::connection::{Config, Session};

use crate::client::{self, Answered, Call, CallId, ClientError, ClientEvent};
use crate::driver::{Driver, DriverError, GivenBack, Id, Memory, WriteError, Writer};
use crate::handlers::{AsyncServer, AsyncService};
use crate::memory::Pool;
use crate::provider::Device;
use crate::rpc::Credentials;

/// A driver whose clients are futures. Clones are of the same.
#[derive(Debug)]
pub struct Local<D: Device>(Rc<RefCell<Shared<D>>>);

impl<D: Device> Clone for Local<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct Shared<D: Device> {
    driver: Driver<D>,
    clients: Vec<Waiting>,
    /// Which client a connection is of.
    by_id: HashMap<Id, usize>,
    server: Option<Box<dyn Serves<D>>>,
    /// Who turns the driver, when it sleeps.
    runner: Option<Waker>,
}

/// A server that is turned with its driver.
trait Serves<D: Device>: fmt::Debug {
    fn serve(&mut self, driver: &mut Driver<D>) -> usize;
    fn register(&self, runner: &Waker);
}

impl<D: Device, S: AsyncService> Serves<D> for AsyncServer<S> {
    fn serve(&mut self, driver: &mut Driver<D>) -> usize {
        Self::serve(self, driver)
    }

    fn register(&self, runner: &Waker) {
        Self::register(self, runner);
    }
}

/// A client, and who waits for its calls.
#[derive(Debug)]
struct Waiting {
    client: client::Client,
    calls: HashMap<CallId, State>,
}

/// How far a future is.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each call")]
#[derive(Debug)]
enum State {
    /// The call is under way.
    Open(Option<Waker>),
    /// It has ended, and nobody has taken the end yet.
    Ended(Result<Answered, ClientError>, Memory),
    /// Nobody waits for it any more.
    Detached,
}

/// A client whose calls are futures.
#[derive(Debug)]
pub struct Client<D: Device> {
    local: Local<D>,
    number: usize,
}

impl<D: Device> Local<D> {
    /// Owns a driver.
    #[must_use]
    pub fn new(driver: Driver<D>) -> Self {
        Self(Rc::new(RefCell::new(Shared {
            driver,
            clients: Vec::new(),
            by_id: HashMap::new(),
            server: None,
            runner: None,
        })))
    }

    /// A client of the server at an address. It connects by itself, and again when the connection is lost.
    ///
    /// # Errors
    /// The settings make no sense.
    pub fn connect(
        &self,
        server: SocketAddr,
        config: Config,
        credentials: Credentials,
    ) -> Result<Client<D>, DriverError> {
        let mut shared = self.0.borrow_mut();
        let client = client::Client::connect(&mut shared.driver, server, config, credentials)?;
        let number = shared.clients.len();
        shared.by_id.insert(client.id(), number);
        shared.clients.push(Waiting { client, calls: HashMap::new() });
        shared.wake();
        Ok(Client { local: self.clone(), number })
    }

    /// Serves with `async` handlers from now on.
    pub fn serve<S: AsyncService>(&self, server: AsyncServer<S>) {
        let mut shared = self.0.borrow_mut();
        shared.server = Some(Box::new(server));
        shared.wake();
    }

    /// The pool of registered buffers.
    #[must_use]
    pub fn pool(&self) -> Pool<D> {
        self.0.borrow().driver.pool().clone()
    }

    /// Uses the driver, to serve with it for example; `f` must not wait for anything.
    pub fn with_driver<R>(&self, f: impl FnOnce(&mut Driver<D>) -> R) -> R {
        f(&mut self.0.borrow_mut().driver)
    }

    /// Turns the driver once and tells whoever waits: how much has happened.
    ///
    /// # Errors
    /// The driver can't go on.
    pub fn turn(&self) -> Result<usize, DriverError> {
        let mut shared = self.0.borrow_mut();
        let count = shared.driver.turn()?;
        let told = shared.tell();
        let Shared { driver, server, .. } = &mut *shared;
        let served = server.as_mut().map_or(0, |server| server.serve(driver));
        Ok(count + told + served)
    }

    /// Lets this task be woken when there is something new to be done.
    pub fn register(&self, runner: &Waker) {
        let mut shared = self.0.borrow_mut();
        if !shared.runner.as_ref().is_some_and(|waker| waker.will_wake(runner)) {
            shared.runner = Some(runner.clone());
        }
        if let Some(server) = &shared.server {
            server.register(runner);
        }
    }
}

impl<D: Device> Shared<D> {
    fn wake(&mut self) {
        if let Some(runner) = self.runner.take() {
            runner.wake();
        }
    }

    /// Tells the futures what has become of their calls.
    fn tell(&mut self) -> usize {
        let mut count = 0;
        while let Some(id) = self.driver.ready() {
            // Others may have made clients, too, by `with_driver`.
            let number = self.by_id.get(&id).copied();
            let Some(Waiting { client, calls }) = number.and_then(|number| self.clients.get_mut(number)) else {
                continue;
            };
            while let Some(event) = client.event(&mut self.driver) {
                count += 1;
                let (call, result) = match event {
                    ClientEvent::Answered { call, answer } => (call, Ok(answer)),
                    ClientEvent::Failed { call, why } => (call, Err(why)),
                    ClientEvent::CalledBack(arrival) => {
                        if let Some(session) = self.driver.session_mut(client.id()) {
                            // It has ended already if its connection is gone.
                            let _ = session.decline(arrival.call);
                        }
                        continue;
                    }
                    ClientEvent::Ready(_) | ClientEvent::Closed { .. } => continue,
                };
                let memory = client.take_memory(&mut self.driver, call);
                match calls.remove(&call) {
                    Some(State::Open(waker)) => {
                        calls.insert(call, State::Ended(result, memory));
                        if let Some(waker) = waker {
                            waker.wake();
                        }
                    }
                    // What nobody waits for gives its memory back to where it came from.
                    _ => drop(memory),
                }
            }
        }
        count
    }
}

impl<D: Device> Client<D> {
    /// Calls: the future ends with the reply. A call that can't begin ends at once.
    ///
    /// Dropping the future cancels the call: its memory is given back to where it came from when it is out of the server's
    /// reach.
    pub fn call(&self, call: Call, write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>) -> Reply<D> {
        let mut shared = self.local.0.borrow_mut();
        let Shared { driver, clients, .. } = &mut *shared;
        let begun = match clients.get_mut(self.number) {
            Some(waiting) => waiting.client.call(driver, call, write).inspect(|call| {
                waiting.calls.insert(*call, State::Open(None));
            }),
            None => unreachable_client(call),
        };
        shared.wake();
        let state = match begun {
            Ok(call) => Begun::Call(call),
            Err(refused) => Begun::Refused(Some(refused)),
        };
        Reply { local: self.local.clone(), number: self.number, state }
    }

    /// Looks at the engine of its connection: version, properties, counters.
    pub fn session<R>(&self, f: impl FnOnce(&Session) -> R) -> Option<R> {
        let shared = self.local.0.borrow();
        shared.clients.get(self.number).and_then(|waiting| waiting.client.session(&shared.driver)).map(f)
    }
}

/// Clients are never taken away from their driver.
fn unreachable_client(call: Call) -> Result<CallId, GivenBack<ClientError>> {
    let memory = Box::new(Memory { results: call.results, ..Memory::default() });
    Err(GivenBack { why: ClientError::Call(rpcrdma_proto::connection::CallError::Closed), memory })
}

/// The reply to a call, to be awaited.
#[derive(Debug)]
#[must_use = "a call whose future is dropped is cancelled"]
pub struct Reply<D: Device> {
    local: Local<D>,
    number: usize,
    state: Begun,
}

#[derive(Debug)]
enum Begun {
    Call(CallId),
    Refused(Option<GivenBack<ClientError>>),
}

impl<D: Device> Future for Reply<D> {
    type Output = Result<(Answered, Memory), GivenBack<ClientError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (local, number) = (self.local.clone(), self.number);
        match &mut self.state {
            Begun::Refused(refused) => match refused.take() {
                Some(refused) => Poll::Ready(Err(refused)),
                None => Poll::Pending,
            },
            Begun::Call(call) => {
                let mut shared = local.0.borrow_mut();
                let Some(waiting) = shared.clients.get_mut(number) else { return Poll::Pending };
                match waiting.calls.remove(call) {
                    Some(State::Ended(Ok(answered), memory)) => Poll::Ready(Ok((answered, memory))),
                    Some(State::Ended(Err(why), memory)) => {
                        Poll::Ready(Err(GivenBack { why, memory: Box::new(memory) }))
                    }
                    _ => {
                        waiting.calls.insert(*call, State::Open(Some(context.waker().clone())));
                        Poll::Pending
                    }
                }
            }
        }
    }
}

impl<D: Device> Drop for Reply<D> {
    fn drop(&mut self) {
        let Begun::Call(call) = self.state else { return };
        let mut shared = self.local.0.borrow_mut();
        let Shared { driver, clients, .. } = &mut *shared;
        let Some(waiting) = clients.get_mut(self.number) else { return };
        if let Some(State::Open(_)) = waiting.calls.remove(&call) {
            waiting.calls.insert(call, State::Detached);
            waiting.client.cancel(driver, call);
            shared.wake();
        }
    }
}
