//! The human-readable log of a job: `logs/job.log`.
//!
//! Limited in size. Write errors are ignored and the job continues: the events are in the store.
//! Control characters and characters that change how others are displayed are escaped as `\u{1b}`,
//! so that no terminal obeys them and nothing is hidden from a reader.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jiff::Timestamp;
use protocol::{Block, Event, EventKind, Outcome};
use tracing::warn;

/// Maximum bytes of the file.
const MAX_LOG_BYTES: u64 = 64 << 20;
/// Maximum bytes of one entry's text.
const MAX_ENTRY_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct JobLog {
    /// `None` once the file is full or cannot be written.
    file: Option<File>,
    length: u64,
}

impl JobLog {
    /// Appends to an existing log. Disabled if the folder does not exist.
    pub(crate) fn open(path: &Path) -> Self {
        let opened = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((length, file)) => Self {
                file: Some(file),
                length,
            },
            Err(error) => {
                warn!(%error, "cannot open a job's log");
                Self::none()
            }
        }
    }

    pub(crate) fn none() -> Self {
        Self {
            file: None,
            length: 0,
        }
    }

    /// Writes an entry for an event, if it is relevant to users.
    pub(crate) fn note(&mut self, event: &Event) {
        let time = event.time;
        match &event.kind {
            EventKind::SandboxStarted { sandbox, .. } => {
                let (backend, reason) = (sandbox.backend, &sandbox.reason);
                self.line(
                    time,
                    "sandbox",
                    format_args!("started with {backend} walls: {reason}"),
                );
            }
            EventKind::TurnStarted { prompt, .. } => self.line(time, "message", text(prompt)),
            EventKind::TurnContinued { .. } => self.line(time, "turn", "taken up again"),
            EventKind::Retrying { reason, .. } => self.line(time, "retry", reason),
            EventKind::Replied { content, .. } => {
                let text = text(content);
                if !text.is_empty() {
                    self.line(time, "model", text);
                }
            }
            EventKind::ToolStarted { name, summary, .. } => {
                self.line(time, name, summary.to_string());
            }
            EventKind::ToolEnded {
                name,
                content,
                is_error,
                millis,
                ..
            } => {
                let word = if *is_error { "failed" } else { "done" };
                let text = text(content);
                self.line(time, name, format_args!("{word} after {millis} ms\n{text}"));
            }
            EventKind::Noted { text } => self.line(time, "note", text),
            EventKind::CommandRefused { reason } => self.line(time, "refused", reason),
            EventKind::TurnEnded { outcome, .. } => self.line(time, "turn", end(outcome)),
            _ => {}
        }
    }

    /// Writes one entry. Lines after the first are indented, so that no output looks like an entry.
    pub(crate) fn line(&mut self, time: Timestamp, what: &str, text: impl Display) {
        let Some(file) = &mut self.file else {
            return;
        };
        let mut text = text.to_string();
        if text.len() > MAX_ENTRY_BYTES {
            let end = text.floor_char_boundary(MAX_ENTRY_BYTES);
            text.truncate(end);
            text.push('…');
        }
        let text = shown(text.trim_end()).replace('\n', "\n    ");
        let what = shown(&what.replace(['\n', '\t'], " "));
        let mut entry = format!("{time:.3} {what}: {text}\n");
        self.length += entry.len() as u64;
        let is_full = self.length > MAX_LOG_BYTES;
        if is_full {
            entry = format!("{time:.3} log: it is full, and nothing more is written to it\n");
        }
        let written = file.write_all(entry.as_bytes());
        if let Err(error) = &written {
            warn!(%error, "cannot write a job's log");
        }
        if is_full || written.is_err() {
            self.file = None;
        }
    }
}

/// Escapes everything unprintable except line breaks and tabs.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.replace("\r\n", "\n").chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            character if audit::is_unprintable(character) => {
                shown.extend(character.escape_unicode());
            }
            character => shown.push(character),
        }
    }
    shown
}

fn text(content: &[Block]) -> String {
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    texts.join("\n")
}

fn end(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::Failed { reason } => format!("failed: {reason}"),
        Outcome::Budget { reason, .. } => format!("out of budget: {reason}"),
        Outcome::Provider { reason, .. } => format!("the provider failed: {reason}"),
        Outcome::Interrupted => "interrupted".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_log_has_no_control_characters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.log");
        let mut log = JobLog::open(&path);
        let time = Timestamp::UNIX_EPOCH;
        let hostile = "\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}31mred\r\nnext\rback\u{8}\u{7f}\tgrün";
        log.line(time, "mes\u{1b}[2Jsage\nx", hostile);
        log.line(
            time,
            "branch",
            "main\u{202e}txt.exe \u{2066}a\u{200b}\u{feff}",
        );
        let text = std::fs::read_to_string(&path).unwrap();
        let expect = [
            r"1970-01-01T00:00:00.000Z mes\u{1b}[2Jsage x: \u{1b}]52;c;ZXZpbA==\u{7}\u{9b}31mred",
            "    next\\u{d}back\\u{8}\\u{7f}\tgrün",
            r"1970-01-01T00:00:00.000Z branch: main\u{202e}txt.exe \u{2066}a\u{200b}\u{feff}",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expect);
    }
}
