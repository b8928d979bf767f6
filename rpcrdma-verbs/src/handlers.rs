//! Services that take their time: `async` handlers, in slots that are made once.
//!
//! A slot is a future that lives as long as the server: it waits for a call, lets the service
//! answer it, and waits again. So a call allocates nothing, and the handlers that run at once are
//! as many as there are slots; further calls wait for one.

mod server;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use rpcrdma_proto::connection::ServedCallId;

use crate::calls::{Arrival, admitted, taken};
use crate::driver::{ConnectionId, Driver, Message, WriteError, Writer};
use crate::provider::Device;
use crate::rpc::{self, Call, Denial};
pub use server::AsyncServer;

/// A service whose answers may take their time: the procedures of one program.
pub trait AsyncService: 'static {
    /// The program's number.
    fn program(&self) -> u32;

    /// The versions of it that are here.
    fn versions(&self) -> RangeInclusive<u32>;

    /// Whether a call says that its caller takes backward calls from now on (NFSv4.1's
    /// CREATE_SESSION does).
    fn is_ready(&self, call: &Call<'_>) -> bool {
        let _ = call;
        false
    }

    /// Whether it takes data that the caller's Sends have placed apart as they are
    /// ([`Call::items`]), so that they are not copied. If not, they are in the arguments like any
    /// others.
    fn takes_items(&self) -> bool {
        false
    }

    /// Answers a call: writes its results, or says why not. `from` is the connection that it came
    /// by.
    fn call(
        &self,
        from: ConnectionId,
        call: &Call<'_>,
        results: &mut Writer<'_>,
    ) -> impl Future<Output = Result<(), Denial>>;
}

/// Handlers of one service, and the calls that wait for them.
pub(crate) struct Handlers<S> {
    service: Rc<S>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Slots that have answered.
    answered: Vec<usize>,
    /// Calls that wait for a slot.
    waiting: VecDeque<(ConnectionId, Arrival)>,
    runner: Arc<Runner>,
}

impl<S> fmt::Debug for Handlers<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handlers({})", self.slots.len())
    }
}

/// One handler: its future, and what it is given and gives.
struct Slot {
    /// The call that its handler has.
    call: Option<(ConnectionId, ServedCallId)>,
    future: Pin<Box<dyn Future<Output = ()>>>,
    desk: Rc<RefCell<Desk>>,
    flag: Arc<Flag>,
    waker: Waker,
}

/// What lies between a slot and who gives it calls.
#[derive(Default)]
struct Desk {
    call: Option<(ConnectionId, Arrival)>,
    /// The call that is answered, and the reply.
    reply: Option<(ConnectionId, ServedCallId)>,
    message: Message,
}

/// Who turns the server.
#[derive(Default)]
pub(crate) struct Runner(Mutex<Option<Waker>>);

impl Runner {
    pub(crate) fn register(&self, waker: &Waker) {
        let mut runner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !runner
            .as_ref()
            .is_some_and(|registered| registered.will_wake(waker))
        {
            *runner = Some(waker.clone());
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(runner) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runner.wake();
        }
    }
}

/// Whether a slot has something to do: it may be told so from any thread.
struct Flag {
    ready: AtomicBool,
    runner: Arc<Runner>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.store(true, Ordering::Release);
        self.runner.wake();
    }
}

impl<S: AsyncService> Handlers<S> {
    pub(crate) fn new(service: S, handlers: usize) -> Self {
        let (service, runner) = (Rc::new(service), Arc::new(Runner::default()));
        let slots: Vec<Slot> = (0..handlers.max(1))
            .map(|_| Slot::new(service.clone(), runner.clone()))
            .collect();
        let free = (0..slots.len()).rev().collect();
        Self {
            service,
            slots,
            free,
            answered: Vec::new(),
            waiting: VecDeque::new(),
            runner,
        }
    }

    /// The service.
    pub(crate) fn service(&self) -> &S {
        &self.service
    }

    /// The task that is to be woken when a handler can go on.
    pub(crate) fn register(&self, runner: &Waker) {
        self.runner.register(runner);
    }

    /// Takes a call, which waits for a slot.
    pub(crate) fn offer<D: Device>(
        &mut self,
        driver: &mut Driver<D>,
        id: ConnectionId,
        arrival: Arrival,
    ) {
        let items = self.service.takes_items();
        self.waiting
            .extend(taken(driver, id, arrival, items).map(|arrival| (id, arrival)));
    }

    /// Gives the calls that wait to slots that are free: how many. What no service sees is answered
    /// at once.
    pub(crate) fn hand_out<D: Device>(&mut self, driver: &mut Driver<D>) -> usize {
        let mut count = 0;
        while let (Some(free), false) = (self.free.last().copied(), self.waiting.is_empty()) {
            let Some((id, arrival)) = self.waiting.pop_front() else {
                break;
            };
            count += 1;
            let program = (self.service.program(), self.service.versions());
            if admitted(driver, id, &arrival, program, |call| {
                self.service.is_ready(call)
            })
            .is_none()
            {
                continue;
            }
            self.free.pop();
            if let Some(slot) = self.slots.get_mut(free) {
                slot.call = Some((id, arrival.call));
                slot.desk.borrow_mut().call = Some((id, arrival));
                slot.flag.ready.store(true, Ordering::Release);
            }
        }
        count
    }

    /// Lets the handlers go on that can. Nothing of the driver is held meanwhile: they may use it.
    pub(crate) fn poll(&mut self) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if !slot.flag.ready.swap(false, Ordering::AcqRel) {
                continue;
            }
            // It never ends.
            let _: Poll<()> = slot
                .future
                .as_mut()
                .poll(&mut Context::from_waker(&slot.waker));
            if slot.desk.borrow().reply.is_some() {
                self.answered.push(number);
            }
        }
    }

    /// Gives up all calls that were not answered.
    pub(crate) fn decline<D: Device>(&mut self, driver: &mut Driver<D>) {
        let waiting = self
            .waiting
            .drain(..)
            .map(|(id, arrival)| (id, arrival.call));
        for (id, call) in waiting.chain(self.slots.iter_mut().filter_map(|slot| slot.call.take())) {
            if let Some(session) = driver.session_mut(id) {
                // It may have ended meanwhile.
                let _ = session.reject(call);
            }
        }
    }

    /// Hands over what they have answered: how many calls.
    pub(crate) fn reply<D: Device>(&mut self, driver: &mut Driver<D>) -> usize {
        let count = self.answered.len();
        for number in self.answered.drain(..) {
            let Some(slot) = self.slots.get_mut(number) else {
                continue;
            };
            slot.call = None;
            let mut desk = slot.desk.borrow_mut();
            if let Some((id, call)) = desk.reply.take() {
                // The call may have ended meanwhile, with its connection.
                let _ = driver.reply_with(id, call, &mut desk.message);
                self.free.push(number);
            }
        }
        count
    }
}

impl Slot {
    fn new<S: AsyncService>(service: Rc<S>, runner: Arc<Runner>) -> Self {
        let desk = Rc::new(RefCell::new(Desk::default()));
        let flag = Arc::new(Flag {
            ready: AtomicBool::new(false),
            runner,
        });
        let waker = Waker::from(flag.clone());
        Self {
            call: None,
            future: Box::pin(handle(service, desk.clone())),
            desk,
            flag,
            waker,
        }
    }
}

/// What a slot does: one call after the other.
async fn handle<S: AsyncService>(service: Rc<S>, desk: Rc<RefCell<Desk>>) {
    loop {
        let (id, arrival) = next(&desk).await;
        let mut message = std::mem::take(&mut desk.borrow_mut().message);
        let said = match arrival.read() {
            Some(Ok(call)) => answer(&*service, id, arrival.xid, &call, &mut message).await,
            // It was read before it was handed out.
            Some(Err(denial)) => Err(denial),
            None => Err(Denial::GarbageArguments),
        };
        if let Err(denial) = said {
            message.reset();
            // The header of a denial has nothing in it that can't be encoded.
            let _ = rpc::write_reply(&mut Writer::new(&mut message), arrival.xid, Some(denial));
        }
        let mut desk = desk.borrow_mut();
        desk.message = message;
        desk.reply = Some((id, arrival.call));
    }
}

async fn answer<S: AsyncService>(
    service: &S,
    from: ConnectionId,
    xid: u32,
    call: &Call<'_>,
    message: &mut Message,
) -> Result<(), Denial> {
    message.reset();
    let mut writer = Writer::new(message);
    let begun: Result<(), WriteError> = rpc::write_reply(&mut writer, xid, None);
    begun.map_err(|_| Denial::System)?;
    service.call(from, call, &mut writer).await
}

/// The next call of a slot.
async fn next(desk: &RefCell<Desk>) -> (ConnectionId, Arrival) {
    std::future::poll_fn(|_| match desk.borrow_mut().call.take() {
        Some(call) => Poll::Ready(call),
        // Its flag is set when there is one.
        None => Poll::Pending,
    })
    .await
}
