//! Runs attacks and judges them, by the output of the hostile program and by checks outside.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use sandbox::request::CommandStatus;
use sandbox::{CommandResult, ExecCommand, LimitKind, Sandbox};
use tempfile::TempDir;

use crate::attack::{Attack, AttackOutcome, CheckResult, ExpectedEnd};
use crate::backend::{self, TestedBackend};
use crate::outside::processes_with;
use crate::scene::{AttackFixture, HostSurroundings, within};
use crate::under_test::nature;
use crate::under_test::traces::in_sight_of;

/// Runs a group on the backend under test, next to a sandbox that must not be affected.
pub(crate) async fn run_group(attacks: &[Attack]) {
    let mut failures = Vec::new();
    let backend = backend::tested();
    let bystander = Bystander::start(backend).await;
    for attack in attacks {
        if !(attack.applies)() {
            println!(
                "{:>3} {:<24} has no target here",
                attack.number, attack.name
            );
            continue;
        }
        let began = Instant::now();
        let found = check(backend, *attack).await;
        let found = match found {
            Ok(()) => bystander.answers().await,
            wrong => wrong,
        };
        if let Err(problem) = &found {
            failures.push(format!(
                "{} on {}, line {}: {problem}",
                attack.name, backend.name, attack.number
            ));
        }
        println!(
            "{:>3} {:<24} {:<6} {:?}",
            attack.number,
            attack.name,
            if found.is_ok() { "held" } else { "FAILED" },
            began.elapsed()
        );
    }
    bystander.end().await;
    assert!(
        failures.is_empty(),
        "{} of {} attacks went through:\n{}",
        failures.len(),
        attacks.len(),
        failures.join("\n")
    );
}

/// Runs one attack.
pub(crate) async fn check(backend: TestedBackend, attack: Attack) -> CheckResult {
    let mut scene = AttackFixture::set(backend, attack).await?;
    let outcome = drive_with_timeout(&scene).await;
    let found = match &outcome {
        Ok(outcome) => judge(attack.expect, outcome)
            .and_then(|()| guarded(|| (attack.outside)(&scene, outcome))),
        Err(problem) => Err(problem.clone()),
    };
    let served = if attack.expect.must_survive() && found.is_ok() {
        check_still_works(scene.sandbox()).await
    } else {
        Ok(())
    };
    // In all cases nothing may be left behind.
    let struck = scene.strike().await;
    let gone = check_nothing_left(&scene.props).await;
    let untouched = scene.props.check(&outcome.unwrap_or_default());
    found.and(served).and(struck).and(gone).and(untouched)
}

/// Runs the driver with a timeout.
async fn drive_with_timeout(scene: &AttackFixture) -> CheckResult<AttackOutcome> {
    let hangs = nature::scaled_timeout(Duration::from_secs(120));
    match tokio::time::timeout(hangs, (scene.attack.drive)(scene)).await {
        Ok(outcome) => outcome,
        Err(_) => Err("hangs".into()),
    }
}

fn guarded(look: impl FnOnce() -> CheckResult) -> CheckResult {
    std::panic::catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| Err("panicked".into()))
}

pub(crate) fn judge(expect: ExpectedEnd, outcome: &AttackOutcome) -> CheckResult {
    let breaches = outcome.lines("BREACH ");
    if !breaches.is_empty() {
        let more = breaches.len().saturating_sub(8);
        let shown = breaches.into_iter().take(8).collect::<Vec<_>>().join("; ");
        return Err(match more {
            0 => shown,
            more => format!("{shown}; and {more} more"),
        });
    }
    let held = || held(outcome);
    let ended_by = |limit| match &outcome.verdict {
        Some(CommandResult {
            limit: Some(found), ..
        }) if *found == limit => Ok(()),
        _ => Err(format!(
            "not ended by the limit on {}: {}",
            LimitKind::name(limit),
            describe(outcome)
        )),
    };
    match expect {
        ExpectedEnd::Held => held(),
        ExpectedEnd::Limit(limit) => ended_by(limit),
        ExpectedEnd::HeldOrLimit(limit) => ended_by(limit).or_else(|_| held()),
        ExpectedEnd::Driven | ExpectedEnd::DrivenToItsEnd => Ok(()),
    }
}

fn held(outcome: &AttackOutcome) -> CheckResult {
    let ended_well =
        matches!(&outcome.verdict, Some(verdict) if verdict.status == CommandStatus::Code(0));
    if ended_well && !outcome.lines("HELD ").is_empty() {
        Ok(())
    } else {
        Err(format!("did not run to its end: {}", describe(outcome)))
    }
}

pub(crate) fn describe(outcome: &AttackOutcome) -> String {
    let text = outcome.text();
    let last = text.lines().rev().take(3).collect::<Vec<_>>();
    let errors = String::from_utf8_lossy(&outcome.stderr);
    let errors: String = errors.chars().take(400).collect();
    format!(
        "{:?} {:?}, last said {last:?}, errors {errors:?}",
        outcome.verdict, outcome.error
    )
}

/// Checks that the sandbox still works: a command, a file.
pub(crate) async fn check_still_works(sandbox: &Sandbox) -> CheckResult {
    let run = within(
        "run afterwards",
        sandbox.run(ExecCommand::new(["/bin/true"])),
    )
    .await?;
    if !run.verdict.success() {
        return Err(format!("a command afterwards ended with {:?}", run.verdict));
    }
    within("stat afterwards", sandbox.stat("hostile")).await?;
    within("read afterwards", sandbox.read_file("hostile", 0, Some(64))).await?;
    Ok(())
}

/// Checks that no process has the marker or sees the workspace. That is so as soon as a sandbox has
/// ended; the deadline only lets the kernel clear the process table.
pub(crate) async fn check_nothing_left(props: &HostSurroundings) -> CheckResult {
    let end = Instant::now() + nature::scaled_timeout(Duration::from_secs(10));
    loop {
        let left = processes_with(&props.marker);
        let around = in_sight_of(&props.workspace);
        if left.is_empty() && around.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("processes were left: {left:?} {around:?}"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Another sandbox on the same machine.
struct Bystander {
    sandbox: Sandbox,
    _workspace: TempDir,
}

impl Bystander {
    async fn start(backend: TestedBackend) -> Self {
        let workspace = TempDir::new().expect("there is a folder for temporary files");
        let sandbox = Sandbox::start(backend.spec(workspace.path())).await;
        Self {
            sandbox: sandbox.expect("a sandbox starts"),
            _workspace: workspace,
        }
    }

    async fn answers(&self) -> CheckResult {
        let run = within(
            "a bystander",
            self.sandbox.run(ExecCommand::new(["/bin/true"])),
        )
        .await?;
        if run.verdict.success() {
            Ok(())
        } else {
            Err(format!("a bystander was harmed: {:?}", run.verdict))
        }
    }

    async fn end(self) {
        self.sandbox.end().await;
    }
}
