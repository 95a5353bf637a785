//! A sandbox under test, its workspace, and its traces on the host.

use std::fs;
use std::future::Future;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox::request::{CommandStatus, Refusal, RefusalKind};
use sandbox::{
    CapturedOutput, CommandEvent, CommandResult, ExecCommand, RunningCommand, Sandbox,
    SandboxError, SandboxSpec,
};
use tempfile::TempDir;

use crate::under_test::run_test::run_with_timeout;
use crate::under_test::traces::Traces;
use crate::under_test::{self, nature};

/// Timeout of a test, far above its normal time.
fn test_timeout() -> Duration {
    nature::scaled_timeout(Duration::from_secs(100))
}

/// Runs a test to its end, or fails it after a timeout.
pub(crate) fn within(test: impl Future<Output = ()>) {
    run_with_timeout(test_timeout(), test);
}

/// Waits for a condition that has no event.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let give_up = Instant::now() + test_timeout() / 2;
    while !condition().await {
        assert!(Instant::now() < give_up, "never came about: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A text that is unique among the arguments of all processes.
pub(crate) fn marker(name: &str) -> String {
    format!("hotcell-it-{name}-{}", std::process::id())
}

/// A sandbox and its workspace.
pub(crate) struct TestSandbox {
    pub(crate) sandbox: Sandbox,
    pub(crate) folder: TempDir,
}

impl Deref for TestSandbox {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl TestSandbox {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut SandboxSpec)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = under_test::spec(folder.path());
        change(&mut spec);
        let sandbox = Sandbox::start(spec).await.unwrap();
        Self { sandbox, folder }
    }

    /// A path of the workspace, on the host.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the host sees of it now.
    pub(crate) fn traces(&self) -> Traces {
        Traces::of(self.folder.path())
    }

    pub(crate) async fn sh(&self, script: &str) -> CapturedOutput {
        self.run(ExecCommand::script(script)).await.unwrap()
    }

    /// The output of a script, which must succeed.
    pub(crate) async fn text(&self, script: &str) -> String {
        let captured = self.sh(script).await;
        assert!(captured.verdict.success(), "{script}: {captured:?}");
        text(&captured.stdout)
    }

    pub(crate) async fn end(self) {
        self.sandbox.end().await;
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn ended(status: CommandStatus) -> CommandResult {
    CommandResult {
        status,
        limit: None,
    }
}

#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(outcome: Result<T, SandboxError>) -> Refusal {
    match outcome {
        Err(SandboxError::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_refused<T: std::fmt::Debug>(
    outcome: Result<T, SandboxError>,
    kind: RefusalKind,
    says: &str,
) {
    let refusal = refusal(outcome);
    assert_eq!(refusal.kind, kind, "{refusal}");
    assert!(refusal.message.contains(says), "{refusal}");
}

/// Reads until standard output contains the expected text.
pub(crate) async fn until(running: &mut RunningCommand<'_>, expect: &str) -> String {
    let mut seen = Vec::new();
    loop {
        match running.next().await.unwrap() {
            CommandEvent::Stdout(bytes) => seen.extend_from_slice(&bytes),
            CommandEvent::Stderr(bytes) => panic!("{}", String::from_utf8_lossy(&bytes)),
            CommandEvent::Ended(verdict) => panic!("{verdict:?} after {}", text(&seen)),
        }
        let so_far = String::from_utf8_lossy(&seen);
        if so_far.contains(expect) {
            return so_far.into_owned();
        }
    }
}

/// Reads to the end.
pub(crate) async fn rest(running: &mut RunningCommand<'_>) -> CapturedOutput {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match running.next().await.unwrap() {
            CommandEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
            CommandEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
            CommandEvent::Ended(verdict) => {
                return CapturedOutput {
                    stdout,
                    stderr,
                    verdict,
                };
            }
        }
    }
}

/// Processes of the host that have this text as an argument.
pub(crate) fn processes_with(marker: &str) -> Vec<u32> {
    let marker = marker.as_bytes();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .unwrap_or_default()
                .split(|byte| *byte == 0)
                .any(|argument| argument == marker)
        })
        .collect()
}

/// The only process with this argument, on backends whose processes the host sees.
pub(crate) async fn process_with(marker: &str) -> u32 {
    let mut found = Vec::new();
    eventually("a process with the marker", async || {
        found = processes_with(marker);
        found.len() == 1
    })
    .await;
    found[0]
}

/// A field of `/proc/PID/status`.
pub(crate) fn status_field(pid: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}
