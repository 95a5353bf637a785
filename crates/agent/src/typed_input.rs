//! Text that an agent types into a background command, joined to the lines that a shell there would
//! read, even if they arrive in pieces. Entry type: [`TypedInput`].

use std::collections::HashMap;

use serde_json::Value;

use crate::approval_broker::ApprovalBroker;
use crate::permission::SHELL_JOB_TOOL;

/// Maximum number of jobs whose unfinished lines are remembered.
const MAX_TRACKED_JOBS: usize = 64;

/// Maximum bytes remembered of an unfinished line: more than any pattern of a rule has.
const MAX_UNFINISHED_LINE_BYTES: usize = 64 << 10;

/// Unfinished lines, by job number.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedLines(HashMap<u64, String>);

impl UnfinishedLines {
    fn get(&self, job: u64) -> &str {
        self.0.get(&job).map_or("", String::as_str)
    }

    fn set(&mut self, job: u64, mut line: String) {
        line.truncate(line.floor_char_boundary(MAX_UNFINISHED_LINE_BYTES));
        if line.is_empty() {
            self.0.remove(&job);
        } else if self.0.len() < MAX_TRACKED_JOBS || self.0.contains_key(&job) {
            self.0.insert(job, line);
        }
    }
}

/// The text that one call types.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TypedInput {
    job: u64,
    text: String,
}

impl TypedInput {
    /// `None` for a call that types nothing.
    pub(crate) fn of(tool: &str, arguments: &Value) -> Option<Self> {
        if tool != SHELL_JOB_TOOL {
            return None;
        }
        Some(Self {
            job: arguments["job"].as_u64().unwrap_or_default(),
            text: arguments["text"].as_str()?.to_owned(),
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The lines that this text completes, and the unfinished one at its end.
    pub(crate) fn lines(&self, broker: &ApprovalBroker) -> Vec<String> {
        let text = broker.unfinished(|unfinished| self.joined(unfinished));
        let lines = text.split('\n').map(str::trim);
        let mut lines: Vec<String> = lines
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect();
        lines.dedup();
        lines
    }

    /// Remembers the unfinished line, once the text is going to be typed.
    pub(crate) fn remember(self, broker: &ApprovalBroker) {
        broker.unfinished(|unfinished| {
            let text = self.joined(unfinished);
            let last = text.rsplit('\n').next().unwrap_or_default();
            unfinished.set(self.job, last.to_owned());
        });
    }

    fn joined(&self, unfinished: &UnfinishedLines) -> String {
        format!("{}{}", unfinished.get(self.job), self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_call_that_types_has_typed_text() {
        let check = |tool: &str, input: Value, expect: Option<(u64, &str)>| {
            let expect = expect.map(|(job, text)| TypedInput {
                job,
                text: text.to_owned(),
            });
            assert_eq!(TypedInput::of(tool, &input), expect, "{input}");
        };
        let write = json!({"job": 2, "action": "write", "text": "ls\n"});
        check("bash_job", write.clone(), Some((2, "ls\n")));
        check("bash_job", json!({"job": 2, "action": "poll"}), None);
        check("bash", write, None);
    }

    #[test]
    fn an_unfinished_line_is_bounded() {
        let mut unfinished = UnfinishedLines::default();
        unfinished.set(1, "é".repeat(MAX_UNFINISHED_LINE_BYTES));
        assert_eq!(unfinished.get(1).len(), MAX_UNFINISHED_LINE_BYTES);
        for job in 0..200 {
            unfinished.set(job, "x".into());
        }
        assert_eq!(unfinished.0.len(), MAX_TRACKED_JOBS);
        unfinished.set(1, String::new());
        assert_eq!(unfinished.get(1), "");
    }
}
