//! Keys that act only when pressed twice: to quit, and to clear the editor.

use protocol::Command;

use super::keys::Action;
use super::{App, Effect, Focus, HINT, ask};
use crate::editor::Change;
use crate::port::Request;

/// What the second press does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Twice {
    Leave,
    Clear,
}

impl App {
    /// Clears the editor; if it is empty, interrupts the turn; the second time, quits.
    pub(super) fn leave(&mut self) -> Vec<Effect> {
        let was_writing = self.focus == Focus::Editor;
        self.back_to_editor();
        // Outside the editor the key only returns to it, unless there is a turn to interrupt.
        if !was_writing && (!self.is_busy() || !self.editor.is_empty()) {
            return Vec::new();
        }
        if !self.editor.is_empty() {
            self.editor.clear();
            self.completion = None;
            self.say_hint("cleared; ctrl-/ brings it back");
            return Vec::new();
        }
        self.leave_at_second()
    }

    /// Deletes the character at the cursor; if the editor is empty, the second press quits.
    pub(super) fn delete_or_leave(&mut self) -> Vec<Effect> {
        if !self.editor.is_empty() {
            self.editor.change(Change::DeleteForward);
            return self.complete();
        }
        self.leave_at_second()
    }

    pub(super) fn clear_at_second(&mut self) {
        if self.editor.is_empty() {
            return;
        }
        match self.twice.take() {
            Some((Twice::Clear, _)) => {
                self.editor.clear();
                self.say_hint("cleared; ctrl-/ brings it back");
            }
            _ => {
                self.twice = Some((Twice::Clear, self.now + HINT));
                self.say_hint("esc once more clears the message");
            }
        }
    }

    fn leave_at_second(&mut self) -> Vec<Effect> {
        if let Some((Twice::Leave, _)) = self.twice.take() {
            return quit();
        }
        self.twice = Some((Twice::Leave, self.now + HINT));
        if self.is_busy() {
            self.say_hint("interrupting …; once more to leave");
            return vec![ask(Command::Interrupt)];
        }
        self.say_hint("once more to leave");
        Vec::new()
    }

    /// Forgets the first press after any other key.
    pub(super) fn disarm(&mut self, action: Option<Action>) {
        let is_same = match self.twice {
            Some((Twice::Leave, _)) => {
                matches!(action, Some(Action::Leave | Action::DeleteOrLeave))
            }
            Some((Twice::Clear, _)) => action == Some(Action::Escape),
            None => true,
        };
        if !is_same {
            self.twice = None;
            self.hint = None;
        }
    }
}

pub(super) fn quit() -> Vec<Effect> {
    vec![Effect::Ask(Request::Quit), Effect::Quit]
}
