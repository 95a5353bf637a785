//! The event loop: applies inputs to the state and draws it.
//!
//! Keys are read before notices, and notices are handled in short time slices, so that a flood of
//! notices delays no key. Entry point: [`run`].

use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use protocol::error_chain;
use thiserror::Error;
use tokio::sync::mpsc::error::TryRecvError;

use super::decoder::TerminalInput;
use super::draw_confirmation::{DrawConfirmation, DrawnQuestion};
use super::frame_pacer::FramePacer;
use super::guard::{self, TerminalGuard};
use super::keyboard::{Keyboard, TerminalClosed};
use super::panic_hook::PanicHookGuard;
use super::screen::{self, TerminalScreen};
use super::signals::{SignalListener, SignalRequest};
use super::{background, clipboard, external_editor, signals, wait};
use crate::app::{AppEffect, AppInput, TuiApp};
use crate::port::{UiNotice, UiPort, UiRequest};
use crate::text::{SyntaxColours, colours};
use crate::theme::ColourScheme;

/// Time that notices may take before keys are read again.
const NOTICE_TIME_SLICE: Duration = Duration::from_millis(2);

/// Minimum time between two time inputs to the state.
const MIN_TICK_INTERVAL: Duration = Duration::from_millis(16);

/// What the host program knows about the terminal and the user.
#[derive(Debug, Clone)]
pub struct TuiSettings {
    /// The look until the terminal reports its background, if it is asked.
    pub look: ColourScheme,
    /// Asks the terminal whether it is light or dark. It may never answer.
    pub asks_look: bool,
    /// The user's editor, such as `vim`; may include arguments.
    pub editor: Option<String>,
    /// Whether the terminal is inside tmux.
    pub is_in_tmux: bool,
}

/// Why the UI ended. The terminal has been restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TuiExit {
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
pub fn run(settings: &TuiSettings, port: UiPort) -> Result<TuiExit, TuiError> {
    match run_in_terminal(settings, port) {
        // Every call fails with EIO once the terminal has hung up.
        Err(TuiError::Terminal(error)) if error.raw_os_error() == Some(libc::EIO) => {
            Ok(TuiExit::Gone)
        }
        ended => ended,
    }
}

fn run_in_terminal(settings: &TuiSettings, port: UiPort) -> Result<TuiExit, TuiError> {
    let panics = PanicHookGuard::watch(&port.waker);
    let signals = SignalListener::listen()?;
    let size = screen::size()?;
    let _guard = TerminalGuard::enter()?;
    let mut app = TuiApp::new(settings.look, size.0, size.1);
    app.start_time = Some(Timestamp::now());
    let waker = port.waker.clone();
    app.theme.colours = Some(SyntaxColours::start(move || waker.wake()));
    let mut session = EventLoop {
        settings,
        port,
        app,
        screen: TerminalScreen::new(size)?,
        keyboard: Keyboard::default(),
        signals,
        panics,
        pace: FramePacer::default(),
        sight: DrawConfirmation::default(),
        started_at: Instant::now(),
        has_notices: true,
        time_again: Duration::ZERO,
        coloured: 0,
    };
    if settings.asks_look && settings.look != ColourScheme::Plain {
        session.keyboard.expect_colour();
        session.screen.tell(background::BACKGROUND_QUERY)?;
    }
    let ended = session.run();
    if matches!(ended, Ok(TuiExit::Signal(_) | TuiExit::Gone) | Err(_)) {
        // Fails if the host program has ended too.
        let _ = session.port.requests.send(UiRequest::Quit);
    }
    if !matches!(ended, Ok(TuiExit::Gone) | Err(_)) {
        // If the terminal closes meanwhile, there are no late answers either.
        let _ = session.keyboard.leave(session.now());
    }
    ended
}

type LoopStep = Result<ControlFlow<TuiExit>, TuiError>;

struct EventLoop<'a> {
    settings: &'a TuiSettings,
    port: UiPort,
    app: TuiApp,
    screen: TerminalScreen,
    keyboard: Keyboard,
    signals: SignalListener,
    panics: PanicHookGuard,
    pace: FramePacer,
    sight: DrawConfirmation,
    started_at: Instant,
    /// Notices may be left in the queue without a further wake-up.
    has_notices: bool,
    /// The next time input to the state comes no earlier than this.
    time_again: Duration,
    /// Version of the syntax colours at the last frame.
    coloured: u64,
}

impl EventLoop<'_> {
    fn run(&mut self) -> Result<TuiExit, TuiError> {
        self.pace.mark_urgent();
        loop {
            match self.step() {
                Ok(Continue(())) => {}
                Ok(Break(ended)) => return Ok(ended),
                Err(error) => return Err(error),
            }
        }
    }

    fn step(&mut self) -> LoopStep {
        self.draw()?;
        if let Break(ended) = self.show()? {
            return Ok(Break(ended));
        }
        let sources = [
            self.keyboard.as_fd(),
            self.port.waker.as_fd(),
            self.signals.as_fd(),
        ];
        wait::wait_readable(sources, self.rest())?;
        self.port.waker.reset();
        if self.panics.have_been() {
            return Err(TuiError::Panicked);
        }
        let parts = [
            Self::handle_signals,
            Self::handle_keys,
            Self::handle_notices,
            Self::handle_time,
        ];
        for part in parts {
            if let Break(ended) = part(self)? {
                return Ok(Break(ended));
            }
        }
        Ok(Continue(()))
    }

    fn now(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// How long the loop may wait if there is no input.
    fn rest(&self) -> Option<Duration> {
        if self.has_notices {
            return Some(Duration::ZERO);
        }
        let moments = [
            self.pace.due(),
            self.next_wakeup(),
            self.keyboard.partial_sequence_deadline(),
            self.sight.query_deadline(),
        ];
        let first = moments.into_iter().flatten().min()?;
        Some(first.saturating_sub(self.now()))
    }

    /// Draws if something changed and a frame is due. Checks the size each time, since the signal
    /// of a resize may still be on its way.
    fn draw(&mut self) -> io::Result<()> {
        let started_at = self.now();
        if self.pace.due().is_none_or(|due| started_at < due) {
            return Ok(());
        }
        let (width, height) = screen::size()?;
        if (width, height) != (self.app.width, self.app.height) {
            // A resize has no effects.
            self.app
                .update(started_at, AppInput::Resized { width, height });
        }
        self.coloured = colours(&self.app.theme);
        self.app.arrange();
        let unseen = self.unseen();
        self.screen.draw(&self.app, self.sight.asks(unseen))?;
        let ended = self.now();
        self.pace.drawn(started_at, ended);
        self.sight.drawn(ended, unseen);
        Ok(())
    }

    /// Tells the state that it has been drawn, once that is so and every earlier key has been read.
    fn show(&mut self) -> LoopStep {
        let unseen = self.unseen();
        let is_on_screen = self.pace.due().is_none() || unseen.is_some();
        if is_on_screen && self.sight.is_clear(unseen) && self.keyboard.is_drained()? {
            self.sight.settle();
            return self.update(AppInput::Shown);
        }
        Ok(Continue(()))
    }

    fn unseen(&self) -> Option<DrawnQuestion> {
        let number = self.app.questions.unseen()?;
        Some((number, self.app.width, self.app.height))
    }

    fn handle_signals(&mut self) -> LoopStep {
        for asked in self.signals.take() {
            match asked {
                SignalRequest::End(signal) => return Ok(Break(TuiExit::Signal(signal))),
                SignalRequest::Stop => {
                    if let Break(ended) = self.suspend()? {
                        return Ok(Break(ended));
                    }
                }
                SignalRequest::GoOn => self.retake_terminal()?,
                // Even if the size is the old one again: the terminal moves its content at each
                // resize.
                SignalRequest::Resize => {
                    self.screen.forget();
                    self.pace.change();
                }
            }
        }
        Ok(Continue(()))
    }

    fn handle_keys(&mut self) -> LoopStep {
        if let Err(TerminalClosed) = self.keyboard.read(self.now())? {
            return Ok(Break(TuiExit::Gone));
        }
        while let Some(received) = self.keyboard.next() {
            let input = match received {
                TerminalInput::Key(key) => AppInput::Key(key),
                TerminalInput::Mouse(mouse) => AppInput::Mouse(mouse),
                TerminalInput::Paste(text) => AppInput::Paste(text),
                TerminalInput::Background(colour) => {
                    AppInput::Scheme(background::scheme_for_background(colour))
                }
                TerminalInput::Attributes => continue,
                TerminalInput::Present => {
                    self.sight.answer();
                    if self.sight.asks(self.unseen()) {
                        self.pace.change();
                    }
                    continue;
                }
            };
            self.pace.mark_urgent();
            if let Break(ended) = self.update(input)? {
                return Ok(Break(ended));
            }
        }
        Ok(Continue(()))
    }

    fn handle_notices(&mut self) -> LoopStep {
        let started_at = Instant::now();
        self.has_notices = true;
        while started_at.elapsed() < NOTICE_TIME_SLICE {
            let notice = match self.port.notices.try_recv() {
                Ok(notice) => notice,
                Err(TryRecvError::Empty) => {
                    self.has_notices = false;
                    break;
                }
                // The host program ended without a `Quit`.
                Err(TryRecvError::Disconnected) => return Ok(Break(TuiExit::Left)),
            };
            self.pace.change();
            if let Break(ended) = self.update(AppInput::Notice(notice))? {
                return Ok(Break(ended));
            }
        }
        Ok(Continue(()))
    }

    fn handle_time(&mut self) -> LoopStep {
        let now = self.now();
        self.sight.pass(now);
        if colours(&self.app.theme) != self.coloured {
            self.pace.change();
        }
        if self.next_wakeup().is_none_or(|at| now < at) {
            return Ok(Continue(()));
        }
        self.time_again = now + MIN_TICK_INTERVAL;
        // The state relies on every earlier key having been read.
        if self.keyboard.is_drained()? {
            self.pace.change();
            self.update(AppInput::Time)
        } else {
            Ok(Continue(()))
        }
    }

    fn next_wakeup(&self) -> Option<Duration> {
        Some(self.app.wakes_at()?.max(self.time_again))
    }

    /// Applies an input to the state and performs the effects.
    fn update(&mut self, input: AppInput) -> LoopStep {
        for effect in self.app.update(self.now(), input) {
            match effect {
                // Fails if the host program has ended; the next receive notices that.
                AppEffect::Ask(request) => drop(self.port.requests.send(request)),
                AppEffect::Copy(text) => self.copy(&text)?,
                AppEffect::Edit(text) => {
                    if let Break(ended) = self.open_editor(&text)? {
                        return Ok(Break(ended));
                    }
                }
                AppEffect::Suspend => {
                    if let Break(ended) = self.suspend()? {
                        return Ok(Break(ended));
                    }
                }
                AppEffect::Refresh => {
                    self.screen.forget();
                    self.pace.mark_urgent();
                }
                AppEffect::Quit => return Ok(Break(TuiExit::Left)),
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
                .update(self.now(), AppInput::Notice(UiNotice::Said(said)));
        }
        Ok(())
    }

    fn open_editor(&mut self, text: &str) -> LoopStep {
        let Some(editor) = &self.settings.editor else {
            return self.update(AppInput::Notice(UiNotice::Failed {
                what: "cannot open an editor: none is set".to_owned(),
                hint: Some("set the environment variable `EDITOR`".to_owned()),
            }));
        };
        guard::restore_terminal();
        let written = signals::with_default_stop(|| external_editor::edit_text(editor, text))?;
        if let Break(ended) = self.resume()? {
            return Ok(Break(ended));
        }
        self.update(match written {
            Ok(text) => AppInput::Edited(text),
            Err(error) => AppInput::Notice(UiNotice::Failed {
                what: error_chain(&error),
                hint: None,
            }),
        })
    }

    fn suspend(&mut self) -> LoopStep {
        guard::restore_terminal();
        signals::stop_job()?;
        self.resume()
    }

    /// Resumes after another program had the terminal. Signals may have been meant for that
    /// program.
    fn resume(&mut self) -> LoopStep {
        if let Some(signal) = self.signals.discard_pending() {
            return Ok(Break(TuiExit::Signal(signal)));
        }
        self.retake_terminal()?;
        Ok(Continue(()))
    }

    /// Takes the terminal again and redraws everything.
    fn retake_terminal(&mut self) -> Result<(), TuiError> {
        if self.panics.have_been() {
            return Err(TuiError::Panicked);
        }
        guard::take_terminal()?;
        self.screen.forget();
        self.pace.mark_urgent();
        Ok(())
    }
}
