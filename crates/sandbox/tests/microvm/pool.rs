//! Machines that wait in a pool.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbox::{LimitKind, MachinePool, Sandbox, SandboxLimits};

use crate::scene::{Fixture, machines_on, text, within};

#[test]
fn a_machine_that_waits_is_taken_with_its_workspace_and_replaced() {
    within(async {
        let scene = Fixture::shared();
        let folder = tempfile::tempdir().unwrap();
        let (jobs, waiting) = (folder.path().join("jobs"), folder.path().join("pool"));
        fs::create_dir(&jobs).unwrap();
        let pool = Arc::new(MachinePool::start(scene.spec(&jobs), 1, &waiting).unwrap());
        pool.filled().await;
        let workspace = jobs.join("one");
        fs::create_dir(&workspace).unwrap();
        let before = fs::metadata(&workspace).unwrap();
        let mut spec = scene.spec(&workspace);
        spec.pool = Some(pool.clone());
        let sandbox = Sandbox::start(spec.clone()).await.unwrap();
        let after = fs::metadata(&workspace).unwrap();
        assert_ne!(before.ino(), after.ino(), "the machine brings its folder");
        assert_eq!(before.mode(), after.mode());
        text(&sandbox, "echo inside > file; cat file").await;
        assert_eq!(
            fs::read_to_string(workspace.join("file")).unwrap(),
            "inside\n"
        );
        sandbox.end().await;
        pool.filled().await;

        // A workspace that is not empty is used directly, without the pool.
        let before = fs::metadata(&workspace).unwrap();
        let sandbox = Sandbox::start(spec).await.unwrap();
        assert_eq!(text(&sandbox, "cat file").await, "inside\n");
        assert_eq!(before.ino(), fs::metadata(&workspace).unwrap().ino());
        assert_eq!(pool.waiting(), 1);
        sandbox.end().await;

        assert_eq!(machines_on(folder.path()).len(), 1);
        drop(pool);
        // Dropping the pool ends the machines without waiting.
        while !machines_on(folder.path()).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(fs::read_dir(&waiting).unwrap().count(), 0);
    });
}

#[test]
fn a_machine_that_died_while_it_waited_is_nobodys_failure() {
    within(async {
        let scene = Fixture::shared();
        let folder = tempfile::tempdir().unwrap();
        let (workspace, waiting) = (folder.path().join("job"), folder.path().join("pool"));
        fs::create_dir(&workspace).unwrap();
        let pool = Arc::new(MachinePool::start(scene.spec(&workspace), 1, &waiting).unwrap());
        pool.filled().await;
        for machine in machines_on(folder.path()) {
            kill(Pid::from_raw(machine as i32), Signal::SIGKILL).unwrap();
        }
        // Whether or not its end was noticed already.
        let mut spec = scene.spec(&workspace);
        spec.pool = Some(pool.clone());
        let sandbox = Sandbox::start(spec).await.unwrap();
        assert_eq!(text(&sandbox, "echo works").await, "works\n");
        sandbox.end().await;
        pool.filled().await;
    });
}

#[test]
fn a_machine_serves_smaller_limits_and_no_larger_ones() {
    within(async {
        let scene = Fixture::shared();
        let folder = tempfile::tempdir().unwrap();
        let waiting = folder.path().join("pool");
        let pool = Arc::new(MachinePool::start(scene.spec(folder.path()), 1, &waiting).unwrap());
        let check = async |name: &str, change: fn(&mut SandboxLimits), fits: bool| {
            pool.filled().await;
            let workspace = folder.path().join(name);
            fs::create_dir(&workspace).unwrap();
            let before = fs::metadata(&workspace).unwrap().ino();
            let mut spec = scene.spec(&workspace);
            change(&mut spec.limits);
            spec.pool = Some(pool.clone());
            let pids = spec.limits.pids;
            let sandbox = Sandbox::start(spec).await.unwrap();
            let after = fs::metadata(&workspace).unwrap().ino();
            assert_eq!(before != after, fits, "{name}");
            let limits = sandbox.limits();
            let said = limits.iter().find(|one| one.limit == LimitKind::Pids);
            assert_eq!(said.unwrap().value, pids.to_string(), "{name}");
            sandbox.end().await;
        };
        check("smaller disk", |limits| limits.disk /= 2, true).await;
        check("fewer processes", |limits| limits.pids = 50, true).await;
        check("larger disk", |limits| limits.disk *= 2, false).await;
    });
}
