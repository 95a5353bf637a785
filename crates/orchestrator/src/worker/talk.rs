//! The running agent of one claim: commands in, events out, and its end.

use std::time::Duration;

use agent::{AgentError, Setup};
use protocol::job::Cause;
use protocol::{Command, Event};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::job::End;
use crate::parts::chain;

/// For an agent that was told to end: its sandbox has to be taken down, and the workspace looked
/// at once more. After each sign of life it starts anew.
const GRACE: Duration = Duration::from_secs(60);

/// Ends with the value: whatever happens to the worker, no agent is left behind.
#[derive(Debug)]
pub(crate) struct Talk {
    commands: Option<mpsc::Sender<Command>>,
    events: mpsc::Receiver<Event>,
    task: Option<AbortOnDropHandle<Result<(), AgentError>>>,
}

impl Talk {
    pub(crate) fn begin(setup: Setup) -> Self {
        let (commands, orders) = mpsc::channel(8);
        let (teller, events) = mpsc::channel(256);
        let task = tokio::spawn(agent::run(setup, orders, teller));
        Self {
            commands: Some(commands),
            events,
            task: Some(AbortOnDropHandle::new(task)),
        }
    }

    /// Tells the agent something. One that is gone is noticed by the end of its events.
    pub(crate) async fn say(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command).await;
        }
    }

    /// The next event; nothing when the agent is gone.
    pub(crate) async fn hear(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Ends the agent in order, with its sandbox. `hear` gets what it still tells.
    pub(crate) async fn end(mut self, mut hear: impl FnMut(&Event)) {
        self.commands = None;
        while let Ok(Some(event)) = timeout(GRACE, self.events.recv()).await {
            hear(&event);
        }
        // Its end is no news: whether the task is done was known before.
        if let Some(task) = self.task.take() {
            let _ = timeout(GRACE, task).await;
        }
    }

    /// Ends the agent at once, as a crash would, and waits until it is gone.
    pub(crate) async fn abort(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }

    /// Why an agent that is gone is gone.
    pub(crate) async fn failure(&mut self) -> End {
        let Some(task) = self.task.take() else {
            return End::failed(Cause::Agent, "the agent has left");
        };
        match task.await {
            Ok(Ok(())) => End::failed(Cause::Agent, "the agent has left"),
            Ok(Err(error)) => End::failed(cause_of(&error), chain(&error)),
            Err(_) => End::failed(Cause::Server, "the agent broke: this is a bug in hotcell"),
        }
    }
}

fn cause_of(error: &AgentError) -> Cause {
    match error {
        AgentError::Sandbox(_) | AgentError::Lost => Cause::Sandbox,
        AgentError::Store(_) => Cause::Server,
        _ => Cause::Agent,
    }
}
