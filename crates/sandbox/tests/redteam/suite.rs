//! Runs attacks and judges them, by the output of the hostile program and by checks outside.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use sandbox::request::Status;
use sandbox::{Command, LimitKind, Sandbox, Verdict};
use tempfile::TempDir;

use crate::attack::{Attack, Expect, Finding, Outcome};
use crate::backend::{self, Backend};
use crate::outside::processes_with;
use crate::scene::{Props, Scene, within};
use crate::under_test::nature;
use crate::under_test::traces::in_sight_of;

/// Runs a group on the backend under test, next to a sandbox that must not be affected.
pub(crate) async fn play(attacks: &[Attack]) {
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
pub(crate) async fn check(backend: Backend, attack: Attack) -> Finding {
    let mut scene = Scene::set(backend, attack).await?;
    let outcome = perform(&scene).await;
    let found = match &outcome {
        Ok(outcome) => judge(attack.expect, outcome)
            .and_then(|()| guarded(|| (attack.outside)(&scene, outcome))),
        Err(problem) => Err(problem.clone()),
    };
    let served = if attack.expect.survives() && found.is_ok() {
        serves(scene.sandbox()).await
    } else {
        Ok(())
    };
    // In all cases nothing may be left behind.
    let struck = scene.strike().await;
    let gone = nobody_left(&scene.props).await;
    let untouched = scene.props.check(&outcome.unwrap_or_default());
    found.and(served).and(struck).and(gone).and(untouched)
}

/// Runs the driver with a timeout.
async fn perform(scene: &Scene) -> Finding<Outcome> {
    let hangs = nature::patience(Duration::from_secs(120));
    match tokio::time::timeout(hangs, (scene.attack.drive)(scene)).await {
        Ok(outcome) => outcome,
        Err(_) => Err("hangs".into()),
    }
}

fn guarded(look: impl FnOnce() -> Finding) -> Finding {
    std::panic::catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| Err("panicked".into()))
}

pub(crate) fn judge(expect: Expect, outcome: &Outcome) -> Finding {
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
        Some(Verdict {
            limit: Some(found), ..
        }) if *found == limit => Ok(()),
        _ => Err(format!(
            "not ended by the limit on {}: {}",
            LimitKind::name(limit),
            say(outcome)
        )),
    };
    match expect {
        Expect::Held => held(),
        Expect::Limit(limit) => ended_by(limit),
        Expect::HeldOrLimit(limit) => ended_by(limit).or_else(|_| held()),
        Expect::Driven | Expect::DrivenToItsEnd => Ok(()),
    }
}

fn held(outcome: &Outcome) -> Finding {
    let ended_well = matches!(&outcome.verdict, Some(verdict) if verdict.status == Status::Code(0));
    if ended_well && !outcome.lines("HELD ").is_empty() {
        Ok(())
    } else {
        Err(format!("did not run to its end: {}", say(outcome)))
    }
}

pub(crate) fn say(outcome: &Outcome) -> String {
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
pub(crate) async fn serves(sandbox: &Sandbox) -> Finding {
    let run = within("run afterwards", sandbox.run(Command::new(["/bin/true"]))).await?;
    if !run.verdict.success() {
        return Err(format!("a command afterwards ended with {:?}", run.verdict));
    }
    within("stat afterwards", sandbox.stat("hostile")).await?;
    within("read afterwards", sandbox.read_file("hostile", 0, Some(64))).await?;
    Ok(())
}

/// Checks that no process has the marker or sees the workspace. That is so as soon as a sandbox has
/// ended; the deadline only lets the kernel clear the process table.
pub(crate) async fn nobody_left(props: &Props) -> Finding {
    let end = Instant::now() + nature::patience(Duration::from_secs(10));
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
    async fn start(backend: Backend) -> Self {
        let workspace = TempDir::new().expect("there is a folder for temporary files");
        let sandbox = Sandbox::start(backend.spec(workspace.path())).await;
        Self {
            sandbox: sandbox.expect("a sandbox starts"),
            _workspace: workspace,
        }
    }

    async fn answers(&self) -> Finding {
        let run = within("a bystander", self.sandbox.run(Command::new(["/bin/true"]))).await?;
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
