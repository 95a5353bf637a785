//! Draws the state: each frame in one write, only what changed, and always at the current size.

use std::io;

use nix::errno::Errno;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use super::output::FrameOutput;
use crate::app::TuiApp;
use crate::draw::draw;

/// Synchronized output: terminals that support it show a frame only when it is complete.
const BEGIN_FRAME: &str = "\x1b[?2026h\x1b[?25l";
const END_FRAME: &str = "\x1b[?2026l";
/// Status query: answered when everything before it has been processed.
const STATUS_QUERY: &str = "\x1b[5n";

nix::ioctl_read_bad!(window_size, libc::TIOCGWINSZ, libc::winsize);

/// Columns and lines; 80 by 24 if the terminal does not know its size.
pub(super) fn size() -> io::Result<(u16, u16)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the structure outlives the call.
    match unsafe { window_size(libc::STDOUT_FILENO, &mut size) } {
        Ok(_) if size.ws_col > 0 && size.ws_row > 0 => Ok((size.ws_col, size.ws_row)),
        Ok(_) | Err(Errno::ENOTTY) => Ok((80, 24)),
        Err(error) => Err(error.into()),
    }
}

pub(super) struct TerminalScreen {
    terminal: Terminal<CrosstermBackend<FrameOutput>>,
    output: FrameOutput,
    area: Rect,
    /// The screen content is unknown: draw the next frame completely.
    is_lost: bool,
}

impl TerminalScreen {
    pub(super) fn new((width, height): (u16, u16)) -> io::Result<Self> {
        let output = FrameOutput::default();
        let area = Rect::new(0, 0, width, height);
        let backend = CrosstermBackend::new(output.clone());
        // Fixed size: the loop knows it, so ratatui need not query it before each frame.
        let viewport = Viewport::Fixed(area);
        Ok(Self {
            terminal: Terminal::with_options(backend, TerminalOptions { viewport })?,
            output,
            area,
            is_lost: false,
        })
    }

    /// Draws the next frame completely.
    pub(super) fn forget(&mut self) {
        self.is_lost = true;
    }

    /// Draws a frame. With `asks`, the terminal answers when it has processed the frame.
    pub(super) fn draw(&mut self, app: &TuiApp, asks: bool) -> io::Result<()> {
        self.output.add(BEGIN_FRAME);
        let area = Rect::new(0, 0, app.width, app.height);
        if area != self.area || self.is_lost {
            self.terminal.resize(area)?;
            (self.area, self.is_lost) = (area, false);
        }
        self.terminal.draw(|frame| draw(app, frame))?;
        self.output.add(END_FRAME);
        if asks {
            self.output.add(STATUS_QUERY);
        }
        self.output.send()
    }

    /// Writes a sequence that changes nothing on the screen.
    pub(super) fn tell(&self, sequence: &str) -> io::Result<()> {
        self.output.add(sequence);
        self.output.send()
    }
}
