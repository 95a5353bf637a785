//! Browsing the page: selecting entries and searching text.

use super::keys::Action;
use super::{App, Effect, Focus};
use crate::overlay::Overlay;

impl App {
    /// Moves the focus to the page, if it has an entry to select.
    pub(super) fn start_browse(&mut self) {
        self.transcript.select(0);
        match self.transcript.selected() {
            Some(_) => self.focus = Focus::Browse,
            None => self.say_hint("there is nothing to open yet"),
        }
        self.completion = None;
    }

    pub(super) fn start_search(&mut self) {
        self.completion = None;
        self.focus = Focus::Search {
            words: String::new(),
        };
    }

    /// Ends browsing and searching. The text in the editor stays.
    pub(super) fn back_to_editor(&mut self) {
        match std::mem::take(&mut self.focus) {
            Focus::Editor => {}
            Focus::Browse | Focus::Search { .. } => {
                self.transcript.unselect();
                self.transcript.clear_search();
            }
            Focus::Recall { .. } => self.end_recall(),
        }
    }

    pub(super) fn browse(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Select(step) => self.transcript.select(step),
            Action::Toggle => self.transcript.toggle_selected(),
            Action::Copy => return self.copy_selected(),
            Action::Match(step) => self.transcript.next_match(step),
            Action::Diff => match self.transcript.selected_diff() {
                Some(diff) => self.overlay = Some(Overlay::diff(&diff)),
                None => self.say_hint("it changed nothing"),
            },
            Action::Back => self.back_to_editor(),
            action => return self.act(action),
        }
        Vec::new()
    }

    /// Handles a key action while a search query is being typed.
    pub(super) fn search(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Done => self.look_at_places(),
            Action::Match(step) => self.transcript.next_match(step),
            Action::Back => self.back_to_editor(),
            Action::EraseLetter | Action::EraseAll => {
                let Focus::Search { words } = &mut self.focus else {
                    return Vec::new();
                };
                match action {
                    Action::EraseLetter => drop(words.pop()),
                    _ => words.clear(),
                }
                let words = words.clone();
                self.look_on_page(&words);
            }
            action => return self.act(action),
        }
        Vec::new()
    }

    /// Searches the page for `words` and goes to the matches, if there are any.
    pub(super) fn search_for(&mut self, words: String) {
        if words.is_empty() {
            self.start_search()
        } else {
            self.look_on_page(&words);
            self.focus = Focus::Search { words };
            self.look_at_places();
        }
    }

    /// Appends a character to the search query.
    pub(super) fn look_for(&mut self, letter: char) {
        match &mut self.focus {
            Focus::Search { words } => {
                words.push(letter);
                let words = words.clone();
                self.look_on_page(&words);
            }
            Focus::Recall { words } => {
                words.push(letter);
                self.recall_again();
            }
            Focus::Editor | Focus::Browse => {}
        }
    }

    fn look_on_page(&mut self, words: &str) {
        if words.is_empty() {
            self.transcript.clear_search();
        } else {
            self.transcript.search(words);
        }
    }

    fn look_at_places(&mut self) {
        match self.transcript.match_position() {
            Some((_, places)) if places > 0 => self.focus = Focus::Browse,
            _ => {
                self.back_to_editor();
                self.say_hint("no such words on this page");
            }
        }
    }

    fn copy_selected(&mut self) -> Vec<Effect> {
        let Some(text) = self.transcript.copy_selected() else {
            self.say_hint("there is nothing to copy");
            return Vec::new();
        };
        self.say_hint("copied");
        vec![Effect::Copy(text)]
    }
}
