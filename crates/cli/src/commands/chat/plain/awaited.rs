//! Which event completes a command. Pure.

use protocol::EventKind;

/// What ends the wait for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitedEvent {
    Turn,
    Undone,
    Redone,
    Compacted,
    Model,
    Network,
    Files,
    Differences,
    /// All events of a job so far were received.
    Rest,
}

impl AwaitedEvent {
    pub(super) fn is_completed_by(self, kind: &EventKind) -> bool {
        match self {
            Self::Turn => matches!(kind, EventKind::TurnEnded { .. }),
            Self::Undone => matches!(kind, EventKind::Undone { .. }),
            Self::Redone => matches!(kind, EventKind::Redone { .. }),
            Self::Compacted => matches!(kind, EventKind::Compacted { .. }),
            Self::Model => matches!(kind, EventKind::ModelChanged { .. }),
            Self::Network => matches!(kind, EventKind::NetworkChanged { .. }),
            Self::Files => matches!(kind, EventKind::Files { .. }),
            Self::Differences => matches!(kind, EventKind::Differs { .. }),
            Self::Rest => false,
        }
    }
}
