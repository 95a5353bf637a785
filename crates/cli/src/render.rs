//! Renders a session: events become lines.
//!
//! A renderer is a fold over events. It runs on its own thread, because standard output may be slow and
//! must not slow down the agent.

mod json;
mod status;
mod text;
mod transcript;

use protocol::{Event, EventKind, Outcome};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::json::write_line;
pub(crate) use self::status::{dollars, spending_line as spent, tokens};
pub(crate) use self::text::{TextView, clean, first_line};
pub(crate) use self::transcript::transcript;

/// How to show a session.
pub(crate) enum SessionView {
    Json,
    Text(TextView),
}

/// Result of the first command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CommandEnding {
    Turn(Outcome),
    Undone,
    Refused(String),
    /// The session ended before a result.
    None,
}

/// Shows events until there are no more. Signals `done` once the first command is complete.
pub(crate) fn show_events(
    mut view: SessionView,
    mut events: mpsc::Receiver<Event>,
    done: oneshot::Sender<()>,
) -> std::io::Result<CommandEnding> {
    let mut ending = CommandEnding::None;
    let mut done = Some(done);
    while let Some(event) = events.blocking_recv() {
        match &mut view {
            SessionView::Json => write_line(&event)?,
            SessionView::Text(view) => view.show(&event)?,
        }
        let ended = match event.kind {
            EventKind::TurnEnded { outcome, .. } => CommandEnding::Turn(outcome),
            EventKind::Undone { .. } | EventKind::Redone { .. } => CommandEnding::Undone,
            EventKind::CommandRefused { reason } => CommandEnding::Refused(reason),
            _ => continue,
        };
        ending = ended;
        if let Some(done) = done.take() {
            let _ = done.send(());
        }
    }
    if let SessionView::Text(view) = &mut view {
        view.finish()?;
    }
    Ok(ending)
}
