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
            query: String::new(),
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
            AppFocus::HistorySearch { .. } => self.cancel_history_search(),
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
            KeyAction::EraseChar | KeyAction::EraseAll => {
                let AppFocus::Search { query } = &mut self.focus else {
                    return Vec::new();
                };
                match action {
                    KeyAction::EraseChar => drop(query.pop()),
                    _ => query.clear(),
                }
                let query = query.clone();
                self.search_page(&query);
            }
            action => return self.act(action),
        }
        Vec::new()
    }

    /// Searches the page for `query` and goes to the matches, if there are any.
    pub(super) fn search_for(&mut self, query: String) {
        if query.is_empty() {
            self.start_search()
        } else {
            self.search_page(&query);
            self.focus = AppFocus::Search { query };
            self.browse_matches();
        }
    }

    /// Appends a character to the search query.
    pub(super) fn extend_query(&mut self, character: char) {
        match &mut self.focus {
            AppFocus::Search { query } => {
                query.push(character);
                let query = query.clone();
                self.search_page(&query);
            }
            AppFocus::HistorySearch { query } => {
                query.push(character);
                self.restart_history_search();
            }
            AppFocus::Editor | AppFocus::Browse => {}
        }
    }

    fn search_page(&mut self, query: &str) {
        if query.is_empty() {
            self.transcript.clear_search();
        } else {
            self.transcript.search(query);
        }
    }

    fn browse_matches(&mut self) {
        match self.transcript.match_position() {
            Some((_, count)) if count > 0 => self.focus = AppFocus::Browse,
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
