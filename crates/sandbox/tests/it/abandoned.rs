//! A killed owner: no part of its sandbox keeps running, and the next start removes what is left on
//! disk.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::under_test::leftovers::leftovers;
use crate::under_test::traces::{Traces, nobody_sees};
use crate::world::{eventually, is_root, within};

/// Built by the same cargo run, in a folder next to this test.
fn program() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let program = this.ancestors().nth(2).unwrap().join("examples/abandoned");
    let hint = "hint: cargo build -p sandbox --examples";
    assert!(
        program.exists(),
        "cannot find `{}`; {hint}",
        program.display()
    );
    program
}

/// An owner with a running sandbox.
struct Owner {
    process: Child,
    _output: BufReader<ChildStdout>,
}

impl Owner {
    fn start(workspace: &Path) -> Self {
        let mut process = Command::new(program())
            .current_dir(workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        Self {
            process,
            _output: output,
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_killed_owner_leaves_nothing_running_and_the_next_start_sweeps_the_disk() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path();
        let mut killed = Owner::start(workspace);
        let pid = killed.process.id();
        let traces = Traces::of_owner(workspace, pid);
        assert!(!traces.behind_the_first().is_empty(), "{traces:?}");
        assert_eq!(traces.groups.is_empty(), !is_root(), "{traces:?}");
        let growing = workspace.join("growing");
        eventually("the command writes", async || {
            fs::metadata(&growing).is_ok_and(|found| found.len() > 0)
        })
        .await;
        killed.process.kill().unwrap();
        killed.process.wait().unwrap();
        eventually(&format!("nothing runs of {traces:?}"), async || {
            traces.have_ended()
        })
        .await;
        // Writing has stopped, and the written data is there.
        let grown = fs::read_to_string(&growing).unwrap();
        assert!(grown.starts_with("more\n"), "{grown}");

        let mut next = Owner::start(workspace);
        let next_pid = next.process.id();
        drop(next.process.stdin.take());
        assert!(next.process.wait().unwrap().success());
        eventually("everything is swept", async || {
            traces.are_gone() && nobody_sees(workspace)
        })
        .await;
        for owner in [pid, next_pid] {
            let left = leftovers(owner);
            assert!(left.is_empty(), "of process {owner}: {left:#?}");
        }
    });
}
