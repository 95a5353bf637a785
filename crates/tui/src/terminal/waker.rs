//! Wakes the event loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Cheap to clone; all clones wake the same loop.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    event: EventFd,
    /// A wake-up is pending: no further write is needed.
    is_ringing: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(Arc::new(Inner {
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

    /// Clears the pending wake-up. Later calls of [`Waker::wake`] wake the loop again.
    pub(crate) fn quiet(&self) {
        if self.0.is_ringing.load(Ordering::Acquire) {
            let _ = self.0.event.read();
            self.0.is_ringing.store(false, Ordering::Release);
        }
    }
}

/// Wakes the loop so that it notices that all senders are gone.
impl Drop for Waker {
    fn drop(&mut self) {
        self.wake();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
