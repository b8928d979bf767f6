//! Detection of a peer that answers none of the calls that hold all credits.
//!
//! In a stall a message waits for a credit, and each sent call is an orphan or a property request.
//! A call that the consumer waits for prevents a stall. The session closes a stalled connection
//! after `Config::unresponsive_timeout`. `admit` and `mark_lacking_credits` set `lacked_credits`,
//! and each admission clears it first.

use super::request::Request;
use super::{NO_DEADLINE, RequestKind, Requester};
use crate::connection::states::RequestState;

impl Requester {
    /// Records that a one-way message waits for credits. Calls wait behind it.
    pub(in crate::connection) fn mark_lacking_credits(&mut self) {
        self.lacked_credits = true;
    }

    /// Returns whether a message lacks credits, and orphans hold all of them.
    #[inline]
    fn is_stalled(&self) -> bool {
        (self.lacked_credits || self.is_held_back()) && self.all_credits_orphaned()
    }

    /// Returns whether the next ready call must not be sent, since the grant has fallen below the
    /// credits that the call took.
    #[inline]
    pub(in crate::connection) fn is_held_back(&self) -> bool {
        self.ready
            .front()
            .and_then(|xid| self.calls.get(xid))
            .is_some_and(|next| !Self::may_send(&self.credits, self.unsent, next.messages()))
    }

    /// Returns whether no reply that a consumer waits for can return a credit.
    #[cold]
    fn all_credits_orphaned(&self) -> bool {
        let holders = usize::from(self.orphans).saturating_add(self.property_requests());
        let is_held_back = self.is_held_back();
        let is_awaited = |request: &Request| {
            request.credit.is_some()
                && request.kind == RequestKind::Rpc
                && request.state != RequestState::Orphaned
                // The peer does not know a call that was not sent.
                && !(is_held_back && request.state == RequestState::Ready)
        };
        let calls = self.credits.calls();
        // For most connections the counts suffice.
        calls > 0
            && (is_held_back || calls as usize <= holders)
            && self.calls.find_from(0, is_awaited).is_none()
    }

    /// Returns the time at which [`has_stalled`](Self::has_stalled) must be called: `after` the
    /// start of the stall, or zero if the start is not recorded yet.
    pub(in crate::connection) fn stalled_until(&self, after: u64) -> u64 {
        match self.stalled_since {
            _ if after == NO_DEADLINE || !self.is_stalled() => NO_DEADLINE,
            Some(since) => since.saturating_add(after),
            None => 0,
        }
    }

    /// Records whether calls are stalled. Returns whether the stall has lasted as long as `after`.
    pub(in crate::connection) fn has_stalled(&mut self, now: u64, after: u64) -> bool {
        if after == NO_DEADLINE || !self.is_stalled() {
            self.stalled_since = None;
            return false;
        }
        let since = *self.stalled_since.get_or_insert(now);
        since.saturating_add(after) <= now
    }
}
