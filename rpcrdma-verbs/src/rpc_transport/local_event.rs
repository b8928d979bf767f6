//! The events of a channel that its user drives.
//!
//! `local_channel` and `callers` convert the end of a call by `completed`, which must be called
//! once for each end: it takes the buffers of the call from the driver. The timeout of
//! `DeadlineExceeded` is zero until `LocalChannel::read` sets it. Each span that is added must be
//! attached or cleared.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use oncrpc::xdr::{ItemList, Matching, ReceivedItem, SharedBytes};
use oncrpc::{CallError, CallErrorKind, Execution, Progress, ReplyStatus};
use rpcrdma_proto::connection::{CallFailure, CloseReason};
use rpcrdma_proto::transfer::MAX_RESULTS;
use rpcrdma_proto::version::Version;
use tracing::Span;
use tracing::field::display;

use super::{failure, message};
use crate::driver::{ConnectError, DriverEvent, Payload};
use crate::memory::{Buf, Frozen};
use crate::provider::Device;

/// An event of a [`LocalChannel`](super::LocalChannel).
#[derive(Debug)]
#[non_exhaustive]
pub enum LocalEvent {
    /// A connection is established, with this version.
    Connected(Version),
    /// A call has ended.
    Completed(CompletedCall),
    /// The connection is closed, or could not be established.
    Disconnected {
        /// The reason.
        reason: CloseReason,
        /// The error, if it was an attempt to connect.
        error: Option<ConnectError>,
        /// Whether the channel has ended: no other connection follows.
        is_final: bool,
    },
}

/// A call that has ended, with its reply or its error.
#[derive(Debug)]
pub struct CompletedCall {
    xid: u32,
    pub(super) outcome: Result<ReceivedReply, (CallErrorKind, Execution)>,
    /// The span of the call, if there is a subscriber; `None` for a backward call.
    span: Option<Box<Span>>,
}

impl CompletedCall {
    /// Returns the XID of the call, by which a user identifies it.
    #[must_use]
    pub const fn xid(&self) -> u32 {
        self.xid
    }

    /// Notes that there was no connection, with the error of the last attempt.
    pub(super) fn not_connected(&mut self, cause: Option<String>) {
        if let Err((CallErrorKind::DeadlineExceeded { progress, .. }, _)) = &mut self.outcome
            && *progress == Progress::NoCredit
        {
            *progress = Progress::NotConnected(cause);
        }
    }

    /// Records the outcome in the span of the call.
    pub(super) fn record<R>(&self, read: &Result<R, CallError>) {
        if let Some(span) = &self.span {
            match read {
                Ok(_) => span.record("status", display(ReplyStatus::Success)),
                Err(error) => span.record("status", display(error.kind())),
            };
        }
    }

    /// Returns the buffer of the reply, if nothing else can share it.
    pub(super) fn into_payload(self) -> Option<Payload> {
        match self.outcome {
            Ok(ReceivedReply {
                stream: Stream::Short(payload),
                ..
            }) => Some(payload),
            _ => None,
        }
    }
}

/// The spans of a forward channel's calls in flight by their XIDs, if there is a subscriber.
#[derive(Default)]
pub(super) struct Spans {
    count: Cell<usize>,
    by_xid: RefCell<HashMap<u32, Box<Span>>>,
}

impl Spans {
    #[cold]
    pub(super) fn add(&self, xid: u32, span: Box<Span>) {
        self.change(|spans| drop(spans.insert(xid, span)));
    }

    #[inline]
    pub(super) fn are_there(&self) -> bool {
        self.count.get() > 0
    }

    /// Moves the span of an ended call to its event.
    #[cold]
    pub(super) fn attach(&self, event: &mut Option<LocalEvent>) {
        if let Some(LocalEvent::Completed(completed)) = event {
            self.change(|spans| completed.span = spans.remove(&completed.xid));
        }
    }

    /// Drops the spans of calls that end without an event.
    pub(super) fn clear(&self) {
        self.change(HashMap::clear);
    }

    fn change(&self, f: impl FnOnce(&mut HashMap<u32, Box<Span>>)) {
        let mut spans = self.by_xid.borrow_mut();
        f(&mut spans);
        self.count.set(spans.len());
    }
}

/// A reply, in the memory into which the device has placed it.
#[derive(Debug)]
pub(super) struct ReceivedReply {
    stream: Stream,
    results: Results,
}

#[derive(Debug)]
enum Stream {
    /// A message of at most `MAX_COPIED` bytes. An item that is kept is copied.
    Short(Payload),
    /// A longer message. An item shares its memory.
    Long(SharedBytes),
}

/// The results that the server has written.
#[derive(Debug)]
enum Results {
    None,
    One(ReceivedItem),
    Several(Vec<ReceivedItem>),
}

impl Results {
    fn new(buffers: ArrayVec<Buf, MAX_RESULTS>) -> Self {
        let mut items = buffers.into_iter().map(|result| ReceivedItem {
            position: 0,
            bytes: Frozen::from(result).into(),
        });
        match (items.next(), items.next()) {
            (None, _) => Self::None,
            (Some(only), None) => Self::One(only),
            (Some(first), Some(second)) => {
                Self::Several([first, second].into_iter().chain(items).collect())
            }
        }
    }

    fn as_slice(&self) -> &[ReceivedItem] {
        match self {
            Self::None => &[],
            Self::One(only) => std::slice::from_ref(only),
            Self::Several(all) => all,
        }
    }
}

impl ReceivedReply {
    pub(super) fn items(&self) -> ItemList<'_> {
        let results = self.results.as_slice();
        match &self.stream {
            Stream::Long(stream) if results.is_empty() => ItemList::shared(stream),
            Stream::Long(stream) => ItemList::new(stream, results, Matching::InOrder),
            Stream::Short(payload) => ItemList::new(payload.bytes(), results, Matching::InOrder),
        }
    }
}

/// Returns the ended call, without its span; `None` for any other event. It takes the call's
/// memory from the driver, even if the caller then drops the call.
pub(super) fn completed<D: Device>(
    connection: message::Connection<'_, D>,
    event: DriverEvent,
) -> Option<LocalEvent> {
    let (xid, outcome) = match event {
        DriverEvent::ReplyArrived { xid, message } => (xid, received(connection, xid, message)),
        DriverEvent::CallFailed { xid, error, sent } => {
            let (driver, id) = connection;
            drop(driver.take_results(id, xid));
            let (mut kind, execution) = failure::call_error(error, sent);
            if error == CallFailure::TimedOut {
                // The user's `PendingCall` has the timeout.
                kind = CallErrorKind::DeadlineExceeded {
                    timeout: Duration::ZERO,
                    progress: failure::progress(sent),
                };
            }
            (xid, Err((kind, execution)))
        }
        _ => return None,
    };
    Some(LocalEvent::Completed(CompletedCall {
        xid,
        outcome,
        span: None,
    }))
}

fn received<D: Device>(
    (driver, id): message::Connection<'_, D>,
    xid: u32,
    payload: Payload,
) -> Result<ReceivedReply, (CallErrorKind, Execution)> {
    let results = driver.take_results(id, xid);
    let results = results.map_or(Results::None, Results::new);
    let payload = payload.flattened(driver.pool()).map_err(|error| {
        let kind = CallErrorKind::Transport(Arc::new(error));
        (kind, Execution::Executed)
    })?;
    let stream = if payload.bytes().len() <= message::MAX_COPIED {
        Stream::Short(payload)
    } else {
        Stream::Long(payload.into_shared())
    };
    Ok(ReceivedReply { stream, results })
}
