//! What happened to a job, line by line, for people: `logs/job.log`.
//!
//! Bounded. What it cannot write is lost, and the job goes on: all that matters is in the store.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jiff::Timestamp;
use protocol::{Block, Event, EventKind, Outcome};
use tracing::warn;

/// Bytes of the file.
const LONGEST: u64 = 64 << 20;
/// Bytes of what one event says.
const LONGEST_TEXT: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct JobLog {
    /// None once it cannot be written, or is full.
    file: Option<File>,
    length: u64,
}

impl JobLog {
    /// Goes on with what is there. A folder that is not there yet means no log.
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

    /// Writes down an event, if it says something to people.
    pub(crate) fn note(&mut self, event: &Event) {
        let time = event.time;
        match &event.kind {
            EventKind::SandboxStarted {
                backend, reason, ..
            } => {
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
                self.line(time, name, summary);
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

    /// One entry; lines after its first are indented, so that no output looks like an entry.
    pub(crate) fn line(&mut self, time: Timestamp, what: &str, text: impl Display) {
        let Some(file) = &mut self.file else {
            return;
        };
        let mut text = text.to_string();
        if text.len() > LONGEST_TEXT {
            let end = text.floor_char_boundary(LONGEST_TEXT);
            text.truncate(end);
            text.push('…');
        }
        let text = text.trim_end().replace('\n', "\n    ");
        let what = what.replace(char::is_control, " ");
        let mut entry = format!("{time:.3} {what}: {text}\n");
        self.length += entry.len() as u64;
        let is_full = self.length > LONGEST;
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
