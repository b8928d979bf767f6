//! What a responder keeps of calls in transmissions of rtrext-02, and of their replies.

use alloc::collections::VecDeque;

use crate::connection::xid_table::XidTable;
use crate::transfer::GroupReplyPlan;

/// What a call in transmissions has, and no other call.
#[derive(Debug)]
pub(in crate::connection) struct GroupedCall {
    /// The number of transmissions in which it arrived.
    pub(in crate::connection) parts: u32,
    /// The number of receives reserved for its reply.
    pub(in crate::connection) reserve: u32,
    /// The plan of a reply that goes in transmissions as well.
    pub(in crate::connection) reply: Option<GroupReplyPlan>,
    /// Whether its reply is retained after its Send.
    pub(in crate::connection) retains_reply: bool,
    /// Whether its reply was retransmitted, without rtrext-02.
    pub(in crate::connection) retransmitted: bool,
}

/// The replies in transmissions, of which the peer may report an error.
#[derive(Debug)]
pub(in crate::connection) struct GroupReplies {
    /// By the XIDs of their calls.
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
            xids: XidTable::new(hash_seed),
            retained: VecDeque::new(),
            only_retained: 0,
        }
    }
}
