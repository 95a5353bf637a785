//! The user's terminal: raw while a command in the sandbox uses it, restored afterwards.

use std::io::{self, IsTerminal};
use std::os::fd::AsRawFd;

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use sandbox::request::TerminalSize;

nix::ioctl_read_bad!(get_size, libc::TIOCGWINSZ, libc::winsize);

/// Size of this program's terminal; 80x24 if there is none.
pub(crate) fn size() -> TerminalSize {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the structure outlives the call.
    let known = unsafe { get_size(io::stdin().as_raw_fd(), &mut size) }.is_ok();
    if known && size.ws_row > 0 && size.ws_col > 0 {
        TerminalSize {
            rows: size.ws_row,
            columns: size.ws_col,
        }
    } else {
        TerminalSize {
            rows: 24,
            columns: 80,
        }
    }
}

/// Raw mode, until it is dropped.
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// `None` if standard input is not a terminal.
    pub(crate) fn enter() -> Option<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&stdin, SetArg::TCSANOW, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
    }
}
