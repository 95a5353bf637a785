//! The UI does not wake up while it is idle.

use std::fs;
use std::time::Duration;

use crate::pty::TestPty;

#[test]
fn an_idle_ui_uses_no_processor() {
    let mut pty = TestPty::echo("");
    pty.wait_for_bytes("\x1b[c");
    pty.send("\x1b[?62cwaiting");
    pty.wait_for("waiting");
    // Wait until the effects of the key have ended.
    let mut before = context_switches(pty.pid());
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = context_switches(pty.pid());
        if now == before {
            break;
        }
        before = now;
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(context_switches(pty.pid()), before, "no thread has run");
}

/// Voluntary context switches of each thread: how often it was woken.
fn context_switches(pid: i32) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks
        .map(|task| {
            let status = fs::read_to_string(task.path().join("status")).unwrap();
            let line = status
                .lines()
                .find(|line| line.starts_with("voluntary_ctxt_switches"))
                .unwrap();
            (task.file_name().into_string().unwrap(), line.to_owned())
        })
        .collect()
}
