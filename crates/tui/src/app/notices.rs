//! Handles notices from the host program and events from the agent.

use protocol::{Block, Change, Event, EventKind, Outcome};

use super::sending::TurnProgress;
use super::{AppEffect, AppFocus, TuiApp};
use crate::overlay::Overlay;
use crate::port::{OpenedSession, SessionOrigin, UiNotice};
use crate::status::UiStatus;
use crate::transcript::{NoteTone, Transcript};

impl TuiApp {
    pub(super) fn receive(&mut self, notice: UiNotice) -> Vec<AppEffect> {
        let mut effects = match &mut self.overlay {
            Some(overlay) => overlay.receive(&notice),
            None => Vec::new(),
        };
        match notice {
            UiNotice::Event(event) => effects.extend(self.handle_event(event)),
            UiNotice::Opened(opened) => self.opened(*opened),
            UiNotice::Sessions { words, rows } => {
                if words.is_empty() {
                    self.sources.set_sessions(&rows);
                    self.refresh_completion();
                }
            }
            UiNotice::Models(names) => {
                self.sources.set_models(&names);
                self.refresh_completion();
            }
            UiNotice::Jobs(rows) => {
                self.sources.set_jobs(&rows);
                self.refresh_completion();
            }
            // Only a picker requests previews.
            UiNotice::Preview(_) => {}
            UiNotice::Attached(attachment) => effects.extend(self.handle_attachment(attachment)),
            UiNotice::Said(text) => self.transcript.note(text, NoteTone::Good),
            UiNotice::Failed { what, hint } => {
                self.handle_image_failure();
                self.transcript
                    .note(with_hint(&what, hint.as_deref()), NoteTone::Error);
            }
            UiNotice::Lost { what, hint } => {
                self.is_lost = true;
                self.status.mark_agent_ended();
                self.questions.clear();
                self.restore_unsent();
                let hint = hint.as_deref();
                let hint = hint.unwrap_or("`/clear` begins a new session, `/load` opens another");
                self.transcript
                    .note(with_hint(&what, Some(hint)), NoteTone::Error);
            }
            UiNotice::Quit => effects.push(AppEffect::Quit),
        }
        effects
    }

    fn handle_event(&mut self, event: Event) -> Vec<AppEffect> {
        self.status.apply(&event);
        self.transcript.apply(&event);
        match event.kind {
            EventKind::TurnStarted { .. } | EventKind::TurnContinued { .. } => {
                self.handle_turn_start()
            }
            EventKind::TurnEnded { outcome, .. } => {
                return self.handle_turn_end(outcome == Outcome::Done);
            }
            EventKind::CommandRefused { .. } => self.handle_refusal(),
            EventKind::Asked { question } => self.questions.ask(question),
            EventKind::Decided { question, .. } => self.questions.settle(question.number),
            EventKind::Files { paths, is_cut } => {
                if std::mem::take(&mut self.sources.shows_files) {
                    self.overlay = Some(Overlay::files(&paths, is_cut));
                }
                self.sources.set_files(paths);
                self.refresh_completion();
            }
            EventKind::Differs { changes, left_out } => self.show_changes(&changes, left_out),
            _ => {}
        }
        Vec::new()
    }

    fn show_changes(&mut self, changes: &[Change], left_out: u64) {
        if std::mem::take(&mut self.sources.shows_changes) {
            self.overlay = Some(Overlay::changes(changes, left_out));
        }
    }

    /// Switches to another session or job. The text in the editor stays.
    fn opened(&mut self, opened: OpenedSession) {
        // The page being browsed is replaced.
        self.focus_editor();
        self.focus = AppFocus::Editor;
        self.overlay = None;
        self.questions.clear();
        self.is_lost = false;
        self.sources.mark_files_stale();
        self.status = UiStatus::open(self.now, &opened);
        self.transcript = Transcript::open(&opened.history);
        self.editor
            .history
            .open(opened.history.iter().filter_map(prompt_text));
        let is_here = matches!(opened.origin, SessionOrigin::Here { .. });
        let is_first = !std::mem::replace(&mut self.is_opened, true);
        // Messages sent before the first session was opened are already on their way.
        let left = if is_first {
            None
        } else {
            self.turn = TurnProgress::Idle;
            self.clear_queue()
        };
        let is_cut = has_unfinished_turn(&opened.history);
        if is_cut && !is_here {
            self.turn = TurnProgress::Running;
        }
        if is_cut && is_here {
            let text = "the last turn was cut short; `/continue` takes it up";
            self.transcript.note(text, NoteTone::Warning);
        }
        if let Some(left) = left {
            self.transcript.note(left, NoteTone::Warning);
        }
    }

    /// Drops the queued messages: they were meant for another session, and the history still has
    /// them. Returns a text that says so.
    fn clear_queue(&mut self) -> Option<String> {
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
fn prompt_text(event: &Event) -> Option<String> {
    let EventKind::TurnStarted { prompt, .. } = &event.kind else {
        return None;
    };
    let texts: Vec<&str> = prompt.iter().filter_map(Block::as_text).collect();
    Some(texts.join("\n"))
}

/// Whether the last turn was started and never ended.
fn has_unfinished_turn(history: &[Event]) -> bool {
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
