//! Wakes the event loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Cheap to clone; all clones wake the same loop.
#[derive(Debug, Clone)]
pub(crate) struct LoopWaker(Arc<WakerInner>);

#[derive(Debug)]
struct WakerInner {
    event: EventFd,
    /// A wake-up is pending: no further write is needed.
    is_ringing: AtomicBool,
}

impl LoopWaker {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(Arc::new(WakerInner {
            event: EventFd::from_flags(flags)?,
            is_ringing: AtomicBool::new(false),
        })))
    }

    pub(crate) fn wake(&self) {
        if !self.0.is_ringing.swap(true, Ordering::AcqRel) {
            // Fails only if the counter is full, and then the wake-up is already pending.
            let _ = self.0.event.write(1);
        }
    }

    /// Clears the pending wake-up. Later calls of [`LoopWaker::wake`] wake the loop again.
    pub(crate) fn reset(&self) {
        if self.0.is_ringing.load(Ordering::Acquire) {
            let _ = self.0.event.read();
            self.0.is_ringing.store(false, Ordering::Release);
        }
    }
}

/// Wakes the loop so that it notices that all senders are gone.
impl Drop for LoopWaker {
    fn drop(&mut self) {
        self.wake();
    }
}

impl AsFd for LoopWaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
