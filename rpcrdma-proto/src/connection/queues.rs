//! The queues of actions and events.
//!
//! `push_notice` bounds the events that the peer can cause at will, and drops the excess. An event
//! of such a kind must be queued by `push_notice` alone, and `next_other` must list the kind,
//! because both change the count `notices`. `others` has an event for each `CompactEvent::Other`,
//! in the same order. The loss of the connection removes no action but `Close`.

use alloc::collections::VecDeque;
use core::ops::Range;

use super::output::{Action, BufferId, CallLocation, Event, ReplyLocation, ServedCallId};

/// Actions and events in the order in which they were caused.
///
/// Each call has at most one action and two events queued, and a session a few more: the queues are
/// bounded by the number of calls.
#[derive(Default, Debug)]
pub(super) struct OutputQueues {
    pub(super) actions: VecDeque<Action>,
    events: VecDeque<CompactEvent>,
    /// The events for [`CompactEvent::Other`], in the same order.
    others: VecDeque<Event>,
    /// The number of queued events that the peer can cause at will.
    notices: usize,
}

/// The events of most calls, whose messages are in receive buffers. The compact form has no
/// destructor and is written in place: an [`Event`] would be built elsewhere and moved.
///
/// With a queue of [`Event`]s, an RPC with 15 others in flight takes 5 % more time (the lowest of
/// 30 runs in turns of `rpcrdma-benches count transport/v2-16 1000000`: 414 to 394 ns).
#[derive(Clone, Copy, Debug)]
enum CompactEvent {
    Call {
        call: ServedCallId,
        xid: u32,
        buffer: BufferId,
        bytes: (u32, u32),
    },
    Reply {
        xid: u32,
        buffer: BufferId,
        bytes: (u32, u32),
    },
    Other,
}

/// The maximum number of queued events that the peer can cause at will.
const MAX_NOTICES: usize = 8;

impl OutputQueues {
    #[inline]
    pub(super) fn push_action(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Handles the loss of the connection: it need not be closed any more.
    pub(super) fn lost(&mut self) {
        self.actions
            .retain(|action| !matches!(action, Action::Close { .. }));
    }

    /// Queues an event that the peer can cause at will. Returns false if too many such events are
    /// queued.
    pub(super) fn push_notice(&mut self, event: Event) -> bool {
        let room = self.notices < MAX_NOTICES;
        if room {
            self.notices += 1;
            self.push_event(event);
        }
        room
    }

    #[inline]
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    #[inline]
    pub(super) fn next_event(&mut self) -> Option<Event> {
        match self.events.pop_front()? {
            CompactEvent::Call {
                call,
                xid,
                buffer,
                bytes: (from, to),
            } => Some(Event::CallArrived {
                call,
                xid,
                message: CallLocation::Inline {
                    buffer,
                    range: from..to,
                },
            }),
            CompactEvent::Reply {
                xid,
                buffer,
                bytes: (from, to),
            } => Some(Event::ReplyArrived {
                xid,
                reply: ReplyLocation::inline(buffer, from..to),
            }),
            CompactEvent::Other => self.next_other(),
        }
    }

    fn next_other(&mut self) -> Option<Event> {
        let event = self.others.pop_front()?;
        let notice = matches!(
            event,
            Event::PropertiesChanged
                | Event::PeerError { .. }
                | Event::Operation { .. }
                | Event::GroupFailed { .. }
        );
        self.notices -= usize::from(notice);
        Some(event)
    }

    pub(super) fn push_event(&mut self, event: Event) {
        self.events.push_back(CompactEvent::Other);
        self.others.push_back(event);
    }

    /// Queues the arrival of a call in this range of a receive buffer.
    #[inline]
    pub(super) fn push_call(
        &mut self,
        call: ServedCallId,
        xid: u32,
        buffer: BufferId,
        bytes: &Range<u32>,
    ) {
        self.events.push_back(CompactEvent::Call {
            call,
            xid,
            buffer,
            bytes: (bytes.start, bytes.end),
        });
    }

    /// Queues the arrival of a reply in this range of a receive buffer.
    #[inline]
    pub(super) fn push_reply(&mut self, xid: u32, buffer: BufferId, bytes: &Range<u32>) {
        self.events.push_back(CompactEvent::Reply {
            xid,
            buffer,
            bytes: (bytes.start, bytes.end),
        });
    }
}
