//! Request bodies as the service receives them.

#![allow(clippy::unwrap_used)]

use serde_json::Value;

use super::*;
use crate::message_cache::MessageCache;

fn message(role: &str, content: Value) -> Arc<Message> {
    let message = json!({"role": role, "content": content});
    Arc::new(serde_json::from_value(message).unwrap())
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn body(request: ModelRequest<'_>, thinking: Option<ThinkingMode>) -> Value {
    let body = |written: &[CachedMessage]| {
        let body = MessagesBody {
            model: "claude-x",
            request,
            written,
            thinking,
            purpose: BodyPurpose::Reply,
        };
        serde_json::to_vec(&body).unwrap()
    };
    let fresh = body(&[]);
    // The cache of serialised messages does not change the body.
    let written = MessageCache::default();
    let settled = &request.messages[..settled(request.messages)];
    assert_eq!(
        body(&written.update(settled, serialize_message).unwrap()),
        fresh
    );
    serde_json::from_slice(&fresh).unwrap()
}

fn request(messages: &[Arc<Message>]) -> ModelRequest<'_> {
    ModelRequest {
        system: &[],
        tools: &[],
        messages,
        max_tokens: 8_000,
    }
}

/// The positions of all marks, as JSON pointers.
fn marks(value: &Value, path: &str, found: &mut Vec<String>) {
    let mut visit = |key: &str, value: &Value| match key {
        "cache_control" => {
            assert_eq!(value, &json!({"type": "ephemeral"}));
            found.push(path.to_owned());
        }
        key => marks(value, &format!("{path}/{key}"), found),
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| visit(key, value)),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(place, value)| visit(&place.to_string(), value));
        }
        _ => {}
    }
}

fn marks_of(request: ModelRequest<'_>) -> Vec<String> {
    let mut found = Vec::new();
    marks(&body(request, None), "", &mut found);
    found
}

#[test]
fn a_body_says_what_the_request_says() {
    let messages = [message("user", text("hello"))];
    let tools = [ToolDefinition {
        name: "bash".into(),
        description: "runs".into(),
        input_schema: json!({"type": "object", "z": 1, "a": 2}),
    }];
    let full = ModelRequest {
        system: &[
            "You are".into(),
            String::new(),
            "brief".into(),
            " \n".into(),
        ],
        tools: &tools,
        messages: &messages,
        max_tokens: 100,
    };
    let expected = json!({
        "model": "claude-x",
        "max_tokens": 100,
        "stream": true,
        "tools": [{"name": "bash", "description": "runs",
            "input_schema": {"type": "object", "z": 1, "a": 2},
            "cache_control": {"type": "ephemeral"}}],
        "system": [{"type": "text", "text": "You are"},
            {"type": "text", "text": "brief", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]}],
    });
    assert_eq!(body(full, None), expected);

    let count = MessagesBody {
        model: "claude-x",
        request: request(&messages),
        written: &[],
        thinking: None,
        purpose: BodyPurpose::Count,
    };
    let count = serde_json::to_value(count).unwrap();
    let keys: Vec<&String> = count.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["model", "messages"]);
}

#[test]
fn a_history_goes_back_byte_for_byte() {
    let messages = [
        message("user", text("look")),
        message(
            "assistant",
            json!([
                {"type": "thinking", "thinking": "hm\u{2028} ", "signature": "c2ln+/="},
                {"type": "redacted_thinking", "data": "eA=="},
                {"type": "text", "text": "I see", "citations": [{"cited_text": "x"}]},
                {"type": "from_the_future", "z": {"b": 1, "a": [null]}},
                {"type": "tool_use", "id": "t1", "name": "bash", "input": {"z": 1, "a": 2.5}},
                {"type": "tool_use", "id": "t2", "name": "look", "input": {}},
            ]),
        ),
        message(
            "user",
            json!([
                {"type": "tool_result", "tool_use_id": "t1", "content":
                    [{"type": "text", "text": "no"}], "is_error": true},
                {"type": "tool_result", "tool_use_id": "t2", "content": [
                    {"type": "image", "source":
                        {"type": "base64", "media_type": "image/png", "data": "AA=="}}]},
            ]),
        ),
    ];
    let sent = body(request(&messages), None).to_string();
    for message in &messages {
        for block in &message.content {
            // Everything but its end, which may be preceded by a mark.
            let block = serde_json::to_string(block).unwrap();
            let block = block.strip_suffix('}').unwrap();
            assert!(sent.contains(block), "{block} is not in {sent}");
        }
    }
}

#[test]
fn text_that_would_be_refused_stays_here() {
    let messages = [
        message("user", text("go")),
        message("assistant", text(" ")),
        message(
            "user",
            json!([
                {"type": "tool_result", "tool_use_id": "t", "content":
                    [{"type": "text", "text": ""}, {"type": "text", "text": "x"}]},
                {"type": "tool_result", "tool_use_id": "u", "content":
                    [{"type": "text", "text": ""}]},
                {"type": "text", "text": "\n"},
            ]),
        ),
    ];
    let sent = body(request(&messages), None);
    let expected = json!([
        {"role": "user", "content": [
            {"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]},
            {"type": "tool_result", "tool_use_id": "u", "content": [],
             "cache_control": {"type": "ephemeral"}}]},
    ]);
    assert_eq!(sent["messages"], expected);
}

#[test]
fn a_growing_conversation_keeps_its_prefix() {
    let call = |id: usize| {
        let id = format!("t{id}");
        let call = json!({"type": "tool_use", "id": id, "name": "bash", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": []});
        (
            message("assistant", json!([call])),
            message("user", json!([result, {"type": "text", "text": "note"}])),
        )
    };
    let mut messages = vec![message("user", text("task"))];
    let mut before: Vec<String> = Vec::new();
    for turn in 0..5 {
        let now = marks_of(request(&messages));
        assert!(now.len() <= 2, "{now:?}");
        if let Some(last) = before.last() {
            assert!(now.contains(last), "turn {turn}: {last} is not in {now:?}");
        }
        assert!(
            now.last()
                .unwrap()
                .starts_with(&format!("/messages/{}/", messages.len() - 1))
        );
        before = now;
        let (asked, answered) = call(turn);
        messages.extend([asked, answered]);
    }
    let tools = vec![
        ToolDefinition {
            name: "a".into(),
            description: String::new(),
            input_schema: json!({}),
        };
        3
    ];
    let full = ModelRequest {
        system: &["a".into(), "b".into()],
        tools: &tools,
        ..request(&messages)
    };
    assert_eq!(
        marks_of(full),
        [
            "/tools/2",
            "/system/1",
            "/messages/8/content/1",
            "/messages/10/content/1"
        ],
        "four, which is the most that the service takes"
    );
}

#[test]
fn thinking_is_asked_for_where_it_is_possible() {
    fn check(thinking: ThinkingMode, max_tokens: u32, messages: &[Arc<Message>], expect: Value) {
        let request = ModelRequest {
            max_tokens,
            ..request(messages)
        };
        assert_eq!(body(request, Some(thinking))["thinking"], expect);
    }
    let enabled = |budget: u32| json!({"type": "enabled", "budget_tokens": budget});
    let hello = [message("user", text("hello"))];
    check(ThinkingMode::Budget(4_000), 8_000, &hello, enabled(4_000));
    check(ThinkingMode::Budget(10), 8_000, &hello, enabled(1_024));
    check(ThinkingMode::Budget(9_000), 8_000, &hello, enabled(7_999));
    check(ThinkingMode::Budget(9_000), 1_024, &hello, Value::Null);
    check(
        ThinkingMode::Adaptive,
        10,
        &hello,
        json!({"type": "adaptive", "display": "summarized"}),
    );

    let call = json!({"type": "tool_use", "id": "t", "name": "bash", "input": {}});
    let thought = json!({"type": "thinking", "thinking": "", "signature": "s"});
    let answer = message(
        "user",
        json!([{"type": "tool_result", "tool_use_id": "t", "content": []}]),
    );
    let unthought = message("assistant", json!([call]));
    let thought = message("assistant", json!([thought, call]));
    let prompt = message("user", text("go"));
    let budget = ThinkingMode::Budget(4_000);
    let turn = |replies: &[&Arc<Message>]| {
        let steps = replies
            .iter()
            .flat_map(|reply| [(*reply).clone(), answer.clone()]);
        [prompt.clone()]
            .into_iter()
            .chain(steps)
            .collect::<Vec<_>>()
    };
    check(budget, 8_000, &turn(&[&unthought]), Value::Null);
    check(budget, 8_000, &turn(&[&unthought, &thought]), Value::Null);
    check(budget, 8_000, &turn(&[&thought]), enabled(4_000));
    check(
        budget,
        8_000,
        &turn(&[&thought, &unthought]),
        enabled(4_000),
    );
    let over = [turn(&[&unthought]), turn(&[&thought])].concat();
    check(budget, 8_000, &over, enabled(4_000));
    let over = [turn(&[&unthought]), turn(&[])].concat();
    check(budget, 8_000, &over, enabled(4_000));
}
