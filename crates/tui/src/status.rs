//! What is true at this moment: the model, the walls, what it costs. A fold over events. Pure.

use protocol::{Event, EventKind};

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Status {
    pub(crate) model: String,
    pub(crate) is_busy: bool,
}

impl Status {
    pub(crate) fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::TurnStarted { .. } | EventKind::TurnContinued { .. } => self.is_busy = true,
            EventKind::TurnEnded { .. } => self.is_busy = false,
            _ => {}
        }
    }
}
