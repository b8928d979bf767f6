//! The delay of a fabric: the time of each connection's next due work, and its execution. `qp_pair`
//! decides which work is due, and reports the time of the next one (`reschedule`) when it unlocks a
//! connection.
//!
//! Polling executes due work. For sleeping threads, a thread of the fabric executes it. This thread
//! starts when a completion queue is armed for the first time, and ends with the fabric. The lock
//! of the schedule comes after those of connections, and `next` changes only under it.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Nanoseconds since the fabric was created, plus one, so that `Option<Time>` has the same size.
pub(super) type Time = NonZero<u64>;

/// An object with work that is due at a time.
pub(super) trait Progress: Send + Sync + std::fmt::Debug {
    /// Executes due work.
    fn progress(&self);
}

/// The time of work that is never due.
const NEVER: u64 = u64::MAX;

/// The delay of a fabric.
#[derive(Debug)]
pub(super) struct Latency {
    one_way: u64,
    clock: Clock,
    /// The time of the next due work, so that a poll with nothing due takes no lock.
    next: AtomicU64,
    agenda: Mutex<Schedule>,
    changed: Condvar,
    executed: Condvar,
}

/// The clock of a fabric, in nanoseconds since it was created.
#[derive(Debug)]
enum Clock {
    /// The system's clock, with the time of the creation.
    System(Instant),
    /// A clock that only [`Latency::advance`] moves.
    Manual(AtomicU64),
}

#[derive(Debug, Default)]
struct Schedule {
    /// The connections with due work, by time and number.
    due: BTreeMap<(Time, u32), Weak<dyn Progress>>,
    /// The number of connections whose due work is being executed: more may become due.
    executing: usize,
    thread: Option<JoinHandle<()>>,
    ended: bool,
}

/// The execution of a connection's due work.
struct Execution<'l>(&'l Latency);

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        self.0.lock().executing -= 1;
        self.0.executed.notify_all();
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

impl Latency {
    pub(super) fn new(one_way: Duration) -> Arc<Self> {
        Self::with_clock(one_way, Clock::System(Instant::now()))
    }

    pub(super) fn manual(one_way: Duration) -> Arc<Self> {
        Self::with_clock(one_way, Clock::Manual(AtomicU64::new(0)))
    }

    fn with_clock(one_way: Duration, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            one_way: nanoseconds(one_way),
            clock,
            next: AtomicU64::new(NEVER),
            agenda: Mutex::default(),
            changed: Condvar::new(),
            executed: Condvar::new(),
        })
    }

    pub(super) fn now(&self) -> Time {
        Time::MIN.saturating_add(match &self.clock {
            Clock::System(began) => nanoseconds(began.elapsed()),
            Clock::Manual(now) => now.load(Ordering::Acquire),
        })
    }

    /// Moves a manual clock to the time of the next due work, once no thread executes such work.
    /// Returns the time since the fabric was created, or `None` if no work is due, or if the clock
    /// is the system's.
    pub(super) fn advance(&self) -> Option<Duration> {
        let Clock::Manual(now) = &self.clock else {
            return None;
        };
        let mut agenda = self.lock();
        while agenda.executing > 0 {
            agenda = self
                .executed
                .wait(agenda)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let next = match self.next.load(Ordering::Acquire) {
            NEVER => return None,
            next => next - Time::MIN.get(),
        };
        let earlier = now.fetch_max(next, Ordering::AcqRel);
        self.changed.notify_one();
        Some(Duration::from_nanos(next.max(earlier)))
    }

    /// Returns the arrival time of a request that is sent at `time`.
    pub(super) const fn after(&self, time: Time) -> Time {
        time.saturating_add(self.one_way)
    }

    fn lock(&self) -> MutexGuard<'_, Schedule> {
        // After a panic elsewhere, a connection may be visited needlessly or late.
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the time of the next due work. Returns true if it became earlier.
    fn note(&self, agenda: &Schedule) -> bool {
        let next = agenda
            .due
            .first_key_value()
            .map_or(NEVER, |((time, _), _)| time.get());
        self.next.swap(next, Ordering::AcqRel) > next
    }

    /// Changes the time at which a connection has work due.
    pub(super) fn reschedule(
        &self,
        link: (u32, Weak<dyn Progress>),
        was: Option<Time>,
        is: Option<Time>,
    ) {
        let mut agenda = self.lock();
        let (number, link) = link;
        if let Some(time) = was {
            agenda.due.remove(&(time, number));
        }
        if let Some(time) = is {
            agenda.due.insert((time, number), link);
        }
        if self.note(&agenda) && agenda.thread.is_some() {
            self.changed.notify_one();
        }
    }

    /// Executes due work.
    pub(super) fn deliver(&self) {
        while let Some(link) = self.due() {
            let execution = Execution(self);
            link.progress();
            drop((link, execution));
        }
    }

    /// Returns a connection that has work due. The lock is released, because the locks of
    /// connections come first.
    fn due(&self) -> Option<Arc<dyn Progress>> {
        let next = self.next.load(Ordering::Acquire);
        if next == NEVER || next > self.now().get() {
            return None;
        }
        let mut agenda = self.lock();
        let mut found = None;
        while let Some(first) = agenda
            .due
            .first_entry()
            .filter(|first| first.key().0 <= self.now())
            && found.is_none()
        {
            found = first.remove().upgrade();
        }
        agenda.executing += usize::from(found.is_some());
        self.note(&agenda);
        found
    }

    /// Starts the thread that executes due work while no thread polls.
    pub(super) fn watch(self: &Arc<Self>) -> io::Result<()> {
        let mut agenda = self.lock();
        if agenda.thread.is_none() {
            let latency = self.clone();
            let thread = thread::Builder::new().name("rpcrdma-latency".to_owned());
            agenda.thread = Some(thread.spawn(move || latency.run())?);
        }
        Ok(())
    }

    fn run(&self) {
        loop {
            self.deliver();
            let agenda = self.lock();
            if agenda.ended {
                return;
            }
            // The time changes only under the lock, so no change is missed.
            let next = self.next.load(Ordering::Acquire);
            let rest = next.saturating_sub(self.now().get());
            let is_manual = matches!(self.clock, Clock::Manual(_));
            if next == NEVER || is_manual && rest > 0 {
                drop(self.changed.wait(agenda));
            } else {
                let rest = Duration::from_nanos(rest);
                drop(self.changed.wait_timeout(agenda, rest));
            }
        }
    }

    /// Ends the thread. No connection remains, so it is not busy.
    pub(super) fn end(&self) {
        let mut agenda = self.lock();
        agenda.ended = true;
        let thread = agenda.thread.take();
        drop(agenda);
        self.changed.notify_one();
        // If the thread itself drops the last connection, it drops the fabric, and must not join
        // itself.
        if let Some(thread) = thread.filter(|other| other.thread().id() != thread::current().id()) {
            // A panic of the thread poisons the lock of a connection, where other threads notice
            // it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::provider::software::Fabric;
    use crate::provider::{CompletionQueue as _, Device as _};

    use super::*;

    #[test]
    fn the_thread_ends_with_its_fabric() {
        let fabric = Fabric::with_delay(Duration::from_secs(3600));
        let queue = fabric.device().completion_queue(1).unwrap();
        let latency = Arc::downgrade(fabric.latency.as_ref().unwrap());
        assert_eq!(latency.strong_count(), 1, "who polls needs no thread");
        queue.arm().unwrap();
        queue.arm().unwrap();
        assert_eq!(latency.strong_count(), 2);
        drop(fabric);
        drop(queue);
        assert_eq!(latency.strong_count(), 0);
    }
}
