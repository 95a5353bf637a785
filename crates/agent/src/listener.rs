//! Receives commands at any time. Some wait until the current work is done; questions about the
//! workspace and answers of the user are handled at once. Executes no command itself. Entry type:
//! [`Listener`].

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use protocol::Command;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::inquiries::{Inquiries, Inquiry};
use crate::person::Person;
use crate::stopper::{Cause, Stopper};

#[derive(Debug)]
pub(crate) struct Listener {
    commands: mpsc::Receiver<Command>,
    /// Received while other work was in progress.
    waiting: VecDeque<Command>,
    inquiries: Inquiries,
    person: Arc<Person>,
}

impl Listener {
    pub(crate) fn new(
        commands: mpsc::Receiver<Command>,
        inquiries: Inquiries,
        person: Arc<Person>,
    ) -> Self {
        Self {
            commands,
            waiting: VecDeque::new(),
            inquiries,
            person,
        }
    }

    /// The next command to execute; `None` when the sender is gone and all queries are answered. Cancel
    /// safe.
    pub(crate) async fn next(&mut self) -> Option<Command> {
        loop {
            if let Some(command) = self.waiting.pop_front() {
                return Some(command);
            }
            match self.commands.recv().await {
                Some(command) => {
                    if let Some(command) = self.answer(command) {
                        return Some(command);
                    }
                }
                None => {
                    self.inquiries.answered().await;
                    return None;
                }
            }
        }
    }

    /// Starts to answer a query beside other work; returns any other command.
    fn answer(&mut self, command: Command) -> Option<Command> {
        let inquiry = match command {
            Command::ListFiles => Inquiry::Files,
            Command::Diff => Inquiry::Differences,
            command => return Some(command),
        };
        self.inquiries.ask(inquiry);
        None
    }

    /// Runs work to completion while receiving commands. The stopper is set by an interrupt or at the
    /// deadline.
    pub(crate) async fn attend<T>(
        &mut self,
        work: impl Future<Output = T>,
        stopper: &Stopper,
        deadline: Option<Instant>,
    ) -> T {
        let mut work = pin!(work);
        let mut over = pin!(async {
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
                    Some(Command::Interrupt) => {
                        stopper.stop(Cause::Interrupted);
                        self.person.withdraw().await;
                    }
                    Some(command) => {
                        let command = self.person.hear(command).await;
                        let command = command.and_then(|command| self.answer(command));
                        self.waiting.extend(command);
                    }
                    None => {
                        is_open = false;
                        self.person.leave().await;
                    }
                },
                () = &mut over, if stopper.cause().is_none() => {
                    stopper.stop(Cause::OutOfTime);
                    self.person.withdraw().await;
                }
            }
        }
    }

    /// Drops queries that are not answered yet.
    pub(crate) async fn end(self) {
        self.inquiries.end().await;
    }
}
