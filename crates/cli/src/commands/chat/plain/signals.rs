//! Signals, which arrive at any time and wake the code that waits for input or for the agent. Entry
//! type: [`SignalInbox`].

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::commands::run_command::INTERRUPTED;

/// What a signal requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChatSignal {
    /// Stop the current work.
    Interrupt,
    /// Exit with this code.
    Leave(u8),
}

impl ChatSignal {
    /// The exit code when both were requested, in either order.
    fn code(self, other: Self) -> u8 {
        match (self, other) {
            (Self::Leave(code), _) | (_, Self::Leave(code)) => code,
            (Self::Interrupt, Self::Interrupt) => INTERRUPTED,
        }
    }
}

#[derive(Debug)]
pub(super) struct SignalInbox {
    /// Not handled yet.
    wish: Mutex<Option<ChatSignal>>,
    notify: Notify,
    /// Wakes the reader of the input.
    call: UnixStream,
}

impl SignalInbox {
    /// Also returns the stream that becomes readable when a signal arrives.
    pub(super) fn new() -> io::Result<(Self, UnixStream)> {
        let (call, called) = UnixStream::pair()?;
        call.set_nonblocking(true)?;
        called.set_nonblocking(true)?;
        let attention = Self {
            wish: Mutex::new(None),
            notify: Notify::new(),
            call,
        };
        Ok((attention, called))
    }

    /// Takes the pending request, if there is one.
    pub(super) fn take(&self) -> Option<ChatSignal> {
        self.wish
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Waits for a request. Cancel safe.
    pub(super) async fn wish(&self) -> ChatSignal {
        loop {
            if let Some(wish) = self.take() {
                return wish;
            }
            self.notify.notified().await;
        }
    }

    /// If the previous request is still unhandled, the program is stuck: this ends the process and the
    /// sandbox with it.
    fn request(&self, wish: ChatSignal) {
        let before = {
            let mut place = self.wish.lock().unwrap_or_else(PoisonError::into_inner);
            place.replace(wish)
        };
        if let Some(before) = before {
            std::process::exit(wish.code(before).into());
        }
        self.notify.notify_one();
        // If the stream is full, a wake-up is already pending.
        let _ = (&self.call).write(&[0]);
    }
}

/// Starts to listen for signals. Requires a runtime.
pub(super) fn listen(attention: &Arc<SignalInbox>) -> io::Result<()> {
    for (kind, wish) in [
        (SignalKind::interrupt(), ChatSignal::Interrupt),
        (SignalKind::terminate(), ChatSignal::Leave(143)),
        (SignalKind::hangup(), ChatSignal::Leave(129)),
    ] {
        let mut signals = signal(kind)?;
        let attention = attention.clone();
        // Not joined: listens for the lifetime of the process.
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                attention.request(wish);
            }
        });
    }
    Ok(())
}
