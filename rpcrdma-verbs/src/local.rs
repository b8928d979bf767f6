//! Calls as futures, on one thread: for any runtime that can wait for a descriptor.
//!
//! A [`Local`] owns a driver. Whoever runs it turns it when it is woken: `tokio::run` does (feature
//! `tokio`). Nothing crosses threads, so that a future of a call takes no lock and wakes nobody but
//! its own task.

mod services;

use std::cell::{RefCell, RefMut};
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rpcrdma_proto::connection::{CallFailure, CloseReason, Config, ConnState, Session};

use crate::calls::event;
use crate::client::{self, Answered, Arrival, Call, CallId, ClientError, ClientEvent};
use crate::driver::{
    BeginError, CallBuffers, ConnectionId, Driver, DriverError, WriteError, Writer,
};
use crate::handlers::{AsyncServer, AsyncService, Handlers};
use crate::memory::Pool;
use crate::peers::call_back;
use crate::provider::Device;
use crate::rpc::Credentials;
use services::{Post, Served};

/// A driver whose clients are futures. Clones are of the same.
#[derive(Debug)]
pub struct Local<D: Device>(Rc<Inner<D>>);

#[derive(Debug)]
struct Inner<D: Device> {
    shared: RefCell<Shared<D>>,
    /// Clients that were dropped while that was borrowed.
    left: RefCell<Vec<ConnectionId>>,
}

impl<D: Device> Clone for Local<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct Shared<D: Device> {
    driver: Driver<D>,
    clients: HashMap<ConnectionId, Party>,
    calls: HashMap<(ConnectionId, CallId), State>,
    /// Servers, and services of clients.
    services: Vec<Post<D>>,
    /// Those that are gone: to be dropped while nothing is borrowed, since their handlers may use
    /// what is here.
    gone: Vec<Served<D>>,
    /// Who waits until servers are drained.
    draining: Vec<Waker>,
    /// Who turns the driver, when it sleeps.
    runner: Option<Waker>,
}

/// The connection of a client.
#[derive(Clone, Copy, Default, Debug)]
struct Party {
    /// The post of its service, if it has one.
    service: Option<usize>,
    /// Whether its client was dropped: it goes when all is done.
    left: bool,
}

/// How far a future is.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each call"
)]
#[derive(Debug)]
enum State {
    /// The call is under way.
    Open(Option<Waker>),
    /// It has ended, and nobody has taken the end yet.
    Ended(Result<Answered, ClientError>, CallBuffers),
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
        let shared = RefCell::new(Shared {
            driver,
            clients: HashMap::new(),
            calls: HashMap::new(),
            services: Vec::new(),
            gone: Vec::new(),
            draining: Vec::new(),
            runner: None,
        });
        Self(Rc::new(Inner {
            shared,
            left: RefCell::default(),
        }))
    }

    fn shared(&self) -> RefMut<'_, Shared<D>> {
        self.0.shared.borrow_mut()
    }

    /// A client of the server at an address. It connects by itself, and again when the connection
    /// is lost.
    ///
    /// # Errors
    /// The settings make no sense.
    pub fn connect(
        &self,
        server: SocketAddr,
        config: Config,
        credentials: Credentials,
    ) -> Result<Client<D>, DriverError> {
        let mut shared = self.shared();
        let client = client::Client::connect(&mut shared.driver, server, config, credentials)?;
        shared.clients.insert(client.id(), Party::default());
        shared.wake();
        Ok(Client {
            local: self.clone(),
            client,
        })
    }

    /// Serves with `async` handlers from now on. In [`AsyncService::call`] they may use all of
    /// this: make calls as clients, or [call back](Self::call_back). What else a service is asked
    /// it answers while the driver is in use, and so do the closures that write messages: there
    /// none of this can be used.
    ///
    /// A service that has a clone of this, or of one of its clients, keeps it there until
    /// [`Self::drain`] or [`Self::stop`].
    pub fn serve<S: AsyncService>(&self, server: AsyncServer<S>) {
        self.shared().add(Served::of_server(server));
    }

    /// Shuts all servers down ([`AsyncServer::drain`]) and forgets them: the future ends when none
    /// has a connection any more. Those that take too long are cut by [`Self::stop`]. Not to be
    /// awaited by handlers, whose calls keep their connections.
    pub async fn drain(&self) {
        {
            let Shared {
                driver, services, ..
            } = &mut *self.shared();
            services
                .iter_mut()
                .filter_map(Post::here)
                .for_each(|service| service.drain(driver));
        }
        std::future::poll_fn(|context| {
            let mut shared = self.shared();
            if shared.is_drained() {
                return Poll::Ready(());
            }
            if !shared
                .draining
                .iter()
                .any(|waker| waker.will_wake(context.waker()))
            {
                shared.draining.push(context.waker().clone());
            }
            shared.wake();
            Poll::Pending
        })
        .await;
    }

    /// Gives up all servers and services at once: connections to servers are cut, handlers are
    /// dropped where they are, and calls of clients' servers are not answered any more.
    pub fn stop(&self) {
        let mut shared = self.shared();
        shared
            .clients
            .values_mut()
            .for_each(|party| party.service = None);
        for mut post in std::mem::take(&mut shared.services) {
            if let Some(service) = post.take(Post::Free) {
                shared.end(service);
            }
        }
        shared.wake();
        let gone = std::mem::take(&mut shared.gone);
        drop(shared);
        // What handlers were waiting for is dropped with them, and gives itself up here.
        drop(gone);
    }

    /// Calls back, by a connection to one of the servers here, a client that has said that it takes
    /// that ([`AsyncService::is_ready`]): the future ends with the reply.
    pub fn call_back(
        &self,
        to: ConnectionId,
        call: Call,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Reply<D> {
        self.begin(to, |driver| call_back(driver, to, call, write))
    }

    fn begin(
        &self,
        id: ConnectionId,
        begin: impl FnOnce(&mut Driver<D>) -> Result<CallId, BeginError<ClientError>>,
    ) -> Reply<D> {
        let mut shared = self.shared();
        let state = match begin(&mut shared.driver) {
            Ok(call) => {
                shared.calls.insert((id, call), State::Open(None));
                Begun::Call(id, call)
            }
            Err(refused) => Begun::Refused(Some(refused)),
        };
        shared.wake();
        Reply {
            local: self.clone(),
            state,
        }
    }

    /// The pool of registered buffers.
    #[must_use]
    pub fn pool(&self) -> Pool<D> {
        self.0.shared.borrow().driver.pool().clone()
    }

    /// Uses the driver, to serve with it for example; `f` must not wait for anything, nor use this.
    pub fn with_driver<R>(&self, f: impl FnOnce(&mut Driver<D>) -> R) -> R {
        f(&mut self.shared().driver)
    }

    /// Turns the driver once, tells whoever waits, and lets handlers go on: how much has happened.
    /// Not to be used by them.
    ///
    /// # Errors
    /// The driver can't go on.
    pub fn turn(&self) -> Result<usize, DriverError> {
        let mut shared = self.shared();
        let left = std::mem::take(&mut *self.0.left.borrow_mut());
        left.into_iter().for_each(|id| shared.leave(id));
        let mut count = shared.driver.turn()? + shared.tell() + shared.take();
        let services = shared.services.len();
        drop(shared);
        for post in 0..services {
            count += self.attend(post);
        }
        let mut shared = self.shared();
        if !shared.draining.is_empty() && shared.is_drained() {
            shared.draining.drain(..).for_each(Waker::wake);
        }
        let gone = std::mem::take(&mut shared.gone);
        drop(shared);
        drop(gone);
        Ok(count)
    }

    /// Lets the handlers of a service go on, and sends their replies: how much has happened.
    fn attend(&self, post: usize) -> usize {
        let mut shared = self.shared();
        let Some(here @ Post::Here(_)) = shared.services.get_mut(post) else {
            return 0;
        };
        let Some(mut service) = here.take(Post::Out) else {
            return 0;
        };
        let mut count = 0;
        loop {
            // Handlers may use what is ours.
            drop(shared);
            service.handlers.poll();
            shared = self.shared();
            let answered = service.handlers.reply(&mut shared.driver);
            if answered == 0 {
                break;
            }
            // Who has answered takes the next call that waits.
            count += answered + service.take(&mut shared.driver);
        }
        if count > 0 {
            shared.driver.flush();
        }
        let is_drained = service.is_drained();
        match shared.services.get_mut(post) {
            Some(post @ Post::Out) if is_drained => {
                *post = Post::Free;
                shared.gone.push(*service);
            }
            Some(post @ Post::Out) => *post = Post::Here(service),
            // It was given up meanwhile.
            _ => shared.end(service),
        }
        count
    }

    /// Lets this task be woken when there is something new to be done.
    pub fn register(&self, runner: &Waker) {
        let mut shared = self.shared();
        if !shared
            .runner
            .as_ref()
            .is_some_and(|waker| waker.will_wake(runner))
        {
            shared.runner = Some(runner.clone());
        }
        shared
            .services
            .iter_mut()
            .filter_map(Post::here)
            .for_each(|service| service.handlers.register(runner));
    }
}

impl<D: Device> Shared<D> {
    fn wake(&mut self) {
        if let Some(runner) = self.runner.take() {
            runner.wake();
        }
    }

    /// Whether no server is left.
    fn is_drained(&self) -> bool {
        self.services.iter().all(|post| match post {
            Post::Here(service) => service.peers.is_none(),
            Post::Out => false,
            Post::Free => true,
        })
    }

    /// Lets servers and services take what has come, and tells the futures of servers' calls: how
    /// much. All do so before any handler goes on, whose next call may take the place of one that
    /// has ended.
    fn take(&mut self) -> usize {
        let mut count = 0;
        for post in 0..self.services.len() {
            let Some(here @ Post::Here(_)) = self.services.get_mut(post) else {
                continue;
            };
            let Some(mut service) = here.take(Post::Out) else {
                continue;
            };
            count += service.take(&mut self.driver) + self.tell_of(&mut service);
            if let Some(out) = self.services.get_mut(post) {
                *out = Post::Here(service);
            }
        }
        count
    }

    /// Tells the futures of a server's calls that they have ended: how many.
    fn tell_of(&mut self, service: &mut Served<D>) -> usize {
        let mut count = 0;
        while let Some((id, event, memory)) = service.event() {
            self.ended(id, event, memory);
            count += 1;
        }
        count
    }

    /// Gives up a server or a service.
    fn end(&mut self, mut service: Box<Served<D>>) {
        service.end(&mut self.driver);
        self.tell_of(&mut service);
        self.gone.push(*service);
    }

    /// Adds a server or a service: its post.
    fn add(&mut self, service: Served<D>) -> usize {
        self.wake();
        let free = self
            .services
            .iter()
            .position(|post| matches!(post, Post::Free));
        let post = free.unwrap_or(self.services.len());
        let here = Post::Here(Box::new(service));
        match self.services.get_mut(post) {
            Some(free) => *free = here,
            None => self.services.push(here),
        }
        post
    }

    /// Takes what has come to clients, and tells the futures what has become of their calls: how
    /// much.
    fn tell(&mut self) -> usize {
        let mut count = 0;
        while let Some(id) = self.driver.ready() {
            // Others may have made clients, too, by `with_driver`.
            let Some(party) = self.clients.get(&id).copied() else {
                continue;
            };
            while let Some(told) = self.driver.poll_event(id) {
                count += 1;
                match event(told) {
                    ClientEvent::CalledBack(arrival) => {
                        self.called_back(id, party.service, arrival)
                    }
                    ClientEvent::Closed { last: true, .. } if party.left => self.remove(id),
                    event @ (ClientEvent::Answered { call, .. }
                    | ClientEvent::Failed { call, .. }) => {
                        let memory = self.driver.take_buffers(id, call.0);
                        self.ended(id, event, memory);
                    }
                    ClientEvent::Ready(_) | ClientEvent::Closed { .. } => {}
                }
            }
        }
        count
    }

    /// Gives a call to its service; without one it is not answered.
    fn called_back(&mut self, id: ConnectionId, service: Option<usize>, arrival: Arrival) {
        let service = service
            .and_then(|post| self.services.get_mut(post))
            .and_then(Post::here);
        match service {
            Some(service) => service.handlers.offer(&mut self.driver, id, arrival),
            None => {
                if let Some(session) = self.driver.session_mut(id) {
                    // It has ended already if its connection is gone.
                    let _ = session.reject(arrival.call);
                }
            }
        }
    }

    /// A client was dropped: its connection ends when its calls have.
    fn leave(&mut self, id: ConnectionId) {
        let Some(party) = self.clients.get_mut(&id) else {
            return;
        };
        party.left = true;
        match self.driver.session_mut(id) {
            Some(session) if session.state() != ConnState::Closed => session.drain(),
            _ => self.remove(id),
        }
        self.wake();
    }

    /// Forgets a connection that has ended for good, and what is left of its calls.
    fn remove(&mut self, id: ConnectionId) {
        let open = |((of, call), state): (&(ConnectionId, CallId), &State)| {
            (*of == id && matches!(state, State::Open(_))).then_some(*call)
        };
        for call in self.calls.iter().filter_map(open).collect::<Vec<_>>() {
            let why = ClientError::Transport(CallFailure::Closed(CloseReason::Aborted));
            let memory = self.driver.take_buffers(id, call.0);
            self.ended(id, ClientEvent::Failed { call, why }, memory);
        }
        self.calls
            .retain(|(of, _), state| *of != id || matches!(state, State::Ended(..)));
        self.driver.forget(id);
        let party = self.clients.remove(&id).unwrap_or_default();
        self.dismiss(party.service);
    }

    /// Gives up the service of a client.
    fn dismiss(&mut self, service: Option<usize>) {
        let post = service.and_then(|post| self.services.get_mut(post));
        if let Some(service) = post.and_then(|post| post.take(Post::Free)) {
            self.end(service);
        }
    }

    /// Tells the future of a call that it has ended.
    fn ended(&mut self, id: ConnectionId, event: ClientEvent, memory: CallBuffers) {
        let (call, result) = match event {
            ClientEvent::Answered { call, answer } => (call, Ok(answer)),
            ClientEvent::Failed { call, why } => (call, Err(why)),
            ClientEvent::Ready(_) | ClientEvent::Closed { .. } | ClientEvent::CalledBack(_) => {
                return;
            }
        };
        // What nobody waits for gives its memory back to where it came from.
        if let Some(State::Open(waker)) = self.calls.remove(&(id, call)) {
            self.calls.insert((id, call), State::Ended(result, memory));
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<D: Device> Client<D> {
    /// Calls: the future ends with the reply. A call that can't begin ends at once.
    ///
    /// Dropping the future cancels the call: its memory is given back to where it came from when it
    /// is out of the server's reach.
    pub fn call(
        &self,
        call: Call,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
    ) -> Reply<D> {
        self.local.begin(self.client.id(), |driver| {
            self.client.call(driver, call, write)
        })
    }

    /// Answers the server's calls from now on, by so many handlers at once; without, they are not
    /// answered. The settings have to leave room for them (`Config::max_served`), and the server
    /// has to know that it may call. An earlier service is given up, with the calls that it has.
    pub fn serve<S: AsyncService>(&self, service: S, handlers: usize) {
        let mut shared = self.local.shared();
        let post = shared.add(Served::of_client(Handlers::new(service, handlers)));
        let party = shared.clients.get_mut(&self.client.id());
        let earlier = party.and_then(|party| party.service.replace(post));
        shared.dismiss(earlier);
    }

    /// Looks at the engine of its connection: version, properties, counters.
    pub fn session<R>(&self, f: impl FnOnce(&Session) -> R) -> Option<R> {
        self.client
            .session(&self.local.0.shared.borrow().driver)
            .map(f)
    }
}

impl<D: Device> Drop for Client<D> {
    /// Its connection ends when its calls have, whose futures may live longer.
    fn drop(&mut self) {
        match self.local.0.shared.try_borrow_mut() {
            Ok(mut shared) => shared.leave(self.client.id()),
            // The next turn sees to it.
            Err(_) => self.local.0.left.borrow_mut().push(self.client.id()),
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
    Call(ConnectionId, CallId),
    Refused(Option<BeginError<ClientError>>),
}

impl<D: Device> Future for Reply<D> {
    type Output = Result<(Answered, CallBuffers), BeginError<ClientError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (id, call) = match &mut self.state {
            Begun::Refused(refused) => {
                return refused
                    .take()
                    .map_or(Poll::Pending, |refused| Poll::Ready(Err(refused)));
            }
            Begun::Call(id, call) => (*id, *call),
        };
        let calls = &mut self.local.shared().calls;
        match calls.remove(&(id, call)) {
            Some(State::Ended(Ok(answered), memory)) => Poll::Ready(Ok((answered, memory))),
            Some(State::Ended(Err(why), memory)) => Poll::Ready(Err(BeginError {
                error: why,
                buffers: Box::new(memory),
            })),
            _ => {
                calls.insert((id, call), State::Open(Some(context.waker().clone())));
                Poll::Pending
            }
        }
    }
}

impl<D: Device> Drop for Reply<D> {
    fn drop(&mut self) {
        let Begun::Call(id, call) = self.state else {
            return;
        };
        let mut shared = self.local.shared();
        if let Some(State::Open(_)) = shared.calls.remove(&(id, call)) {
            if shared
                .driver
                .session_mut(id)
                .is_some_and(|session| session.cancel(call.0))
            {
                shared.calls.insert((id, call), State::Detached);
            }
            shared.wake();
        }
    }
}
