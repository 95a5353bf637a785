//! Collects output of any length in constant memory: its beginning and end for the model, and more
//! of both in the output store, where the model can read further.

use protocol::Kept;

use crate::clean::OutputCleaner;
use crate::display::count;
use crate::tool::OutputStore;

/// Bytes shown to the model, each of the beginning and the end.
pub const MAX_SHOWN_BYTES: usize = 12 * 1024;

/// Bytes stored, each of the beginning and the end.
pub const MAX_STORED_BYTES: usize = 2 * 1024 * 1024;

/// Collects the output of a command.
#[derive(Debug, Default)]
pub struct BoundedOutput {
    cleaner: OutputCleaner,
    text: OutputBuffer,
}

#[derive(Debug, Default)]
struct OutputBuffer {
    start: String,
    /// The output after `start`. Trimmed to the stored size whenever it is twice as large.
    end: Vec<u8>,
    bytes: u64,
    lines: u64,
}

/// Collected output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectedOutput {
    /// All of the output.
    Whole(String),
    Cut(TruncatedOutput),
}

/// Output that was too long to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruncatedOutput {
    pub head: String,
    pub tail: String,
    /// Size of the part between them.
    pub bytes: u64,
    pub lines: u64,
    /// All of the output, or as much as is stored.
    pub kept: Vec<u8>,
    /// Bytes that are missing even in `kept`.
    pub lost: u64,
}

impl BoundedOutput {
    pub fn push(&mut self, bytes: &[u8], is_error: bool) {
        let text = &mut self.text;
        self.cleaner.push(bytes, is_error, |piece| text.push(piece));
    }

    pub fn finish(self) -> CollectedOutput {
        let mut text = self.text;
        self.cleaner.finish(|piece| text.push(piece));
        text.finish()
    }

    /// The text for the model, and the handle of the stored output.
    pub(crate) async fn render(self, outputs: &dyn OutputStore) -> (String, Option<Kept>) {
        let cut = match self.finish() {
            CollectedOutput::Whole(text) => return (text, None),
            CollectedOutput::Cut(cut) => cut,
        };
        let gap = format!(
            "{} ({}) left out",
            count(cut.bytes, "byte", "bytes"),
            count(cut.lines, "line", "lines")
        );
        let (kept, how) = match outputs.store(cut.kept).await {
            Ok(kept) => {
                let part = match cut.lost {
                    0 => String::new(),
                    lost => format!(", except {lost} bytes in the middle"),
                };
                let how = format!("`read_file` with path `{}` reads them{part}", kept.handle);
                (Some(kept), how)
            }
            Err(error) => (None, format!("they could not be stored: {error}")),
        };
        let newline = if cut.head.ends_with('\n') { "" } else { "\n" };
        let text = format!("{}{newline}[… {gap}; {how} …]\n{}", cut.head, cut.tail);
        (text, kept)
    }
}

impl OutputBuffer {
    fn push(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.lines += count_newlines(text.as_bytes());
        let room = MAX_STORED_BYTES.saturating_sub(self.start.len());
        // Once the second part has content, everything that follows goes there.
        let room = if self.end.is_empty() { room } else { 0 };
        let split = text.floor_char_boundary(room);
        self.start.push_str(&text[..split]);
        self.end.extend_from_slice(&text.as_bytes()[split..]);
        if self.end.len() > 2 * MAX_STORED_BYTES {
            self.end.drain(..self.end.len() - MAX_STORED_BYTES);
        }
    }

    fn finish(mut self) -> CollectedOutput {
        let lost = self.end.len().saturating_sub(MAX_STORED_BYTES);
        self.end.drain(..lost);
        // The trim may have split a character.
        let broken = self.end.iter().take_while(|byte| **byte & 0xc0 == 0x80);
        let broken = broken.count();
        self.end.drain(..broken);
        let end = String::from_utf8_lossy(&self.end);
        if self.bytes <= 2 * MAX_SHOWN_BYTES as u64 {
            return CollectedOutput::Whole(self.start + &end);
        }
        let lost = self.bytes - (self.start.len() + end.len()) as u64;
        let head = head(&self.start).to_owned();
        let joined;
        let tail = if end.len() >= MAX_SHOWN_BYTES {
            tail(&end)
        } else {
            let from = self.start.len().saturating_sub(MAX_SHOWN_BYTES);
            joined = self.start[self.start.ceil_char_boundary(from)..].to_owned() + &end;
            tail(&joined)
        };
        let tail = tail.to_owned();
        let mut kept = self.start.into_bytes();
        if lost > 0 {
            kept.extend_from_slice(format!("\n[… {lost} bytes were not stored …]\n").as_bytes());
        }
        kept.extend_from_slice(end.as_bytes());
        CollectedOutput::Cut(TruncatedOutput {
            bytes: self.bytes - (head.len() + tail.len()) as u64,
            lines: self.lines - count_newlines(head.as_bytes()) - count_newlines(tail.as_bytes()),
            head,
            tail,
            kept,
            lost,
        })
    }
}

/// The first lines, or part of the first line if it is too long.
fn head(text: &str) -> &str {
    let text = &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)];
    match text.rfind('\n') {
        Some(end) if end >= MAX_SHOWN_BYTES / 2 => &text[..=end],
        _ => text,
    }
}

/// The last lines, or part of the last line if it is too long.
fn tail(text: &str) -> &str {
    let text = &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_SHOWN_BYTES))..];
    match text.find('\n') {
        Some(end) if end < MAX_SHOWN_BYTES / 2 => &text[end + 1..],
        _ => text,
    }
}

fn count_newlines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}
