//! What signals do to the guest, which is nothing, and what commands find of that, which is nothing
//! either. On Linux they are ignored: process 1 is spared the default actions there, but only while
//! its first thread does not block what another would take. The sandbox's own kernel spares it
//! nothing; there they are blocked, which takes one call, and the few that cannot be are ignored.
//!
//! Entry points: [`withstand`], [`ignore_thread_signal`], [`Arriving`], [`changed`].

use std::io;
use std::sync::OnceLock;

use libc::c_int;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::io::unix::AsyncFd;

use crate::readiness::{Source, register};

/// Whose kernel the guest is a process of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    Linux,
    /// The sandbox's own, where a system call costs as much as a hundred elsewhere.
    Own,
}

/// Those that a command finds otherwise than it should, unless they are put right.
static CHANGED: OnceLock<Vec<c_int>> = OnceLock::new();

pub(crate) fn changed() -> &'static [c_int] {
    CHANGED.get().map_or(&[], Vec::as_slice)
}

/// Must be called before there is another thread. The supervisor has blocked all signals.
pub(crate) fn withstand(kernel: Kernel) {
    let (ignored, blocked) = match kernel {
        Kernel::Linux => (
            (1..=64).filter(|signal| *signal != libc::SIGCHLD).collect(),
            forwarded() | child_ended(),
        ),
        // These two the C library blocks for nobody, unblocks one of them in every new thread, and
        // handles it.
        Kernel::Own => (vec![32, 33], SigSet::all()),
    };
    for signal in &ignored {
        // The handlers of the standard library, for its own stack, are among what is taken away.
        set_action(*signal, libc::SIG_IGN);
    }
    // The standard library ignores this one.
    let changed = ignored.into_iter().chain([libc::SIGPIPE]);
    let _ = CHANGED.set(changed.collect());
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

/// What [`withstand`] leaves to be read, one after the other. Read and not taken by handlers, which a
/// storm of signals would stack up.
pub(crate) struct Arriving(AsyncFd<Source<SignalFd>>);

impl Arriving {
    /// Needs a running runtime.
    pub(crate) fn new(signals: &SigSet) -> io::Result<Self> {
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(register(SignalFd::with_flags(signals, flags)?)?))
    }

    /// Asks until there is none: of one kind there can be two, one for the process and one for its
    /// thread, and a third would be no event.
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

/// What process 1 passes on.
pub(crate) fn forwarded() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]
        .into_iter()
        .collect()
}

/// That of a child's end.
pub(crate) fn child_ended() -> SigSet {
    Signal::SIGCHLD.into()
}

/// As the kernel has it; the C library keeps two signals to itself. Safe where memory is shared with
/// another process: allocates nothing and takes no lock.
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
    // SAFETY: the action outlives the call and has the kernel's layout; neither of the handlers that
    // are asked for here is code.
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
