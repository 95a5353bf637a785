//! Replaces the conversation by a summary that the model writes. A summary that is incomplete or not
//! shorter is refused, and the conversation stays as it is.

use llm::ModelReply;
use protocol::{Block, EventKind, Stop};

use crate::conversation::Conversation;
use crate::error::AgentError;
use crate::event_log::EventRecorder;
use crate::model_request::ReplyOutcome;
use crate::session_model::SessionModel;
use crate::stopper::TurnStopper;

const SUMMARY_INSTRUCTION: &str = "\
The conversation so far is about to be replaced by a summary, which you write now. You will continue \
with nothing but the user's first request and this summary, so put everything into it that you \
need, and nothing else:

- the task as it was given, with everything that was asked, corrected or added later;
- decisions and their reasons;
- the state of the files: which exist, were created or changed, and which content matters;
- what was tried and failed, with the errors, so that it is not tried again;
- what is left to do, and what comes next.

Answer with the summary alone, as plain text. Call no tools.";

/// Refuses if there is nothing to summarize or no budget left for it.
pub(crate) fn check_can_compact(
    conversation: &Conversation,
    model: &SessionModel,
) -> Result<(), AgentError> {
    if conversation.messages().is_empty() {
        return Err(AgentError::NothingToCompact);
    }
    if model.exceeded().is_some() {
        let reason = "the budget is used up".to_owned();
        return Err(AgentError::NotCompacted(reason));
    }
    Ok(())
}

/// Has the model write a summary, and replaces the conversation by it.
pub(crate) async fn compact(
    model: &mut SessionModel,
    recorder: &mut EventRecorder,
    stopper: &TurnStopper,
) -> Result<(), AgentError> {
    let conversation = &recorder.conversation;
    let turn = conversation.last_turn();
    let mut asked = conversation.clone();
    asked.apply(&EventKind::Noted {
        text: SUMMARY_INSTRUCTION.to_owned(),
    });
    let started = EventKind::RequestStarted { turn, request: 1 };
    recorder.send(started).await;
    let is_retry = |kind: &EventKind| matches!(kind, EventKind::Retrying { .. });
    let sender = recorder.sender();
    let outcome = model
        .request_reply(asked.messages(), sender, is_retry, stopper)
        .await;
    let (cost, summary) = match outcome {
        ReplyOutcome::Replied(reply) => {
            let summary = validate_summary(conversation, &reply);
            (model.charge(reply.usage), summary.map(|text| (text, reply)))
        }
        ReplyOutcome::Failed(error) => (None, Err(error.message)),
        ReplyOutcome::Stopped(partial) => {
            let cost = model.charge(partial.sum());
            (cost, Err("it was interrupted".to_owned()))
        }
    };
    model.send_spending(sender).await;
    let (summary, reply) = summary.map_err(AgentError::NotCompacted)?;
    recorder
        .record(EventKind::Compacted {
            summary,
            usage: reply.usage,
            cost,
            model: reply.model,
        })
        .await
}

/// The summary in a reply, or why there is none. Pure.
fn validate_summary(conversation: &Conversation, reply: &ModelReply) -> Result<String, String> {
    let is_call = |block: &Block| matches!(block, Block::ToolUse { .. });
    let texts: Vec<&str> = reply.content.iter().filter_map(Block::as_text).collect();
    let summary = texts.join("\n\n").trim().to_owned();
    let why = match reply.stop {
        Stop::MaxTokens | Stop::ModelContextWindowExceeded | Stop::PauseTurn => {
            "the model's summary was cut off"
        }
        Stop::Refusal => "the model refused",
        Stop::Interrupted => "it was interrupted",
        _ if reply.content.iter().any(is_call) => "the model called tools instead",
        _ if summary.is_empty() => "the model's summary is empty",
        _ if conversation.with_summary(&summary).size() >= conversation.size() => {
            "the model's summary is not shorter than the conversation"
        }
        _ => return Ok(summary),
    };
    Err(why.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::Usage;
    use serde_json::json;

    use super::*;

    fn conversation(words: &str) -> Conversation {
        let started = EventKind::TurnStarted {
            turn: 1,
            prompt: vec![Block::text("Do it.")],
        };
        let replied = EventKind::Replied {
            turn: 1,
            content: vec![Block::text(words)],
            stop: Stop::EndTurn,
            broken_calls: Default::default(),
            usage: Usage::default(),
            cost: None,
            model: "m".into(),
        };
        Conversation::fold(&[started, replied])
    }

    #[test]
    fn only_a_complete_and_shorter_text_is_a_summary() {
        let long = "word ".repeat(1000);
        let check = |content: &[Block], stop: Stop, expect: Result<&str, &str>| {
            let reply = ModelReply {
                content: content.to_vec(),
                stop,
                broken_calls: Default::default(),
                usage: Usage::default(),
                model: "m".into(),
            };
            let validated = validate_summary(&conversation(&long), &reply);
            let expect = expect.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(validated, expect, "{content:?}");
        };
        let text = [Block::text("All is done.\n")];
        let call = Block::ToolUse {
            id: "a".into(),
            name: "bash".into(),
            input: json!({}),
        };
        check(&text, Stop::EndTurn, Ok("All is done."));
        check(&text, Stop::Other("new".into()), Ok("All is done."));
        check(
            &text,
            Stop::MaxTokens,
            Err("the model's summary was cut off"),
        );
        check(&text, Stop::Refusal, Err("the model refused"));
        check(&[], Stop::EndTurn, Err("the model's summary is empty"));
        let blank = [Block::text(" \n")];
        check(&blank, Stop::EndTurn, Err("the model's summary is empty"));
        let both = [text[0].clone(), call];
        let calls = Err("the model called tools instead");
        check(&both, Stop::ToolUse, calls);
        let longer = [Block::text(format!("{long} and more"))];
        let not_shorter = Err("the model's summary is not shorter than the conversation");
        check(&longer, Stop::EndTurn, not_shorter);
    }
}
