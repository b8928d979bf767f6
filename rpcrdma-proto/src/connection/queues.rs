//! What is to be polled.

use alloc::collections::VecDeque;

use super::output::{Action, Event};

/// Actions and events, in the order in which they came about.
///
/// Each call has at most one action waiting and two events, and a session a few more: so they are as bounded as calls are.
#[derive(Default, Debug)]
pub(super) struct Queues {
    pub(super) actions: VecDeque<Action>,
    events: VecDeque<Event>,
    /// Events that the peer can bring about at will.
    notices: usize,
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
            self.events.push_back(event);
        }
        room
    }

    #[inline]
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    #[inline]
    pub(super) fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        let notice = matches!(
            event,
            Event::PropertiesChanged | Event::PeerError { .. } | Event::Operation { .. } | Event::Broken { .. }
        );
        self.notices -= usize::from(notice);
        Some(event)
    }

    #[inline]
    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }
}
