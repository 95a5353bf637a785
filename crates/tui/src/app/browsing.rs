//! Browsing the page: selecting entries and searching text.

use super::keys::KeyAction;
use super::{AppEffect, AppFocus, TuiApp};
use crate::overlay::Overlay;

impl TuiApp {
    /// Moves the focus to the page, if it has an entry to select.
    pub(super) fn start_browse(&mut self) {
        self.transcript.select(0);
        match self.transcript.selected() {
            Some(_) => self.focus = AppFocus::Browse,
            None => self.show_hint("there is nothing to open yet"),
        }
        self.completion = None;
    }

    pub(super) fn start_search(&mut self) {
        self.completion = None;
        self.focus = AppFocus::Search {
            words: String::new(),
        };
    }

    /// Ends browsing and searching. The text in the editor stays.
    pub(super) fn focus_editor(&mut self) {
        match std::mem::take(&mut self.focus) {
            AppFocus::Editor => {}
            AppFocus::Browse | AppFocus::Search { .. } => {
                self.transcript.unselect();
                self.transcript.clear_search();
            }
            AppFocus::Recall { .. } => self.cancel_history_search(),
        }
    }

    pub(super) fn browse(&mut self, action: KeyAction) -> Vec<AppEffect> {
        match action {
            KeyAction::Select(step) => self.transcript.select(step),
            KeyAction::Toggle => self.transcript.toggle_selected(),
            KeyAction::Copy => return self.copy_selected(),
            KeyAction::Match(step) => self.transcript.next_match(step),
            KeyAction::Diff => match self.transcript.selected_diff() {
                Some(diff) => self.overlay = Some(Overlay::diff(&diff)),
                None => self.show_hint("it changed nothing"),
            },
            KeyAction::Back => self.focus_editor(),
            action => return self.act(action),
        }
        Vec::new()
    }

    /// Handles a key action while a search query is being typed.
    pub(super) fn search(&mut self, action: KeyAction) -> Vec<AppEffect> {
        match action {
            KeyAction::Done => self.browse_matches(),
            KeyAction::Match(step) => self.transcript.next_match(step),
            KeyAction::Back => self.focus_editor(),
            KeyAction::EraseLetter | KeyAction::EraseAll => {
                let AppFocus::Search { words } = &mut self.focus else {
                    return Vec::new();
                };
                match action {
                    KeyAction::EraseLetter => drop(words.pop()),
                    _ => words.clear(),
                }
                let words = words.clone();
                self.search_page(&words);
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
            self.search_page(&words);
            self.focus = AppFocus::Search { words };
            self.browse_matches();
        }
    }

    /// Appends a character to the search query.
    pub(super) fn look_for(&mut self, letter: char) {
        match &mut self.focus {
            AppFocus::Search { words } => {
                words.push(letter);
                let words = words.clone();
                self.search_page(&words);
            }
            AppFocus::Recall { words } => {
                words.push(letter);
                self.restart_history_search();
            }
            AppFocus::Editor | AppFocus::Browse => {}
        }
    }

    fn search_page(&mut self, words: &str) {
        if words.is_empty() {
            self.transcript.clear_search();
        } else {
            self.transcript.search(words);
        }
    }

    fn browse_matches(&mut self) {
        match self.transcript.match_position() {
            Some((_, places)) if places > 0 => self.focus = AppFocus::Browse,
            _ => {
                self.focus_editor();
                self.show_hint("no such words on this page");
            }
        }
    }

    fn copy_selected(&mut self) -> Vec<AppEffect> {
        let Some(text) = self.transcript.copy_selected() else {
            self.show_hint("there is nothing to copy");
            return Vec::new();
        };
        self.show_hint("copied");
        vec![AppEffect::Copy(text)]
    }
}
