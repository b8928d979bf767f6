//! The connection of a session: how it begins and ends, and its version.
//!
//! This module decides when a client connects and with which delay, and applies each transition of
//! `ConnState`. `crate::version` has the table of the negotiation, and `on_negotiation` takes its
//! actions. `connected` and `lost` must reset each part that belongs to one connection. `connected`
//! rejects a connection while a call or a reply holds memory of an earlier one (`is_settled`).

use super::{Session, SessionConnectError};
use crate::connection::config::Role;
use crate::connection::exchange::ChangeOutcome;
use crate::connection::output::{Action, CloseReason, Event};
use crate::connection::params::ConnectionParams;
use crate::connection::receives::Receives;
use crate::connection::states::{ConnState, StateChange};
use crate::error::PeerError;
use crate::private_data::PrivateData;
use crate::version::{Negotiation, NegotiationAction, NegotiationEvent, Version};

impl Session {
    /// Handles a new connection, whose peer sent this private data.
    ///
    /// # Errors
    /// The session has a connection or has ended, or a message holds memory of the last connection.
    // spec: v2-5-a
    pub fn connected(&mut self, now: u64, peer: PrivateData) -> Result<(), SessionConnectError> {
        if !self.is_settled() {
            return Err(SessionConnectError::Unsettled);
        }
        self.state = self
            .state
            .next(StateChange::Connected)
            .ok_or(SessionConnectError::State)?;
        self.counters.connections += 1;
        self.connected_at = now;
        let remembered =
            core::mem::take(&mut self.next_is_v1) || self.version_cache.is_remembered(now);
        self.params = ConnectionParams::new(&self.config, peer, remembered);
        self.receives = Receives::new(self.config.receive_size);
        self.requester.connected();
        self.exchange.connected();
        if let Some(extension) = &mut self.extension {
            extension.connected(self.config.receive_size);
        }
        match (self.params.version, self.config.role) {
            (Some(version), _) => self.on_settled(version),
            // The first message asks; where there are no properties, it is the first call (decision
            // D7).
            (None, Role::Client) if self.exchange.is_enabled() => self.request_properties(None),
            (None, _) => {}
        }
        Ok(())
    }

    /// Handles the loss of the connection, or a failed attempt to connect. Every Send is released,
    /// or will be.
    ///
    /// `why` is the reason that the transport has, for a connection that was not being closed.
    pub fn lost(&mut self, now: u64, why: CloseReason) {
        if !matches!(
            self.state,
            ConnState::Connecting | ConnState::Up | ConnState::Closing
        ) {
            return;
        }
        if self.on_negotiation(NegotiationEvent::Lost) == NegotiationAction::Remember {
            self.remember_version_one(now);
        }
        // A short connection without any progress counts as a failed attempt.
        let was_up = matches!(self.state, ConnState::Up | ConnState::Closing);
        let lasted = now.saturating_sub(self.connected_at) >= self.config.max_reconnect_delay;
        if was_up && (lasted || self.requester.credits.has_reply()) {
            self.reconnect_delay = self.config.reconnect_delay;
        }
        let why = self.closing.take().unwrap_or(why);
        self.state = self.state.next(StateChange::Lost).unwrap_or(self.state);
        self.output.lost();
        self.peer_ready = false;
        self.receives = Receives::new(self.config.receive_size);
        self.pending_errors.clear();
        self.params = ConnectionParams::new(&self.config, PrivateData::DEFAULT, false);
        for ChangeOutcome { requested, value } in self.exchange.lost() {
            self.output
                .push_event(Event::PropertyAnswered { requested, value });
        }
        self.groups_lost();
        self.requester.lost(now, why, &mut self.output);
        self.responder.lost(&mut self.output);
        if why.is_final() {
            return self.end_connection(why);
        }
        self.output.push_event(Event::Closed {
            reason: why,
            is_final: false,
        });
        self.reconnect_at = now.saturating_add(self.reconnect_delay);
        self.reconnect_delay = self
            .reconnect_delay
            .saturating_mul(2)
            .min(self.config.max_reconnect_delay);
        self.close_if_drained();
        self.request_connection(now);
    }

    /// Remembers that the peer does not support Version Two: for a while, and at least for the next
    /// connection, since otherwise no connection might ever be usable.
    // spec: v2-5.2-d, v2-5.2-e
    fn remember_version_one(&mut self, now: u64) {
        self.version_cache
            .remember(now, self.config.version_cache_ttl);
        self.next_is_v1 = true;
    }

    /// Advances the time.
    pub fn timeout(&mut self, now: u64) {
        self.requester.expire(now, &mut self.output);
        self.responder.drop_retained(now, &mut self.output);
        if self.params.negotiation_deadline.is_some_and(|by| by <= now) {
            self.params.negotiation_deadline = None;
            self.close(CloseReason::NegotiationTimeout);
        }
        // A responder need not answer each call. A new connection returns the credits of unanswered
        // calls.
        if self.may_stall()
            && self
                .requester
                .has_stalled(now, self.config.unresponsive_timeout)
        {
            self.close(CloseReason::Unresponsive);
        }
        self.request_connection(now);
        self.close_if_drained();
    }

    /// Closes the connection for a local reason, or ends a session without a connection.
    pub(super) fn close(&mut self, why: CloseReason) {
        match self.state {
            ConnState::Closed => {}
            ConnState::Closing => {
                // The end of the session takes precedence over the end of a connection. The first
                // final reason stays: a session that was aborted is also drained.
                let before = self.closing.filter(|before| before.is_final());
                let now = Some(why).filter(|why| why.is_final());
                self.closing = before.or(now).or(self.closing);
            }
            ConnState::Down => self.end_connection(why),
            ConnState::Connecting | ConnState::Up => {
                self.state = self.state.next(StateChange::Close).unwrap_or(self.state);
                self.closing = Some(why);
                self.output.push_action(Action::Close { reason: why });
            }
        }
    }

    /// Records that no other connection follows.
    pub(super) fn end_connection(&mut self, why: CloseReason) {
        self.state = self.state.next(StateChange::Ended).unwrap_or(self.state);
        self.ended = Some(why);
        self.requester.fail_all(why, &mut self.output);
        self.output.push_event(Event::Closed {
            reason: why,
            is_final: true,
        });
    }

    /// Requests a connection if one is needed.
    // spec: bd-2-f, bd-2.2-b
    pub(super) fn request_connection(&mut self, now: u64) {
        if now >= self.reconnect_at && self.wants_connection() {
            self.state = self.state.next(StateChange::Connect).unwrap_or(self.state);
            self.output.push_action(Action::Connect);
        }
    }

    /// Returns whether a connection is needed and possible. Calls that began before a drain still
    /// need one.
    pub(super) fn wants_connection(&self) -> bool {
        let wanted = self.requester.has_waiting() || (self.keep_connected && !self.draining);
        self.state == ConnState::Down
            && self.config.role == Role::Client
            && wanted
            && self.is_settled()
    }

    /// Returns whether no message holds memory of a lost connection.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.requester.is_settled() && self.responder.is_empty()
    }

    /// Records a message of the peer in this version.
    // spec: v2-5.3-a
    #[inline]
    pub(super) fn on_version_evidence(&mut self, version: Version) {
        if self.params.version.is_none() {
            self.on_first_version(version);
        }
    }

    #[cold]
    pub(super) fn on_first_version(&mut self, version: Version) {
        match self.config.role {
            Role::Client if version == Version::Two => {
                self.on_negotiation(NegotiationEvent::Answered);
            }
            Role::Client => {}
            Role::Server => self.on_settled(version),
        }
    }

    /// Applies a version error that answers our message. Returns whether the message must be
    /// retransmitted.
    // spec: v2-5.2-c, v2-5.2-d
    pub(super) fn decides_version(&mut self, version: Version, error: PeerError) -> bool {
        let event = match (error, version) {
            // It refuses the version that it has offered.
            (PeerError::Versions { .. }, _) if self.params.negotiation == Negotiation::Rejected => {
                NegotiationEvent::NoCommonVersion
            }
            (PeerError::Versions { low, high }, _) => NegotiationEvent::from_range(low, high),
            (_, Version::Two) => NegotiationEvent::UnknownOperation,
            // It could not read the message, and says so in the only version that it has.
            (_, Version::One) => NegotiationEvent::VersionOneOnly,
        };
        self.on_negotiation(event) == NegotiationAction::SendAgain
    }

    /// Handles an event of the version negotiation, and returns the action of the table. Only
    /// `Close` is taken here: the callers have what the others need.
    pub(super) fn on_negotiation(&mut self, event: NegotiationEvent) -> NegotiationAction {
        let (next, action) = self.params.negotiation.next(event);
        let settles = !self.params.negotiation.is_settled() && next.is_settled();
        self.params.negotiation = next;
        if settles && let Some(version) = next.version() {
            self.on_settled(version);
        }
        if action == NegotiationAction::Close {
            self.close(CloseReason::NoVersion);
        }
        action
    }

    /// The version of the connection is known.
    // spec: v2-5.1-b, v2-5.2-f
    fn on_settled(&mut self, version: Version) {
        self.params.version = Some(version);
        self.params.negotiation_deadline = None;
        self.output.push_event(Event::Ready { version });
    }
}
