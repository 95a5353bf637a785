//! Scripts of keys and notices, with the expected effects.
//!
//! In a script a letter is typed as it is, `⏎ ⇥ ⎋ ⌫ ↑ ↓ ← →` are keys, and `<ctrl-c>` is a key by
//! its name in the table.

#![allow(clippy::unwrap_used)]

mod browsing;
mod completing;
mod hearing;
mod leaving;
mod never;
mod talking;
mod writing;

use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::KeyEvent;
use jiff::Timestamp;
use protocol::{Block, Command, Event, EventKind, Image, Outcome, SessionId, Spending, VERSION};

use super::keys::named;
use super::{App, Effect, Input};
use crate::port::{Attachment, Notice, Opened, Origin, Request};
use crate::theme::Look;

/// The UI with a clock, and its effects so far.
struct Stage {
    app: App,
    now: Duration,
    wants: Vec<String>,
}

impl Stage {
    fn new() -> Self {
        let mut app = App::new(Look::Plain, 80, 24);
        app.arrange();
        Self {
            app,
            now: Duration::ZERO,
            wants: Vec::new(),
        }
    }

    /// With a running turn.
    fn busy() -> Self {
        let mut stage = Self::new();
        stage.event(started(1, "begin"));
        stage
    }

    fn input(&mut self, input: Input) -> &mut Self {
        let effects = self.app.update(self.now, input);
        self.wants.extend(effects.iter().map(told));
        self.app.arrange();
        self
    }

    fn keys(&mut self, script: &str) -> &mut Self {
        for key in script_keys(script) {
            self.input(Input::Key(key));
        }
        self
    }

    fn paste(&mut self, text: &str) -> &mut Self {
        self.input(Input::Paste(text.to_owned()))
    }

    fn hear(&mut self, notice: Notice) -> &mut Self {
        self.input(Input::Notice(notice))
    }

    fn event(&mut self, kind: EventKind) -> &mut Self {
        self.hear(Notice::Event(event(kind)))
    }

    fn wait(&mut self, milliseconds: u64) -> &mut Self {
        self.now += Duration::from_millis(milliseconds);
        self.input(Input::Time)
    }

    /// Checks the effects since the last call, and the text in the editor.
    fn expect(&mut self, wants: &[&str], written: &str) -> &mut Self {
        assert_eq!(std::mem::take(&mut self.wants), wants);
        assert_eq!(self.app.editor.text(), written);
        self
    }

    fn queued(&self) -> Vec<String> {
        self.app.queue.iter().map(|draft| draft.line()).collect()
    }

    fn offered(&self) -> Vec<&str> {
        let rows = self.app.completion().map(|open| open.rows.as_slice());
        let rows = rows.unwrap_or_default();
        rows.iter().map(|row| row.words.as_str()).collect()
    }

    /// The rows of the editor.
    fn shown(&self) -> Vec<String> {
        let rows = self.app.editor.view().rows.iter();
        rows.map(|row| row.iter().map(|piece| piece.text.as_str()).collect())
            .collect()
    }
}

fn script_keys(script: &str) -> Vec<KeyEvent> {
    let mut keys = Vec::new();
    let mut rest = script;
    while let Some(letter) = rest.chars().next() {
        let name = match letter {
            '⏎' => "enter",
            '⇥' => "tab",
            '⎋' => "esc",
            '⌫' => "backspace",
            ' ' => "space",
            '<' => {
                let end = rest.find('>').unwrap();
                keys.push(named(&rest[1..end]).unwrap());
                rest = &rest[end + 1..];
                continue;
            }
            _ => &rest[..letter.len_utf8()],
        };
        keys.push(named(name).unwrap());
        rest = &rest[letter.len_utf8()..];
    }
    keys
}

/// A short text for an effect.
fn told(effect: &Effect) -> String {
    match effect {
        Effect::Ask(Request::Agent(Command::Prompt { content })) => {
            let words: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
            let images = content.len() - words.len();
            match images {
                0 => format!("say {}", words.join("+")),
                images => format!("say {} with {images}", words.join("+")),
            }
        }
        Effect::Ask(Request::Agent(command)) => format!("{command:?}"),
        Effect::Ask(request) => format!("{request:?}"),
        effect => format!("{effect:?}"),
    }
}

fn event(kind: EventKind) -> Event {
    Event {
        v: VERSION,
        session: session(),
        seq: None,
        time: Timestamp::UNIX_EPOCH,
        kind,
    }
}

fn session() -> SessionId {
    "20260131-174502-k3fd".parse().unwrap()
}

fn started(turn: u32, words: &str) -> EventKind {
    EventKind::TurnStarted {
        turn,
        prompt: vec![Block::text(words)],
    }
}

fn ended(turn: u32, outcome: Outcome) -> EventKind {
    EventKind::TurnEnded {
        turn,
        outcome,
        spending: Spending::none(),
    }
}

fn picture(path: &str) -> Notice {
    Notice::Attached(Attachment {
        path: PathBuf::from(path),
        image: Image::Base64 {
            media_type: "image/png".to_owned(),
            data: "AA==".to_owned(),
        },
        bytes: 120_000,
    })
}

fn opened(origin: Origin, history: Vec<EventKind>) -> Notice {
    Notice::Opened(Box::new(Opened {
        origin,
        history: history.into_iter().map(event).collect(),
        model: "model".to_owned(),
        workspace: "/home/me/project".to_owned(),
    }))
}

fn here(history: Vec<EventKind>) -> Notice {
    opened(
        Origin::Here {
            session: Some(session()),
        },
        history,
    )
}

fn failed(what: &str) -> Notice {
    Notice::Failed {
        what: what.to_owned(),
        hint: None,
    }
}
