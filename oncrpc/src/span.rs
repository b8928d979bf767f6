//! The spans of calls: `rpc` at the client, `serve` at the server. They are boxed, since calls are
//! moved and a span is large, and exist only if there is a subscriber.

use std::fmt::Display;
#[cfg(feature = "tokio")]
use std::future::{Future, poll_fn};
#[cfg(feature = "tokio")]
use std::pin::pin;
use std::sync::Arc;

use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::{Span, debug_span};

use crate::procedure::ProcedureId;

/// Returns true if there may be a subscriber. The code of spans stays out of the path of other
/// calls.
#[inline]
pub(crate) fn may_be_on() -> bool {
    LevelFilter::current() >= LevelFilter::DEBUG
}

/// Returns the span of a call that begins, a child of the current span. Fields that are not known
/// yet are recorded later.
#[cold]
pub(crate) fn of_call(
    procedure: &ProcedureId,
    peer: impl FnOnce() -> Arc<str>,
) -> Option<Box<Span>> {
    let ProcedureId {
        program,
        version,
        number,
        name,
    } = procedure;
    let span = debug_span!(
        "rpc",
        peer = Empty,
        program,
        version,
        procedure = number,
        name,
        xid = Empty,
        bytes = Empty,
        transfer = Empty,
        status = Empty,
    );
    if span.is_disabled() {
        return None;
    }
    span.record("peer", &*peer());
    Some(Box::new(span))
}

/// Records how a call has ended.
#[inline]
pub(crate) fn record_status(span: &Option<Box<Span>>, status: &dyn Display) {
    if let Some(span) = span {
        record(span, status);
    }
}

#[cold]
fn record(span: &Span, status: &dyn Display) {
    span.record("status", tracing::field::display(status));
}

/// Polls a future within a span.
#[cfg(feature = "tokio")]
pub(crate) async fn within<F: Future>(span: Option<Box<Span>>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let _entered = span.as_ref().map(|span| span.enter());
        future.as_mut().poll(cx)
    })
    .await
}
