//! Input in lines. A line that ends with `\` continues on the next; a line `"""` begins a block, and
//! another one ends it. Entry type: [`LineInput`].

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};

use super::signals::{ChatSignal, SignalInbox};

/// Maximum bytes of a line.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Bytes read at once.
const READ_CHUNK_BYTES: usize = 64 << 10;

const BLOCK_DELIMITER: &str = "\"\"\"";

#[derive(Debug)]
pub(super) struct LineInput {
    /// There is a user at a terminal, who is shown a prompt.
    is_person: bool,
    attention: Arc<SignalInbox>,
    call: UnixStream,
    /// Bytes read and not yet consumed.
    buffer: Vec<u8>,
    is_over: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputItem {
    Words(String),
    Wish(ChatSignal),
    /// End of input.
    End,
    /// Input that cannot be used, with the reason.
    Refused(&'static str),
}

impl LineInput {
    pub(super) fn new(is_person: bool, attention: Arc<SignalInbox>, call: UnixStream) -> Self {
        Self {
            is_person,
            attention,
            call,
            buffer: Vec::new(),
            is_over: false,
        }
    }

    pub(super) fn is_person(&self) -> bool {
        self.is_person
    }

    /// The next complete message.
    pub(super) fn next(&mut self) -> io::Result<InputItem> {
        let mut draft = LineDraft::default();
        loop {
            self.show_prompt(if draft.is_begun() { ". " } else { "> " });
            match self.line()? {
                InputItem::Words(line) => {
                    if let Some(whole) = draft.push(line) {
                        return Ok(InputItem::Words(whole));
                    }
                }
                // At the end of input, an unfinished message counts too.
                InputItem::End if draft.is_begun() => return Ok(InputItem::Words(draft.take())),
                other => return Ok(other),
            }
        }
    }

    /// The answer to a question that is already shown: the next line typed. Lines typed before are
    /// discarded.
    pub(super) fn answer(&mut self, choices: &str) -> io::Result<InputItem> {
        self.buffer.clear();
        // Without a terminal, no question is asked.
        let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
        self.show_prompt(choices);
        self.line()
    }

    /// Shows the prompt to a user.
    fn show_prompt(&self, text: &str) {
        if self.is_person {
            let mut errors = io::stderr();
            let _ = errors
                .write_all(text.as_bytes())
                .and_then(|()| errors.flush());
        }
    }

    fn line(&mut self) -> io::Result<InputItem> {
        let mut searched = 0;
        loop {
            let found = self.buffer[searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            if let Some(place) = found {
                let rest = self.buffer.split_off(searched + place + 1);
                let line = std::mem::replace(&mut self.buffer, rest);
                return Ok(parse_line(line));
            }
            searched = self.buffer.len();
            if self.is_over {
                let line = std::mem::take(&mut self.buffer);
                return Ok(if line.is_empty() {
                    InputItem::End
                } else {
                    parse_line(line)
                });
            }
            if searched > MAX_LINE_BYTES {
                self.skip()?;
                return Ok(InputItem::Refused("a line is longer than 16 MiB"));
            }
            if let Some(wish) = self.wait()? {
                return Ok(InputItem::Wish(wish));
            }
            self.read()?;
        }
    }

    /// Skips the rest of a line.
    fn skip(&mut self) -> io::Result<()> {
        loop {
            if let Some(place) = self.buffer.iter().position(|byte| *byte == b'\n') {
                self.buffer.drain(..=place);
                return Ok(());
            }
            self.buffer.clear();
            if self.is_over {
                return Ok(());
            }
            self.read()?;
        }
    }

    /// Waits until there is input or a signal.
    fn wait(&mut self) -> io::Result<Option<ChatSignal>> {
        loop {
            if let Some(wish) = self.attention.take() {
                return Ok(Some(wish));
            }
            let stdin = io::stdin();
            let mut both = [
                PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.call.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut both, PollTimeout::NONE) {
                Err(nix::errno::Errno::EINTR) => continue,
                other => other?,
            };
            let is_called = both[1].any() == Some(true);
            let is_readable = both[0].any() == Some(true);
            if is_called {
                // Only a wake-up: the request is in `attention`.
                let _ = (&self.call).read(&mut [0; 16]);
            } else if is_readable {
                return Ok(None);
            }
        }
    }

    /// Reads what is available. Does not use the standard library's buffer, so that typed input can be
    /// discarded.
    fn read(&mut self) -> io::Result<()> {
        let mut chunk = vec![0; READ_CHUNK_BYTES];
        let stdin = io::stdin();
        match nix::unistd::read(stdin.as_fd(), &mut chunk) {
            Ok(0) => self.is_over = true,
            Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => {}
            // The terminal is gone.
            Err(nix::errno::Errno::EIO) => self.is_over = true,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn parse_line(mut line: Vec<u8>) -> InputItem {
    for end in [b'\n', b'\r'] {
        if line.last() == Some(&end) {
            line.pop();
        }
    }
    match String::from_utf8(line) {
        Ok(line) => InputItem::Words(line),
        Err(_) => InputItem::Refused("a line is not UTF-8 text"),
    }
}

/// Joins lines to messages. Pure.
#[derive(Debug, Default)]
struct LineDraft {
    lines: Vec<String>,
    is_block: bool,
}

impl LineDraft {
    fn is_begun(&self) -> bool {
        self.is_block || !self.lines.is_empty()
    }

    /// Adds a line; returns the message if it is complete.
    fn push(&mut self, mut line: String) -> Option<String> {
        let is_mark = line.trim() == BLOCK_DELIMITER;
        match self.is_block {
            true if is_mark => return Some(self.take()),
            true => self.lines.push(line),
            false if is_mark && self.lines.is_empty() => self.is_block = true,
            false => {
                let goes_on = line.ends_with('\\');
                if goes_on {
                    line.pop();
                }
                self.lines.push(line);
                return (!goes_on).then(|| self.take());
            }
        }
        None
    }

    fn take(&mut self) -> String {
        self.is_block = false;
        std::mem::take(&mut self.lines).join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together() {
        fn check(lines: &[&str], expect: &[&str], rest: &str) {
            let mut draft = LineDraft::default();
            let said: Vec<String> = lines
                .iter()
                .filter_map(|line| draft.push((*line).to_owned()))
                .collect();
            assert_eq!(said, expect, "{lines:?}");
            assert_eq!(draft.take(), rest, "{lines:?}");
        }
        check(&["one", "", "two"], &["one", "", "two"], "");
        check(&["one\\", "two\\", "three"], &["one\ntwo\nthree"], "");
        check(
            &["\"\"\"", "one\\", "", "  two", "\"\"\"", "x"],
            &["one\\\n\n  two", "x"],
            "",
        );
        check(&[" \"\"\" ", "\"\"\""], &[""], "");
        check(&["one \"\"\""], &["one \"\"\""], "");
        check(&["\"\"\"", "left open"], &[], "left open");
        check(&["goes on\\"], &[], "goes on");
    }

    #[test]
    fn ends_of_lines_and_other_bytes() {
        for (bytes, expect) in [
            (&b"a\n"[..], InputItem::Words("a".into())),
            (b"a\r\n", InputItem::Words("a".into())),
            (b"a", InputItem::Words("a".into())),
            (b"\n", InputItem::Words(String::new())),
            (b"\xff\n", InputItem::Refused("a line is not UTF-8 text")),
        ] {
            assert_eq!(parse_line(bytes.to_vec()), expect);
        }
    }
}
