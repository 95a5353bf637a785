//! A tool call, from the first piece of its input to its end, and its background job.

use protocol::{BackgroundJob, CallId, Change, Kept};
use serde_json::Value;

use super::input::Input;
use super::summary;
use crate::text::clean;

/// Bytes kept of the end of the output while a call runs.
const MAX_LIVE_OUTPUT_BYTES: usize = 64 * 1024;

/// Bytes kept of the beginning of an input that is still being written.
const MAX_PARTIAL_INPUT_BYTES: usize = 2048;

/// Prefixes of the last line of a command's result, which the agent adds.
const RESULT_ENDINGS: [&str; 4] = [
    // The first two mean that the command has ended.
    "exit code: ",
    "killed by signal ",
    "running in the background as job ",
    "interrupted: ",
];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallEntry {
    pub(crate) id: CallId,
    pub(crate) name: String,
    /// One line for the user.
    pub(crate) summary: String,
    pub(crate) input: Input,
    pub(crate) state: CallEntryState,
    /// The output so far, or at least its end; then the result. Not cleaned.
    pub(crate) output: String,
    pub(crate) changes: Vec<Change>,
    /// Lines added and removed by the changes.
    pub(crate) tally: (usize, usize),
    /// Number of lines of each diff.
    pub(crate) lengths: Vec<usize>,
    pub(crate) kept: Option<Kept>,
    /// Its background job.
    pub(crate) background: Option<BackgroundJob>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CallEntryState {
    /// The model is still writing its input.
    Written,
    /// It has not started.
    Waiting,
    Running,
    Ended {
        is_error: bool,
        millis: u64,
    },
    /// The turn ended before the call did.
    CutOff,
}

impl CallEntry {
    /// A call whose input is being written.
    pub(super) fn written(id: &CallId, name: &str) -> Self {
        Self {
            id: id.clone(),
            name: clean(name).into_owned(),
            summary: summary::of_part(name, ""),
            input: Input::Part {
                start: String::new(),
                bytes: 0,
            },
            state: CallEntryState::Written,
            output: String::new(),
            changes: Vec::new(),
            tally: (0, 0),
            lengths: Vec::new(),
            kept: None,
            background: None,
        }
    }

    /// Adds a piece of the input, as JSON text.
    pub(super) fn write(&mut self, json: &str) {
        let Input::Part { start, bytes } = &mut self.input else {
            return;
        };
        *bytes += json.len();
        let room = MAX_PARTIAL_INPUT_BYTES.saturating_sub(start.len());
        if room > 0 {
            start.push_str(&json[..json.floor_char_boundary(room)]);
            self.summary = summary::of_part(&self.name, start);
        }
    }

    /// Sets the complete input.
    pub(super) fn ask(&mut self, input: &Value) {
        self.summary = summary::of(&self.name, input);
        self.input = Input::of(&self.name, input);
        if self.state == CallEntryState::Written {
            self.state = CallEntryState::Waiting;
        }
    }

    pub(super) fn print(&mut self, text: &str) {
        let text =
            &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_LIVE_OUTPUT_BYTES))..];
        self.output.push_str(text);
        // Cut in large pieces, so that each byte is moved at most once.
        if self.output.len() > 2 * MAX_LIVE_OUTPUT_BYTES {
            let cut = self
                .output
                .ceil_char_boundary(self.output.len() - MAX_LIVE_OUTPUT_BYTES);
            self.output.drain(..cut);
        }
    }

    pub(super) fn end(&mut self, output: String, changes: &[Change]) {
        self.output = output;
        self.output.shrink_to_fit();
        self.changes = changes.to_vec();
        let diffs = changes
            .iter()
            .map(|change| change.diff.as_deref().unwrap_or_default());
        self.lengths = diffs.clone().map(|diff| diff.lines().count()).collect();
        let signs = diffs
            .flat_map(str::lines)
            .filter_map(|line| line.as_bytes().first());
        self.tally = signs.fold((0, 0), |(added, removed), sign| match sign {
            b'+' => (added + 1, removed),
            b'-' => (added, removed + 1),
            _ => (added, removed),
        });
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(
            self.state,
            CallEntryState::Ended { .. } | CallEntryState::CutOff
        )
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, CallEntryState::Ended { is_error: true, .. })
    }

    /// The last line of a command's result, if it says how the command ended.
    fn ending_line(&self) -> Option<&str> {
        let is_command = matches!(self.name.as_str(), "bash" | "bash_job");
        let line = self.output.trim_end().rsplit('\n').next()?;
        let is_ending = RESULT_ENDINGS.iter().any(|ending| line.starts_with(ending));
        (is_command && is_ending && self.is_over()).then_some(line)
    }

    /// Whether the call killed a job that has ended. Its exit status then counts as success.
    pub(super) fn has_killed(&self) -> bool {
        let is_kill = self.name == "bash_job" && self.summary.starts_with("kill job ");
        let line = self.output.trim_end().rsplit('\n').next();
        let is_over = |line: &str| {
            let mut endings = RESULT_ENDINGS.iter().take(2);
            endings.any(|ending| line.starts_with(ending))
        };
        is_kill && line.is_some_and(is_over)
    }

    /// The output without the final line about how it ended.
    pub(super) fn printed(&self) -> &str {
        let whole = self.output.trim_end();
        match self.ending_line() {
            Some(line) => &whole[..whole.len() - line.len()],
            None => &self.output,
        }
    }

    /// How it ended, if that is worth showing beside the summary.
    pub(super) fn ending(&self) -> Option<String> {
        if self.state == CallEntryState::CutOff {
            return Some("cut off".to_owned());
        }
        let line = clean(self.ending_line()?);
        if let Some(code) = line.strip_prefix("exit code: ") {
            return (code != "0").then(|| format!("exit code {code}"));
        }
        if let Some(rest) = line.strip_prefix("running in the background as job ") {
            let job: String = rest.chars().take_while(char::is_ascii_digit).collect();
            return match &self.background {
                Some(background) if background.ending.is_some() => None,
                _ => Some(format!("goes on as job {job}")),
            };
        }
        let (what, _) = line.split_once(':').unwrap_or((&line, ""));
        Some(what.to_owned())
    }

    /// Whether the command was moved to the background.
    pub(super) fn goes_on(&self) -> bool {
        let line = self.ending_line();
        line.is_some_and(|line| line.starts_with("running in the background"))
    }

    /// Size of its texts in bytes.
    pub(super) fn bytes(&self) -> usize {
        let input = match &self.input {
            Input::Part { .. } | Input::Nothing => 0,
            Input::Command(text) | Input::Json(text) => text.len(),
            Input::File { content, .. } => content.len(),
            Input::Plan(steps) => steps.len() * 40,
        };
        let changes = self
            .changes
            .iter()
            .filter_map(|change| change.diff.as_ref());
        input + self.output.len() + changes.map(String::len).sum::<usize>()
    }

    pub(super) fn opens(&self) -> bool {
        self.bytes() > 0 || self.kept.is_some() || self.background.is_some()
    }

    /// The text to copy: input and result.
    pub(super) fn copied(&self) -> String {
        let asked = match &self.input {
            Input::Command(command) => format!("$ {command}"),
            Input::File { content, .. } => return content.clone(),
            Input::Plan(steps) => {
                let titles: Vec<&str> = steps.iter().map(|step| step.title.as_str()).collect();
                return titles.join("\n");
            }
            _ => self.summary.clone(),
        };
        format!("{}\n{}", asked.trim_end(), self.output)
    }

    /// The diffs of all its changes.
    pub(super) fn diff(&self) -> Option<String> {
        let mut all = String::new();
        for change in &self.changes {
            if let Some(diff) = &change.diff {
                let path = &change.path;
                all.push_str(&format!("--- {path}\n+++ {path}\n"));
                all.push_str(diff);
                if !all.ends_with('\n') {
                    all.push('\n');
                }
            }
        }
        (!all.is_empty()).then(|| clean(&all).into_owned())
    }
}
