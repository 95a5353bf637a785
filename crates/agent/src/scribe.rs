//! Writes down what happens, then tells of it: no event is seen that could still be lost.

use jiff::Timestamp;
use protocol::{Event, EventKind, SessionId, VERSION};
use store::Journal;
use tokio::sync::mpsc;

use crate::conversation::Conversation;
use crate::error::AgentError;

#[derive(Debug)]
pub(crate) struct Scribe {
    journal: Journal,
    events: mpsc::Sender<Event>,
    pub(crate) conversation: Conversation,
}

/// A way to tell of things that do not last, to be passed around.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    session: SessionId,
    events: mpsc::Sender<Event>,
}

impl Scribe {
    pub(crate) fn new(journal: Journal, history: &[Event], events: mpsc::Sender<Event>) -> Self {
        Self {
            conversation: Conversation::fold(history.iter().map(|event| &event.kind)),
            journal,
            events,
        }
    }

    /// Writes down a lasting event, and tells of it.
    pub(crate) async fn record(&mut self, kind: EventKind) -> Result<(), AgentError> {
        debug_assert!(kind.lasts(), "what does not last is only told");
        let event = self.journal.append(Timestamp::now(), kind).await?;
        self.conversation.apply(&event.kind);
        // Nobody listening is no reason to stop.
        let _ = self.events.send(event).await;
        Ok(())
    }

    pub(crate) fn teller(&self) -> Teller {
        Teller::new(self.journal.session().clone(), self.events.clone())
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
