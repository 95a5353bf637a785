//! All processes of the sandbox: reaping, waiting, killing.
//!
//! As process 1 the guest inherits every orphan, so one loop reaps all processes and sends each status to
//! the waiter of that process. Starting and reaping happen on one thread, so a status cannot arrive before
//! its waiter is registered.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use link::request::{CommandStatus, GuestLimit};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getpid};
use tokio::sync::{Notify, oneshot};

use crate::signals::{SignalReader, child_ended};
use crate::spawn::{SpawnRequest, spawn};

#[derive(Clone, Default)]
pub(crate) struct ProcessTable {
    waiters: Rc<RefCell<HashMap<Pid, oneshot::Sender<CommandStatus>>>>,
    /// Started by the guest and not yet reaped, with or without a waiter.
    alive: Rc<RefCell<HashSet<Pid>>>,
    started: Rc<Notify>,
    /// How often all processes were killed, and for which limit the last time.
    purges: Rc<Cell<(u64, Option<GuestLimit>)>>,
}

/// A process group that the guest started.
pub(crate) struct ChildGroup {
    pub(crate) group: Pid,
    pub(crate) ended: oneshot::Receiver<CommandStatus>,
    /// How often all processes had been killed before its start.
    purges: u64,
}

impl ProcessTable {
    pub(crate) fn start(&self, start: &SpawnRequest<'_>) -> io::Result<ChildGroup> {
        let group = walls::with_oom_victim_score(|| spawn(start))?;
        let (status, ended) = oneshot::channel();
        self.waiters.borrow_mut().insert(group, status);
        self.alive.borrow_mut().insert(group);
        self.started.notify_waiters();
        let purges = self.purges.get().0;
        Ok(ChildGroup {
            group,
            ended,
            purges,
        })
    }

    /// Whether there is a process. All processes of the sandbox descend from children of the guest, so
    /// without a child there is none.
    pub(crate) fn has_any(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        waitid(Id::All, flags) != Err(Errno::ECHILD)
    }

    /// Waits until there is a process.
    pub(crate) async fn any(&self) {
        while !self.has_any() {
            self.started.notified().await;
        }
    }

    /// Reaps processes until the guest ends.
    pub(crate) async fn reap(self) -> io::Result<()> {
        let ends = SignalReader::new(&child_ended())?;
        loop {
            self.reap_ended();
            ends.next().await?;
        }
    }

    fn reap_ended(&self) {
        loop {
            let mut raw = 0;
            // SAFETY: the status outlives the call. The wrapper of `nix` cannot be used: it rejects
            // real-time signals, and would lose a process that one of them ended.
            let pid = match unsafe { libc::waitpid(-1, &mut raw, libc::WNOHANG) } {
                0 => return,
                -1 if Errno::last() == Errno::EINTR => continue,
                -1 => return,
                pid => Pid::from_raw(pid),
            };
            let status = if libc::WIFSIGNALED(raw) {
                CommandStatus::Signal(libc::WTERMSIG(raw))
            } else {
                CommandStatus::Code(libc::WEXITSTATUS(raw))
            };
            self.alive.borrow_mut().remove(&pid);
            if let Some(waiter) = self.waiters.borrow_mut().remove(&pid) {
                let _ = waiter.send(status);
            }
        }
    }

    /// Kills every process except the guest, because of a limit or because the guest ends.
    pub(crate) fn kill_all(&self, reason: Option<GuestLimit>) {
        self.purges.set((self.purges.get().0 + 1, reason));
        self.signal_all(Signal::SIGKILL);
    }

    /// Sends a signal to every process of the sandbox. Without walls the guest is not process 1, so it
    /// signals only the groups that it started.
    pub(crate) fn signal_all(&self, signal: Signal) {
        if getpid() == Pid::from_raw(1) {
            let _ = kill(Pid::from_raw(-1), signal);
        } else {
            for group in self.alive.borrow().iter() {
                let _ = killpg(*group, signal);
            }
        }
    }

    /// The limit that caused the end of a process, if any.
    pub(crate) fn limit_that_ended(
        &self,
        child: &ChildGroup,
        status: CommandStatus,
    ) -> Option<GuestLimit> {
        if status == CommandStatus::Signal(libc::SIGXFSZ) {
            // A single file would have exceeded the disk limit.
            return Some(GuestLimit::Disk);
        }
        let (purges, reason) = self.purges.get();
        let was_killed = status == CommandStatus::Signal(libc::SIGKILL) && purges > child.purges;
        reason.filter(|_| was_killed)
    }
}

/// Repeats a start that the process limit refuses, for two seconds: killed processes count against the
/// limit until the kernel has removed them.
pub(crate) async fn retry_start<T>(mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const RETRY_INTERVAL: Duration = Duration::from_millis(10);
    const MAX_RETRIES: usize = 200;
    for _ in 0..MAX_RETRIES {
        match start() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    start()
}

/// Whether a group still has processes.
pub(crate) fn is_group_alive(group: Pid) -> bool {
    killpg(group, None) != Err(Errno::ESRCH)
}

/// Kills a group repeatedly until it is empty: on kernels other than Linux, one signal can miss a child
/// that is just being started.
async fn kill_group(group: Pid) {
    const MAX_ATTEMPTS: usize = 200;
    for _ in 0..MAX_ATTEMPTS {
        if killpg(group, Signal::SIGKILL).is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends a signal to a whole group. Succeeds if the group is already gone.
pub(crate) fn signal_group(group: Pid, number: i32) -> io::Result<()> {
    let signal = Signal::try_from(number)?;
    if signal == Signal::SIGKILL {
        tokio::task::spawn_local(kill_group(group));
    }
    match killpg(group, signal) {
        Err(Errno::ESRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
