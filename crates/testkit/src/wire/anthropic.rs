//! The Messages API: a reply as events or as one object, and errors.

use llm::script::ScriptedError;
use serde_json::{Value, json};

use super::{ReplyContext, WireEvent, input, pieces, sign, words};

pub(crate) fn events(speech: &ReplyContext<'_>) -> Vec<WireEvent> {
    let usage = speech.usage();
    let mut stream = EventBuilder::default();
    stream.push(
        "message_start",
        json!({"type": "message_start", "message": {
            "id": format!("msg_{}", speech.serial()),
            "type": "message",
            "role": "assistant",
            "model": speech.asked.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {
                "input_tokens": usage.input_tokens,
                "cache_creation_input_tokens": usage.cache_creation_input_tokens,
                "cache_read_input_tokens": usage.cache_read_input_tokens,
                // As the service does: the tokens produced when the first event is sent.
                "output_tokens": usage.output_tokens.min(1),
            },
        }}),
    );
    if let Some(thinking) = &speech.reply.thinking {
        stream.begin(json!({"type": "thinking", "thinking": "", "signature": ""}));
        for word in words(thinking) {
            stream.word(json!({"type": "thinking_delta", "thinking": word}));
        }
        stream.delta(json!({"type": "signature_delta", "signature": sign(thinking)}));
        stream.end();
    }
    if let Some(text) = &speech.reply.text {
        stream.begin(json!({"type": "text", "text": ""}));
        for word in words(text) {
            stream.word(json!({"type": "text_delta", "text": word}));
        }
        stream.end();
    }
    for (place, call) in speech.reply.calls.iter().enumerate() {
        let id = speech.call_id(place);
        stream.begin(json!({"type": "tool_use", "id": id, "name": call.tool, "input": {}}));
        stream.delta(json!({"type": "input_json_delta", "partial_json": ""}));
        let input = input(call);
        // The service sends nothing for an empty input.
        for piece in pieces(if input == "{}" { "" } else { &input }) {
            stream.delta(json!({"type": "input_json_delta", "partial_json": piece}));
        }
        stream.end();
    }
    stream.push(
        "message_delta",
        json!({
            "type": "message_delta",
            "delta": {"stop_reason": speech.reply.stop(), "stop_sequence": null},
            "usage": usage,
        }),
    );
    stream.push("message_stop", json!({"type": "message_stop"}));
    stream.events
}

/// The reply to a request without streaming.
pub(crate) fn message_object(speech: &ReplyContext<'_>) -> Value {
    let mut content = Vec::new();
    if let Some(thinking) = &speech.reply.thinking {
        let signature = sign(thinking);
        content.push(json!({"type": "thinking", "thinking": thinking, "signature": signature}));
    }
    if let Some(text) = &speech.reply.text {
        content.push(json!({"type": "text", "text": text}));
    }
    for (place, call) in speech.reply.calls.iter().enumerate() {
        let input = serde_json::from_str(&input(call)).unwrap_or(Value::Null);
        content.push(json!({
            "type": "tool_use", "id": speech.call_id(place), "name": call.tool, "input": input,
        }));
    }
    json!({
        "id": format!("msg_{}", speech.serial()),
        "type": "message",
        "role": "assistant",
        "model": speech.asked.model,
        "content": content,
        "stop_reason": speech.reply.stop(),
        "stop_sequence": null,
        "usage": speech.usage(),
    })
}

pub(crate) fn error(error: &ScriptedError) -> Value {
    json!({"type": "error", "error": {"type": error.kind, "message": error.message}})
}

pub(crate) fn error_event(scripted: &ScriptedError) -> WireEvent {
    WireEvent {
        text: format_event("error", &error(scripted)),
        paced: false,
    }
}

fn format_event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

#[derive(Default)]
struct EventBuilder {
    events: Vec<WireEvent>,
    block: usize,
    words: usize,
}

impl EventBuilder {
    fn push(&mut self, name: &str, data: Value) {
        self.events.push(WireEvent {
            text: format_event(name, &data),
            paced: false,
        });
    }

    fn begin(&mut self, block: Value) {
        let index = self.block;
        self.push(
            "content_block_start",
            json!({"type": "content_block_start", "index": index, "content_block": block}),
        );
        if index == 0 {
            self.push("ping", json!({"type": "ping"}));
        }
        self.words = 0;
    }

    fn delta(&mut self, delta: Value) {
        let index = self.block;
        self.push(
            "content_block_delta",
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
        );
    }

    fn word(&mut self, delta: Value) {
        self.delta(delta);
        if let Some(event) = self.events.last_mut() {
            event.paced = self.words > 0;
        }
        self.words += 1;
    }

    fn end(&mut self) {
        let index = self.block;
        self.push(
            "content_block_stop",
            json!({"type": "content_block_stop", "index": index}),
        );
        self.block += 1;
    }
}
