//! Converts an answer to the steps to perform on the connection. Pure; [`crate::serve`] performs
//! them.

use bytes::Bytes;
use llm::script::{ScriptedError, ScriptedReply};
use serde_json::Value;

use crate::answer::{AnswerKind, RawChunk, ScriptedAnswer};
use crate::framing::Framing;
use crate::wire::{ModelApi, ReplyContext, WireEvent, anthropic, openai};

#[derive(Debug)]
pub(crate) struct ResponsePlan {
    pub(crate) status: u16,
    /// In order. A later header replaces an earlier one of the same name.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) steps: Vec<RawChunk>,
}

const JSON_CONTENT_TYPE: &str = "application/json";
const EVENTS_CONTENT_TYPE: &str = "text/event-stream; charset=utf-8";

/// `None` to close the connection. `speech` provides the context of a scripted reply.
pub(crate) fn plan<'a>(
    answer: &'a ScriptedAnswer,
    wire: ModelApi,
    framing: Framing,
    speech: impl FnOnce(&'a ScriptedReply) -> ReplyContext<'a>,
) -> Option<ResponsePlan> {
    let framing = answer.framing.unwrap_or(framing);
    let mut plan = match &answer.kind {
        AnswerKind::HangUp => return None,
        AnswerKind::Raw(chunks) => {
            ResponsePlan::new(200, EVENTS_CONTENT_TYPE, framing.cut(chunks.clone()))
        }
        AnswerKind::Reply(reply) => match &reply.error {
            Some(error) if error.after.is_none() => plan_error(wire, error),
            error => {
                let speech = speech(reply);
                let is_stream =
                    speech.asked.stream && !(wire == ModelApi::OpenAi && speech.dialect.no_stream);
                if is_stream {
                    plan_stream(answer, wire, framing, &speech, error.as_ref())
                } else {
                    plan_unstreamed(wire, &speech)
                }
            }
        },
    };
    if let AnswerKind::Reply(reply) = &answer.kind
        && !reply.delay().is_zero()
    {
        plan.steps.insert(0, RawChunk::Pause(reply.delay()));
    }
    plan.status = answer.status.unwrap_or(plan.status);
    plan.headers.extend(answer.headers.iter().cloned());
    Some(plan)
}

impl ResponsePlan {
    fn new(status: u16, content_type: &str, steps: Vec<RawChunk>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            steps,
        }
    }

    fn json(status: u16, body: &Value) -> Self {
        Self::new(
            status,
            JSON_CONTENT_TYPE,
            vec![RawChunk::bytes(body.to_string())],
        )
    }
}

/// An error instead of the reply.
pub(crate) fn plan_error(wire: ModelApi, error: &ScriptedError) -> ResponsePlan {
    let body = match wire {
        ModelApi::Anthropic => anthropic::error(error),
        ModelApi::OpenAi => openai::error(error),
    };
    let mut plan = ResponsePlan::json(error.status, &body);
    plan.headers.extend(error.headers.iter().cloned());
    plan
}

/// The answer to a request that counts tokens.
pub(crate) fn count(tokens: u64) -> ResponsePlan {
    ResponsePlan::json(200, &serde_json::json!({"input_tokens": tokens}))
}

fn plan_unstreamed(wire: ModelApi, speech: &ReplyContext<'_>) -> ResponsePlan {
    let body = match wire {
        ModelApi::Anthropic => anthropic::message_object(speech),
        ModelApi::OpenAi => openai::whole(speech),
    };
    let mut plan = ResponsePlan::json(200, &body);
    if speech.reply.cut_after.is_some() {
        let text = Bytes::from(body.to_string());
        let half = text.slice(..text.len() / 2);
        plan.steps = vec![RawChunk::Bytes(half), RawChunk::Cut];
    }
    plan
}

fn plan_stream(
    answer: &ScriptedAnswer,
    wire: ModelApi,
    framing: Framing,
    speech: &ReplyContext<'_>,
    error: Option<&ScriptedError>,
) -> ResponsePlan {
    let mut events = match wire {
        ModelApi::Anthropic => anthropic::events(speech),
        ModelApi::OpenAi => openai::events(speech),
    };
    let cut = speech.reply.cut_after;
    if let Some(error) = error {
        events.truncate(error.after.unwrap_or(0));
        events.push(match wire {
            ModelApi::Anthropic => anthropic::error_event(error),
            ModelApi::OpenAi => openai::error_event(error),
        });
    }
    let lengths = [cut, answer.end_after].into_iter().flatten();
    events.truncate(lengths.min().unwrap_or(usize::MAX));
    let mut steps = interleave(answer, framing, speech, events);
    if cut.is_some() {
        steps.push(RawChunk::Cut);
    }
    ResponsePlan::new(200, EVENTS_CONTENT_TYPE, framing.cut(steps))
}

/// The events with everything that comes between them. Insertions beyond the last event go to the
/// end.
fn interleave(
    answer: &ScriptedAnswer,
    framing: Framing,
    speech: &ReplyContext<'_>,
    events: Vec<WireEvent>,
) -> Vec<RawChunk> {
    let count = events.len();
    let between = |place: usize, steps: &mut Vec<RawChunk>| {
        let is_here = |after: usize| after.min(count) == place;
        for (after, bytes) in &answer.inserts {
            if is_here(*after) {
                steps.push(RawChunk::Bytes(bytes.clone()));
            }
        }
        for (after, gate) in &answer.holds {
            if is_here(*after) {
                steps.push(RawChunk::Hold(gate.clone()));
            }
        }
    };
    let mut steps = Vec::with_capacity(count);
    for (place, event) in events.into_iter().enumerate() {
        between(place, &mut steps);
        if event.paced && !speech.reply.pace().is_zero() {
            steps.push(RawChunk::Pause(speech.reply.pace()));
        }
        steps.push(RawChunk::Bytes(framing.convert_line_ends(event.text)));
    }
    between(count, &mut steps);
    steps
}
