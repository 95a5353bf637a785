//! Sends messages: at once, when the turn has ended, or when the images have been read.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use protocol::AgentCommand;

use super::{AppEffect, TuiApp, agent_command};
use crate::command::{SlashCommand, SlashError, nearest};
use crate::editor::{EditCommand, MessageDraft, is_picture};
use crate::port::{ImageAttachment, UiRequest};
use crate::transcript::NoteTone;

/// Progress of the current turn.
#[derive(Debug)]
pub(super) enum TurnProgress {
    Idle,
    /// The message was sent, and the turn has not started yet.
    Sent(MessageDraft),
    Running,
}

/// Images that are being read for the message.
#[derive(Debug, Default)]
pub(super) struct PendingImages {
    waiting: VecDeque<(String, PathBuf)>,
    /// Send the message when the last image has been read.
    sends: bool,
}

impl TuiApp {
    /// Handles the Enter key.
    pub(super) fn send(&mut self) -> Vec<AppEffect> {
        if self.editor.line_around_cursor().0.ends_with('\\') {
            self.editor.replace_before(1, "");
            self.editor.change(EditCommand::NewLine);
            return self.complete();
        }
        if self.editor.draft().is_blank() {
            return Vec::new();
        }
        match SlashCommand::parse(&self.editor.text()) {
            Some(Ok(command)) => self.command(command),
            Some(Err(error)) => {
                let text = match &error {
                    SlashError::Unknown(name) => match nearest(name) {
                        Some(near) => format!("{error}; did you mean `/{near}`?"),
                        None => format!("{error}; `/help` shows all"),
                    },
                    _ => error.to_string(),
                };
                self.transcript.note(text, NoteTone::Error);
                Vec::new()
            }
            None => self.send_message(),
        }
    }

    fn send_message(&mut self) -> Vec<AppEffect> {
        if self.is_lost {
            return self.refuse("the agent has ended; `/clear` or `/load` opens another session");
        }
        let mut effects = self.read_mentioned_images();
        if !self.reading.waiting.is_empty() {
            self.reading.sends = true;
            self.show_hint("reading the picture …");
            return effects;
        }
        self.completion = None;
        let draft = self.editor.take();
        self.editor.history.add(draft.clone());
        if self.is_busy() {
            self.queue.push_back(draft)
        } else {
            effects.push(self.prompt(draft))
        }
        effects
    }

    fn prompt(&mut self, draft: MessageDraft) -> AppEffect {
        let content = draft.content();
        self.turn = TurnProgress::Sent(draft);
        self.transcript.go_to_end();
        agent_command(AgentCommand::Prompt { content })
    }

    /// Shows why something cannot be done now. The text in the editor stays.
    pub(super) fn refuse(&mut self, why: &str) -> Vec<AppEffect> {
        self.transcript.note(why, NoteTone::Warning);
        Vec::new()
    }

    pub(super) fn handle_turn_start(&mut self) {
        self.turn = TurnProgress::Running;
    }

    /// Sends the next queued message if the turn succeeded; otherwise moves all queued messages
    /// back into the editor.
    pub(super) fn handle_turn_end(&mut self, is_done: bool) -> Vec<AppEffect> {
        self.turn = TurnProgress::Idle;
        self.sources.mark_files_stale();
        if is_done {
            let next = self.queue.pop_front();
            return next.map(|draft| self.prompt(draft)).into_iter().collect();
        }
        self.restore_unsent();
        Vec::new()
    }

    /// Moves unsent messages back into the editor.
    pub(super) fn restore_unsent(&mut self) {
        let sent = match std::mem::replace(&mut self.turn, TurnProgress::Idle) {
            TurnProgress::Sent(draft) => Some(draft),
            TurnProgress::Idle | TurnProgress::Running => None,
        };
        let drafts: Vec<MessageDraft> = sent.into_iter().chain(self.queue.drain(..)).collect();
        if drafts.is_empty() {
            return;
        }
        // Browsing or a history search would hide the restored text.
        self.focus_editor();
        for draft in drafts.into_iter().rev() {
            self.editor.prepend_draft(draft);
        }
        self.show_hint("what was not sent is back in the editor");
    }

    /// The agent refused a command. If it was the prompt, its text goes back into the editor.
    pub(super) fn handle_refusal(&mut self) {
        if matches!(self.turn, TurnProgress::Sent(_)) {
            self.restore_unsent();
        }
    }

    /// Requests an image; `placeholder` stands for it in the editor.
    pub(super) fn read_image(&mut self, placeholder: String, path: PathBuf) -> AppEffect {
        self.reading.waiting.push_back((placeholder, path.clone()));
        AppEffect::Ask(UiRequest::Attach(path))
    }

    /// Requests the workspace images that the message mentions and that are not being read yet.
    fn read_mentioned_images(&mut self) -> Vec<AppEffect> {
        let draft = self.editor.draft();
        let named: Vec<String> = draft
            .words()
            .filter_map(|word| word.strip_prefix('@'))
            .filter(|path| is_picture(Path::new(path)) && self.sources.has_file(path))
            .map(str::to_owned)
            .collect();
        let mut effects = Vec::new();
        for path in named {
            let placeholder = format!("@{path}");
            if !self
                .reading
                .waiting
                .iter()
                .any(|(other, _)| *other == placeholder)
            {
                let path = self.workspace_path(&path);
                effects.push(self.read_image(placeholder, path));
            }
        }
        effects
    }

    pub(super) fn workspace_path(&self, path: &str) -> PathBuf {
        Path::new(&self.status.workspace).join(path)
    }

    pub(super) fn handle_attachment(&mut self, attachment: ImageAttachment) -> Vec<AppEffect> {
        let waiting = &mut self.reading.waiting;
        // The host may have resolved the path to a longer one, so fall back to the file name.
        let is_same = |path: &PathBuf| *path == attachment.path;
        let is_like = |path: &PathBuf| path.file_name() == attachment.path.file_name();
        let index = waiting.iter().position(|(_, path)| is_same(path));
        let index = index.or_else(|| waiting.iter().position(|(_, path)| is_like(path)));
        let placeholder = waiting
            .remove(index.unwrap_or(0))
            .map(|(placeholder, _)| placeholder);
        self.editor
            .attach(attachment, &placeholder.unwrap_or_default());
        if self.reading.waiting.is_empty() && std::mem::take(&mut self.reading.sends) {
            self.send_message()
        } else {
            Vec::new()
        }
    }

    /// A request failed. It may have been the oldest image, so the message is not sent.
    pub(super) fn handle_image_failure(&mut self) {
        self.reading.waiting.pop_front();
        self.reading.sends = false;
    }
}
