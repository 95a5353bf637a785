//! Detects a model that repeats itself: the same call with the same result, again and again. Pure.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol::Block;
use tools::ToolOutput;

use crate::step::Call;

/// How many recent calls are compared, so that loops over several calls are detected too.
const WINDOW: usize = 24;

/// From this repetition on, the model is told.
const TOLD_AT: usize = 4;

/// At this repetition, the turn ends.
const ENDED_AT: usize = 8;

/// Hashes of the most recent calls and their results.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    recent: VecDeque<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    /// A note for the model.
    Tell(String),
    /// A reason for the user.
    End(String),
}

impl Repetition {
    /// Adds a call and judges it.
    pub(crate) fn note(&mut self, call: &Call, output: &ToolOutput) -> Verdict {
        let Call { name, input, .. } = call;
        // Polling a job repeats by design.
        if name == "bash_job" && input["action"] == "poll" && !output.is_error {
            return Verdict::Fine;
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
        let print = hasher.finish();
        let times = 1 + self.recent.iter().filter(|seen| **seen == print).count();
        self.recent.push_back(print);
        if self.recent.len() > WINDOW {
            self.recent.pop_front();
        }
        match times {
            ENDED_AT.. => Verdict::End(format!(
                "the model called `{name}` {times} times with the same input and the same result"
            )),
            TOLD_AT.. => Verdict::Tell(format!(
                "You have called `{name}` {times} times with the same input and got the same \
                 result each time. Doing it again will not help: try something else, or say what \
                 blocks you."
            )),
            _ => Verdict::Fine,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn note(repetition: &mut Repetition, name: &str, input: &Value, result: &str) -> Verdict {
        let call = Call {
            id: "a".into(),
            name: name.to_owned(),
            input: input.clone(),
            broken: None,
        };
        repetition.note(&call, &ToolOutput::text(result))
    }

    #[test]
    fn the_same_again_is_told_and_then_ended() {
        let mut repetition = Repetition::default();
        let input = json!({"command": "make"});
        for time in 1..=ENDED_AT {
            let verdict = note(&mut repetition, "bash", &input, "error");
            let expect = match time {
                ENDED_AT.. => matches!(verdict, Verdict::End(_)),
                TOLD_AT.. => matches!(verdict, Verdict::Tell(_)),
                _ => verdict == Verdict::Fine,
            };
            assert!(expect, "{time}: {verdict:?}");
        }
    }

    #[test]
    fn circles_of_several_calls_are_seen() {
        let mut repetition = Repetition::default();
        let mut last = Verdict::Fine;
        for round in 0..ENDED_AT {
            for name in ["read_file", "edit_file", "bash"] {
                last = note(&mut repetition, name, &json!({}), "x");
            }
            assert!(round >= TOLD_AT - 1 || last == Verdict::Fine, "{round}");
        }
        assert!(matches!(last, Verdict::End(_)));
    }

    #[test]
    fn another_result_is_progress() {
        let mut repetition = Repetition::default();
        for time in 0..100 {
            let verdict = note(&mut repetition, "bash", &json!({}), &format!("{time} left"));
            assert_eq!(verdict, Verdict::Fine);
        }
    }
}
