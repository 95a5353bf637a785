//! Request bodies as a server receives them.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;

fn messages(messages: Value) -> Vec<Arc<Message>> {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    messages.into_iter().map(Arc::new).collect()
}

fn body(system: &[String], tools: &[ToolDefinition], history: Value) -> Value {
    let messages = messages(history);
    let body = CompletionBody {
        model: "qwen3",
        request: ModelRequest {
            system,
            tools,
            messages: &messages,
            max_tokens: 100,
        },
        limit: "max_tokens",
    };
    serde_json::from_slice(&serde_json::to_vec(&body).unwrap()).unwrap()
}

fn check(history: Value, expect: Value) {
    assert_eq!(body(&[], &[], history)["messages"], expect);
}

#[test]
fn a_body_says_what_the_request_says() {
    let tools = [ToolDefinition {
        name: "bash".into(),
        description: "runs".into(),
        input_schema: json!({"type": "object"}),
    }];
    let system = ["You are".to_owned(), String::new(), "brief".to_owned()];
    let history = json!([{"role": "user", "content": [{"type": "text", "text": "hello"}]}]);
    let expected = json!({
        "model": "qwen3",
        "max_tokens": 100,
        "stream": true,
        "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function":
            {"name": "bash", "description": "runs", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "You are\n\nbrief"},
            {"role": "user", "content": "hello"},
        ],
    });
    assert_eq!(body(&system, &tools, history), expected);
}

#[test]
fn calls_and_their_answers_are_translated() {
    check(
        json!([
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "from_the_future"},
                {"type": "text", "text": "I look"},
                {"type": "text", "text": "twice"},
                {"type": "tool_use", "id": "a", "name": "bash", "input": {"z": "\"q\"", "a": 1}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [
                    {"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
                {"type": "tool_result", "tool_use_id": "b", "content": [
                    {"type": "text", "text": "boom"}], "is_error": true},
                {"type": "text", "text": "and now?"},
            ]},
        ]),
        json!([
            {"role": "assistant", "content": "I look\n\ntwice", "tool_calls": [
                {"id": "a", "type": "function", "function":
                    {"name": "bash", "arguments": "{\"z\":\"\\\"q\\\"\",\"a\":1}"}},
                {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "one\n\ntwo"},
            {"role": "tool", "tool_call_id": "b", "content": "The call failed:\nboom"},
            {"role": "user", "content": "and now?"},
        ]),
    );
}

#[test]
fn pictures_follow_as_a_user_message() {
    let image = json!({"type": "image", "source":
        {"type": "base64", "media_type": "image/png", "data": "AA=="}});
    let url = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let caption = |id: &str| json!({"type": "text", "text": format!("Picture from the answer to call `{id}`:")});
    check(
        json!([{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content":
                [{"type": "text", "text": "shot"}, image]},
            {"type": "tool_result", "tool_use_id": "b", "content": [image]},
            {"type": "text", "text": "see"},
        ]}]),
        json!([
            {"role": "tool", "tool_call_id": "a", "content": "shot\n\n(its picture follows)"},
            {"role": "tool", "tool_call_id": "b", "content": "(its picture follows)"},
            {"role": "user", "content": [
                caption("a"), url, caption("b"), url, {"type": "text", "text": "see"}]},
        ]),
    );
    check(
        json!([{"role": "user", "content": [{"type": "text", "text": "see"}, image]}]),
        json!([{"role": "user", "content": [{"type": "text", "text": "see"}, url]}]),
    );
}

#[test]
fn nothing_is_sent_empty_that_servers_refuse_empty() {
    check(
        json!([
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "a", "name": "bash", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": []}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"}]},
        ]),
        json!([
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "(no output)"},
            {"role": "assistant", "content": ""},
        ]),
    );
}
