//! Writes events to the store, then sends them: an event that was sent cannot be lost.

use std::sync::Arc;

use futures_util::future::poll_immediate;
use jiff::Timestamp;
use protocol::{EVENT_VERSION, Event, EventKind, SessionId};
use store::Journal;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc};
use tokio_util::task::TaskTracker;

use crate::conversation::Conversation;
use crate::error::AgentError;

/// Writes lasting events and sends them, in one order for all writers.
///
/// The work is done in tasks, so that a caller that is not polled for a while, because another future
/// of its task is waiting, never blocks other writers.
#[derive(Debug, Clone)]
pub(crate) struct EventLog {
    journal: Journal,
    events: mpsc::Sender<Event>,
    /// Held from the writing of an event until it is sent.
    order: Arc<Mutex<()>>,
    tasks: TaskTracker,
}

/// An event that is stored, with a reserved slot to send it.
#[derive(Debug)]
pub(crate) struct WrittenEvent<'a> {
    event: Event,
    permit: mpsc::Permit<'a, Event>,
}

impl WrittenEvent<'_> {
    pub(crate) fn send(self) {
        self.permit.send(self.event);
    }
}

impl EventLog {
    pub(crate) fn new(journal: Journal, events: mpsc::Sender<Event>) -> Self {
        Self {
            journal,
            events,
            order: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Writes an event and sends it. Completes even if the caller stops waiting.
    pub(crate) async fn append(&self, kind: EventKind) -> Result<(), AgentError> {
        self.append_with(kind, |written: WrittenEvent<'_>| written.send())
            .await
    }

    /// Writes an event and has `send` send it, if there is a receiver.
    pub(crate) async fn append_with(
        &self,
        kind: EventKind,
        send: impl FnOnce(WrittenEvent<'_>) + Send + 'static,
    ) -> Result<(), AgentError> {
        let log = self.clone();
        // Queued from here on, whichever task runs first.
        let mut queued = Box::pin(self.order.clone().lock_owned());
        let acquired = poll_immediate(queued.as_mut()).await;
        let writing = self.tasks.spawn(async move {
            let _order = match acquired {
                Some(order) => order,
                None => queued.await,
            };
            let mut journal = log.journal.clone();
            let event = journal.append(Timestamp::now(), kind).await?;
            // A missing receiver is no error.
            if let Ok(permit) = log.events.reserve().await {
                send(WrittenEvent { event, permit });
            }
            Ok(())
        });
        writing.await.unwrap_or(Err(AgentError::Lost))
    }

    /// Appends without waiting. Does nothing outside of a runtime.
    pub(crate) fn append_detached(&self, kind: EventKind) {
        let log = self.clone();
        if let Ok(runtime) = Handle::try_current() {
            let writing = async move { log.append(kind).await };
            self.tasks.spawn_on(writing, &runtime);
        }
    }

    /// Waits until all pending events are written.
    pub(crate) async fn flush(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// What a session stores and sends, and the conversation that follows from it.
#[derive(Debug)]
pub(crate) struct EventRecorder {
    log: EventLog,
    sender: EventSender,
    /// The first event of a session that has no stored event yet.
    opening: Option<EventKind>,
    pub(crate) conversation: Conversation,
}

/// Sends events that are not stored. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct EventSender {
    session: SessionId,
    events: mpsc::Sender<Event>,
}

impl EventRecorder {
    /// `opening` is written before the first other event, if there is no history.
    pub(crate) fn new(
        log: EventLog,
        sender: EventSender,
        opening: EventKind,
        history: &[Event],
    ) -> Self {
        Self {
            sender,
            opening: history.is_empty().then_some(opening),
            conversation: Conversation::fold(history.iter().map(|event| &event.kind)),
            log,
        }
    }

    /// Writes a lasting event and sends it.
    pub(crate) async fn record(&mut self, kind: EventKind) -> Result<(), AgentError> {
        debug_assert!(kind.is_lasting(), "transient events are not recorded");
        if let Some(opening) = self.opening.take() {
            self.write(opening).await?;
        }
        self.write(kind).await
    }

    async fn write(&mut self, kind: EventKind) -> Result<(), AgentError> {
        let written = kind.clone();
        self.log.append(kind).await?;
        self.conversation.apply(&written);
        Ok(())
    }

    /// Sends an event that is not stored.
    pub(crate) async fn send(&self, kind: EventKind) {
        self.sender.send(kind).await;
    }

    pub(crate) fn sender(&self) -> &EventSender {
        &self.sender
    }

    /// The first event, while nothing is stored.
    pub(crate) fn opening(&mut self) -> Option<&mut EventKind> {
        self.opening.as_mut()
    }
}

impl EventSender {
    pub(crate) fn new(session: SessionId, events: mpsc::Sender<Event>) -> Self {
        Self { session, events }
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    pub(crate) async fn send(&self, kind: EventKind) {
        let _ = self.events.send(self.event(kind)).await;
    }

    /// For events that may be dropped when the receiver is behind.
    pub(crate) fn try_send(&self, kind: EventKind) {
        let _ = self.events.try_send(self.event(kind));
    }

    /// Waits for a free slot, then sends the event that `kind` builds at that time. `false` when there is
    /// no receiver any more.
    pub(crate) async fn send_latest(&self, kind: impl FnOnce() -> EventKind) -> bool {
        match self.events.reserve().await {
            Ok(permit) => {
                permit.send(self.event(kind()));
                true
            }
            Err(_) => false,
        }
    }

    fn event(&self, kind: EventKind) -> Event {
        Event {
            v: EVENT_VERSION,
            session: self.session.clone(),
            seq: None,
            time: Timestamp::now(),
            kind,
        }
    }
}
