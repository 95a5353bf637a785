//! Stops every process of the sandbox for a moment, invisibly to the processes. Entry point:
//! [`FrozenProcesses::stop_all`].
//!
//! SIGSTOP cannot be caught or blocked, and a process cannot escape by forking while the signal is sent to
//! all processes. Parents are stopped before their children and continued after them, so that no shell sees
//! a stopped job.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::verdict::ScanCompleteness;
use crate::spawn;

/// A process in uninterruptible disk wait stops only when the disk has answered.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);
const STOP_POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Keeps every process except the guest stopped until it is dropped.
pub(super) struct FrozenProcesses {
    /// Processes to continue. Those that were stopped before are not among them.
    stopped: Vec<i32>,
    is_complete: bool,
    /// Whether there are processes that `/proc` does not show.
    has_invisible: bool,
    /// Prevents process starts: before its exec, a process shares the guest's memory and is not readable.
    _starts: MutexGuard<'static, ()>,
}

impl FrozenProcesses {
    pub(super) fn stop_all(is_linux: bool) -> Self {
        let starts = spawn::lock_starts();
        let stopped_before: HashSet<i32> = processes().into_iter().filter(is_stopped).collect();
        let deadline = Instant::now() + STOP_TIMEOUT;
        for generation in group_by_ancestors(&processes()).values() {
            for pid in generation {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGSTOP);
            }
            wait_until(deadline, || generation.iter().copied().all(is_halted));
        }
        // Also stop processes that were created or orphaned meanwhile. Behind walls, -1 reaches only
        // processes of the sandbox.
        let _ = kill(Pid::from_raw(-1), Signal::SIGSTOP);
        let is_complete = wait_until(deadline, || processes().into_iter().all(is_halted));
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

    /// Continues no process. For processes that are killed next.
    pub(super) fn leave_stopped(mut self) {
        self.stopped.clear();
    }

    /// How much a scan can miss although processes are stopped.
    pub(super) fn completeness(&self) -> ScanCompleteness {
        match (self.has_invisible, self.is_complete) {
            (true, _) => ScanCompleteness::Opaque,
            (false, false) => ScanCompleteness::Interrupted,
            (false, true) => ScanCompleteness::Complete,
        }
    }
}

impl Drop for FrozenProcesses {
    fn drop(&mut self) {
        for pid in group_by_ancestors(&self.stopped).values().rev().flatten() {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGCONT);
        }
    }
}

/// Polls until the condition holds; false if it does not hold by the deadline.
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

/// Processes by their number of ancestors.
fn group_by_ancestors(processes: &[i32]) -> BTreeMap<usize, Vec<i32>> {
    let mut all: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
    for pid in processes {
        all.entry(generation(*pid)).or_default().push(*pid);
    }
    all
}

/// Every visible process except the guest.
pub(super) fn processes() -> Vec<i32> {
    let own = std::process::id() as i32;
    let all = numeric_entries("/proc").into_iter();
    all.filter(|pid| *pid != own).collect()
}

/// Undumpable processes. `/proc` is mounted with `hidepid` and does not list them, but signal 0 shows that
/// they exist.
fn invisible_processes() -> Vec<i32> {
    let exists = |pid: &i32| kill(Pid::from_raw(*pid), None).is_ok();
    let is_visible = |pid: &i32| Path::new(&format!("/proc/{pid}/stat")).exists();
    // The second check of `exists` skips processes that ended in between.
    let all = (2..=last_pid()).filter(exists);
    all.filter(|pid| !is_visible(pid) && exists(pid)).collect()
}

/// Whether there are more threads than `/proc` lists: gVisor does not list a process whose first thread
/// has ended.
fn has_unlisted_threads() -> bool {
    let of_commands: usize = processes().into_iter().map(|pid| tasks(pid).len()).sum();
    let listed = own_threads() + of_commands;
    // SAFETY: the structure is plain numbers, for which zero is valid.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    let is_known = unsafe { libc::sysinfo(&raw mut info) } == 0;
    is_known && usize::from(info.procs) > listed
}

/// The number of guest threads. The guest is not dumpable, so gVisor does not list them in `/proc`.
fn own_threads() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let threads = lines.find_map(|line| line.strip_prefix("Threads:"));
    threads
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(1)
}

/// The highest pid that can have been assigned so far. Pids wrap around after 32,768, or on large machines
/// after millions, which cannot all be used between two scans.
fn last_pid() -> i32 {
    const SMALL_PID_MAX: i32 = 1 << 15;
    static HIGHEST: AtomicI32 = AtomicI32::new(SMALL_PID_MAX);
    let now = fs::read_to_string("/proc/loadavg").ok();
    let now = now.and_then(|text| text.split_whitespace().last()?.parse().ok());
    let now = now.unwrap_or(SMALL_PID_MAX);
    HIGHEST.fetch_max(now, Ordering::Relaxed).max(now)
}

/// Whether all threads of a process are stopped.
fn is_stopped(pid: &i32) -> bool {
    let tasks = tasks(*pid);
    let is_stopped = |task: &i32| state(*pid, *task) == Some('T');
    !tasks.is_empty() && tasks.iter().all(is_stopped)
}

/// The threads of a process; empty if it is gone.
pub(super) fn tasks(pid: i32) -> Vec<i32> {
    numeric_entries(&format!("/proc/{pid}/task"))
}

fn numeric_entries(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.filter_map(number).collect()
}

/// Whether a process is stopped or has ended.
fn is_halted(pid: i32) -> bool {
    let still = |task| matches!(state(pid, task), None | Some('T' | 't' | 'Z' | 'X'));
    tasks(pid).into_iter().all(still)
}

/// Whether a thread has ended. It then holds no files.
pub(super) fn is_zombie(pid: i32, task: i32) -> bool {
    matches!(state(pid, task), None | Some('Z' | 'X'))
}

/// The state letter of a thread; `None` if it is gone.
fn state(pid: i32, task: i32) -> Option<char> {
    stat_after_name(pid, task)?.chars().next()
}

/// The number of ancestors of a process. Bounded, because reused pids could form a loop.
fn generation(pid: i32) -> usize {
    const MAX_ANCESTORS: usize = 1 << 16;
    let parent = |pid: &i32| -> Option<i32> {
        let stat = stat_after_name(*pid, *pid)?;
        let parent = stat.split_whitespace().nth(1)?.parse().ok()?;
        (parent > 0).then_some(parent)
    };
    std::iter::successors(Some(pid), parent)
        .take(MAX_ANCESTORS)
        .count()
}

/// The part of a thread's `stat` after the name, which may contain anything.
fn stat_after_name(pid: i32, task: i32) -> Option<String> {
    let stat = fs::read(format!("/proc/{pid}/task/{task}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.trim_start().to_owned())
}
