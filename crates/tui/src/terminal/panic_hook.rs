//! Restores the terminal on a panic of any thread, before the panic message is printed.

use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::guard;
use super::waker::LoopWaker;

type PanicHook = dyn Fn(&PanicHookInfo<'_>) + Sync + Send;

/// Keeps the panic hook installed as long as this lives.
pub(super) struct PanicHookGuard {
    has_panicked: Arc<AtomicBool>,
    before: Arc<PanicHook>,
}

impl PanicHookGuard {
    pub(super) fn watch(waker: &LoopWaker) -> Self {
        let has_panicked = Arc::new(AtomicBool::new(false));
        let before: Arc<PanicHook> = Arc::from(panic::take_hook());
        let (flag, report, waker) = (
            Arc::clone(&has_panicked),
            Arc::clone(&before),
            waker.clone(),
        );
        panic::set_hook(Box::new(move |info| {
            guard::restore_terminal();
            flag.store(true, Ordering::Release);
            // If it was another thread, the loop must learn that the terminal has been restored.
            waker.wake();
            report(info);
        }));
        Self {
            has_panicked,
            before,
        }
    }

    /// Whether any thread has panicked.
    pub(super) fn have_been(&self) -> bool {
        self.has_panicked.load(Ordering::Acquire)
    }
}

impl Drop for PanicHookGuard {
    fn drop(&mut self) {
        // A panicking thread must not change the hook.
        if !std::thread::panicking() {
            let before = Arc::clone(&self.before);
            panic::set_hook(Box::new(move |info| before(info)));
        }
    }
}
