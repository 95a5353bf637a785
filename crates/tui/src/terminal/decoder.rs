//! From the bytes that a terminal sends to what was typed. Pure: the time is the caller's.
//!
//! Sequences may come in pieces, in any cut. An escape character alone may be a key or the
//! beginning of a sequence: [`Decoder::is_unsure`] says that more bytes or [`Decoder::expire`] have
//! to decide. Answers to questions that were asked of the terminal never become keys; anything else
//! that looks like one does, so that no keystroke is lost. Entry type: [`Decoder`].

mod key;
mod sequence;

use std::collections::VecDeque;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEvent};

use self::sequence::Parsed;

const PASTE_END: &[u8] = b"\x1b[201~";
const CTRL_C: u8 = 3;

/// What a terminal says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Heard {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    /// The answer about the colour behind the text: red, green and blue, each from 0 to 1.
    Background([f32; 3]),
    /// The answer to "are you there": all that was written before has been drawn.
    Present,
    /// The answer about what it can do, which every terminal gives: no answer to an earlier
    /// question will follow.
    Attributes,
}

#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The beginning of a sequence.
    waiting: Vec<u8>,
    /// What was pasted so far, while a paste is under way.
    paste: Option<Vec<u8>>,
    heard: VecDeque<Heard>,
    /// The terminal was asked for its background and may still answer.
    is_colour_expected: bool,
}

impl Decoder {
    /// From now on, an answer about the background may come.
    pub(super) fn expect_colour(&mut self) {
        self.is_colour_expected = true;
    }

    /// Whether an answer may still come that would otherwise be taken for keys.
    pub(super) fn is_expecting(&self) -> bool {
        self.is_colour_expected
    }

    /// Takes in what one read brought.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.paste.is_some() && bytes == [CTRL_C] {
            // A person who types at a paste whose end got lost.
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
                    match find(&paste[from..], PASTE_END) {
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
                    Parsed::Unfinished => break,
                    Parsed::Done(length, heard) => {
                        self.heard.extend(heard.inspect(|heard| {
                            if matches!(heard, Heard::Background(_) | Heard::Attributes) {
                                self.is_colour_expected = false;
                            }
                        }));
                        length
                    }
                    Parsed::Paste(length) => {
                        self.paste = Some(Vec::new());
                        length
                    }
                },
            };
        }
        waiting.drain(..begin);
        self.waiting = waiting;
    }

    /// What was typed, in its order.
    pub(super) fn next(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    /// Whether bytes wait for others that may never come. A paste may take its time.
    pub(super) fn is_unsure(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether what waits is an escape character and nothing else.
    pub(super) fn is_escape(&self) -> bool {
        self.waiting == [0x1b]
    }

    /// Whether nothing at all is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.paste.is_none() && self.heard.is_empty()
    }

    /// Nothing more came: what waits is all there is.
    pub(super) fn expire(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        match waiting[..] {
            [0x1b] => self.heard.push_back(Heard::Key(KeyCode::Esc.into())),
            [0x1b, first @ (b'[' | b'O')] => {
                let key = key::letter(first.into(), KeyModifiers::ALT);
                self.heard.push_back(Heard::Key(key));
            }
            // Half an answer: whoever typed this gets it as typed.
            [0x1b, b']', ..] => {
                let was_expected = std::mem::take(&mut self.is_colour_expected);
                self.feed(&waiting);
                self.is_colour_expected = was_expected;
            }
            // Half a key, which is none.
            _ => {}
        }
    }

    fn end_paste(&mut self) {
        let paste = self.paste.take().unwrap_or_default();
        let text = String::from_utf8_lossy(&paste);
        // Terminals send the Enter key for the end of a line.
        let text = if text.contains('\r') {
            text.replace("\r\n", "\n").replace('\r', "\n")
        } else {
            text.into_owned()
        };
        self.heard.push_back(Heard::Paste(text));
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

#[cfg(test)]
mod tests;
