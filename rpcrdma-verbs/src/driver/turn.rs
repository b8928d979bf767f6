//! The turn of a driver: completions, timers, actions and sleep.
//!
//! A turn takes connection events and completions, releases ended queue pairs, refills shared
//! receives, and drives the sessions that are listed in `dirty`. Completions precede the release of
//! a queue pair, so that messages that arrived before its end are received. Any input to a session
//! must be followed by `touch`, or the session is not driven. `next_deadline` must not be later
//! than the deadline of any session, transfer or alarm: until then `drive` reads only the coarse
//! clock. `arm` must be followed by a turn before a sleep, as `sleep` and the loops of
//! `rpc_transport` do: no descriptor reports an earlier completion. Events of `flush` and alarms
//! must set `has_flushed_events`, or `wait` sleeps over them.

use std::time::{Duration, Instant};

use rpcrdma_proto::connection::CloseReason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clock::MAX_COARSE_LAG;
use super::connection::ConnectionAction;
use super::listener::Origin;
use super::{COMPLETION_BATCH, ConnectionId, Driver, DriverError, Watcher};
use crate::provider::{
    Completion, CompletionQueue as _, ConnectionManager as _, Device, VerbError,
};
use crate::queue::{is_shared_receive, tag};

impl<D: Device> Driver<D> {
    /// Takes events and completions, and acts on them. Returns the number of things done.
    ///
    /// # Errors
    /// Fails if the completion queue has overrun because it is too small for its connections.
    pub fn turn(&mut self) -> Result<usize, DriverError> {
        let mut count =
            self.poll_manager() + usize::from(std::mem::take(&mut self.has_flushed_events));
        // The user may have woken the driver, for example to continue a handler.
        count += usize::from(self.wakeup.clear());
        loop {
            let completed = self.take_completions()?;
            count += completed;
            if self.ended_queue_pairs.is_empty() {
                break;
            }
            // Messages that arrived before the end of a connection are received before the
            // connection is released.
            if completed < COMPLETION_BATCH {
                self.release_ended();
                break;
            }
        }
        if let Some(shared) = &mut self.shared_receives {
            // A later turn tries again. Until then the messages of the peers wait.
            let _ = shared.fill(&self.pool);
        }
        count += self.drive().0;
        Ok(count)
    }

    /// Takes at most one batch of completions, and returns their number.
    fn take_completions(&mut self) -> Result<usize, DriverError> {
        let mut taken = std::mem::take(&mut self.completion_batch);
        taken.clear();
        let polled = self.completions.poll(&mut taken, COMPLETION_BATCH);
        for completion in &taken {
            self.complete(completion);
        }
        let count = taken.len();
        self.completion_batch = taken;
        polled?;
        Ok(count)
    }

    /// Sends the calls and replies that were made since the last turn, without polling for
    /// completions. [`LocalServer::serve`](crate::LocalServer::serve) calls this for
    /// its replies.
    pub fn flush(&mut self) {
        // The next turn counts the new events, so that `wait` does not sleep over them.
        self.has_flushed_events |= self.drive().1;
    }

    /// Sleeps until something happens or `most` has passed. Returns true if something has happened.
    /// It first polls for work for a short time ([`set_spin`](Self::set_spin)).
    ///
    /// # Errors
    /// Fails if the system fails.
    pub fn wait(&mut self, most: Duration) -> Result<bool, DriverError> {
        while !most.is_zero() && self.spin.goes_on() {
            if self.turn()? > 0 {
                self.spin.found();
                return Ok(true);
            }
        }
        let slept = self.sleep(most);
        self.spin.slept();
        slept
    }

    fn sleep(&mut self, most: Duration) -> Result<bool, DriverError> {
        self.arm()?;
        // No event reports completions that arrived before the queue was armed.
        if self.turn()? > 0 {
            return Ok(true);
        }
        let due = most.min(Duration::from_micros(
            self.next_timer().saturating_sub(self.now()),
        ));
        let queue = self.completions.descriptor();
        let manager = self.manager.descriptor();
        let wakeup = self.wakeup.descriptor();
        let mut descriptors =
            [&queue, &manager, &wakeup].map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
        let timeout = Timespec {
            tv_sec: i64::try_from(due.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: due.subsec_nanos().into(),
        };
        let ready = match poll(&mut descriptors, Some(&timeout)) {
            Ok(ready) => ready > 0,
            Err(rustix::io::Errno::INTR) => false,
            Err(error) => {
                return Err(VerbError {
                    verb: "poll",
                    cause: crate::provider::Cause::System(error.into()),
                }
                .into());
            }
        };
        self.completions.acknowledge()?;
        Ok(self.turn()? > 0 || ready)
    }

    /// Returns true if the driver's loop is not to sleep yet: in its last turn there was work, or
    /// it looks for more for a short time.
    #[cfg(feature = "tokio")]
    pub(crate) fn looks_for_work(&mut self, done: usize) -> bool {
        if done > 0 {
            self.spin.found();
            return true;
        }
        self.spin.goes_on()
    }

    /// Notes that the driver's loop has slept.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_slept(&mut self) {
        self.spin.slept();
    }

    /// Returns the descriptors to wait for: of the completion queue, of the connection manager, and
    /// of wake-ups.
    #[cfg(feature = "tokio")]
    pub(crate) fn descriptors(&self) -> std::io::Result<[std::os::fd::OwnedFd; 3]> {
        let queue = self.completions.descriptor().try_clone_to_owned()?;
        let manager = self.manager.descriptor().try_clone_to_owned()?;
        Ok([
            queue,
            manager,
            self.wakeup.descriptor().try_clone_to_owned()?,
        ])
    }

    /// Prepares for a sleep: the descriptor becomes readable at the next completion, and buffers
    /// that other threads have dropped return to the budget.
    pub(crate) fn arm(&self) -> Result<(), DriverError> {
        self.pool.collect();
        Ok(self.completions.arm()?)
    }

    /// Consumes the event that made the descriptor readable.
    #[cfg(feature = "tokio")]
    pub(crate) fn acknowledge(&self) -> Result<(), DriverError> {
        Ok(self.completions.acknowledge()?)
    }

    /// Returns the time until the next timer, or `None` if only new input can create work.
    #[cfg(feature = "tokio")]
    pub(crate) fn timeout(&self) -> Option<Duration> {
        (self.next_timer() != u64::MAX)
            .then(|| Duration::from_micros(self.next_timer().saturating_sub(self.now())))
    }

    /// Lets a turn count the alarm at this time, or earlier, as something that has happened.
    pub(crate) fn set_alarm(&mut self, at: Instant) {
        let left = at.saturating_duration_since(Instant::now());
        let left = u64::try_from(left.as_micros()).unwrap_or(u64::MAX);
        // The time in microseconds is rounded down.
        let at = self.now().saturating_add(left).saturating_add(1);
        self.alarm = self.alarm.min(at);
        self.next_deadline = self.next_deadline.min(at);
    }

    /// Returns the number of alarms that have gone off.
    #[inline]
    pub(crate) fn alarms(&self) -> u64 {
        self.alarms
    }

    /// Returns the time of the next timer.
    pub(super) fn next_timer(&self) -> u64 {
        self.next_deadline.min(self.keep_alive.next_check)
    }

    fn complete(&mut self, completion: &Completion) {
        let (id, failed) = if is_shared_receive(completion.id) {
            let buf = self
                .shared_receives
                .as_ref()
                .and_then(|shared| shared.complete(completion));
            let id = self.by_qpn.get(&completion.queue_pair).copied();
            let (Some(buf), Some(id)) = (buf, id) else {
                return;
            };
            (
                id,
                self.touch_mut(id)
                    .is_some_and(|connection| !connection.complete_shared(completion, buf)),
            )
        } else {
            let id = ConnectionId(tag(completion.id));
            (
                id,
                self.touch_mut(id)
                    .is_some_and(|connection| !connection.complete(completion)),
            )
        };
        if failed {
            let now = self.now();
            if let Some(connection) = self.get_mut(id) {
                connection.lost(now, CloseReason::Lost);
            }
        }
    }

    /// Drives every connection that has work to do or whose timer has expired. Returns their
    /// number, and whether one of them has a new event.
    fn drive(&mut self) -> (usize, bool) {
        let mut now = self.clock.coarse_now();
        // In most turns no timer is near, and the coarse clock is enough.
        if now.saturating_add(MAX_COARSE_LAG) >= self.next_timer() {
            now = self.run_timers();
        }
        let (count, mut has_event) = (self.dirty.len(), false);
        for at in 0..count {
            let Some(id) = self.dirty.get(at).copied() else {
                break;
            };
            has_event |= self.drive_one(id, now);
        }
        // The next call drives connections that were touched during this one.
        if self.dirty.len() == count {
            self.dirty.clear();
        } else {
            self.dirty.drain(..count);
        }
        (count, has_event)
    }

    /// Runs the timers that have expired, and returns the exact time.
    #[cold]
    fn run_timers(&mut self) -> u64 {
        let now = self.now();
        if now >= self.next_deadline {
            self.expire_sessions(now);
        }
        if now >= self.keep_alive.next_check {
            self.check_connections(now);
        }
        now
    }

    /// Informs the sessions whose timers have expired, and the user whose alarm goes off.
    fn expire_sessions(&mut self, now: u64) {
        if now >= self.alarm {
            self.alarm = u64::MAX;
            self.alarms += 1;
            self.has_flushed_events = true;
        }
        for at in 0..self.connections.len() {
            let Some(slot) = self.connections.get_mut(at) else {
                continue;
            };
            let id = slot.id(at);
            let Some(connection) = slot.connection.as_deref_mut() else {
                continue;
            };
            if connection
                .session
                .poll_timeout()
                .is_some_and(|due| due <= now)
            {
                connection.session.timeout(now);
                self.touch(id);
            } else if connection.has_overdue_transfer(now) {
                connection.lost(now, CloseReason::Lost);
                self.touch(id);
            }
        }
        let next = self
            .connections()
            .map(|connection| {
                let timeout = connection.session.poll_timeout().unwrap_or(u64::MAX);
                timeout.min(connection.transfer_deadline())
            })
            .min();
        self.next_deadline = next.unwrap_or(u64::MAX).min(self.alarm);
    }

    /// Drives one connection. Returns true if it has a new event.
    pub(super) fn drive_one(&mut self, id: ConnectionId, now: u64) -> bool {
        // A newer connection in the same slot has another generation.
        let at = self.connections.get_mut(id.index());
        let Some(slot) = at.filter(|slot| slot.generation == id.generation()) else {
            return false;
        };
        slot.dirty = false;
        let Some(connection) = slot.connection.as_deref_mut() else {
            return false;
        };
        let mut watch = |message: &[u8]| {
            if let Some(Watcher(watcher)) = &mut self.watcher {
                watcher(id, message);
            }
        };
        let before = connection.events.len();
        connection.drive(&self.device, &mut self.scratch, now, &mut watch);
        let has_event = connection.events.len() > before;
        self.next_deadline = self
            .next_deadline
            .min(connection.session.poll_timeout().unwrap_or(u64::MAX));
        if connection.events.len() > 0 && !slot.ready {
            slot.ready = true;
            let ready = match slot.origin {
                Origin::Client(_) | Origin::NamedServer => Some(&mut self.ready),
                Origin::Listener(number) => self
                    .listeners
                    .get_mut(number)
                    .map(|listener| &mut listener.ready),
            };
            ready.into_iter().for_each(|ready| ready.push_back(id));
        }
        if connection.pending_action.is_some() {
            self.perform_action(id);
        }
        has_event
    }

    #[cold]
    fn perform_action(&mut self, id: ConnectionId) {
        // Timers that start now are measured by the exact clock.
        let now = self.now();
        let Some(connection) = self.get_mut(id) else {
            return;
        };
        match connection.pending_action.take() {
            None => {}
            Some(ConnectionAction::Connect) => self.start_connect(id, now),
            Some(ConnectionAction::TimeTransfers) => {
                connection.time_transfers(now);
                let due = connection.transfer_deadline();
                self.next_deadline = self.next_deadline.min(due);
            }
            Some(ConnectionAction::Close(reason)) => {
                connection.lost(now, reason);
                self.touch(id);
            }
        }
    }
}
