//! Lifecycle: many at once, ended, dropped or killed; nothing is left behind.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sandbox::{ExecCommand, RunningCommand, Sandbox, SandboxError};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::under_test::nature::resident;
use crate::under_test::traces::{Traces, nobody_sees};
use crate::under_test::{self, portion};
use crate::world::{TestSandbox, eventually, is_root, marker, until, within};

/// The host must see processes and, as root, a cgroup, on every backend.
fn traces(workspace: &Path) -> Traces {
    let traces = Traces::of(workspace);
    assert!(!traces.behind_the_first().is_empty(), "{traces:?}");
    assert_eq!(traces.groups.is_empty(), !is_root(), "{traces:?}");
    traces
}

/// A long-running command with a child, after it has started.
async fn busy<'a>(sandbox: &'a Sandbox, name: &str) -> RunningCommand<'a> {
    let argv = ["sh", "-c", "sleep 1000 & echo up; read line", &marker(name)];
    let mut running = sandbox.exec(ExecCommand::new(argv).stdin()).await.unwrap();
    until(&mut running, "up").await;
    running
}

/// Helper processes of an engine may end slightly later.
async fn all_are_gone(traces: &[Traces]) {
    for traces in traces {
        eventually(&format!("nothing is left of {traces:?}"), async || {
            traces.are_gone()
        })
        .await;
    }
}

#[test]
fn two_hundred_at_once_and_nothing_is_left() {
    within(async {
        let count = portion(200) as usize;
        let folder = tempfile::tempdir().unwrap();
        // All tasks and this test: first when all sandboxes are up, then when they were inspected.
        let together = Arc::new(Barrier::new(count + 1));
        let mut tasks = JoinSet::new();
        let workspace = |number: usize| folder.path().join(format!("number-{number}-of-many"));
        for number in 0..count {
            let workspace = workspace(number);
            fs::create_dir(&workspace).unwrap();
            let together = together.clone();
            tasks.spawn(async move {
                let sandbox = Sandbox::start(under_test::spec(&workspace)).await.unwrap();
                let script = format!("echo {number} > file; cat file");
                let captured = sandbox.run(ExecCommand::script(script)).await.unwrap();
                assert_eq!(captured.stdout, format!("{number}\n").as_bytes());
                let running = busy(&sandbox, &format!("many-{number}")).await;
                together.wait().await;
                let stats = sandbox.stats().await.unwrap();
                assert!(stats.memory < resident(24 << 20), "{stats:?}");
                together.wait().await;
                drop(running);
                sandbox.end().await;
                let text = fs::read_to_string(workspace.join("file")).unwrap();
                assert_eq!(text, format!("{number}\n"));
            });
        }
        // A failed task never arrives: report its panic instead of waiting.
        let meet = async |tasks: &mut JoinSet<()>| {
            tokio::select! {
                _ = together.wait() => {}
                Some(early) = tasks.join_next() => early.unwrap(),
            }
        };
        meet(&mut tasks).await;
        let mut seen = Vec::new();
        for number in (0..count).step_by(count.div_ceil(10)) {
            seen.push(traces(&workspace(number)));
        }
        meet(&mut tasks).await;
        tasks.join_all().await;
        for number in 0..count {
            // When `end` has returned, no process sees the workspace any more.
            assert!(nobody_sees(&workspace(number)), "{number}");
        }
        all_are_gone(&seen).await;
    });
}

#[test]
fn a_dropped_sandbox_cleans_up_too() {
    within(async {
        let TestSandbox { sandbox, folder } = TestSandbox::new().await;
        let running = busy(&sandbox, "dropped").await;
        let traces = traces(folder.path());
        assert!(!traces.are_gone());
        drop(running);
        drop(sandbox);
        all_are_gone(&[traces]).await;
    });
}

#[test]
fn a_start_that_is_given_up_leaves_nothing() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let start = || Sandbox::start(under_test::spec(folder.path()));
        let began = Instant::now();
        start().await.unwrap().end().await;
        let whole = began.elapsed();
        for part in 0..20 {
            // The timeout aborts the start at different points.
            let _ = tokio::time::timeout(whole * part / 20, start()).await;
        }
        // No process has the workspace mounted any more.
        eventually("no mount of the workspace is left", async || {
            nobody_sees(folder.path())
        })
        .await;
    });
}

#[test]
fn a_sandbox_that_was_killed_from_outside_says_so() {
    within(async {
        let world = TestSandbox::new().await;
        let mut running = busy(&world, "killed").await;
        let traces = traces(world.folder.path());
        // The guest, or the machine that runs it, but not the process that takes the walls down.
        for pid in traces.behind_the_first() {
            let pid = nix::unistd::Pid::from_raw(pid as i32);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        let outcome = loop {
            match running.next().await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        let is_said =
            |error: &SandboxError| matches!(error, SandboxError::Ended | SandboxError::Stream(_));
        assert!(is_said(&outcome), "{outcome:?}");
        let further = world.run(ExecCommand::new(["true"])).await.unwrap_err();
        assert!(is_said(&further), "{further:?}");
        assert!(is_said(&world.stats().await.unwrap_err()));
        drop(running);
        let TestSandbox { sandbox, folder } = world;
        sandbox.end().await;
        assert!(nobody_sees(folder.path()));
        all_are_gone(&[traces]).await;
    });
}

#[test]
fn the_workspace_outlives_the_sandbox_and_the_rest_does_not() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..3 {
            let sandbox = Sandbox::start(under_test::spec(folder.path()))
                .await
                .unwrap();
            let script = "cat count 2>/dev/null; ls -A /tmp /home/hotcell /run /dev/shm | grep -v : ; \
                          echo x >> count; touch /tmp/x ~/x /run/x /dev/shm/x";
            let captured = sandbox.run(ExecCommand::script(script)).await.unwrap();
            let seen = String::from_utf8(captured.stdout).unwrap();
            assert_eq!(seen.trim(), ["x"; 3][..round].join("\n"), "{round}");
            assert!(captured.verdict.success());
            sandbox.end().await;
        }
    });
}

/// Another sandbox may place a link after the path was checked.
#[test]
fn a_link_on_the_way_to_the_workspace_is_not_followed() {
    within(async {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("secret/below")).unwrap();
        std::os::unix::fs::symlink("secret", place.path().join("link")).unwrap();
        for path in ["link", "link/below"] {
            let started = Sandbox::start(under_test::spec(place.path().join(path))).await;
            assert!(started.is_err(), "{path}");
        }
    });
}
