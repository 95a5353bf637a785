//! Delivers signals through a file descriptor. The first terminating signal is reported; a second
//! one ends the program at once, whatever its state. SIGHUP does not count as a second one: the
//! kernel and the shell both send it when a terminal closes.

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

const TERMINATING_SIGNALS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// Signals that end the program at once if they are the second one.
const FORCED_EXIT_SIGNALS: [i32; 3] = [SIGINT, SIGQUIT, SIGTERM];

/// The meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalRequest {
    /// End the program because of this signal.
    End(i32),
    /// Suspend and return the terminal to the shell.
    Stop,
    /// Continued; the shell may have used the terminal meanwhile.
    GoOn,
    Resize,
}

#[derive(Debug)]
pub(super) struct SignalListener {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    /// Handlers that make a second signal end the program.
    impatience: Vec<SigId>,
}

impl SignalListener {
    pub(super) fn listen() -> io::Result<Self> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let mut impatience = Vec::new();
        for signal in FORCED_EXIT_SIGNALS {
            let flag = Arc::clone(&is_ending);
            impatience.push(flag::register_conditional_default(signal, flag)?);
        }
        // Registered after the above: the first signal sets the flag, and the next one finds it
        // set. SIGINT and SIGQUIT do not set it, since they may be meant for an external editor.
        for signal in [SIGHUP, SIGTERM] {
            impatience.push(flag::register(signal, Arc::clone(&is_ending))?);
        }
        let (read, write) = UnixStream::pair()?;
        let others = [SIGTSTP, SIGCONT, SIGWINCH];
        let all = TERMINATING_SIGNALS.into_iter().chain(others);
        Ok(Self {
            delivery: SignalDelivery::with_pipe(read, write, SignalOnly, all)?,
            impatience,
        })
    }

    /// Discards signals that were meant for another program which had the terminal. Returns a
    /// signal that cannot have been.
    pub(super) fn discard_pending(&mut self) -> Option<i32> {
        let mut signals = self.delivery.pending();
        signals.find(|signal| [SIGHUP, SIGTERM].contains(signal))
    }

    /// The signals since the last call; terminating ones first.
    pub(super) fn take(&mut self) -> Vec<SignalRequest> {
        let mut requests: Vec<SignalRequest> =
            self.delivery.pending().map(signal_request).collect();
        requests.sort_by_key(|request| !matches!(request, SignalRequest::End(_)));
        requests
    }
}

impl Drop for SignalListener {
    fn drop(&mut self) {
        // From here on, the host program handles signals.
        for id in self.impatience.drain(..) {
            low_level::unregister(id);
        }
    }
}

impl AsFd for SignalListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}

fn signal_request(signal: i32) -> SignalRequest {
    match signal {
        SIGTSTP => SignalRequest::Stop,
        SIGCONT => SignalRequest::GoOn,
        SIGWINCH => SignalRequest::Resize,
        signal => SignalRequest::End(signal),
    }
}

/// Stops the whole job, as Ctrl-Z does, until the shell continues it. Returns at once if there is
/// no shell that could.
pub(super) fn stop_job() -> io::Result<()> {
    // Stops the other processes of the job, such as a script that runs this one. Not this process:
    // it is not defined which of its threads gets the signal and when, and it could be stopped
    // twice.
    with_stop_action(SigHandler::SigIgn, || {
        kill(Pid::from_raw(0), Signal::SIGTSTP)
    })??;
    // Sent to this thread: the process is stopped here, and `raise` returns when it continues.
    Ok(with_default_stop(|| raise(Signal::SIGTSTP))??)
}

/// Runs `work` with the default action for Ctrl-Z: the kernel stops this process too.
pub(super) fn with_default_stop<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    with_stop_action(SigHandler::SigDfl, work)
}

/// Runs `work` with another handler for Ctrl-Z: the default action, or ignoring it.
fn with_stop_action<T>(handler: SigHandler, work: impl FnOnce() -> T) -> io::Result<T> {
    let usual = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the action is a default or to ignore, so no handler function is installed.
    let ours = unsafe { sigaction(Signal::SIGTSTP, &usual) }?;
    let done = work();
    // SAFETY: restores the action that was installed before.
    unsafe { sigaction(Signal::SIGTSTP, &ours) }?;
    Ok(done)
}
