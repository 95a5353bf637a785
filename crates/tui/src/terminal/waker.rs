//! Wakes the UI while it waits for keys.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Cheap to clone; all clones wake the same.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    event: EventFd,
    /// Woken, and not yet awake: once is enough.
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
            // It can only fail by being full, and then it rings already.
            let _ = self.0.event.write(1);
        }
    }

    /// From now on, a call of [`Waker::wake`] counts again.
    pub(crate) fn quiet(&self) {
        if self.0.is_ringing.load(Ordering::Acquire) {
            let _ = self.0.event.read();
            self.0.is_ringing.store(false, Ordering::Release);
        }
    }
}

/// The UI has to hear that nobody will tell it anything any more.
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
