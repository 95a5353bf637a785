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

    fn rows(&mut self, wanted: &CompletionTarget) -> Vec<CompletionRow> {
        match wanted {
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
    fn wanted(&self) -> Option<CompletionTarget> {
        let (before, after) = self.editor.line_around_cursor();
        CompletionTarget::read(before, after, self.editor.cursor().0 == 0)
    }

    /// Updates the completion after a change of the text or the cursor, and requests candidates
    /// that are missing.
    pub(super) fn complete(&mut self) -> Vec<AppEffect> {
        let Some(wanted) = self.wanted() else {
            self.completion = None;
            self.known.closed = None;
            return Vec::new();
        };
        let is_like = |other: &CompletionTarget| other.is_like(&wanted);
        if self.known.closed.as_ref().is_some_and(is_like) {
            return Vec::new();
        }
        self.known.closed = None;
        let is_new = !self
            .completion
            .as_ref()
            .is_some_and(|open| is_like(&open.wanted));
        let effects = self.request_candidates(&wanted, is_new);
        self.show_completion(wanted);
        effects
    }

    /// Updates the completion after new candidates arrived. The selected row stays selected.
    pub(super) fn refresh_completion(&mut self) {
        let Some(wanted) = self.wanted().filter(|_| self.known.closed.is_none()) else {
            return;
        };
        let chosen = self.completion.take().and_then(|open| {
            let place = Some(open.selected).filter(|place| *place > 0)?;
            open.rows.into_iter().nth(place)
        });
        self.show_completion(wanted);
        if let Some(open) = &mut self.completion {
            let place = open
                .rows
                .iter()
                .position(|row| Some(row) == chosen.as_ref());
            open.selected = place.unwrap_or(0);
        }
    }

    /// Matches the next batch of files, if any are left.
    pub(super) fn continue_file_search(&mut self) {
        if self.known.is_looking() {
            self.known.files.search_step();
            self.refresh_completion();
        }
    }

    fn show_completion(&mut self, wanted: CompletionTarget) {
        let rows = self.known.rows(&wanted);
        self.completion = (!rows.is_empty()).then_some(Completion {
            rows,
            selected: 0,
            wanted,
        });
    }

    fn request_candidates(&mut self, wanted: &CompletionTarget, is_new: bool) -> Vec<AppEffect> {
        let request = match wanted {
            CompletionTarget::File(_) if !self.known.files_are_fresh && !self.is_lost => {
                self.known.files_are_fresh = true;
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

    pub(super) fn choose(&mut self, step: i32) {
        if let Some(open) = &mut self.completion {
            let rows = i64::try_from(open.rows.len()).unwrap_or(1).max(1);
            let place = i64::try_from(open.selected).unwrap_or(0) + i64::from(step);
            open.selected = usize::try_from(place.rem_euclid(rows)).unwrap_or(0);
        }
    }

    pub(super) fn close_completion(&mut self) {
        self.known.closed = self.completion.take().map(|open| open.wanted);
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
        let is_command = matches!(open.wanted, CompletionTarget::Command(_));
        let words = if is_command && !row.words.ends_with(' ') {
            format!("{} ", row.words)
        } else {
            row.words.clone()
        };
        self.editor.replace_before(open.wanted.char_count(), &words);
        let mut effects = Vec::new();
        if matches!(open.wanted, CompletionTarget::File(_)) && is_picture(Path::new(&row.label)) {
            let path = self.workspace_path(&row.label);
            effects.push(self.read_image(words.trim_end().to_owned(), path));
        }
        effects
    }

    /// Inserts the selected row into the text, and sends the message if it is a complete command.
    pub(super) fn accept_and_send(&mut self) -> Vec<AppEffect> {
        let Some(open) = &self.completion else {
            return self.send();
        };
        let chosen = open.rows.get(open.selected).map(|row| row.words.clone());
        let is_whole = match &open.wanted {
            // Already complete: Enter sends the message.
            CompletionTarget::File(path) if self.known.has_file(path) => return self.send(),
            CompletionTarget::Command(name)
                if SLASH_COMMANDS.iter().any(|known| known.name == name) =>
            {
                return self.send();
            }
            CompletionTarget::Command(_) => {
                let parsed = chosen.and_then(|words| SlashCommand::parse(words.trim_end()));
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
