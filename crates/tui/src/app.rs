//! The whole state of the UI, and how it changes. Pure: the time comes in with every input, and
//! what is to be done goes out as [`Effect`]s.
//!
//! A key goes to a question first, then to what stands in front of the page, then to where the
//! focus is; a letter that none of them wants is typed into the editor, so that none is lost.
//! Entry type: [`App`].

mod browsing;
mod commanding;
mod completing;
mod hearing;
mod keys;
mod leaving;
mod recalling;
mod talking;
#[cfg(test)]
mod tests;
mod typing;

use std::collections::VecDeque;
use std::time::Duration;

use crossterm::event::{KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use jiff::Timestamp;
use protocol::Command;

use self::completing::Known;
pub(crate) use self::keys::{BINDINGS, Place};
use self::leaving::Twice;
use self::recalling::Recall;
use self::talking::{Reading, Turn};
use crate::draw::{Areas, areas, page_width};
use crate::editor::{Completion, Draft, Editor, Pasted};
use crate::overlay::Overlay;
use crate::port::{Notice, Request};
use crate::question::{Questions, Taken};
use crate::status::{FRAME, Status};
use crate::theme::{Look, Theme};
use crate::transcript::Transcript;

/// How long a hint stays.
const HINT: Duration = Duration::from_secs(2);
/// Lines by which the wheel of a mouse scrolls.
const WHEEL: i32 = 3;

/// What can happen to the UI.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are notices: a box would be an allocation for each"
)]
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
    /// The terminal has told what its background is like.
    Look(Look),
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
    pub(crate) focus: Focus,
    /// In front of the page; gets the keys that are not for a question.
    pub(crate) overlay: Option<Overlay>,
    pub(crate) questions: Questions,
    /// Messages that wait for the end of the turn, the next one first.
    pub(crate) queue: VecDeque<Draft>,
    /// The clock on the wall at the start.
    pub(crate) began: Option<Timestamp>,
    /// Where everything stands, by the last layout.
    pub(crate) areas: Areas,
    completion: Option<Completion>,
    known: Known,
    recall: Recall,
    turn: Turn,
    /// Pictures that are being read for the message.
    reading: Reading,
    /// Something is being talked to, or was.
    is_opened: bool,
    /// The agent has ended: only another session can be opened.
    is_lost: bool,
    /// A key that does something only when it comes twice, and until when.
    twice: Option<(Twice, Duration)>,
    hint: Option<(String, Duration)>,
}

/// Where keys go that are for nobody else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Focus {
    #[default]
    Editor,
    /// One entry of the page is selected.
    Browse,
    /// Words to look for on the page are being written.
    Search { words: String },
    /// Words to look for in what was said before are being written.
    Recall { words: String },
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
            focus: Focus::default(),
            overlay: None,
            questions: Questions::default(),
            queue: VecDeque::new(),
            began: None,
            areas: Areas::default(),
            completion: None,
            known: Known::default(),
            recall: Recall::default(),
            turn: Turn::Idle,
            reading: Reading::default(),
            is_opened: false,
            is_lost: false,
            twice: None,
            hint: None,
        }
    }

    /// What can be put in the place of the word at the cursor.
    pub(crate) fn completion(&self) -> Option<&Completion> {
        self.completion.as_ref()
    }

    /// A few words for the next two seconds, such as `once more to leave`.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_ref().map(|(text, _)| text.as_str())
    }

    /// A turn is under way, or has been asked for.
    pub(crate) fn is_busy(&self) -> bool {
        !matches!(self.turn, Turn::Idle)
    }

    /// A letter would begin a message: it is part of nothing else.
    pub(crate) fn is_free(&self) -> bool {
        self.editor.is_empty() && self.overlay.is_none() && self.focus == Focus::Editor
    }

    /// The clock on the wall.
    pub(crate) fn clock(&self) -> Option<Timestamp> {
        self.began?.checked_add(self.now).ok()
    }

    /// Takes in what happened at a moment.
    pub(crate) fn update(&mut self, now: Duration, input: Input) -> Vec<Effect> {
        self.now = now;
        self.status.now = now;
        self.expire();
        match input {
            Input::Key(key) => self.key(key),
            Input::Paste(text) => self.paste(&text),
            Input::Mouse(mouse) => self.mouse(mouse),
            Input::Resized { width, height } => {
                (self.width, self.height) = (width, height);
                self.questions.resized();
                Vec::new()
            }
            Input::Notice(notice) => self.hear(notice),
            Input::Edited(text) => {
                self.focus = Focus::Editor;
                self.editor.replace(&text);
                self.complete()
            }
            Input::Look(look) => {
                // Who wants no colours gets none.
                if self.theme.look != Look::Plain {
                    let colours = self.theme.colours;
                    self.theme = Theme {
                        colours,
                        ..Theme::new(look)
                    };
                }
                Vec::new()
            }
            Input::Shown => self.questions.shown(now).map(ask).into_iter().collect(),
            Input::Time => {
                self.go_on_looking();
                self.questions.release(now).map(ask).into_iter().collect()
            }
        }
    }

    /// When something changes on the screen though nothing happens.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        // Nothing but the seconds changes while a question waits.
        let step = if self.questions.is_empty() {
            FRAME
        } else {
            Duration::from_secs(1)
        };
        let steps = u32::try_from(self.now.as_millis() / step.as_millis()).unwrap_or(u32::MAX);
        let moments = [
            self.hint.as_ref().map(|(_, until)| *until),
            self.twice.map(|(_, until)| until),
            self.questions.wakes_at(self.now),
            self.known.is_looking().then_some(self.now),
            self.is_busy().then(|| step * steps.saturating_add(1)),
        ];
        moments.into_iter().flatten().min()
    }

    /// Lays everything out for the size. Called before every drawing.
    pub(crate) fn arrange(&mut self) {
        self.areas = areas(self);
        let Areas {
            page, text, front, ..
        } = self.areas;
        self.editor.arrange(text.width, text.height);
        self.transcript
            .arrange(page_width(page), page.height, &self.theme);
        self.questions.fits(self.areas.fit);
        if let Some(overlay) = &mut self.overlay {
            overlay.arrange(front, &self.theme);
        }
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        match self.questions.key(self.now, key, self.is_free()) {
            Taken::Yes => Vec::new(),
            Taken::No => self.press(key),
            Taken::NorBefore(before) => {
                let mut effects = self.press(before);
                effects.extend(self.press(key));
                effects
            }
        }
    }

    fn paste(&mut self, text: &str) -> Vec<Effect> {
        let mut effects = match self.questions.pasted(self.now) {
            Some(before) => self.press(before),
            None => Vec::new(),
        };
        self.twice = None;
        if let Some(overlay) = &mut self.overlay {
            effects.extend(overlay.paste(text));
            return effects;
        }
        let is_looking = matches!(self.focus, Focus::Search { .. } | Focus::Recall { .. });
        if is_looking && !text.trim_end().contains(['\n', '\r']) {
            let letters = text.trim_end().chars();
            letters
                .filter(|letter| !letter.is_control())
                .for_each(|letter| self.look_for(letter));
            return effects;
        }
        self.back_to_editor();
        if let Pasted::Pictures(pictures) = self.editor.paste(text) {
            let read = pictures
                .into_iter()
                .map(|(words, path)| self.read_picture(words, path));
            effects.extend(read);
        }
        effects.extend(self.complete());
        effects
    }

    fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        let lines = match mouse.kind {
            MouseEventKind::ScrollUp => -WHEEL,
            MouseEventKind::ScrollDown => WHEEL,
            MouseEventKind::Down(MouseButton::Left) if self.overlay.is_none() => {
                // The page begins at the top and has as many rows as it has lines in view.
                if usize::from(mouse.row) < self.transcript.visible().len() {
                    self.transcript.click(mouse.row);
                }
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        match &mut self.overlay {
            Some(overlay) => overlay.scroll(lines),
            None => {
                self.transcript.scroll(lines);
                Vec::new()
            }
        }
    }

    fn say_hint(&mut self, text: impl Into<String>) {
        self.hint = Some((text.into(), self.now + HINT));
    }

    /// What was only for a while.
    fn expire(&mut self) {
        let now = self.now;
        self.hint.take_if(|(_, until)| now >= *until);
        self.twice.take_if(|(_, until)| now >= *until);
    }
}

fn ask(command: Command) -> Effect {
    Effect::Ask(Request::Agent(command))
}
