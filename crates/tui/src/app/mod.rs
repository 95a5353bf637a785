//! The whole state of the UI, and how it changes. Pure: the time comes in with every input, and
//! what is to be done goes out as [`Effect`]s.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEvent};
use protocol::Command;

use crate::command::SlashCommand;
use crate::editor::Editor;
use crate::port::{Notice, Request};
use crate::status::Status;
use crate::theme::{Look, Theme};
use crate::transcript::{Tone, Transcript};

/// What can happen to the UI.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Input {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    Resized {
        width: u16,
        height: u16,
    },
    Notice(Notice),
    /// What the person wrote in an editor of their own.
    Edited(String),
    /// The state is on the screen, and no key that was typed before waits to be read.
    Shown,
    /// The moment that [`App::wakes_at`] named has come.
    Time,
}

/// What the terminal is to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    Ask(Request),
    /// Into the clipboard of the person's terminal.
    Copy(String),
    /// In the person's own editor: comes back as [`Input::Edited`].
    Edit(String),
    /// Gives the shell the terminal for a while.
    Suspend,
    /// Draws everything anew.
    Refresh,
    Quit,
}

#[derive(Debug)]
pub(crate) struct App {
    /// Since the start.
    pub(crate) now: Duration,
    pub(crate) width: u16,
    pub(crate) height: u16,
    pub(crate) theme: Theme,
    pub(crate) transcript: Transcript,
    pub(crate) status: Status,
    pub(crate) editor: Editor,
}

impl App {
    pub(crate) fn new(look: Look, width: u16, height: u16) -> Self {
        Self {
            now: Duration::ZERO,
            width,
            height,
            theme: Theme::new(look),
            transcript: Transcript::default(),
            status: Status::default(),
            editor: Editor::default(),
        }
    }

    /// Takes in what happened at a moment.
    pub(crate) fn update(&mut self, now: Duration, input: Input) -> Vec<Effect> {
        self.now = now;
        match input {
            Input::Key(key) => self.key(key),
            Input::Paste(text) => {
                self.editor.paste(&text);
                Vec::new()
            }
            Input::Resized { width, height } => {
                (self.width, self.height) = (width, height);
                Vec::new()
            }
            Input::Notice(notice) => self.hear(notice),
            Input::Edited(_) | Input::Mouse(_) | Input::Shown | Input::Time => Vec::new(),
        }
    }

    /// When something changes on the screen though nothing happens.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        None
    }

    /// Lays everything out for the size. Called before every drawing.
    pub(crate) fn arrange(&mut self) {
        let width = self.width;
        let editor = self.editor.height(width) + 2;
        let height = self.height.saturating_sub(editor + 1);
        self.transcript.arrange(width, height, &self.theme);
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        match (key.code, key.modifiers) {
            (KeyCode::Char('c' | 'd'), KeyModifiers::CONTROL) => {
                vec![Effect::Ask(Request::Quit), Effect::Quit]
            }
            (KeyCode::Esc, _) => vec![Effect::Ask(Request::Agent(Command::Interrupt))],
            (KeyCode::Enter, KeyModifiers::NONE) => self.send(),
            _ => {
                self.editor.key(key);
                Vec::new()
            }
        }
    }

    fn send(&mut self) -> Vec<Effect> {
        if self.editor.is_empty() {
            return Vec::new();
        }
        match SlashCommand::parse(&self.editor.text()) {
            Some(Ok(SlashCommand::Quit)) => vec![Effect::Ask(Request::Quit), Effect::Quit],
            Some(Err(error)) => {
                self.transcript.note(error.to_string(), Tone::Error);
                Vec::new()
            }
            _ => {
                let content = self.editor.take();
                vec![Effect::Ask(Request::Agent(Command::Prompt { content }))]
            }
        }
    }

    fn hear(&mut self, notice: Notice) -> Vec<Effect> {
        match notice {
            Notice::Event(event) => {
                self.status.apply(&event);
                self.transcript.apply(&event);
            }
            Notice::Opened(opened) => {
                self.status.model = opened.model;
                self.transcript = Transcript::open(&opened.history);
            }
            Notice::Said(text) => self.transcript.note(text, Tone::Plain),
            Notice::Failed { what, .. } | Notice::Lost { what, .. } => {
                self.transcript.note(what, Tone::Error);
            }
            Notice::Quit => return vec![Effect::Quit],
            _ => {}
        }
        Vec::new()
    }
}
