//! The output that the transport polls.
//!
//! This module decides the order of messages, when waiting calls are admitted, and how many
//! receives must be posted (`receives`). `requester`, `responder` and `exchange` write the headers.
//! Nothing interrupts an incomplete group of transmissions. No other message is written while
//! receives are missing. `has_nothing_to_send` must cover each queue that `transmit` reads, because
//! `poll_transmit` and `is_at_rest` rely on it: a message in any other queue is never sent.

use super::Session;
use crate::connection::config::Role;
use crate::connection::output::{Action, Event, Transmit};
use crate::connection::requester::{NO_DEADLINE, RequestKind};
use crate::connection::responder::ReplyLimits;
use crate::connection::rtr::extension::{ExtensionParts, RtrExtension};
use crate::connection::states::ConnState;
use crate::error::PeerError;
use crate::version::{Negotiation, NegotiationEvent, Version};

impl Session {
    /// Returns the next action for the transport. Perform all actions before the next message is
    /// sent.
    pub fn poll_action(&mut self) -> Option<Action> {
        // Calls that are let go need receives for their replies.
        self.admit();
        if self.state == ConnState::Up
            && let Some(action) = self.receives.post_up_to(self.receives())
        {
            return Some(action);
        }
        self.output.actions.pop_front()
    }

    /// Returns the next event for the consumer.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.output.next_event()
    }

    /// Returns whether [`poll_event`](Self::poll_event) has an event.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.output.has_events()
    }

    /// Returns the time at which, or after which, `timeout` must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let retry = if self.wants_connection() {
            self.reconnect_at
        } else {
            NO_DEADLINE
        };
        let kept = self.responder.retained_until().unwrap_or(NO_DEADLINE);
        let after = self.config.unresponsive_timeout;
        let stalled = if self.may_stall() {
            self.requester.stalled_until(after)
        } else {
            NO_DEADLINE
        };
        let first = self
            .requester
            .earliest_deadline()
            .min(self.params.negotiation_deadline.unwrap_or(NO_DEADLINE))
            .min(retry)
            .min(kept)
            .min(stalled);
        (first != NO_DEADLINE).then_some(first)
    }

    /// Returns whether calls or one-way messages may wait for credits on this connection. Until the
    /// version is negotiated the first message has its own timeout.
    pub(super) fn may_stall(&self) -> bool {
        let takes_calls = self.params.role == Role::Client || self.peer_ready;
        let calls_wait = self.requester.has_waiting() || self.requester.is_held_back();
        let waits = (takes_calls && calls_wait) || self.exchange.has_one_way(&self.params);
        self.state == ConnState::Up && self.params.version.is_some() && waits
    }

    /// Returns true if [`poll_action`](Self::poll_action) has an action that must not wait.
    /// Receives that replace those of replies are needed only for the next call, and are posted
    /// together.
    ///
    /// A message may depend on an action: on a receive to be posted first, or on the fence of a
    /// call that must change its transfer method. If [`poll_transmit`](Self::poll_transmit) returns
    /// `None` while this returns true, perform the actions and poll again.
    #[inline]
    #[must_use]
    pub fn has_actions(&self) -> bool {
        let posts = self.state == ConnState::Up && self.receives.is_short_of(self.receives());
        posts || !self.output.actions.is_empty()
    }

    /// Returns true if the session is idle: no message waits, and no action but receives that can
    /// wait for the next call. Only input from the transport or the consumer can create work.
    #[inline]
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.state == ConnState::Up && self.has_nothing_to_send() && !self.has_actions()
    }

    /// Writes the header of the next message to the beginning of `buffer`, which must have
    /// `Config::send_size` bytes, or 4096 if that is less. If there is no message, check
    /// [`has_actions`](Self::has_actions).
    ///
    /// The order is: the rest of a group of transmissions, errors, reports of broken groups,
    /// operations of properties and of the consumer, replies, calls.
    // spec: v2-5-c, v2-5-d
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: u64, buffer: &mut [u8]) -> Option<Transmit> {
        if self.state != ConnState::Up || self.has_nothing_to_send() {
            return None;
        }
        let transmit = self.next_message(now, buffer);
        match &transmit {
            Some(_) => self.on_sent(now),
            // A ready call must change its transfer method, and none of its memory is exposed.
            None if self.requester.has_returned() => return self.next_other(now, buffer),
            None => {}
        }
        transmit
    }

    #[cold]
    fn next_other(&mut self, now: u64, buffer: &mut [u8]) -> Option<Transmit> {
        let transmit = self.next_message(now, buffer);
        if transmit.is_some() {
            self.on_sent(now);
        }
        transmit
    }

    #[inline]
    fn on_sent(&mut self, now: u64) {
        self.counters.sent += 1;
        if self.params.role == Role::Client && self.params.negotiation == Negotiation::NotStarted {
            self.on_negotiation(NegotiationEvent::Sent);
            self.params.negotiation_deadline =
                Some(now.saturating_add(self.config.negotiation_timeout));
        }
    }

    #[inline(always)]
    fn next_message(&mut self, now: u64, buffer: &mut [u8]) -> Option<Transmit> {
        // No other message interrupts a group (rtrext-02, section 4.2).
        if let Some(extension) = &self.extension
            && extension.continues()
        {
            return self.transmit_more(buffer);
        }
        self.admit();
        if !self.receives.suffice_for(self.receives()) {
            return None;
        }
        self.transmit(now, buffer)
    }

    /// Returns whether no message waits: the result of most polls.
    #[inline]
    fn has_nothing_to_send(&self) -> bool {
        let quiet = self.requester.has_nothing_to_send()
            && !self.responder.has_replies()
            && !self.has_properties()
            && self.pending_errors.is_empty();
        quiet
            && !self
                .extension
                .as_ref()
                .is_some_and(|extension| extension.has_messages())
    }

    /// Returns whether a property operation is queued.
    fn has_properties(&self) -> bool {
        !self.exchange.is_idle()
            || self.exchange.is_first(&self.params)
            || self.requester.has_property_request()
    }

    #[inline(always)]
    fn transmit(&mut self, now: u64, buffer: &mut [u8]) -> Option<Transmit> {
        if !self.pending_errors.is_empty() {
            return self.transmit_error(buffer);
        }
        if self.extension.is_some()
            && let Some(transmit) = self.transmit_report(buffer)
        {
            return Some(transmit);
        }
        if self.has_properties()
            && let Some(transmit) = self.transmit_properties(buffer)
        {
            return Some(transmit);
        }
        if self.extension.is_some() && self.reject_unroutable() {
            return self.transmit_error(buffer);
        }
        let Self {
            config,
            params: link,
            requester: requests,
            responder: serving,
            output: out,
            peer_ready,
            extension,
            ..
        } = self;
        let parts = extension
            .as_deref_mut()
            .map_or_else(ExtensionParts::default, RtrExtension::parts);
        let ExtensionParts {
            calls,
            replies,
            reply_retention: keep,
            mut sending,
        } = parts;
        let until = if keep == 0 {
            0
        } else {
            now.saturating_add(keep)
        };
        let limits = |version| ReplyLimits {
            groups: replies,
            ..link.reply_limits(version)
        };
        let reply = serving.transmit(buffer, (until, sending.as_deref_mut()), limits);
        if reply.is_some() {
            link.peer_answered = true;
            return reply;
        }
        if !requests.has_ready() {
            return None;
        }
        let ready = link.role == Role::Client || *peer_ready;
        match &link.call_limits(config, calls) {
            Some(link) if ready => requests.transmit((now, buffer), link, sending, out),
            // The peer has changed its mind.
            _ => {
                requests.withdraw(out);
                None
            }
        }
    }

    /// Rejects the call of the next reply if no transfer method fits the reply any more.
    fn reject_unroutable(&mut self) -> bool {
        let Self {
            params: link,
            responder: serving,
            extension,
            ..
        } = self;
        let groups = extension.as_deref().and_then(RtrExtension::replies);
        let limits = |version| ReplyLimits {
            groups,
            ..link.reply_limits(version)
        };
        let unroutable = if serving.has_replies() {
            serving.unroutable_reply(limits)
        } else {
            None
        };
        unroutable.map(|call| self.refuse_served(call)).is_some()
    }

    #[cold]
    fn transmit_properties(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let Self {
            exchange,
            params: link,
            requester: requests,
            responder: serving,
            ..
        } = self;
        let header = exchange.transmit(buffer, link, requests, serving)?;
        link.peer_answered = true;
        self.on_capabilities();
        Some(Transmit::header_only(header))
    }

    #[cold]
    fn transmit_error(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let (refusal, error) = self.pending_errors.front()?;
        let header = refusal
            .write_error(*error, self.responder.credits.current_grant(), buffer)
            .ok()?;
        // An error in Version Two, except a version error, also answers the requester's first
        // message.
        let of_two =
            refusal.vers == Version::Two.number() && !matches!(error, PeerError::Versions { .. });
        self.params.peer_answered |= of_two;
        self.pending_errors.pop_front();
        Some(Transmit::header_only(header))
    }

    /// Admits waiting calls.
    #[inline(always)]
    fn admit(&mut self) {
        // A message without a reply needs two credits, which calls would never leave it: they wait
        // for it.
        let one_way = self.exchange.has_one_way(&self.params);
        if (one_way || self.requester.has_waiting()) && self.state == ConnState::Up {
            self.admit_some(one_way);
        }
    }

    // spec: v2-5-b, bd-6-e
    #[inline(never)]
    fn admit_some(&mut self, one_way: bool) {
        // The announcement of our properties takes its credit before calls take them all.
        if self.exchange.is_first(&self.params) {
            return;
        }
        // Where no calls are taken, there may still be questions.
        let groups = self
            .extension
            .as_ref()
            .and_then(|extension| extension.calls.as_ref());
        let calls = self.params.call_limits(&self.config, groups);
        let questions = if calls.is_none() {
            self.params.property_request_limits()
        } else {
            None
        };
        let Some(link) = calls.as_ref().or(questions.as_ref()) else {
            return;
        };
        // Until the version is negotiated, one message probes it. A server waits for the peer's
        // message.
        let asks = self.params.version.is_none() && self.exchange.is_enabled();
        let unready = self.params.role == Role::Server && !self.peer_ready;
        let only =
            (asks || unready || one_way || calls.is_none()).then_some(RequestKind::Properties);
        self.requester.admit(link, only, &mut self.output);
        if one_way {
            self.requester.mark_lacking_credits();
        }
        // If no outstanding reply can return credits, a property request asks for one.
        let stuck =
            one_way && self.requester.credits.calls() == 0 && !self.requester.credits.can_spare();
        if stuck && !self.exchange.has_request() {
            self.request_properties(None);
        }
    }

    /// Returns the number of receives to have posted, beside those that hold unanswered calls: for
    /// granted calls, for replies to messages in flight (as many as ever were on this connection),
    /// and for messages without a credit.
    // spec: bd-4.3.1-a, bd-4.3.1-d, bd-4.3.2-a, bd-4.3.2-b, bd-4.3.2-c, bd-4.3.2-e, bd-6-b
    #[must_use]
    pub fn receives(&self) -> u32 {
        let replies = self.requester.receives();
        // With a grant of one message, an operation and a call may be in flight, and each is
        // answered. An operation takes its credit when it is sent, and its receive is posted
        // before.
        let answers = if self.exchange.registry.has_operations() {
            2.max(replies.saturating_add(1))
        } else {
            1
        };
        self.responder
            .receives()
            .saturating_add(replies.max(answers))
    }
}
