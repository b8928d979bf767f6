//! Ends of calls: outcomes, timeouts, lost connections, and the release of memory.
//!
//! `end` records an outcome and returns the credit of a call that was not sent. `settle` reports
//! the outcome, or requeues the call, only when neither a Send nor the peer holds memory of the
//! call: the consumer reuses the memory at the event. A call that still has its credit stays as an
//! orphan, because only its reply returns the credit.

use super::calls::outstanding;
use super::queue::Rank;
use super::request::{CallOutcome, Request};
use super::{RequestKind, Requester, in_state};
use crate::connection::output::{Action, CallFailure, CloseReason, Event};
use crate::connection::queues::OutputQueues;
use crate::connection::states::{RequestEvent, RequestState};

impl Requester {
    /// Cancels a call.
    pub(in crate::connection) fn cancel(&mut self, xid: u32, out: &mut OutputQueues) -> bool {
        self.fail(xid, CallFailure::Cancelled, out)
    }

    /// Ends a call that the consumer still waits for. Returns false if it does not.
    fn fail(&mut self, xid: u32, why: CallFailure, out: &mut OutputQueues) -> bool {
        let open = outstanding(&self.calls)(xid);
        if open {
            self.end(xid, CallOutcome::Failed(why), out);
        }
        open
    }

    /// Ends the calls whose deadline has passed, and those that wait for a connection and may not
    /// be transmitted again any more.
    pub(in crate::connection) fn expire(&mut self, now: u64, out: &mut OutputQueues) {
        while let Some(xid) = self.deadlines.pop_due(now) {
            let why = match self.calls.get(xid) {
                Some(request) if request.deadline <= now => CallFailure::TimedOut,
                Some(request) if request.is_too_late(now) && request.is_to_be_transmitted() => {
                    self.resend_expired()
                }
                _ => continue,
            };
            self.fail(xid, why, out);
        }
        // The next time must not be that of a call that has ended.
        self.deadlines.skip_ended(outstanding(&self.calls));
    }

    /// Handles the loss of the connection: no reply will arrive. Unanswered calls wait for the next
    /// connection, the oldest first. Those that may not be transmitted again fail.
    // spec: bd-4.3.1-c, bd-4.3.2-d, bd-5.4-a
    pub(in crate::connection) fn lost(
        &mut self,
        now: u64,
        why: CloseReason,
        out: &mut OutputQueues,
    ) {
        self.lost = why;
        let mut from = 0;
        while let Some((xid, next)) = self.calls.find_from(from, |_| true) {
            from = next;
            let Some(request) = self.calls.get_mut(xid) else {
                continue;
            };
            if request.credit.is_some()
                && !matches!(request.state, RequestState::Exposing | RequestState::Ready)
            {
                if let Some(groups) = &mut self.groups {
                    groups.unreserve(request.reserve());
                }
                request.credit = None;
            }
            match (request.state, request.kind) {
                (
                    RequestState::Exposing | RequestState::Ready | RequestState::Sent,
                    RequestKind::Rpc,
                ) => {
                    let until = request.on_lost();
                    let outcome = if !request.is_too_late(now) {
                        CallOutcome::Again
                    } else if request.resend_window == 0 {
                        CallOutcome::Failed(CallFailure::Disconnected(why))
                    } else {
                        CallOutcome::Failed(CallFailure::ResendExpired(why))
                    };
                    self.end(xid, outcome, out);
                    if let Some(until) = until.filter(|until| *until > now) {
                        let calls = &self.calls;
                        self.deadlines
                            .push(xid, until, calls.len(), outstanding(calls));
                    }
                }
                (
                    RequestState::Waiting
                    | RequestState::Exposing
                    | RequestState::Ready
                    | RequestState::Sent,
                    RequestKind::Properties,
                ) => {
                    self.end(xid, CallOutcome::None, out);
                }
                (RequestState::Orphaned, _) => self.remove_orphan(xid),
                _ => {}
            }
        }
    }

    /// Returns the failure of a call that may not be transmitted again any more.
    pub(super) fn resend_expired(&self) -> CallFailure {
        CallFailure::ResendExpired(self.lost)
    }

    /// Ends all calls: no connection follows.
    pub(in crate::connection) fn fail_all(&mut self, why: CloseReason, out: &mut OutputQueues) {
        let mut from = 0;
        while let Some((xid, next)) = self.calls.find_from(from, Request::is_outstanding) {
            from = next;
            self.end(xid, CallOutcome::Failed(CallFailure::Closed(why)), out);
        }
    }

    /// Requeues all ready calls, since the peer accepts none now.
    pub(in crate::connection) fn withdraw(&mut self, out: &mut OutputQueues) {
        while let Some(xid) = self.ready.front() {
            self.end(xid, CallOutcome::Again, out);
        }
    }

    /// Requeues a call whose memory is exposed, since the peer accepts none now.
    pub(in crate::connection) fn requeue(&mut self, xid: u32, out: &mut OutputQueues) {
        if in_state(&self.calls, RequestState::Exposing)(xid) {
            self.end(xid, CallOutcome::Again, out);
        }
    }

    /// Handles a failure to expose memory.
    pub(in crate::connection) fn expose_failed(&mut self, xid: u32, out: &mut OutputQueues) {
        if in_state(&self.calls, RequestState::Exposing)(xid) {
            self.end(xid, CallOutcome::Failed(CallFailure::Memory), out);
        }
    }

    /// Records the outcome of a call, which then waits until its memory is released.
    // spec: rtr-7.4-l, rtr-7.4-w
    pub(super) fn end(&mut self, xid: u32, outcome: CallOutcome, out: &mut OutputQueues) {
        let Some(request) = self.calls.get_mut(xid) else {
            return;
        };
        let before = request.state;
        if before == RequestState::Settling {
            // A call that would be retransmitted ends instead.
            request.outcome = outcome;
            return;
        }
        // No reply returns the credit of a call that was not sent.
        if matches!(before, RequestState::Exposing | RequestState::Ready)
            && let Some(credit) = request.credit.take()
        {
            self.unsent -= credit.messages();
            if let Some(groups) = &mut self.groups {
                groups.unreserve(request.reserve());
            }
            self.credits.release(credit);
        }
        request.advance(RequestEvent::Ended);
        if request.exposed {
            out.push_action(Action::Fence {
                xid,
                invalidated: request.invalidated,
            });
        }
        request.outcome = outcome;
        match before {
            RequestState::Waiting => self.waiting.note_ended(in_state(&self.calls, before)),
            RequestState::Ready => self.ready.note_ended(in_state(&self.calls, before)),
            _ => {}
        }
        self.settle(xid, out);
    }

    /// Finishes a call if its memory is released.
    // spec: rfc8166-4.5.4-a
    fn settle(&mut self, xid: u32, out: &mut OutputQueues) {
        let Some(request) = self.calls.get_mut(xid) else {
            return;
        };
        if request.state == RequestState::Settling && request.is_settled() {
            let outcome = core::mem::replace(&mut request.outcome, CallOutcome::None);
            self.finish_settled(xid, outcome, out);
        }
    }

    /// Reports the outcome of a call whose memory is released, or requeues the call.
    fn finish_settled(&mut self, xid: u32, outcome: CallOutcome, out: &mut OutputQueues) {
        let Some(request) = self.calls.get_mut(xid) else {
            return;
        };
        let event = match outcome {
            CallOutcome::Again => {
                request.advance(RequestEvent::Retry);
                request.chunks.withdraw();
                request.invalidated = None;
                let rank = Rank {
                    is_rpc: request.kind == RequestKind::Rpc,
                    sequence: request.age,
                };
                self.waiting.push_ranked(rank, xid);
                self.has_requeued = true;
                return;
            }
            CallOutcome::Reply(reply) => Some(Event::ReplyArrived { xid, reply }),
            CallOutcome::Failed(why) => {
                (request.kind == RequestKind::Rpc).then_some(Event::CallFailed {
                    xid,
                    error: why,
                    sent: request.is_sent(),
                })
            }
            CallOutcome::None => None,
        };
        if let Some(event) = event {
            out.push_event(event);
        }
        self.on_finished(xid);
    }

    /// Removes a call whose end is reported; it stays as an orphan if it still holds a credit.
    #[inline]
    fn on_finished(&mut self, xid: u32) {
        let Some(request) = self.calls.get_mut(xid) else {
            return;
        };
        if request.credit.is_some() {
            request.advance(RequestEvent::Orphaned);
            let is_rpc = u16::from(request.kind == RequestKind::Rpc);
            self.open -= is_rpc;
            self.orphans += is_rpc;
        } else {
            request.advance(RequestEvent::Settled);
            self.open -= u16::from(request.kind == RequestKind::Rpc);
            self.calls.remove(xid);
        }
    }

    /// Removes an orphan, whose reply has arrived or will never arrive.
    pub(super) fn remove_orphan(&mut self, xid: u32) {
        let Some(request) = self.calls.get_mut(xid) else {
            return;
        };
        request.advance(RequestEvent::Answered);
        self.orphans -= u16::from(request.kind == RequestKind::Rpc);
        self.calls.remove(xid);
    }

    /// Handles the end of the Send of a call.
    pub(in crate::connection) fn released(&mut self, xid: u32, out: &mut OutputQueues) {
        let Some(request) = self.calls.get_mut(xid).filter(|request| request.sending) else {
            return;
        };
        request.sending = false;
        if request.state == RequestState::Settling {
            self.settle(xid, out);
        }
    }

    /// Handles a completed fence.
    // spec: v2-2.2-b
    pub(in crate::connection) fn fenced(&mut self, xid: u32, out: &mut OutputQueues) {
        let fencing =
            |request: &&mut Request| request.exposed && request.state == RequestState::Settling;
        let Some(request) = self.calls.get_mut(xid).filter(fencing) else {
            return;
        };
        request.exposed = false;
        self.settle(xid, out);
    }
}
