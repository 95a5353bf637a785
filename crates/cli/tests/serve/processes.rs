//! Processes of sandboxes, as seen on the host.

use std::fs;

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::place::processes_with;
use crate::play::eventually;
use crate::server::send;

/// Waits until no process of sandboxes whose server died is left.
pub(crate) async fn no_orphans() {
    eventually("no guest and no supervisor is left", async || {
        orphans().is_empty()
    })
    .await;
}

/// Guests and supervisors whose parent died, so that this process is their parent now. Reaps those that have
/// ended.
fn orphans() -> Vec<u32> {
    let own = std::process::id();
    let all = all().filter(|process| process.parent == own && process.is_of_a_sandbox());
    all.filter(|process| {
        if process.is_dead {
            let pid = Pid::from_raw(process.pid.try_into().unwrap());
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
        !process.is_dead
    })
    .map(|process| process.pid)
    .collect()
}

/// The number of a server's sandboxes.
pub(crate) fn sandboxes_of(server: u32) -> usize {
    let processes: Vec<ProcessInfo> = all().filter(|process| !process.is_dead).collect();
    let supervisors: Vec<u32> = processes
        .iter()
        .filter(|process| process.parent == server && process.is_of_a_sandbox())
        .map(|process| process.pid)
        .collect();
    let guests = processes
        .iter()
        .filter(|process| supervisors.contains(&process.parent));
    guests.count()
}

/// Kills the guest or the supervisor of the sandbox in which a command with this marker runs.
pub(crate) async fn kill_sandbox_with(mark: &str, is_guest: bool) {
    let command = || processes_with(mark).into_iter().find(|pid| is_sleep(*pid));
    eventually("the command runs", async || command().is_some()).await;
    let mut process = find(command().unwrap().try_into().unwrap());
    while !process.is_of_a_sandbox() {
        process = find(process.parent);
    }
    let pid = if is_guest {
        process.pid
    } else {
        process.parent
    };
    send(pid, Signal::SIGKILL);
}

fn is_sleep(pid: i32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name == "sleep\n")
}

struct ProcessInfo {
    pid: u32,
    parent: u32,
    name: String,
    is_dead: bool,
}

impl ProcessInfo {
    fn is_of_a_sandbox(&self) -> bool {
        self.name.starts_with("hotcell-")
    }
}

fn find(pid: u32) -> ProcessInfo {
    read(pid).expect("the process is there")
}

fn all() -> impl Iterator<Item = ProcessInfo> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?))
}

fn read(pid: u32) -> Option<ProcessInfo> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (begin, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let is_dead = fields.next()? == "Z";
    Some(ProcessInfo {
        pid,
        parent: fields.next()?.parse().ok()?,
        name: begin.split_once('(')?.1.to_owned(),
        is_dead,
    })
}
