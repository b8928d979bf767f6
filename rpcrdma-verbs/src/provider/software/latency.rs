//! The time that octets are under way, where a fabric has a delay: which connection has something due when, and who does it.
//!
//! Whoever polls does what is due. Where somebody sleeps instead, a thread does it: it is started when a completion queue is
//! armed for the first time, and ends with the fabric.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::link::Link;

/// Nanoseconds since the fabric was made, and one: so that an optional one takes no more room.
pub(super) type Time = NonZero<u64>;

/// When what is never due is.
const NEVER: u64 = u64::MAX;

/// The delay of a fabric.
#[derive(Debug)]
pub(super) struct Latency {
    one_way: u64,
    began: Instant,
    /// When something is due next: so that whoever polls in vain takes no lock.
    next: AtomicU64,
    agenda: Mutex<Agenda>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Agenda {
    /// By when it is due and by its number: each link that has something to do then, and nothing before.
    links: BTreeMap<(Time, u32), Weak<Link>>,
    thread: Option<JoinHandle<()>>,
    ended: bool,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

impl Latency {
    pub(super) fn new(one_way: Duration) -> Arc<Self> {
        Arc::new(Self {
            one_way: nanoseconds(one_way),
            began: Instant::now(),
            next: AtomicU64::new(NEVER),
            agenda: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    pub(super) fn now(&self) -> Time {
        Time::MIN.saturating_add(nanoseconds(self.began.elapsed()))
    }

    /// When what sets out then is at the other end.
    pub(super) const fn after(&self, time: Time) -> Time {
        time.saturating_add(self.one_way)
    }

    fn lock(&self) -> MutexGuard<'_, Agenda> {
        // A panic elsewhere leaves at worst a link that is looked at in vain, or at the next post.
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes when the first is due; whether that is earlier than it was.
    fn note(&self, agenda: &Agenda) -> bool {
        let next = agenda.links.first_key_value().map_or(NEVER, |((time, _), _)| time.get());
        self.next.swap(next, Ordering::AcqRel) > next
    }

    /// A link has something to do at another time than it had.
    pub(super) fn reschedule(&self, link: (u32, &Weak<Link>), was: Option<Time>, is: Option<Time>) {
        let mut agenda = self.lock();
        let (number, link) = link;
        if let Some(time) = was {
            agenda.links.remove(&(time, number));
        }
        if let Some(time) = is {
            agenda.links.insert((time, number), link.clone());
        }
        if self.note(&agenda) && agenda.thread.is_some() {
            self.changed.notify_one();
        }
    }

    /// Does what is due.
    pub(super) fn deliver(&self) {
        while let Some(link) = self.due() {
            link.progress();
        }
    }

    /// A link with something to do now. The lock is not held then: links have their own, which come first.
    fn due(&self) -> Option<Arc<Link>> {
        let next = self.next.load(Ordering::Acquire);
        if next == NEVER || next > self.now().get() {
            return None;
        }
        let mut agenda = self.lock();
        let mut found = None;
        while let Some(first) = agenda.links.first_entry().filter(|first| first.key().0 <= self.now())
            && found.is_none()
        {
            found = first.remove().upgrade();
        }
        self.note(&agenda);
        found
    }

    /// Sees to it that what is due is done though nobody polls.
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
            // It is changed under the lock alone: nothing is missed.
            let next = self.next.load(Ordering::Acquire);
            if next == NEVER {
                drop(self.changed.wait(agenda));
            } else {
                drop(self.changed.wait_timeout(agenda, Duration::from_nanos(next.saturating_sub(self.now().get()))));
            }
        }
    }

    /// Ends the thread. No link is there any more then, so it has nothing to do that could take long.
    pub(super) fn end(&self) {
        let mut agenda = self.lock();
        agenda.ended = true;
        let thread = agenda.thread.take();
        drop(agenda);
        self.changed.notify_one();
        // The thread itself ends the fabric where it had the last link of it in its hands.
        if let Some(thread) = thread.filter(|other| other.thread().id() != thread::current().id()) {
            // It has nothing to tell: a panic of its is one of a link's, which the others find in its lock.
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
