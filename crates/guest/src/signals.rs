//! Protects the guest from signals, and lists the changes that commands must undo. On Linux the guest
//! ignores signals: the kernel does not apply default actions to process 1, but only if the first thread
//! does not block a signal that another thread accepts. gVisor does not protect process 1; there the guest
//! blocks all signals, which takes one system call, and ignores the few that cannot be blocked.
//!
//! Entry points: [`ignore_signals`], [`ignore_thread_signal`], [`SignalReader`], [`changed`].

use std::io;
use std::sync::OnceLock;

use libc::c_int;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::io::unix::AsyncFd;

use crate::readiness::{DescriptorOwner, register};

/// The kernel that the guest runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestKernel {
    Linux,
    /// gVisor, where one system call costs as much as a hundred on Linux.
    Own,
}

/// Signals whose action was changed. A new process must reset them before exec.
static CHANGED_SIGNALS: OnceLock<Vec<c_int>> = OnceLock::new();

pub(crate) fn changed() -> &'static [c_int] {
    CHANGED_SIGNALS.get().map_or(&[], Vec::as_slice)
}

/// Must be called before another thread exists. The supervisor has blocked all signals.
pub(crate) fn ignore_signals(kernel: GuestKernel) {
    let (ignored, blocked) = match kernel {
        GuestKernel::Linux => (
            (1..=64).filter(|signal| *signal != libc::SIGCHLD).collect(),
            forwarded_signals() | child_ended(),
        ),
        // The C library never blocks these two, and unblocks and handles one of them in every new thread.
        GuestKernel::Own => (vec![32, 33], SigSet::all()),
    };
    for signal in &ignored {
        // This also removes the standard library's handlers for stack overflows.
        set_action(*signal, libc::SIG_IGN);
    }
    // The standard library ignores SIGPIPE.
    let changed = ignored.into_iter().chain([libc::SIGPIPE]);
    let _ = CHANGED_SIGNALS.set(changed.collect());
    let _ = blocked.thread_set_mask();
}

/// Ignores SIGSETXID (33) again: the C library installs a handler for it when it starts the first thread.
/// The handler runs on the signal stack that the standard library allocates, 8 KiB if the kernel does not
/// report how much it needs (`AT_MINSIGSTKSZ`). gVisor does not, and kills the process when the registers of
/// a processor with AMX do not fit.
pub(crate) fn ignore_thread_signal() {
    const SIGSETXID: c_int = 33;
    set_action(SIGSETXID, libc::SIG_IGN);
}

/// Reads the signals that [`ignore_signals`] blocks, from a signalfd. Handlers are not used, because many
/// signals at once would nest them.
pub(crate) struct SignalReader(AsyncFd<DescriptorOwner<SignalFd>>);

impl SignalReader {
    /// Needs a running runtime.
    pub(crate) fn new(signals: &SigSet) -> io::Result<Self> {
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(register(SignalFd::with_flags(signals, flags)?)?))
    }

    /// Returns the next signal. Reads until the kernel reports none: two signals of one kind can be
    /// pending, one for the process and one for the thread, and a third would cause no event.
    pub(crate) async fn next(&self) -> io::Result<c_int> {
        loop {
            let mut ready = self.0.readable().await?;
            let outcome = ready.try_io(|signals| match signals.get_ref().0.read_signal()? {
                Some(signal) => Ok(signal),
                None => Err(io::ErrorKind::WouldBlock.into()),
            });
            if let Ok(arrived) = outcome {
                return Ok(arrived?.ssi_signo as c_int);
            }
        }
    }
}

/// Signals that process 1 forwards to the sandbox.
pub(crate) fn forwarded_signals() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]
        .into_iter()
        .collect()
}

/// The signal for the end of a child.
pub(crate) fn child_ended() -> SigSet {
    Signal::SIGCHLD.into()
}

/// Calls the kernel directly, because the C library rejects two signals that it reserves. Safe in a process
/// that shares its memory with another: allocates nothing and takes no lock.
pub(crate) fn set_action(signal: c_int, handler: libc::sighandler_t) {
    #[repr(C)]
    #[derive(Default)]
    struct Action {
        handler: usize,
        flags: libc::c_ulong,
        restorer: usize,
        mask: u64,
    }
    let action = Action {
        handler,
        ..Action::default()
    };
    // SAFETY: the action outlives the call and has the kernel's layout. The handlers passed here are only
    // `SIG_IGN` and `SIG_DFL`, which are not code.
    unsafe {
        let null = std::ptr::null_mut::<Action>();
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            &action,
            null,
            size_of::<u64>(),
        );
    }
}
