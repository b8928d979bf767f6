//! Calls of a server to its client, with drivers that the test turns.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{self, Poll, Waker};
use std::time::Duration;

use crate::support::assert_error;
use kv1::{Client, Fail, GetResults, LocalService};
use oncrpc::xdr::Text;
use oncrpc::{CallError, Context, Execution, PendingCall, Router, RpcError};
use rpcrdma_proto::connection::Config;
use rpcrdma_rpc_tests::kv::kv::kv1;
use rpcrdma_rpc_tests::kv::{GetRes, PutArgs};
use rpcrdma_verbs::driver::Driver;
use rpcrdma_verbs::memory::Budget;
use rpcrdma_verbs::provider::software::{Fabric, SoftwareDevice};
use rpcrdma_verbs::{CompletedCall, LocalChannel, LocalEvent, LocalServer};

type Device = SoftwareDevice;
type Channel = LocalChannel<Device>;

/// A call that the client does not answer.
const UNANSWERED: u32 = 77;

/// The action of a handler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HandlerAction {
    Nothing,
    /// It records the channel to the client.
    TakeCaller,
    /// It records the channel when it is woken, and does not end.
    TakeCallerLate,
    /// It calls the client, and waits for the reply.
    Call,
    /// It calls the client, and cancels the call after some time.
    CancelCall,
}

#[derive(Clone, Default)]
struct Mirror(Rc<MirrorState>);

#[derive(Default)]
struct MirrorState {
    action: Cell<Option<HandlerAction>>,
    connection: Cell<Option<u64>>,
    /// The channel that a handler has recorded.
    caller: RefCell<Option<oncrpc::Channel>>,
    /// The waker of a handler that waits until it goes on.
    waiting: RefCell<Option<Waker>>,
    goes_on: Cell<bool>,
}

impl LocalService for Mirror {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        Ok(GetRes::False.into())
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(())
    }

    async fn fail(&self, cx: &Context, how: u32) -> Result<u32, RpcError> {
        self.0.connection.set(cx.connection());
        match self.0.action.get().unwrap_or(HandlerAction::Nothing) {
            HandlerAction::Nothing => {}
            HandlerAction::TakeCaller => drop(self.0.caller.replace(Some(cx.caller()))),
            HandlerAction::TakeCallerLate => {
                poll_fn(|cx| {
                    self.0.waiting.replace(Some(cx.waker().clone()));
                    if self.0.goes_on.get() {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
                self.0.caller.replace(Some(cx.caller()));
                std::future::pending().await
            }
            HandlerAction::CancelCall => {
                let mut call = pin!(Client::new(cx.caller()).fail(&UNANSWERED).into_future());
                let mut polls = 0;
                poll_fn(|cx| {
                    assert!(call.as_mut().poll(cx).is_pending());
                    cx.waker().wake_by_ref();
                    polls += 1;
                    (polls == 20)
                        .then_some(())
                        .map_or(Poll::Pending, Poll::Ready)
                })
                .await;
            }
            HandlerAction::Call => return Ok(Client::new(cx.caller()).fail(&how).await?),
        }
        Ok(how)
    }
}

/// The service of the client, which is not `Send`.
#[derive(Clone, Default)]
struct Listener(Rc<RefCell<Vec<u32>>>);

impl LocalService for Listener {
    async fn get(&self, _: &Context, _: Text<'_>) -> Result<GetResults<'_>, RpcError> {
        self.0.borrow_mut().push(UNANSWERED);
        std::future::pending().await
    }

    async fn put(&self, _: &Context, _: PutArgs<'_>) -> Result<(), RpcError> {
        Ok(())
    }

    async fn fail(&self, _: &Context, how: u32) -> Result<u32, RpcError> {
        assert_ne!(how, 0, "told to");
        if how == UNANSWERED {
            std::future::pending::<()>().await;
        }
        let mut heard = self.0.borrow_mut();
        // In the steady state this does not allocate.
        heard.clear();
        heard.push(how);
        Ok(how)
    }
}

/// Returns the outcome of a call, if it has ended.
fn outcome<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut task::Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// A client and a server on this thread.
struct Ends {
    near: Driver<Device>,
    far: Driver<Device>,
    kv: Client<Channel>,
    server: LocalServer<(kv1::LocalServer<Mirror>, ())>,
    mirror: Mirror,
    listener: Listener,
}

impl Ends {
    fn new() -> Self {
        Self::of(Config::server())
    }

    /// Returns both ends, with these settings of the server.
    fn of(config: Config) -> Self {
        let fabric = Fabric::new();
        let driver = || Driver::new(&fabric.device(), &Budget::new(64 << 20), 1024).unwrap();
        let (mut near, mut far) = (driver(), driver());
        let (mirror, listener) = (Mirror::default(), Listener::default());
        let router = Router::new().add_service(kv1::serve_local(mirror.clone()));
        let address = "127.0.0.1:0".parse().unwrap();
        let server = LocalServer::bind(&mut far, address, config, router).unwrap();
        let services = Router::new().add_service(kv1::serve_local(listener.clone()));
        let (address, config) = (server.local_addr(), Config::client());
        let channel = LocalChannel::connect_with_services(&mut near, address, config, services);
        Self {
            near,
            far,
            kv: Client::new(channel.unwrap()),
            server,
            mirror,
            listener,
        }
    }

    /// Turns both ends once.
    fn turn(&mut self) -> Option<CompletedCall> {
        self.near.turn().unwrap();
        self.far.turn().unwrap();
        self.server.serve(&mut self.far);
        while let Some(event) = self.kv.transport().poll_event(&mut self.near) {
            if let LocalEvent::Completed(completed) = event {
                return Some(completed);
            }
        }
        None
    }

    /// Calls the server, whose handler performs an action.
    fn fail(&mut self, how: u32, action: HandlerAction) -> Result<u32, CallError> {
        self.mirror.0.action.set(Some(action));
        let call = self.kv.fail(&how).begin(&mut self.near).unwrap();
        for _ in 0..10_000 {
            if let Some(completed) = self.turn() {
                let channel = self.kv.transport();
                let result = channel.read(&call, &completed, |how| how).unwrap();
                channel.recycle(&mut self.near, completed);
                return result;
            }
        }
        panic!("no call ends");
    }

    /// Returns a channel to the client.
    fn caller(&self) -> Client<Channel> {
        let connection = self.mirror.0.connection.get().unwrap();
        Client::new(self.server.caller(connection).unwrap())
    }

    /// Returns the channel that a handler has recorded.
    fn recorded(&self) -> Client<oncrpc::Channel> {
        Client::new(self.mirror.0.caller.borrow().clone().unwrap())
    }

    fn event(&mut self, caller: &Client<Channel>) -> LocalEvent {
        for _ in 0..10_000 {
            self.turn();
            if let Some(event) = caller.transport().poll_event(&mut self.far) {
                return event;
            }
        }
        panic!("nothing happens");
    }

    /// Returns the result of a backward call.
    fn end(
        &mut self,
        caller: &Client<Channel>,
        call: &PendingCall<Fail>,
    ) -> Result<u32, CallError> {
        let LocalEvent::Completed(completed) = self.event(caller) else {
            panic!("the connection is lost");
        };
        let channel = caller.transport();
        let result = channel.read(call, &completed, |how| how).unwrap();
        channel.recycle(&mut self.far, completed);
        result
    }
}

/// Without a runtime, the handler waits for the reply of its client.
#[test]
fn a_handler_calls_its_client() {
    let mut ends = Ends::new();
    for how in 1..20 {
        assert_eq!(ends.fail(how, HandlerAction::Call).unwrap(), how);
        assert_eq!(*ends.listener.0.borrow(), [how]);
    }
}

// spec: bd-6-e
#[test]
fn no_call_is_sent_before_the_client_is_ready() {
    let mut ends = Ends::new();
    assert_eq!(ends.fail(9, HandlerAction::Nothing).unwrap(), 9);
    let caller = ends.caller();
    let error = caller.fail(&7).begin(&mut ends.far).unwrap_err();
    let text = "can't call the client: it has not announced that it is ready for calls";
    assert_error(&error, text, Execution::NotExecuted);
    assert!(ends.listener.0.borrow().is_empty());
    ends.fail(9, HandlerAction::TakeCaller).unwrap();
    let call = caller.fail(&7).begin(&mut ends.far).unwrap();
    assert_eq!(ends.end(&caller, &call).unwrap(), 7);
    assert_eq!(*ends.listener.0.borrow(), [7]);
}

#[test]
fn a_panicking_handler_gets_a_reply() {
    let mut ends = Ends::new();
    ends.fail(9, HandlerAction::TakeCaller).unwrap();
    let caller = ends.caller();
    let call = caller.fail(&0).begin(&mut ends.far).unwrap();
    let error = ends.end(&caller, &call).unwrap_err();
    assert_error(&error, "the server failed", Execution::Unknown);
    let call = caller.fail(&7).begin(&mut ends.far).unwrap();
    assert_eq!(ends.end(&caller, &call).unwrap(), 7);
}

#[test]
fn a_cancelled_call_ends() {
    let mut ends = Ends::new();
    ends.fail(9, HandlerAction::TakeCaller).unwrap();
    let caller = ends.caller();
    let call = caller.fail(&7).begin(&mut ends.far).unwrap();
    assert!(caller.transport().cancel(&mut ends.far, &call));
    let error = ends.end(&caller, &call).unwrap_err();
    let text = "the transport failed: it was cancelled";
    assert_error(&error, text, Execution::NotExecuted);
}

/// Nothing waits for the result of the call, so it is not kept for the code that turns the server.
#[test]
fn a_call_cancelled_by_a_handler_is_released() {
    let mut ends = Ends::new();
    ends.fail(9, HandlerAction::CancelCall).unwrap();
    let caller = ends.caller();
    for _ in 0..100 {
        ends.turn();
    }
    let event = caller.transport().poll_event(&mut ends.far);
    assert!(event.is_none(), "{event:?}");
}

/// Dropping a channel to a client does not end the server's connection.
#[test]
fn dropping_a_client_channel_keeps_the_connection() {
    let mut ends = Ends::new();
    ends.fail(9, HandlerAction::TakeCaller).unwrap();
    let caller = ends.caller();
    caller.transport().drain(&mut ends.far);
    caller.transport().close(&mut ends.far);
    assert_eq!(ends.fail(9, HandlerAction::Call).unwrap(), 9);
    let call = caller.fail(&7).begin(&mut ends.far).unwrap();
    assert_eq!(ends.end(&caller, &call).unwrap(), 7);
}

#[test]
fn a_channel_ends_with_its_connection() {
    let mut ends = Ends::new();
    ends.fail(9, HandlerAction::TakeCaller).unwrap();
    let caller = ends.caller();
    let call = caller.fail(&7).begin(&mut ends.far).unwrap();
    ends.near.forget(ends.kv.transport().id());
    let LocalEvent::Completed(completed) = ends.event(&caller) else {
        panic!("no call has ended");
    };
    let result = caller.transport().read(&call, &completed, |how| how);
    let error = result.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("the connection was lost"),
        "{error}"
    );
    let LocalEvent::Disconnected { is_final, .. } = ends.event(&caller) else {
        panic!("the channel has not ended");
    };
    assert!(is_final);
    let error = caller.fail(&7).begin(&mut ends.far).unwrap_err();
    assert!(
        error.to_string().contains("the connection was lost"),
        "{error}"
    );
    assert_eq!(error.execution(), Execution::NotExecuted);
    let connection = ends.mirror.0.connection.get().unwrap();
    assert!(ends.server.caller::<Device>(connection).is_none());
}

/// The server's loop would sleep before it sends the call.
#[test]
fn a_queued_call_that_gets_memory_is_noticed() {
    let mut ends = Ends::new();
    ends.fail(9, HandlerAction::TakeCaller).unwrap();
    // The reply grants credits.
    ends.fail(9, HandlerAction::Call).unwrap();
    ends.listener.0.take();
    let kv = ends.recorded();
    let pool = ends.far.pool().clone();
    let mut held: Vec<_> = std::iter::from_fn(|| pool.take(1 << 20).ok()).collect();
    held.pop();
    let key = "a".try_into().unwrap();
    let _calls = [(); 2].map(|()| kv.get(&key).into_future());
    for _ in 0..100 {
        ends.turn();
    }
    assert_eq!(*ends.listener.0.borrow(), [UNANSWERED]);
    assert_eq!(ends.server.serve(&mut ends.far), 0);
    held.pop();
    assert!(ends.server.serve(&mut ends.far) > 0);
    for _ in 0..100 {
        ends.turn();
    }
    assert_eq!(*ends.listener.0.borrow(), [UNANSWERED; 2]);
}

#[test]
fn a_caller_that_is_taken_late_is_noticed() {
    let mut ends = Ends::new();
    ends.mirror
        .0
        .action
        .set(Some(HandlerAction::TakeCallerLate));
    let _call = ends.kv.fail(&9).begin(&mut ends.near).unwrap();
    for _ in 0..100 {
        assert!(ends.turn().is_none());
    }
    assert_eq!(ends.server.serve(&mut ends.far), 0);
    ends.mirror.0.goes_on.set(true);
    let waker = ends.mirror.0.waiting.take().unwrap();
    waker.wake();
    assert!(ends.server.serve(&mut ends.far) > 0);
    let caller = ends.caller();
    let call = caller.fail(&7).begin(&mut ends.far).unwrap();
    assert_eq!(ends.end(&caller, &call).unwrap(), 7);
}

/// The maximum number of queued calls does not count those whose deadlines have passed.
#[test]
fn expired_calls_leave_their_places() {
    let mut ends = Ends::of(Config {
        max_calls: 1,
        credits: 1,
        ..Config::server()
    });
    ends.fail(9, HandlerAction::TakeCaller).unwrap();
    let kv = ends.recorded();
    let _unanswered = kv.fail(&UNANSWERED).into_future();
    let soon = Duration::from_millis(1);
    let queued = (0..128).map(|_| kv.fail(&7).timeout(soon).into_future());
    let queued: Vec<_> = queued.collect();
    ends.turn();
    std::thread::sleep(5 * soon);
    let last = kv.fail(&7).into_future();
    ends.server.serve(&mut ends.far);
    for call in queued {
        let error = outcome(call).unwrap().unwrap_err();
        let text = "not done within 1ms: too many calls in flight";
        assert_error(&error, text, Execution::NotExecuted);
    }
    assert!(outcome(last).is_none(), "it waits");
}

/// The error of a call says which end has closed the connection.
#[test]
fn a_disconnected_client_is_not_called() {
    let mut ends = Ends::new();
    ends.fail(9, HandlerAction::TakeCaller).unwrap();
    let (caller, kv) = (ends.caller(), ends.recorded());
    let call = caller.fail(&UNANSWERED).begin(&mut ends.far).unwrap();
    ends.turn();
    let id = caller.transport().id();
    ends.server.disconnect(&mut ends.far, id);
    let text = "the connection was lost: the consumer closed it";
    let error = ends.end(&caller, &call).unwrap_err();
    assert!(error.to_string().contains(text), "{error}");
    let error = caller.fail(&7).begin(&mut ends.far).unwrap_err();
    assert!(error.to_string().contains(text), "{error}");
    for _ in 0..2 {
        let call = kv.fail(&7).into_future();
        ends.turn();
        let error = outcome(call).unwrap().unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.execution(), Execution::NotExecuted);
    }
}

/// The driver knows that the connection is lost, and the server does not know it yet.
#[test]
fn a_call_to_a_lost_client_does_not_begin() {
    let mut ends = Ends::new();
    ends.fail(9, HandlerAction::TakeCaller).unwrap();
    let caller = ends.caller();
    ends.near.forget(ends.kv.transport().id());
    let id = caller.transport().id();
    while ends.far.session(id).unwrap().is_peer_ready() {
        ends.near.turn().unwrap();
        ends.far.turn().unwrap();
    }
    let error = caller.fail(&7).begin(&mut ends.far).unwrap_err();
    let text = "the connection was lost: the peer is gone";
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(error.execution(), Execution::NotExecuted);
}

/// In the steady state, neither end allocates for a backward call.
#[test]
fn a_call_does_not_allocate() {
    let mut ends = Ends::new();
    ends.fail(9, HandlerAction::TakeCaller).unwrap();
    let caller = ends.caller();
    let run = |ends: &mut Ends| {
        for how in 100..300 {
            let call = caller.fail(&how).begin(&mut ends.far).unwrap();
            assert_eq!(ends.end(&caller, &call).unwrap(), how);
        }
    };
    run(&mut ends);
    let counted = allocation_counter::measure(|| run(&mut ends));
    assert_eq!(counted.count_total, 0, "in 200 calls");
}
