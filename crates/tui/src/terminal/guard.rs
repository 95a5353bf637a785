//! Switches the terminal to the UI's mode, and restores it however the program ends.
//!
//! The state is global to the process, because a panic of any thread has to restore the terminal,
//! and nothing may be drawn after that. Entry type: [`TerminalGuard`].

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

/// Alternate screen; bracketed paste; mouse presses and wheel; xterm's modifyOtherKeys. The final
/// reset is for terminals that take modifyOtherKeys for a colour.
const ENTER: &str = "\x1b[?1049h\x1b[?2004h\x1b[?1000h\x1b[?1006h\x1b[>4;1m\x1b[0m";
/// Kitty's keyboard protocol. The terminal keeps a stack, so this is sent only once.
const PUSH_KITTY_KEYS: &str = "\x1b[>1u";
/// Undoes all of that and ends a frame that was cut short. Terminals that do not know these
/// sequences may print parts of them, so the screen is cleared after.
const LEAVE: &str = "\x1b[?2026l\x1b[>4;0m\x1b[<u\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[0m\x1b[2J\
                     \x1b[?1049l\x1b[?25h";

/// The original settings, while the UI owns the terminal.
static SAVED_TERMIOS: Mutex<Option<Termios>> = Mutex::new(None);

/// The UI owns the terminal as long as this lives.
#[derive(Debug)]
pub(super) struct TerminalGuard(());

impl TerminalGuard {
    pub(super) fn enter() -> io::Result<Self> {
        take_terminal()?;
        Ok(Self(()))
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Takes the terminal, for the first time or again.
pub(super) fn take_terminal() -> io::Result<()> {
    let mut taken = lock();
    let input = io::stdin();
    if !io::stdout().is_terminal() {
        return Err(Errno::ENOTTY.into());
    }
    let before = tcgetattr(&input)?;
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    // TCSANOW keeps what was typed ahead.
    tcsetattr(&input, SetArg::TCSANOW, &raw)?;
    let once = match taken.replace(before) {
        None => PUSH_KITTY_KEYS,
        Some(first) => {
            *taken = Some(first);
            ""
        }
    };
    write_all(format!("{ENTER}{once}\x1b[2J").as_bytes())
}

/// Restores the terminal. Does nothing if the UI does not own it, and waits at most 500 ms for the
/// lock.
pub(super) fn restore_terminal() {
    let give_up = Instant::now() + Duration::from_millis(500);
    let mut taken = loop {
        match SAVED_TERMIOS.try_lock() {
            Ok(taken) => break Some(taken),
            Err(TryLockError::Poisoned(taken)) => break Some(taken.into_inner()),
            // A frame is being written, or the write is blocked by a terminal that does not read.
            Err(TryLockError::WouldBlock) if Instant::now() > give_up => break None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let before = taken.as_mut().and_then(|taken| taken.take());
    if let Some(before) = before {
        let _ = write_all(LEAVE.as_bytes());
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &before);
    }
}

/// Writes to the terminal, if the UI owns it.
pub(super) fn write(bytes: &[u8]) -> io::Result<()> {
    match *lock() {
        Some(_) => write_all(bytes),
        None => Ok(()),
    }
}

fn lock() -> MutexGuard<'static, Option<Termios>> {
    SAVED_TERMIOS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes in one call where the kernel accepts everything. The terminal may have been made
/// non-blocking by another program that shares it.
fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    let output = io::stdout();
    while !bytes.is_empty() {
        match nix::unistd::write(&output, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let mut room = [PollFd::new(output.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut room, PollTimeout::NONE) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
