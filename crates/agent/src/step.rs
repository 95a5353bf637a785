//! Decides what follows a reply. Pure: the agent's whole control flow on one page.

use std::collections::BTreeMap;

use protocol::{Block, CallId, Outcome, Stop};
use serde_json::Value;

/// Consecutive replies cut off by the token limit before the turn fails.
const MAX_CUT_REPLIES: u32 = 3;

/// Consecutive pauses of a turn by the provider before it fails.
const MAX_PAUSES: u32 = 20;

/// A tool call of a reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) id: CallId,
    pub(crate) name: String,
    pub(crate) input: Value,
    /// Why the call must not be run.
    pub(crate) broken: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TurnStep {
    /// Run these calls, and ask again with their results.
    Call(Vec<ToolCall>),
    /// Ask again, with a note to the model if there is one.
    Ask {
        note: Option<&'static str>,
    },
    End(Outcome),
}

/// Counters of one turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TurnCounters {
    /// Consecutive replies cut off by the token limit.
    pub(crate) cuts: u32,
    /// Consecutive pauses.
    pub(crate) pauses: u32,
}

const CONTINUE_NOTE: &str =
    "Your reply was cut off by the token limit. Go on from where it stopped.";

pub(crate) fn next_step(
    counters: &mut TurnCounters,
    content: &[Block],
    stop: &Stop,
    broken: &BTreeMap<CallId, String>,
) -> TurnStep {
    let failed = |reason: &str| {
        TurnStep::End(Outcome::Failed {
            reason: reason.to_owned(),
        })
    };
    counters.cuts = if *stop == Stop::MaxTokens {
        counters.cuts + 1
    } else {
        0
    };
    counters.pauses = if *stop == Stop::PauseTurn {
        counters.pauses + 1
    } else {
        0
    };
    match stop {
        Stop::Refusal => return failed("the model refused"),
        Stop::Interrupted => return TurnStep::End(Outcome::Interrupted),
        Stop::MaxTokens if counters.cuts > MAX_CUT_REPLIES => {
            return failed("the model's replies were cut off by the token limit too many times");
        }
        Stop::PauseTurn if counters.pauses > MAX_PAUSES => {
            return failed("the provider paused the turn too many times");
        }
        _ => {}
    }
    // Some servers report `stop` although there are calls: the content decides.
    let calls = calls(content, broken);
    if !calls.is_empty() {
        return TurnStep::Call(calls);
    }
    match stop {
        Stop::MaxTokens => TurnStep::Ask {
            note: Some(CONTINUE_NOTE),
        },
        Stop::PauseTurn => TurnStep::Ask { note: None },
        Stop::ModelContextWindowExceeded => {
            failed("the conversation exceeds the model's context window")
        }
        _ => TurnStep::End(Outcome::Done),
    }
}

/// The calls of a reply, in order.
pub(crate) fn calls(content: &[Block], broken: &BTreeMap<CallId, String>) -> Vec<ToolCall> {
    let call = |block: &Block| match block {
        Block::ToolUse { id, name, input } => Some(ToolCall {
            id: id.clone(),
            name: name.clone(),
            input: input.clone(),
            broken: broken.get(id).cloned(),
        }),
        _ => None,
    };
    content.iter().filter_map(call).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> Block {
        Block::ToolUse {
            id: id.into(),
            name: "bash".into(),
            input: json!({}),
        }
    }

    #[test]
    fn every_stop_reason_is_handled() {
        let check = |content: &[Block], stop: Stop, expect: &str| {
            let step = next_step(
                &mut TurnCounters::default(),
                content,
                &stop,
                &BTreeMap::new(),
            );
            let found = match step {
                TurnStep::Call(calls) => format!("call {}", calls.len()),
                TurnStep::Ask { note } => format!("ask {}", note.is_some()),
                TurnStep::End(Outcome::Done) => "done".to_owned(),
                TurnStep::End(Outcome::Failed { reason }) => reason,
                TurnStep::End(outcome) => format!("{outcome:?}"),
            };
            assert_eq!(found, expect, "{stop:?}");
        };
        let text = [Block::text("x")];
        let calls = [Block::text("x"), call("a"), call("b")];
        check(&text, Stop::EndTurn, "done");
        check(&[], Stop::EndTurn, "done");
        check(&text, Stop::StopSequence, "done");
        check(&text, Stop::Other("new".into()), "done");
        check(&calls, Stop::ToolUse, "call 2");
        check(&calls, Stop::EndTurn, "call 2");
        check(&calls, Stop::MaxTokens, "call 2");
        check(&text, Stop::ToolUse, "done");
        check(&text, Stop::MaxTokens, "ask true");
        check(&text, Stop::PauseTurn, "ask false");
        check(&text, Stop::Refusal, "the model refused");
        check(&calls, Stop::Refusal, "the model refused");
        check(
            &text,
            Stop::ModelContextWindowExceeded,
            "the conversation exceeds the model's context window",
        );
        check(&text, Stop::Interrupted, "Interrupted");
    }

    #[test]
    fn a_truncated_call_is_not_run() {
        let broken = BTreeMap::from([("b".into(), "cut".to_owned())]);
        let content = [call("a"), call("b")];
        let step = next_step(
            &mut TurnCounters::default(),
            &content,
            &Stop::MaxTokens,
            &broken,
        );
        let TurnStep::Call(calls) = step else {
            panic!("{step:?}");
        };
        assert_eq!(calls[0].broken, None);
        assert_eq!(calls[1].broken.as_deref(), Some("cut"));
    }

    #[test]
    fn truncated_and_paused_replies_are_limited() {
        for (stop, most) in [
            (Stop::MaxTokens, MAX_CUT_REPLIES),
            (Stop::PauseTurn, MAX_PAUSES),
        ] {
            let mut counters = TurnCounters::default();
            let text = [Block::text("x")];
            for _ in 0..most {
                let step = next_step(&mut counters, &text, &stop, &BTreeMap::new());
                assert!(matches!(step, TurnStep::Ask { .. }));
            }
            let step = next_step(&mut counters, &text, &stop, &BTreeMap::new());
            assert!(matches!(step, TurnStep::End(Outcome::Failed { .. })));
            // Another stop reason in between resets the counter.
            next_step(
                &mut counters,
                &[call("a")],
                &Stop::ToolUse,
                &BTreeMap::new(),
            );
            let step = next_step(&mut counters, &text, &stop, &BTreeMap::new());
            assert!(matches!(step, TurnStep::Ask { .. }));
        }
    }
}
