//! The whole state of the UI, and how it changes. Pure: the time is passed in with every input, and
//! side effects are returned as [`AppEffect`]s.
//!
//! A key goes to the open question first, then to the overlay, then to the focused part. A
//! character that none of them handles is typed into the editor, so that no input is lost. Entry
//! type: [`TuiApp`].

mod browsing;
mod completion;
mod double_press;
mod history_search;
mod key_dispatch;
mod keys;
mod notices;
mod sending;
mod slash_commands;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crossterm::event::{KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use jiff::Timestamp;
use protocol::AgentCommand;

use self::completion::CompletionSources;
use self::double_press::DoublePress;
use self::history_search::HistorySearch;
pub(crate) use self::keys::{KEY_BINDINGS, KeyContext};
use self::sending::{PendingImages, TurnProgress};
use crate::draw::{ScreenAreas, page_width, screen_areas};
use crate::editor::{Completion, Editor, MessageDraft, PasteResult};
use crate::overlay::Overlay;
use crate::port::{UiNotice, UiRequest};
use crate::question::{KeyOutcome, OpenQuestions};
use crate::status::{ANIMATION_INTERVAL, UiStatus};
use crate::theme::{ColourScheme, Theme};
use crate::transcript::Transcript;

/// How long a hint is shown, and how long the first press of a double press counts.
const HINT_DURATION: Duration = Duration::from_secs(2);
/// Lines scrolled per step of the mouse wheel.
const WHEEL_SCROLL_LINES: i32 = 3;

/// An input to the UI.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all inputs are notices: boxing would allocate for each"
)]
pub(crate) enum AppInput {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    Resized {
        width: u16,
        height: u16,
    },
    Notice(UiNotice),
    /// The text from the user's external editor.
    Edited(String),
    /// The terminal reported its background colour.
    Scheme(ColourScheme),
    /// The current state has been drawn, and no key typed before that is left unread.
    Shown,
    /// The time returned by [`TuiApp::wakes_at`] has come.
    Time,
}

/// A side effect for the terminal loop to perform.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AppEffect {
    Ask(UiRequest),
    /// Copies the text to the clipboard of the user's terminal.
    Copy(String),
    /// Opens the text in the user's external editor; the result comes back as [`AppInput::Edited`].
    Edit(String),
    /// Suspends the program and returns the terminal to the shell.
    Suspend,
    /// Redraws the whole screen.
    Refresh,
    Quit,
}

#[derive(Debug)]
pub(crate) struct TuiApp {
    /// Time since the start of the UI.
    pub(crate) now: Duration,
    pub(crate) width: u16,
    pub(crate) height: u16,
    pub(crate) theme: Theme,
    pub(crate) transcript: Transcript,
    pub(crate) status: UiStatus,
    pub(crate) editor: Editor,
    pub(crate) focus: AppFocus,
    /// Shown in front of the page; gets the keys that the question does not take.
    pub(crate) overlay: Option<Overlay>,
    pub(crate) questions: OpenQuestions,
    /// Messages to send when the turn ends, the next one first.
    pub(crate) queue: VecDeque<MessageDraft>,
    /// Wall-clock time at the start.
    pub(crate) start_time: Option<Timestamp>,
    /// Screen areas of the last layout.
    pub(crate) areas: ScreenAreas,
    completion: Option<Completion>,
    sources: CompletionSources,
    history_search: HistorySearch,
    turn: TurnProgress,
    /// Images that are being read for the message.
    reading: PendingImages,
    /// Whether a session or job has been opened since the start.
    is_opened: bool,
    /// The agent has ended: the only thing left is to open another session.
    is_lost: bool,
    /// The first press of a key that acts only when pressed twice, and until when it counts.
    first_press: Option<(DoublePress, Duration)>,
    hint: Option<(String, Duration)>,
}

/// The part that gets the keys which neither the question nor the overlay takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum AppFocus {
    #[default]
    Editor,
    /// An entry of the page is selected.
    Browse,
    /// A search query for the page is being typed.
    Search { query: String },
    /// A search query for the message history is being typed.
    HistorySearch { query: String },
}

impl TuiApp {
    pub(crate) fn new(scheme: ColourScheme, width: u16, height: u16) -> Self {
        Self {
            now: Duration::ZERO,
            width,
            height,
            theme: Theme::new(scheme),
            transcript: Transcript::default(),
            status: UiStatus::default(),
            editor: Editor::default(),
            focus: AppFocus::default(),
            overlay: None,
            questions: OpenQuestions::default(),
            queue: VecDeque::new(),
            start_time: None,
            areas: ScreenAreas::default(),
            completion: None,
            sources: CompletionSources::default(),
            history_search: HistorySearch::default(),
            turn: TurnProgress::Idle,
            reading: PendingImages::default(),
            is_opened: false,
            is_lost: false,
            first_press: None,
            hint: None,
        }
    }

    /// Completions for the word at the cursor.
    pub(crate) fn completion(&self) -> Option<&Completion> {
        self.completion.as_ref()
    }

    /// A short text shown for two seconds, such as `once more to leave`.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_ref().map(|(text, _)| text.as_str())
    }

    /// Whether a turn is running or has been requested.
    pub(crate) fn is_busy(&self) -> bool {
        !matches!(self.turn, TurnProgress::Idle)
    }

    /// Whether a typed character would start a new message: the editor is focused and empty, with
    /// no overlay open.
    pub(crate) fn is_free(&self) -> bool {
        self.editor.is_empty() && self.overlay.is_none() && self.focus == AppFocus::Editor
    }

    /// The current wall-clock time.
    pub(crate) fn clock(&self) -> Option<Timestamp> {
        self.start_time?.checked_add(self.now).ok()
    }

    /// Applies an input that happened at `now`.
    pub(crate) fn update(&mut self, now: Duration, input: AppInput) -> Vec<AppEffect> {
        self.now = now;
        self.status.now = now;
        self.expire();
        match input {
            AppInput::Key(key) => self.key(key),
            AppInput::Paste(text) => self.paste(&text),
            AppInput::Mouse(mouse) => self.mouse(mouse),
            AppInput::Resized { width, height } => {
                (self.width, self.height) = (width, height);
                self.questions.resized();
                Vec::new()
            }
            AppInput::Notice(notice) => self.receive(notice),
            AppInput::Edited(text) => {
                self.focus = AppFocus::Editor;
                self.editor.replace(&text);
                self.complete()
            }
            AppInput::Scheme(scheme) => {
                // A user who turned colours off keeps them off.
                if self.theme.scheme != ColourScheme::Plain {
                    let colours = self.theme.colours;
                    self.theme = Theme {
                        colours,
                        ..Theme::new(scheme)
                    };
                }
                Vec::new()
            }
            AppInput::Shown => self
                .questions
                .shown(now)
                .map(agent_command)
                .into_iter()
                .collect(),
            AppInput::Time => {
                self.continue_file_search();
                self.questions
                    .release(now)
                    .map(agent_command)
                    .into_iter()
                    .collect()
            }
        }
    }

    /// The next time at which the screen changes without any input.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        // While a question is open, only the elapsed seconds change.
        let step = if self.questions.is_empty() {
            ANIMATION_INTERVAL
        } else {
            Duration::from_secs(1)
        };
        let steps = u32::try_from(self.now.as_millis() / step.as_millis()).unwrap_or(u32::MAX);
        let moments = [
            self.hint.as_ref().map(|(_, until)| *until),
            self.first_press.map(|(_, until)| until),
            self.questions.wakes_at(self.now),
            self.sources.is_looking().then_some(self.now),
            self.is_busy().then(|| step * steps.saturating_add(1)),
        ];
        moments.into_iter().flatten().min()
    }

    /// Lays everything out for the screen size. Called before every draw.
    pub(crate) fn arrange(&mut self) {
        self.areas = screen_areas(self);
        let ScreenAreas {
            page,
            text,
            overlay_area,
            ..
        } = self.areas;
        self.editor.arrange(text.width, text.height);
        self.transcript
            .arrange(page_width(page), page.height, &self.theme);
        self.questions.fits(self.areas.fit);
        if let Some(overlay) = &mut self.overlay {
            overlay.arrange(overlay_area, &self.theme);
        }
    }

    fn key(&mut self, key: KeyEvent) -> Vec<AppEffect> {
        match self.questions.key(self.now, key, self.is_free()) {
            KeyOutcome::Yes => Vec::new(),
            KeyOutcome::No => self.press(key),
            KeyOutcome::NorBefore(before) => {
                let mut effects = self.press(before);
                effects.extend(self.press(key));
                effects
            }
        }
    }

    fn paste(&mut self, text: &str) -> Vec<AppEffect> {
        let mut effects = match self.questions.handle_paste(self.now) {
            Some(before) => self.press(before),
            None => Vec::new(),
        };
        self.first_press = None;
        if let Some(overlay) = &mut self.overlay {
            effects.extend(overlay.paste(text));
            return effects;
        }
        let is_looking = matches!(
            self.focus,
            AppFocus::Search { .. } | AppFocus::HistorySearch { .. }
        );
        if is_looking && !text.trim_end().contains(['\n', '\r']) {
            let characters = text.trim_end().chars();
            characters
                .filter(|character| !character.is_control())
                .for_each(|character| self.extend_query(character));
            return effects;
        }
        self.focus_editor();
        if let PasteResult::Pictures(pasted_images) = self.editor.paste(text) {
            let read = pasted_images
                .into_iter()
                .map(|(placeholder, path)| self.read_image(placeholder, path));
            effects.extend(read);
        }
        effects.extend(self.complete());
        effects
    }

    fn mouse(&mut self, mouse: MouseEvent) -> Vec<AppEffect> {
        let lines = match mouse.kind {
            MouseEventKind::ScrollUp => -WHEEL_SCROLL_LINES,
            MouseEventKind::ScrollDown => WHEEL_SCROLL_LINES,
            MouseEventKind::Down(MouseButton::Left) if self.overlay.is_none() => {
                // The page starts at the top of the screen and has one row per visible line.
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

    fn show_hint(&mut self, text: impl Into<String>) {
        self.hint = Some((text.into(), self.now + HINT_DURATION));
    }

    /// Drops the hint and the first press of a double press once they have expired.
    fn expire(&mut self) {
        let now = self.now;
        self.hint.take_if(|(_, until)| now >= *until);
        self.first_press.take_if(|(_, until)| now >= *until);
    }
}

fn agent_command(command: AgentCommand) -> AppEffect {
    AppEffect::Ask(UiRequest::Agent(command))
}
