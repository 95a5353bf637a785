//! Each provider rule is reported when it is broken, and only then.

use llm::script::ScriptedReply;
use serde_json::{Value, json};
use testkit::{ModelServer, Replies};

use crate::client::{ReceivedResponse, messages, open, post};

/// A valid conversation with every kind of content.
fn anthropic() -> Value {
    let cached = json!({"type": "ephemeral"});
    json!({
        "model": "claude-test", "max_tokens": 4000, "stream": true,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "system": [{"type": "text", "text": "You work.", "cache_control": cached}],
        "tools": [
            {"name": "bash", "description": "runs", "input_schema": {"type": "object"}},
            {"name": "look", "input_schema": {"type": "object"}, "cache_control": cached},
        ],
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I do."},
                {"type": "tool_use", "id": "t1", "name": "bash", "input": {"cache_control": 1}},
                {"type": "tool_use", "id": "t2", "name": "look", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": "no"},
                {"type": "tool_result", "tool_use_id": "t1", "content": [
                    {"type": "text", "text": "ok"},
                    {"type": "image", "source":
                        {"type": "base64", "media_type": "image/png", "data": "AAA="}},
                ], "cache_control": cached},
                {"type": "text", "text": "and on", "cache_control": cached},
            ]},
            {"role": "assistant", "content": [{"type": "from_the_future", "x": 1}]},
            {"role": "user", "content": [{"type": "text", "text": "more"}]},
        ],
    })
}

fn openai() -> Value {
    let call = |id: &str| {
        json!({"id": id, "type": "function",
               "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}})
    };
    let tool = json!({"type": "function",
                      "function": {"name": "bash", "parameters": {"type": "object"}}});
    json!({
        "model": "qwen", "max_tokens": 100, "stream": true, "tools": [tool],
        "messages": [
            {"role": "system", "content": "You work."},
            {"role": "user", "content": [
                {"type": "text", "text": "go"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAA="}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [call("c1"), call("c2")]},
            {"role": "tool", "tool_call_id": "c2", "content": "two"},
            {"role": "tool", "tool_call_id": "c1", "content": ""},
            {"role": "user", "content": "more"},
        ],
    })
}

/// The violations of a request in which `path` is set to `value`, or removed for null.
async fn violations_with(to: &str, mut body: Value, path: &str, value: Value) -> Vec<String> {
    let (parent, name) = path.rsplit_once('/').unwrap();
    match (body.pointer_mut(parent).unwrap(), value) {
        (Value::Object(fields), Value::Null) => drop(fields.remove(name)),
        (Value::Array(elements), Value::Null) => drop(elements.remove(name.parse().unwrap())),
        (Value::Array(elements), value) => elements[name.parse::<usize>().unwrap()] = value,
        (parent, value) => parent[name] = value,
    }
    let server = ModelServer::start(ScriptedReply::text("fine"));
    assert_eq!(
        post(&server, to, &body).await.status,
        200,
        "noted, and answered"
    );
    server.take_violations()
}

async fn check(to: &str, body: Value, path: &str, value: Value, expected: &str) {
    let violations = violations_with(to, body, path, value.clone()).await;
    assert!(
        violations
            .iter()
            .any(|violation| violation.contains(expected)),
        "{path} = {value}: {violations:?} lacks `{expected}`"
    );
}

#[tokio::test]
async fn legal_requests_are() {
    for (to, body) in [
        ("/v1/messages", anthropic()),
        ("/v1/chat/completions", openai()),
    ] {
        let server = ModelServer::start(ScriptedReply::text("fine"));
        post(&server, to, &body).await;
        assert_eq!(server.violations(), [""; 0]);
    }
}

#[tokio::test]
async fn rules_of_messages() {
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
    let thinking = json!({"type": "thinking", "thinking": "x", "signature": "y"});
    let cached = json!({"type": "ephemeral"});
    for (path, value, expected) in [
        ("/model", json!(null), "no `model`"),
        ("/max_tokens", json!(null), "no `max_tokens`"),
        (
            "/messages/4/content/0",
            json!({"type": "tool_result", "tool_use_id": "t9"}),
            "thinking is on in a turn that began without",
        ),
        ("/max_tokens", json!(2000), "not below `max_tokens`"),
        ("/thinking/budget_tokens", json!(5), "below 1024"),
        ("/messages", json!([]), "no messages"),
        ("/messages/0", json!(null), "does not alternate"),
        ("/messages/0/role", json!("system"), "does not alternate"),
        (
            "/messages/0/content",
            json!(" "),
            "messages[0]: the content is empty",
        ),
        ("/messages/4/content/0/text", json!("\n"), "an empty text"),
        (
            "/messages/2/content/1/content/0/text",
            json!(""),
            "an empty text in a result",
        ),
        (
            "/messages/2/content/1",
            json!(null),
            "the call `t1` has no result",
        ),
        (
            "/messages/2/content/1",
            result("t2"),
            "a result for `t2`, which is no open call",
        ),
        (
            "/messages/4/content/0",
            result("t1"),
            "messages[4]: a result for `t1`",
        ),
        (
            "/messages/2/content/0",
            json!({"type": "text", "text": "x"}),
            "after other content",
        ),
        (
            "/messages/1/content/1/input",
            json!("ls"),
            "the input of `t1` is no object",
        ),
        (
            "/messages/1/content/1/name",
            json!("a b"),
            "a call of the tool \"a b\"",
        ),
        (
            "/messages/1/content/1/id",
            json!("a.b"),
            "a call with the id `a.b`",
        ),
        (
            "/messages/1/content/1/id",
            json!("t2"),
            "two calls are `t2`",
        ),
        ("/messages/1/content/0", thinking, "not as it was served"),
        (
            "/messages/3/content/0/type",
            json!("thinking"),
            "the final block is thinking",
        ),
        (
            "/messages/2/content/1/content/1/source/data",
            json!("A!"),
            "no base64",
        ),
        (
            "/messages/2/content/1/content/1/source/media_type",
            json!("text/html"),
            "of the type",
        ),
        (
            "/messages/4/content/0/cache_control",
            cached,
            "5 cache breakpoints",
        ),
        (
            "/messages/4/content/0/cache_control",
            json!({"type": "x"}),
            "a breakpoint of the type",
        ),
        ("/messages/4", json!(null), ""),
        ("/tools/0/name", json!("look"), "two tools are `look`"),
        ("/tools/0/name", json!("päth"), "has the name"),
        (
            "/tools/0/input_schema",
            json!({"type": "string"}),
            "no object as schema",
        ),
        ("/tools", json!(null), "there are calls, but no tools"),
        ("/system/0/text", json!(""), "system[0] is no text"),
    ] {
        if expected.is_empty() {
            let mut body = anthropic();
            body["thinking"] = json!({"type": "disabled"});
            let violations = violations_with("/v1/messages", body, path, value).await;
            assert_eq!(violations, [""; 0], "a reply may end a conversation");
            continue;
        }
        check("/v1/messages", anthropic(), path, value, expected).await;
    }
    let mut body = anthropic();
    body["messages"].as_array_mut().unwrap().truncate(2);
    check(
        "/v1/messages",
        body,
        "/model",
        json!("m"),
        "in the last message has no result",
    )
    .await;
}

#[tokio::test]
async fn rules_of_chat() {
    for (path, value, expected) in [
        ("/max_tokens", json!(null), "no `max_tokens`"),
        ("/messages/0", json!(null), ""),
        (
            "/messages/1",
            json!(null),
            "the first message is not the user's",
        ),
        ("/messages/1/content/0/text", json!(""), "an empty text"),
        (
            "/messages/1/content/1/image_url/url",
            json!("data:image/png,x"),
            "neither data nor",
        ),
        ("/messages/2/role", json!("robot"), "the role \"robot\""),
        (
            "/messages/2/tool_calls/0/id",
            json!("c2"),
            "two calls are `c2`",
        ),
        (
            "/messages/2/tool_calls/0/type",
            json!(null),
            "lacks its id or type",
        ),
        (
            "/messages/2/tool_calls/0/function/arguments",
            json!("{"),
            "no object as JSON text",
        ),
        (
            "/messages/2/tool_calls/0/function/arguments",
            json!({}),
            "no object as JSON text",
        ),
        (
            "/messages/2/tool_calls/0/function/name",
            json!(""),
            "the call `c1` of \"\"",
        ),
        (
            "/messages/2/tool_calls",
            json!([]),
            "an empty list of calls",
        ),
        (
            "/messages/3/tool_call_id",
            json!("c1"),
            "messages[4]: a result for `c1`",
        ),
        (
            "/messages/4",
            json!(null),
            "messages[4]: the call `c1` before it has no result",
        ),
        (
            "/messages/4/content",
            json!(null),
            "a result that is no text",
        ),
        ("/messages/5/content", json!(""), "the content is empty"),
        ("/tools/0/type", json!(null), "tools[0] is no function"),
        ("/tools/0/function/name", json!("a b"), "has the name"),
        (
            "/tools/0/function/parameters",
            json!(null),
            "no object as schema",
        ),
    ] {
        if expected.is_empty() {
            let violations = violations_with("/v1/chat/completions", openai(), path, value).await;
            assert_eq!(violations, [""; 0], "a system prompt is no duty");
            continue;
        }
        check("/v1/chat/completions", openai(), path, value, expected).await;
    }
}

#[tokio::test]
async fn what_is_no_json_is_noted() {
    let server = ModelServer::start(ScriptedReply::text("fine"));
    open(&server, "/v1/messages", "{".to_owned()).await.unwrap();
    assert!(server.take_violations()[0].contains("the body is no JSON"));
}

/// The next request after a reply, including the reply's blocks.
fn next_request_body(heard: &ReceivedResponse, change: impl FnOnce(&mut Vec<Value>)) -> Value {
    let mut content = heard.json()["content"].as_array().unwrap().clone();
    let results: Vec<_> = content
        .iter()
        .filter(|block| block["type"] == "tool_use")
        .map(|call| json!({"type": "tool_result", "tool_use_id": call["id"]}))
        .collect();
    change(&mut content);
    json!({
        "model": "claude-test", "max_tokens": 100,
        "tools": [{"name": "bash", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": results},
        ],
    })
}

#[tokio::test]
async fn thinking_goes_back_as_it_was_served() {
    let server = ModelServer::start(Replies::decide(|_| {
        let mut reply = ScriptedReply::call("bash", json!({}));
        reply.thinking = Some("so \u{1f914}\n  it is".to_owned());
        reply
    }));
    let mut first = crate::client::messages_body();
    first["stream"] = json!(false);
    let heard = post(&server, "/v1/messages", &first).await;
    post(&server, "/v1/messages", &next_request_body(&heard, |_| {})).await;
    assert_eq!(server.violations(), [""; 0]);
    let trimmed = next_request_body(&heard, |content| content[0]["thinking"] = json!("so it is"));
    post(&server, "/v1/messages", &trimmed).await;
    assert!(server.take_violations()[0].contains("thinking that is not as it was served"));
    let lost = next_request_body(&heard, |content| drop(content.remove(0)));
    post(&server, "/v1/messages", &lost).await;
    assert!(server.take_violations()[0].contains("the thinking before the call"));

    // Another server, as after a restart, accepts what the first one served.
    let other = ModelServer::start(ScriptedReply::text("on"));
    post(&other, "/v1/messages", &next_request_body(&heard, |_| {})).await;
    drop(other);
    messages(&server).await;
}
