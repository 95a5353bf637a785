//! Killed at any moment, `hotcell` leaves nothing behind, and it removes what others left.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::place::{
    Place, assert_code, eventually, finish, group_homes, groups, is_root, processes_with, start,
    stderr,
};

const KILL_ROUNDS: u64 = 100;

/// Numbers from 0 to `below`, the same in every run.
struct SeededRandom(u64);

impl SeededRandom {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Guests and supervisors whose parent was killed, so that this process is their parent now. Reaps those
/// that have ended.
pub(crate) fn orphans() -> Vec<Pid> {
    let own = std::process::id().to_string();
    let mut alive = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((name, rest)) = stat.rsplit_once(')') else {
            continue;
        };
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // Not `hotcell` itself, which is reaped elsewhere.
        if fields[1] != own || !name.contains("(hotcell-") {
            continue;
        }
        let pid = Pid::from_raw(pid);
        if fields[0] == "Z" {
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
        alive.push(pid);
    }
    alive
}

#[test]
fn a_hundred_kills_at_random_moments_leave_nothing() {
    // Orphans become children of this process, where they can be found.
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    let place = Place::with_workspace();
    let workspace = place.here("workspace");
    let mut dice = SeededRandom(0x9e37_79b9_7f4a_7c15);
    for round in 0..KILL_ROUNDS {
        // A sleep time that no other process on this machine has.
        let marker = format!("1000.{}{round:03}", std::process::id());
        let script = format!("sleep {marker} & sleep {marker}");
        let mut command = place.hotcell(["exec", "--", "sh", "-c", &script]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The random moment is the point of the test.
        std::thread::sleep(Duration::from_micros(dice.roll(30_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let owner = format!("-{}-", child.id());
        eventually("no process is left", || processes_with(&marker).is_empty());
        eventually("no group is left", || {
            groups(|name| name.contains(&owner)).is_empty()
        });
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(workspace.to_str().unwrap()), "{mounts}");
    }
    eventually("no guest and no supervisor is left", || {
        orphans().is_empty()
    });
    // The log may miss the last records, but the chain is intact.
    let log = place.home().join(".local/state/hotcell/audit.jsonl");
    let report = audit::verify(&log).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_code(&place.exec(&[], "true"), 0);
}

#[test]
fn what_a_crash_left_is_swept_by_the_next_start() {
    let place = Place::with_workspace();
    // The name of a group contains its owner. While the owner lives, the group is left alone.
    let mut owner = start(&mut Command::new("cat"));
    let mut survivor = start(Command::new("sleep").arg("1000"));
    let group = |owner: u32| {
        let namespace = fs::metadata("/proc/self/ns/pid").unwrap().ino();
        let stat = fs::read_to_string(format!("/proc/{owner}/stat")).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let started = fields.split_whitespace().nth(19).unwrap();
        let name = format!("hotcell-{namespace}-{owner}-{started}-999999");
        let folders = group_homes().into_iter().map(move |home| home.join(&name));
        folders
            .filter(|folder| fs::create_dir(folder).is_ok())
            .collect::<Vec<_>>()
    };
    let (stale, kept) = (group(owner.id()), group(std::process::id()));
    // An ordinary user cannot create groups here, so a crash leaves none either.
    assert_eq!(stale.is_empty(), !is_root());
    for folder in &stale {
        fs::write(folder.join("cgroup.procs"), survivor.id().to_string()).unwrap();
    }
    assert_code(&place.exec(&[], "true"), 0);
    assert!(stale.iter().all(|folder| folder.exists()), "{stale:?}");

    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_code(&place.exec(&[], "true"), 0);
    if stale.is_empty() {
        survivor.kill().unwrap();
    }
    let ended = survivor.wait().unwrap();
    assert_eq!(ended.signal(), Some(Signal::SIGKILL as i32));
    // Another test's `hotcell` may remove it too.
    eventually("the groups are gone", || {
        stale.iter().all(|folder| !folder.exists())
    });
    for folder in kept {
        fs::remove_dir(folder).unwrap();
    }
}

/// Starts `hotcell exec`. Returns its process, and the guest of its sandbox once the command runs.
fn command_and_guest(place: &Place, marker: &str) -> (Child, Pid) {
    let child = start(&mut place.hotcell(["exec", "--", "sleep", marker]));
    // The command itself, not `hotcell`, whose arguments contain the marker too.
    let is_command = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name == "sleep\n")
    };
    let command = || processes_with(marker).into_iter().find(is_command);
    eventually("the command runs", || command().is_some());
    let status = fs::read_to_string(format!("/proc/{}/status", command().unwrap())).unwrap();
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .unwrap();
    (child, Pid::from_raw(parent.trim().parse().unwrap()))
}

#[test]
fn a_guest_that_was_killed_is_an_error_not_a_hang() {
    let place = Place::with_workspace();
    let marker = format!("1001.{}", std::process::id());
    let (child, guest) = command_and_guest(&place, &marker);
    kill(guest, Signal::SIGKILL).unwrap();
    let output = finish(child);
    assert_code(&output, 125);
    let said = stderr(&output);
    assert!(
        said.starts_with("hotcell: cannot talk to the sandbox"),
        "{said}"
    );
    eventually("the command is gone", || processes_with(&marker).is_empty());
}

#[test]
fn a_guest_that_stands_still_does_not_keep_a_person_from_ending_it() {
    let place = Place::with_workspace();
    let marker = format!("1002.{}", std::process::id());
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 137)] {
        let (mut child, guest) = command_and_guest(&place, &marker);
        kill(guest, Signal::SIGSTOP).unwrap();
        eventually("hotcell ends", || {
            kill(Pid::from_raw(child.id() as i32), signal).unwrap();
            child.try_wait().unwrap().is_some()
        });
        let output = finish(child);
        assert_code(&output, code);
        assert!(stderr(&output).contains("the sandbox did not respond"));
        eventually("the command is gone", || processes_with(&marker).is_empty());
    }
}
