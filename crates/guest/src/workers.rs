//! Threads for work that blocks: files, walks, searches.
//!
//! A fixed few, all started before the first command: a sandbox whose commands have used up
//! the process limit can still be read and cleaned.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

const THREADS: usize = 2;

/// Each thread needs little: no recursion goes deep here.
const STACK: usize = 256 * 1024;

type Work = Box<dyn FnOnce() + Send>;

#[derive(Clone)]
pub(crate) struct Workers {
    queue: mpsc::Sender<Work>,
}

impl Workers {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (queue, work) = mpsc::channel::<Work>();
        let work = Arc::new(Mutex::new(work));
        for _ in 0..THREADS {
            let work = work.clone();
            std::thread::Builder::new()
                .stack_size(STACK)
                .spawn(move || {
                    loop {
                        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        match next {
                            Ok(job) => job(),
                            Err(_) => return,
                        }
                    }
                })?;
        }
        Ok(Self { queue })
    }

    /// Runs `work` on a thread and waits for its result.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (done, result) = oneshot::channel();
        self.start_work(move || {
            let _ = done.send(work());
        });
        result
            .await
            .expect("a worker runs every job to its end: panics abort")
    }

    /// Runs `work` on a thread without waiting for it.
    pub(crate) fn start_work(&self, work: impl FnOnce() + Send + 'static) {
        self.queue
            .send(Box::new(work))
            .expect("the workers live as long as the guest");
    }
}
