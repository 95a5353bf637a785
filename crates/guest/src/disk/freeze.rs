//! Stops every process of the sandbox for a moment, without their noticing. Entry point:
//! [`Frozen::stop_all`].
//!
//! SIGSTOP cannot be caught or blocked, and no process can fork past one that is on its way to all.
//! Parents are stopped before their children and continued after them, so that no shell sees one of its
//! jobs stopped.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::verdict::Completeness;
use crate::spawn;

/// A process that waits for a disk stops when the disk has answered.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);
const STOP_POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Every process but the guest stands still as long as this lives.
pub(super) struct Frozen {
    /// Stopped here: those that were stopped before stay so.
    stopped: Vec<i32>,
    is_complete: bool,
    /// Whether there are processes that `/proc` does not show.
    has_invisible: bool,
    /// No process may be half started: it shares the guest's memory, and cannot be looked into.
    _starts: MutexGuard<'static, ()>,
}

impl Frozen {
    pub(super) fn stop_all(is_linux: bool) -> Self {
        let starts = spawn::hold_starts();
        let stopped_before: HashSet<i32> = processes().into_iter().filter(is_stopped).collect();
        let deadline = Instant::now() + STOP_TIMEOUT;
        for generation in generations(&processes()).values() {
            for pid in generation {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGSTOP);
            }
            wait_until(deadline, || generation.iter().copied().all(stands_still));
        }
        // Those that were born or orphaned meanwhile. Behind walls there is nothing else that this
        // could reach.
        let _ = kill(Pid::from_raw(-1), Signal::SIGSTOP);
        let is_complete = wait_until(deadline, || processes().into_iter().all(stands_still));
        let mut stopped = processes();
        stopped.retain(|pid| !stopped_before.contains(pid));
        let mut has_invisible = false;
        if is_linux {
            let invisible = invisible_processes();
            has_invisible = !invisible.is_empty();
            stopped.extend(invisible);
        } else {
            has_invisible |= has_unlisted_threads();
        }
        Self {
            stopped,
            is_complete,
            has_invisible,
            _starts: starts,
        }
    }

    /// What can have moved or stayed unseen all the same.
    pub(super) fn completeness(&self) -> Completeness {
        match (self.has_invisible, self.is_complete) {
            (true, _) => Completeness::Opaque,
            (false, false) => Completeness::Interrupted,
            (false, true) => Completeness::Complete,
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in generations(&self.stopped).values().rev().flatten() {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGCONT);
        }
    }
}

/// Whether a condition comes about in time.
fn wait_until(deadline: Instant, condition: impl Fn() -> bool) -> bool {
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(STOP_POLL_INTERVAL);
    }
}

/// Processes by how many parents they have.
fn generations(processes: &[i32]) -> BTreeMap<usize, Vec<i32>> {
    let mut all: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
    for pid in processes {
        all.entry(generation(*pid)).or_default().push(*pid);
    }
    all
}

/// Every process that is not the guest and that it can see.
pub(super) fn processes() -> Vec<i32> {
    let own = std::process::id() as i32;
    let all = numbers("/proc").into_iter();
    all.filter(|pid| *pid != own).collect()
}

/// Those that forbid to be looked into: `/proc` is mounted so that it does not show them, but a signal
/// finds them by number.
fn invisible_processes() -> Vec<i32> {
    let exists = |pid: &i32| kill(Pid::from_raw(*pid), None).is_ok();
    let is_visible = |pid: &i32| Path::new(&format!("/proc/{pid}/stat")).exists();
    // One that ends in between is neither.
    let all = (2..=last_pid()).filter(exists);
    all.filter(|pid| !is_visible(pid) && exists(pid)).collect()
}

/// Whether there are more threads than `/proc` lists: gVisor does not list a process whose first thread
/// has ended.
fn has_unlisted_threads() -> bool {
    let of_commands: usize = processes().into_iter().map(|pid| tasks(pid).len()).sum();
    let listed = own_threads() + of_commands;
    // SAFETY: the structure is plain numbers, for which zero is a value.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    let is_known = unsafe { libc::sysinfo(&raw mut info) } == 0;
    is_known && usize::from(info.procs) > listed
}

/// How many threads the guest has. The guest is not dumpable, so gVisor does not list them in `/proc`.
fn own_threads() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let threads = lines.find_map(|line| line.strip_prefix("Threads:"));
    threads
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(1)
}

/// The highest number that a process here can have had so far. Numbers begin anew after 32,768, or on
/// large machines after millions: those cannot all be used between two scans.
fn last_pid() -> i32 {
    const SMALL_PID_MAX: i32 = 1 << 15;
    static HIGHEST: AtomicI32 = AtomicI32::new(SMALL_PID_MAX);
    let now = fs::read_to_string("/proc/loadavg").ok();
    let now = now.and_then(|text| text.split_whitespace().last()?.parse().ok());
    let now = now.unwrap_or(SMALL_PID_MAX);
    HIGHEST.fetch_max(now, Ordering::Relaxed).max(now)
}

/// Whether somebody else has stopped a process.
fn is_stopped(pid: &i32) -> bool {
    let tasks = tasks(*pid);
    let is_stopped = |task: &i32| state(*pid, *task) == Some('T');
    !tasks.is_empty() && tasks.iter().all(is_stopped)
}

/// The threads of a process; none if it is gone.
pub(super) fn tasks(pid: i32) -> Vec<i32> {
    numbers(&format!("/proc/{pid}/task"))
}

fn numbers(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.filter_map(number).collect()
}

/// Whether a process runs no more, or has ended.
fn stands_still(pid: i32) -> bool {
    let still = |task| matches!(state(pid, task), None | Some('T' | 't' | 'Z' | 'X'));
    tasks(pid).into_iter().all(still)
}

/// Whether a thread has ended and waits to be reaped: it holds nothing.
pub(super) fn is_zombie(pid: i32, task: i32) -> bool {
    matches!(state(pid, task), None | Some('Z' | 'X'))
}

/// The letter for what a thread does; none if it is gone.
fn state(pid: i32, task: i32) -> Option<char> {
    after_name(pid, task)?.chars().next()
}

/// How many parents a process has. A loop is the work of numbers that were used again meanwhile.
fn generation(pid: i32) -> usize {
    const DEEPEST: usize = 1 << 16;
    let parent = |pid: &i32| -> Option<i32> {
        let stat = after_name(*pid, *pid)?;
        let parent = stat.split_whitespace().nth(1)?.parse().ok()?;
        (parent > 0).then_some(parent)
    };
    std::iter::successors(Some(pid), parent)
        .take(DEEPEST)
        .count()
}

/// What follows the name in a thread's `stat`: the name may hold anything.
fn after_name(pid: i32, task: i32) -> Option<String> {
    let stat = fs::read(format!("/proc/{pid}/task/{task}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.trim_start().to_owned())
}
