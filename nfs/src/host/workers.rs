//! The worker threads on which operations of the host's file system block.
//!
//! A system call may take as long as a disk takes, so no operation that may wait for one runs on
//! the thread of a connection. The number of threads is limited, and so is the number that works
//! for one object: a slow object delays no other one.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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
    ready: VecDeque<(FileHandle, Job)>,
    /// The objects with running or ready work, and their work that must wait.
    busy: HashMap<FileHandle, Busy>,
    threads: usize,
    idle: usize,
    ended: bool,
    #[cfg(test)]
    submitted: usize,
}

#[derive(Default)]
struct Busy {
    running: usize,
    waiting: VecDeque<Job>,
}

impl State {
    fn add(&mut self, object: FileHandle, job: Job) {
        let busy = self.busy.entry(object).or_default();
        if busy.running < MAX_OF_ONE {
            busy.running += 1;
            self.ready.push_back((object, job));
        } else {
            busy.waiting.push_back(job);
        }
    }

    /// Makes the next work of an object ready after other work of it has ended.
    fn finish(&mut self, object: FileHandle) {
        let Some(busy) = self.busy.get_mut(&object) else {
            return;
        };
        if let Some(job) = busy.waiting.pop_front() {
            self.ready.push_back((object, job));
            return;
        }
        busy.running -= 1;
        if busy.running == 0 {
            self.busy.remove(&object);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next work, or `None` if the thread is to end: then it is not counted any more.
    fn next(&self) -> Option<(FileHandle, Job)> {
        let mut state = self.lock();
        let mut waited = Duration::ZERO;
        loop {
            if let Some(job) = state.ready.pop_front() {
                return Some(job);
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
    fn work(&self) {
        // A thread without its own umask would create files with the umask of the process.
        let prepared = sys::clear_umask_of_thread().is_ok();
        while let Some((object, job)) = self.next() {
            if prepared {
                // The caller notices a panic by the end of its channel.
                let _ = catch_unwind(AssertUnwindSafe(job));
            } else {
                drop(job);
            }
            self.lock().finish(object);
            if !prepared || identity::is_tainted() {
                self.lock().threads -= 1;
                break;
            }
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

impl Workers {
    /// Creates the pool. Idle threads also call `tidy`, which returns true if something is left to
    /// tidy up later.
    pub(super) fn new(tidy: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            tidy: Some(Box::new(tidy)),
            ..Shared::default()
        }))
    }

    /// Runs work for an object on one of the threads, and waits for it. Work that has begun is
    /// completed, even if the future is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        object: &FileHandle,
        work: impl FnOnce() -> FsResult<T> + Send + 'static,
    ) -> FsResult<T> {
        let (result, done) = oneshot::channel();
        // The caller may have stopped waiting.
        let job = Box::new(move || drop(result.send(work())));
        self.submit(*object, job);
        done.await.unwrap_or(Err(Nfsstat3::Serverfault))
    }

    /// Starts a thread that tidies up, if there is none.
    pub(super) fn start_tidying(&self) {
        let mut state = self.0.lock();
        if state.threads == 0 {
            start(&self.0, &mut state);
        }
    }

    /// Runs work for an object on one of the threads.
    pub(super) fn submit(&self, object: FileHandle, job: Job) {
        let mut state = self.0.lock();
        #[cfg(test)]
        {
            state.submitted += 1;
        }
        state.add(object, job);
        if state.ready.len() > state.idle && state.threads < MAX_THREADS {
            start(&self.0, &mut state);
        }
        drop(state);
        self.0.changed.notify_one();
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
    use std::sync::mpsc;

    use super::*;

    fn object(number: u8) -> FileHandle {
        FileHandle::new(&[number]).unwrap()
    }

    #[tokio::test]
    async fn a_slow_object_delays_no_other() {
        let (workers, (unblock, blocked)) = (Workers::default(), mpsc::channel::<()>());
        let blocked = Arc::new(Mutex::new(blocked));
        let slow: Vec<_> = (0..3 * MAX_THREADS)
            .map(|_| {
                let (workers, blocked) = (workers.clone(), blocked.clone());
                tokio::spawn(async move {
                    // They end when the other end of the channel is dropped.
                    let wait = move || {
                        let received = blocked.lock().unwrap().recv();
                        received.map_err(|_| Nfsstat3::Jukebox)
                    };
                    workers.run(&object(0), wait).await
                })
            })
            .collect();
        tokio::task::yield_now().await;
        for number in 1..100 {
            let done = workers.run(&object(number), move || Ok(number)).await;
            assert_eq!(done, Ok(number));
        }
        let running = |state: &State| state.busy.get(&object(0)).map(|busy| busy.running);
        assert_eq!(running(&workers.0.lock()), Some(MAX_OF_ONE));
        drop(unblock);
        for slow in slow {
            assert_eq!(slow.await.unwrap(), Err(Nfsstat3::Jukebox));
        }
        // A thread counts its work as done after its caller has the result.
        while !workers.0.lock().busy.is_empty() {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_panic_fails_only_its_own_work() {
        let workers = Workers::default();
        for _ in 0..2 * MAX_OF_ONE {
            let panics = || -> FsResult<()> { panic!("expected by a test") };
            let failed = workers.run(&object(0), panics).await;
            assert_eq!(failed, Err(Nfsstat3::Serverfault));
        }
        assert_eq!(workers.run(&object(0), || Ok(7)).await, Ok(7));
    }

    #[tokio::test]
    async fn the_number_of_threads_is_limited() {
        let (workers, (unblock, blocked)) = (Workers::default(), mpsc::channel::<()>());
        let blocked = Arc::new(Mutex::new(blocked));
        let all: Vec<_> = (0..200)
            .map(|number| {
                let (workers, blocked) = (workers.clone(), blocked.clone());
                tokio::spawn(async move {
                    let wait = move || {
                        let received = blocked.lock().unwrap().recv();
                        received.map_err(|_| Nfsstat3::Jukebox)
                    };
                    workers.run(&object(number), wait).await
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(workers.0.lock().threads <= MAX_THREADS);
        drop(unblock);
        for one in all {
            assert_eq!(one.await.unwrap(), Err(Nfsstat3::Jukebox));
        }
    }
}
