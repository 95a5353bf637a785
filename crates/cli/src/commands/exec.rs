//! `hotcell exec`: one command in a new sandbox, its streams passed through unchanged.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::time::Duration;

use sandbox::request::Status;
use sandbox::{
    Command, Input, LimitKind, Output, Remote, Running, Sandbox, SandboxError, SandboxSpec,
    Verdict, limits,
};
use tokio::signal::unix::{SignalKind, signal};

use super::runtime;
use crate::args::Exec;
use crate::complaint::{Complaint, warn};
use crate::settings::{Overrides, Settings, sandbox_spec};
use crate::{standard, terminal};

/// Exit code of a command that timed out.
const TIMED_OUT: u8 = 124;
/// Exit code of a command that a limit killed.
const KILLED: u8 = 137;
/// Exit code when the output was closed.
const BROKEN_PIPE: u8 = 141;

/// How long the sandbox may take to forward a signal that asks the command to end.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(exec: &Exec) -> Result<u8, Complaint> {
    if exec
        .command
        .first()
        .is_some_and(|program| program.is_empty())
    {
        return Err(Complaint::usage("the command is empty")
            .hint("write it after `--`, such as `hotcell exec -- ls`".to_owned()));
    }
    let settings = Settings::read(&Overrides::default().sandbox(&exec.sandbox))?;
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

async fn execute(spec: SandboxSpec, exec: &Exec) -> Result<u8, Complaint> {
    let limits = spec.limits;
    let sandbox = match Sandbox::start(spec).await {
        Err(error @ SandboxError::StartTimedOut { .. }) if limits.wall.is_some() => {
            return Err(Complaint::from_error(TIMED_OUT, &error)
                .hint("raise it with `--timeout`".to_owned()));
        }
        started => started?,
    };
    let mut command = Command::new(&exec.command).stdin();
    if exec.terminal {
        let term = std::env::var_os("TERM").unwrap_or_else(|| "xterm-256color".into());
        command = command.terminal(terminal::size()).env("TERM", term);
    }
    let outcome = match sandbox.exec(command).await {
        Ok(running) => {
            let raw = exec.terminal.then(terminal::Raw::enter);
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
        Ok(verdict) => Ok(conclude(&verdict, &limits)),
        Err(Stopped::OutputClosed) => Ok(BROKEN_PIPE),
        Err(Stopped::Unheard(signal)) => {
            warn("the sandbox did not respond and was ended with the command");
            Ok(128 + signal as u8)
        }
        // The guest itself was killed by the memory limit, or the sandbox timed out.
        Err(Stopped::Broken(SandboxError::Stream(_) | SandboxError::Ended))
            if ending.memory_kills > 0 =>
        {
            tell_limit(LimitKind::Memory, &limits);
            Ok(KILLED)
        }
        Err(Stopped::Broken(error)) => Err(error.into()),
    }
}

/// Why the streams were closed before the command ended.
enum Stopped {
    OutputClosed,
    /// The sandbox did not forward a signal that asks the command to end.
    Unheard(i32),
    Broken(SandboxError),
}

impl From<SandboxError> for Stopped {
    fn from(error: SandboxError) -> Self {
        Self::Broken(error)
    }
}

async fn pass_through(mut running: Running<'_>, is_terminal: bool) -> Result<Verdict, Stopped> {
    let feeder = running.take_input().map(|input| tokio::spawn(feed(input)));
    let mut relay = tokio::spawn(relay(running.remote(), is_terminal));
    let mut outlet = standard::Outlet::default();
    let outcome = loop {
        let next = tokio::select! {
            biased;
            next = running.next() => next,
            Ok(Err(stopped)) = &mut relay => break Err(stopped),
        };
        match next {
            Ok(Output::Stdout(bytes)) => {
                if outlet.write(standard::OUTPUT, bytes).await.is_err() {
                    break Err(Stopped::OutputClosed);
                }
            }
            Ok(Output::Stderr(bytes)) => {
                let _ = outlet.write(standard::ERRORS, bytes).await;
            }
            Ok(Output::Ended(verdict)) => break Ok(verdict),
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
async fn feed(mut input: Input) -> Result<(), SandboxError> {
    // Input that cannot be read counts as empty.
    while let Ok(bytes) = standard::INPUT.read().await {
        if bytes.is_empty() {
            break;
        }
        input.write(bytes).await?;
    }
    Ok(())
}

/// Forwards signals and terminal sizes while the command runs.
async fn relay(remote: Remote, is_terminal: bool) -> Result<Infallible, Stopped> {
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
                    pass_on(&remote, libc::SIGKILL).await?;
                } else {
                    let remote = remote.clone();
                    tokio::spawn(async move { remote.signal(libc::SIGINT).await });
                }
            }
            _ = terminate.recv() => pass_on(&remote, libc::SIGTERM).await?,
            _ = hangup.recv() => pass_on(&remote, libc::SIGHUP).await?,
            _ = quit.recv() => pass_on(&remote, libc::SIGQUIT).await?,
            _ = resized.recv(), if is_terminal => remote.resize(terminal::size()).await?,
        }
    }
}

/// Forwards a signal that asks the command to end.
async fn pass_on(remote: &Remote, signal: i32) -> Result<(), Stopped> {
    match tokio::time::timeout(SIGNAL_TIMEOUT, remote.signal(signal)).await {
        Ok(passed) => Ok(passed?),
        Err(_) => Err(Stopped::Unheard(signal)),
    }
}

fn conclude(verdict: &Verdict, limits: &limits::Limits) -> u8 {
    match (verdict.limit, verdict.status) {
        (Some(limit), _) => {
            tell_limit(limit, limits);
            if limit == LimitKind::WallTime {
                TIMED_OUT
            } else {
                KILLED
            }
        }
        (None, Status::Code(code)) => code as u8,
        (None, Status::Signal(signal)) => 128u8.wrapping_add(signal as u8),
    }
}

fn tell_limit(limit: LimitKind, limits: &limits::Limits) {
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
