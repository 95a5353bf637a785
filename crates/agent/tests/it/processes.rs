//! Processes of the sandboxes, as seen on the host.

use std::time::{Duration, Instant};

/// How long to wait for a condition.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(50);

/// Waits for a condition that has no event.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + CONDITION_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < give_up, "never came about: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Text that no other process of this machine has in its arguments.
pub(crate) fn marker(name: &str) -> String {
    format!("hotcell-agent-{name}-{}", std::process::id())
}

/// Host pids of the processes that have this text as one of their arguments.
pub(crate) fn processes_with(marker: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .unwrap_or_default()
                .split(|byte| *byte == 0)
                .any(|argument| argument == marker.as_bytes())
        })
        .collect()
}
