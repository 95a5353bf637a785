//! The input of a call, as it is shown. Pure.

use protocol::{CallSummary, ShownInput, ShownOutput};
use serde_json::Value;

use super::summary;
use crate::text::clean;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Input {
    /// Still being streamed.
    Part {
        start: String,
        bytes: usize,
    },
    /// One argument, which is code or another text.
    Text {
        /// A language, or a file name with its extension.
        language: String,
        text: String,
    },
    Plan(Vec<Step>),
    /// Anything else, indented.
    Json(String),
    /// The title shows everything.
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

impl Input {
    /// As the summary of the tool says.
    pub(super) fn of(summary: &CallSummary, input: &Value) -> Self {
        let steps = input.get("steps").and_then(Value::as_array);
        if let (ShownOutput::Plan, Some(steps)) = (summary.output, steps) {
            return Self::Plan(steps.iter().map(Step::of).collect());
        }
        match &summary.input {
            ShownInput::Nothing => Self::Nothing,
            ShownInput::Argument { name, language } => {
                match input.get(name).and_then(Value::as_str) {
                    Some(text) => Self::Text {
                        language: clean(language).into_owned(),
                        text: clean(text).into_owned(),
                    },
                    None => Self::json(input),
                }
            }
            ShownInput::All => Self::json(input),
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
