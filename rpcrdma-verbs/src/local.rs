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

use rpcrdma_proto::connection::{Config, Session, Stage};

use crate::calls::event;
use crate::client::{self, Answered, Arrival, Call, CallId, ClientError, ClientEvent};
use crate::driver::{Driver, DriverError, GivenBack, Id, Memory, WriteError, Writer};
use crate::handlers::{AsyncServer, AsyncService, Handlers};
use crate::memory::Pool;
use crate::peers::call_back;
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
    clients: HashMap<Id, Party>,
    calls: HashMap<(Id, CallId), State>,
    /// Servers, and services of clients.
    services: Vec<Place<D>>,
    /// Services of clients that are gone: to be dropped while nothing is borrowed, since their handlers may use what is here.
    gone: Vec<Box<dyn Serves<D>>>,
    /// Who waits until servers are drained.
    draining: Vec<Waker>,
    /// Who turns the driver, when it sleeps.
    runner: Option<Waker>,
}

/// The connection of a client.
#[derive(Clone, Copy, Default, Debug)]
struct Party {
    /// The place of its service, if it has one.
    service: Option<usize>,
    /// Whether its client was dropped: it goes when all is done.
    left: bool,
}

/// Where a server or a service is.
#[derive(Debug)]
enum Place<D: Device> {
    Here(Box<dyn Serves<D>>),
    /// Its handlers go on, and nothing is borrowed.
    Out,
    Free,
}

impl<D: Device> Place<D> {
    fn here(&mut self) -> Option<&mut Box<dyn Serves<D>>> {
        if let Self::Here(service) = self { Some(service) } else { None }
    }

    /// Takes what is here, and leaves a mark.
    fn take(&mut self, mark: Self) -> Option<Box<dyn Serves<D>>> {
        match std::mem::replace(self, mark) {
            Self::Here(service) => Some(service),
            _ => None,
        }
    }
}

/// What is turned with its driver: a server, or the service of a client.
trait Serves<D: Device>: fmt::Debug {
    /// Takes what has come to a server, and gives handlers what has come: how much.
    fn take(&mut self, driver: &mut Driver<D>) -> usize;
    /// Takes a call of a client's server.
    fn offer(&mut self, driver: &mut Driver<D>, id: Id, arrival: Arrival);
    /// What became of a server's calls.
    fn event(&mut self) -> Option<(Id, ClientEvent)>;
    /// Lets handlers go on, which may use the driver.
    fn poll(&mut self);
    /// Hands over what they have answered: how many calls.
    fn reply(&mut self, driver: &mut Driver<D>) -> usize;
    /// Shuts a server down; whether it has done so.
    fn drain(&mut self, driver: &mut Driver<D>);
    fn is_drained(&self) -> bool;
    fn register(&self, runner: &Waker);
}

impl<D: Device, S: AsyncService> Serves<D> for Handlers<S> {
    fn take(&mut self, driver: &mut Driver<D>) -> usize {
        self.hand_out(driver)
    }

    fn offer(&mut self, driver: &mut Driver<D>, id: Id, arrival: Arrival) {
        Self::offer(self, driver, id, arrival);
    }

    fn event(&mut self) -> Option<(Id, ClientEvent)> {
        None
    }

    fn poll(&mut self) {
        Self::poll(self);
    }

    fn reply(&mut self, driver: &mut Driver<D>) -> usize {
        Self::reply(self, driver)
    }

    fn drain(&mut self, _: &mut Driver<D>) {}

    fn is_drained(&self) -> bool {
        true
    }

    fn register(&self, runner: &Waker) {
        Self::register(self, runner);
    }
}

impl<D: Device, S: AsyncService> Serves<D> for AsyncServer<S> {
    fn take(&mut self, driver: &mut Driver<D>) -> usize {
        Self::take(self, driver)
    }

    fn offer(&mut self, driver: &mut Driver<D>, id: Id, arrival: Arrival) {
        self.handlers().offer(driver, id, arrival);
    }

    fn event(&mut self) -> Option<(Id, ClientEvent)> {
        Self::event(self)
    }

    fn poll(&mut self) {
        self.handlers().poll();
    }

    fn reply(&mut self, driver: &mut Driver<D>) -> usize {
        self.handlers().reply(driver)
    }

    fn drain(&mut self, driver: &mut Driver<D>) {
        Self::drain(self, driver);
    }

    fn is_drained(&self) -> bool {
        self.connections().is_empty()
    }

    fn register(&self, runner: &Waker) {
        Self::register(self, runner);
    }
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
    client: client::Client,
}

impl<D: Device> Local<D> {
    /// Owns a driver.
    #[must_use]
    pub fn new(driver: Driver<D>) -> Self {
        Self(Rc::new(RefCell::new(Shared {
            driver,
            clients: HashMap::new(),
            calls: HashMap::new(),
            services: Vec::new(),
            gone: Vec::new(),
            draining: Vec::new(),
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
        shared.clients.insert(client.id(), Party::default());
        shared.wake();
        Ok(Client { local: self.clone(), client })
    }

    /// Serves with `async` handlers from now on. They may use all of this: make calls as clients, or
    /// [call back](Self::call_back).
    ///
    /// A service that has a clone of this, or of one of its clients, keeps it there until [`Self::stop`].
    pub fn serve<S: AsyncService>(&self, server: AsyncServer<S>) {
        self.0.borrow_mut().add(Box::new(server));
    }

    /// Shuts all servers down ([`AsyncServer::drain`]): the future ends when none has a connection any more. Not to be awaited
    /// by their handlers, whose calls keep their connections.
    pub async fn drain(&self) {
        {
            let Shared { driver, services, .. } = &mut *self.0.borrow_mut();
            services.iter_mut().filter_map(Place::here).for_each(|service| service.drain(driver));
        }
        std::future::poll_fn(|context| {
            let mut shared = self.0.borrow_mut();
            if shared.is_drained() {
                return Poll::Ready(());
            }
            shared.draining.push(context.waker().clone());
            shared.wake();
            Poll::Pending
        })
        .await;
    }

    /// Gives up all servers and services: their handlers are dropped where they are, and calls that come are not answered.
    pub fn stop(&self) {
        let services = std::mem::take(&mut self.0.borrow_mut().services);
        self.0.borrow_mut().clients.values_mut().for_each(|party| party.service = None);
        // What handlers were waiting for is dropped with them, and gives itself up here.
        drop(services);
    }

    /// Calls back, by a connection to one of the servers here, a client that has said that it takes that
    /// ([`AsyncService::is_ready`]): the future ends with the reply.
    pub fn call_back(
        &self,
        to: Id,
        call: Call,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Reply<D> {
        self.begin(to, |driver| call_back(driver, to, call, write))
    }

    fn begin(&self, id: Id, begin: impl FnOnce(&mut Driver<D>) -> Result<CallId, GivenBack<ClientError>>) -> Reply<D> {
        let mut shared = self.0.borrow_mut();
        let state = match begin(&mut shared.driver) {
            Ok(call) => {
                shared.calls.insert((id, call), State::Open(None));
                Begun::Call(id, call)
            }
            Err(refused) => Begun::Refused(Some(refused)),
        };
        shared.wake();
        Reply { local: self.clone(), state }
    }

    /// The pool of registered buffers.
    #[must_use]
    pub fn pool(&self) -> Pool<D> {
        self.0.borrow().driver.pool().clone()
    }

    /// Uses the driver, to serve with it for example; `f` must not wait for anything, nor use this.
    pub fn with_driver<R>(&self, f: impl FnOnce(&mut Driver<D>) -> R) -> R {
        f(&mut self.0.borrow_mut().driver)
    }

    /// Turns the driver once, tells whoever waits, and lets handlers go on: how much has happened. Not to be used by them.
    ///
    /// # Errors
    /// The driver can't go on.
    pub fn turn(&self) -> Result<usize, DriverError> {
        let mut shared = self.0.borrow_mut();
        let mut count = shared.driver.turn()? + shared.tell();
        let (services, gone) = (shared.services.len(), std::mem::take(&mut shared.gone));
        drop(shared);
        drop(gone);
        for place in 0..services {
            count += self.attend(place);
        }
        let mut shared = self.0.borrow_mut();
        if !shared.draining.is_empty() && shared.is_drained() {
            shared.draining.drain(..).for_each(Waker::wake);
        }
        Ok(count)
    }

    /// Lets the handlers of a service go on, and sends their replies: how much has happened.
    fn attend(&self, place: usize) -> usize {
        let mut shared = self.0.borrow_mut();
        let Some(here @ Place::Here(_)) = shared.services.get_mut(place) else { return 0 };
        let Some(mut service) = here.take(Place::Out) else { return 0 };
        let mut count = 0;
        loop {
            let taken = service.take(&mut shared.driver);
            while let Some((id, event)) = service.event() {
                shared.ended(id, event);
                count += 1;
            }
            // Handlers may use what is ours.
            drop(shared);
            service.poll();
            shared = self.0.borrow_mut();
            let answered = service.reply(&mut shared.driver);
            count += taken + answered;
            // Who has answered takes the next call that waits.
            if answered == 0 {
                break;
            }
        }
        if count > 0 {
            shared.driver.flush();
        }
        match shared.services.get_mut(place) {
            Some(place @ Place::Out) => *place = Place::Here(service),
            // It was given up meanwhile.
            _ => shared.gone.push(service),
        }
        count
    }

    /// Lets this task be woken when there is something new to be done.
    pub fn register(&self, runner: &Waker) {
        let mut shared = self.0.borrow_mut();
        if !shared.runner.as_ref().is_some_and(|waker| waker.will_wake(runner)) {
            shared.runner = Some(runner.clone());
        }
        shared.services.iter_mut().filter_map(Place::here).for_each(|service| service.register(runner));
    }
}

impl<D: Device> Shared<D> {
    fn wake(&mut self) {
        if let Some(runner) = self.runner.take() {
            runner.wake();
        }
    }

    /// Whether no server has a connection.
    fn is_drained(&self) -> bool {
        self.services.iter().all(|place| match place {
            Place::Here(service) => service.is_drained(),
            Place::Out => false,
            Place::Free => true,
        })
    }

    /// Adds a server or a service: its place.
    fn add(&mut self, service: Box<dyn Serves<D>>) -> usize {
        self.wake();
        let free = self.services.iter().position(|place| matches!(place, Place::Free));
        let place = free.unwrap_or(self.services.len());
        match self.services.get_mut(place) {
            Some(free) => *free = Place::Here(service),
            None => self.services.push(Place::Here(service)),
        }
        place
    }

    /// Takes what has come to clients, and tells the futures what has become of their calls: how much.
    fn tell(&mut self) -> usize {
        let mut count = 0;
        while let Some(id) = self.driver.ready() {
            // Others may have made clients, too, by `with_driver`.
            let Some(party) = self.clients.get(&id).copied() else { continue };
            while let Some(told) = self.driver.event(id) {
                count += 1;
                match event(told) {
                    ClientEvent::CalledBack(arrival) => self.called_back(id, party.service, arrival),
                    ClientEvent::Closed { last: true, .. } if party.left => self.remove(id),
                    event => self.ended(id, event),
                }
            }
        }
        count
    }

    /// Gives a call to its service; without one it is not answered.
    fn called_back(&mut self, id: Id, service: Option<usize>, arrival: Arrival) {
        let service = service.and_then(|place| self.services.get_mut(place)).and_then(Place::here);
        match service {
            Some(service) => service.offer(&mut self.driver, id, arrival),
            None => {
                if let Some(session) = self.driver.session_mut(id) {
                    // It has ended already if its connection is gone.
                    let _ = session.decline(arrival.call);
                }
            }
        }
    }

    /// A client was dropped: its connection ends when its calls have.
    fn leave(&mut self, id: Id) {
        let Some(party) = self.clients.get_mut(&id) else { return };
        party.left = true;
        match self.driver.session_mut(id) {
            Some(session) if session.stage() != Stage::Closed => session.drain(),
            _ => self.remove(id),
        }
        self.wake();
    }

    /// Forgets a connection that has ended for good.
    fn remove(&mut self, id: Id) {
        self.driver.forget(id);
        let party = self.clients.remove(&id).unwrap_or_default();
        let place = party.service.and_then(|place| self.services.get_mut(place));
        self.gone.extend(place.and_then(|place| place.take(Place::Free)));
    }

    /// Tells the future of a call that it has ended.
    fn ended(&mut self, id: Id, event: ClientEvent) {
        let (call, result) = match event {
            ClientEvent::Answered { call, answer } => (call, Ok(answer)),
            ClientEvent::Failed { call, why } => (call, Err(why)),
            ClientEvent::Ready(_) | ClientEvent::Closed { .. } | ClientEvent::CalledBack(_) => return,
        };
        let memory = self.driver.take_memory(id, call.0);
        match self.calls.remove(&(id, call)) {
            Some(State::Open(waker)) => {
                self.calls.insert((id, call), State::Ended(result, memory));
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            // What nobody waits for gives its memory back to where it came from.
            _ => drop(memory),
        }
    }
}

impl<D: Device> Client<D> {
    /// Calls: the future ends with the reply. A call that can't begin ends at once.
    ///
    /// Dropping the future cancels the call: its memory is given back to where it came from when it is out of the server's
    /// reach.
    pub fn call(&self, call: Call, write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>) -> Reply<D> {
        self.local.begin(self.client.id(), |driver| self.client.call(driver, call, write))
    }

    /// Answers the server's calls from now on, by so many handlers at once; without, they are not answered. The settings have to
    /// leave room for them (`Config::serve`), and the server has to know that it may call.
    pub fn serve<S: AsyncService>(&self, service: S, handlers: usize) {
        let mut shared = self.local.0.borrow_mut();
        let place = shared.add(Box::new(Handlers::new(service, handlers)));
        if let Some(party) = shared.clients.get_mut(&self.client.id()) {
            party.service = Some(place);
        }
    }

    /// Looks at the engine of its connection: version, properties, counters.
    pub fn session<R>(&self, f: impl FnOnce(&Session) -> R) -> Option<R> {
        self.client.session(&self.local.0.borrow().driver).map(f)
    }
}

impl<D: Device> Drop for Client<D> {
    /// Its connection ends when its calls have, whose futures may live longer.
    fn drop(&mut self) {
        // While the driver is used by others it can't be told: then the connection stays as long as the driver.
        if let Ok(mut shared) = self.local.0.try_borrow_mut() {
            shared.leave(self.client.id());
        }
    }
}

/// The reply to a call, to be awaited.
#[derive(Debug)]
#[must_use = "a call whose future is dropped is cancelled"]
pub struct Reply<D: Device> {
    local: Local<D>,
    state: Begun,
}

#[derive(Debug)]
enum Begun {
    Call(Id, CallId),
    Refused(Option<GivenBack<ClientError>>),
}

impl<D: Device> Future for Reply<D> {
    type Output = Result<(Answered, Memory), GivenBack<ClientError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (id, call) = match &mut self.state {
            Begun::Refused(refused) => {
                return refused.take().map_or(Poll::Pending, |refused| Poll::Ready(Err(refused)));
            }
            Begun::Call(id, call) => (*id, *call),
        };
        let calls = &mut self.local.0.borrow_mut().calls;
        match calls.remove(&(id, call)) {
            Some(State::Ended(Ok(answered), memory)) => Poll::Ready(Ok((answered, memory))),
            Some(State::Ended(Err(why), memory)) => Poll::Ready(Err(GivenBack { why, memory: Box::new(memory) })),
            _ => {
                calls.insert((id, call), State::Open(Some(context.waker().clone())));
                Poll::Pending
            }
        }
    }
}

impl<D: Device> Drop for Reply<D> {
    fn drop(&mut self) {
        let Begun::Call(id, call) = self.state else { return };
        let mut shared = self.local.0.borrow_mut();
        if let Some(State::Open(_)) = shared.calls.remove(&(id, call)) {
            shared.calls.insert((id, call), State::Detached);
            if let Some(session) = shared.driver.session_mut(id) {
                session.cancel(call.0);
            }
            shared.wake();
        }
    }
}
