//! What the transfers of the peer's calls and of their replies have of the peer's limits.

use rpcrdma_proto::connection::{CloseReason, ServedCallId};
use tracing::warn;

use super::{Connection, ConnectionAction};
use crate::driver::peer_limits::{HeldMemory, Transfer};
use crate::provider::Device;

/// Replies of more bytes than this count as memory of the peer until they have gone.
const COUNTED_REPLY: usize = 4096;

impl<D: Device> Connection<D> {
    /// Counts the memory of the reply to a call of the peer, in place of that of the call, before
    /// it is taken. If the peer has too much, the connection is closed, and false returned.
    pub(crate) fn hold_reply(&mut self, call: ServedCallId, bytes: usize) -> bool {
        // The slot of a call that has ended may be another's.
        if self.peer_limits.is_none() || self.session.call_length(call).is_none() {
            return true;
        }
        let place = self.session.served_slot(call);
        if let Some(incoming) = self.slots.incoming_entry(place) {
            incoming.held = None;
        }
        bytes <= COUNTED_REPLY || self.hold(call, bytes)
    }

    /// Counts memory of a call of the peer, or of its reply, whose transfer begins. If the peer has
    /// too much, the connection is closed, and false returned.
    pub(super) fn hold(&mut self, call: ServedCallId, bytes: usize) -> bool {
        let Some(limits) = &self.peer_limits else {
            return true;
        };
        if matches!(self.pending_action, Some(ConnectionAction::Close(_))) {
            return false;
        }
        let held = HeldMemory::new(limits, bytes, self.pool.is_scarce());
        if held.is_none() {
            warn!(peer = %self.peer, "a connection is closed: its peer has too much of the memory");
        }
        self.pending_action = Some(match held {
            Some(_) => ConnectionAction::TimeTransfers,
            None => ConnectionAction::Close(CloseReason::Lost),
        });
        let place = self.session.served_slot(call);
        self.slots.incoming_entry(place).is_some_and(|incoming| {
            incoming.held = held;
            incoming.held.is_some()
        })
    }

    /// Notes that a call of the peer has arrived.
    pub(super) fn transferred(&mut self, place: usize) {
        let held = self
            .slots
            .incoming_mut(place)
            .and_then(|incoming| incoming.held.as_mut());
        if let Some(held) = held {
            held.transfer = Transfer::Ended;
        }
    }

    /// Sets the deadlines of the transfers that have begun.
    pub(crate) fn time_transfers(&mut self, now: u64) {
        let time = self
            .peer_limits
            .as_ref()
            .and_then(|limits| limits.transfer_time());
        let micros = time.and_then(|time| u64::try_from(time.as_micros()).ok());
        let due = micros.map_or(Transfer::Ended, |time| {
            Transfer::Due(now.saturating_add(time))
        });
        for held in self.slots.held_memory() {
            if held.transfer == Transfer::Begun {
                held.transfer = due;
            }
        }
        if let Transfer::Due(due) = due {
            self.transfer_due = self.transfer_due.min(due);
        }
    }

    /// Returns true if a transfer has not ended in time.
    pub(crate) fn has_overdue_transfer(&mut self, now: u64) -> bool {
        if now < self.transfer_due {
            return false;
        }
        let dues = self
            .slots
            .held_memory()
            .filter_map(|held| match held.transfer {
                Transfer::Due(due) => Some(due),
                _ => None,
            });
        self.transfer_due = dues.min().unwrap_or(u64::MAX);
        let is_overdue = self.transfer_due <= now;
        if let Some(limits) = self.peer_limits.as_ref().filter(|_| is_overdue) {
            limits.timed_out();
            warn!(peer = %self.peer, "a connection is closed: a call or a reply took too long");
        }
        is_overdue
    }
}
