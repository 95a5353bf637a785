//! Writes down what happens, then tells of it: no event is seen that could still be lost.

use std::sync::Arc;

use futures_util::future::poll_immediate;
use jiff::Timestamp;
use protocol::{Event, EventKind, SessionId, VERSION};
use store::Journal;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc};
use tokio_util::task::TaskTracker;

use crate::conversation::Conversation;
use crate::error::AgentError;

/// Writes lasting events and tells of them, in one order for all who write.
///
/// The work is done in tasks: a caller that is not polled for a while, because another future of the
/// same task waits, never holds the order up.
#[derive(Debug, Clone)]
pub(crate) struct EventLog {
    journal: Journal,
    events: mpsc::Sender<Event>,
    /// Held from the writing of an event until it is told.
    order: Arc<Mutex<()>>,
    tasks: TaskTracker,
}

/// An event that is on disk, and room to tell of it.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    event: Event,
    permit: mpsc::Permit<'a, Event>,
}

impl Written<'_> {
    pub(crate) fn tell(self) {
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

    /// Writes an event, and tells of it. Done to its end, also if the caller stops waiting.
    pub(crate) async fn append(&self, kind: EventKind) -> Result<(), AgentError> {
        self.append_with(kind, |written: Written<'_>| written.tell())
            .await
    }

    /// Writes an event and has `tell` tell of it, if anybody listens.
    pub(crate) async fn append_with(
        &self,
        kind: EventKind,
        tell: impl FnOnce(Written<'_>) + Send + 'static,
    ) -> Result<(), AgentError> {
        let log = self.clone();
        // In line from here on, whichever task runs first.
        let mut turn = Box::pin(self.order.clone().lock_owned());
        let is_next = poll_immediate(turn.as_mut()).await;
        let writing = self.tasks.spawn(async move {
            let _order = match is_next {
                Some(order) => order,
                None => turn.await,
            };
            let mut journal = log.journal.clone();
            let event = journal.append(Timestamp::now(), kind).await?;
            // Nobody listening is no reason to stop.
            if let Ok(permit) = log.events.reserve().await {
                tell(Written { event, permit });
            }
            Ok(())
        });
        writing.await.unwrap_or(Err(AgentError::Lost))
    }

    /// The same for somebody who cannot wait, and perhaps not even write.
    pub(crate) fn append_later(&self, kind: EventKind) {
        let log = self.clone();
        if let Ok(runtime) = Handle::try_current() {
            let writing = async move { log.append(kind).await };
            self.tasks.spawn_on(writing, &runtime);
        }
    }

    /// Waits until all that was begun is written.
    pub(crate) async fn settle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[derive(Debug)]
pub(crate) struct Scribe {
    log: EventLog,
    /// The first event of a session of which nothing is on record yet.
    opening: Option<EventKind>,
    pub(crate) conversation: Conversation,
}

/// A way to tell of things that do not last, to be passed around.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    session: SessionId,
    events: mpsc::Sender<Event>,
}

impl Scribe {
    /// `opening` is written right before the first other event, if there is no history.
    pub(crate) fn new(log: EventLog, opening: EventKind, history: &[Event]) -> Self {
        Self {
            opening: history.is_empty().then_some(opening),
            conversation: Conversation::fold(history.iter().map(|event| &event.kind)),
            log,
        }
    }

    /// Writes down a lasting event, and tells of it.
    pub(crate) async fn record(&mut self, kind: EventKind) -> Result<(), AgentError> {
        debug_assert!(kind.lasts(), "what does not last is only told");
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

    /// The first event, as long as nothing is on record.
    pub(crate) fn opening(&mut self) -> Option<&mut EventKind> {
        self.opening.as_mut()
    }
}

impl Teller {
    pub(crate) fn new(session: SessionId, events: mpsc::Sender<Event>) -> Self {
        Self { session, events }
    }

    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    pub(crate) async fn tell(&self, kind: EventKind) {
        let _ = self.events.send(self.event(kind)).await;
    }

    /// For what may be left out when the listener is behind.
    pub(crate) fn mention(&self, kind: EventKind) {
        let _ = self.events.try_send(self.event(kind));
    }

    /// Waits for room, and tells then what is true then. `false` when nobody listens any more.
    pub(crate) async fn tell_latest(&self, kind: impl FnOnce() -> EventKind) -> bool {
        match self.events.reserve().await {
            Ok(place) => {
                place.send(self.event(kind()));
                true
            }
            Err(_) => false,
        }
    }

    fn event(&self, kind: EventKind) -> Event {
        Event {
            v: VERSION,
            session: self.session.clone(),
            seq: None,
            time: Timestamp::now(),
            kind,
        }
    }
}
