//! Scripts of keys and notices, with the expected effects.
//!
//! In a script a letter is typed as it is, `⏎ ⇥ ⎋ ⌫ ↑ ↓ ← →` are keys, and `<ctrl-c>` is a key by
//! its name in the table.

#![allow(clippy::unwrap_used)]

mod browsing;
mod completion;
mod editing;
mod notices;
mod property;
mod quitting;
mod sending;

use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::KeyEvent;
use jiff::Timestamp;
use protocol::{
    AgentCommand, Block, EVENT_VERSION, Event, EventKind, Image, Outcome, SessionId, Spending,
};

use super::keys::parse_key_name;
use super::{AppEffect, AppInput, TuiApp};
use crate::port::{ImageAttachment, OpenedSession, SessionOrigin, UiNotice, UiRequest};
use crate::theme::ColourScheme;

/// The UI with a clock, and its effects so far.
struct TestApp {
    app: TuiApp,
    now: Duration,
    effects: Vec<String>,
}

impl TestApp {
    fn new() -> Self {
        let mut app = TuiApp::new(ColourScheme::Plain, 80, 24);
        app.arrange();
        Self {
            app,
            now: Duration::ZERO,
            effects: Vec::new(),
        }
    }

    /// With a running turn.
    fn busy() -> Self {
        let mut test = Self::new();
        test.event(started(1, "begin"));
        test
    }

    fn input(&mut self, input: AppInput) -> &mut Self {
        let effects = self.app.update(self.now, input);
        self.effects.extend(effects.iter().map(effect_text));
        self.app.arrange();
        self
    }

    fn keys(&mut self, script: &str) -> &mut Self {
        for key in script_keys(script) {
            self.input(AppInput::Key(key));
        }
        self
    }

    fn paste(&mut self, text: &str) -> &mut Self {
        self.input(AppInput::Paste(text.to_owned()))
    }

    fn notice(&mut self, notice: UiNotice) -> &mut Self {
        self.input(AppInput::Notice(notice))
    }

    fn event(&mut self, kind: EventKind) -> &mut Self {
        self.notice(UiNotice::Event(event(kind)))
    }

    fn wait(&mut self, milliseconds: u64) -> &mut Self {
        self.now += Duration::from_millis(milliseconds);
        self.input(AppInput::Time)
    }

    /// Checks the effects since the last call, and the text in the editor.
    fn expect(&mut self, effects: &[&str], text: &str) -> &mut Self {
        assert_eq!(std::mem::take(&mut self.effects), effects);
        assert_eq!(self.app.editor.text(), text);
        self
    }

    fn queued(&self) -> Vec<String> {
        self.app.queue.iter().map(|draft| draft.line()).collect()
    }

    fn insertions(&self) -> Vec<&str> {
        let rows = self.app.completion().map(|open| open.rows.as_slice());
        let rows = rows.unwrap_or_default();
        rows.iter().map(|row| row.insertion.as_str()).collect()
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
    while let Some(character) = rest.chars().next() {
        let name = match character {
            '⏎' => "enter",
            '⇥' => "tab",
            '⎋' => "esc",
            '⌫' => "backspace",
            ' ' => "space",
            '<' => {
                let end = rest.find('>').unwrap();
                keys.push(parse_key_name(&rest[1..end]).unwrap());
                rest = &rest[end + 1..];
                continue;
            }
            _ => &rest[..character.len_utf8()],
        };
        keys.push(parse_key_name(name).unwrap());
        rest = &rest[character.len_utf8()..];
    }
    keys
}

/// A short text for an effect.
fn effect_text(effect: &AppEffect) -> String {
    match effect {
        AppEffect::Ask(UiRequest::Agent(AgentCommand::Prompt { content })) => {
            let words: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
            let images = content.len() - words.len();
            match images {
                0 => format!("say {}", words.join("+")),
                images => format!("say {} with {images}", words.join("+")),
            }
        }
        AppEffect::Ask(UiRequest::Agent(command)) => format!("{command:?}"),
        AppEffect::Ask(request) => format!("{request:?}"),
        effect => format!("{effect:?}"),
    }
}

fn event(kind: EventKind) -> Event {
    Event {
        v: EVENT_VERSION,
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

fn attached(path: &str) -> UiNotice {
    UiNotice::Attached(ImageAttachment {
        path: PathBuf::from(path),
        image: Image::Base64 {
            media_type: "image/png".to_owned(),
            data: "AA==".to_owned(),
        },
        bytes: 120_000,
    })
}

fn opened(origin: SessionOrigin, history: Vec<EventKind>) -> UiNotice {
    UiNotice::Opened(Box::new(OpenedSession {
        origin,
        history: history.into_iter().map(event).collect(),
        model: "model".to_owned(),
        workspace: "/home/me/project".to_owned(),
    }))
}

fn opened_local(history: Vec<EventKind>) -> UiNotice {
    opened(
        SessionOrigin::Here {
            session: Some(session()),
        },
        history,
    )
}

fn failed(what: &str) -> UiNotice {
    UiNotice::Failed {
        what: what.to_owned(),
        hint: None,
    }
}
