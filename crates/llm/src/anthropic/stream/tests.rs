//! Streams as data: every event type, every stop reason, every failure.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::sse::SseDecoder;

/// The result of a stream: the reply or error, and the emitted pieces, one line each.
type MessageStreamResult = (Result<ModelReply, ModelError>, Vec<String>);

fn play<'a>(data: impl IntoIterator<Item = &'a str>) -> MessageStreamResult {
    let mut pieces = Vec::new();
    let mut hear = |piece: ReplyEvent<'_>| {
        pieces.push(match piece {
            ReplyEvent::Text(text) => format!("text {text}"),
            ReplyEvent::Thinking(text) => format!("thinking {text}"),
            ReplyEvent::Input { call, name, json } => format!("input {call} {name} {json}"),
            ReplyEvent::Used(_) => return,
            ReplyEvent::Retrying { .. } => "retrying".to_owned(),
        });
    };
    let mut state = MessageStream::new(CallIds::new(&[]));
    let applied = data
        .into_iter()
        .try_for_each(|data| state.apply(data, &mut hear));
    (applied.and_then(|()| state.finish()), pieces)
}

fn play_events(events: &[Value]) -> MessageStreamResult {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    play(events.iter().map(String::as_str))
}

fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {}})
}

fn input(index: u64, json: &str) -> Value {
    delta(
        index,
        json!({"type": "input_json_delta", "partial_json": json}),
    )
}

/// The events of the blocks, with the events that begin and end every stream.
fn with_envelope(blocks: &[Value], reason: &str) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant",
            "content": [], "model": "claude-x", "stop_reason": null, "usage":
            {"input_tokens": 9, "cache_read_input_tokens": 7, "output_tokens": 1}}}),
        json!({"type": "ping"}),
    ];
    events.extend_from_slice(blocks);
    events.push(json!({"type": "message_delta", "delta":
        {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 42}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn full_stream() -> Vec<Value> {
    with_envelope(
        &[
            start(
                0,
                json!({"type": "thinking", "thinking": "", "signature": ""}),
            ),
            delta(0, json!({"type": "thinking_delta", "thinking": "Hm, "})),
            delta(
                0,
                json!({"type": "thinking_delta", "thinking": "crab 🦀\u{2028}."}),
            ),
            delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
            stop(0),
            start(1, json!({"type": "redacted_thinking", "data": "eA=="})),
            stop(1),
            start(2, json!({"type": "text", "text": ""})),
            json!({"type": "ping"}),
            delta(2, json!({"type": "text_delta", "text": "I lo"})),
            delta(2, json!({"type": "text_delta", "text": ""})),
            delta(2, json!({"type": "text_delta", "text": "ok."})),
            stop(2),
            start(3, call("toolu_1")),
            input(3, ""),
            input(3, "{\"command\": \"l"),
            input(3, "s\"}"),
            stop(3),
            start(4, call("toolu_2")),
            stop(4),
        ],
        "tool_use",
    )
}

#[test]
fn a_reply_is_the_sum_of_its_events() {
    let (reply, pieces) = play_events(&full_stream());
    let content = json!([
        {"type": "thinking", "thinking": "Hm, crab 🦀\u{2028}.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "eA=="},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {}},
    ]);
    let expected = ModelReply {
        content: serde_json::from_value(content).unwrap(),
        stop: Stop::ToolUse,
        broken_calls: BTreeMap::new(),
        usage: Usage {
            input_tokens: 9,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 7,
            output_tokens: 42,
        },
        model: "claude-x".into(),
    };
    assert_eq!(reply, Ok(expected));
    assert_eq!(
        pieces,
        [
            "thinking Hm, ",
            "thinking crab 🦀\u{2028}.",
            "text I lo",
            "text ok.",
            "input toolu_1 bash ",
            "input toolu_1 bash {\"command\": \"l",
            "input toolu_1 bash s\"}",
            "input toolu_2 bash ",
        ]
    );
}

#[test]
fn blocks_come_out_as_the_service_means_them() {
    fn check(blocks: &[Value], expect: Value) {
        let (reply, _) = play_events(&with_envelope(blocks, "end_turn"));
        let content = serde_json::to_value(reply.unwrap().content).unwrap();
        assert_eq!(content, expect);
    }
    let text = |text: &str| json!({"type": "text_delta", "text": text});
    // A signature is replaced, not added to; thinking may be withheld.
    check(
        &[
            start(
                0,
                json!({"type": "thinking", "thinking": "", "signature": ""}),
            ),
            delta(0, json!({"type": "signature_delta", "signature": "first"})),
            delta(0, json!({"type": "signature_delta", "signature": "second"})),
        ],
        json!([{"type": "thinking", "thinking": "", "signature": "second"}]),
    );
    // Blocks that start with content and have no end event.
    check(
        &[
            start(0, json!({"type": "text", "text": "be", "citations": null})),
            delta(0, text("gun")),
            start(
                1,
                json!({"type": "tool_use", "id": "a", "name": "b", "input": {"c": 1}}),
            ),
        ],
        json!([
            {"type": "text", "text": "begun"},
            {"type": "tool_use", "id": "a", "name": "b", "input": {"c": 1}},
        ]),
    );
    check(
        &[
            start(0, json!({"type": "text", "text": "", "citations": []})),
            delta(0, text("cited")),
            delta(
                0,
                json!({"type": "citations_delta", "citation": {"cited_text": "x"}}),
            ),
        ],
        json!([{"type": "text", "text": "cited", "citations": [{"cited_text": "x"}]}]),
    );
    // Empty text would be refused in the next request.
    check(
        &[start(0, json!({"type": "text", "text": ""})), stop(0)],
        json!([]),
    );
    // Deltas may be interleaved; blocks are ordered by index.
    check(
        &[
            start(1, json!({"type": "text", "text": ""})),
            start(0, json!({"type": "text", "text": ""})),
            delta(1, text("two")),
            delta(0, text("one")),
        ],
        json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]),
    );
}

#[test]
fn what_is_new_is_tolerated_and_kept() {
    let blocks = [
        json!({"type": "weather_report", "sky": "grey"}),
        json!({"keep": "alive"}),
        start(
            0,
            json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        ),
        input(0, "{\"query\": "),
        input(0, "\"crabs\"}"),
        stop(0),
        start(
            1,
            json!({"type": "from_the_future", "z": 1, "a": {"b": []}, "text": "x"}),
        ),
        delta(1, json!({"type": "text_delta", "text": "y"})),
        delta(1, json!({"type": "thinking_delta", "thinking": "t"})),
        delta(1, json!({"type": "signature_delta", "signature": "s"})),
        delta(1, json!({"type": "citations_delta", "citation": 1})),
        delta(1, json!({"type": "future_delta", "x": 1})),
        stop(1),
        start(2, json!({"type": "text", "text": "so", "new": true})),
        delta(2, json!({"type": "future_delta", "x": 1})),
    ];
    let (reply, _) = play_events(&with_envelope(&blocks, "something_new"));
    let reply = reply.unwrap();
    assert_eq!(reply.stop, Stop::Other("something_new".into()));
    assert!(matches!(
        reply.content[..2],
        [Block::Other(_), Block::Other(_)]
    ));
    assert_eq!(
        serde_json::to_string(&reply.content).unwrap(),
        json!([
            {"type": "server_tool_use", "id": "s", "name": "web_search",
             "input": {"query": "crabs"}},
            {"type": "from_the_future", "z": 1, "a": {"b": []}, "text": "xy", "thinking": "t",
             "signature": "s", "citations": [1]},
            {"type": "text", "text": "so"},
        ])
        .to_string(),
        "the order of keys too"
    );
}

#[test]
fn every_reason_to_stop_has_its_name() {
    for (reason, expect) in [
        ("end_turn", Stop::EndTurn),
        ("tool_use", Stop::ToolUse),
        ("max_tokens", Stop::MaxTokens),
        ("stop_sequence", Stop::StopSequence),
        ("pause_turn", Stop::PauseTurn),
        ("refusal", Stop::Refusal),
        (
            "model_context_window_exceeded",
            Stop::ModelContextWindowExceeded,
        ),
    ] {
        let (reply, _) = play_events(&with_envelope(&[], reason));
        assert_eq!(reply.unwrap().stop, expect);
    }
    let events = [json!({"type": "message_stop"})];
    assert_eq!(play_events(&events).0.unwrap().stop, Stop::EndTurn);
    let events = [start(0, call("a")), json!({"type": "message_stop"})];
    assert_eq!(play_events(&events).0.unwrap().stop, Stop::ToolUse);
}

#[test]
fn calls_that_are_cut_or_no_json_are_kept_but_marked() {
    fn check(jsons: &[&str], reason: &str, inputs: Value, broken: &[&str]) {
        let mut blocks = Vec::new();
        for (index, json) in (0..).zip(jsons) {
            blocks.extend([
                start(index, call(&format!("call_{index}"))),
                input(index, json),
                stop(index),
            ]);
        }
        let reply = play_events(&with_envelope(&blocks, reason)).0.unwrap();
        let found: Vec<&Value> = reply
            .content
            .iter()
            .map(|block| match block {
                Block::ToolUse { input, .. } => input,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(json!(found), inputs, "{jsons:?} {reason}");
        let marked: Vec<&str> = reply.broken_calls.keys().map(|id| id.0.as_str()).collect();
        assert_eq!(marked, broken, "{jsons:?} {reason}");
    }
    let cut = r#"{"a": "b"#;
    check(&[cut], "max_tokens", json!([{}]), &["call_0"]);
    check(
        &[cut],
        "model_context_window_exceeded",
        json!([{}]),
        &["call_0"],
    );
    check(&[cut], "refusal", json!([{}]), &["call_0"]);
    check(&[""], "max_tokens", json!([{}]), &["call_0"]);
    check(&["", cut], "max_tokens", json!([{}, {}]), &["call_1"]);
    check(&[r#"{"a": 1}"#], "max_tokens", json!([{"a": 1}]), &[]);
    check(&[cut], "tool_use", json!([{"unparsed": cut}]), &["call_0"]);
    check(
        &["[1]", "{}"],
        "tool_use",
        json!([{"unparsed": "[1]"}, {}]),
        &["call_0"],
    );
}

#[test]
fn a_stream_without_its_end_is_no_reply() {
    let events = full_stream();
    for length in 0..events.len() {
        let error = play_events(&events[..length]).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Stream, "after {length} events");
        assert!(error.is_retryable());
    }
}

#[test]
fn errors_end_a_reply_wherever_they_come() {
    let events = full_stream();
    let error = json!({"type": "error", "error":
        {"type": "overloaded_error", "message": "Overloaded"}});
    for length in 0..events.len() - 1 {
        let mut events = events[..length].to_vec();
        events.push(error.clone());
        let error = play_events(&events).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Overloaded);
        assert!(error.message.contains("Overloaded"), "{error}");
    }
}

#[test]
fn events_that_make_no_sense_are_errors() {
    for data in [
        "",
        "{",
        "[1]x",
        r#"{"type": "content_block_delta", "index": 0}"#,
        r#"{"type": "content_block_start", "index": 0, "content_block": 3}"#,
        r#"{"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": ""}}"#,
    ] {
        let error = play([data]).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Stream, "{data}");
    }
    let other = [
        start(0, call("a")),
        delta(0, json!({"type": "text_delta", "text": "x"})),
    ];
    assert_eq!(
        play_events(&other).0.unwrap_err().kind,
        ModelErrorKind::Stream
    );
}

/// The stream in bytes, with everything that may come between events.
fn bytes(line_end: &str) -> Vec<u8> {
    let mut text = format!("\u{feff}: hello{line_end}{line_end}");
    for event in full_stream() {
        let name = event["type"].as_str().unwrap().to_owned();
        text += &format!("event: {name}{line_end}data: {event}{line_end}{line_end}");
    }
    text.into_bytes()
}

proptest! {
    #[test]
    fn a_reply_does_not_depend_on_how_its_bytes_are_cut(
        may_truncate in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
    ) {
        let bytes = bytes(line_end);
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
        let played = play(events.iter().map(String::as_str));
        prop_assert_eq!(played, play_events(&full_stream()));
    }
}
