//! Answers to calls: replies, errors and property responses.
//!
//! Each answer returns the credit of its call and the receives reserved for the reply, even if the
//! outcome of the call is known already. An answer ends only a call in the state Sent, and removes
//! an orphan. `chunks` checks the chunks of a reply, and `grouped` a reply in transmissions.
//! `on_reply` ends a plain reply on a short path, which must have the same effect as `end` in
//! `ends`. The credit value of an error goes to `RequesterCredits::on_error`, since an error does
//! not open the credits of a connection.

use core::ops::Range;

use super::chunks::returned;
use super::request::CallOutcome;
use super::{RequestKind, Requester};
use crate::connection::output::{BufferId, CallFailure, ReplyLocation};
use crate::connection::queues::OutputQueues;
use crate::connection::states::{RequestEvent, RequestState};
use crate::credit::Credit;
use crate::error::PeerError;
use crate::header::Chunks;

/// A reply as received.
pub(in crate::connection) struct CallReply<'a> {
    pub(in crate::connection) xid: u32,
    /// The credit value, if the direction is certain.
    pub(in crate::connection) grant: Option<u32>,
    /// The chunks that it returns, if any.
    pub(in crate::connection) chunks: Option<&'a Chunks<'a>>,
    pub(in crate::connection) buffer: BufferId,
    pub(in crate::connection) inline: Range<u32>,
    pub(in crate::connection) invalidated: Option<u32>,
}

/// The effect of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::connection) enum ReplyOutcome {
    /// An event refers to the buffer of the reply.
    Kept,
    /// The buffer of the reply is free.
    Free,
    /// The reply invalidated a key that its call does not own. It is not taken.
    ForeignKey,
    /// No call of the consumer waits for the reply. It is not taken.
    Unexpected,
}

impl Requester {
    /// Handles the reply to a call of the consumer.
    pub(in crate::connection) fn on_reply(
        &mut self,
        answered: CallReply<'_>,
        out: &mut OutputQueues,
    ) -> ReplyOutcome {
        let CallReply {
            xid,
            grant,
            chunks,
            buffer,
            inline,
            invalidated,
        } = answered;
        let Some(request) = self
            .calls
            .get_mut(xid)
            .filter(|request| request.kind == RequestKind::Rpc && request.is_answerable())
        else {
            return ReplyOutcome::Unexpected;
        };
        if let Some(key) = invalidated {
            if !request.owns_key(key) {
                return ReplyOutcome::ForeignKey;
            }
            request.invalidated = Some(key);
        }
        let is_wanted = request.state == RequestState::Sent;
        // Most calls expose nothing, and their Send is complete: they end here.
        let is_plain =
            chunks.is_none() && request.chunks.segment_counts().is_empty() && !inline.is_empty();
        if is_plain && is_wanted && request.is_settled() {
            request.advance(RequestEvent::Ended);
            request.advance(RequestEvent::Settled);
            let (credit, reserve) = (request.credit.take(), request.reserve());
            self.return_credit(credit, reserve, grant);
            out.push_reply(xid, buffer, &inline);
            self.calls.remove(xid);
            self.open -= 1;
            return ReplyOutcome::Kept;
        }
        let mut reply = ReplyLocation::inline(buffer, inline);
        let (outcome, kept) = match returned(request, chunks, &mut reply) {
            Ok(()) if is_wanted => (CallOutcome::Reply(reply), ReplyOutcome::Kept),
            Ok(()) => (CallOutcome::Reply(reply), ReplyOutcome::Free),
            Err(why) => (CallOutcome::Failed(why), ReplyOutcome::Free),
        };
        self.on_answer(xid, grant, outcome, out);
        kept
    }

    /// Returns the credit of a call that is answered.
    // spec: rtr-4.3-l, rtr-4.3-m
    #[inline]
    fn return_call_credit(&mut self, xid: u32, grant: Option<u32>) {
        let Some(request) = self.calls.get_mut(xid) else {
            return;
        };
        let (credit, reserve) = (request.credit.take(), request.reserve());
        self.return_credit(credit, reserve, grant);
    }

    /// Returns a credit, and the receives that were reserved for the reply.
    #[inline]
    fn return_credit(&mut self, credit: Option<Credit>, reserve: u32, grant: Option<u32>) {
        if let Some(credit) = credit {
            if let Some(groups) = &mut self.groups {
                groups.unreserve(reserve);
            }
            // The receive queue has room for replies to as many messages as were requested.
            let grant = grant.map(|grant| grant.min(self.wanted));
            if credit.messages() > 1 && grant.is_none() {
                self.credits.on_group_error(credit);
            } else {
                self.credits.on_reply(credit, grant);
            }
        }
    }

    /// Handles any answer to a call.
    pub(super) fn on_answer(
        &mut self,
        xid: u32,
        grant: Option<u32>,
        outcome: CallOutcome,
        out: &mut OutputQueues,
    ) {
        self.return_call_credit(xid, grant);
        self.stalled_since = None;
        let Some(request) = self.calls.get_mut(xid) else {
            return;
        };
        match request.state {
            RequestState::Sent => self.end(xid, outcome, out),
            RequestState::Orphaned => self.remove_orphan(xid),
            // The outcome was known already: a late answer only returns the credit.
            _ => {}
        }
    }

    /// Handles the answer to a ROPT_REQPROP.
    pub(in crate::connection) fn on_property_response(
        &mut self,
        xid: u32,
        grant: Option<u32>,
        out: &mut OutputQueues,
    ) {
        self.on_answer(xid, grant, CallOutcome::None, out);
    }

    /// Handles an error that answers a call: the call ends, or is retransmitted in another version
    /// if `again` is set (decision D16).
    pub(in crate::connection) fn on_error(
        &mut self,
        xid: u32,
        (error, grant): (PeerError, u32),
        again: bool,
        out: &mut OutputQueues,
    ) {
        // The peer has not looked at the call.
        if matches!(error, PeerError::Versions { .. } | PeerError::Operation)
            && let Some(request) = self.calls.get_mut(xid)
        {
            request.on_refused();
        }
        let outcome = if again {
            CallOutcome::Again
        } else {
            CallOutcome::Failed(CallFailure::Peer(error))
        };
        self.on_error_answer(xid, Some(grant), outcome, out);
    }

    /// Handles an answer that is no reply. Its credit value applies if it answers a call.
    // spec: v2-4.2.2-g
    pub(super) fn on_error_answer(
        &mut self,
        xid: u32,
        grant: Option<u32>,
        outcome: CallOutcome,
        out: &mut OutputQueues,
    ) {
        let grant = grant
            .filter(|_| self.expects(xid))
            .map(|grant| grant.min(self.wanted));
        if matches!(outcome, CallOutcome::Again)
            && let Some(request) = self.calls.get_mut(xid)
        {
            request.on_refused();
        }
        self.on_answer(xid, None, outcome, out);
        if let Some(grant) = grant {
            self.credits.on_error(grant);
        }
    }
}
