//! The worker threads on which operations of the host's file system block.
//!
//! A system call may take as long as a disk takes, so no operation that may wait for one runs on
//! the thread of a connection. The number of threads is limited, and so is the number that works
//! for one object: a slow object delays no other one. Work that waits for the locks of two objects
//! counts for both.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{identity, sys};
use crate::file_system::FsResult;
use crate::handle::FileHandle;
use crate::nfs3::Nfsstat3;

/// The maximum number of threads.
const MAX_THREADS: usize = 64;
/// The maximum number of threads that work for one object.
const MAX_OF_ONE: usize = 8;
/// How long an idle thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);
/// How long a thread is idle before it tidies up.
const TIDY: Duration = Duration::from_secs(2);

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// The one or two objects that work is for.
#[derive(Clone, Copy)]
pub(super) struct Objects(FileHandle, Option<FileHandle>);

impl From<FileHandle> for Objects {
    fn from(object: FileHandle) -> Self {
        Self(object, None)
    }
}

impl Objects {
    /// Returns both objects, or one if they are the same.
    pub(super) fn both(one: FileHandle, other: FileHandle) -> Self {
        Self(one, (one != other).then_some(other))
    }

    fn iter(self) -> impl Iterator<Item = FileHandle> {
        std::iter::once(self.0).chain(self.1)
    }
}

struct Work {
    job: Job,
    objects: Objects,
}

/// The threads and their queue.
#[derive(Clone, Default)]
pub(super) struct Workers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Tidies up. Returns true if something is left for later.
    tidy: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Work>,
    /// The objects with running or ready work, and the work that must wait for them.
    busy: HashMap<FileHandle, Busy>,
    threads: usize,
    idle: usize,
    ended: bool,
    #[cfg(test)]
    submitted: usize,
}

#[derive(Default)]
struct Busy {
    /// The number of works that run or are ready.
    admitted: usize,
    /// Not empty only if no more work is admitted.
    waiting: VecDeque<Work>,
}

impl Busy {
    fn is_full(&self) -> bool {
        self.admitted >= MAX_OF_ONE
    }
}

impl State {
    /// Makes work ready, or lets it wait for one of its objects that has too much work. Meanwhile
    /// it counts for neither: it delays only work for the object that it waits for.
    fn admit(&mut self, work: Work) {
        for object in work.objects.iter() {
            if let Some(busy) = self.busy.get_mut(&object).filter(|busy| busy.is_full()) {
                busy.waiting.push_back(work);
                return;
            }
        }
        for object in work.objects.iter() {
            self.busy.entry(object).or_default().admitted += 1;
        }
        self.ready.push_back(work);
    }

    /// Makes the next work of each object ready after other work has ended.
    fn finish(&mut self, objects: Objects) {
        for object in objects.iter() {
            if let Some(busy) = self.busy.get_mut(&object) {
                busy.admitted -= 1;
            }
        }
        for object in objects.iter() {
            while let Some(work) = self.next_waiting(&object) {
                self.admit(work);
            }
            let is_idle = |busy: &Busy| busy.admitted == 0;
            if self.busy.get(&object).is_some_and(is_idle) {
                self.busy.remove(&object);
            }
        }
    }

    /// Returns the next work that waits for an object which has room for it.
    fn next_waiting(&mut self, object: &FileHandle) -> Option<Work> {
        let busy = self.busy.get_mut(object)?;
        (!busy.is_full()).then(|| busy.waiting.pop_front())?
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next work, or `None` if the thread is to end: then it is not counted any more.
    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        let mut waited = Duration::ZERO;
        loop {
            if let Some(work) = state.ready.pop_front() {
                return Some(work);
            }
            if state.ended || waited >= IDLE {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let woken = self.changed.wait_timeout(state, TIDY);
            let (woken, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() && state.ready.is_empty() {
                // The thread is no longer idle: new work needs another thread.
                state.idle -= 1;
                drop(state);
                let is_tidy = !self.tidy.as_ref().is_some_and(|tidy| tidy());
                state = self.lock();
                // One thread stays as long as there is something to tidy up.
                waited = if is_tidy || state.threads > 1 {
                    waited + TIDY
                } else {
                    Duration::ZERO
                };
                continue;
            }
            state.idle -= 1;
        }
    }

    /// Runs jobs until there has been none for some time, or until the thread cannot run more.
    fn work(self: &Arc<Self>) {
        // A thread without its own umask would create files with the umask of the process.
        let prepared = sys::clear_umask_of_thread().is_ok();
        // Without CAP_SYS_RESOURCE it fails, which matters only to clients on this host.
        let _ = sys::set_io_flusher();
        while let Some(Work { job, objects }) = self.next() {
            if prepared {
                // The caller notices a panic by the end of its channel.
                let _ = catch_unwind(AssertUnwindSafe(job));
            } else {
                drop(job);
            }
            let mut state = self.lock();
            state.finish(objects);
            if state.ready.len() > 1 {
                // This thread takes only one of them.
                self.employ(state);
            } else {
                drop(state);
            }
            if !prepared || identity::is_tainted() {
                self.lock().threads -= 1;
                break;
            }
        }
    }

    /// Lets another thread take the ready work.
    fn employ(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.ready.len() > state.idle && state.threads < MAX_THREADS {
            start(self, &mut state);
        }
        let is_any_idle = state.idle > 0;
        // The thread that wakes up takes the lock.
        drop(state);
        if is_any_idle {
            self.changed.notify_one();
        }
    }

    /// Starts another thread if work is left at the end of one.
    fn end(self: Arc<Self>) {
        let mut state = self.lock();
        let starts = !state.ready.is_empty() && state.idle == 0;
        if starts {
            start(&self, &mut state);
        }
    }
}

/// Starts a thread. If that fails, the work waits for the existing threads.
fn start(shared: &Arc<Shared>, state: &mut State) {
    let worker = shared.clone();
    let builder = std::thread::Builder::new().name("nfs-host".to_owned());
    let started = builder.spawn(move || {
        worker.work();
        worker.end();
    });
    if started.is_ok() {
        state.threads += 1;
    } else if state.threads == 0 {
        // There is no thread: dropping the work reports an error to its callers.
        state.ready.clear();
        state.busy.clear();
    }
}

/// The future of the result of work that was started. It does not contain the work: the server
/// moves the future of each call.
pub(super) enum Running<T> {
    /// The work is done. `None` after the result was taken.
    Done(Option<FsResult<T>>),
    /// A thread runs the work.
    Waiting(oneshot::Receiver<FsResult<T>>),
}

impl<T> Running<T> {
    /// Returns the future of a result that is known.
    pub(super) fn done(result: FsResult<T>) -> Self {
        Self::Done(Some(result))
    }
}

/// No field is pinned.
impl<T> Unpin for Running<T> {}

impl<T> Future for Running<T> {
    type Output = FsResult<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<FsResult<T>> {
        let lost = Err(Nfsstat3::Serverfault);
        match &mut *self {
            Self::Done(result) => Poll::Ready(result.take().unwrap_or(lost)),
            Self::Waiting(done) => Pin::new(done).poll(cx).map(|done| done.unwrap_or(lost)),
        }
    }
}

impl Workers {
    /// Creates the pool. Idle threads also call `tidy`, which returns true if something is left to
    /// tidy up later.
    pub(super) fn new(tidy: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            tidy: Some(Box::new(tidy)),
            ..Shared::default()
        }))
    }

    /// Runs work for objects on one of the threads. If the returned future is dropped, work that
    /// has begun is completed, and other work is not executed.
    pub(super) fn run<T: Send + 'static>(
        &self,
        objects: Objects,
        work: impl FnOnce() -> FsResult<T> + Send + 'static,
    ) -> Running<T> {
        let (result, done) = oneshot::channel();
        let job = Box::new(move || {
            if !result.is_closed() {
                // The caller may stop waiting meanwhile.
                let _ = result.send(work());
            }
        });
        self.submit(objects, job);
        Running::Waiting(done)
    }

    /// Starts a thread that tidies up, if there is none.
    pub(super) fn start_tidying(&self) {
        let mut state = self.0.lock();
        if state.threads == 0 {
            start(&self.0, &mut state);
        }
    }

    /// Runs work for objects on one of the threads.
    fn submit(&self, objects: Objects, job: Job) {
        let mut state = self.0.lock();
        #[cfg(test)]
        {
            state.submitted += 1;
        }
        state.admit(Work { job, objects });
        self.0.employ(state);
    }

    /// Returns how many works were submitted.
    #[cfg(test)]
    pub(super) fn submitted(&self) -> usize {
        self.0.lock().submitted
    }

    /// Lets the threads end when nothing is left to do.
    pub(super) fn end(&self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{Barrier, mpsc};

    use tokio::task::JoinHandle;

    use super::*;

    fn object(number: u8) -> FileHandle {
        FileHandle::new(&[number]).unwrap()
    }

    /// Returns work that waits until the other end of the channel is dropped.
    fn waiting() -> (mpsc::Sender<()>, impl Fn() -> FsResult<()> + Clone + Send) {
        let (unblock, blocked) = mpsc::channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        let wait = move || {
            let received = blocked.lock().unwrap().recv();
            received.map_err(|_| Nfsstat3::Jukebox)
        };
        (unblock, wait)
    }

    /// Begins to run work.
    fn spawn<T: Send + 'static>(
        workers: &Workers,
        objects: Objects,
        work: impl FnOnce() -> FsResult<T> + Send + 'static,
    ) -> JoinHandle<FsResult<T>> {
        let workers = workers.clone();
        tokio::spawn(async move { workers.run(objects, work).await })
    }

    /// Waits for work that was unblocked, until the threads have counted it as done: they do so
    /// after its caller has the result.
    async fn all_end(workers: &Workers, unblocked: Vec<JoinHandle<FsResult<()>>>) {
        for work in unblocked {
            assert_eq!(work.await.unwrap(), Err(Nfsstat3::Jukebox));
        }
        while !workers.0.lock().busy.is_empty() {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_slow_object_delays_no_other() {
        let (workers, (unblock, wait)) = (Workers::default(), waiting());
        let slow = (0..3 * MAX_THREADS).map(|_| spawn(&workers, object(0).into(), wait.clone()));
        let slow = slow.collect();
        tokio::task::yield_now().await;
        for number in 1..100 {
            let done = workers.run(object(number).into(), move || Ok(number)).await;
            assert_eq!(done, Ok(number));
        }
        let admitted = |state: &State| state.busy.get(&object(0)).map(|busy| busy.admitted);
        assert_eq!(admitted(&workers.0.lock()), Some(MAX_OF_ONE));
        drop(unblock);
        all_end(&workers, slow).await;
    }

    /// As renames from many directories to one that is slow, and from one of them again and again.
    #[tokio::test]
    async fn work_for_two_objects_counts_for_both() {
        let (workers, (unblock, wait)) = (Workers::default(), waiting());
        let sources = (1..=64).chain([100; 3 * MAX_OF_ONE]);
        let slow = sources.map(|source| {
            let both = match source % 2 {
                0 => Objects::both(object(source), object(0)),
                _ => Objects::both(object(0), object(source)),
            };
            spawn(&workers, both, wait.clone())
        });
        let slow = slow.collect();
        tokio::task::yield_now().await;
        assert_eq!(workers.0.lock().busy[&object(0)].admitted, MAX_OF_ONE);
        // Work that waits for the slow object delays no other.
        for source in (1..=64).chain([100]) {
            let other = workers.run(object(source).into(), || Ok(7));
            assert_eq!(other.await, Ok(7));
        }
        drop(unblock);
        all_end(&workers, slow).await;
    }

    #[tokio::test]
    async fn the_end_of_work_for_two_objects_lets_both_go_on() {
        let workers = Workers::default();
        let none = || Work {
            job: Box::new(|| ()),
            objects: Objects::both(object(0), object(1)),
        };
        // No thread takes these.
        {
            let mut state = workers.0.lock();
            (0..MAX_OF_ONE).for_each(|_| state.admit(none()));
            state.ready.clear();
        }
        // They wait for each other.
        let barrier = Arc::new(Barrier::new(2));
        let later = [0, 1].map(|number| {
            let barrier = barrier.clone();
            let work = move || {
                barrier.wait();
                Ok(())
            };
            spawn(&workers, object(number).into(), work)
        });
        tokio::task::yield_now().await;
        {
            let mut state = workers.0.lock();
            state.ready.push_back(none());
            workers.0.employ(state);
        }
        for later in later {
            assert_eq!(later.await.unwrap(), Ok(()));
        }
    }

    #[tokio::test]
    async fn work_without_a_caller_does_not_begin() {
        let (workers, (unblock, wait)) = (Workers::default(), waiting());
        let slow = (0..MAX_OF_ONE).map(|_| spawn(&workers, object(0).into(), wait.clone()));
        let slow = slow.collect();
        tokio::task::yield_now().await;
        let executed = Arc::new(AtomicBool::new(false));
        let later = {
            let executed = executed.clone();
            let work = move || {
                executed.store(true, Relaxed);
                Ok(())
            };
            spawn(&workers, object(0).into(), work)
        };
        tokio::task::yield_now().await;
        later.abort();
        assert!(later.await.unwrap_err().is_cancelled());
        drop(unblock);
        all_end(&workers, slow).await;
        assert!(!executed.load(Relaxed));
    }

    #[tokio::test]
    async fn a_panic_fails_only_its_own_work() {
        let workers = Workers::default();
        for _ in 0..2 * MAX_OF_ONE {
            let panics = || -> FsResult<()> { panic!("expected by a test") };
            let failed = workers.run(object(0).into(), panics).await;
            assert_eq!(failed, Err(Nfsstat3::Serverfault));
        }
        assert_eq!(workers.run(object(0).into(), || Ok(7)).await, Ok(7));
    }

    #[tokio::test]
    async fn the_number_of_threads_is_limited() {
        let (workers, (unblock, wait)) = (Workers::default(), waiting());
        let all = (0..200).map(|number| spawn(&workers, object(number).into(), wait.clone()));
        let all = all.collect();
        tokio::task::yield_now().await;
        assert!(workers.0.lock().threads <= MAX_THREADS);
        drop(unblock);
        all_end(&workers, all).await;
    }
}
