//! A tool call, from the first piece of its input to its end, and its background job.

use protocol::{BackgroundJob, CallId, CallSummary, Change, Kept, ShownOutput};
use serde_json::Value;

use super::input::Input;
use super::summary;
use crate::text::clean;

/// Bytes kept of the end of the output while a call runs.
const MAX_LIVE_OUTPUT_BYTES: usize = 64 * 1024;

/// Bytes kept of the beginning of an input that is still being written.
const MAX_PARTIAL_INPUT_BYTES: usize = 2048;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallEntry {
    pub(crate) id: CallId,
    pub(crate) name: String,
    /// What the tool says of the call. Not cleaned.
    pub(crate) summary: CallSummary,
    /// The summary as one line.
    pub(crate) line: String,
    pub(crate) input: Input,
    /// The complete input, until the tool has said how to show it.
    full_input: Option<Value>,
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
        let summary = summary::of_part(name, "");
        Self {
            id: id.clone(),
            name: clean(name).into_owned(),
            line: summary::one_line(&summary.to_string()),
            summary,
            input: Input::Part {
                start: String::new(),
                bytes: 0,
            },
            full_input: None,
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
            let summary = summary::of_part(&self.name, start);
            self.set_summary(summary);
        }
    }

    /// Sets the complete input. What the tool says of it follows.
    pub(super) fn ask(&mut self, input: &Value) {
        self.set_summary(CallSummary::generic(&self.name, input));
        self.input = Input::of(&self.summary, input);
        self.full_input = Some(input.clone());
        if self.state == CallEntryState::Written {
            self.state = CallEntryState::Waiting;
        }
    }

    /// Sets what the tool says of the call.
    pub(super) fn describe(&mut self, summary: &CallSummary) {
        self.set_summary(summary.clone());
        if let Some(input) = self.full_input.take() {
            self.input = Input::of(summary, &input);
        }
    }

    fn set_summary(&mut self, summary: CallSummary) {
        self.line = summary::one_line(&summary.to_string());
        self.summary = summary;
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
        self.full_input = None;
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

    /// The output, without the last line of a command's result: the summary says how it ended.
    pub(super) fn printed(&self) -> &str {
        if self.summary.output != ShownOutput::Command || !self.is_over() {
            return &self.output;
        }
        let whole = self.output.trim_end();
        whole.rfind('\n').map_or("", |end| &whole[..=end])
    }

    /// How it ended, if that is worth showing beside the summary.
    pub(super) fn ending(&self) -> Option<String> {
        if self.state == CallEntryState::CutOff {
            return Some("cut off".to_owned());
        }
        let has_ended = |job: &BackgroundJob| job.ending.is_some();
        let is_told = !self.changes.is_empty()
            || self.is_in_background() && self.background.as_ref().is_some_and(has_ended);
        let detail = summary::one_line(&self.summary.detail);
        (!is_told && !detail.is_empty()).then_some(detail)
    }

    /// Whether the command was moved to the background.
    pub(super) fn is_in_background(&self) -> bool {
        self.summary.job.is_some()
    }

    /// Size of its texts in bytes.
    pub(super) fn bytes(&self) -> usize {
        let input = match &self.input {
            Input::Part { .. } | Input::Nothing => 0,
            Input::Text { text, .. } | Input::Json(text) => text.len(),
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
        let input = match &self.input {
            Input::Text { text, .. } if self.summary.output == ShownOutput::Diff => {
                return text.clone();
            }
            Input::Text { text, .. } => format!("{} {text}", clean(&self.summary.verb)),
            Input::Plan(steps) => {
                let titles: Vec<&str> = steps.iter().map(|step| step.title.as_str()).collect();
                return titles.join("\n");
            }
            _ => self.line.clone(),
        };
        format!("{}\n{}", input.trim_end(), self.output)
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
