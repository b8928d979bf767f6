//! Errors that arrive, and messages that are refused.
//!
//! `Refusal::action` decides whether a refused message is answered or dropped. This module counts
//! refused messages and queues answers in `pending_errors`, which `outgoing` sends. `answer` bounds
//! the queue, and leaves a place for each served call: `refuse_served` relies on that place and
//! does not check the length.

use super::Session;
use crate::connection::config::{Config, Role};
use crate::connection::output::{CloseReason, Event, ServedCallId};
use crate::connection::requester::RequestKind;
use crate::error::{PeerError, Refusal, RefusalAction, RefusalReason};
use crate::v2::MsgType;
use crate::version::Version;

impl Session {
    // spec: v2-4.2.2-c, v2-4.2.3-a, v2-5.2-a
    #[cold]
    pub(super) fn error_arrived(
        &mut self,
        xid: u32,
        version: Version,
        error: PeerError,
        credits: u32,
    ) {
        if error == PeerError::Operation && self.operation_unknown(xid, credits) {
            return;
        }
        let again = self.requester.expects(xid) && self.decides_version(version, error);
        match self.requester.expected(xid) {
            Some(kind) => {
                // The version probe is answered. If the probe was a call, the call is
                // retransmitted.
                self.requester.on_error(
                    xid,
                    (error, credits),
                    again && kind == RequestKind::Rpc,
                    &mut self.output,
                );
                if kind == RequestKind::Properties {
                    self.fail_property_request(true);
                }
            }
            None => {
                self.counters.unexpected += 1;
                self.output.push_notice(Event::PeerError { xid, error });
            }
        }
    }

    /// Answers or drops a message that breaks a rule.
    // spec: rtr-5.4-b, rtr-9.5-a
    #[cold]
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        let is_reply = self.requester.expects(refusal.xid) || !self.may_serve();
        match refusal.action(is_reply, Version::One, self.params.max_receive_version()) {
            RefusalAction::Answer(error) => self.answer(refusal, error),
            RefusalAction::Drop => self.drop_message(refusal),
        }
    }

    /// Returns whether this end may be a responder. In Version Two both ends answer operations.
    // spec: rfc8166-4.2.4-c
    fn may_serve(&self) -> bool {
        let has_backward = self.config.max_served > 0 && self.config.backward_v1;
        let is_v1 = self.params.version == Some(Version::One);
        self.config.role == Role::Server || !is_v1 || has_backward
    }

    /// Drops a message, and keeps the reason.
    #[cold]
    pub(super) fn drop_message(&mut self, refusal: Refusal) {
        self.counters.dropped += 1;
        self.refusal = Some(refusal);
    }

    /// Answers a call with an error for this reason.
    #[cold]
    pub(super) fn refuse_call(&mut self, xid: u32, version: Version, reason: RefusalReason) {
        self.refuse(Refusal::of_message(xid, version, MsgType::Call, reason));
    }

    /// Takes the reason for which the last message, or the group of transmissions that it broke,
    /// was answered with an error or dropped. It is for reports: the message has its consequence
    /// already.
    #[inline]
    pub fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// Queues an error, if there is room: a peer has no more calls in flight than it has been
    /// granted. Each call that is being served may need a place, too. Without room the connection
    /// is closed: its requester would wait for an answer that is not sent.
    // spec: rfc8166-4.5.4-b
    fn answer(&mut self, refusal: Refusal, error: PeerError) {
        let Config {
            credits,
            max_served,
            reserved_receives,
            ..
        } = *self.config;
        let max_served = usize::from(max_served);
        let receives = credits.saturating_add(reserved_receives) as usize + max_served;
        if self.pending_errors.len() + self.responder.len() < receives + max_served {
            self.pending_errors.push_back((refusal, error));
            self.counters.refused += 1;
        } else {
            self.counters.dropped += 1;
            self.close(CloseReason::CreditOverrun);
        }
        self.refusal = Some(refusal);
    }

    /// Ends a served call with an error, if it has not ended.
    pub(super) fn refuse_served(&mut self, call: ServedCallId) {
        if let Some((xid, version)) = self.responder.end(call, true, &mut self.output) {
            let refusal = Refusal::of_message(xid, version, MsgType::Call, RefusalReason::Rejected);
            self.pending_errors.push_back((refusal, PeerError::Header));
            self.counters.refused += 1;
        }
    }
}
