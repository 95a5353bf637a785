//! The event loop: applies inputs to the state and draws it.
//!
//! Keys are read before notices, and notices are handled in short time slices, so that a flood of
//! notices delays no key. Entry point: [`run`].

use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use thiserror::Error;
use tokio::sync::mpsc::error::TryRecvError;

use super::decoder::Heard;
use super::guard::{self, Guard};
use super::keyboard::{Gone, Keyboard};
use super::pace::Pace;
use super::panics::Panics;
use super::screen::{self, Screen};
use super::sight::{Sight, Unseen};
use super::signals::{Asked, Signals};
use super::{background, clipboard, outside, signals, wait};
use crate::app::{App, Effect, Input};
use crate::port::{Notice, Port, Request};
use crate::text::{Colours, colours};
use crate::theme::Look;

/// Time that notices may take before keys are read again.
const HELPING: Duration = Duration::from_millis(2);

/// Minimum time between two time inputs to the state.
const TICK: Duration = Duration::from_millis(16);

/// What the host program knows about the terminal and the user.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The look until the terminal reports its background, if it is asked.
    pub look: Look,
    /// Asks the terminal whether it is light or dark. It may never answer.
    pub asks_look: bool,
    /// The user's editor, such as `vim`; may include arguments.
    pub editor: Option<String>,
    /// Whether the terminal is inside tmux.
    pub is_in_tmux: bool,
}

/// Why the UI ended. The terminal has been restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The user quit, or the host program ended it.
    Left,
    /// A signal ended it.
    Signal(i32),
    /// The terminal has been closed.
    Gone,
}

#[derive(Debug, Error)]
pub enum TuiError {
    #[error("cannot use the terminal")]
    Terminal(#[from] io::Error),
    /// The panic message has already been printed.
    #[error("cannot continue after a panic")]
    Panicked,
}

/// Runs the UI until the user quits. Blocks: needs its own thread.
pub fn run(settings: &Settings, port: Port) -> Result<Ended, TuiError> {
    match show(settings, port) {
        // Every call fails with EIO once the terminal has hung up.
        Err(TuiError::Terminal(error)) if error.raw_os_error() == Some(libc::EIO) => {
            Ok(Ended::Gone)
        }
        ended => ended,
    }
}

fn show(settings: &Settings, port: Port) -> Result<Ended, TuiError> {
    let panics = Panics::watch(&port.waker);
    let signals = Signals::listen()?;
    let size = screen::size()?;
    let _guard = Guard::enter()?;
    let mut app = App::new(settings.look, size.0, size.1);
    app.began = Some(Timestamp::now());
    let waker = port.waker.clone();
    app.theme.colours = Some(Colours::start(move || waker.wake()));
    let mut session = Session {
        settings,
        port,
        app,
        screen: Screen::new(size)?,
        keyboard: Keyboard::default(),
        signals,
        panics,
        pace: Pace::default(),
        sight: Sight::default(),
        begun: Instant::now(),
        has_notices: true,
        time_again: Duration::ZERO,
        coloured: 0,
    };
    if settings.asks_look && settings.look != Look::Plain {
        session.keyboard.expect_colour();
        session.screen.tell(background::QUESTION)?;
    }
    let ended = session.run();
    if matches!(ended, Ok(Ended::Signal(_) | Ended::Gone) | Err(_)) {
        // Fails if the host program has ended too.
        let _ = session.port.requests.send(Request::Quit);
    }
    if !matches!(ended, Ok(Ended::Gone) | Err(_)) {
        // If the terminal closes meanwhile, there are no late answers either.
        let _ = session.keyboard.leave(session.now());
    }
    ended
}

type Step = Result<ControlFlow<Ended>, TuiError>;

struct Session<'a> {
    settings: &'a Settings,
    port: Port,
    app: App,
    screen: Screen,
    keyboard: Keyboard,
    signals: Signals,
    panics: Panics,
    pace: Pace,
    sight: Sight,
    begun: Instant,
    /// Notices may be left in the queue without a further wake-up.
    has_notices: bool,
    /// The next time input to the state comes no earlier than this.
    time_again: Duration,
    /// Version of the syntax colours at the last frame.
    coloured: u64,
}

impl Session<'_> {
    fn run(&mut self) -> Result<Ended, TuiError> {
        self.pace.hurry();
        loop {
            match self.step() {
                Ok(Continue(())) => {}
                Ok(Break(ended)) => return Ok(ended),
                Err(error) => return Err(error),
            }
        }
    }

    fn step(&mut self) -> Step {
        self.draw()?;
        if let Break(ended) = self.show()? {
            return Ok(Break(ended));
        }
        let sources = [
            self.keyboard.as_fd(),
            self.port.waker.as_fd(),
            self.signals.as_fd(),
        ];
        wait::wait(sources, self.rest())?;
        self.port.waker.quiet();
        if self.panics.have_been() {
            return Err(TuiError::Panicked);
        }
        let parts = [
            Self::obey_signals,
            Self::hear_keys,
            Self::hear_notices,
            Self::pass_time,
        ];
        for part in parts {
            if let Break(ended) = part(self)? {
                return Ok(Break(ended));
            }
        }
        Ok(Continue(()))
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// How long the loop may wait if there is no input.
    fn rest(&self) -> Option<Duration> {
        if self.has_notices {
            return Some(Duration::ZERO);
        }
        let moments = [
            self.pace.due(),
            self.wakes_at(),
            self.keyboard.doubts_until(),
            self.sight.gives_up_at(),
        ];
        let first = moments.into_iter().flatten().min()?;
        Some(first.saturating_sub(self.now()))
    }

    /// Draws if something changed and a frame is due. Checks the size each time, since the signal
    /// of a resize may still be on its way.
    fn draw(&mut self) -> io::Result<()> {
        let begun = self.now();
        if self.pace.due().is_none_or(|due| begun < due) {
            return Ok(());
        }
        let (width, height) = screen::size()?;
        if (width, height) != (self.app.width, self.app.height) {
            // A resize has no effects.
            self.app.update(begun, Input::Resized { width, height });
        }
        self.coloured = colours(&self.app.theme);
        self.app.arrange();
        let unseen = self.unseen();
        self.screen.draw(&self.app, self.sight.asks(unseen))?;
        let ended = self.now();
        self.pace.drawn(begun, ended);
        self.sight.drawn(ended, unseen);
        Ok(())
    }

    /// Tells the state that it has been drawn, once that is so and every earlier key has been read.
    fn show(&mut self) -> Step {
        let unseen = self.unseen();
        let is_on_screen = self.pace.due().is_none() || unseen.is_some();
        if is_on_screen && self.sight.is_clear(unseen) && self.keyboard.is_quiet()? {
            self.sight.settle();
            return self.update(Input::Shown);
        }
        Ok(Continue(()))
    }

    fn unseen(&self) -> Option<Unseen> {
        let number = self.app.questions.unseen()?;
        Some((number, self.app.width, self.app.height))
    }

    fn obey_signals(&mut self) -> Step {
        for asked in self.signals.take() {
            match asked {
                Asked::End(signal) => return Ok(Break(Ended::Signal(signal))),
                Asked::Stop => {
                    if let Break(ended) = self.suspend()? {
                        return Ok(Break(ended));
                    }
                }
                Asked::GoOn => self.take_back()?,
                // Even if the size is the old one again: the terminal moves its content at each
                // resize.
                Asked::Resize => {
                    self.screen.forget();
                    self.pace.change();
                }
            }
        }
        Ok(Continue(()))
    }

    fn hear_keys(&mut self) -> Step {
        if let Err(Gone) = self.keyboard.read(self.now())? {
            return Ok(Break(Ended::Gone));
        }
        while let Some(heard) = self.keyboard.next() {
            let input = match heard {
                Heard::Key(key) => Input::Key(key),
                Heard::Mouse(mouse) => Input::Mouse(mouse),
                Heard::Paste(text) => Input::Paste(text),
                Heard::Background(colour) => Input::Look(background::look(colour)),
                Heard::Attributes => continue,
                Heard::Present => {
                    self.sight.answer();
                    if self.sight.asks(self.unseen()) {
                        self.pace.change();
                    }
                    continue;
                }
            };
            self.pace.hurry();
            if let Break(ended) = self.update(input)? {
                return Ok(Break(ended));
            }
        }
        Ok(Continue(()))
    }

    fn hear_notices(&mut self) -> Step {
        let begun = Instant::now();
        self.has_notices = true;
        while begun.elapsed() < HELPING {
            let notice = match self.port.notices.try_recv() {
                Ok(notice) => notice,
                Err(TryRecvError::Empty) => {
                    self.has_notices = false;
                    break;
                }
                // The host program ended without a `Quit`.
                Err(TryRecvError::Disconnected) => return Ok(Break(Ended::Left)),
            };
            self.pace.change();
            if let Break(ended) = self.update(Input::Notice(notice))? {
                return Ok(Break(ended));
            }
        }
        Ok(Continue(()))
    }

    fn pass_time(&mut self) -> Step {
        let now = self.now();
        self.sight.pass(now);
        if colours(&self.app.theme) != self.coloured {
            self.pace.change();
        }
        if self.wakes_at().is_none_or(|at| now < at) {
            return Ok(Continue(()));
        }
        self.time_again = now + TICK;
        // The state relies on every earlier key having been read.
        if self.keyboard.is_quiet()? {
            self.pace.change();
            self.update(Input::Time)
        } else {
            Ok(Continue(()))
        }
    }

    fn wakes_at(&self) -> Option<Duration> {
        Some(self.app.wakes_at()?.max(self.time_again))
    }

    /// Applies an input to the state and performs the effects.
    fn update(&mut self, input: Input) -> Step {
        for effect in self.app.update(self.now(), input) {
            match effect {
                // Fails if the host program has ended; the next receive notices that.
                Effect::Ask(request) => drop(self.port.requests.send(request)),
                Effect::Copy(text) => self.copy(&text)?,
                Effect::Edit(text) => {
                    if let Break(ended) = self.edit(&text)? {
                        return Ok(Break(ended));
                    }
                }
                Effect::Suspend => {
                    if let Break(ended) = self.suspend()? {
                        return Ok(Break(ended));
                    }
                }
                Effect::Refresh => {
                    self.screen.forget();
                    self.pace.hurry();
                }
                Effect::Quit => return Ok(Break(Ended::Left)),
            }
        }
        Ok(Continue(()))
    }

    fn copy(&mut self, text: &str) -> Result<(), TuiError> {
        let (sequence, length) = clipboard::sequence(text, self.settings.is_in_tmux);
        self.screen.tell(&sequence)?;
        if length < text.len() {
            let said = "too long for the clipboard: the first 1 MiB was copied".to_owned();
            // A note has no effects.
            self.app
                .update(self.now(), Input::Notice(Notice::Said(said)));
        }
        Ok(())
    }

    fn edit(&mut self, text: &str) -> Step {
        let Some(editor) = &self.settings.editor else {
            return self.update(Input::Notice(Notice::Failed {
                what: "cannot open an editor: none is set".to_owned(),
                hint: Some("set the environment variable `EDITOR`".to_owned()),
            }));
        };
        guard::restore();
        let written = signals::stoppable(|| outside::edit(editor, text))?;
        if let Break(ended) = self.come_back()? {
            return Ok(Break(ended));
        }
        self.update(match written {
            Ok(text) => Input::Edited(text),
            Err(error) => Input::Notice(Notice::Failed {
                what: chain(&error),
                hint: None,
            }),
        })
    }

    fn suspend(&mut self) -> Step {
        guard::restore();
        signals::stop()?;
        self.come_back()
    }

    /// Resumes after another program had the terminal. Signals may have been meant for that
    /// program.
    fn come_back(&mut self) -> Step {
        if let Some(signal) = self.signals.forgive() {
            return Ok(Break(Ended::Signal(signal)));
        }
        self.take_back()?;
        Ok(Continue(()))
    }

    /// Takes the terminal again and redraws everything.
    fn take_back(&mut self) -> Result<(), TuiError> {
        if self.panics.have_been() {
            return Err(TuiError::Panicked);
        }
        guard::take()?;
        self.screen.forget();
        self.pace.hurry();
        Ok(())
    }
}

/// An error and its sources on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| {
        format!("{text}: {source}")
    })
}
