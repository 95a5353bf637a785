//! Worker threads for blocking work: files, walks, searches.
//!
//! Threads start on demand, up to a small maximum. If no thread can be started, the work runs on the
//! guest's main thread. So files can still be read and removed when commands have used up the process
//! limit.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

const MAX_THREADS: usize = 2;

/// Large, because removing folders recurses as deep as a hostile command made them. Only address space is
/// reserved.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// How long running work may continue when the guest ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

type WorkerTask = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct Workers {
    threads: RefCell<usize>,
    shared: Arc<SharedQueue>,
}

#[derive(Default)]
struct SharedQueue {
    queue: Mutex<WorkQueue>,
    arrived: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct WorkQueue {
    waiting: VecDeque<WorkerTask>,
    idle: usize,
    busy: usize,
    is_closed: bool,
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, WorkQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.waiting.pop_front() {
                queue.busy += 1;
                drop(queue);
                work();
                queue = self.lock();
                queue.busy -= 1;
                if queue.is_closed {
                    self.ended.notify_one();
                }
            } else {
                queue.idle += 1;
                queue = self
                    .arrived
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }
}

impl Workers {
    /// Starts all threads now, so that they get the lowest ids.
    pub(crate) fn start_all(&self) {
        for _ in 0..MAX_THREADS {
            self.add_thread();
        }
    }

    /// Runs `work` on a thread and waits for its result.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (done, result) = oneshot::channel();
        self.submit(move || {
            let _ = done.send(work());
        });
        result
            .await
            .expect("a worker runs every job to its end: panics abort")
    }

    /// Runs `work` on a thread without waiting for it.
    pub(crate) fn submit(&self, work: impl FnOnce() + Send + 'static) {
        let work: WorkerTask = Box::new(work);
        if !self.ensure_thread() {
            work();
            return;
        }
        self.shared.lock().waiting.push_back(work);
        self.shared.arrived.notify_one();
    }

    /// Starts one more thread if all are busy and the maximum is not reached. Returns whether there is a
    /// thread: commands may have used up the processes of the sandbox before the first one was needed.
    pub(crate) fn ensure_thread(&self) -> bool {
        if *self.threads.borrow() < MAX_THREADS && self.shared.lock().idle == 0 {
            self.add_thread();
        }
        *self.threads.borrow() > 0
    }

    fn add_thread(&self) {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        if thread.spawn(move || shared.serve()).is_ok() {
            *self.threads.borrow_mut() += 1;
        }
    }

    /// Drops queued work, and waits for running work so that it can clean up.
    pub(crate) fn end(&self) {
        let mut queue = self.shared.lock();
        queue.is_closed = true;
        let never_begun = std::mem::take(&mut queue.waiting);
        let _ = self
            .shared
            .ended
            .wait_timeout_while(queue, SHUTDOWN_TIMEOUT, |queue| queue.busy > 0);
        drop(never_begun);
    }
}
