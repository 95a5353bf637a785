//! Detects a model that repeats itself: the same call with the same result, again and again. Pure.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol::Block;
use tools::ToolOutput;

use crate::step::ToolCall;

/// How many recent calls are compared, so that loops over several calls are detected too.
const RECENT_CALLS: usize = 24;

/// From this repetition on, the model is warned.
const WARN_AFTER_REPEATS: usize = 4;

/// At this repetition, the turn ends.
const END_AFTER_REPEATS: usize = 8;

/// Hashes of the most recent calls and their results.
#[derive(Debug, Default)]
pub(crate) struct RepetitionDetector {
    recent: VecDeque<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RepetitionVerdict {
    Fine,
    /// A note for the model.
    Warn(String),
    /// A reason for the user.
    End(String),
}

impl RepetitionDetector {
    /// Adds a call and judges it.
    pub(crate) fn add(&mut self, call: &ToolCall, output: &ToolOutput) -> RepetitionVerdict {
        let ToolCall { name, input, .. } = call;
        // Polling a job repeats by design.
        if name == "bash_job" && input["action"] == "poll" && !output.is_error {
            return RepetitionVerdict::Fine;
        }
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        input.to_string().hash(&mut hasher);
        for block in &output.content {
            match block {
                Block::Text { text, .. } => text.hash(&mut hasher),
                other => serde_json::to_string(other)
                    .unwrap_or_default()
                    .hash(&mut hasher),
            }
        }
        let hash = hasher.finish();
        let times = 1 + self.recent.iter().filter(|seen| **seen == hash).count();
        self.recent.push_back(hash);
        if self.recent.len() > RECENT_CALLS {
            self.recent.pop_front();
        }
        match times {
            END_AFTER_REPEATS.. => RepetitionVerdict::End(format!(
                "the model called `{name}` {times} times with the same input and the same result"
            )),
            WARN_AFTER_REPEATS.. => RepetitionVerdict::Warn(format!(
                "You have called `{name}` {times} times with the same input and got the same \
                 result each time. Doing it again will not help: try something else, or say what \
                 blocks you."
            )),
            _ => RepetitionVerdict::Fine,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(
        repetition: &mut RepetitionDetector,
        name: &str,
        input: &Value,
        result: &str,
    ) -> RepetitionVerdict {
        let call = ToolCall {
            id: "a".into(),
            name: name.to_owned(),
            input: input.clone(),
            broken: None,
        };
        repetition.add(&call, &ToolOutput::text(result))
    }

    #[test]
    fn a_repeated_call_is_warned_about_and_then_ends_the_turn() {
        let mut repetition = RepetitionDetector::default();
        let input = json!({"command": "make"});
        for time in 1..=END_AFTER_REPEATS {
            let verdict = check(&mut repetition, "bash", &input, "error");
            let expect = match time {
                END_AFTER_REPEATS.. => matches!(verdict, RepetitionVerdict::End(_)),
                WARN_AFTER_REPEATS.. => matches!(verdict, RepetitionVerdict::Warn(_)),
                _ => verdict == RepetitionVerdict::Fine,
            };
            assert!(expect, "{time}: {verdict:?}");
        }
    }

    #[test]
    fn loops_over_several_calls_are_detected() {
        let mut repetition = RepetitionDetector::default();
        let mut last = RepetitionVerdict::Fine;
        for round in 0..END_AFTER_REPEATS {
            for name in ["read_file", "edit_file", "bash"] {
                last = check(&mut repetition, name, &json!({}), "x");
            }
            assert!(
                round >= WARN_AFTER_REPEATS - 1 || last == RepetitionVerdict::Fine,
                "{round}"
            );
        }
        assert!(matches!(last, RepetitionVerdict::End(_)));
    }

    #[test]
    fn a_new_result_is_progress() {
        let mut repetition = RepetitionDetector::default();
        for time in 0..100 {
            let verdict = check(&mut repetition, "bash", &json!({}), &format!("{time} left"));
            assert_eq!(verdict, RepetitionVerdict::Fine);
        }
    }
}
