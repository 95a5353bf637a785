//! Takes the terminal over, and gives it back as it was, however the program ends.

use std::io::{self, Write};

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute};

/// The terminal is ours as long as this lives.
#[derive(Debug)]
pub(super) struct Guard(());

impl Guard {
    pub(super) fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        let guard = Self(());
        execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
        Ok(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
    }
}

/// Does no harm when there is nothing to restore.
pub(super) fn restore() {
    let mut output = io::stdout();
    let _ = execute!(
        output,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        cursor::Show
    );
    let _ = disable_raw_mode();
    let _ = output.flush();
}
