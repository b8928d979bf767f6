//! The open calls of one runner: queued and in flight.
//!
//! Each TCP client, each loopback, and each TCP connection of a server (for its calls to the
//! client) has its own `Calls`. It decides the order of calls, their XIDs, and with which error
//! each ends. It does no I/O: its owner sends the calls that `next` returns, passes replies to
//! `take`, and calls `expire` at `deadline`.
//!
//! **States.** A call is queued until `next` returns it, and then in flight until it ends or its
//! connection is lost. Separately from this, it is sent from the moment at which the other end may
//! have a byte of it: the owner must call `set_sent` then. A call that is in flight but not sent is
//! transmitted over the next connection even if its request does not permit a retransmission.
//!
//! **A lost connection** has three outcomes for a call in flight. If it was not sent, it is queued
//! again. If it was sent, it fails or is queued again as `resend_error` decides. A call that is
//! queued again keeps its XID, by which a reply cache identifies it.
//!
//! **Invariants.** `in_flight`, `deadlines` and `resend_deadlines` refer only to open calls, so
//! `remove` is the only way to end one call. Calls with an XID precede those without one in
//! `queue`: so a new XID is chosen only when all calls that have one are in flight.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::error::Error as StdError;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::channel::{CallId, Submission};
use crate::error::{CallErrorKind, Progress};
use crate::request::Request;

/// The open calls of a runner.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The maximum number of calls in flight.
    max: usize,
    calls: BTreeMap<CallId, Pending>,
    /// The ids of the queued calls, in order, and of some calls that have ended.
    queue: VecDeque<CallId>,
    /// The calls in flight, by XID.
    in_flight: HashMap<u32, CallId>,
    /// The deadlines of the calls that have one.
    deadlines: BTreeSet<(Instant, CallId)>,
    /// The sent calls that are queued again, each with the end of its resend window. A call in
    /// flight does not end with its window: it waits for its reply.
    resend_deadlines: BTreeSet<(Instant, CallId)>,
    /// Why the last connection was lost.
    lost: Option<LossReason>,
    next_xid: u32,
}

/// Why a connection was lost.
pub(crate) type LossReason = Arc<dyn StdError + Send + Sync>;

/// An open call.
#[derive(Debug)]
struct Pending {
    submission: Submission,
    deadline: Option<Instant>,
    /// The XID; `None` until the call is in flight for the first time.
    xid: Option<u32>,
    /// The end of the resend window; `None` if the window has not begun or has no end.
    resend_until: Option<Instant>,
}

impl Pending {
    /// Returns true if the call may have been executed, and only a reply cache prevents a second
    /// execution.
    fn relies_on_reply_cache(&self) -> bool {
        self.submission.is_sent() && self.submission.request().needs_reply_cache()
    }

    /// Begins the resend window of a call that is about to be sent. It stays as it is for a call
    /// that was sent before: a reply cache counts from the first transmission.
    fn begin_resend_window(&mut self) {
        let request = self.submission.request();
        if request.needs_reply_cache() && !self.submission.is_sent() {
            self.resend_until = Instant::now().checked_add(request.resend_window());
        }
    }

    /// Returns the error of a call that must not be transmitted again: it was sent, and its request
    /// permits no retransmission, or none any more.
    fn resend_error(&self, now: Instant, lost: &LossReason) -> Option<CallErrorKind> {
        if !self.submission.is_sent() {
            return None;
        }
        match self.submission.request().resend_window() {
            Duration::ZERO => Some(CallErrorKind::ConnectionLost(lost.clone())),
            _ => self
                .resend_until
                .filter(|until| *until <= now)
                .map(|_| CallErrorKind::ReplyCacheExpired(lost.clone())),
        }
    }
}

impl Calls {
    /// Creates a table with this maximum number of calls in flight. The first XID is random, so
    /// that a reply cache does not take a call for one of an earlier process.
    pub(crate) fn new(max: usize) -> Self {
        let random = RandomState::new().hash_one("XID");
        Self {
            max: max.max(1),
            calls: BTreeMap::new(),
            queue: VecDeque::new(),
            in_flight: HashMap::new(),
            deadlines: BTreeSet::new(),
            resend_deadlines: BTreeSet::new(),
            lost: None,
            next_xid: (random >> 32) as u32,
        }
    }

    /// Returns true if there are no calls.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    fn is_in_flight(&self, id: CallId) -> bool {
        let xid = self.calls.get(&id).and_then(|call| call.xid);
        xid.is_some_and(|xid| self.in_flight.get(&xid) == Some(&id))
    }

    /// Returns the number of queued calls.
    pub(crate) fn queued(&self) -> usize {
        self.calls.len() - self.in_flight.len()
    }

    /// Queues a call.
    pub(crate) fn submit(&mut self, submission: Submission) {
        let id = submission.id();
        // A deadline beyond the range of the clock is no limit.
        let deadline = submission
            .request()
            .timeout
            .and_then(|timeout| Instant::now().checked_add(timeout));
        self.deadlines
            .extend(deadline.map(|deadline| (deadline, id)));
        let call = Pending {
            submission,
            deadline,
            xid: None,
            resend_until: None,
        };
        self.calls.insert(id, call);
        self.queue.push_back(id);
    }

    /// Removes a call that ends, with all references to it except those in `queue`.
    fn remove(&mut self, id: CallId) -> Option<Pending> {
        let call = self.calls.remove(&id)?;
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        if let Some(until) = call.resend_until {
            self.resend_deadlines.remove(&(until, id));
        }
        if let Some(xid) = call.xid {
            self.in_flight.remove(&xid);
        }
        // Ids of ended calls are removed when they are the majority.
        if self.queue.len() > 2 * self.calls.len() + 64 {
            let calls = &self.calls;
            self.queue.retain(|id| calls.contains_key(id));
        }
        Some(call)
    }

    /// Removes a cancelled call.
    pub(crate) fn cancel(&mut self, id: CallId) {
        self.remove(id);
    }

    /// Moves the next queued call into flight, and returns it with its XID. Returns `None` if none
    /// is queued, or if the maximum is in flight.
    pub(crate) fn next(&mut self) -> Option<(u32, &Request)> {
        if self.in_flight.len() >= self.max {
            return None;
        }
        if !self.resend_deadlines.is_empty() {
            self.expire_resends(Instant::now());
        }
        let id = loop {
            let id = self.queue.pop_front()?;
            if self.calls.contains_key(&id) {
                break id;
            }
        };
        let xid = match self.calls.get(&id)?.xid {
            Some(xid) => xid,
            None => self.unused_xid(),
        };
        self.in_flight.insert(xid, id);
        let call = self.calls.get_mut(&id)?;
        call.xid = Some(xid);
        if let Some(until) = call.resend_until {
            self.resend_deadlines.remove(&(until, id));
        }
        call.begin_resend_window();
        Some((xid, call.submission.request()))
    }

    /// Records that the server may have the call with this XID.
    pub(crate) fn set_sent(&mut self, xid: u32) {
        let call = self
            .in_flight
            .get(&xid)
            .and_then(|id| self.calls.get_mut(id));
        if let Some(call) = call {
            call.submission.set_sent(true);
        }
    }

    /// Records that the server may get each call in flight.
    pub(crate) fn set_all_sent(&mut self) {
        for id in self.in_flight.values() {
            if let Some(call) = self.calls.get_mut(id) {
                call.submission.set_sent(true);
            }
        }
    }

    fn unused_xid(&mut self) -> u32 {
        loop {
            let xid = self.next_xid;
            self.next_xid = xid.wrapping_add(1);
            if !self.in_flight.contains_key(&xid) {
                return xid;
            }
        }
    }

    /// Removes the call in flight with this XID, which the caller then completes. Returns `None` if
    /// there is none: it was cancelled, or has failed.
    pub(crate) fn take(&mut self, xid: u32) -> Option<Submission> {
        let id = *self.in_flight.get(&xid)?;
        self.remove(id).map(|call| call.submission)
    }

    /// Returns the time of the next call of `expire`.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let first = |all: &BTreeSet<(Instant, CallId)>| all.first().map(|(due, _)| *due);
        let (call, resend) = (first(&self.deadlines), first(&self.resend_deadlines));
        call.into_iter().chain(resend).min()
    }

    /// Fails the calls whose deadlines have passed, and the queued calls whose resend windows have
    /// ended. `unsent` returns the progress of a call that was not sent; its argument is true if
    /// the call is in flight.
    pub(crate) fn expire(&mut self, now: Instant, unsent: impl Fn(bool) -> Progress) {
        while let Some((_, id)) = self
            .deadlines
            .first()
            .filter(|(due, _)| *due <= now)
            .copied()
        {
            let in_flight = self.is_in_flight(id);
            let Some(mut call) = self.remove(id) else {
                self.deadlines.pop_first();
                continue;
            };
            let timeout = call.submission.request().timeout.unwrap_or_default();
            let progress = if call.submission.is_sent() {
                Progress::NoReply
            } else {
                unsent(in_flight)
            };
            // The owner may still send a call in flight, after it has ended here: so it counts as
            // sent, and it is unknown whether it is executed.
            call.submission
                .set_sent(call.submission.is_sent() || in_flight);
            let kind = CallErrorKind::DeadlineExceeded { timeout, progress };
            call.submission.fail_unanswered(kind);
        }
        self.expire_resends(now);
    }

    /// Fails the queued calls whose resend windows have ended.
    fn expire_resends(&mut self, now: Instant) {
        while let Some((until, id)) = self.resend_deadlines.first().copied() {
            if until > now {
                return;
            }
            self.resend_deadlines.remove(&(until, id));
            if let Some(lost) = self.lost.clone()
                && let Some(call) = self.remove(id)
            {
                let kind = CallErrorKind::ReplyCacheExpired(lost);
                call.submission.fail_unanswered(kind);
            }
        }
    }

    /// Queues the calls in flight of a lost connection again, in order, before the calls that are
    /// queued already. Those that must not be transmitted again fail.
    pub(crate) fn lose_connection(&mut self, reason: &LossReason) {
        let now = Instant::now();
        self.lost = Some(reason.clone());
        let mut lost: Vec<CallId> = self.in_flight.drain().map(|(_, id)| id).collect();
        lost.sort_unstable_by(|a, b| b.cmp(a));
        for id in lost {
            let Some(call) = self.calls.get(&id) else {
                continue;
            };
            if let Some(kind) = call.resend_error(now, reason) {
                if let Some(call) = self.remove(id) {
                    call.submission.fail_unanswered(kind);
                }
                continue;
            }
            let until = call.resend_until.filter(|_| call.submission.is_sent());
            self.resend_deadlines.extend(until.map(|until| (until, id)));
            self.queue.push_front(id);
        }
    }

    /// Returns true if a second execution of some call is prevented only by the reply cache of the
    /// server.
    pub(crate) fn rely_on_reply_cache(&self) -> bool {
        self.calls.values().any(Pending::relies_on_reply_cache)
    }

    /// Fails the calls for which `rely_on_reply_cache` returns true: the server no longer
    /// recognizes the client, and would execute their retransmissions.
    pub(crate) fn lose_reply_cache(&mut self, kind: &CallErrorKind) {
        self.fail_if(kind, Pending::relies_on_reply_cache);
    }

    /// Fails the calls whose requests do not permit to wait for a connection
    /// (`Request::wait_for_connection`).
    pub(crate) fn fail_impatient(&mut self, kind: &CallErrorKind) {
        self.fail_if(kind, |call| !call.submission.request().wait_for_connection);
    }

    fn fail_if(&mut self, kind: &CallErrorKind, fails: fn(&Pending) -> bool) {
        let calls = self.calls.iter().filter(|(_, call)| fails(call));
        let ids: Vec<CallId> = calls.map(|(id, _)| *id).collect();
        for call in ids.into_iter().filter_map(|id| self.remove(id)) {
            call.submission.fail_unanswered(kind.clone());
        }
    }

    /// Fails all calls.
    pub(crate) fn fail_all(&mut self, kind: &CallErrorKind) {
        for (_, call) in std::mem::take(&mut self.calls) {
            call.submission.fail_unanswered(kind.clone());
        }
        self.queue.clear();
        self.in_flight.clear();
        self.deadlines.clear();
        self.resend_deadlines.clear();
    }

    /// Fails a call in flight whose message cannot be encoded or is too long. If this is a
    /// retransmission, the error says that the call may have been executed.
    pub(crate) fn fail(&mut self, xid: u32, kind: CallErrorKind) {
        if let Some(call) = self.take(xid) {
            call.fail_unanswered(kind);
        }
    }
}
