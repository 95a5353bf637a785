//! A tool call, from the first piece of its input to its end, and what goes on of it afterwards.

use protocol::{BackgroundJob, CallId, Change, Kept};
use serde_json::Value;

use super::summary;
use crate::text::clean;

/// Of what a call prints while it runs, its end is kept, in bytes.
const LIVE: usize = 64 * 1024;

/// Of an input that is being written, its beginning is kept, in bytes.
const WRITTEN: usize = 2048;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) name: String,
    /// One line for a person.
    pub(crate) summary: String,
    pub(crate) input: Input,
    pub(crate) state: CallState,
    /// What it printed so far, its end at least; then its result. Cleaned of nothing.
    pub(crate) output: String,
    pub(crate) changes: Vec<Change>,
    /// Lines added and taken away by the changes.
    pub(crate) tally: (usize, usize),
    /// Lines of each change's diff.
    pub(crate) lengths: Vec<usize>,
    pub(crate) kept: Option<Kept>,
    /// What goes on of it.
    pub(crate) background: Option<BackgroundJob>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CallState {
    /// The model is still writing its input.
    Written,
    /// It has not begun.
    Waiting,
    Running,
    Ended {
        is_error: bool,
        millis: u64,
    },
    /// Its turn was over before it was.
    CutOff,
}

/// What a call was asked to do, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Input {
    /// As far as it is written.
    Part {
        start: String,
        bytes: usize,
    },
    Command(String),
    File {
        path: String,
        content: String,
    },
    Plan(Vec<Step>),
    /// Anything else, indented.
    Json(String),
    /// The summary says it all.
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) title: String,
    pub(crate) progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Pending,
    Active,
    Done,
}

impl Call {
    /// One whose input is being written.
    pub(super) fn written(id: &CallId, name: &str) -> Self {
        Self {
            id: id.clone(),
            name: clean(name).into_owned(),
            summary: summary::of_part(name, ""),
            input: Input::Part {
                start: String::new(),
                bytes: 0,
            },
            state: CallState::Written,
            output: String::new(),
            changes: Vec::new(),
            tally: (0, 0),
            lengths: Vec::new(),
            kept: None,
            background: None,
        }
    }

    /// A piece of its input, as JSON text.
    pub(super) fn write(&mut self, json: &str) {
        let Input::Part { start, bytes } = &mut self.input else {
            return;
        };
        *bytes += json.len();
        let room = WRITTEN.saturating_sub(start.len());
        if room > 0 {
            start.push_str(&json[..json.floor_char_boundary(room)]);
            self.summary = summary::of_part(&self.name, start);
        }
    }

    /// The whole input.
    pub(super) fn ask(&mut self, input: &Value) {
        self.summary = summary::of(&self.name, input);
        self.input = Input::of(&self.name, input);
        if self.state == CallState::Written {
            self.state = CallState::Waiting;
        }
    }

    pub(super) fn print(&mut self, text: &str) {
        let text = &text[text.ceil_char_boundary(text.len().saturating_sub(LIVE))..];
        self.output.push_str(text);
        // Dropped in large pieces, so that a byte is moved once.
        if self.output.len() > 2 * LIVE {
            let cut = self.output.ceil_char_boundary(self.output.len() - LIVE);
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
        matches!(self.state, CallState::Ended { .. } | CallState::CutOff)
    }

    pub(super) fn is_failed(&self) -> bool {
        matches!(self.state, CallState::Ended { is_error: true, .. })
    }

    /// Its result ends with a line that says how the command ended.
    fn has_ending(&self) -> bool {
        matches!(self.name.as_str(), "bash" | "bash_job")
            && matches!(self.state, CallState::Ended { .. })
    }

    /// What it printed, without what the harness says of its end.
    pub(super) fn printed(&self) -> &str {
        if !self.has_ending() {
            return &self.output;
        }
        let text = self.output.trim_end_matches('\n');
        text.rfind('\n').map_or("", |end| &self.output[..=end])
    }

    /// How it ended, if that is worth a word beside the summary.
    pub(super) fn ending(&self) -> Option<String> {
        if self.state == CallState::CutOff {
            return Some("cut off".to_owned());
        }
        if !self.has_ending() {
            return None;
        }
        let line = self.output.trim_end().rsplit('\n').next()?;
        let line = clean(line);
        if let Some(code) = line.strip_prefix("exit code: ") {
            return (code != "0").then(|| format!("exit code {code}"));
        }
        if let Some(rest) = line.strip_prefix("running in the background as job ") {
            let job: String = rest.chars().take_while(char::is_ascii_digit).collect();
            return Some(format!("goes on as job {job}"));
        }
        let (start, _) = line.split_once(':').unwrap_or((&line, ""));
        (line.starts_with("killed by") || start == "interrupted").then(|| start.to_owned())
    }

    /// All that it holds.
    pub(super) fn bytes(&self) -> usize {
        let input = match &self.input {
            Input::Part { .. } | Input::Nothing => 0,
            Input::Command(text) | Input::Json(text) => text.len(),
            Input::File { content, .. } => content.len(),
            Input::Plan(steps) => steps.len() * 40,
        };
        let changes = self.changes.iter().filter_map(|change| change.diff.as_ref());
        input + self.output.len() + changes.map(String::len).sum::<usize>()
    }

    pub(super) fn opens(&self) -> bool {
        self.bytes() > 0 || self.kept.is_some() || self.background.is_some()
    }

    /// What it was asked, and what came of it.
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

    /// Everything that it changed.
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

impl Input {
    fn of(name: &str, input: &Value) -> Self {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let cleaned = |text: &str| clean(text).into_owned();
        match name {
            "bash" => match text("command") {
                Some(command) if summary::is_whole(command) => Self::Nothing,
                Some(command) => Self::Command(cleaned(command)),
                None => Self::json(input),
            },
            "write_file" => match (text("path"), text("content")) {
                (Some(path), Some(content)) => Self::File {
                    path: cleaned(path),
                    content: cleaned(content),
                },
                _ => Self::json(input),
            },
            "plan" => match input.get("steps").and_then(Value::as_array) {
                Some(steps) => Self::Plan(steps.iter().map(Step::of).collect()),
                None => Self::json(input),
            },
            "read_file" | "list_files" | "bash_job" => Self::Nothing,
            _ => Self::json(input),
        }
    }

    fn json(input: &Value) -> Self {
        match input {
            Value::Null => Self::Nothing,
            Value::Object(fields) if fields.is_empty() => Self::Nothing,
            // Newlines inside of texts are easier to read as such.
            _ => Self::Json(
                clean(&format!("{input:#}"))
                    .replace("\\n", "\n")
                    .replace("\\\"", "\""),
            ),
        }
    }
}

impl Step {
    fn of(step: &Value) -> Self {
        let text = |key: &str| step.get(key).and_then(Value::as_str).unwrap_or_default();
        Self {
            title: summary::one_line(text("title")),
            progress: match text("status") {
                "done" => Progress::Done,
                "active" => Progress::Active,
                _ => Progress::Pending,
            },
        }
    }
}
