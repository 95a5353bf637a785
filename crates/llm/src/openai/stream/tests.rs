//! Streams as data: what different servers send.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use protocol::{Message, Role};
use serde_json::{Value, json};

use super::*;
use crate::sse::SseDecoder;

type CompletionStreamResult = (Result<(ModelReply, Option<Usage>), ModelError>, Vec<String>);

fn play_after(before: &[Arc<Message>], data: &[String]) -> CompletionStreamResult {
    let mut pieces = Vec::new();
    let mut hear = |piece: ReplyEvent<'_>| {
        pieces.push(match piece {
            ReplyEvent::Text(text) => format!("text {text}"),
            ReplyEvent::Thinking(text) => format!("thinking {text}"),
            ReplyEvent::Input { name, json, .. } => format!("input {name} {json}"),
            ReplyEvent::Used(_) => return,
            ReplyEvent::Retrying { .. } => "retrying".to_owned(),
        });
    };
    let mut state = CompletionStream::new(CallIds::new(before));
    let applied = data
        .iter()
        .try_for_each(|data| state.apply(data, &mut hear));
    (applied.and_then(|()| state.finish()), pieces)
}

fn play(data: &[String]) -> CompletionStreamResult {
    play_after(&[], data)
}

/// Chunks with these deltas, then the stop reason, then the end.
fn stream(deltas: &[Value], reason: &str) -> Vec<String> {
    let chunk = |delta: &Value, reason: Value| {
        json!({"id": "c", "object": "chat.completion.chunk", "model": "qwen3", "choices":
            [{"index": 0, "delta": delta, "finish_reason": reason}]})
    };
    let mut data: Vec<String> = deltas
        .iter()
        .map(|delta| chunk(delta, Value::Null).to_string())
        .collect();
    data.push(chunk(&json!({}), reason.into()).to_string());
    data.push(DONE_EVENT.to_owned());
    data
}

fn calls(pieces: Value) -> Value {
    json!({ "tool_calls": pieces })
}

/// Name and input of each call, and whether it may run.
fn call_summaries(reply: &ModelReply) -> Vec<(String, Value, bool)> {
    let calls = reply.content.iter().filter_map(|block| match block {
        Block::ToolUse { id, name, input } => {
            let is_whole = !reply.broken_calls.contains_key(id);
            Some((name.clone(), input.clone(), is_whole))
        }
        _ => None,
    });
    calls.collect()
}

fn full_stream() -> Vec<String> {
    let mut data = stream(
        &[
            json!({"role": "assistant", "content": ""}),
            json!({"reasoning_content": "Hm 🦀"}),
            json!({"content": "I lo"}),
            json!({"content": "ok."}),
            calls(
                json!([{"index": 0, "id": "a", "type": "function", "function":
                {"name": "bash", "arguments": ""}}]),
            ),
            calls(json!([{"index": 0, "function": {"arguments": "{\"command\": \"l"}}])),
            calls(json!([{"index": 0, "function": {"arguments": "s\"}"}}])),
            calls(
                json!([{"index": 1, "id": "b", "type": "function", "function":
                {"name": "look", "arguments": "{}"}}]),
            ),
        ],
        "tool_calls",
    );
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64}}});
    data.insert(data.len() - 1, usage.to_string());
    data
}

#[test]
fn a_reply_is_the_sum_of_its_chunks() {
    let (played, pieces) = play(&full_stream());
    let (reply, usage) = played.unwrap();
    let content = json!([
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "b", "name": "look", "input": {}},
    ]);
    assert_eq!(serde_json::to_value(&reply.content).unwrap(), content);
    assert_eq!(reply.stop, Stop::ToolUse);
    assert_eq!(reply.model, "qwen3");
    assert!(reply.broken_calls.is_empty());
    let expected = Usage {
        input_tokens: 36,
        cache_read_input_tokens: 64,
        output_tokens: 20,
        ..Usage::default()
    };
    assert_eq!(usage, Some(expected));
    assert_eq!(reply.usage, expected);
    assert_eq!(
        pieces,
        [
            "thinking Hm 🦀",
            "text I lo",
            "text ok.",
            "input bash ",
            "input bash {\"command\": \"l",
            "input bash s\"}",
            "input look ",
            "input look {}",
        ]
    );
}

#[test]
fn calls_are_understood_in_every_dialect() {
    fn check(name: &str, deltas: &[Value]) {
        let (reply, _) = play(&stream(deltas, "tool_calls")).0.unwrap();
        let expected = [
            ("bash".to_owned(), json!({"c": "x"}), true),
            ("bash".to_owned(), json!({"c": "y"}), true),
        ];
        assert_eq!(call_summaries(&reply), expected, "{name}");
        let ids: Vec<&CallId> = reply
            .content
            .iter()
            .filter_map(|block| match block {
                Block::ToolUse { id, .. } => Some(id),
                _ => None,
            })
            .collect();
        assert_ne!(ids[0], ids[1], "{name}");
        assert!(ids.iter().all(|id| !id.0.is_empty()), "{name}");
    }
    let whole = |c: &str| json!({"name": "bash", "arguments": format!("{{\"c\": \"{c}\"}}")});
    let begin = json!({"name": "bash", "arguments": ""});
    let rest = |c: &str| {
        let (one, two) = ("{\"c\": ".to_owned(), format!("\"{c}\"}}"));
        [json!({"arguments": one}), json!({"arguments": two})]
    };
    let [x1, x2] = rest("x");
    let [y1, y2] = rest("y");
    check(
        "as documented, mixed",
        &[
            calls(json!([{"index": 0, "id": "a", "function": begin}])),
            calls(json!([{"index": 1, "id": "b", "function": begin}])),
            calls(json!([{"index": 1, "function": y1}, {"index": 0, "function": x1}])),
            calls(json!([{"index": 0, "function": x2}, {"index": 1, "function": y2}])),
        ],
    );
    check(
        "no index",
        &[
            calls(json!([{"id": "a", "function": begin}])),
            calls(json!([{"function": x1}])),
            calls(json!([{"function": x2}])),
            calls(json!([{"id": "b", "function": begin}])),
            calls(json!([{"function": y1}, {"function": y2}])),
        ],
    );
    check(
        "no index, id in every piece, mixed",
        &[
            calls(json!([{"id": "a", "function": begin}, {"id": "b", "function": begin}])),
            calls(json!([{"id": "a", "function": x1}, {"id": "b", "function": y1}])),
            calls(json!([{"id": "b", "function": y2}, {"id": "a", "function": x2}])),
        ],
    );
    check(
        "no id",
        &[
            calls(json!([{"index": 0, "function": begin}, {"index": 1, "function": begin}])),
            calls(json!([{"index": 0, "function": x1}, {"index": 1, "function": y1}])),
            calls(json!([{"index": 0, "function": x2}, {"index": 1, "function": y2}])),
        ],
    );
    check(
        "an empty id",
        &[calls(
            json!([{"index": 0, "id": "", "function": whole("x")},
            {"index": 1, "id": "", "function": whole("y")}]),
        )],
    );
    check(
        "neither index nor id, at once",
        &[
            calls(json!([{"function": whole("x")}])),
            calls(json!([{"function": whole("y")}])),
        ],
    );
    check(
        "neither index nor id, in pieces",
        &[
            calls(json!([{"function": begin}, {"function": x1}, {"function": x2}])),
            calls(json!([{"function": begin}, {"function": y1}, {"function": y2}])),
        ],
    );
    check(
        "all of one index",
        &[
            calls(json!([{"index": 0, "id": "a", "function": whole("x")}])),
            calls(json!([{"index": 0, "id": "b", "function": whole("y")}])),
        ],
    );
    check(
        "all of one index, no id",
        &[
            calls(json!([{"index": 0, "function": whole("x")}])),
            calls(json!([{"index": 0, "function": whole("y")}])),
        ],
    );
    check(
        "all of one id",
        &[
            calls(json!([{"index": 0, "id": "a", "function": whole("x")}])),
            calls(json!([{"index": 1, "id": "a", "function": whole("y")}])),
        ],
    );
    check(
        "name and id in every piece",
        &[
            calls(json!([{"index": 0, "id": "a", "function": begin}])),
            calls(
                json!([{"index": 0, "id": "a", "function": {"name": "bash", "arguments": "{\"c\": "}}]),
            ),
            calls(
                json!([{"index": 0, "id": "a", "function": {"name": "bash", "arguments": "\"x\"}"}}]),
            ),
            calls(json!([{"index": 1, "id": "b", "function": whole("y")}])),
        ],
    );
    check(
        "arguments as an object",
        &[calls(json!([
            {"id": "a", "function": {"name": "bash", "arguments": {"c": "x"}}},
            {"id": "b", "function": {"name": "bash", "arguments": {"c": "y"}}}]))],
    );
}

#[test]
fn every_reason_to_stop_has_its_meaning() {
    fn check(reason: &str, with_call: bool, expect: Stop) {
        let call = calls(json!([{"index": 0, "id": "a", "function":
            {"name": "bash", "arguments": "{}"}}]));
        let deltas = if with_call { vec![call] } else { Vec::new() };
        let (reply, _) = play(&stream(&deltas, reason)).0.unwrap();
        assert_eq!(reply.stop, expect, "{reason} {with_call}");
    }
    check("stop", false, Stop::EndTurn);
    check("stop", true, Stop::ToolUse);
    check("tool_calls", true, Stop::ToolUse);
    check("tool_calls", false, Stop::EndTurn);
    check("function_call", true, Stop::ToolUse);
    check("length", false, Stop::MaxTokens);
    check("length", true, Stop::MaxTokens);
    check("content_filter", false, Stop::Refusal);
    check("something_new", false, Stop::Other("something_new".into()));

    let refused = stream(&[json!({"content": null, "refusal": "no"})], "stop");
    let (reply, _) = play(&refused).0.unwrap();
    assert_eq!(
        (reply.stop, &reply.content[..]),
        (Stop::Refusal, &[Block::text("no")][..])
    );
}

#[test]
fn calls_that_are_cut_or_no_json_are_kept_but_marked() {
    fn check(arguments: Value, reason: &str, input: Value, is_whole: bool) {
        let call = json!({"index": 0, "id": "a", "function":
            {"name": "bash", "arguments": arguments}});
        let (reply, _) = play(&stream(&[calls(json!([call]))], reason)).0.unwrap();
        let expected = [("bash".to_owned(), input, is_whole)];
        assert_eq!(call_summaries(&reply), expected, "{arguments} {reason}");
    }
    check(json!("{\"a\": "), "length", json!({}), false);
    check(json!(""), "length", json!({}), false);
    check(json!("{}"), "length", json!({}), true);
    check(
        json!("{\"a\": "),
        "tool_calls",
        json!({"unparsed": "{\"a\": "}),
        false,
    );
    check(json!("3"), "tool_calls", json!({"unparsed": "3"}), false);
    check(Value::Null, "tool_calls", json!({}), true);
    check(json!([1]), "tool_calls", json!({"unparsed": "[1]"}), false);
}

#[test]
fn an_id_of_an_earlier_reply_is_not_used_again() {
    let before = [Arc::new(Message {
        role: Role::Assistant,
        content: vec![Block::ToolUse {
            id: "call_0".into(),
            name: "bash".into(),
            input: json!({}),
        }],
    })];
    let call = |json: &str| {
        calls(json!([{"id": "call_0", "function": {"name": "bash", "arguments": json}}]))
    };
    let data = stream(&[call("{\"a\""), call(": 1}")], "tool_calls");
    let (reply, _) = play_after(&before, &data).0.unwrap();
    assert_eq!(
        call_summaries(&reply),
        [("bash".to_owned(), json!({"a": 1}), true)]
    );
    assert!(!matches!(&reply.content[0], Block::ToolUse { id, .. } if id.0 == "call_0"));
}

#[test]
fn other_forms_of_content_are_understood() {
    fn check(delta: Value, expect: &[&str]) {
        assert_eq!(play(&stream(&[delta], "stop")).1, expect);
    }
    check(json!({"reasoning": "hm"}), &["thinking hm"]);
    check(
        json!({"reasoning": "hm", "reasoning_content": "hm"}),
        &["thinking hm"],
    );
    check(
        json!({"reasoning": {"effort": 1}, "content": null, "tool_calls": null}),
        &[],
    );
    check(
        json!({"content": [{"type": "text", "text": "a"}, {"text": "b"}]}),
        &["text ab"],
    );
    check(Value::Null, &[]);

    let other_choice = json!({"choices": [{"index": 1, "delta": {"content": "x"}}]}).to_string();
    assert!(play(&[other_choice]).1.is_empty());
}

#[test]
fn a_server_that_does_not_stream_is_understood() {
    let answer = json!({"object": "chat.completion", "model": "m", "choices": [{"index": 0,
        "message": {"role": "assistant", "content": "hi", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]},
        "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": null}});
    let (reply, usage) = play(&[answer.to_string()]).0.unwrap();
    assert_eq!(reply.content.len(), 2);
    assert_eq!(reply.stop, Stop::ToolUse);
    assert_eq!(usage.unwrap().total(), 5);
}

#[test]
fn a_stream_must_come_to_some_end() {
    let data = full_stream();
    let is_whole = |data: &[String]| match play(data).0 {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind, ModelErrorKind::Stream);
            assert!(error.is_retryable());
            false
        }
    };
    let finished = data
        .iter()
        .position(|data| data.contains("\"tool_calls\"}"));
    let finished = finished.unwrap() + 1;
    for length in 0..data.len() {
        assert_eq!(
            is_whole(&data[..length]),
            length >= finished,
            "{length} chunks"
        );
    }
    assert!(
        is_whole(&[data[2].clone(), DONE_EVENT.to_owned()]),
        "no reason to stop"
    );
}

#[test]
fn errors_in_mid_stream_are_errors() {
    for (data, kind) in [
        (
            json!({"error": {"message": "busy", "type": "overloaded_error"}}),
            ModelErrorKind::Overloaded,
        ),
        (
            json!({"error": {"message": "oops", "code": 500}}),
            ModelErrorKind::Server,
        ),
        (json!({"error": "oops"}), ModelErrorKind::Server),
        (json!(3), ModelErrorKind::Stream),
        (json!({"choices": 3}), ModelErrorKind::Stream),
    ] {
        let error = play(&[data.to_string()]).0.unwrap_err();
        assert_eq!(error.kind, kind, "{data}");
    }
    assert_eq!(
        play(&["{".to_owned()]).0.unwrap_err().kind,
        ModelErrorKind::Stream
    );
}

proptest! {
    #[test]
    fn a_reply_does_not_depend_on_how_its_bytes_are_cut(
        may_truncate in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let data = full_stream();
        let bytes: String = data.iter().map(|data| format!("data: {data}\r\n\r\n")).collect();
        let bytes = bytes.as_bytes();
        let mut places: Vec<usize> = may_truncate.iter().map(|cut| cut.index(bytes.len())).collect();
        places.sort_unstable();
        places.push(bytes.len());
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        let mut begun = 0;
        for place in places {
            decoder.push(&bytes[begun..place]);
            while let Some(event) = decoder.next_event().unwrap() {
                events.push(event.data);
            }
            begun = place;
        }
        prop_assert_eq!(play(&events), play(&data));
    }
}
