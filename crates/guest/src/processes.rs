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

use link::request::{Limit, Status};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getpid};
use tokio::sync::{Notify, oneshot};

use crate::signals::{Arriving, child_ended};
use crate::spawn::{Start, spawn};

#[derive(Clone, Default)]
pub(crate) struct Processes {
    waiters: Rc<RefCell<HashMap<Pid, oneshot::Sender<Status>>>>,
    /// Started by the guest and not yet reaped, with or without a waiter.
    alive: Rc<RefCell<HashSet<Pid>>>,
    started: Rc<Notify>,
    /// How often all processes were killed, and for which limit the last time.
    purges: Rc<Cell<(u64, Option<Limit>)>>,
}

/// A process group that the guest started.
pub(crate) struct Child {
    pub(crate) group: Pid,
    pub(crate) ended: oneshot::Receiver<Status>,
    /// How often all processes had been killed before its start.
    purges: u64,
}

impl Processes {
    pub(crate) fn start(&self, start: &Start<'_>) -> io::Result<Child> {
        let group = walls::going_first(|| spawn(start))?;
        let (status, ended) = oneshot::channel();
        self.waiters.borrow_mut().insert(group, status);
        self.alive.borrow_mut().insert(group);
        self.started.notify_waiters();
        let purges = self.purges.get().0;
        Ok(Child {
            group,
            ended,
            purges,
        })
    }

    /// Waits until there is a process. All processes of the sandbox descend from children of the guest, so
    /// without a child there is none.
    pub(crate) async fn any(&self) {
        loop {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            if waitid(Id::All, flags) != Err(Errno::ECHILD) {
                return;
            }
            self.started.notified().await;
        }
    }

    /// Reaps processes until the guest ends.
    pub(crate) async fn reap(self) -> io::Result<()> {
        let ends = Arriving::new(&child_ended())?;
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
                Status::Signal(libc::WTERMSIG(raw))
            } else {
                Status::Code(libc::WEXITSTATUS(raw))
            };
            self.alive.borrow_mut().remove(&pid);
            if let Some(waiter) = self.waiters.borrow_mut().remove(&pid) {
                let _ = waiter.send(status);
            }
        }
    }

    /// Kills every process except the guest, because of a limit or because the guest ends.
    pub(crate) fn kill_all(&self, reason: Option<Limit>) {
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
    pub(crate) fn limit_behind(&self, child: &Child, status: Status) -> Option<Limit> {
        if status == Status::Signal(libc::SIGXFSZ) {
            // A single file would have exceeded the disk limit.
            return Some(Limit::Disk);
        }
        let (purges, reason) = self.purges.get();
        let was_killed = status == Status::Signal(libc::SIGKILL) && purges > child.purges;
        reason.filter(|_| was_killed)
    }
}

/// Repeats a start that the process limit refuses, for two seconds: killed processes count against the
/// limit until the kernel has removed them.
pub(crate) async fn retry_start<T>(mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const RETRY_INTERVAL: Duration = Duration::from_millis(10);
    const RETRIES: usize = 200;
    for _ in 0..RETRIES {
        match start() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    start()
}

/// Whether a group still has processes.
pub(crate) fn group_lives(group: Pid) -> bool {
    killpg(group, None) != Err(Errno::ESRCH)
}

/// Kills a group repeatedly until it is empty: on kernels other than Linux, one signal can miss a child
/// that is just being started.
async fn end_group(group: Pid) {
    const ROUNDS: usize = 200;
    for _ in 0..ROUNDS {
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
        tokio::task::spawn_local(end_group(group));
    }
    match killpg(group, signal) {
        Err(Errno::ESRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
