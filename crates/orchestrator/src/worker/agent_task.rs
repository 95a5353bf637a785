//! The running agent of one claim: commands in, events out, and shutdown.

use std::time::Duration;

use agent::{AgentError, SessionSetup};
use protocol::job::Cause;
use protocol::{AgentCommand, Event};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{WorkResult, failed};

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentExit {
    Done,
    /// It was aborted, before it had recorded the workspace after its last turn.
    CutShort,
}

/// Aborts the agent on drop, so that none outlives its worker.
#[derive(Debug)]
pub(crate) struct AgentTask {
    commands: Option<mpsc::Sender<AgentCommand>>,
    events: mpsc::Receiver<Event>,
    task: Option<AbortOnDropHandle<Result<(), AgentError>>>,
}

impl AgentTask {
    pub(crate) fn begin(setup: SessionSetup) -> Self {
        let (commands, orders) = mpsc::channel(8);
        let (teller, events) = mpsc::channel(256);
        let task = tokio::spawn(agent::run(setup, orders, teller));
        Self {
            commands: Some(commands),
            events,
            task: Some(AbortOnDropHandle::new(task)),
        }
    }

    /// Sends a command. If the agent is gone, its events end.
    pub(crate) async fn say(&self, command: AgentCommand) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command).await;
        }
    }

    /// The next event; `None` when the agent is gone.
    pub(crate) async fn hear(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Ends the agent gracefully, with its sandbox: the agent records the workspace once more,
    /// which takes long without any event if there are many files. The callback receives its
    /// remaining events. Aborts after the timeout without an event, or when `hurry` completes.
    pub(crate) async fn end(
        mut self,
        mut hear: impl FnMut(&Event),
        patience: Duration,
        hurry: impl Future<Output = ()>,
    ) -> AgentExit {
        self.commands = None;
        let orderly = async {
            while let Some(event) = timeout(patience, self.events.recv()).await? {
                hear(&event);
            }
            // The task's result does not matter: the outcome of the last turn is already known.
            match self.task.take() {
                Some(task) => timeout(patience, task).await.map(drop),
                None => Ok(()),
            }
        };
        tokio::select! {
            ended = orderly => match ended {
                Ok(()) => AgentExit::Done,
                Err(_) => AgentExit::CutShort,
            },
            () = hurry => AgentExit::CutShort,
        }
    }

    /// Aborts the agent, as a crash would, and waits until it is gone.
    pub(crate) async fn abort(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }

    /// The reason why the agent ended by itself.
    pub(super) async fn failure(&mut self) -> WorkResult {
        let Some(task) = self.task.take() else {
            return failed(Cause::Agent, "the agent has left");
        };
        match task.await {
            Ok(Ok(())) => failed(Cause::Agent, "the agent has left"),
            Ok(Err(error)) => WorkResult::of_error(cause_of(&error), &error),
            Err(_) => failed(Cause::Server, "the agent broke: this is a bug in hotcell"),
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{EVENT_VERSION, EventKind, SessionId};
    use std::future::pending;

    use super::*;

    const TEST_TIMEOUT: Duration = Duration::from_secs(900);

    fn talk(
        agent: impl Future<Output = ()> + Send + 'static,
        events: mpsc::Receiver<Event>,
    ) -> AgentTask {
        let task = tokio::spawn(async move {
            agent.await;
            Ok(())
        });
        AgentTask {
            commands: None,
            events,
            task: Some(AbortOnDropHandle::new(task)),
        }
    }

    fn noted() -> Event {
        let beginning = jiff::civil::date(2026, 1, 1).at(0, 0, 0, 0);
        Event {
            v: EVENT_VERSION,
            session: SessionId::new(&beginning, 1),
            seq: None,
            time: Timestamp::UNIX_EPOCH,
            kind: EventKind::Noted {
                text: "the last word".to_owned(),
            },
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_is_silent_for_minutes_keeps_its_last_checkpoint() {
        let (teller, events) = mpsc::channel(1);
        let agent = async move {
            tokio::time::sleep(Duration::from_secs(300)).await;
            let _ = teller.send(noted()).await;
        };
        let mut heard = 0;
        let parting = talk(agent, events).end(|_| heard += 1, TEST_TIMEOUT, pending());
        assert_eq!(parting.await, AgentExit::Done);
        assert_eq!(heard, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_never_ends_is_reported() {
        let (teller, events) = mpsc::channel(1);
        let agent = async move {
            let _teller = teller;
            pending::<()>().await;
        };
        let parting = talk(agent, events).end(|_| {}, TEST_TIMEOUT, pending());
        assert_eq!(parting.await, AgentExit::CutShort);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stops_does_not_wait_for_it() {
        let (teller, events) = mpsc::channel(1);
        let agent = async move {
            let _teller = teller;
            pending::<()>().await;
        };
        let began = tokio::time::Instant::now();
        let parting = talk(agent, events).end(|_| {}, TEST_TIMEOUT, async {});
        assert_eq!(parting.await, AgentExit::CutShort);
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
