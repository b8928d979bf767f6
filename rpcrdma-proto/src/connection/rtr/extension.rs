//! The state of rtrext-02 on the current connection: what the peer supports, the group being sent,
//! the groups being received, and the error reports to be sent.
//!
//! rtrext-02 is the draft that lets one message be sent in a group of transmissions. The session
//! owns the state: `session/connecting` resets it, `session/groups` gives it the peer's
//! capabilities and incoming groups, and `session/outgoing` sends what it holds. An incomplete
//! group is continued before any other message ([`RtrExtension::continues`]).

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::group_sender::GroupSender;
use super::reassembly::Reassembly;
use crate::continuation::{
    GroupErrorReport, OperationSet, RtrCapabilities, RtrExtConfig, TransmissionId,
};
use crate::placement::BufferStructure;
use crate::transfer::GroupLimits;
use crate::v2::MsgType;

/// The maximum number of queued reports. Further reports are dropped.
const MAX_REPORTS: usize = 8;

/// The state of rtrext-02 on the current connection.
// spec: rtr-1.4-d
#[derive(Debug)]
pub(in crate::connection) struct RtrExtension {
    pub(in crate::connection) settings: RtrExtConfig,
    /// The structure of our receive buffers. `on_capabilities` does not change it: a configured
    /// structure has the receive size (`Config::check_rtr`), and a plain buffer places no data.
    pub(in crate::connection) local_structure: BufferStructure,
    /// The operations that the peer has rejected as unknown.
    unsupported: OperationSet,
    /// The limits of our calls and of the replies to them; `None` if the peer takes no calls
    /// in groups.
    pub(in crate::connection) calls: Option<GroupLimits>,
    /// The structure of the peer's receive buffers, and the maximum number of transmissions of our
    /// replies; `None` if the peer takes no replies in groups.
    replies: Option<(BufferStructure, u32)>,
    pub(in crate::connection) reassembly: Reassembly,
    /// The group being sent.
    pub(in crate::connection) sending: Option<Box<GroupSender>>,
    /// Reports to be sent, with their directions. Only [`Self::report`] adds to them.
    pub(in crate::connection) reports: VecDeque<(GroupErrorReport, MsgType)>,
}

/// The parts that sending needs; empty if the extension is disabled.
#[derive(Default)]
pub(in crate::connection) struct ExtensionParts<'a> {
    /// See [`RtrExtension::calls`].
    pub(in crate::connection) calls: Option<&'a GroupLimits>,
    /// See [`RtrExtension::replies`].
    pub(in crate::connection) replies: Option<(&'a BufferStructure, u32)>,
    /// The retention time of a reply in microseconds.
    pub(in crate::connection) reply_retention: u64,
    /// The place for the group being sent; `None` if the extension is disabled.
    pub(in crate::connection) sending: Option<&'a mut Option<Box<GroupSender>>>,
}

impl RtrExtension {
    pub(in crate::connection) fn new(settings: RtrExtConfig, receive_size: u32) -> Self {
        Self {
            settings,
            local_structure: settings
                .structure
                .unwrap_or(BufferStructure::plain(receive_size)),
            unsupported: OperationSet::NONE,
            calls: None,
            replies: None,
            reassembly: Reassembly::default(),
            sending: None,
            reports: VecDeque::new(),
        }
    }

    /// Resets the state for a new connection. The session has emptied `reassembly` when it lost the
    /// connection before; it is kept for its allocated memory, as is the queue of reports.
    pub(in crate::connection) fn connected(&mut self, receive_size: u32) {
        let (reassembly, reports) = (
            core::mem::take(&mut self.reassembly),
            core::mem::take(&mut self.reports),
        );
        *self = Self {
            reassembly,
            reports,
            ..Self::new(self.settings, receive_size)
        };
        self.reports.clear();
    }

    /// Returns the operations that the peer supports: those that it has announced, or all if it has
    /// announced none and we probe, without those that it has rejected.
    // spec: rtr-5.1-b, rtr-5.1-c
    fn operations(&self, peer: &RtrCapabilities) -> OperationSet {
        let tried = if self.settings.probe {
            OperationSet::ALL
        } else {
            OperationSet::NONE
        };
        peer.operations
            .unwrap_or(tried)
            .difference(self.unsupported)
    }

    /// Records operations that the peer does not know. The caller must then call
    /// [`Self::on_capabilities`], which applies the change.
    pub(in crate::connection) fn mark_unsupported(&mut self, operations: OperationSet) {
        self.unsupported = self.unsupported.union(operations);
    }

    /// Applies the capabilities of the peer, and the maximum bytes of one Send to it and from it.
    // spec: rtr-5.2-a, rtr-5.2-b, rtr-5.2-g, rtr-5.3-a, rtr-5.3-b, rtr-5.3-c, rtr-5.3-f, rtr-5.3-j
    // spec: rtr-8.4-b
    // spec: rtr-8.5-a, rtr-9.4-c
    pub(in crate::connection) fn on_capabilities(
        &mut self,
        peer: &RtrCapabilities,
        max_send: u32,
        max_receive: u32,
    ) {
        let (settings, peer_operations) = (self.settings, self.operations(peer));
        let structure = |advertised: Option<BufferStructure>, limit: u32| match advertised {
            Some(structure) if structure.length() <= limit => structure,
            _ => BufferStructure::plain(limit),
        };
        let (to_peer, to_us) = (
            structure(peer.structure, max_send),
            structure(settings.structure, max_receive),
        );
        // A receiver without continuations takes one transmission of a message.
        let transmissions = |limit: u32, receiver: OperationSet| {
            if receiver.contains(OperationSet::CONTINUATIONS) {
                limit
            } else {
                limit.min(1)
            }
        };
        let has_responses = peer_operations.contains(OperationSet::RESPONSES);
        let reply_limit = if has_responses && settings.operations.contains(OperationSet::RESPONSES)
        {
            peer.response_limit.min(settings.reply_receives)
        } else {
            0
        };
        self.calls = peer_operations
            .contains(OperationSet::REQUESTS)
            .then_some(GroupLimits {
                responder_structure: to_peer,
                requester_structure: to_us,
                max_request_transmissions: transmissions(peer.request_limit, peer_operations),
                max_reply_transmissions: transmissions(reply_limit, settings.operations),
                min_placed_len: settings.min_placed_len,
                preference: settings.preference,
                placement: settings.placement,
            });
        let limit = transmissions(settings.response_limit, peer_operations);
        self.replies = has_responses.then_some((to_peer, limit));
    }

    /// Returns the structure of the peer's receive buffers, and the maximum number of transmissions
    /// of our replies.
    pub(in crate::connection) fn replies(&self) -> Option<(&BufferStructure, u32)> {
        self.replies
            .as_ref()
            .map(|(structure, limit)| (structure, *limit))
    }

    /// Returns the parts that sending needs.
    pub(in crate::connection) fn parts(&mut self) -> ExtensionParts<'_> {
        ExtensionParts {
            calls: self.calls.as_ref(),
            replies: self
                .replies
                .as_ref()
                .map(|(structure, limit)| (structure, *limit)),
            reply_retention: self.settings.reply_retention,
            sending: Some(&mut self.sending),
        }
    }

    /// Queues a report of a bad transmission, unless too many are queued.
    // spec: rtr-5.4-h
    pub(in crate::connection) fn report(&mut self, report: GroupErrorReport) {
        if self.reports.len() < MAX_REPORTS {
            // The receiver of the bad transmission reports it to the sender.
            let direction = match report.bad.direction {
                MsgType::Call => MsgType::Reply,
                MsgType::Reply => MsgType::Call,
            };
            self.reports.push_back((report, direction));
        }
    }

    /// Returns whether the group being sent is incomplete: it must be continued before any other
    /// message is sent.
    pub(in crate::connection) fn continues(&self) -> bool {
        self.sending
            .as_ref()
            .is_some_and(|sending| !sending.is_complete())
    }

    /// Returns whether a transmission of a group, or a report, is to be sent.
    pub(in crate::connection) fn has_messages(&self) -> bool {
        self.continues() || !self.reports.is_empty()
    }

    /// Returns the XID and the direction of the incomplete incoming group, if there is one.
    pub(in crate::connection) fn waiting_for(&self) -> Option<TransmissionId> {
        self.reassembly.waiting_for()
    }
}
