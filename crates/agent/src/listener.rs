//! Receives commands at any time. Some wait until the current work is done; questions about the
//! workspace and answers of the user are handled at once. Executes no command itself. Entry type:
//! [`CommandListener`].

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use protocol::AgentCommand;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::approval_broker::ApprovalBroker;
use crate::stopper::{StopCause, TurnStopper};
use crate::workspace_query::{WorkspaceQueries, WorkspaceQuery};

#[derive(Debug)]
pub(crate) struct CommandListener {
    commands: mpsc::Receiver<AgentCommand>,
    /// Received while other work was in progress.
    queued: VecDeque<AgentCommand>,
    queries: WorkspaceQueries,
    broker: Arc<ApprovalBroker>,
}

impl CommandListener {
    pub(crate) fn new(
        commands: mpsc::Receiver<AgentCommand>,
        queries: WorkspaceQueries,
        broker: Arc<ApprovalBroker>,
    ) -> Self {
        Self {
            commands,
            queued: VecDeque::new(),
            queries,
            broker,
        }
    }

    /// The next command to execute; `None` when the sender is gone and all queries are answered. Cancel
    /// safe.
    pub(crate) async fn next(&mut self) -> Option<AgentCommand> {
        loop {
            if let Some(command) = self.queued.pop_front() {
                return Some(command);
            }
            match self.commands.recv().await {
                Some(command) => {
                    if let Some(command) = self.start_query(command) {
                        return Some(command);
                    }
                }
                None => {
                    self.queries.wait_answered().await;
                    return None;
                }
            }
        }
    }

    /// Starts to answer a query beside other work; returns any other command.
    fn start_query(&mut self, command: AgentCommand) -> Option<AgentCommand> {
        let query = match command {
            AgentCommand::ListFiles => WorkspaceQuery::Files,
            AgentCommand::Diff => WorkspaceQuery::Differences,
            command => return Some(command),
        };
        self.queries.start(query);
        None
    }

    /// Runs work to completion while receiving commands. The stopper is set by an interrupt or at the
    /// deadline.
    pub(crate) async fn run_interruptible<T>(
        &mut self,
        work: impl Future<Output = T>,
        stopper: &TurnStopper,
        deadline: Option<Instant>,
    ) -> T {
        let mut work = pin!(work);
        let mut deadline_reached = pin!(async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        });
        let mut is_open = true;
        loop {
            tokio::select! {
                biased;
                outcome = &mut work => return outcome,
                command = self.commands.recv(), if is_open => match command {
                    Some(AgentCommand::Interrupt) => {
                        stopper.stop(StopCause::Interrupted);
                        self.broker.withdraw_questions().await;
                    }
                    Some(command) => {
                        let command = self.broker.handle(command).await;
                        let command = command.and_then(|command| self.start_query(command));
                        self.queued.extend(command);
                    }
                    None => {
                        is_open = false;
                        self.broker.close().await;
                    }
                },
                () = &mut deadline_reached, if stopper.cause().is_none() => {
                    stopper.stop(StopCause::OutOfTime);
                    self.broker.withdraw_questions().await;
                }
            }
        }
    }

    /// Drops queries that are not answered yet.
    pub(crate) async fn end(self) {
        self.queries.end().await;
    }
}
