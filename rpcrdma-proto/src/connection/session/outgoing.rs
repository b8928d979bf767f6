//! What is polled.

use super::Session;
use crate::connection::config::Role;
use crate::connection::extension::{Extension, Parts};
use crate::connection::life::Stage;
use crate::connection::output::{Action, Event, Sent, Transmit};
use crate::connection::requester::{Kind, NEVER};
use crate::connection::responder::Terms;
use crate::error::PeerError;
use crate::version::{Event as Turn, Negotiation, Version};

impl Session {
    /// The next thing that the transport is to do: all of them before the next message is sent.
    pub fn poll_action(&mut self) -> Option<Action> {
        // Calls that are let go need receives for their replies.
        self.admit();
        if self.stage == Stage::Up
            && let Some(action) = self.receives.up_to(self.receives())
        {
            return Some(action);
        }
        self.out.actions.pop_front()
    }

    /// The next thing that the consumer is to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.next_event()
    }

    /// Whether [`poll_event`](Self::poll_event) has something.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.out.has_events()
    }

    /// When `timeout` is to be called, if it is: at this time or later.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let retry = if self.wants_connection() { self.retry_at } else { NEVER };
        let kept = self.serving.kept_until().unwrap_or(NEVER);
        let first = self.requests.soonest().min(self.link.answer_by.unwrap_or(NEVER)).min(retry).min(kept);
        (first != NEVER).then_some(first)
    }

    /// Whether [`poll_action`](Self::poll_action) has something to be done now: receives in place of those that replies have
    /// taken are needed for the next call alone, and are posted together. That no message goes may be for receives that are to
    /// be posted first, or for a call that can't travel any more as it was to: its memory is fenced, and then it goes otherwise.
    /// So after [`poll_transmit`](Self::poll_transmit) has given nothing actions are to be done if there are any, and messages
    /// polled again.
    #[inline]
    #[must_use]
    pub fn has_actions(&self) -> bool {
        let posts = self.stage == Stage::Up && self.receives.is_short_of(self.receives());
        posts || !self.out.actions.is_empty()
    }

    /// Whether nothing is to be done, but for receives that can wait for the next call, and no message waits: all that can bring
    /// something is what comes, or the consumer.
    #[inline]
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.stage == Stage::Up && self.is_quiet() && !self.has_actions()
    }

    /// Writes the header of the next message to the beginning of `buffer`, which must have `Config::send_size` octets, or
    /// 4096 where that is less. If there is nothing, actions may have come of it ([`has_actions`](Self::has_actions)).
    ///
    /// The order: errors, properties, replies, calls.
    // spec: v2-5-c, v2-5-d
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: u64, buffer: &mut [u8]) -> Option<Transmit> {
        if self.stage != Stage::Up || self.is_quiet() {
            return None;
        }
        let transmit = self.next_message(now, buffer);
        match &transmit {
            Some(_) => self.sent(now),
            // One that was ready is to go otherwise, and nothing of it is exposed.
            None if self.requests.is_disordered() => return self.next_otherwise(now, buffer),
            None => {}
        }
        transmit
    }

    #[cold]
    fn next_otherwise(&mut self, now: u64, buffer: &mut [u8]) -> Option<Transmit> {
        let transmit = self.next_message(now, buffer);
        if transmit.is_some() {
            self.sent(now);
        }
        transmit
    }

    #[inline]
    fn sent(&mut self, now: u64) {
        self.counters.sent += 1;
        if self.link.role == Role::Client && self.link.negotiation == Negotiation::Unasked {
            self.negotiated(Turn::Sent);
            self.link.answer_by = Some(now.saturating_add(self.config.negotiation_timeout));
        }
    }

    #[inline(always)]
    fn next_message(&mut self, now: u64, buffer: &mut [u8]) -> Option<Transmit> {
        // What was begun is ended first: nothing goes between (rtrext-02, section 4.2).
        if self.extension.is_some() && self.continues() {
            return self.transmit_more(buffer);
        }
        self.admit();
        if !self.receives.are_enough(self.receives()) {
            return None;
        }
        self.transmit(now, buffer)
    }

    /// Whether no message waits, which most polls find.
    #[inline]
    fn is_quiet(&self) -> bool {
        let calls = self.requests.has_waiting() || self.requests.has_ready();
        let quiet = !calls && !self.serving.has_replies() && !self.has_properties() && self.refusals.is_empty();
        quiet && !self.extension.as_ref().is_some_and(|extension| extension.has_messages())
    }

    #[cold]
    fn continues(&self) -> bool {
        self.extension.as_ref().is_some_and(|extension| extension.continues())
    }

    /// Whether anything is to be told of properties, asked or answered.
    fn has_properties(&self) -> bool {
        !self.exchange.is_silent() || self.exchange.is_first(&self.link) || self.requests.has_question()
    }

    #[inline(always)]
    fn transmit(&mut self, now: u64, buffer: &mut [u8]) -> Option<Transmit> {
        if !self.refusals.is_empty() {
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
        if self.extension.is_some() && self.refuses_stranded() {
            return self.transmit_error(buffer);
        }
        let Self { config, link, requests, serving, out, peer_ready, extension, .. } = self;
        let parts = extension.as_deref_mut().map_or_else(Parts::default, Extension::parts);
        let Parts { calls, replies, keep, mut sending } = parts;
        let until = if keep == 0 { 0 } else { now.saturating_add(keep) };
        let terms = |version| Terms { groups: replies, ..link.replies(version) };
        let reply = serving.transmit(buffer, (until, sending.as_deref_mut()), terms);
        if reply.is_some() {
            link.answered = true;
            return reply;
        }
        if !requests.has_ready() {
            return None;
        }
        let ready = link.role == Role::Client || *peer_ready;
        match &link.calls(config, calls) {
            Some(link) if ready => requests.transmit(buffer, link, sending, out),
            // The peer has changed its mind.
            _ => {
                requests.withdraw(out);
                None
            }
        }
    }

    /// Ends the call of the next reply by an error, if that has no way any more.
    fn refuses_stranded(&mut self) -> bool {
        let Self { link, serving, extension, .. } = self;
        let groups = extension.as_deref().and_then(Extension::replies);
        let terms = |version| Terms { groups, ..link.replies(version) };
        let stranded = if serving.has_replies() { serving.stranded(terms) } else { None };
        stranded.is_some_and(|call| self.refuse_served(call))
    }

    #[cold]
    fn transmit_properties(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let Self { exchange, link, requests, serving, own_xid, .. } = self;
        let header = exchange.transmit(buffer, link, requests, serving, own_xid)?;
        link.answered = true;
        self.abilities_told();
        Some(Transmit { what: Sent::Header, header, inline: 0, invalidate: None, share: None })
    }

    #[cold]
    fn transmit_error(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let (refusal, error) = self.refusals.front()?;
        let header = refusal.answer(*error, self.serving.credits.next(1), buffer).ok()?;
        // An error of Version Two is an answer to the requester's first message as well, but for one about versions.
        let of_two = refusal.vers == Version::Two.number() && !matches!(error, PeerError::Versions { .. });
        self.link.answered |= of_two;
        self.refusals.pop_front();
        Some(Transmit { what: Sent::Header, header, inline: 0, invalidate: None, share: None })
    }

    /// Lets calls go that wait.
    #[inline(always)]
    fn admit(&mut self) {
        // A message without a reply needs two credits, which calls would never leave it: they wait for it.
        let one_way = self.exchange.has_one_way(&self.link);
        if self.stage == Stage::Up && (one_way || self.requests.has_waiting()) {
            self.admit_some(one_way);
        }
    }

    // spec: v2-5-b, bd-6-e
    #[inline(never)]
    fn admit_some(&mut self, one_way: bool) {
        // What tells our properties takes a credit of its own, before calls take them all.
        if self.exchange.is_first(&self.link) {
            return;
        }
        // Where no calls are taken, there may still be questions.
        let groups = self.extension.as_ref().and_then(|extension| extension.calls.as_ref());
        let calls = self.link.calls(&self.config, groups);
        let questions = if calls.is_none() { self.link.questions() } else { None };
        let Some(link) = calls.as_ref().or(questions.as_ref()) else { return };
        // Before the version is settled one message asks; a server's consumer waits for the peer's.
        let asks = self.link.version.is_none() && self.exchange.is_enabled();
        let unready = self.link.role == Role::Server && !self.peer_ready;
        let only = (asks || unready || one_way || calls.is_none()).then_some(Kind::Properties);
        self.requests.admit(link, only, &mut self.out);
        // If no reply is to come that brings credits back, one is asked for.
        let stuck = one_way && self.requests.credits.calls() == 0 && !self.requests.credits.can_spare();
        if stuck && !self.exchange.is_asking() {
            self.request_properties(None);
        }
    }

    /// Receives that are to be posted now, beside those that hold calls without a reply: for calls that were granted, for replies
    /// to messages that are under way (as many as ever were on this connection), and for what takes no credit.
    // spec: bd-4.3.1-a, bd-4.3.1-d, bd-4.3.2-a, bd-4.3.2-b, bd-4.3.2-c, bd-4.3.2-e, bd-6-b
    #[must_use]
    pub fn receives(&self) -> u32 {
        let replies = self.requests.receives();
        // An operation and a call may be under way where one message is granted, and each have an answer. An operation takes its
        // credit as it is sent, and has its receive before.
        let answers = if self.exchange.has_operations() { 2.max(replies.saturating_add(1)) } else { 1 };
        self.serving.receives().saturating_add(replies.max(answers))
    }
}
