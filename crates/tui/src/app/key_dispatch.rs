//! Dispatches keys to the focused part and performs their actions.

use crossterm::event::{KeyEvent, KeyEventKind};
use protocol::AgentCommand;

use super::keys::{KeyAction, KeyContext, find, typed};
use super::{AppEffect, AppFocus, TuiApp, agent_command};
use crate::editor::EditCommand;
use crate::overlay::OverlayAction;
use crate::port::UiRequest;

impl TuiApp {
    /// Handles a key that the question did not take.
    pub(super) fn press(&mut self, key: KeyEvent) -> Vec<AppEffect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let everywhere = find(KeyContext::Anywhere, key);
        match everywhere {
            Some(KeyAction::Refresh) => return vec![AppEffect::Refresh],
            Some(KeyAction::Suspend) => return vec![AppEffect::Suspend],
            _ => {}
        }
        if self.overlay.is_some() {
            return self.dispatch_overlay_key(key, everywhere == Some(KeyAction::Leave));
        }
        let is_completing = self.completion.is_some() && self.focus == AppFocus::Editor;
        let context = match self.focus {
            AppFocus::Editor => KeyContext::Editor,
            AppFocus::Browse => KeyContext::Browse,
            AppFocus::Search { .. } => KeyContext::Search,
            AppFocus::HistorySearch { .. } => KeyContext::HistorySearch,
        };
        let completes = find(KeyContext::Completion, key).filter(|_| is_completing);
        let action = completes.or_else(|| find(context, key)).or(everywhere);
        self.disarm(action);
        match (action, context) {
            (Some(action), KeyContext::Browse) => self.browse(action),
            (Some(action), KeyContext::Search) => self.search(action),
            (Some(action), KeyContext::HistorySearch) => self.history_search(action),
            (Some(action), _) => self.act(action),
            (None, KeyContext::Search | KeyContext::HistorySearch) => {
                match typed(key) {
                    Some(character) => self.extend_query(character),
                    // Any other key ends the search and goes to the editor.
                    None if context == KeyContext::HistorySearch => {
                        self.focus = AppFocus::Editor;
                        return self.press(key);
                    }
                    None => {}
                }
                Vec::new()
            }
            (None, _) => match typed(key) {
                Some(character) => self.type_char(character),
                None => Vec::new(),
            },
        }
    }

    fn dispatch_overlay_key(&mut self, key: KeyEvent, leaves: bool) -> Vec<AppEffect> {
        self.first_press = None;
        let Some(overlay) = self.overlay.as_mut().filter(|_| !leaves) else {
            self.overlay = None;
            return Vec::new();
        };
        match overlay.key(key) {
            OverlayAction::Stay(effects) => effects,
            OverlayAction::Close(effects) => {
                self.overlay = None;
                if self.is_busy() && effects.iter().any(opens_session) {
                    self.refuse("interrupt the turn first")
                } else {
                    effects
                }
            }
        }
    }

    fn type_char(&mut self, character: char) -> Vec<AppEffect> {
        if self.focus == AppFocus::Browse {
            self.focus_editor();
        }
        self.editor.type_char(character);
        self.complete()
    }

    /// Performs an action that does not depend on the focus.
    pub(super) fn act(&mut self, action: KeyAction) -> Vec<AppEffect> {
        match action {
            KeyAction::Send => return self.send(),
            KeyAction::Change(change) => {
                self.editor.change(change);
                return self.complete();
            }
            KeyAction::Up => return self.move_up(),
            KeyAction::Down => {
                if !self.is_browsing_history() && self.editor.move_row(1) {
                    return self.complete();
                }
                if self.editor.newer() {
                    self.completion = None;
                } else {
                    self.editor.change(EditCommand::TextEnd);
                }
            }
            KeyAction::HistorySearch => self.start_history_search(),
            KeyAction::Browse => self.start_browse(),
            KeyAction::Edit => return vec![AppEffect::Edit(self.editor.text())],
            KeyAction::Escape => return self.escape(),
            KeyAction::Leave => return self.leave(),
            KeyAction::DeleteOrLeave => return self.delete_or_quit(),
            KeyAction::Clipboard => {
                self.show_hint("paste with your terminal's own key; `/image FILE` adds a picture");
            }
            KeyAction::Accept => return self.accept(),
            KeyAction::AcceptAndSend => return self.accept_and_send(),
            KeyAction::Choose(step) => self.step_selection(step),
            KeyAction::Close => self.close_completion(),
            KeyAction::ToggleThinking => self.transcript.toggle_thinking(),
            KeyAction::ToggleCalls => self.transcript.toggle_all_calls(),
            KeyAction::Search => self.start_search(),
            KeyAction::Page(pages) => self.transcript.page(pages),
            KeyAction::ToTop => self.transcript.go_to_top(),
            KeyAction::ToEnd => self.transcript.go_to_end(),
            KeyAction::Refresh => return vec![AppEffect::Refresh],
            KeyAction::Suspend => return vec![AppEffect::Suspend],
            // Handled by `browse`, `search` and `recall`; no effect elsewhere.
            KeyAction::Select(_)
            | KeyAction::Toggle
            | KeyAction::Copy
            | KeyAction::Match(_)
            | KeyAction::Diff
            | KeyAction::Back
            | KeyAction::Done
            | KeyAction::EraseChar
            | KeyAction::EraseAll => {}
        }
        Vec::new()
    }

    /// Moves up by a row; on the first row, to the previous message of the history.
    fn move_up(&mut self) -> Vec<AppEffect> {
        if !self.is_browsing_history() && self.editor.move_row(-1) {
            return self.complete();
        }
        self.completion = None;
        if self.editor.is_empty()
            && let Some(draft) = self.queue.pop_back()
        {
            self.editor.set(draft);
            self.show_hint("taken back from those that wait");
        } else if !self.editor.older() {
            self.editor.change(EditCommand::TextStart);
        }
        Vec::new()
    }

    /// Whether an unchanged history entry is shown: then up and down step through the history.
    fn is_browsing_history(&self) -> bool {
        self.editor.history.is_open()
    }

    fn escape(&mut self) -> Vec<AppEffect> {
        if self.is_busy() {
            self.show_hint("interrupting …");
            return vec![agent_command(AgentCommand::Interrupt)];
        }
        self.clear_on_second_press();
        Vec::new()
    }
}

/// Whether the effect opens another session or job.
fn opens_session(effect: &AppEffect) -> bool {
    matches!(
        effect,
        AppEffect::Ask(
            UiRequest::New | UiRequest::Load(_) | UiRequest::Fork | UiRequest::Follow(_)
        )
    )
}
