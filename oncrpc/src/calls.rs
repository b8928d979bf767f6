//! The calls of a runner: queued and in flight.
//!
//! Each TCP client, each TCP connection of a server for its calls to the client, and each loopback
//! own one table. The owner must call `set_sent` as soon as the other end may have a byte of a
//! call: a call that is not marked is sent again after a lost connection, whatever its request
//! permits. A retransmitted call keeps its XID, by which a reply cache identifies it.
//! `deadlines`, `resend_deadlines` and `in_flight` refer to open calls only; `waiting` may refer to
//! ended ones.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::error::Error as StdError;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::channel::{CallId, Submission};
use crate::error::{CallErrorKind, Progress};
use crate::request::Request;

/// All calls of a runner, each with its deadline.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The maximum number of calls in flight.
    max: usize,
    calls: BTreeMap<CallId, Pending>,
    /// The queued calls, in order. Some of them may have ended.
    waiting: VecDeque<CallId>,
    in_flight: HashMap<u32, CallId>,
    deadlines: BTreeSet<(Instant, CallId)>,
    /// The queued calls that were sent, each with the time until which it may be retransmitted.
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
    /// The XID of the call, if it was sent.
    xid: Option<u32>,
    /// Until when the call may be retransmitted, if that is limited and the call was passed on to
    /// be sent.
    resend_until: Option<Instant>,
}

impl Pending {
    fn needs_reply_cache(&self) -> bool {
        self.submission.is_sent() && self.submission.request().needs_reply_cache()
    }

    /// Begins the time within which the call may be retransmitted, unless it has begun.
    fn begin_resend_window(&mut self) {
        let request = self.submission.request();
        if request.needs_reply_cache() && !self.submission.is_sent() {
            self.resend_until = Instant::now().checked_add(request.resend_window());
        }
    }

    /// Returns the error of the call if it may not be sent again.
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
            waiting: VecDeque::new(),
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
        xid.is_some_and(|xid| self.in_flight.contains_key(&xid))
    }

    /// Returns the number of queued calls.
    pub(crate) fn waiting(&self) -> usize {
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
        self.waiting.push_back(id);
    }

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
        // Entries of ended calls are removed when they are the majority.
        if self.waiting.len() > 2 * self.calls.len() + 64 {
            let calls = &self.calls;
            self.waiting.retain(|id| calls.contains_key(id));
        }
        Some(call)
    }

    /// Removes a cancelled call.
    pub(crate) fn cancel(&mut self, id: CallId) {
        self.remove(id);
    }

    /// Moves the next queued call into flight, and returns it with its XID.
    pub(crate) fn next(&mut self) -> Option<(u32, &Request)> {
        if self.in_flight.len() >= self.max {
            return None;
        }
        if !self.resend_deadlines.is_empty() {
            self.expire_resends(Instant::now());
        }
        let id = loop {
            let id = self.waiting.pop_front()?;
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

    /// Ends the call with this XID, and returns the promise of its result; `None` if there is no
    /// such call.
    pub(crate) fn take(&mut self, xid: u32) -> Option<Submission> {
        let id = *self.in_flight.get(&xid)?;
        self.remove(id).map(|call| call.submission)
    }

    /// Returns the next deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let first = |all: &BTreeSet<(Instant, CallId)>| all.first().map(|(due, _)| *due);
        let (call, resend) = (first(&self.deadlines), first(&self.resend_deadlines));
        call.into_iter().chain(resend).min()
    }

    /// Fails the calls whose deadlines have passed, and queued calls that may not be sent again any
    /// more. `unsent` returns the progress of a call that was not sent, which may be in flight.
    pub(crate) fn expire(&mut self, now: Instant, unsent: impl Fn(bool) -> Progress) {
        while let Some((_, id)) = self
            .deadlines
            .first()
            .filter(|(due, _)| *due <= now)
            .copied()
        {
            let in_flight = self.is_in_flight(id);
            let Some(mut call) = self.remove(id) else {
                return;
            };
            let timeout = call.submission.request().timeout.unwrap_or_default();
            let progress = if call.submission.is_sent() {
                Progress::NoReply
            } else {
                unsent(in_flight)
            };
            // The owner still sends a call in flight.
            call.submission
                .set_sent(call.submission.is_sent() || in_flight);
            let kind = CallErrorKind::DeadlineExceeded { timeout, progress };
            call.submission.fail_unanswered(kind);
        }
        self.expire_resends(now);
    }

    /// Fails the queued calls that may not be sent again any more.
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

    /// Requeues the calls in flight of a lost connection. Calls that may be retransmitted precede
    /// the queued ones, in order, and keep their XIDs, which identify them in a reply cache. The
    /// others fail.
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
            self.waiting.push_front(id);
        }
    }

    /// Returns true if a call that was sent needs the reply cache of its server.
    pub(crate) fn need_reply_cache(&self) -> bool {
        self.calls.values().any(Pending::needs_reply_cache)
    }

    /// Fails the calls that were sent and need the reply cache of their server, which no longer
    /// recognizes the client.
    pub(crate) fn lose_reply_cache(&mut self, kind: &CallErrorKind) {
        self.fail_if(kind, Pending::needs_reply_cache);
    }

    /// Fails the calls that do not wait for a connection.
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
        self.waiting.clear();
        self.in_flight.clear();
        self.deadlines.clear();
        self.resend_deadlines.clear();
    }

    /// Fails a call in flight that could not be sent, or not again: an earlier transmission may
    /// have been executed.
    pub(crate) fn fail(&mut self, xid: u32, kind: CallErrorKind) {
        if let Some(call) = self.take(xid) {
            call.fail_unanswered(kind);
        }
    }
}
