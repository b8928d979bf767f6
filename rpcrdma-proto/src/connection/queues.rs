//! What is to be polled.

use alloc::collections::VecDeque;
use core::ops::Range;

use super::output::{Action, Buffer, Event, Message, Reply, Served};

/// Actions and events, in the order in which they came about.
///
/// Each call has at most one action waiting and two events, and a session a few more: so they are as bounded as calls are.
#[derive(Default, Debug)]
pub(super) struct Queues {
    pub(super) actions: VecDeque<Action>,
    events: VecDeque<Plain>,
    /// What is to be told in place of [`Plain::Other`], in the same order.
    others: VecDeque<Event>,
    /// Events that the peer can bring about at will.
    notices: usize,
}

/// The events of most calls, which are in receive buffers. They are kept in a form that has nothing to be dropped, and so is
/// written where it is kept: an [`Event`] would be made elsewhere and moved there, which takes longer than all else of it.
#[derive(Clone, Copy, Debug)]
enum Plain {
    Call { call: Served, xid: u32, buffer: Buffer, octets: (u32, u32) },
    Reply { xid: u32, buffer: Buffer, octets: (u32, u32) },
    Other,
}

/// How many of those may wait.
const NOTICES: usize = 8;

impl Queues {
    #[inline]
    pub(super) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// The connection is gone: nobody is to close it any more, and least of all the next one.
    pub(super) fn lost(&mut self) {
        self.actions.retain(|action| !matches!(action, Action::Close { .. }));
    }

    /// An event that the peer can bring about at will; false if too many wait already.
    pub(super) fn notify(&mut self, event: Event) -> bool {
        let room = self.notices < NOTICES;
        if room {
            self.notices += 1;
            self.tell(event);
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
            Plain::Call { call, xid, buffer, octets: (from, to) } => {
                Some(Event::CallArrived { call, xid, message: Message::Inline { buffer, octets: from..to } })
            }
            Plain::Reply { xid, buffer, octets: (from, to) } => {
                Some(Event::ReplyArrived { xid, reply: Reply::inline(buffer, from..to) })
            }
            Plain::Other => self.next_other(),
        }
    }

    fn next_other(&mut self) -> Option<Event> {
        let event = self.others.pop_front()?;
        let notice = matches!(
            event,
            Event::PropertiesChanged | Event::PeerError { .. } | Event::Operation { .. } | Event::Broken { .. }
        );
        self.notices -= usize::from(notice);
        Some(event)
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(Plain::Other);
        self.others.push_back(event);
    }

    /// A call is here, in these octets of a receive buffer.
    #[inline]
    pub(super) fn tell_call(&mut self, call: Served, xid: u32, buffer: Buffer, octets: &Range<u32>) {
        self.events.push_back(Plain::Call { call, xid, buffer, octets: (octets.start, octets.end) });
    }

    /// A reply is here, in these octets of a receive buffer.
    #[inline]
    pub(super) fn tell_reply(&mut self, xid: u32, buffer: Buffer, octets: &Range<u32>) {
        self.events.push_back(Plain::Reply { xid, buffer, octets: (octets.start, octets.end) });
    }
}
