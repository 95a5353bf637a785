//! Sends messages: at once, when the turn has ended, or when the images have been read.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use protocol::Command;

use super::{App, Effect, ask};
use crate::command::{SlashCommand, SlashError, nearest};
use crate::editor::{Change, Draft, is_picture};
use crate::port::{Attachment, Request};
use crate::transcript::Tone;

/// Progress of the current turn.
#[derive(Debug)]
pub(super) enum Turn {
    Idle,
    /// The message was sent, and the turn has not started yet.
    Sent(Draft),
    Running,
}

/// Images that are being read for the message.
#[derive(Debug, Default)]
pub(super) struct Reading {
    waiting: VecDeque<(String, PathBuf)>,
    /// Send the message when the last image has been read.
    sends: bool,
}

impl App {
    /// Handles the Enter key.
    pub(super) fn send(&mut self) -> Vec<Effect> {
        if self.editor.around().0.ends_with('\\') {
            self.editor.replace_before(1, "");
            self.editor.change(Change::NewLine);
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
                self.transcript.note(text, Tone::Error);
                Vec::new()
            }
            None => self.say(),
        }
    }

    fn say(&mut self) -> Vec<Effect> {
        if self.is_lost {
            return self.refuse("the agent has ended; `/clear` or `/load` opens another session");
        }
        let mut effects = self.read_named_pictures();
        if !self.reading.waiting.is_empty() {
            self.reading.sends = true;
            self.say_hint("reading the picture …");
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

    fn prompt(&mut self, draft: Draft) -> Effect {
        let content = draft.content();
        self.turn = Turn::Sent(draft);
        self.transcript.go_to_end();
        ask(Command::Prompt { content })
    }

    /// Shows why something cannot be done now. The text in the editor stays.
    pub(super) fn refuse(&mut self, why: &str) -> Vec<Effect> {
        self.transcript.note(why, Tone::Warning);
        Vec::new()
    }

    pub(super) fn turn_started(&mut self) {
        self.turn = Turn::Running;
    }

    /// Sends the next queued message if the turn succeeded; otherwise moves all queued messages
    /// back into the editor.
    pub(super) fn turn_ended(&mut self, is_done: bool) -> Vec<Effect> {
        self.turn = Turn::Idle;
        self.known.files_are_stale();
        if is_done {
            let next = self.queue.pop_front();
            return next.map(|draft| self.prompt(draft)).into_iter().collect();
        }
        self.take_back();
        Vec::new()
    }

    /// Moves unsent messages back into the editor.
    pub(super) fn take_back(&mut self) {
        let sent = match std::mem::replace(&mut self.turn, Turn::Idle) {
            Turn::Sent(draft) => Some(draft),
            Turn::Idle | Turn::Running => None,
        };
        let drafts: Vec<Draft> = sent.into_iter().chain(self.queue.drain(..)).collect();
        if drafts.is_empty() {
            return;
        }
        // Browsing or a history search would hide the restored text.
        self.back_to_editor();
        for draft in drafts.into_iter().rev() {
            self.editor.put_before(draft);
        }
        self.say_hint("what was not sent is back in the editor");
    }

    /// The agent refused a command. If it was the prompt, its text goes back into the editor.
    pub(super) fn refused(&mut self) {
        if matches!(self.turn, Turn::Sent(_)) {
            self.take_back();
        }
    }

    /// Requests an image; `words` is the text that stands for it in the editor.
    pub(super) fn read_picture(&mut self, words: String, path: PathBuf) -> Effect {
        self.reading.waiting.push_back((words, path.clone()));
        Effect::Ask(Request::Attach(path))
    }

    /// Requests the workspace images that the message mentions and that are not being read yet.
    fn read_named_pictures(&mut self) -> Vec<Effect> {
        let draft = self.editor.draft();
        let named: Vec<String> = draft
            .words()
            .filter_map(|word| word.strip_prefix('@'))
            .filter(|path| is_picture(Path::new(path)) && self.known.has_file(path))
            .map(str::to_owned)
            .collect();
        let mut effects = Vec::new();
        for path in named {
            let words = format!("@{path}");
            if !self
                .reading
                .waiting
                .iter()
                .any(|(other, _)| *other == words)
            {
                let path = self.in_workspace(&path);
                effects.push(self.read_picture(words, path));
            }
        }
        effects
    }

    pub(super) fn in_workspace(&self, path: &str) -> PathBuf {
        Path::new(&self.status.workspace).join(path)
    }

    pub(super) fn attached(&mut self, attachment: Attachment) -> Vec<Effect> {
        let waiting = &mut self.reading.waiting;
        // The host may have resolved the path to a longer one, so fall back to the file name.
        let is_same = |path: &PathBuf| *path == attachment.path;
        let is_like = |path: &PathBuf| path.file_name() == attachment.path.file_name();
        let place = waiting.iter().position(|(_, path)| is_same(path));
        let place = place.or_else(|| waiting.iter().position(|(_, path)| is_like(path)));
        let words = waiting.remove(place.unwrap_or(0)).map(|(words, _)| words);
        self.editor.attach(attachment, &words.unwrap_or_default());
        if self.reading.waiting.is_empty() && std::mem::take(&mut self.reading.sends) {
            self.say()
        } else {
            Vec::new()
        }
    }

    /// A request failed. It may have been the oldest image, so the message is not sent.
    pub(super) fn reading_failed(&mut self) {
        self.reading.waiting.pop_front();
        self.reading.sends = false;
    }
}
