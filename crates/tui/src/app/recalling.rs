//! Incremental search in the message history.

use super::keys::Action;
use super::{App, Effect, Focus};
use crate::editor::Draft;

/// State of the history search.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// Index of the history entry that is shown.
    place: Option<usize>,
    /// The draft from before the search.
    kept: Draft,
}

impl App {
    pub(super) fn start_recall(&mut self) {
        if self.editor.history.is_empty() {
            self.say_hint("nothing was said before");
            return;
        }
        self.completion = None;
        self.recall = Recall {
            place: None,
            kept: self.editor.draft(),
        };
        self.focus = Focus::Recall {
            words: String::new(),
        };
    }

    pub(super) fn recall(&mut self, action: Action) -> Vec<Effect> {
        match action {
            // The shown entry becomes the draft.
            Action::Done => self.focus = Focus::Editor,
            Action::Back | Action::Leave => self.back_to_editor(),
            Action::Match(step) => self.recall_further(step),
            Action::EraseLetter | Action::EraseAll => {
                if let Focus::Recall { words } = &mut self.focus {
                    match action {
                        Action::EraseLetter => drop(words.pop()),
                        _ => words.clear(),
                    }
                }
                self.recall_again();
            }
            action => return self.act(action),
        }
        Vec::new()
    }

    /// Cancels the search and restores the draft.
    pub(super) fn end_recall(&mut self) {
        let recall = std::mem::take(&mut self.recall);
        self.editor.set(recall.kept);
    }

    /// Searches again from the newest entry, after the query changed.
    pub(super) fn recall_again(&mut self) {
        self.recall.place = None;
        self.recall_further(-1);
    }

    fn recall_further(&mut self, step: i32) {
        let Focus::Recall { words } = &self.focus else {
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
            None => self.say_hint("nothing like that was said"),
        }
    }
}
