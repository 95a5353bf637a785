//! Signals as something to wait for. Those that end the program are heard once; a second one ends
//! it at once, in whatever state it is. A terminal that closes does not count as a second one: the
//! kernel and the shell both tell of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, raise, sigaction};
use nix::unistd::Pid;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use signal_hook::{SigId, flag, low_level};

const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// Those that end it at once when they come second.
const IMPATIENT: [i32; 3] = [SIGINT, SIGQUIT, SIGTERM];

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// End, because of this signal.
    End(i32),
    /// Give the terminal to the shell, and wait.
    Stop,
    /// It may be the shell that had the terminal until now.
    GoOn,
    Resize,
}

#[derive(Debug)]
pub(super) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    /// Makes a second signal end the program.
    impatience: Vec<SigId>,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let mut impatience = Vec::new();
        for signal in IMPATIENT {
            let flag = Arc::clone(&is_ending);
            impatience.push(flag::register_conditional_default(signal, flag)?);
        }
        // After the above: the first signal is heard, and the next one finds the flag set. The
        // others may be meant for an editor that a person writes in.
        for signal in [SIGHUP, SIGTERM] {
            impatience.push(flag::register(signal, Arc::clone(&is_ending))?);
        }
        let (read, write) = UnixStream::pair()?;
        let others = [SIGTSTP, SIGCONT, SIGWINCH];
        let all = ENDING.into_iter().chain(others);
        Ok(Self {
            delivery: SignalDelivery::with_pipe(read, write, SignalOnly, all)?,
            impatience,
        })
    }

    /// Forgets what was typed at another program that had the terminal. Returns a signal that
    /// cannot have been.
    pub(super) fn forgive(&mut self) -> Option<i32> {
        let mut signals = self.delivery.pending();
        signals.find(|signal| [SIGHUP, SIGTERM].contains(signal))
    }

    /// What was asked for since the last time; an end counts more than all the rest.
    pub(super) fn take(&mut self) -> Vec<Asked> {
        let mut asked: Vec<Asked> = self.delivery.pending().map(meaning).collect();
        asked.sort_by_key(|asked| !matches!(asked, Asked::End(_)));
        asked
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // From here on, signals are the business of the program around.
        for id in self.impatience.drain(..) {
            low_level::unregister(id);
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}

fn meaning(signal: i32) -> Asked {
    match signal {
        SIGTSTP => Asked::Stop,
        SIGCONT => Asked::GoOn,
        SIGWINCH => Asked::Resize,
        signal => Asked::End(signal),
    }
}

/// Stops the whole job, as Ctrl-Z does, until the shell lets it go on. Returns at once where there
/// is no shell that could.
pub(super) fn stop() -> io::Result<()> {
    // The others of the job, such as a script that runs this. Not this process: which of its
    // threads would hear of it, and when, is open, and it could be stopped twice.
    during(SigHandler::SigIgn, || {
        kill(Pid::from_raw(0), Signal::SIGTSTP)
    })??;
    // To this thread: the process has stopped, and goes on, when this returns.
    Ok(stoppable(|| raise(Signal::SIGTSTP))??)
}

/// Runs something during which Ctrl-Z stops this process too, with nobody being asked.
pub(super) fn stoppable<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    during(SigHandler::SigDfl, work)
}

/// Runs something during which Ctrl-Z does what the kernel does by itself: to stop, or nothing.
fn during<T>(handler: SigHandler, work: impl FnOnce() -> T) -> io::Result<T> {
    let usual = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: no function of ours is installed.
    let ours = unsafe { sigaction(Signal::SIGTSTP, &usual) }?;
    let done = work();
    // SAFETY: this one was there before.
    unsafe { sigaction(Signal::SIGTSTP, &ours) }?;
    Ok(done)
}
