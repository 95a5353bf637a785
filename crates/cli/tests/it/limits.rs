//! Limits: exit codes, and a line that names the limit.

use std::process::Output;

use insta::assert_snapshot;

use crate::place::{Place, assert_code, is_root, stderr, stdout};

fn limit_message(output: &Output, code: i32) -> String {
    assert_code(output, code);
    stderr(output)
}

#[test]
fn the_start_counts_against_the_time_limit() {
    let place = Place::with_workspace();
    // No process starts that fast.
    let said = limit_message(&place.exec(&["--timeout", "1ms"], "true"), 124);
    let expect = "hotcell: cannot start the sandbox within 1ms: timed out before it could ";
    assert!(said.starts_with(expect), "{said}");
    assert!(
        said.ends_with("hint: raise it with `--timeout`\n"),
        "{said}"
    );
}

#[test]
fn each_limit_is_named() {
    let place = Place::with_workspace();
    let output = place.exec(&["--timeout", "3s"], "echo before; sleep 1000");
    assert_eq!(stdout(&output), "before\n");
    assert_snapshot!(limit_message(&output, 124), @r"
        hotcell: the command was killed: time limit of 3s reached
        hint: raise it with `--timeout`
    ");
    let output = place.exec(&["--max-output", "1M"], "yes");
    assert_eq!(output.stdout.len(), 1 << 20);
    assert_snapshot!(limit_message(&output, 137), @r"
        hotcell: the command was killed: output limit of 1M reached
        hint: raise it with `--max-output`
    ");
    let fill = "i=0; while :; do head -c 1M /dev/zero > $i; i=$((i+1)); done";
    assert_snapshot!(limit_message(&place.exec(&["--disk", "8M"], fill), 137), @r"
        hotcell: the command was killed: disk limit of 8M reached
        hint: raise it with `--disk`
    ");
    let one_file = place.exec(
        &["--disk", "8M"],
        "exec dd if=/dev/zero of=one bs=1M status=none",
    );
    assert_snapshot!(limit_message(&one_file, 137), @r"
        hotcell: the command was killed: disk limit of 8M reached
        hint: raise it with `--disk`
    ");
}

#[test]
fn memory() {
    let place = Place::with_workspace();
    let hungry = "exec perl -e '$x = \"x\" x (400 << 20); print length $x'";
    let output = place.exec(&["--memory", "64M"], hungry);
    // Enforced by a control group, as always for root; otherwise the allocation fails.
    let is_killed = output.status.code() == Some(137);
    assert!(is_killed || !is_root(), "{output:?}");
    if is_killed {
        assert_snapshot!(limit_message(&output, 137), @r"
            hotcell: the command was killed: memory limit of 64M reached
            hint: raise it with `--memory`
        ")
    } else {
        assert!(stderr(&output).contains("Out of memory"), "{output:?}")
    }
    assert!(!output.status.success());
    assert_eq!(stdout(&output), "");
}

#[test]
fn strict_limits_start_where_all_hold_and_nowhere_else() {
    let place = Place::with_workspace();
    let output = place.exec(&["--strict-limits", "--cpus", "1"], "echo started");
    let is_started = stdout(&output) == "started\n";
    assert!(is_started || !is_root(), "{output:?}");
    if !is_started {
        assert_snapshot!(limit_message(&output, 2), @r"
            hotcell: nothing on this machine enforces the limit on memory in full: private memory of each process by itself, and not what processes share or keep in memory files: no cgroup is delegated to this user
            hint: drop `--strict-limits`, or run where a cgroup is delegated to you
        ");
    }
}

#[test]
fn processes_open_files_and_processors() {
    let place = Place::with_workspace();
    let output = place.exec(&["--open-files", "64"], "ulimit -n");
    assert_eq!(stdout(&output), "64\n");
    let bomb = "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done 2>&1; echo survived";
    let output = place.exec(&["--pids", "20"], bomb);
    assert!(stdout(&output).contains("fork"), "{output:?}");
    let output = place.exec(&["--cpus", "1"], "nproc");
    assert_code(&output, 0);
}
