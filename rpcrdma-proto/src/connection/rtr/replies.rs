//! The responder's part of rtrext-02: calls that arrived in transmissions, and their replies.
//!
//! This module holds the records; `responder::grouped` decides. A record has the slot and the key
//! of its call in the slab of the responder. `Responder::vacate` must remove the record with the
//! call, because `xids` would keep the entry of the slot.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::connection::xid_table::XidTable;
use crate::transfer::GroupReplyPlan;

/// The state of a call that arrived in transmissions.
#[derive(Debug)]
pub(in crate::connection) struct GroupedCall {
    /// The number of transmissions in which it arrived.
    pub(in crate::connection) parts: u32,
    /// The number of receives reserved for its reply.
    pub(in crate::connection) reserve: u32,
    /// The plan of a reply that is sent in transmissions as well.
    pub(in crate::connection) reply: Option<GroupReplyPlan>,
    /// Whether its reply is retained after its Send.
    pub(in crate::connection) retains_reply: bool,
    /// Whether its reply was retransmitted, without rtrext-02.
    pub(in crate::connection) retransmitted: bool,
}

/// The state of a responder that serves calls in transmissions.
#[derive(Debug)]
pub(in crate::connection) struct GroupReplies {
    /// The calls that arrived in transmissions, by slot, each with its key.
    calls: Vec<Option<(u32, GroupedCall)>>,
    /// The keys of calls whose replies were sent in transmissions, by XID: the peer may report an
    /// error in them.
    pub(in crate::connection) xids: XidTable,
    /// Retained replies, and until when. A reply that is retransmitted may still have an entry, but
    /// not at the front.
    pub(in crate::connection) retained: VecDeque<(u32, u64)>,
    /// The number of calls of which only a retained reply is left.
    pub(in crate::connection) only_retained: usize,
}

impl GroupReplies {
    pub(in crate::connection) fn new(hash_seed: u64) -> Self {
        Self {
            calls: Vec::new(),
            xids: XidTable::new(hash_seed),
            retained: VecDeque::new(),
            only_retained: 0,
        }
    }

    /// Adds a call.
    pub(in crate::connection) fn insert(&mut self, slot: usize, key: u32, call: GroupedCall) {
        if self.calls.len() <= slot {
            self.calls.resize_with(slot + 1, || None);
        }
        if let Some(place) = self.calls.get_mut(slot) {
            *place = Some((key, call));
        }
    }

    /// Returns the state of a call; `None` if it did not arrive in transmissions.
    pub(in crate::connection) fn get(&self, slot: usize, key: u32) -> Option<&GroupedCall> {
        let (its_key, call) = self.calls.get(slot)?.as_ref()?;
        (*its_key == key).then_some(call)
    }

    pub(in crate::connection) fn get_mut(
        &mut self,
        slot: usize,
        key: u32,
    ) -> Option<&mut GroupedCall> {
        let (its_key, call) = self.calls.get_mut(slot)?.as_mut()?;
        (*its_key == key).then_some(call)
    }

    /// Removes a call. Its key may be that of another call later.
    pub(in crate::connection) fn remove(&mut self, slot: usize, key: u32) {
        if let Some(place) = self.calls.get_mut(slot)
            && place.as_ref().is_some_and(|(its_key, _)| *its_key == key)
        {
            *place = None;
            self.xids.remove(slot, key);
        }
    }
}
