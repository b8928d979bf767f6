//! The session's part of rtrext-02: the capabilities and groups of the current connection.

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
    /// The structure of our receive buffers.
    pub(in crate::connection) local_structure: BufferStructure,
    /// The operations that the peer has rejected as unknown.
    unsupported: OperationSet,
    /// The limits of the peer on our calls, and on our replies.
    pub(in crate::connection) calls: Option<GroupLimits>,
    replies: Option<(BufferStructure, u32)>,
    pub(in crate::connection) reassembly: Reassembly,
    pub(in crate::connection) sending: Option<Box<GroupSender>>,
    pub(in crate::connection) reports: VecDeque<(GroupErrorReport, MsgType)>,
}

/// The parts that sending needs; empty if the extension is disabled.
#[derive(Default)]
pub(in crate::connection) struct ExtensionParts<'a> {
    /// The limits of the peer on our calls, and on our replies.
    pub(in crate::connection) calls: Option<&'a GroupLimits>,
    pub(in crate::connection) replies: Option<(&'a BufferStructure, u32)>,
    /// The retention time of a reply in microseconds.
    pub(in crate::connection) reply_retention: u64,
    /// The message that is being sent.
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

    /// Resets the state for a new connection.
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

    /// Returns the operations that the peer is known to take, or that are probed.
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

    /// Records operations that the peer does not know.
    pub(in crate::connection) fn mark_unsupported(&mut self, operations: OperationSet) {
        self.unsupported = self.unsupported.union(operations);
    }

    /// Applies the capabilities of the peer, and the maximum sizes of messages to it and from it.
    // spec: rtr-5.2-a, rtr-5.2-b, rtr-5.2-g, rtr-5.3-a, rtr-5.3-b, rtr-5.3-c, rtr-5.3-f, rtr-5.3-j
    // spec: rtr-8.4-b
    // spec: rtr-8.5-a, rtr-9.4-c
    pub(in crate::connection) fn on_capabilities(
        &mut self,
        peer: &RtrCapabilities,
        to_peer: u32,
        to_us: u32,
    ) {
        let (settings, peer_operations) = (self.settings, self.operations(peer));
        let structure = |advertised: Option<BufferStructure>, limit: u32| match advertised {
            Some(structure) if structure.length() <= limit => structure,
            _ => BufferStructure::plain(limit),
        };
        let (to_peer, to_us) = (
            structure(peer.structure, to_peer),
            structure(settings.structure, to_us),
        );
        let both = |these| peer_operations.contains(these) && settings.operations.contains(these);
        let continues = |limit: u32, mine: bool, peer_operations: bool| {
            if mine && peer_operations {
                limit
            } else {
                limit.min(1)
            }
        };
        let (mine, more) = (
            settings.operations.contains(OperationSet::CONTINUATIONS),
            peer_operations.contains(OperationSet::CONTINUATIONS),
        );
        let responses = if both(OperationSet::RESPONSES) {
            peer.response_limit.min(settings.reply_receives)
        } else {
            0
        };
        self.calls = peer_operations
            .contains(OperationSet::REQUESTS)
            .then_some(GroupLimits {
                responder_structure: to_peer,
                requester_structure: to_us,
                max_request_transmissions: continues(peer.request_limit, true, more),
                max_reply_transmissions: continues(responses, mine, true),
                min_placed_len: settings.min_placed_len,
                preference: settings.preference,
                placement: settings.placement,
            });
        let limit = continues(settings.response_limit, true, more);
        self.replies = peer_operations
            .contains(OperationSet::RESPONSES)
            .then_some((to_peer, limit));
    }

    /// Returns the structure of the requester's receive buffers, and the maximum number of
    /// transmissions of a reply.
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

    /// Queues a report, from requester to responder or back.
    // spec: rtr-5.4-h
    pub(in crate::connection) fn report(&mut self, report: GroupErrorReport) {
        if self.reports.len() < MAX_REPORTS {
            // The report comes from the receiver of the bad transmission.
            let direction = match report.bad.direction {
                MsgType::Call => MsgType::Reply,
                MsgType::Reply => MsgType::Call,
            };
            self.reports.push_back((report, direction));
        }
    }

    /// Returns whether a message must be continued before any other.
    pub(in crate::connection) fn continues(&self) -> bool {
        self.sending
            .as_ref()
            .is_some_and(|sending| !sending.is_complete())
    }

    /// Returns whether a message is queued.
    pub(in crate::connection) fn has_messages(&self) -> bool {
        self.continues() || !self.reports.is_empty()
    }

    /// Returns the group that waits for its next transmission.
    pub(in crate::connection) fn waiting_for(&self) -> Option<TransmissionId> {
        self.reassembly.waiting_for()
    }
}
