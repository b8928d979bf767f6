//! Completion queues, which make progress on the sockets of their queue pairs. They decide when a
//! queue pair runs: after an event of its socket, when it is marked or its time has come, or by
//! prediction. `queue_pair` decides what it does.
//!
//! Events of sockets are edge-triggered: a queue pair that returns `goes_on` false has emptied its
//! socket, or waits for a mark or for its time. A thread locks `io` first, then one queue pair,
//! then one of the other locks of this module. `io` is taken by `try_lock` only: a thread that
//! finds it locked leaves the progress to its holder.

use std::collections::VecDeque;
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::timers::Timers;
use crate::number_map::NumberMap;
use crate::provider::common::completions::{CompletionBuffer, CompletionEntry};
use crate::provider::common::wakeup::{quiet, system, wake, waker};
use crate::provider::{self, Completion, Result};

/// A completion queue of iWARP over TCP.
///
/// The sockets of its queue pairs make progress when it is polled. Its descriptor is also readable
/// if one of the sockets is ready.
#[derive(Debug)]
pub struct IwarpCompletionQueue {
    pub(super) shared: Arc<Completions>,
}

/// A queue pair that makes progress when its completion queue is polled.
pub(super) trait SocketUser: fmt::Debug + Send + Sync {
    /// Receives from the socket, and sends as much as the socket accepts. If the peer `has_ended`
    /// the stream, no further event reports its end.
    fn progress(&self, staging: &mut [u8], has_ended: bool) -> ProgressOutcome;
}

/// The outcome of a step of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgressOutcome {
    /// Whether there is more to do.
    pub(super) goes_on: bool,
    /// Whether the socket had data.
    pub(super) has_received: bool,
}

#[derive(Debug)]
pub(super) struct Completions {
    buffer: Mutex<CompletionBuffer>,
    epoll: OwnedFd,
    wake: OwnedFd,
    /// Expires at the first of the times.
    timer: OwnedFd,
    /// When queue pairs have waited too long, either for a receive or for their peers.
    timers: Mutex<Timers>,
    queue_pairs: Mutex<NumberMap<u32, Weak<dyn SocketUser>>>,
    io: Mutex<Io>,
    /// Queue pairs that must continue without an event of their sockets.
    marked: Mutex<Vec<u32>>,
    has_marked: AtomicBool,
}

#[derive(Debug)]
struct Io {
    /// Queue pairs whose sockets may be ready, and whether the peer has ended the stream. Each has
    /// one turn in the next poll.
    ready: Vec<(u32, bool)>,
    /// Those that have their turn, and none between two polls.
    turn: Vec<(u32, bool)>,
    staging: Box<[u8]>,
    predictor: ReadPredictor,
}

/// Predicts which socket has data, to save a system call.
///
/// If the same socket had data in each of the last polls, it is read without a call of
/// `epoll_wait`. If it has no data, the poll calls `epoll_wait`.
#[derive(Default, Debug)]
struct ReadPredictor {
    /// The only queue pair that received in the last poll.
    last: Option<u32>,
    /// The number of successive polls in which it did.
    polls: u32,
    /// The number of polls since the last call of `epoll_wait`.
    unasked: u32,
}

/// The number of polls after which a queue pair is predicted.
const GUESSED: u32 = 3;

/// The maximum polls without `epoll_wait`: other sockets may be ready.
const UNASKED: u32 = 8;

impl ReadPredictor {
    /// Returns the queue pair to read from without `epoll_wait`.
    fn next(&mut self) -> Option<u32> {
        let predictor = self.last.filter(|_| self.polls >= GUESSED)?;
        self.unasked += 1;
        (self.unasked <= UNASKED).then_some(predictor)
    }

    /// Records which queue pairs received in a poll.
    fn learn(&mut self, received: Option<u32>, are_others: bool) {
        let alone = received.filter(|_| !are_others);
        let is_same = alone.is_some() && alone == self.last;
        self.polls = if is_same {
            self.polls.saturating_add(1)
        } else {
            0
        };
        self.last = alone;
    }
}

/// The tokens of the descriptors that are not sockets. Queue pairs have smaller numbers.
const WAKE: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// The flags that show that the stream was ended by the peer, or was lost.
const ENDED: EventFlags = EventFlags::RDHUP
    .union(EventFlags::HUP)
    .union(EventFlags::ERR);

/// The buffer size for small messages in one system call.
const STAGING: usize = 1 << 14;

/// The maximum sockets that one system call reports.
pub(super) const EVENTS: usize = 64;

/// Leaves one entry for each queue pair. A peer that sends without a pause would otherwise add one
/// in each poll.
fn merge(ready: &mut Vec<(u32, bool)>) {
    ready.sort_unstable();
    ready.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        earlier.1 |= is_same && later.1;
        is_same
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a descriptor that becomes readable at a time.
pub(super) fn timer(verb: &'static str) -> Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    timerfd_create(TimerfdClockId::Monotonic, flags).map_err(system(verb))
}

/// Returns the ready descriptors, without waiting.
pub(super) fn ready<'a>(
    epoll: &OwnedFd,
    events: &'a mut [MaybeUninit<epoll::Event>; EVENTS],
) -> &'a [epoll::Event] {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // It fails if a signal interrupts it: the next poll repeats the call.
    epoll::wait(epoll, events, Some(&now)).map_or(&[], |(events, _)| events)
}

/// Makes the descriptor readable after a time.
pub(super) fn set_timer(timer: &OwnedFd, after: Duration) {
    let it_value = Timespec {
        tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(after.subsec_nanos().max(1)),
    };
    let it_interval = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let value = Itimerspec {
        it_interval,
        it_value,
    };
    // It fails only for invalid times.
    let _ = timerfd_settime(timer, TimerfdTimerFlags::empty(), &value);
}

impl Completions {
    pub(super) fn new(most: u32) -> Result<Arc<Self>> {
        let verb = "completion_queue";
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(system(verb))?;
        let wake = waker(verb)?;
        let timer = timer(verb)?;
        // A wake-up lasts until it is acknowledged, even if another thread makes progress.
        let descriptors = [
            (&wake, WAKE, EventFlags::IN),
            (&timer, TIMER, EventFlags::IN | EventFlags::ET),
        ];
        for (descriptor, token, flags) in descriptors {
            let added = epoll::add(&epoll, descriptor, EventData::new_u64(token), flags);
            added.map_err(system(verb))?;
        }
        let io = Io {
            ready: Vec::new(),
            turn: Vec::new(),
            staging: vec![0; STAGING].into(),
            predictor: ReadPredictor::default(),
        };
        Ok(Arc::new(Self {
            buffer: Mutex::new(CompletionBuffer::new(most)),
            epoll,
            wake,
            timer,
            timers: Mutex::default(),
            queue_pairs: Mutex::default(),
            io: Mutex::new(io),
            marked: Mutex::default(),
            has_marked: AtomicBool::new(false),
        }))
    }

    /// Watches the socket of a connected queue pair.
    pub(super) fn add(
        &self,
        user: Weak<dyn SocketUser>,
        number: u32,
        socket: &OwnedFd,
    ) -> Result<()> {
        lock(&self.queue_pairs).insert(number, user);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let token = EventData::new_u64(number.into());
        epoll::add(&self.epoll, socket, token, flags).map_err(system("epoll"))
    }

    /// Removes a queue pair, whose socket is closed.
    pub(super) fn remove(&self, number: u32) {
        lock(&self.queue_pairs).remove(&number);
        lock(&self.timers).remove(number);
    }

    /// Makes the next poll process a queue pair.
    pub(super) fn mark(&self, number: u32) {
        lock(&self.marked).push(number);
        self.has_marked.store(true, Ordering::Release);
        self.wake_if_armed(&mut lock(&self.buffer));
    }

    /// Makes a poll process a queue pair after a time, unless an earlier time is set.
    pub(super) fn set_timer(&self, number: u32, after: Duration) {
        // Beyond what the clock can count there is no limit.
        let Some(at) = Instant::now().checked_add(after) else {
            return;
        };
        let mut timers = lock(&self.timers);
        if timers.set(number, at) {
            set_timer(&self.timer, after);
        }
    }

    fn wake_if_armed(&self, buffer: &mut CompletionBuffer) {
        if buffer.is_armed() {
            buffer.set_armed(false);
            wake(&self.wake);
        }
    }

    /// Wakes the thread that armed the queue if there is work, even if the work arrived before the
    /// arming. Another thread that makes progress calls this afterwards.
    fn wake_if_ready(&self) {
        let has_ready = || self.io.try_lock().is_ok_and(|io| !io.ready.is_empty());
        if self.has_marked.load(Ordering::Acquire) || has_ready() {
            self.wake_if_armed(&mut lock(&self.buffer));
        }
    }

    /// Takes all entries. Completions without room are lost, and the queue has overrun.
    pub(super) fn extend(&self, entries: &mut VecDeque<CompletionEntry>) {
        let mut buffer = lock(&self.buffer);
        buffer.extend(entries);
        self.wake_if_armed(&mut buffer);
    }

    fn queue_pair(&self, number: u32) -> Option<Arc<dyn SocketUser>> {
        lock(&self.queue_pairs).get(&number).and_then(Weak::upgrade)
    }

    /// Collects the sockets that have become ready.
    fn gather(&self, io: &mut Io) {
        // A socket is reported once. Only other reasons can add a queue pair again.
        let mut may_repeat = !io.ready.is_empty();
        for event in ready(&self.epoll, &mut [const { MaybeUninit::uninit() }; EVENTS]) {
            match event.data.u64() {
                WAKE => {}
                TIMER => {
                    self.expire(&mut io.ready);
                    may_repeat = true;
                }
                // Other tokens are numbers of queue pairs.
                token => {
                    let flags = event.flags;
                    io.ready.push((token as u32, flags.intersects(ENDED)));
                }
            }
        }
        if self.has_marked.swap(false, Ordering::AcqRel) {
            io.ready
                .extend(lock(&self.marked).drain(..).map(|number| (number, false)));
            may_repeat = true;
        }
        if may_repeat {
            merge(&mut io.ready);
        }
    }

    /// Processes the queue pairs that have waited too long.
    fn expire(&self, ready: &mut Vec<(u32, bool)>) {
        let mut timers = lock(&self.timers);
        let now = Instant::now();
        while let Some(number) = timers.take_expired(now) {
            ready.push((number, false));
        }
        if let Some(next) = timers.first() {
            set_timer(&self.timer, next.saturating_duration_since(now));
        }
    }

    /// Makes progress on the ready queue pairs. Returns true if one has received.
    fn serve(&self, io: &mut Io) -> bool {
        let (mut received, mut are_others) = (None, false);
        std::mem::swap(&mut io.ready, &mut io.turn);
        for (number, has_ended) in io.turn.drain(..) {
            let Some(qp) = self.queue_pair(number) else {
                continue;
            };
            let progressed = qp.progress(&mut io.staging, has_ended);
            if progressed.goes_on {
                io.ready.push((number, has_ended));
            }
            if progressed.has_received {
                are_others |= received.is_some();
                received = Some(number);
            }
        }
        io.predictor.learn(received, are_others);
        received.is_some()
    }

    /// Consumes the events of sockets that were read by prediction, so that they do not wake the
    /// next waiting thread.
    fn catch_up(&self) {
        let has_unasked = |io: MutexGuard<'_, Io>| io.predictor.unasked > 0;
        if self.io.try_lock().is_ok_and(has_unasked) {
            if let Ok(mut io) = self.io.try_lock() {
                io.predictor = ReadPredictor::default();
            }
            self.progress();
        }
    }

    /// Makes progress on the ready sockets. Does nothing if another thread does so.
    pub(super) fn progress(&self) {
        let Ok(mut guard) = self.io.try_lock() else {
            return;
        };
        let io = &mut *guard;
        let is_quiet = io.ready.is_empty() && !self.has_marked.load(Ordering::Acquire);
        let predictor = is_quiet.then(|| io.predictor.next()).flatten();
        io.ready.extend(predictor.map(|number| (number, false)));
        if predictor.is_none() || !self.serve(io) {
            self.gather(io);
            io.predictor.unasked = 0;
            self.serve(io);
        }
        let is_ready = !io.ready.is_empty();
        drop(guard);
        // A thread that armed the queue before this found it locked, and relies on this call. A
        // thread that arms it later finds it unlocked.
        if is_ready {
            self.wake_if_armed(&mut lock(&self.buffer));
        }
    }
}

impl provider::CompletionQueue for IwarpCompletionQueue {
    fn poll(&self, completions: &mut Vec<Completion>, most: usize) -> Result<usize> {
        let mut buffer = lock(&self.shared.buffer);
        if !buffer.is_empty() {
            return buffer.poll(completions, most);
        }
        // The completions that this poll returns need not wake the polling thread.
        let armed = buffer.is_armed();
        buffer.set_armed(false);
        drop(buffer);
        self.shared.progress();
        let mut buffer = lock(&self.shared.buffer);
        let count = buffer.poll(completions, most);
        if armed {
            // Another thread may have added completions while the queue was not armed.
            buffer.set_armed(true);
            if !buffer.is_empty() {
                self.shared.wake_if_armed(&mut buffer);
            }
            drop(buffer);
            self.shared.wake_if_ready();
        }
        count
    }

    fn arm(&self) -> Result<()> {
        self.shared.catch_up();
        lock(&self.shared.buffer).set_armed(true);
        self.shared.wake_if_ready();
        Ok(())
    }

    fn acknowledge(&self) -> Result<()> {
        lock(&self.shared.buffer).set_armed(false);
        quiet(&self.shared.wake);
        if let Ok(mut io) = self.shared.io.try_lock() {
            self.shared.gather(&mut io);
        }
        self.shared.wake_if_ready();
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// A queue pair whose peer sends faster than it receives. It counts its turns.
    #[derive(Debug, Default)]
    struct Busy(AtomicU32);

    impl SocketUser for Busy {
        fn progress(&self, _: &mut [u8], _: bool) -> ProgressOutcome {
            self.0.fetch_add(1, Ordering::Relaxed);
            ProgressOutcome {
                goes_on: true,
                has_received: true,
            }
        }
    }

    /// Otherwise each poll of a flooded queue takes longer than the one before.
    #[test]
    fn a_busy_queue_pair_has_one_turn_in_each_poll() {
        let queue = Completions::new(8).unwrap();
        let busy = Arc::new(Busy::default());
        let (mut peer, socket) = UnixStream::pair().unwrap();
        let socket = OwnedFd::from(socket);
        let user: Weak<dyn SocketUser> = Arc::<Busy>::downgrade(&busy);
        queue.add(user, 7, &socket).unwrap();
        for polls in 1..=32 {
            peer.write_all(b"more").unwrap();
            queue.mark(7);
            queue.mark(7);
            queue.set_timer(7, Duration::ZERO);
            queue.progress();
            assert_eq!(busy.0.load(Ordering::Relaxed), polls);
        }
    }
}
