//! A simulated user at a terminal, who waits for output before typing.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Output, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::place::{Place, finish, hotcell, start};

/// Milliseconds without output after which a program is considered hung. Far more than needed.
const OUTPUT_TIMEOUT_MS: u16 = 60_000;

/// A simulated user at a terminal.
pub(crate) struct TerminalUser {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    /// Output read so far.
    seen: String,
}

impl TerminalUser {
    /// Starts `hotcell` with these arguments, parsed by a shell.
    pub(crate) fn at(place: &Place, arguments: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = place.program("/usr/bin/script");
        command
            .args(["-qec", &format!("exec \"$H\" {arguments}"), "/dev/null"])
            .env("H", hotcell())
            .env("TERM", "vt100")
            .env("SHELL", "/bin/sh")
            .env("NO_COLOR", "1")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped());
        let mut child = start(&mut command);
        Self {
            keyboard: child.stdin.take().unwrap(),
            screen: child.stdout.take().unwrap(),
            child,
            seen: String::new(),
        }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until this appears, and discards everything up to it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &str) -> String {
        let mut chunk = [0; 4096];
        loop {
            if let Some(place) = self.seen.find(words) {
                let rest = self.seen.split_off(place + words.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            let mut screen = [PollFd::new(self.screen.as_fd(), PollFlags::POLLIN)];
            let is_there = poll(&mut screen, PollTimeout::from(OUTPUT_TIMEOUT_MS)).unwrap() > 0;
            assert!(is_there, "no `{words}` after {:?}", self.seen);
            let count = self.screen.read(&mut chunk).unwrap();
            assert_ne!(count, 0, "no `{words}` in {}", self.seen);
            self.seen
                .push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
    }

    /// Waits for the end of the program, and keeps its input open.
    #[track_caller]
    pub(crate) fn wait_end(self) -> Output {
        let Self {
            child, keyboard, ..
        } = self;
        let output = finish(child);
        drop(keyboard);
        output
    }

    #[track_caller]
    pub(crate) fn close_input(self) -> Output {
        let Self {
            child, keyboard, ..
        } = self;
        drop(keyboard);
        finish(child)
    }
}
