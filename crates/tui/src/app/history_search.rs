//! Incremental search in the message history.

use super::keys::KeyAction;
use super::{AppEffect, AppFocus, TuiApp};
use crate::editor::MessageDraft;

/// State of the history search.
#[derive(Debug, Default)]
pub(super) struct HistorySearch {
    /// Index of the history entry that is shown.
    index: Option<usize>,
    /// The draft from before the search.
    unsent: MessageDraft,
}

impl TuiApp {
    pub(super) fn start_history_search(&mut self) {
        if self.editor.history.is_empty() {
            self.show_hint("nothing was said before");
            return;
        }
        self.completion = None;
        self.history_search = HistorySearch {
            index: None,
            unsent: self.editor.draft(),
        };
        self.focus = AppFocus::HistorySearch {
            query: String::new(),
        };
    }

    pub(super) fn history_search(&mut self, action: KeyAction) -> Vec<AppEffect> {
        match action {
            // The shown entry becomes the draft.
            KeyAction::Done => self.focus = AppFocus::Editor,
            KeyAction::Back | KeyAction::Leave => self.focus_editor(),
            KeyAction::Match(step) => self.step_history_search(step),
            KeyAction::EraseChar | KeyAction::EraseAll => {
                if let AppFocus::HistorySearch { query } = &mut self.focus {
                    match action {
                        KeyAction::EraseChar => drop(query.pop()),
                        _ => query.clear(),
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
        let history_search = std::mem::take(&mut self.history_search);
        self.editor.set(history_search.unsent);
    }

    /// Searches again from the newest entry, after the query changed.
    pub(super) fn restart_history_search(&mut self) {
        self.history_search.index = None;
        self.step_history_search(-1);
    }

    fn step_history_search(&mut self, step: i32) {
        let AppFocus::HistorySearch { query } = &self.focus else {
            return;
        };
        if query.is_empty() && self.history_search.index.is_none() && step > 0 {
            return;
        }
        let found = self
            .editor
            .history
            .find(query, self.history_search.index, step);
        match found {
            Some((index, draft)) => {
                self.history_search.index = Some(index);
                self.editor.set(draft);
            }
            None => self.show_hint("nothing like that was said"),
        }
    }
}
