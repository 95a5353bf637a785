//! Incremental search in the message history.

use super::keys::KeyAction;
use super::{AppEffect, AppFocus, TuiApp};
use crate::editor::MessageDraft;

/// State of the history search.
#[derive(Debug, Default)]
pub(super) struct HistorySearch {
    /// Index of the history entry that is shown.
    place: Option<usize>,
    /// The draft from before the search.
    kept: MessageDraft,
}

impl TuiApp {
    pub(super) fn start_history_search(&mut self) {
        if self.editor.history.is_empty() {
            self.show_hint("nothing was said before");
            return;
        }
        self.completion = None;
        self.recall = HistorySearch {
            place: None,
            kept: self.editor.draft(),
        };
        self.focus = AppFocus::Recall {
            words: String::new(),
        };
    }

    pub(super) fn recall(&mut self, action: KeyAction) -> Vec<AppEffect> {
        match action {
            // The shown entry becomes the draft.
            KeyAction::Done => self.focus = AppFocus::Editor,
            KeyAction::Back | KeyAction::Leave => self.focus_editor(),
            KeyAction::Match(step) => self.step_history_search(step),
            KeyAction::EraseLetter | KeyAction::EraseAll => {
                if let AppFocus::Recall { words } = &mut self.focus {
                    match action {
                        KeyAction::EraseLetter => drop(words.pop()),
                        _ => words.clear(),
                    }
                }
                self.restart_history_search();
            }
            action => return self.act(action),
        }
        Vec::new()
    }

    /// Cancels the search and restores the draft.
    pub(super) fn cancel_history_search(&mut self) {
        let recall = std::mem::take(&mut self.recall);
        self.editor.set(recall.kept);
    }

    /// Searches again from the newest entry, after the query changed.
    pub(super) fn restart_history_search(&mut self) {
        self.recall.place = None;
        self.step_history_search(-1);
    }

    fn step_history_search(&mut self, step: i32) {
        let AppFocus::Recall { words } = &self.focus else {
            return;
        };
        if words.is_empty() && self.recall.place.is_none() && step > 0 {
            return;
        }
        let found = self.editor.history.find(words, self.recall.place, step);
        match found {
            Some((place, draft)) => {
                self.recall.place = Some(place);
                self.editor.set(draft);
            }
            None => self.show_hint("nothing like that was said"),
        }
    }
}
