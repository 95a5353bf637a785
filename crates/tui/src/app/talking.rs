//! Sending what was written: now, when the turn has ended, or when its pictures have been read.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use protocol::Command;

use super::{App, Effect, ask};
use crate::command::{SlashCommand, SlashError, nearest};
use crate::editor::{Change, Draft, is_picture};
use crate::port::{Attachment, Request};
use crate::transcript::Tone;

/// How far the talk is.
#[derive(Debug)]
pub(super) enum Turn {
    Idle,
    /// The message went out, and nothing has come of it yet.
    Sent(Draft),
    Running,
}

/// Pictures on their way into the message.
#[derive(Debug, Default)]
pub(super) struct Reading {
    waiting: VecDeque<(String, PathBuf)>,
    /// The message goes out when the last one is there.
    sends: bool,
}

impl App {
    /// What the Enter key does.
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

    /// Something cannot be done now; what is written stays.
    pub(super) fn refuse(&mut self, why: &str) -> Vec<Effect> {
        self.transcript.note(why, Tone::Warning);
        Vec::new()
    }

    pub(super) fn turn_started(&mut self) {
        self.turn = Turn::Running;
    }

    /// The next message goes out, if all is well; or else they all go back into the editor.
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

    /// What was not said yet is being written again.
    pub(super) fn take_back(&mut self) {
        let sent = match std::mem::replace(&mut self.turn, Turn::Idle) {
            Turn::Sent(draft) => Some(draft),
            Turn::Idle | Turn::Running => None,
        };
        let drafts: Vec<Draft> = sent.into_iter().chain(self.queue.drain(..)).collect();
        if drafts.is_empty() {
            return;
        }
        // The history of what was said, and looking for it, would only be in the way.
        self.back_to_editor();
        for draft in drafts.into_iter().rev() {
            self.editor.put_before(draft);
        }
        self.say_hint("what was not sent is back in the editor");
    }

    /// A command was refused: if it was the message, it is being written again.
    pub(super) fn refused(&mut self) {
        if matches!(self.turn, Turn::Sent(_)) {
            self.take_back();
        }
    }

    /// Asks for a picture that words in the text stand for.
    pub(super) fn read_picture(&mut self, words: String, path: PathBuf) -> Effect {
        self.reading.waiting.push_back((words, path.clone()));
        Effect::Ask(Request::Attach(path))
    }

    /// Pictures of the workspace that were named and are not read yet.
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
        // Whoever read it may have found it by a longer path.
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

    /// Something failed, perhaps the oldest of the pictures: then the message is not sent.
    pub(super) fn reading_failed(&mut self) {
        self.reading.waiting.pop_front();
        self.reading.sends = false;
    }
}
