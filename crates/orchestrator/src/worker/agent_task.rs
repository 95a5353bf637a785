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
    pub(crate) fn start(setup: SessionSetup) -> Self {
        let (commands, received) = mpsc::channel(8);
        let (sender, events) = mpsc::channel(256);
        let task = tokio::spawn(agent::run(setup, received, sender));
        Self {
            commands: Some(commands),
            events,
            task: Some(AbortOnDropHandle::new(task)),
        }
    }

    /// Sends a command. If the agent is gone, its events end.
    pub(crate) async fn send(&self, command: AgentCommand) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command).await;
        }
    }

    /// The next event; `None` when the agent is gone.
    pub(crate) async fn next_event(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Ends the agent gracefully, with its sandbox: the agent records the workspace once more,
    /// which takes long without any event if there are many files. The callback receives its
    /// remaining events. Aborts after the timeout without an event, or when `abort` completes.
    pub(crate) async fn end(
        mut self,
        mut on_event: impl FnMut(&Event),
        time_limit: Duration,
        abort: impl Future<Output = ()>,
    ) -> AgentExit {
        self.commands = None;
        let graceful = async {
            while let Some(event) = timeout(time_limit, self.events.recv()).await? {
                on_event(&event);
            }
            // The task's result does not matter: the outcome of the last turn is already known.
            match self.task.take() {
                Some(task) => timeout(time_limit, task).await.map(drop),
                None => Ok(()),
            }
        };
        tokio::select! {
            ended = graceful => match ended {
                Ok(()) => AgentExit::Done,
                Err(_) => AgentExit::CutShort,
            },
            () = abort => AgentExit::CutShort,
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

    fn agent_task(
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
        let (sender, events) = mpsc::channel(1);
        let agent = async move {
            tokio::time::sleep(Duration::from_secs(300)).await;
            let _ = sender.send(noted()).await;
        };
        let mut count = 0;
        let ended = agent_task(agent, events).end(|_| count += 1, TEST_TIMEOUT, pending());
        assert_eq!(ended.await, AgentExit::Done);
        assert_eq!(count, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_never_ends_is_reported() {
        let (sender, events) = mpsc::channel(1);
        let agent = async move {
            let _sender = sender;
            pending::<()>().await;
        };
        let ended = agent_task(agent, events).end(|_| {}, TEST_TIMEOUT, pending());
        assert_eq!(ended.await, AgentExit::CutShort);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stops_does_not_wait_for_its_agents() {
        let (sender, events) = mpsc::channel(1);
        let agent = async move {
            let _sender = sender;
            pending::<()>().await;
        };
        let began = tokio::time::Instant::now();
        let ended = agent_task(agent, events).end(|_| {}, TEST_TIMEOUT, async {});
        assert_eq!(ended.await, AgentExit::CutShort);
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
