//! Keys that act only when pressed twice: to quit, and to clear the editor.

use protocol::AgentCommand;

use super::keys::KeyAction;
use super::{AppEffect, AppFocus, HINT_DURATION, TuiApp, agent_command};
use crate::editor::EditCommand;
use crate::port::UiRequest;

/// What the second press does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DoublePress {
    Leave,
    Clear,
}

impl TuiApp {
    /// Clears the editor; if it is empty, interrupts the turn; the second time, quits.
    pub(super) fn leave(&mut self) -> Vec<AppEffect> {
        let was_writing = self.focus == AppFocus::Editor;
        self.focus_editor();
        // Outside the editor the key only returns to it, unless there is a turn to interrupt.
        if !was_writing && (!self.is_busy() || !self.editor.is_empty()) {
            return Vec::new();
        }
        if !self.editor.is_empty() {
            self.editor.clear();
            self.completion = None;
            self.show_hint("cleared; ctrl-/ brings it back");
            return Vec::new();
        }
        self.quit_on_second_press()
    }

    /// Deletes the character at the cursor; if the editor is empty, the second press quits.
    pub(super) fn delete_or_quit(&mut self) -> Vec<AppEffect> {
        if !self.editor.is_empty() {
            self.editor.change(EditCommand::DeleteForward);
            return self.complete();
        }
        self.quit_on_second_press()
    }

    pub(super) fn clear_on_second_press(&mut self) {
        if self.editor.is_empty() {
            return;
        }
        match self.first_press.take() {
            Some((DoublePress::Clear, _)) => {
                self.editor.clear();
                self.show_hint("cleared; ctrl-/ brings it back");
            }
            _ => {
                self.first_press = Some((DoublePress::Clear, self.now + HINT_DURATION));
                self.show_hint("esc once more clears the message");
            }
        }
    }

    fn quit_on_second_press(&mut self) -> Vec<AppEffect> {
        if let Some((DoublePress::Leave, _)) = self.first_press.take() {
            return quit_effects();
        }
        self.first_press = Some((DoublePress::Leave, self.now + HINT_DURATION));
        if self.is_busy() {
            self.show_hint("interrupting …; once more to leave");
            return vec![agent_command(AgentCommand::Interrupt)];
        }
        self.show_hint("once more to leave");
        Vec::new()
    }

    /// Forgets the first press after any other key.
    pub(super) fn disarm(&mut self, action: Option<KeyAction>) {
        let is_same = match self.first_press {
            Some((DoublePress::Leave, _)) => {
                matches!(action, Some(KeyAction::Leave | KeyAction::DeleteOrLeave))
            }
            Some((DoublePress::Clear, _)) => action == Some(KeyAction::Escape),
            None => true,
        };
        if !is_same {
            self.first_press = None;
            self.hint = None;
        }
    }
}

pub(super) fn quit_effects() -> Vec<AppEffect> {
    vec![AppEffect::Ask(UiRequest::Quit), AppEffect::Quit]
}
