//! The tracing events and spans of a connection and its calls.

use rpcrdma_proto::connection::{CallLocation, CloseReason, ReplyLocation, SendOwner};
use tracing::field::{Empty, display};
use tracing::level_filters::LevelFilter;
use tracing::{Span, debug, debug_span, info, warn};

use super::Connection;
use crate::provider::Device;

impl<D: Device> Connection<D> {
    /// Logs why there is no connection.
    #[cold]
    pub(super) fn log_closed(&self, reason: CloseReason) {
        let peer = self.peer;
        match (&self.connect_error, reason) {
            (Some(error), CloseReason::Unreachable) => info!(%peer, %error, "can't connect"),
            (_, CloseReason::CreditOverrun | CloseReason::Invalidated) => {
                warn!(%peer, %reason, "connection closed: the peer breaks the protocol");
            }
            _ => info!(%peer, %reason, "connection closed"),
        }
    }

    /// Logs the arrival of a call, with its transfer method.
    #[cold]
    pub(super) fn log_arrived(&self, xid: u32, message: &CallLocation) {
        let transfer = match message {
            CallLocation::Inline { .. } => "inline",
            CallLocation::Placed { .. } => "read from its Read chunks",
            CallLocation::Reassembled(_) => "in several transmissions",
        };
        debug!(peer = %self.peer, xid, transfer, "call arrived");
    }

    /// Logs the reply to a call in its span, with the transfer method.
    #[cold]
    pub(super) fn log_replied(&self, place: usize, reply: &ReplyLocation) {
        if let Some(outgoing) = self.slots.outgoing(place) {
            let inline = reply.inline.len();
            debug!(parent: &outgoing.span, inline, long = reply.long, "replied");
        }
    }

    /// Traces how a call is transferred, and why.
    #[cold]
    pub(super) fn trace(&self, what: SendOwner, header: &[u8]) {
        let xid = match what {
            SendOwner::Call { xid } => xid,
            SendOwner::Reply { call } => {
                let written = self.session.has_writes(call);
                let xid = header.first_chunk().copied().map(u32::from_be_bytes);
                return debug!(peer = %self.peer, xid, written, "reply sent");
            }
            SendOwner::Header => return,
        };
        let Some(outgoing) = self.slots.outgoing(self.session.call_slot(xid)) else {
            return;
        };
        if outgoing.span.is_disabled() {
            return;
        }
        if let (Some(transfer), Some(cost)) =
            (self.session.transfer_plan(xid), self.session.cost(xid))
        {
            outgoing.span.record("transfer", display(&transfer));
            debug!(parent: &outgoing.span, %transfer, %cost, "sent");
        }
    }
}

/// Returns true if there may be a subscriber to the events of each call.
#[inline]
pub(super) fn logs_calls() -> bool {
    LevelFilter::current() >= LevelFilter::DEBUG
}

/// Returns the span of a call, with the fields that are known when it begins.
#[cold]
pub(super) fn span_of(of_consumer: Option<Box<Span>>, xid: u32, bytes: u32) -> Span {
    let Some(of_consumer) = of_consumer else {
        return debug_span!("rpc", xid, bytes, transfer = Empty, status = Empty);
    };
    of_consumer.record("xid", xid);
    of_consumer.record("bytes", bytes);
    *of_consumer
}
