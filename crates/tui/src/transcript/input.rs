//! What a call was asked to do, as it is shown. Pure.

use serde_json::Value;

use super::summary;
use crate::text::clean;

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

impl Input {
    pub(super) fn of(name: &str, input: &Value) -> Self {
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
