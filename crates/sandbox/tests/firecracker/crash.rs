//! A killed host leaves nothing running, and the next start removes its leftovers on disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::Sandbox;

use crate::machine::SimulatedMachines;
use crate::scene::{Fixture, entries, say, spec};

/// Names the folder for the child process.
const PLACE_VARIABLE: &str = "HOTCELL_TEST_FIRECRACKER_PLACE";

/// Not a test by itself: the next test runs it as a process to kill.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by `a_killed_host_leaves_nothing`"]
async fn host_that_waits_to_be_killed() {
    let place = PathBuf::from(std::env::var_os(PLACE_VARIABLE).unwrap());
    let _machines = SimulatedMachines::start(&place.join("cache"), &place.join("workspace"));
    let sandbox = Sandbox::start(spec(&place, "firecracker")).await.unwrap();
    say(&sandbox, "touch started").await;
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_host_leaves_nothing() {
    let scene = Fixture::idle();
    let first = Host::start(&scene).await;
    let seen = descendants(first.0.id());
    // The stand-in continues under the jailer's name, because a jail has nothing to execute.
    let is_it = |process: &Process| ["firecracker", "jailer"].contains(&process.name.as_str());
    assert!(seen.iter().any(is_it), "Firecracker is seen: {seen:?}");
    drop(first);
    wait_until("all of it has ended", || {
        !seen.iter().any(Process::is_alive)
    })
    .await;
    assert_eq!(
        scene.leftovers().len(),
        1,
        "the folder or jail of the killed host"
    );
    // Each process removes leftovers once.
    let next = Host::start(&scene).await;
    assert_eq!(scene.leftovers().len(), 1, "only that of the running host");
    let seen = descendants(next.0.id());
    drop(next);
    wait_until("all of it has ended", || {
        !seen.iter().any(Process::is_alive)
    })
    .await;
}

/// A host with a sandbox. Dropping it kills it.
struct Host(Child);

impl Host {
    async fn start(scene: &Fixture) -> Self {
        let started = scene.path("workspace/started");
        let _ = fs::remove_file(&started);
        let host = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "crash::host_that_waits_to_be_killed",
                "--ignored",
            ])
            .env(PLACE_VARIABLE, scene.place())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let host = Self(host);
        wait_until("the host has a sandbox", || started.exists()).await;
        host
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process. The start time distinguishes it from a later one with the same pid.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    number: u32,
    parent: u32,
    name: String,
    began: String,
}

impl Process {
    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join("stat")).ok()?;
        let (before, after) = text.rsplit_once(')')?;
        let (number, name) = before.split_once(" (")?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let is_dead = fields[0] == "Z";
        (!is_dead).then_some(Self {
            number: number.parse().ok()?,
            parent: fields[1].parse().ok()?,
            name: name.to_owned(),
            began: fields[19].to_owned(),
        })
    }

    fn is_alive(&self) -> bool {
        let folder = PathBuf::from(format!("/proc/{}", self.number));
        Self::read(&folder).is_some_and(|now| now.began == self.began)
    }
}

/// All descendants of a process.
fn descendants(ancestor: u32) -> Vec<Process> {
    let all: Vec<Process> = entries(Path::new("/proc"))
        .iter()
        .filter_map(|folder| Process::read(folder))
        .collect();
    let mut below = vec![ancestor];
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|one| below.contains(&one.parent) && !below.contains(&one.number))
            .map(|one| one.number)
            .collect();
        if more.is_empty() {
            break;
        }
        below.extend(more);
    }
    all.into_iter()
        .filter(|one| one.number != ancestor && below.contains(&one.number))
        .collect()
}

/// Polls for a condition in another process.
async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < give_up, "it never came to be that {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
