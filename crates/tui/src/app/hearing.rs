//! Handles notices from the host program and events from the agent.

use protocol::{Block, Change, Event, EventKind, Outcome};

use super::talking::Turn;
use super::{App, Effect, Focus};
use crate::overlay::Overlay;
use crate::port::{Notice, Opened, Origin};
use crate::status::Status;
use crate::transcript::{Tone, Transcript};

impl App {
    pub(super) fn hear(&mut self, notice: Notice) -> Vec<Effect> {
        let mut effects = match &mut self.overlay {
            Some(overlay) => overlay.hear(&notice),
            None => Vec::new(),
        };
        match notice {
            Notice::Event(event) => effects.extend(self.hear_event(event)),
            Notice::Opened(opened) => self.opened(*opened),
            Notice::Sessions { words, rows } => {
                if words.is_empty() {
                    self.known.hear_sessions(&rows);
                    self.complete_again();
                }
            }
            Notice::Models(names) => {
                self.known.hear_models(&names);
                self.complete_again();
            }
            Notice::Jobs(rows) => {
                self.known.hear_jobs(&rows);
                self.complete_again();
            }
            // Only a picker requests previews.
            Notice::Preview(_) => {}
            Notice::Attached(attachment) => effects.extend(self.attached(attachment)),
            Notice::Said(text) => self.transcript.note(text, Tone::Good),
            Notice::Failed { what, hint } => {
                self.reading_failed();
                self.transcript
                    .note(with_hint(&what, hint.as_deref()), Tone::Error);
            }
            Notice::Lost { what, hint } => {
                self.is_lost = true;
                self.status.lose();
                self.questions.clear();
                self.take_back();
                let hint = hint.as_deref();
                let hint = hint.unwrap_or("`/clear` begins a new session, `/load` opens another");
                self.transcript
                    .note(with_hint(&what, Some(hint)), Tone::Error);
            }
            Notice::Quit => effects.push(Effect::Quit),
        }
        effects
    }

    fn hear_event(&mut self, event: Event) -> Vec<Effect> {
        self.status.apply(&event);
        self.transcript.apply(&event);
        match event.kind {
            EventKind::TurnStarted { .. } | EventKind::TurnContinued { .. } => self.turn_started(),
            EventKind::TurnEnded { outcome, .. } => {
                return self.turn_ended(outcome == Outcome::Done);
            }
            EventKind::CommandRefused { .. } => self.refused(),
            EventKind::Asked { question } => self.questions.ask(question),
            EventKind::Decided { question, .. } => self.questions.settle(question.number),
            EventKind::Files { paths, is_cut } => {
                if std::mem::take(&mut self.known.shows_files) {
                    self.overlay = Some(Overlay::files(&paths, is_cut));
                }
                self.known.hear_files(paths);
                self.complete_again();
            }
            EventKind::Differs { changes, left_out } => self.show_changes(&changes, left_out),
            _ => {}
        }
        Vec::new()
    }

    fn show_changes(&mut self, changes: &[Change], left_out: u64) {
        if std::mem::take(&mut self.known.shows_changes) {
            self.overlay = Some(Overlay::changes(changes, left_out));
        }
    }

    /// Switches to another session or job. The text in the editor stays.
    fn opened(&mut self, opened: Opened) {
        // The page being browsed is replaced.
        self.back_to_editor();
        self.focus = Focus::Editor;
        self.overlay = None;
        self.questions.clear();
        self.is_lost = false;
        self.known.files_are_stale();
        self.status = Status::open(self.now, &opened);
        self.transcript = Transcript::open(&opened.history);
        self.editor
            .history
            .open(opened.history.iter().filter_map(prompt));
        let is_here = matches!(opened.origin, Origin::Here { .. });
        let is_first = !std::mem::replace(&mut self.is_opened, true);
        // Messages sent before the first session was opened are already on their way.
        let left = if is_first {
            None
        } else {
            self.turn = Turn::Idle;
            self.forget_queue()
        };
        let is_cut = is_cut_short(&opened.history);
        if is_cut && !is_here {
            self.turn = Turn::Running;
        }
        if is_cut && is_here {
            let text = "the last turn was cut short; `/continue` takes it up";
            self.transcript.note(text, Tone::Warning);
        }
        if let Some(left) = left {
            self.transcript.note(left, Tone::Warning);
        }
    }

    /// Drops the queued messages: they were meant for another session, and the history still has
    /// them. Returns a text that says so.
    fn forget_queue(&mut self) -> Option<String> {
        let waited = self.queue.len();
        self.queue.clear();
        match waited {
            0 => None,
            1 => Some("a message that waited was not sent; ↑ brings it back".to_owned()),
            more => Some(format!(
                "{more} messages that waited were not sent; ↑ brings them back"
            )),
        }
    }
}

/// The text of the prompt, if the event starts a turn.
fn prompt(event: &Event) -> Option<String> {
    let EventKind::TurnStarted { prompt, .. } = &event.kind else {
        return None;
    };
    let texts: Vec<&str> = prompt.iter().filter_map(Block::as_text).collect();
    Some(texts.join("\n"))
}

/// Whether the last turn was started and never ended.
fn is_cut_short(history: &[Event]) -> bool {
    let is_open = history.iter().rev().find_map(|event| match &event.kind {
        EventKind::TurnStarted { .. } | EventKind::TurnContinued { .. } => Some(true),
        EventKind::TurnEnded { .. } | EventKind::Undone { .. } => Some(false),
        _ => None,
    });
    is_open.unwrap_or(false)
}

fn with_hint(what: &str, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!("{what}\nhint: {hint}"),
        None => what.to_owned(),
    }
}
