//! What a person wants at once: signals, which come at any time. Whoever waits, for input or for the
//! agent, is called. Entry type: [`Attention`].

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::commands::drive::INTERRUPTED;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// To stop what is under way.
    Interrupt,
    /// To leave, with this exit code.
    Leave(u8),
}

impl Wish {
    /// The exit code when both were asked for, in whichever order.
    fn code(self, other: Self) -> u8 {
        match (self, other) {
            (Self::Leave(code), _) | (_, Self::Leave(code)) => code,
            (Self::Interrupt, Self::Interrupt) => INTERRUPTED,
        }
    }
}

#[derive(Debug)]
pub(super) struct Attention {
    /// Not heard yet.
    wish: Mutex<Option<Wish>>,
    notify: Notify,
    /// Wakes who waits for input.
    call: UnixStream,
}

impl Attention {
    /// With the end that becomes readable when there is something.
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

    /// The wish that came, if one did.
    pub(super) fn take(&self) -> Option<Wish> {
        self.wish
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Waits for a wish. May be left and called again.
    pub(super) async fn wish(&self) -> Wish {
        loop {
            if let Some(wish) = self.take() {
                return wish;
            }
            self.notify.notified().await;
        }
    }

    /// Where nobody has heard the wish before, nobody will: this ends the process. The sandbox
    /// goes with it.
    fn want(&self, wish: Wish) {
        let before = {
            let mut place = self.wish.lock().unwrap_or_else(PoisonError::into_inner);
            place.replace(wish)
        };
        if let Some(before) = before {
            std::process::exit(wish.code(before).into());
        }
        self.notify.notify_one();
        // If it is full, the call is out already.
        let _ = (&self.call).write(&[0]);
    }
}

/// Listens to signals from now on. Wants a runtime.
pub(super) fn listen(attention: &Arc<Attention>) -> io::Result<()> {
    for (kind, wish) in [
        (SignalKind::interrupt(), Wish::Interrupt),
        (SignalKind::terminate(), Wish::Leave(143)),
        (SignalKind::hangup(), Wish::Leave(129)),
    ] {
        let mut signals = signal(kind)?;
        let attention = attention.clone();
        // Not joined: it listens as long as there is a process.
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                attention.want(wish);
            }
        });
    }
    Ok(())
}
