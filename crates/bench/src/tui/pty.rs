//! A program in a pseudo terminal, and its screen.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};

use crate::samples::Samples;

/// A longer wait means that something is wrong.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// The sequence that ends a frame.
const FRAME_END: &[u8] = b"\x1b[?2026l";
/// Interval between two keys, as of a fast typist.
const KEY_INTERVAL: Duration = Duration::from_millis(30);
const TERMINAL_SIZE: Winsize = Winsize {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

nix::ioctl_write_ptr_bad!(set_size, nix::libc::TIOCSWINSZ, Winsize);

pub(super) struct BenchPty {
    master: File,
    child: Child,
    parser: vt100::Parser,
    /// The last bytes received.
    tail: Vec<u8>,
    frames: usize,
}

impl BenchPty {
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let (master, slave) = open_pty()?;
        let end = || slave.try_clone().map(Stdio::from);
        let command = command.stdin(end()?).stdout(end()?).stderr(end()?);
        let child = command.spawn().context("cannot start a program")?;
        let [rows, columns] = [TERMINAL_SIZE.ws_row, TERMINAL_SIZE.ws_col]
            .map(|size| NonZeroU16::new(size).unwrap_or(NonZeroU16::MIN));
        Ok(Self {
            master,
            child,
            parser: vt100::Parser::new(rows, columns, 0),
            tail: Vec::new(),
            frames: 0,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn send(&mut self, keys: &str) -> anyhow::Result<()> {
        Ok(self.master.write_all(keys.as_bytes())?)
    }

    pub(super) fn text(&self) -> String {
        self.parser.screen().contents()
    }

    pub(super) fn wait_for(&mut self, text: &str) -> anyhow::Result<()> {
        let give_up = Instant::now() + READ_TIMEOUT;
        while !self.text().contains(text) {
            let read = self.read(give_up);
            read.with_context(|| format!("`{text}` did not appear on the screen"))?;
        }
        Ok(())
    }

    /// Types letters and deletes them, one at a time. Measures how long each takes until a frame
    /// has ended with the cursor in its new place.
    pub(super) fn keys(&mut self, count: usize) -> anyhow::Result<Samples> {
        self.pause(Duration::from_millis(300))?;
        let mut samples = Samples::default();
        let (_, column) = self.parser.screen().cursor_position();
        for number in 0..count {
            let (key, wanted) = match number % 2 {
                0 => ("x", column + 1),
                _ => ("\x7f", column),
            };
            let begun = Instant::now();
            self.send(key)?;
            loop {
                self.read(begun + READ_TIMEOUT)?;
                let screen = self.parser.screen();
                // The row may differ by then, because the status line can grow.
                let is_there = screen.cursor_position().1 == wanted && !screen.hide_cursor();
                if is_there && self.tail.ends_with(FRAME_END) {
                    break;
                }
            }
            samples.add_time(begun.elapsed());
            self.pause(KEY_INTERVAL)?;
        }
        Ok(samples)
    }

    /// Like [`BenchPty::keys`] for programs that draw no frames: the terminal or a bare program echoes.
    pub(super) fn time_echoes(&mut self, count: usize) -> anyhow::Result<Samples> {
        let mut samples = Samples::default();
        for _ in 0..count {
            let (_, column) = self.parser.screen().cursor_position();
            let begun = Instant::now();
            self.send("x")?;
            while self.parser.screen().cursor_position().1 == column {
                self.read(begun + READ_TIMEOUT)?;
            }
            samples.add_time(begun.elapsed());
            if column > 60 {
                self.send("\n")?;
            }
            self.pause(KEY_INTERVAL / 10)?;
        }
        Ok(samples)
    }

    /// Presses a key and waits for the resulting frame.
    pub(super) fn frame_after(&mut self, key: &str) -> anyhow::Result<Duration> {
        self.pause(KEY_INTERVAL)?;
        let frames = self.frames;
        let begun = Instant::now();
        self.send(key)?;
        while self.frames == frames || !self.tail.ends_with(FRAME_END) {
            self.read(begun + READ_TIMEOUT)?;
        }
        Ok(begun.elapsed())
    }

    /// Processes output for this long, as a terminal does.
    pub(super) fn pause(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let _ = self.read_before(end)?;
        }
        Ok(())
    }

    fn read(&mut self, give_up: Instant) -> anyhow::Result<()> {
        if !self.read_before(give_up)? {
            bail!("no output within the time limit:\n{}", self.text());
        }
        Ok(())
    }

    /// False if nothing arrived in time.
    fn read_before(&mut self, end: Instant) -> anyhow::Result<bool> {
        let left = end.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut source = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut source, left)? == 0 {
            return Ok(false);
        }
        let mut buffer = [0; 65536];
        let length = self
            .master
            .read(&mut buffer)
            .with_context(|| format!("the program has ended:\n{}", self.text()))?;
        self.parser.process(&buffer[..length]);
        let known = self.tail.len();
        self.tail.extend_from_slice(&buffer[..length]);
        let ends = self.tail.windows(FRAME_END.len());
        // Skips sequences that were already counted.
        let new = ends.skip((known + 1).saturating_sub(FRAME_END.len()));
        self.frames += new.filter(|bytes| *bytes == FRAME_END).count();
        let keep = self.tail.len().saturating_sub(FRAME_END.len());
        self.tail.drain(..keep);
        Ok(true)
    }
}

impl Drop for BenchPty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both ends, closed on exec so that no other child inherits them.
fn open_pty() -> anyhow::Result<(File, OwnedFd)> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).context("cannot open a pseudo terminal")?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(nix::libc::O_NOCTTY)
        .open(ptsname_r(&master)?)?;
    let master = OwnedFd::from(master);
    // SAFETY: the structure outlives the call.
    unsafe { set_size(std::os::fd::AsRawFd::as_raw_fd(&master), &TERMINAL_SIZE) }?;
    Ok((master.into(), slave.into()))
}
