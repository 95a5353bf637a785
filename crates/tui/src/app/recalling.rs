//! Looking for something in what was said before, letter by letter.

use super::keys::Action;
use super::{App, Effect, Focus};
use crate::editor::Draft;

/// Where the looking stands.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// The one that is shown.
    place: Option<usize>,
    /// What was being written before.
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
            // What is shown is being written from now on.
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

    /// Back to what was being written.
    pub(super) fn end_recall(&mut self) {
        let recall = std::mem::take(&mut self.recall);
        self.editor.set(recall.kept);
    }

    /// From the newest one on, with other words.
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
