//! From start to end: many at once, politely ended, dropped or killed, nothing is left.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandbox::{Command, Sandbox, SandboxError, SandboxSpec};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::world::{
    World, eventually, groups_of, is_root, marker, process_with, processes_with, status_field,
    within,
};

/// What of a sandbox can be seen on the host while it runs.
#[derive(Debug)]
struct Traces {
    marker: String,
    processes: Vec<u32>,
    groups: Vec<PathBuf>,
}

impl Traces {
    /// A command with a mark, its control groups, and process 1 above it.
    async fn of(marker: String) -> Self {
        let command = process_with(&marker).await;
        let guest = status_field(command, "PPid").unwrap().parse().unwrap();
        let groups = groups_of(command);
        assert_eq!(groups.is_empty(), !is_root(), "{groups:?}");
        Self {
            marker,
            processes: vec![command, guest],
            groups,
        }
    }

    fn are_gone(&self) -> bool {
        // A zombie has given everything back; its parent collects it.
        let is_gone = |pid: &u32| {
            let state = status_field(*pid, "State");
            state.is_none_or(|state| state.starts_with('Z'))
        };
        processes_with(&self.marker).is_empty()
            && self.processes.iter().all(is_gone)
            && self.groups.iter().all(|folder| !folder.exists())
    }
}

fn marked(marker: &str) -> Command {
    Command::new(["sh", "-c", "sleep 1000 & read line", marker]).stdin()
}

#[test]
fn two_hundred_at_once_and_nothing_is_left() {
    const COUNT: usize = 200;
    within(async {
        let folder = tempfile::tempdir().unwrap();
        // Everybody and this test: first when all are up, then when they have been looked at.
        let together = Arc::new(Barrier::new(COUNT + 1));
        let mut tasks = JoinSet::new();
        let mark = |number: usize| marker(&format!("many-{number}"));
        for number in 0..COUNT {
            let workspace = folder.path().join(number.to_string());
            fs::create_dir(&workspace).unwrap();
            let (together, marker) = (together.clone(), mark(number));
            tasks.spawn(async move {
                let sandbox = Sandbox::start(SandboxSpec::new(&workspace)).await.unwrap();
                let script = format!("echo {number} > file; cat file");
                let captured = sandbox.run(Command::script(script)).await.unwrap();
                assert_eq!(captured.stdout, format!("{number}\n").as_bytes());
                let running = sandbox.exec(marked(&marker)).await.unwrap();
                together.wait().await;
                let stats = sandbox.stats().await.unwrap();
                assert!(stats.memory < 24 << 20, "{stats:?}");
                together.wait().await;
                drop(running);
                sandbox.end().await;
                let text = fs::read_to_string(workspace.join("file")).unwrap();
                assert_eq!(text, format!("{number}\n"));
            });
        }
        // A task that failed never comes: its panic is the news, not the wait.
        let meet = async |tasks: &mut JoinSet<()>| {
            tokio::select! {
                _ = together.wait() => {}
                Some(early) = tasks.join_next() => early.unwrap(),
            }
        };
        meet(&mut tasks).await;
        let mut traces = Vec::new();
        for number in (0..COUNT).step_by(20) {
            traces.push(Traces::of(mark(number)).await);
        }
        meet(&mut tasks).await;
        tasks.join_all().await;
        for traces in traces {
            // When `end` has returned there is nothing to wait for.
            assert!(traces.are_gone(), "{traces:?}");
        }
    });
}

#[test]
fn a_dropped_sandbox_cleans_up_too() {
    within(async {
        let world = World::new().await;
        let marker = marker("dropped");
        let running = world.exec(marked(&marker)).await.unwrap();
        let traces = Traces::of(marker).await;
        assert!(!traces.are_gone());
        drop(running);
        drop(world);
        eventually("nothing is left", async || traces.are_gone()).await;
    });
}

#[test]
fn a_start_that_is_given_up_leaves_nothing() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        for milliseconds in 0..20 {
            let start = Sandbox::start(SandboxSpec::new(folder.path()));
            // The time is the point at which it is given up, wherever that is.
            let patience = Duration::from_micros(milliseconds * 500);
            let _ = tokio::time::timeout(patience, start).await;
        }
        // No process has the workspace in its sight any more.
        let inside = folder.path().to_str().unwrap().to_owned();
        eventually("no mount of the workspace is left", async || {
            let sees_it = |pid: u32| {
                fs::read_to_string(format!("/proc/{pid}/mountinfo"))
                    .is_ok_and(|mounts| mounts.contains(&inside))
            };
            let pids = fs::read_dir("/proc").unwrap().flatten();
            let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            !pids.any(sees_it)
        })
        .await;
    });
}

#[test]
fn a_sandbox_whose_guest_was_killed_says_so() {
    within(async {
        let world = World::new().await;
        let marker = marker("killed");
        let mut running = world.exec(marked(&marker)).await.unwrap();
        let traces = Traces::of(marker).await;
        let guest = nix::unistd::Pid::from_raw(traces.processes[1] as i32);
        nix::sys::signal::kill(guest, nix::sys::signal::Signal::SIGKILL).unwrap();
        let outcome = loop {
            match running.next().await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        let is_said =
            |error: &SandboxError| matches!(error, SandboxError::Ended | SandboxError::Stream(_));
        assert!(is_said(&outcome), "{outcome:?}");
        let further = world.run(Command::new(["true"])).await.unwrap_err();
        assert!(is_said(&further), "{further:?}");
        assert!(is_said(&world.stats().await.unwrap_err()));
        drop(running);
        world.end().await;
        assert!(traces.are_gone(), "{traces:?}");
    });
}

#[test]
fn the_workspace_outlives_the_sandbox_and_the_rest_does_not() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..3 {
            let sandbox = Sandbox::start(SandboxSpec::new(folder.path()))
                .await
                .unwrap();
            let script = "cat count 2>/dev/null; ls -A /tmp /home/hotcell /run /dev/shm | grep -v : ; \
                          echo x >> count; touch /tmp/x ~/x /run/x /dev/shm/x";
            let captured = sandbox.run(Command::script(script)).await.unwrap();
            let seen = String::from_utf8(captured.stdout).unwrap();
            assert_eq!(seen.trim(), ["x"; 3][..round].join("\n"), "{round}");
            assert!(captured.verdict.success());
            sandbox.end().await;
        }
    });
}
