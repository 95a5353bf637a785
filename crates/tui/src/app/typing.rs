//! Dispatches keys to the focused part and performs their actions.

use crossterm::event::{KeyEvent, KeyEventKind};
use protocol::Command;

use super::keys::{Action, Place, find, typed};
use super::{App, Effect, Focus, ask};
use crate::editor::Change;
use crate::overlay::After;
use crate::port::Request;

impl App {
    /// Handles a key that the question did not take.
    pub(super) fn press(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let everywhere = find(Place::Anywhere, key);
        match everywhere {
            Some(Action::Refresh) => return vec![Effect::Refresh],
            Some(Action::Suspend) => return vec![Effect::Suspend],
            _ => {}
        }
        if self.overlay.is_some() {
            return self.press_overlay(key, everywhere == Some(Action::Leave));
        }
        let is_completing = self.completion.is_some() && self.focus == Focus::Editor;
        let place = match self.focus {
            Focus::Editor => Place::Editor,
            Focus::Browse => Place::Browse,
            Focus::Search { .. } => Place::Search,
            Focus::Recall { .. } => Place::Recall,
        };
        let completes = find(Place::Completion, key).filter(|_| is_completing);
        let action = completes.or_else(|| find(place, key)).or(everywhere);
        self.disarm(action);
        match (action, place) {
            (Some(action), Place::Browse) => self.browse(action),
            (Some(action), Place::Search) => self.search(action),
            (Some(action), Place::Recall) => self.recall(action),
            (Some(action), _) => self.act(action),
            (None, Place::Search | Place::Recall) => {
                match typed(key) {
                    Some(letter) => self.look_for(letter),
                    // Any other key ends the search and goes to the editor.
                    None if place == Place::Recall => {
                        self.focus = Focus::Editor;
                        return self.press(key);
                    }
                    None => {}
                }
                Vec::new()
            }
            (None, _) => match typed(key) {
                Some(letter) => self.type_letter(letter),
                None => Vec::new(),
            },
        }
    }

    fn press_overlay(&mut self, key: KeyEvent, leaves: bool) -> Vec<Effect> {
        self.twice = None;
        let Some(overlay) = self.overlay.as_mut().filter(|_| !leaves) else {
            self.overlay = None;
            return Vec::new();
        };
        match overlay.key(key) {
            After::Stay(effects) => effects,
            After::Close(effects) => {
                self.overlay = None;
                if self.is_busy() && effects.iter().any(opens_another) {
                    self.refuse("interrupt the turn first")
                } else {
                    effects
                }
            }
        }
    }

    fn type_letter(&mut self, letter: char) -> Vec<Effect> {
        if self.focus == Focus::Browse {
            self.back_to_editor();
        }
        self.editor.type_letter(letter);
        self.complete()
    }

    /// Performs an action that does not depend on the focus.
    pub(super) fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Send => return self.send(),
            Action::Change(change) => {
                self.editor.change(change);
                return self.complete();
            }
            Action::Up => return self.up(),
            Action::Down => {
                if !self.is_stepping() && self.editor.move_row(1) {
                    return self.complete();
                }
                if self.editor.newer() {
                    self.completion = None;
                } else {
                    self.editor.change(Change::TextEnd);
                }
            }
            Action::Recall => self.start_recall(),
            Action::Browse => self.start_browse(),
            Action::Edit => return vec![Effect::Edit(self.editor.text())],
            Action::Escape => return self.escape(),
            Action::Leave => return self.leave(),
            Action::DeleteOrLeave => return self.delete_or_leave(),
            Action::Clipboard => {
                self.say_hint("paste with your terminal's own key; `/image FILE` adds a picture");
            }
            Action::Accept => return self.accept(),
            Action::AcceptAndSend => return self.accept_and_send(),
            Action::Choose(step) => self.choose(step),
            Action::Close => self.close_completion(),
            Action::ToggleThinking => self.transcript.toggle_thinking(),
            Action::ToggleCalls => self.transcript.toggle_all_calls(),
            Action::Search => self.start_search(),
            Action::Page(pages) => self.transcript.page(pages),
            Action::ToTop => self.transcript.go_to_top(),
            Action::ToEnd => self.transcript.go_to_end(),
            Action::Refresh => return vec![Effect::Refresh],
            Action::Suspend => return vec![Effect::Suspend],
            // Handled by `browse`, `search` and `recall`; no effect elsewhere.
            Action::Select(_)
            | Action::Toggle
            | Action::Copy
            | Action::Match(_)
            | Action::Diff
            | Action::Back
            | Action::Done
            | Action::EraseLetter
            | Action::EraseAll => {}
        }
        Vec::new()
    }

    /// Moves up by a row; on the first row, to the previous message of the history.
    fn up(&mut self) -> Vec<Effect> {
        if !self.is_stepping() && self.editor.move_row(-1) {
            return self.complete();
        }
        self.completion = None;
        if self.editor.is_empty()
            && let Some(draft) = self.queue.pop_back()
        {
            self.editor.set(draft);
            self.say_hint("taken back from those that wait");
        } else if !self.editor.older() {
            self.editor.change(Change::TextStart);
        }
        Vec::new()
    }

    /// Whether an unchanged history entry is shown: then up and down step through the history.
    fn is_stepping(&self) -> bool {
        self.editor.history.is_open()
    }

    fn escape(&mut self) -> Vec<Effect> {
        if self.is_busy() {
            self.say_hint("interrupting …");
            return vec![ask(Command::Interrupt)];
        }
        self.clear_at_second();
        Vec::new()
    }
}

/// Whether the effect opens another session or job.
fn opens_another(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Ask(Request::New | Request::Load(_) | Request::Fork | Request::Follow(_))
    )
}
