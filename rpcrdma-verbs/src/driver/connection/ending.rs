//! The ends of calls, and the buffers that they return to the consumer.

use arrayvec::ArrayVec;
use rpcrdma_proto::connection::{CallFailure, SendOwner, ServedCallId};
use rpcrdma_proto::transfer::MAX_RESULTS;
use tracing::field::display;
use tracing::{Span, debug};

use super::Connection;
use crate::driver::events::{CallBuffers, DriverEvent};
use crate::memory::{Buf, PostedBuf};
use crate::provider::Device;

impl<D: Device> Connection<D> {
    /// Informs the session that no request refers to the memory of a message any more.
    #[inline]
    pub(super) fn released(&mut self, what: SendOwner) {
        if self.session.released(what)
            && let SendOwner::Reply { call } = what
        {
            self.call_ended(call);
        }
    }

    /// Releases the memory of a call of the peer that has ended.
    #[inline]
    pub(super) fn call_ended(&mut self, call: ServedCallId) {
        if let Some(incoming) = self.served.get_mut(self.session.served_slot(call)) {
            (incoming.assembly, incoming.long_reply) = (None, None);
            incoming.reply.reset();
            incoming.held = None;
        }
    }

    #[cold]
    pub(super) fn call_failed(&mut self, xid: u32, error: CallFailure, sent: bool) {
        if let Some(outgoing) = self.calls.get(self.session.call_slot(xid)) {
            outgoing.span.record("status", display(error));
            debug!(parent: &outgoing.span, %error, "failed");
        }
        self.end_call(xid, &[]);
        self.events
            .push(DriverEvent::CallFailed { xid, error, sent });
    }

    /// Ends a call. Its buffers, with the length of each result, wait for `take_buffers`.
    pub(super) fn end_call(&mut self, xid: u32, written: &[u32]) {
        let place = self.session.call_slot(xid);
        let Some(outgoing) = self.calls.get_mut(place) else {
            return;
        };
        (outgoing.call_message, outgoing.reply, outgoing.ended_xid) = (None, None, Some(xid));
        outgoing.span = Span::none();
        outgoing.result_lengths.clear();
        outgoing
            .result_lengths
            .extend(written.iter().copied().take(MAX_RESULTS));
    }

    /// Returns the buffers of a call that has ended, or none if another call uses its slot.
    pub(crate) fn take_buffers(&mut self, xid: u32) -> CallBuffers {
        let place = self.session.call_slot(xid);
        let Some(outgoing) = self
            .calls
            .get_mut(place)
            .filter(|outgoing| outgoing.ended_xid == Some(xid))
        else {
            return CallBuffers::default();
        };
        outgoing.ended_xid = None;
        let items = unshared(outgoing.message.take_items());
        let results = outgoing.take_results();
        CallBuffers { items, results }
    }

    /// Returns the results of a call that has ended, if there are buffers for any, and drops its
    /// items.
    #[inline]
    pub(crate) fn take_results(&mut self, xid: u32) -> Option<ArrayVec<Buf, MAX_RESULTS>> {
        let place = self.session.call_slot(xid);
        let outgoing = self.calls.get_mut(place)?;
        outgoing.ended_xid.take_if(|ended| *ended == xid)?;
        outgoing.message.reset();
        (!outgoing.results.is_empty()).then(|| outgoing.take_results())
    }
}

/// Returns the buffers that nothing else uses.
pub(super) fn unshared<const N: usize>(
    lent: impl IntoIterator<Item = PostedBuf>,
) -> ArrayVec<Buf, N> {
    lent.into_iter()
        .filter_map(|buf| buf.into_buf().ok())
        .collect()
}
