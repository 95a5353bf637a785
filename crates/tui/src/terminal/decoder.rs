//! Decodes the bytes that a terminal sends. Pure: the caller keeps the time.
//!
//! Sequences may arrive in pieces, cut anywhere. A lone escape character may be a key or the
//! beginning of a sequence: [`InputDecoder::has_partial_sequence`] says that more bytes or [`InputDecoder::expire`] have
//! to decide. Answers to queries that were sent to the terminal never become keys; everything else
//! that looks like an answer does, so that no keystroke is lost. Entry type: [`InputDecoder`].

mod key;
mod sequence;

use std::collections::VecDeque;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEvent};

use self::sequence::ParsedSequence;

const PASTE_END: &[u8] = b"\x1b[201~";
const CTRL_C: u8 = 3;

/// An input from the terminal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TerminalInput {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    /// Answer to the query of the background colour: red, green and blue, each from 0 to 1.
    Background([f32; 3]),
    /// Answer to the status query: everything written before it has been processed.
    Present,
    /// Answer to the query of device attributes, which every terminal gives: no answer to an
    /// earlier query will follow.
    Attributes,
}

#[derive(Debug, Default)]
pub(super) struct InputDecoder {
    /// The beginning of an incomplete sequence.
    waiting: Vec<u8>,
    /// The bytes pasted so far, while a paste is being received.
    paste: Option<Vec<u8>>,
    received: VecDeque<TerminalInput>,
    /// The background colour was queried, and the answer may still arrive.
    is_colour_expected: bool,
}

impl InputDecoder {
    /// From now on, an answer to the query of the background colour is expected.
    pub(super) fn expect_colour(&mut self) {
        self.is_colour_expected = true;
    }

    /// Whether an answer may still arrive that would otherwise be taken for keys.
    pub(super) fn expects_answer(&self) -> bool {
        self.is_colour_expected
    }

    /// Decodes the bytes of one read.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.paste.is_some() && bytes == [CTRL_C] {
            // The user presses Ctrl-C because the end of a paste got lost.
            return self.end_paste();
        }
        self.waiting.extend_from_slice(bytes);
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut begin = 0;
        while begin < waiting.len() {
            begin += match self.paste.as_mut() {
                Some(paste) => {
                    let rest = &waiting[begin..];
                    let from = paste.len().saturating_sub(PASTE_END.len());
                    paste.extend_from_slice(rest);
                    match find_bytes(&paste[from..], PASTE_END) {
                        None => rest.len(),
                        Some(at) => {
                            let behind = paste.len() - from - at - PASTE_END.len();
                            paste.truncate(from + at);
                            self.end_paste();
                            rest.len() - behind
                        }
                    }
                }
                None => match sequence::parse(&waiting[begin..], self.is_colour_expected) {
                    ParsedSequence::Unfinished => break,
                    ParsedSequence::Done(length, received) => {
                        self.received.extend(received.inspect(|received| {
                            if matches!(
                                received,
                                TerminalInput::Background(_) | TerminalInput::Attributes
                            ) {
                                self.is_colour_expected = false;
                            }
                        }));
                        length
                    }
                    ParsedSequence::Paste(length) => {
                        self.paste = Some(Vec::new());
                        length
                    }
                },
            };
        }
        waiting.drain(..begin);
        self.waiting = waiting;
    }

    /// The next decoded input.
    pub(super) fn next(&mut self) -> Option<TerminalInput> {
        self.received.pop_front()
    }

    /// Whether there is an incomplete sequence whose end may never arrive. A paste is not one: it
    /// may take any time.
    pub(super) fn has_partial_sequence(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the incomplete sequence is a lone escape character.
    pub(super) fn is_escape(&self) -> bool {
        self.waiting == [0x1b]
    }

    /// Whether nothing is incomplete or waiting to be read.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.paste.is_none() && self.received.is_empty()
    }

    /// Decodes an incomplete sequence as it is, after a timeout.
    pub(super) fn expire(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        match waiting[..] {
            [0x1b] => self
                .received
                .push_back(TerminalInput::Key(KeyCode::Esc.into())),
            [0x1b, first @ (b'[' | b'O')] => {
                let key = key::char_key(first.into(), KeyModifiers::ALT);
                self.received.push_back(TerminalInput::Key(key));
            }
            // Half an answer: it was typed, so decode it as keys.
            [0x1b, b']', ..] => {
                let was_expected = std::mem::take(&mut self.is_colour_expected);
                self.feed(&waiting);
                self.is_colour_expected = was_expected;
            }
            // Half a key: drop it.
            _ => {}
        }
    }

    fn end_paste(&mut self) {
        let paste = self.paste.take().unwrap_or_default();
        let text = String::from_utf8_lossy(&paste);
        // Terminals send a carriage return for the end of a line.
        let text = if text.contains('\r') {
            text.replace("\r\n", "\n").replace('\r', "\n")
        } else {
            text.into_owned()
        };
        self.received.push_back(TerminalInput::Paste(text));
    }
}

fn find_bytes(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
}

#[cfg(test)]
mod tests;
