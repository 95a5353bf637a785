//! What to do after a reply. Pure: the whole of the agent's control flow, on one page.

use std::collections::BTreeMap;

use protocol::{Block, CallId, Outcome, Stop};
use serde_json::Value;

/// Replies cut by the token limit that are followed by another try.
const MOST_CUTS: u32 = 3;

/// How often a provider may pause one turn.
const MOST_PAUSES: u32 = 20;

/// A tool call to run, or not to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) name: String,
    pub(crate) input: Value,
    /// Why it must not be run.
    pub(crate) broken: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Run these, and ask again with their results.
    Call(Vec<Call>),
    /// Ask again, with a word of our own if there is one.
    Ask { note: Option<&'static str> },
    End(Outcome),
}

/// What came before, in this turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// Replies in a row that the token limit cut.
    pub(crate) cuts: u32,
    /// Pauses in a row.
    pub(crate) pauses: u32,
}

const GO_ON: &str = "Your reply was cut off by the token limit. Go on from where it stopped.";

pub(crate) fn next_step(
    run: &mut Run,
    content: &[Block],
    stop: &Stop,
    broken: &BTreeMap<CallId, String>,
) -> Step {
    let failed = |reason: &str| {
        Step::End(Outcome::Failed {
            reason: reason.to_owned(),
        })
    };
    run.cuts = if *stop == Stop::MaxTokens { run.cuts + 1 } else { 0 };
    run.pauses = if *stop == Stop::PauseTurn { run.pauses + 1 } else { 0 };
    match stop {
        Stop::Refusal => return failed("the model refused"),
        Stop::Interrupted => return Step::End(Outcome::Interrupted),
        Stop::MaxTokens if run.cuts > MOST_CUTS => {
            return failed("the model's replies were cut off by the token limit again and again");
        }
        Stop::PauseTurn if run.pauses > MOST_PAUSES => {
            return failed("the provider paused the turn again and again");
        }
        _ => {}
    }
    // Some servers say `stop` although there are calls: what is there decides.
    let calls = calls(content, broken);
    if !calls.is_empty() {
        return Step::Call(calls);
    }
    match stop {
        Stop::MaxTokens => Step::Ask { note: Some(GO_ON) },
        Stop::PauseTurn => Step::Ask { note: None },
        Stop::ModelContextWindowExceeded => failed("the conversation fills the model's window"),
        _ => Step::End(Outcome::Done),
    }
}

fn calls(content: &[Block], broken: &BTreeMap<CallId, String>) -> Vec<Call> {
    let call = |block: &Block| match block {
        Block::ToolUse { id, name, input } => Some(Call {
            id: id.clone(),
            name: name.clone(),
            input: input.clone(),
            broken: broken.get(id).cloned(),
        }),
        _ => None,
    };
    content.iter().filter_map(call).collect()
}
