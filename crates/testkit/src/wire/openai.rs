//! Chat completions: a reply as chunks or as one object, and errors, in each dialect.

use llm::script::{ScriptedCall, ScriptedError};
use serde_json::{Map, Value, json};

use super::{ReplyContext, WireEvent, input, pieces, words};

pub(crate) fn events(speech: &ReplyContext<'_>) -> Vec<WireEvent> {
    let mut events = vec![chunk(speech, json!({"role": "assistant", "content": ""}))];
    if let Some(thinking) = &speech.reply.thinking {
        push_words(speech, "reasoning_content", thinking, &mut events);
    }
    if let Some(text) = &speech.reply.text {
        push_words(speech, "content", text, &mut events);
    }
    for (place, call) in speech.reply.calls.iter().enumerate() {
        for delta in deltas(speech, place, call) {
            events.push(chunk(speech, json!({"tool_calls": [delta]})));
        }
    }
    let mut last = object(speech, "chat.completion.chunk");
    last["choices"] = json!([{"index": 0, "delta": {}, "finish_reason": finish_reason_of(speech)}]);
    events.push(event(&last));
    if speech.wants_usage() {
        let mut counted = object(speech, "chat.completion.chunk");
        counted["choices"] = json!([]);
        counted["usage"] = usage(speech);
        events.push(event(&counted));
    }
    if !speech.dialect.no_done {
        events.push(WireEvent {
            text: "data: [DONE]\n\n".to_owned(),
            paced: false,
        });
    }
    events
}

/// The reply to a request without streaming, or of a server that does not stream.
pub(crate) fn whole(speech: &ReplyContext<'_>) -> Value {
    let mut message = json!({"role": "assistant", "content": speech.reply.text});
    if let Some(thinking) = &speech.reply.thinking {
        message["reasoning_content"] = json!(thinking);
    }
    if !speech.reply.calls.is_empty() {
        let call = |(place, call)| {
            let mut whole = json!({"type": "function"});
            if !speech.dialect.no_id {
                whole["id"] = json!(speech.call_id(place));
            }
            whole["function"] = function(speech, call);
            whole
        };
        message["tool_calls"] = speech.reply.calls.iter().enumerate().map(call).collect();
    }
    let mut object = object(speech, "chat.completion");
    object["choices"] =
        json!([{"index": 0, "message": message, "finish_reason": finish_reason_of(speech)}]);
    if !speech.dialect.no_usage {
        object["usage"] = usage(speech);
    }
    object
}

pub(crate) fn error(error: &ScriptedError) -> Value {
    json!({"error": {
        "message": error.message, "type": error.kind, "param": null, "code": null,
    }})
}

pub(crate) fn error_event(scripted: &ScriptedError) -> WireEvent {
    event(&error(scripted))
}

fn push_words(speech: &ReplyContext<'_>, field: &str, text: &str, events: &mut Vec<WireEvent>) {
    for (place, word) in words(text).enumerate() {
        let mut delta = Map::new();
        delta.insert(field.to_owned(), json!(word));
        let mut event = chunk(speech, Value::Object(delta));
        event.paced = place > 0;
        events.push(event);
    }
}

/// The pieces of a call in the dialect's form.
fn deltas(speech: &ReplyContext<'_>, place: usize, call: &ScriptedCall) -> Vec<Value> {
    let dialect = speech.dialect;
    let dressed = |is_first: bool, function: Value| {
        let mut delta = Map::new();
        if !dialect.missing_index {
            delta.insert("index".to_owned(), json!(place));
        }
        if !dialect.no_id && (is_first || dialect.repeated_id) {
            delta.insert("id".to_owned(), json!(speech.call_id(place)));
        }
        if is_first {
            delta.insert("type".to_owned(), json!("function"));
        }
        delta.insert("function".to_owned(), function);
        Value::Object(delta)
    };
    if dialect.arguments_at_once || dialect.object_arguments {
        return vec![dressed(true, function(speech, call))];
    }
    let mut deltas = vec![dressed(true, json!({"name": call.tool, "arguments": ""}))];
    for piece in pieces(&input(call)) {
        deltas.push(dressed(false, json!({"arguments": piece})));
    }
    deltas
}

fn function(speech: &ReplyContext<'_>, call: &ScriptedCall) -> Value {
    let text = input(call);
    let arguments = if speech.dialect.object_arguments {
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    } else {
        Value::String(text)
    };
    json!({"name": call.tool, "arguments": arguments})
}

fn finish_reason_of<'a>(speech: &ReplyContext<'a>) -> &'a str {
    match speech.reply.stop() {
        "end_turn" | "stop_sequence" => "stop",
        "tool_use" if speech.dialect.stop_despite_calls => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" => "length",
        "refusal" => "content_filter",
        other => other,
    }
}

fn usage(speech: &ReplyContext<'_>) -> Value {
    let usage = speech.usage();
    json!({
        "prompt_tokens": usage.input(),
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total(),
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_input_tokens},
    })
}

fn object(speech: &ReplyContext<'_>, kind: &str) -> Value {
    json!({
        "id": format!("chatcmpl-{}", speech.serial()),
        "object": kind,
        "created": 1_700_000_000,
        "model": speech.asked.model,
    })
}

fn chunk(speech: &ReplyContext<'_>, delta: Value) -> WireEvent {
    let mut object = object(speech, "chat.completion.chunk");
    object["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": null}]);
    event(&object)
}

fn event(data: &Value) -> WireEvent {
    WireEvent {
        text: format!("data: {data}\n\n"),
        paced: false,
    }
}
