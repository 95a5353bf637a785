//! `hotcell exec`: one command in a new sandbox, its streams passed through unchanged.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::time::Duration;

use sandbox::request::CommandStatus;
use sandbox::{
    CommandControl, CommandEvent, CommandInput, CommandResult, ExecCommand, LimitKind,
    RunningCommand, Sandbox, SandboxError, SandboxSpec, limits,
};
use tokio::signal::unix::{SignalKind, signal};

use super::runtime;
use crate::args::ExecFlags;
use crate::cli_error::{CliError, warn};
use crate::settings::{SettingOverrides, Settings, sandbox_spec};
use crate::{standard_streams, terminal};

/// Exit code of a command that timed out.
const TIMED_OUT: u8 = 124;
/// Exit code of a command that a limit killed.
const KILLED: u8 = 137;
/// Exit code when the output was closed.
const BROKEN_PIPE: u8 = 141;

/// How long the sandbox may take to forward a signal that asks the command to end.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(exec: &ExecFlags) -> Result<u8, CliError> {
    if exec
        .command
        .first()
        .is_some_and(|program| program.is_empty())
    {
        return Err(CliError::usage("the command is empty")
            .hint("write it after `--`, such as `hotcell exec -- ls`".to_owned()));
    }
    let settings = Settings::read(&SettingOverrides::default().sandbox(&exec.sandbox))?;
    let mut spec = sandbox_spec(&exec.sandbox, &settings)?;
    // Standard error passes through unchanged, so this program writes nothing to it unless it is a terminal.
    // There it shows the workspace if no flag names it.
    if exec.sandbox.workspace.is_none() && std::io::stderr().is_terminal() {
        warn(format!("workspace: {}", spec.workspace.display()));
    }
    spec.limits.wall = exec.timeout;
    spec.env.extend(
        exec.env
            .iter()
            .map(|pair| (pair.name.clone(), pair.value.clone())),
    );
    let runtime = runtime()?;
    let code = runtime.block_on(execute(spec, exec));
    // A thread may still be blocked on standard input; it must not keep this process alive.
    runtime.shutdown_background();
    code
}

async fn execute(spec: SandboxSpec, exec: &ExecFlags) -> Result<u8, CliError> {
    let limits = spec.limits;
    let sandbox = match Sandbox::start(spec).await {
        Err(error @ SandboxError::StartTimedOut { .. }) if limits.wall.is_some() => {
            return Err(CliError::from_error(TIMED_OUT, &error)
                .hint("raise it with `--timeout`".to_owned()));
        }
        started => started?,
    };
    let mut command = ExecCommand::new(&exec.command).stdin();
    if exec.terminal {
        let term = std::env::var_os("TERM").unwrap_or_else(|| "xterm-256color".into());
        command = command.terminal(terminal::size()).env("TERM", term);
    }
    let outcome = match sandbox.exec(command).await {
        Ok(running) => {
            let raw = exec.terminal.then(terminal::RawMode::enter);
            let outcome = pass_through(running, exec.terminal).await;
            drop(raw);
            outcome
        }
        Err(error) => Err(error.into()),
    };
    let ending = sandbox.end().await;
    if ending.is_stuck {
        warn("the sandbox did not end in time: some of its processes may still exist");
    }
    match outcome {
        Ok(verdict) => Ok(exit_code(&verdict, &limits)),
        Err(ExecStopped::OutputClosed) => Ok(BROKEN_PIPE),
        Err(ExecStopped::Unheard(signal)) => {
            warn("the sandbox did not respond and was ended with the command");
            Ok(128 + signal as u8)
        }
        // The guest itself was killed by the memory limit, or the sandbox timed out.
        Err(ExecStopped::Broken(SandboxError::Stream(_) | SandboxError::Ended))
            if ending.memory_kills > 0 =>
        {
            warn_limit(LimitKind::Memory, &limits);
            Ok(KILLED)
        }
        Err(ExecStopped::Broken(error)) => Err(error.into()),
    }
}

/// Why the streams were closed before the command ended.
enum ExecStopped {
    OutputClosed,
    /// The sandbox did not forward a signal that asks the command to end.
    Unheard(i32),
    Broken(SandboxError),
}

impl From<SandboxError> for ExecStopped {
    fn from(error: SandboxError) -> Self {
        Self::Broken(error)
    }
}

async fn pass_through(
    mut running: RunningCommand<'_>,
    is_terminal: bool,
) -> Result<CommandResult, ExecStopped> {
    let feeder = running
        .take_input()
        .map(|input| tokio::spawn(forward_input(input)));
    let mut relay = tokio::spawn(relay(running.remote(), is_terminal));
    let mut outlet = standard_streams::StreamWriter::default();
    let outcome = loop {
        let next = tokio::select! {
            biased;
            next = running.next() => next,
            Ok(Err(stopped)) = &mut relay => break Err(stopped),
        };
        match next {
            Ok(CommandEvent::Stdout(bytes)) => {
                if outlet.write(standard_streams::STDOUT, bytes).await.is_err() {
                    break Err(ExecStopped::OutputClosed);
                }
            }
            Ok(CommandEvent::Stderr(bytes)) => {
                let _ = outlet.write(standard_streams::STDERR, bytes).await;
            }
            Ok(CommandEvent::Ended(verdict)) => break Ok(verdict),
            Err(error) => break Err(error.into()),
        }
    };
    outlet.finish().await;
    relay.abort();
    if let Some(feeder) = feeder {
        feeder.abort();
    }
    outcome
}

/// Forwards standard input to its end.
async fn forward_input(mut input: CommandInput) -> Result<(), SandboxError> {
    // Input that cannot be read counts as empty.
    while let Ok(bytes) = standard_streams::STDIN.read().await {
        if bytes.is_empty() {
            break;
        }
        input.write(bytes).await?;
    }
    Ok(())
}

/// Forwards signals and terminal sizes while the command runs.
async fn relay(remote: CommandControl, is_terminal: bool) -> Result<Infallible, ExecStopped> {
    let listen = |kind| signal(kind).map_err(SandboxError::Launch);
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let mut quit = listen(SignalKind::quit())?;
    let mut resized = listen(SignalKind::window_change())?;
    let mut interrupts = 0;
    loop {
        tokio::select! {
            _ = interrupt.recv() => {
                interrupts += 1;
                // A command that ignores two interrupts is killed by the third. The first two ask it to stop
                // its current work, not to end, so a slow sandbox may take its time.
                if interrupts > 2 {
                    forward_signal(&remote, libc::SIGKILL).await?;
                } else {
                    let remote = remote.clone();
                    tokio::spawn(async move { remote.signal(libc::SIGINT).await });
                }
            }
            _ = terminate.recv() => forward_signal(&remote, libc::SIGTERM).await?,
            _ = hangup.recv() => forward_signal(&remote, libc::SIGHUP).await?,
            _ = quit.recv() => forward_signal(&remote, libc::SIGQUIT).await?,
            _ = resized.recv(), if is_terminal => remote.resize(terminal::size()).await?,
        }
    }
}

/// Forwards a signal that asks the command to end.
async fn forward_signal(remote: &CommandControl, signal: i32) -> Result<(), ExecStopped> {
    match tokio::time::timeout(SIGNAL_TIMEOUT, remote.signal(signal)).await {
        Ok(passed) => Ok(passed?),
        Err(_) => Err(ExecStopped::Unheard(signal)),
    }
}

fn exit_code(verdict: &CommandResult, limits: &limits::SandboxLimits) -> u8 {
    match (verdict.limit, verdict.status) {
        (Some(limit), _) => {
            warn_limit(limit, limits);
            if limit == LimitKind::WallTime {
                TIMED_OUT
            } else {
                KILLED
            }
        }
        (None, CommandStatus::Code(code)) => code as u8,
        (None, CommandStatus::Signal(signal)) => 128u8.wrapping_add(signal as u8),
    }
}

fn warn_limit(limit: LimitKind, limits: &limits::SandboxLimits) {
    let size = |size| limits::bytes(size);
    let (what, flag) = match limit {
        LimitKind::Memory => (
            format!("memory limit of {}", size(limits.memory)),
            "--memory",
        ),
        LimitKind::Disk => (format!("disk limit of {}", size(limits.disk)), "--disk"),
        LimitKind::Output => (
            format!("output limit of {}", size(limits.output.unwrap_or(0))),
            "--max-output",
        ),
        LimitKind::WallTime => (
            format!("time limit of {:?}", limits.wall.unwrap_or_default()),
            "--timeout",
        ),
        LimitKind::Cpu | LimitKind::Pids | LimitKind::OpenFiles => return,
    };
    warn(format!(
        "the command was killed: {what} reached\nhint: raise it with `{flag}`"
    ));
}
