//! However a machine ends, the data that its commands wrote is on the host, and nothing else is
//! left.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbox::{ExecCommand, Sandbox};

use crate::scene::{Fixture, machines_on, text, within};

#[test]
fn a_machine_that_dies_ends_the_sandbox_and_leaves_what_was_written() {
    within(async {
        let scene = Fixture::shared();
        let workspace = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::start(scene.spec(workspace.path())).await.unwrap();
        text(&sandbox, "echo kept > /workspace/file").await;
        let marked = workspace.path().join("file");
        assert_eq!(fs::read_to_string(&marked).unwrap(), "kept\n");
        let machines = machines_on(workspace.path());
        assert_eq!(machines.len(), 1);
        for machine in &machines {
            kill(Pid::from_raw(*machine as i32), Signal::SIGKILL).unwrap();
        }
        // The link ends by itself, and requests fail.
        loop {
            match sandbox.run(ExecCommand::new(["/bin/true"])).await {
                Ok(_) => {}
                Err(error) => {
                    assert!(error.is_final(), "{error}");
                    break;
                }
            }
        }
        sandbox.end().await;
        assert_eq!(fs::read_to_string(&marked).unwrap(), "kept\n");
        assert!(machines_on(workspace.path()).is_empty());
    });
}

#[test]
fn a_command_that_writes_until_the_end_loses_nothing() {
    within(async {
        let scene = Fixture::shared();
        let workspace = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::start(scene.spec(workspace.path())).await.unwrap();
        // A command that still writes when the sandbox ends.
        let script = "exec 3>/workspace/log; i=0; while true; do i=$((i+1)); echo $i >&3; done";
        let running = sandbox.exec(ExecCommand::script(script)).await.unwrap();
        let log = workspace.path().join("log");
        while fs::metadata(&log).map_or(0, |found| found.len()) < 64 {
            tokio::task::yield_now().await;
        }
        drop(running);
        sandbox.end().await;
        // Complete lines in order: no visible data was lost.
        let content = fs::read_to_string(&log).unwrap();
        let numbers: Vec<u64> = content.lines().map(|line| line.parse().unwrap()).collect();
        assert!(numbers.iter().zip(1..).all(|(got, expect)| *got == expect));
    });
}
