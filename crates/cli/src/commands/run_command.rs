//! Runs one command of a session to its end, shows its events, and handles signals.

use std::io;

use agent::{AgentError, SessionSetup};
use protocol::{AgentCommand, Outcome};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use crate::cli_error::CliError;
use crate::render::{self, CommandEnding, SessionView};
use crate::standard_streams;

pub(crate) const TASK_FAILED: u8 = 1;
const BUDGET_EXCEEDED: u8 = 3;
const PROVIDER_FAILED: u8 = 4;
pub(crate) const INTERRUPTED: u8 = 130;
const BROKEN_PIPE: u8 = 141;

/// Capacity of the event channel.
const EVENT_CAPACITY: usize = 256;

pub(crate) async fn run_command(
    setup: SessionSetup,
    command: AgentCommand,
    view: SessionView,
) -> Result<u8, CliError> {
    let hint = match command {
        AgentCommand::Continue => Some("give the next task with `--prompt`"),
        _ => None,
    };
    let (commands, commands_receiver) = mpsc::channel(8);
    let (events, events_receiver) = mpsc::channel(EVENT_CAPACITY);
    let (done, mut is_done) = oneshot::channel();
    let mut renderer =
        tokio::task::spawn_blocking(|| render::show_events(view, events_receiver, done));
    let listen = |kind| {
        signal(kind).map_err(|error| {
            CliError::new(TASK_FAILED, format!("cannot listen to signals: {error}"))
        })
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    // The channel is empty, so there is room.
    let _ = commands.try_send(command);
    // Dropped when the command is done, which ends the session.
    let mut commands = Some(commands);
    let mut was_stopped = false;
    let mut agent = std::pin::pin!(agent::run(setup, commands_receiver, events));
    let mut reader_left = std::pin::pin!(standard_streams::stdout_closed());
    let mut is_read = true;
    let mut ended = None;
    // Events are shown to the end, even if an error ended the session. The reader may be slow or stuck, so
    // signals are handled until then.
    let shown = loop {
        tokio::select! {
            outcome = &mut agent, if ended.is_none() => ended = Some(outcome),
            shown = &mut renderer, if ended.is_some() => break shown,
            // The renderer ended early: it cannot write.
            done = &mut is_done, if commands.is_some() => match done {
                Ok(()) => commands = None,
                Err(_) => interrupt_and_close(&mut commands),
            },
            () = &mut reader_left, if commands.is_some() => {
                is_read = false;
                interrupt_and_close(&mut commands);
            }
            _ = interrupt.recv() => interrupt_or_exit(commands.as_ref(), &mut was_stopped),
            _ = terminate.recv() => interrupt_or_exit(commands.as_ref(), &mut was_stopped),
            _ = hangup.recv() => interrupt_or_exit(commands.as_ref(), &mut was_stopped),
        }
    };
    ended.transpose()?;
    match shown {
        _ if !is_read => Ok(BROKEN_PIPE),
        Ok(Ok(ending)) => exit_code(ending, hint),
        Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(BROKEN_PIPE),
        Ok(Err(error)) => Err(CliError::new(TASK_FAILED, format!("cannot write: {error}"))),
        Err(lost) => Err(CliError::from_error(TASK_FAILED, &lost)),
    }
}

/// Interrupts, and sends nothing more.
fn interrupt_and_close(commands: &mut Option<mpsc::Sender<AgentCommand>>) {
    if let Some(commands) = commands.take() {
        let _ = commands.try_send(AgentCommand::Interrupt);
    }
}

/// Interrupts; the second time, exits. The sandbox ends with this process either way.
fn interrupt_or_exit(commands: Option<&mpsc::Sender<AgentCommand>>, was_stopped: &mut bool) {
    if std::mem::replace(was_stopped, true) {
        std::process::exit(INTERRUPTED.into());
    }
    if let Some(commands) = commands {
        let _ = commands.try_send(AgentCommand::Interrupt);
    }
}

fn exit_code(ending: CommandEnding, hint: Option<&str>) -> Result<u8, CliError> {
    match ending {
        CommandEnding::Turn(outcome) => Ok(outcome_code(&outcome)),
        CommandEnding::Undone => Ok(0),
        CommandEnding::Refused(reason) => {
            Err(CliError::usage(reason).hint(hint.map(str::to_owned)))
        }
        CommandEnding::None => Err(CliError::new(TASK_FAILED, "the session ended early")),
    }
}

/// The exit code for the outcome of a turn.
pub(crate) fn outcome_code(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Failed { .. } => TASK_FAILED,
        Outcome::Budget { .. } => BUDGET_EXCEEDED,
        Outcome::Provider { .. } => PROVIDER_FAILED,
        Outcome::Interrupted => INTERRUPTED,
    }
}

impl From<AgentError> for CliError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Sandbox(error) => error.into(),
            AgentError::Store(error) => error.into(),
            error => Self::from_error(TASK_FAILED, &error),
        }
    }
}
