//! The other side of a chat: an agent of this process, or a job of a server. Both take commands and send
//! events. Entry type: [`ChatPeer`].

use std::collections::VecDeque;

use agent::SessionSetup;
use protocol::{AgentCommand, Event};
use tokio::sync::mpsc::{self, Permit};
use tokio::task::JoinHandle;

use crate::cli_error::CliError;

/// Capacity of the command channel.
const COMMAND_CAPACITY: usize = 64;

/// Capacity of the event channel.
const EVENT_CAPACITY: usize = 256;

/// Capacity of the remark channel.
const REMARK_CAPACITY: usize = 16;

#[derive(Debug)]
pub(super) struct ChatPeer {
    /// Dropped to end it.
    commands: Option<mpsc::Sender<AgentCommand>>,
    unsent: VecDeque<AgentCommand>,
    events: mpsc::Receiver<Event>,
    remarks: mpsc::Receiver<PeerRemark>,
    task: JoinHandle<Result<(), CliError>>,
    /// Whether it ends when the chat ends; false for a server's job.
    is_ours: bool,
}

/// What is received from it.
#[derive(Debug)]
pub(super) enum PeerItem {
    Event(Event),
    Remark(PeerRemark),
    /// It has ended; nothing more follows.
    Ended(Result<(), CliError>),
}

/// A message that is not an event.
#[derive(Debug)]
pub(super) enum PeerRemark {
    /// One line for the user.
    Said(String),
    /// A failure, with an optional hint.
    Failed { what: String, hint: Option<String> },
    /// No work is in progress, and all events were sent.
    Rests,
}

impl PeerRemark {
    pub(super) fn failed(complaint: CliError) -> Self {
        let (what, hint) = complaint.into_parts();
        Self::Failed { what, hint }
    }
}

/// The other ends of a partner's channels.
#[derive(Debug)]
pub(super) struct PeerChannels {
    pub(super) commands: mpsc::Receiver<AgentCommand>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) remarks: mpsc::Sender<PeerRemark>,
}

impl ChatPeer {
    /// Starts an agent.
    pub(super) fn agent(setup: SessionSetup) -> Self {
        Self::new(true, |ends| {
            tokio::spawn(async move {
                let PeerChannels {
                    commands, events, ..
                } = ends;
                agent::run(setup, commands, events).await?;
                Ok(())
            })
        })
    }

    /// Starts a task that follows another agent, which continues after the task has ended.
    pub(super) fn follower<F, Follow>(follow: F) -> Self
    where
        F: FnOnce(PeerChannels) -> Follow,
        Follow: Future<Output = Result<(), CliError>> + Send + 'static,
    {
        Self::new(false, |ends| tokio::spawn(follow(ends)))
    }

    fn new(
        is_ours: bool,
        start: impl FnOnce(PeerChannels) -> JoinHandle<Result<(), CliError>>,
    ) -> Self {
        let (commands, commands_receiver) = mpsc::channel(COMMAND_CAPACITY);
        let (events_sender, events) = mpsc::channel(EVENT_CAPACITY);
        let (remarks_sender, remarks) = mpsc::channel(REMARK_CAPACITY);
        let task = start(PeerChannels {
            commands: commands_receiver,
            events: events_sender,
            remarks: remarks_sender,
        });
        Self {
            commands: Some(commands),
            unsent: VecDeque::new(),
            events,
            remarks,
            task,
            is_ours,
        }
    }

    /// Queues a command without waiting. It is sent while [`ChatPeer::hear`] runs, so that neither side ever
    /// blocks the other.
    pub(super) fn tell(&mut self, command: AgentCommand) {
        self.unsent.push_back(command);
    }

    /// Waits for the next item. Cancel safe. Must not be called after the end.
    pub(super) async fn hear(&mut self) -> PeerItem {
        loop {
            let is_over = tokio::select! {
                biased;
                // First, so that no flood of events delays an interrupt.
                permit = reserve(self.commands.as_ref()), if !self.unsent.is_empty() => {
                    match (permit, self.unsent.pop_front()) {
                        (Some(permit), Some(command)) => permit.send(command),
                        _ => self.unsent.clear(),
                    }
                    false
                }
                event = self.events.recv() => match event {
                    Some(event) => return PeerItem::Event(event),
                    None => true,
                },
                // After the events, so that the events a remark refers to come before it.
                Some(remark) = self.remarks.recv() => return PeerItem::Remark(remark),
            };
            if is_over {
                return self.rest().await;
            }
        }
    }

    /// Remaining remarks and the result, once all events were received.
    async fn rest(&mut self) -> PeerItem {
        if let Ok(remark) = self.remarks.try_recv() {
            return PeerItem::Remark(remark);
        }
        let ended = (&mut self.task).await;
        let lost = |error| CliError::from_error(1, &error);
        PeerItem::Ended(ended.map_err(lost).flatten())
    }

    /// Ends it: an agent of this process is interrupted first, and its sandbox ended. Items received
    /// meanwhile go to `hear`.
    pub(super) async fn end(mut self, mut hear: impl AsyncFnMut(PeerItem)) -> Result<(), CliError> {
        self.unsent.clear();
        let is_told = match self.commands.take() {
            Some(commands) if self.is_ours => commands.try_send(AgentCommand::Interrupt).is_ok(),
            _ => !self.is_ours,
        };
        // If the channel was full, the agent would execute everything queued before it ends.
        if !is_told || !self.is_ours {
            self.task.abort();
        }
        loop {
            match self.hear().await {
                PeerItem::Ended(Err(_)) if !is_told || !self.is_ours => return Ok(()),
                PeerItem::Ended(ended) => return ended,
                heard => hear(heard).await,
            }
        }
    }
}

async fn reserve(
    commands: Option<&mpsc::Sender<AgentCommand>>,
) -> Option<Permit<'_, AgentCommand>> {
    commands?.reserve().await.ok()
}
