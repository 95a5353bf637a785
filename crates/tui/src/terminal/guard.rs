//! Takes the terminal over, and gives it back as it was, however the program ends.
//!
//! Whether it is ours is known in one place for the whole process, because a panic of any thread
//! has to give it back, and nothing may be drawn after that. Entry type: [`Guard`].

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

/// The other screen; pastes in brackets; presses of the mouse and its wheel; keys that can be told
/// from each other, as xterm understands it. A terminal that takes that for a colour is told to
/// forget it.
const ENTER: &str = "\x1b[?1049h\x1b[?2004h\x1b[?1000h\x1b[?1006h\x1b[>4;1m\x1b[0m";
/// Keys that can be told from each other, as kitty understands it. It counts how often it hears it.
const ENTER_ONCE: &str = "\x1b[>1u";
/// All of that undone, and a drawing that was cut short completed. Terminals that understand none
/// of it may print some, so the screen is cleared after.
const LEAVE: &str = "\x1b[?2026l\x1b[>4;0m\x1b[<u\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[0m\x1b[2J\
                     \x1b[?1049l\x1b[?25h";

/// How the terminal was before, while it is ours.
static TAKEN: Mutex<Option<Termios>> = Mutex::new(None);

/// The terminal is ours as long as this lives.
#[derive(Debug)]
pub(super) struct Guard(());

impl Guard {
    pub(super) fn enter() -> io::Result<Self> {
        take()?;
        Ok(Self(()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
    }
}

/// Takes it, again or for the first time.
pub(super) fn take() -> io::Result<()> {
    let mut taken = lock();
    let input = io::stdin();
    if !io::stdout().is_terminal() {
        return Err(Errno::ENOTTY.into());
    }
    let before = tcgetattr(&input)?;
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    // What was typed ahead stays.
    tcsetattr(&input, SetArg::TCSANOW, &raw)?;
    let once = match taken.replace(before) {
        None => ENTER_ONCE,
        Some(first) => {
            *taken = Some(first);
            ""
        }
    };
    write_all(format!("{ENTER}{once}\x1b[2J").as_bytes())
}

/// Gives it back. Does no harm when there is nothing to give back, and waits for no one for long.
pub(super) fn restore() {
    let give_up = Instant::now() + Duration::from_millis(500);
    let mut taken = loop {
        match TAKEN.try_lock() {
            Ok(taken) => break Some(taken),
            Err(TryLockError::Poisoned(taken)) => break Some(taken.into_inner()),
            // A drawing is under way, or stuck at a terminal that reads nothing.
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

/// Writes to the terminal, if it is ours.
pub(super) fn write(bytes: &[u8]) -> io::Result<()> {
    match *lock() {
        Some(_) => write_all(bytes),
        None => Ok(()),
    }
}

fn lock() -> MutexGuard<'static, Option<Termios>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In one call where the kernel takes all of it. The terminal may have been made non-blocking by
/// another program that has it too.
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
