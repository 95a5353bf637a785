//! Waits for child processes, with a timeout.

use std::os::fd::AsFd;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::oneshot;
use walls::ProcessHandle;

use crate::start_progress;

/// How long a killed process may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Waits for a process to end and reaps it. Returns whether it ended in time. Blocks.
pub(crate) fn wait_with_timeout(child: &mut Child, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    // The process is not reaped yet, so its pid cannot have been reused.
    let watched = ProcessHandle::open(child.id() as i32);
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return true,
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        match &watched {
            Ok(watched) => wait_for(watched, left),
            Err(_) => std::thread::sleep(left.min(Duration::from_millis(5))),
        }
    }
}

/// Waits until a process has ended or the timeout is over. Blocks.
pub(crate) fn wait_for(process: &ProcessHandle, limit: Duration) {
    let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
    let _ = poll(
        &mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)],
        timeout,
    );
}

/// Like [`wait_with_timeout`], but kills the process after the timeout. Blocks.
pub(crate) fn wait_or_kill(child: &mut Child, limit: Duration) -> bool {
    if wait_with_timeout(child, limit) {
        return true;
    }
    let _ = child.kill();
    wait_with_timeout(child, KILL_TIMEOUT)
}

/// Runs blocking work on its own thread, and waits for it. Unlike the runtime's blocking threads, a
/// stuck thread does not keep the runtime from shutting down.
pub(crate) async fn run_on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, done) = oneshot::channel();
    start_progress::take_down_on_thread(move || {
        let _ = sender.send(work());
    });
    done.await.ok()
}
