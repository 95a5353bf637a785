//! Whoever is talked to: an agent of this process, or a job of a server. Both take commands and tell
//! events. Entry type: [`Partner`].

use std::collections::VecDeque;

use agent::Setup;
use protocol::{Command, Event};
use tokio::sync::mpsc::{self, Permit};
use tokio::task::JoinHandle;

use crate::complaint::Complaint;

/// Commands that may wait for the agent.
const COMMANDS: usize = 64;

/// Events that may wait for a slow reader.
const EVENTS: usize = 256;

/// Remarks that may wait for a slow reader.
const REMARKS: usize = 16;

#[derive(Debug)]
pub(super) struct Partner {
    /// Dropped to end it.
    commands: Option<mpsc::Sender<Command>>,
    unsent: VecDeque<Command>,
    events: mpsc::Receiver<Event>,
    remarks: mpsc::Receiver<Remark>,
    task: JoinHandle<Result<(), Complaint>>,
    /// Whether its work ends when nobody talks to it any more.
    is_ours: bool,
}

/// What is heard of it.
#[derive(Debug)]
pub(super) enum Heard {
    Event(Event),
    Remark(Remark),
    /// It is gone; nothing more comes.
    Ended(Result<(), Complaint>),
}

/// Something beside the events.
#[derive(Debug)]
pub(super) enum Remark {
    /// One line for a person.
    Said(String),
    /// What could not be done, and what to do about it.
    Failed { what: String, hint: Option<String> },
    /// Nothing is under way, and all that happened was told.
    Rests,
}

impl Remark {
    pub(super) fn failed(complaint: Complaint) -> Self {
        let (what, hint) = complaint.into_parts();
        Self::Failed { what, hint }
    }
}

/// The other ends of a partner that is no agent of ours.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) remarks: mpsc::Sender<Remark>,
}

impl Partner {
    /// Starts an agent.
    pub(super) fn agent(setup: Setup) -> Self {
        Self::new(true, |ends| {
            tokio::spawn(async move {
                let Ends {
                    commands, events, ..
                } = ends;
                agent::run(setup, commands, events).await?;
                Ok(())
            })
        })
    }

    /// Starts what talks to somebody else's agent; that one works on when this has ended.
    pub(super) fn follower<F, Follow>(follow: F) -> Self
    where
        F: FnOnce(Ends) -> Follow,
        Follow: Future<Output = Result<(), Complaint>> + Send + 'static,
    {
        Self::new(false, |ends| tokio::spawn(follow(ends)))
    }

    fn new(is_ours: bool, start: impl FnOnce(Ends) -> JoinHandle<Result<(), Complaint>>) -> Self {
        let (commands, commands_receiver) = mpsc::channel(COMMANDS);
        let (events_sender, events) = mpsc::channel(EVENTS);
        let (remarks_sender, remarks) = mpsc::channel(REMARKS);
        let task = start(Ends {
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

    /// Says something, and does not wait: it goes out while [`Partner::hear`] listens. So neither
    /// ever waits for the other.
    pub(super) fn tell(&mut self, command: Command) {
        self.unsent.push_back(command);
    }

    /// Waits for the next thing that is told. May be left and called again, but not after the
    /// end.
    pub(super) async fn hear(&mut self) -> Heard {
        loop {
            let is_over = tokio::select! {
                biased;
                // First, so that no flood of events keeps an interrupt waiting.
                permit = reserve(self.commands.as_ref()), if !self.unsent.is_empty() => {
                    match (permit, self.unsent.pop_front()) {
                        (Some(permit), Some(command)) => permit.send(command),
                        _ => self.unsent.clear(),
                    }
                    false
                }
                event = self.events.recv() => match event {
                    Some(event) => return Heard::Event(event),
                    None => true,
                },
                // After the events, so that what a remark is about was heard before it.
                Some(remark) = self.remarks.recv() => return Heard::Remark(remark),
            };
            if is_over {
                return self.rest().await;
            }
        }
    }

    /// What is left when all events were heard.
    async fn rest(&mut self) -> Heard {
        if let Ok(remark) = self.remarks.try_recv() {
            return Heard::Remark(remark);
        }
        let ended = (&mut self.task).await;
        let lost = |error| Complaint::from_error(1, &error);
        Heard::Ended(ended.map_err(lost).flatten())
    }

    /// Ends it: an agent of ours is interrupted first, and its sandbox ended. What is told meanwhile
    /// goes to `hear`.
    pub(super) async fn end(mut self, mut hear: impl AsyncFnMut(Heard)) -> Result<(), Complaint> {
        self.unsent.clear();
        let is_told = match self.commands.take() {
            Some(commands) if self.is_ours => commands.try_send(Command::Interrupt).is_ok(),
            _ => !self.is_ours,
        };
        // One that has no ear left would do all that it was told before.
        if !is_told || !self.is_ours {
            self.task.abort();
        }
        loop {
            match self.hear().await {
                Heard::Ended(Err(_)) if !is_told || !self.is_ours => return Ok(()),
                Heard::Ended(ended) => return ended,
                heard => hear(heard).await,
            }
        }
    }
}

async fn reserve(commands: Option<&mpsc::Sender<Command>>) -> Option<Permit<'_, Command>> {
    commands?.reserve().await.ok()
}
