//! A panic gives the terminal back before its message is printed, whichever thread it was.

use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::guard;
use super::waker::Waker;

type Report = dyn Fn(&PanicHookInfo<'_>) + Sync + Send;

/// What is done at a panic, as long as this lives.
pub(super) struct Panics {
    has_panicked: Arc<AtomicBool>,
    before: Arc<Report>,
}

impl Panics {
    pub(super) fn watch(waker: &Waker) -> Self {
        let has_panicked = Arc::new(AtomicBool::new(false));
        let before: Arc<Report> = Arc::from(panic::take_hook());
        let (flag, report, waker) = (
            Arc::clone(&has_panicked),
            Arc::clone(&before),
            waker.clone(),
        );
        panic::set_hook(Box::new(move |info| {
            guard::restore();
            flag.store(true, Ordering::Release);
            // If it was another thread, the loop has to hear that the terminal is gone.
            waker.wake();
            report(info);
        }));
        Self {
            has_panicked,
            before,
        }
    }

    /// Whether any thread has.
    pub(super) fn have_been(&self) -> bool {
        self.has_panicked.load(Ordering::Acquire)
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        // A panicking thread may not change what is done at a panic.
        if !std::thread::panicking() {
            let before = Arc::clone(&self.before);
            panic::set_hook(Box::new(move |info| before(info)));
        }
    }
}
