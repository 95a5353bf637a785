//! One line of the list of attacks, as data.

use std::pin::Pin;

use sandbox::{CommandResult, LimitKind, SandboxError, SandboxSpec};

use crate::scene::{AttackFixture, HostSurroundings};

/// A result, or what is wrong.
pub(crate) type CheckResult<T = ()> = Result<T, String>;

/// The future of a driver.
pub(crate) type DriverFuture<'a> =
    Pin<Box<dyn Future<Output = CheckResult<AttackOutcome>> + Send + 'a>>;

/// An attack and its expected result.
#[derive(Clone, Copy)]
pub(crate) struct Attack {
    /// The line number in the list of attacks.
    pub(crate) number: u32,
    /// Its name in the hostile program.
    pub(crate) name: &'static str,
    pub(crate) expect: ExpectedEnd,
    /// Changes the sandbox before it starts.
    pub(crate) tune: fn(&mut SandboxSpec, &HostSurroundings),
    /// The host's part; [`run`] for attacks in which the host only watches.
    pub(crate) drive: fn(&AttackFixture) -> DriverFuture<'_>,
    /// Whether the backend under test has the attacked feature.
    pub(crate) applies: fn() -> bool,
    /// Checks the host afterwards, in addition to the checks after every attack.
    pub(crate) outside: fn(&AttackFixture, &AttackOutcome) -> CheckResult,
}

/// How an attack must end. In all cases it must not have printed `BREACH`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ExpectedEnd {
    /// It ran to its end and every attempt failed.
    Held,
    /// A limit of this kind ended it.
    Limit(LimitKind),
    /// Either: the enforcement differs between machines.
    HeldOrLimit(LimitKind),
    /// The driver and the outside check decide.
    Driven,
    /// The same, and the sandbox need not work afterwards.
    DrivenToItsEnd,
}

impl ExpectedEnd {
    /// Whether the same sandbox must keep working.
    pub(crate) fn must_survive(self) -> bool {
        self != Self::DrivenToItsEnd
    }
}

/// What an attack printed and how it ended.
#[derive(Debug, Default)]
pub(crate) struct AttackOutcome {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// `None` if the sandbox is gone.
    pub(crate) verdict: Option<CommandResult>,
    pub(crate) error: Option<String>,
}

impl AttackOutcome {
    /// For a driver that has already checked everything.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    pub(crate) fn from_run(run: Result<sandbox::CapturedOutput, SandboxError>) -> Self {
        match run {
            Ok(captured) => Self {
                stdout: captured.stdout,
                stderr: captured.stderr,
                verdict: Some(captured.verdict),
                error: None,
            },
            Err(error) => Self {
                error: Some(error.to_string()),
                ..Self::default()
            },
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn lines(&self, prefix: &str) -> Vec<String> {
        let text = self.text();
        let lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
        lines.map(|line| line.trim().to_owned()).collect()
    }
}

/// Runs the attack with the arguments that every attack gets.
pub(crate) fn run(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let command = scene.hostile(scene.attack.name, &[]);
        Ok(AttackOutcome::from_run(scene.sandbox().run(command).await))
    })
}

impl Attack {
    pub(crate) const fn new(number: u32, name: &'static str) -> Self {
        Self {
            number,
            name,
            expect: ExpectedEnd::Held,
            tune: |_, _| {},
            drive: run,
            applies: || true,
            outside: |_, _| Ok(()),
        }
    }

    pub(crate) const fn expect(mut self, expect: ExpectedEnd) -> Self {
        self.expect = expect;
        self
    }

    pub(crate) const fn tune(mut self, tune: fn(&mut SandboxSpec, &HostSurroundings)) -> Self {
        self.tune = tune;
        self
    }

    pub(crate) const fn drive(mut self, drive: fn(&AttackFixture) -> DriverFuture<'_>) -> Self {
        self.drive = drive;
        self
    }

    pub(crate) const fn only_where(mut self, applies: fn() -> bool) -> Self {
        self.applies = applies;
        self
    }

    pub(crate) const fn outside(
        mut self,
        outside: fn(&AttackFixture, &AttackOutcome) -> CheckResult,
    ) -> Self {
        self.outside = outside;
        self
    }
}
