//! A session as text: progress on standard error, the answer on standard output.
//!
//! If standard output is a terminal, the model's text is streamed to it, once. Otherwise the text is
//! streamed to standard error, and standard output gets only the final answer. Everything that comes
//! from the sandbox or the model is cleaned of terminal escapes.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

use protocol::{Block, Change, Event, EventKind, Moment, Outcome, SandboxInfo, Spending};

use super::status;

/// Lines of a tool's result that are shown.
const MAX_SHOWN_LINES: usize = 8;
const MAX_LINE_CHARS: usize = 160;

#[derive(Debug)]
pub(crate) struct TextView {
    colours: bool,
    /// The model's text is streamed to standard output.
    words_to_output: bool,
    /// The current line has text.
    in_line: bool,
    thinking: bool,
    /// The text of the last reply.
    answer: String,
    /// The host folder mounted at `/workspace`, once it is known.
    workspace: String,
    errors: io::Stderr,
    output: io::Stdout,
}

impl TextView {
    pub(crate) fn new() -> Self {
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            colours: io::stderr().is_terminal() && !is_plain,
            words_to_output: io::stdout().is_terminal(),
            in_line: false,
            thinking: false,
            answer: String::new(),
            workspace: String::new(),
            errors: io::stderr(),
            output: io::stdout(),
        }
    }

    /// Prints a line of the program itself.
    pub(crate) fn announce(&mut self, text: &str) -> io::Result<()> {
        let text = self.paint("1", text);
        self.line(&text)
    }

    pub(crate) fn show(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::Ready { workspace, .. } => {
                self.workspace.clone_from(workspace);
                Ok(())
            }
            EventKind::SessionStarted { model, .. } => {
                self.dim(&format!("session {} · {}", event.session, clean(model)))
            }
            EventKind::SandboxStarted { sandbox, replaces } => {
                if let Some(why) = replaces {
                    self.warn(&format!("{}; a new sandbox was started", clean(why)))?;
                }
                if !self.workspace.is_empty() {
                    self.dim(&format!("workspace: {}", clean(&self.workspace)))?;
                }
                self.show_sandbox(sandbox)
            }
            EventKind::TextDelta { text } => self.words(text),
            EventKind::ThinkingDelta { text } => self.show_thinking(text),
            EventKind::Retrying {
                wait_ms, reason, ..
            } => {
                let wait = *wait_ms as f64 / 1e3;
                self.warn(&format!("{}; trying again in {wait:.1} s", clean(reason)))
            }
            EventKind::Replied { content, .. } => self.end_reply(content),
            EventKind::ToolStarted { summary, .. } => {
                let summary = format!(
                    "{} {}",
                    self.paint("36", "●"),
                    first_line(&summary.to_string(), 120)
                );
                self.line(&summary)
            }
            EventKind::ToolEnded {
                content,
                is_error,
                changes,
                millis,
                ..
            } => self.result(content, *is_error, changes, *millis),
            EventKind::Noted { text } => self.dim(&format!("note to the model: {}", clean(text))),
            EventKind::Spent { spending } if status::has_limit(spending) => {
                self.dim(&status::spending_line(spending))
            }
            EventKind::TurnEnded {
                outcome, spending, ..
            } => self.show_outcome(outcome, spending),
            EventKind::CheckpointMade {
                moment: Moment::Before,
                checkpoint,
                ..
            } => self.skipped(&checkpoint.skipped),
            EventKind::Undone {
                turn,
                restored,
                removed,
                left,
                ..
            } => {
                self.left(left)?;
                self.line(&format!(
                    "turn {turn} undone: {restored} files restored, {removed} removed"
                ))
            }
            EventKind::Redone {
                turn,
                restored,
                removed,
                left,
                ..
            } => {
                self.left(left)?;
                self.line(&format!(
                    "turn {turn} redone: {restored} files restored, {removed} removed"
                ))
            }
            EventKind::ModelChanged { model, .. } => self.dim(&format!("model: {}", clean(model))),
            EventKind::Compacted { summary, .. } => {
                let words = first_line(summary, MAX_LINE_CHARS);
                self.dim(&format!("conversation replaced by a summary: {words}"))
            }
            _ => Ok(()),
        }
    }

    /// Warns about paths that an undo or a redo did not restore.
    fn left(&mut self, left: &[String]) -> io::Result<()> {
        for path in left {
            self.warn(&format!(
                "`{}` was not restored: it was changed since, or cannot be written",
                clean(path)
            ))?;
        }
        Ok(())
    }

    fn show_sandbox(&mut self, sandbox: &SandboxInfo) -> io::Result<()> {
        let network = match sandbox.network.as_slice() {
            [] => "no network".to_owned(),
            hosts => format!("network: {}", hosts.join(", ")),
        };
        self.dim(&format!("sandbox: {} walls · {network}", sandbox.backend))?;
        // If the user named the backend, the reason is known.
        match sandbox.reason.as_str() {
            "" | SandboxInfo::REQUESTED_REASON => Ok(()),
            reason => self.dim(&format!("chosen: {}", clean(reason))),
        }
    }

    /// Warns about files that an undo would not restore, before it matters.
    fn skipped(&mut self, skipped: &BTreeMap<String, String>) -> io::Result<()> {
        let Some((path, why)) = skipped.first_key_value() else {
            return Ok(());
        };
        let more = match skipped.len() {
            1 => String::new(),
            many => format!(", and {} more", many - 1),
        };
        self.dim(&format!(
            "an undo cannot restore `{}`: {}{more}",
            clean(path),
            clean(why)
        ))
    }

    fn words(&mut self, text: &str) -> io::Result<()> {
        if self.thinking {
            self.end_line()?;
        }
        let text = clean(text);
        self.in_line = !text.ends_with('\n') && (self.in_line || !text.is_empty());
        if self.words_to_output {
            write_and_flush(&mut self.output, &text)
        } else {
            write_and_flush(&mut self.errors, &text)
        }
    }

    fn show_thinking(&mut self, text: &str) -> io::Result<()> {
        if !self.thinking {
            self.end_line()?;
            self.thinking = true;
        }
        let text = self.paint("2", &clean(text));
        self.in_line = true;
        write_and_flush(&mut self.errors, &text)
    }

    fn end_reply(&mut self, content: &[Block]) -> io::Result<()> {
        self.end_line()?;
        let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
        self.answer = texts.join("\n\n");
        Ok(())
    }

    fn result(
        &mut self,
        content: &[Block],
        is_error: bool,
        changes: &[Change],
        millis: u64,
    ) -> io::Result<()> {
        let diffs: Vec<&str> = changes
            .iter()
            .filter_map(|change| change.diff.as_deref())
            .collect();
        let text = if diffs.is_empty() {
            content
                .iter()
                .filter_map(Block::as_text)
                .collect::<Vec<_>>()
                .join("\n")
        } else {
            diffs.join("\n")
        };
        let lines: Vec<&str> = text.lines().collect();
        // The beginning shows what it is, the end how it ended.
        let tail = MAX_SHOWN_LINES / 2;
        for (place, line) in lines.iter().enumerate() {
            let is_shown =
                lines.len() <= MAX_SHOWN_LINES || place < tail || place >= lines.len() - tail;
            if is_shown {
                let line = first_line(line, MAX_LINE_CHARS);
                let colour = match line.as_bytes().first() {
                    _ if is_error => "31",
                    Some(b'+') if !diffs.is_empty() => "32",
                    Some(b'-') if !diffs.is_empty() => "31",
                    _ => "2",
                };
                let line = self.paint(colour, &line);
                self.line(&format!("  │ {line}"))?;
            } else if place == tail {
                let more = format!("  │ … {} more lines", lines.len() - MAX_SHOWN_LINES);
                self.dim(&more)?;
            }
        }
        match millis {
            0..1000 => Ok(()),
            _ => self.dim(&format!("  └ {:.1} s", millis as f64 / 1e3)),
        }
    }

    fn show_outcome(&mut self, outcome: &Outcome, spending: &Spending) -> io::Result<()> {
        self.end_line()?;
        self.dim(&status::spending_line(spending))?;
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::Failed { reason } => self.warn(&format!("failed: {}", clean(reason))),
            Outcome::Budget { reason, .. } => {
                self.warn(&format!("the budget is used up: {reason}"))
            }
            Outcome::Provider { reason, .. } => {
                self.warn(&format!("the provider failed: {}", clean(reason)))
            }
            Outcome::Interrupted => self.warn("interrupted"),
        }
    }

    /// Prints the answer, if it was not streamed.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let answer = std::mem::take(&mut self.answer);
        if self.words_to_output || answer.is_empty() {
            return Ok(());
        }
        let answer = format!("{}\n", clean(answer.trim_end()));
        write_and_flush(&mut self.output, &answer)
    }

    fn warn(&mut self, text: &str) -> io::Result<()> {
        let text = self.paint("33", &format!("hotcell: {text}"));
        self.line(&text)
    }

    fn dim(&mut self, text: &str) -> io::Result<()> {
        let text = self.paint("2", text);
        self.line(&text)
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        write_and_flush(&mut self.errors, &format!("{text}\n"))
    }

    fn end_line(&mut self) -> io::Result<()> {
        let was_in_line = std::mem::take(&mut self.in_line);
        let was_thinking = std::mem::take(&mut self.thinking);
        match (was_in_line, was_thinking || !self.words_to_output) {
            (false, _) => Ok(()),
            (true, true) => write_and_flush(&mut self.errors, "\n"),
            (true, false) => write_and_flush(&mut self.output, "\n"),
        }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

fn write_and_flush(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// Removes everything that a terminal interprets: only text, newlines and tabs remain.
pub(crate) fn clean(text: &str) -> String {
    let is_safe = |letter: &char| match letter {
        '\n' | '\t' => true,
        // Bidirectional control characters can hide text.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        letter => !letter.is_control(),
    };
    text.chars().filter(is_safe).collect()
}

/// One clean line of limited length.
pub(crate) fn first_line(text: &str, longest: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let is_cut = text.lines().nth(1).is_some() || line.chars().count() > longest;
    let line: String = clean(line).chars().take(longest).collect();
    if is_cut { format!("{line} …") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        for (text, expect) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\x1b]52;c;ZXZpbA==\x07x", "]52;c;ZXZpbA==x"),
            ("\u{9b}31mred", "31mred"),
            ("a\rb\x08c", "abc"),
            ("\u{202e}txt.exe", "txt.exe"),
        ] {
            assert_eq!(clean(text), expect);
        }
    }

    #[test]
    fn lines_are_cut() {
        assert_eq!(first_line("one\ntwo", 10), "one …");
        assert_eq!(first_line("four", 3), "fou …");
        assert_eq!(first_line("four", 4), "four");
    }
}
