//! Live output of a running tool, limited to about a screenful at a readable rate. Older output is
//! dropped here; the tool's result has all of it. Entry type: [`LiveOutput`].

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::{CallId, EventKind};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::event_log::EventSender;

/// Maximum bytes sent of the output since the last event.
const MAX_LIVE_BYTES: usize = 4096;

/// Maximum alternating runs of stdout and stderr that are kept.
const MAX_OUTPUT_RUNS: usize = 8;

/// Delay per event, for about thirty events a second.
const EVENT_INTERVAL: Duration = Duration::from_millis(33);

/// The live output of one call.
pub(crate) struct LiveOutput<'a> {
    sender: &'a EventSender,
    call: &'a CallId,
    state: Mutex<LiveState>,
    /// Notified when output waits to be sent.
    pending: Notify,
}

#[derive(Debug)]
struct LiveState {
    runs: VecDeque<OutputRun>,
    /// When the next event may be sent.
    due: Instant,
}

/// Consecutive output on stdout or stderr.
#[derive(Debug)]
struct OutputRun {
    is_error: bool,
    bytes: Vec<u8>,
    /// Earlier bytes were dropped.
    is_cut: bool,
}

impl<'a> LiveOutput<'a> {
    pub(crate) fn new(sender: &'a EventSender, call: &'a CallId) -> Self {
        Self {
            sender,
            call,
            state: Mutex::new(LiveState {
                runs: VecDeque::new(),
                due: Instant::now(),
            }),
            pending: Notify::new(),
        }
    }

    /// Adds output, and sends it now or when it is due.
    pub(crate) fn print(&self, bytes: &[u8], is_error: bool) {
        let mut state = self.lock();
        state.push(bytes, is_error);
        if Instant::now() >= state.due {
            self.flush(&mut state)
        } else {
            self.pending.notify_one()
        }
    }

    /// Sends waiting output when it is due, for as long as it is polled.
    pub(crate) async fn send_pending(&self) -> Infallible {
        loop {
            self.pending.notified().await;
            let due = self.lock().due;
            tokio::time::sleep_until(due).await;
            self.flush(&mut self.lock());
        }
    }

    fn flush(&self, state: &mut LiveState) {
        let now = Instant::now();
        let (texts, incomplete) = state.take();
        state.due = now + EVENT_INTERVAL * texts.len() as u32;
        state.runs.extend(incomplete);
        for (text, is_error) in texts {
            self.sender.try_send(EventKind::ToolOutput {
                call: self.call.clone(),
                text,
                is_error,
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveState {
    fn push(&mut self, bytes: &[u8], is_error: bool) {
        if bytes.is_empty() {
            return;
        }
        match self.runs.back_mut() {
            Some(last) if last.is_error == is_error => last.push(bytes),
            _ => {
                let mut run = OutputRun {
                    is_error,
                    bytes: Vec::new(),
                    is_cut: false,
                };
                run.push(bytes);
                self.runs.push_back(run);
            }
        }
        let mut over = self.runs.iter().map(|run| run.bytes.len()).sum::<usize>();
        while self.runs.len() > MAX_OUTPUT_RUNS || (over > MAX_LIVE_BYTES && self.runs.len() > 1) {
            over -= self.runs.pop_front().map_or(0, |run| run.bytes.len());
        }
    }

    /// The output to send, and bytes that wait for the rest of an incomplete UTF-8 character.
    fn take(&mut self) -> (Vec<(String, bool)>, Option<OutputRun>) {
        let mut incomplete = None;
        if let Some(last) = self.runs.back_mut() {
            let whole = last.bytes.len() - incomplete_utf8_len(&last.bytes);
            if whole < last.bytes.len() {
                incomplete = Some(OutputRun {
                    is_error: last.is_error,
                    bytes: last.bytes.split_off(whole),
                    is_cut: false,
                });
            }
        }
        let texts = std::mem::take(&mut self.runs)
            .into_iter()
            .map(|run| (text(&run.bytes, run.is_cut), run.is_error))
            .filter(|(text, _)| !text.is_empty())
            .collect();
        (texts, incomplete)
    }
}

impl OutputRun {
    fn push(&mut self, bytes: &[u8]) {
        let start = bytes.len().saturating_sub(MAX_LIVE_BYTES);
        self.is_cut |= start > 0;
        self.bytes.extend_from_slice(&bytes[start..]);
        let over = self.bytes.len().saturating_sub(MAX_LIVE_BYTES);
        self.is_cut |= over > 0;
        self.bytes.drain(..over);
    }
}

/// Length of the incomplete UTF-8 character at the end.
fn incomplete_utf8_len(bytes: &[u8]) -> usize {
    let last = &bytes[bytes.len().saturating_sub(3)..];
    let Some(start) = last.iter().rposition(|byte| *byte >= 0xc0) else {
        return 0;
    };
    let character = &last[start..];
    match std::str::from_utf8(character) {
        Err(error) if error.error_len().is_none() => character.len(),
        _ => 0,
    }
}

/// The end of some output. If it was cut, starts at a line, or at a character if it is a single line.
pub(crate) fn text(bytes: &[u8], is_cut: bool) -> String {
    let start = if is_cut {
        let line = bytes.iter().position(|byte| *byte == b'\n');
        let is_inside = |byte: &u8| byte & 0xc0 == 0x80;
        match line.filter(|end| end + 1 < bytes.len()) {
            Some(end) => end + 1,
            None => bytes.iter().take_while(|byte| is_inside(byte)).count(),
        }
    } else {
        0
    };
    String::from_utf8_lossy(&bytes[start..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> LiveState {
        LiveState {
            runs: VecDeque::new(),
            due: Instant::now(),
        }
    }

    #[test]
    fn truncated_output_starts_at_a_line_or_a_character() {
        let check = |pieces: &[&str], expect: &[(&str, bool)]| {
            let mut state = state();
            for piece in pieces {
                let (is_error, text) = match piece.strip_prefix('!') {
                    Some(text) => (true, text),
                    None => (false, *piece),
                };
                state.push(text.as_bytes(), is_error);
            }
            let (texts, incomplete) = state.take();
            let texts: Vec<(&str, bool)> = texts
                .iter()
                .map(|(text, is_error)| (text.as_str(), *is_error))
                .collect();
            assert_eq!(texts, expect);
            assert!(incomplete.is_none());
        };
        check(&["a", "b"], &[("ab", false)]);
        check(
            &["a", "!b", "c"],
            &[("a", false), ("b", true), ("c", false)],
        );
        let long = "x".repeat(MAX_LIVE_BYTES);
        check(&["first", &long], &[(&long, false)]);
        check(&["first", &format!("!{long}")], &[(&long, true)]);
        let lines = format!("{}\nsecond\nthird\n", "y".repeat(MAX_LIVE_BYTES));
        check(&[&lines], &[("second\nthird\n", false)]);
        // Two bytes per character and one more byte, so the cut is inside a character.
        let characters = format!("{}x", "é".repeat(MAX_LIVE_BYTES));
        let shown = format!("{}x", "é".repeat(MAX_LIVE_BYTES / 2 - 1));
        check(&[&characters], &[(&shown, false)]);
    }

    #[test]
    fn a_character_is_sent_when_it_is_complete() {
        let mut state = state();
        let word = "grün".as_bytes();
        state.push(&word[..3], false);
        let (texts, incomplete) = state.take();
        assert_eq!(texts, [("gr".to_owned(), false)]);
        state.runs.extend(incomplete);
        state.push(&word[3..], false);
        let (texts, incomplete) = state.take();
        assert_eq!(texts, [("ün".to_owned(), false)]);
        assert!(incomplete.is_none());
        // Invalid bytes are shown as they are.
        state.push(b"\xff\xc3(", false);
        let (texts, incomplete) = state.take();
        assert_eq!(texts.len(), 1);
        assert!(incomplete.is_none());
    }
}
