//! The loop: what happened goes into the state, the state goes to the screen.

use std::io;
use std::time::Instant;

use crossterm::event::{Event, KeyEventKind};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use thiserror::Error;

use super::guard::Guard;
use super::keys;
use crate::app::{App, Effect, Input};
use crate::draw::draw;
use crate::port::Port;
use crate::theme::Look;

/// Notices that are taken in before the next drawing.
const BATCH: usize = 1024;

/// What the program around knows of the terminal and the person.
#[derive(Debug, Clone)]
pub struct Settings {
    pub look: Look,
    /// The person's own editor, such as `vim`.
    pub editor: Option<String>,
}

#[derive(Debug, Error)]
pub enum TuiError {
    #[error("cannot use the terminal")]
    Terminal(#[from] io::Error),
}

/// Shows the UI until the person leaves. Blocks: it wants a thread of its own.
pub fn run(settings: &Settings, mut port: Port) -> Result<(), TuiError> {
    let _guard = Guard::enter()?;
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let size = terminal.size()?;
    let mut app = App::new(settings.look, size.width, size.height);
    let begun = Instant::now();
    loop {
        app.arrange();
        terminal.draw(|frame| draw(&app, frame))?;
        keys::wait(&port.waker, None)?;
        let mut effects = Vec::new();
        while let Some(event) = keys::next()? {
            if let Some(input) = input(event) {
                effects.extend(app.update(begun.elapsed(), input));
            }
        }
        for _ in 0..BATCH {
            let Ok(notice) = port.notices.try_recv() else {
                break;
            };
            effects.extend(app.update(begun.elapsed(), Input::Notice(notice)));
        }
        for effect in effects {
            match effect {
                Effect::Ask(request) => drop(port.requests.send(request)),
                Effect::Quit => return Ok(()),
                Effect::Copy(_) | Effect::Edit(_) | Effect::Suspend | Effect::Refresh => {}
            }
        }
    }
}

fn input(event: Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(Input::Key(key)),
        Event::Paste(text) => Some(Input::Paste(text)),
        Event::Mouse(mouse) => Some(Input::Mouse(mouse)),
        Event::Resize(width, height) => Some(Input::Resized { width, height }),
        _ => None,
    }
}
