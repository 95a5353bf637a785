//! Writes down what happens, then tells of it: no event is seen that could still be lost.

use jiff::Timestamp;
use protocol::{Event, EventKind, SessionId, VERSION};
use store::Journal;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::conversation::Conversation;
use crate::error::AgentError;

#[derive(Debug)]
pub(crate) struct Scribe {
    journal: Journal,
    /// The first event of a session of which nothing is on record yet.
    opening: Option<EventKind>,
    events: mpsc::Sender<Event>,
    pub(crate) conversation: Conversation,
}

/// A way to tell of things that do not last, to be passed around.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    session: SessionId,
    events: mpsc::Sender<Event>,
}

/// Room for one event.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    teller: &'a Teller,
    permit: mpsc::Permit<'a, Event>,
}

impl Place<'_> {
    pub(crate) fn tell(self, kind: EventKind) {
        self.permit.send(self.teller.event(kind));
    }
}

impl Scribe {
    /// `opening` is written right before the first other event, if there is no history.
    pub(crate) fn new(
        journal: Journal,
        opening: EventKind,
        history: &[Event],
        events: mpsc::Sender<Event>,
    ) -> Self {
        Self {
            opening: history.is_empty().then_some(opening),
            conversation: Conversation::fold(history.iter().map(|event| &event.kind)),
            journal,
            events,
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
        let event = self.journal.append(Timestamp::now(), kind).await?;
        self.conversation.apply(&event.kind);
        // Nobody listening is no reason to stop.
        let _ = self.events.send(event).await;
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

    /// Room for one event, so that it can be told without waiting; `None` when nobody listens.
    pub(crate) async fn place(&self) -> Option<Place<'_>> {
        let permit = self.events.reserve().await.ok()?;
        Some(Place {
            teller: self,
            permit,
        })
    }

    /// For what must be told by somebody who cannot wait.
    pub(crate) fn tell_later(&self, kind: EventKind) {
        if let Err(TrySendError::Full(event)) = self.events.try_send(self.event(kind)) {
            let events = self.events.clone();
            tokio::spawn(async move {
                let _ = events.send(event).await;
            });
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
