//! Completion of the word at the cursor, and the candidates known so far.

use std::path::Path;

use protocol::AgentCommand;

use super::{AppEffect, TuiApp, agent_command};
use crate::command::{SLASH_COMMANDS, SlashCommand};
use crate::editor::{self, Completion, CompletionRow, CompletionTarget, FuzzyFinder, is_picture};
use crate::port::{JobRow, SessionRow, UiRequest};

/// Candidates for completion, as received from the host and the agent.
#[derive(Debug, Default)]
pub(super) struct CompletionSources {
    files: FuzzyFinder,
    /// The file list was requested, and no turn has ended since that could have changed it.
    files_are_fresh: bool,
    /// Pairs of name and description.
    sessions: Vec<(String, String)>,
    models: Vec<(String, String)>,
    jobs: Vec<(String, String)>,
    /// Open the next file list that arrives in an overlay.
    pub(super) shows_files: bool,
    /// Open the next diff that arrives in an overlay.
    pub(super) shows_changes: bool,
    /// The target for which the user closed the completion; it stays closed for that target.
    closed: Option<CompletionTarget>,
}

impl CompletionSources {
    pub(super) fn mark_files_stale(&mut self) {
        self.files_are_fresh = false;
    }

    pub(super) fn set_files(&mut self, paths: Vec<String>) {
        self.files = FuzzyFinder::new(paths);
    }

    pub(super) fn set_sessions(&mut self, rows: &[SessionRow]) {
        let named = rows
            .iter()
            .map(|row| (row.session.to_string(), row.title.clone()));
        self.sessions = named.collect();
    }

    pub(super) fn set_models(&mut self, names: &[String]) {
        self.models = names
            .iter()
            .map(|name| (name.clone(), String::new()))
            .collect();
    }

    pub(super) fn set_jobs(&mut self, rows: &[JobRow]) {
        let named = rows.iter().map(|row| {
            let about = format!("{} · {}", row.state, row.title);
            (row.job.to_string(), about)
        });
        self.jobs = named.collect();
    }

    /// Whether some files have not been matched against the query yet.
    pub(super) fn is_looking(&self) -> bool {
        !self.files.is_done()
    }

    pub(super) fn has_file(&self, path: &str) -> bool {
        self.files.has(path)
    }

    fn rows(&mut self, target: &CompletionTarget) -> Vec<CompletionRow> {
        match target {
            CompletionTarget::Command(word) => editor::complete_command(word),
            CompletionTarget::File(word) => editor::complete_file(&mut self.files, word),
            CompletionTarget::Argument("load", word) => {
                editor::complete_argument(&self.sessions, word)
            }
            CompletionTarget::Argument("model", word) => {
                editor::complete_argument(&self.models, word)
            }
            CompletionTarget::Argument("attach", word) => {
                editor::complete_argument(&self.jobs, word)
            }
            CompletionTarget::Argument(..) => Vec::new(),
        }
    }
}

impl TuiApp {
    fn target(&self) -> Option<CompletionTarget> {
        let (before, after) = self.editor.line_around_cursor();
        CompletionTarget::read(before, after, self.editor.cursor().0 == 0)
    }

    /// Updates the completion after a change of the text or the cursor, and requests candidates
    /// that are missing.
    pub(super) fn complete(&mut self) -> Vec<AppEffect> {
        let Some(target) = self.target() else {
            self.completion = None;
            self.sources.closed = None;
            return Vec::new();
        };
        let is_like = |other: &CompletionTarget| other.is_like(&target);
        if self.sources.closed.as_ref().is_some_and(is_like) {
            return Vec::new();
        }
        self.sources.closed = None;
        let is_new = !self
            .completion
            .as_ref()
            .is_some_and(|open| is_like(&open.target));
        let effects = self.request_candidates(&target, is_new);
        self.show_completion(target);
        effects
    }

    /// Updates the completion after new candidates arrived. The selected row stays selected.
    pub(super) fn refresh_completion(&mut self) {
        let Some(target) = self.target().filter(|_| self.sources.closed.is_none()) else {
            return;
        };
        let selected_row = self.completion.take().and_then(|open| {
            let index = Some(open.selected).filter(|index| *index > 0)?;
            open.rows.into_iter().nth(index)
        });
        self.show_completion(target);
        if let Some(open) = &mut self.completion {
            let index = open
                .rows
                .iter()
                .position(|row| Some(row) == selected_row.as_ref());
            open.selected = index.unwrap_or(0);
        }
    }

    /// Matches the next batch of files, if any are left.
    pub(super) fn continue_file_search(&mut self) {
        if self.sources.is_looking() {
            self.sources.files.search_step();
            self.refresh_completion();
        }
    }

    fn show_completion(&mut self, target: CompletionTarget) {
        let rows = self.sources.rows(&target);
        self.completion = (!rows.is_empty()).then_some(Completion {
            rows,
            selected: 0,
            target,
        });
    }

    fn request_candidates(&mut self, target: &CompletionTarget, is_new: bool) -> Vec<AppEffect> {
        let request = match target {
            CompletionTarget::File(_) if !self.sources.files_are_fresh && !self.is_lost => {
                self.sources.files_are_fresh = true;
                return vec![agent_command(AgentCommand::ListFiles)];
            }
            // Request them once each time the command is typed.
            CompletionTarget::Argument(_, word) if !(is_new && word.is_empty()) => {
                return Vec::new();
            }
            CompletionTarget::Argument("load", _) => UiRequest::Sessions {
                words: String::new(),
            },
            CompletionTarget::Argument("model", _) => UiRequest::Models,
            CompletionTarget::Argument("attach", _) => UiRequest::Jobs,
            _ => return Vec::new(),
        };
        vec![AppEffect::Ask(request)]
    }

    pub(super) fn step_selection(&mut self, step: i32) {
        if let Some(open) = &mut self.completion {
            let rows = i64::try_from(open.rows.len()).unwrap_or(1).max(1);
            let index = i64::try_from(open.selected).unwrap_or(0) + i64::from(step);
            open.selected = usize::try_from(index.rem_euclid(rows)).unwrap_or(0);
        }
    }

    pub(super) fn close_completion(&mut self) {
        self.sources.closed = self.completion.take().map(|open| open.target);
    }

    /// Inserts the selected row into the text and updates the completion.
    pub(super) fn accept(&mut self) -> Vec<AppEffect> {
        let mut effects = self.insert_selected();
        effects.extend(self.complete());
        effects
    }

    fn insert_selected(&mut self) -> Vec<AppEffect> {
        let Some(open) = self.completion.take() else {
            return Vec::new();
        };
        let Some(row) = open.rows.get(open.selected) else {
            return Vec::new();
        };
        let is_command = matches!(open.target, CompletionTarget::Command(_));
        let insertion = if is_command && !row.insertion.ends_with(' ') {
            format!("{} ", row.insertion)
        } else {
            row.insertion.clone()
        };
        self.editor
            .replace_before(open.target.char_count(), &insertion);
        let mut effects = Vec::new();
        if matches!(open.target, CompletionTarget::File(_)) && is_picture(Path::new(&row.label)) {
            let path = self.workspace_path(&row.label);
            effects.push(self.read_image(insertion.trim_end().to_owned(), path));
        }
        effects
    }

    /// Inserts the selected row into the text, and sends the message if it is a complete command.
    pub(super) fn accept_and_send(&mut self) -> Vec<AppEffect> {
        let Some(open) = &self.completion else {
            return self.send();
        };
        let selected_row = open
            .rows
            .get(open.selected)
            .map(|row| row.insertion.clone());
        let is_whole = match &open.target {
            // Already complete: Enter sends the message.
            CompletionTarget::File(path) if self.sources.has_file(path) => return self.send(),
            CompletionTarget::Command(name)
                if SLASH_COMMANDS.iter().any(|known| known.name == name) =>
            {
                return self.send();
            }
            CompletionTarget::Command(_) => {
                let parsed =
                    selected_row.and_then(|insertion| SlashCommand::parse(insertion.trim_end()));
                matches!(parsed, Some(Ok(_)))
            }
            CompletionTarget::Argument(..) => true,
            CompletionTarget::File(_) => false,
        };
        if !is_whole {
            return self.accept();
        }
        let mut effects = self.insert_selected();
        effects.extend(self.send());
        effects
    }
}
