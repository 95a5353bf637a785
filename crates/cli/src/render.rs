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
pub(crate) use self::status::{dollars, line as spent, tokens};
pub(crate) use self::text::{TextView, clean, first_line};
pub(crate) use self::transcript::transcript;

/// How to show a session.
pub(crate) enum View {
    Json,
    Text(TextView),
}

/// Result of the first command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ending {
    Turn(Outcome),
    Undone,
    Refused(String),
    /// The session ended before a result.
    None,
}

/// Shows events until there are no more. Signals `done` once the first command is complete.
pub(crate) fn show(
    mut view: View,
    mut events: mpsc::Receiver<Event>,
    done: oneshot::Sender<()>,
) -> std::io::Result<Ending> {
    let mut ending = Ending::None;
    let mut done = Some(done);
    while let Some(event) = events.blocking_recv() {
        match &mut view {
            View::Json => write_line(&event)?,
            View::Text(view) => view.show(&event)?,
        }
        let ended = match event.kind {
            EventKind::TurnEnded { outcome, .. } => Ending::Turn(outcome),
            EventKind::Undone { .. } | EventKind::Redone { .. } => Ending::Undone,
            EventKind::CommandRefused { reason } => Ending::Refused(reason),
            _ => continue,
        };
        ending = ended;
        if let Some(done) = done.take() {
            let _ = done.send(());
        }
    }
    if let View::Text(view) = &mut view {
        view.finish()?;
    }
    Ok(ending)
}
