//! Replies have the same form as those of the providers.

use llm::script::{Script, ScriptedReply};
use serde_json::{Value, json};
use testkit::{Dialect, Framing, LineEnding, ModelServer, ModelServerSettings};

use crate::client::{chat, chat_body, messages, messages_body, post};

/// Thinking, text and two calls.
fn rich_script() -> Script {
    Script::parse(
        r#"
        [[reply]]
        thinking = "hm, so"
        text = "I look."
        call = [
          { tool = "bash", input = { command = "ls" } },
          { tool = "list_files" },
        ]
        usage = { input_tokens = 7, cache_read_input_tokens = 5, output_tokens = 40 }
        "#,
    )
    .unwrap()
}

#[tokio::test]
async fn a_message_stream_has_every_event() {
    let server = ModelServer::start(rich_script());
    let heard = messages(&server).await;
    let text = heard.text();
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    let (start, delta, stop) = (
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    );
    #[rustfmt::skip]
    assert_eq!(names, [
        "message_start",
        start, "ping", delta, delta, delta, stop,
        start, delta, delta, stop,
        start, delta, delta, delta, stop,
        start, delta, stop,
        "message_delta", "message_stop",
    ]);
    let data = heard.data();
    for (name, data) in names.iter().zip(&data) {
        assert_eq!(data["type"], *name);
    }
    let message = &data[0]["message"];
    assert_eq!(message["usage"]["input_tokens"], 7);
    assert_eq!(message["usage"]["cache_read_input_tokens"], 5);
    assert_eq!(message["model"], "claude-test");
    assert_eq!(data[5]["delta"]["type"], "signature_delta");
    let input: String = data[12..15]
        .iter()
        .map(|data| data["delta"]["partial_json"].as_str().unwrap())
        .collect();
    assert_eq!(input, r#"{"command":"ls"}"#);
    assert_eq!(data[17]["delta"]["partial_json"], "");
    let end = &data[19];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert_eq!(end["usage"]["output_tokens"], 40);
    assert_eq!(
        heard.headers["content-type"],
        "text/event-stream; charset=utf-8"
    );
    assert_eq!(heard.headers["request-id"], "req_0001");
    assert_eq!(heard.chunks.len(), names.len(), "one event a chunk");
}

#[tokio::test]
async fn framing_changes_chunks_and_nothing_else() {
    let plain = messages(&ModelServer::start(rich_script())).await.text();
    for (framing, expected) in [
        (Framing::bytes(1), plain.clone()),
        (Framing::bytes(7), plain.clone()),
        (Framing::whole(), plain.clone()),
        (
            Framing::lines(LineEnding::CrLf),
            plain.replace('\n', "\r\n"),
        ),
        (Framing::lines(LineEnding::Cr), plain.replace('\n', "\r")),
    ] {
        let server = ModelServer::start_with(rich_script(), ModelServerSettings::framed(framing));
        let heard = messages(&server).await;
        assert_eq!(heard.text(), expected, "{framing:?}");
        match framing {
            _ if framing == Framing::bytes(1) => assert_eq!(heard.chunks.len(), plain.len()),
            _ if framing == Framing::whole() => assert_eq!(heard.chunks.len(), 1),
            _ => {}
        }
    }
}

async fn chunks(dialect: Dialect) -> Vec<Value> {
    let server = ModelServer::start_with(rich_script(), ModelServerSettings::speaking(dialect));
    chat(&server).await.data()
}

/// The pieces of calls in a list of chunks.
fn calls(chunks: &[Value]) -> Vec<&Value> {
    let choices = chunks.iter().map(|chunk| &chunk["choices"][0]);
    choices
        .filter_map(|choice| choice["delta"]["tool_calls"].get(0))
        .collect()
}

#[tokio::test]
async fn a_chat_stream_is_that_of_the_first_provider() {
    let server = ModelServer::start(rich_script());
    let heard = chat(&server).await;
    assert!(heard.text().ends_with("data: [DONE]\n\n"));
    let chunks = heard.data();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(
        chunks[1]["choices"][0]["delta"]["reasoning_content"],
        "hm, "
    );
    assert_eq!(chunks[3]["choices"][0]["delta"]["content"], "I ");
    let calls = calls(&chunks);
    assert_eq!(
        calls
            .iter()
            .map(|call| call["index"].as_u64())
            .collect::<Vec<_>>(),
        [0, 0, 0, 1, 1].map(Some)
    );
    assert_eq!(
        calls[0]["function"],
        json!({"name": "bash", "arguments": ""})
    );
    assert!(calls[0]["id"].is_string() && calls[1]["id"].is_null());
    assert_eq!(calls[4]["function"], json!({"arguments": "{}"}));
    let [.., last, counted] = chunks.as_slice() else {
        panic!("too few chunks");
    };
    assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(counted["choices"], json!([]));
    assert_eq!(counted["usage"]["prompt_tokens"], 12);
    assert_eq!(counted["usage"]["completion_tokens"], 40);

    let server = ModelServer::start(rich_script());
    let unasked = post(&server, "/v1/chat/completions", &messages_body()).await;
    assert!(
        !unasked.text().contains("usage"),
        "usage only when asked for"
    );
}

#[tokio::test]
async fn dialects_differ_where_they_say() {
    let plain = Dialect::default();
    let heard = chunks(Dialect {
        missing_index: true,
        ..plain
    })
    .await;
    assert!(calls(&heard).iter().all(|call| call["index"].is_null()));
    let heard = chunks(Dialect {
        repeated_id: true,
        ..plain
    })
    .await;
    assert!(calls(&heard).iter().all(|call| call["id"].is_string()));
    let heard = chunks(Dialect {
        no_id: true,
        ..plain
    })
    .await;
    assert!(calls(&heard).iter().all(|call| call["id"].is_null()));
    let heard = chunks(Dialect {
        arguments_at_once: true,
        ..plain
    })
    .await;
    assert_eq!(calls(&heard).len(), 2);
    assert_eq!(
        calls(&heard)[0]["function"]["arguments"],
        r#"{"command":"ls"}"#
    );
    let heard = chunks(Dialect {
        object_arguments: true,
        ..plain
    })
    .await;
    assert_eq!(
        calls(&heard)[0]["function"]["arguments"],
        json!({"command": "ls"})
    );
    let heard = chunks(Dialect {
        stop_despite_calls: true,
        ..plain
    })
    .await;
    assert_eq!(
        heard[heard.len() - 2]["choices"][0]["finish_reason"],
        "stop"
    );
    let heard = chunks(Dialect {
        no_usage: true,
        ..plain
    })
    .await;
    assert!(heard.iter().all(|chunk| chunk["usage"].is_null()));

    let dialect = Dialect {
        no_done: true,
        ..plain
    };
    let server = ModelServer::start_with(rich_script(), ModelServerSettings::speaking(dialect));
    assert!(!chat(&server).await.text().contains("[DONE]"));

    let dialect = Dialect {
        no_stream: true,
        ..plain
    };
    let server = ModelServer::start_with(rich_script(), ModelServerSettings::speaking(dialect));
    let heard = chat(&server).await;
    assert_eq!(heard.headers["content-type"], "application/json");
    let choice = &heard.json()["choices"][0];
    assert_eq!(choice["message"]["content"], "I look.");
    assert_eq!(
        choice["message"]["tool_calls"][0]["function"]["name"],
        "bash"
    );
}

#[tokio::test]
async fn who_asks_for_no_stream_gets_none() {
    let server = ModelServer::start([
        rich_script().replies.remove(0),
        ScriptedReply::text("again"),
    ]);
    let mut body = messages_body();
    body["stream"] = json!(false);
    let message = post(&server, "/v1/messages", &body).await.json();
    let kinds: Vec<_> = message["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(message["content"][3]["input"], json!({}));
    let mut body = chat_body();
    body["stream"] = json!(false);
    let heard = post(&server, "/v1/chat/completions", &body).await.json();
    assert_eq!(heard["choices"][0]["message"]["content"], "again");
}

#[tokio::test]
async fn tokens_are_counted_apart_from_the_script() {
    let server = ModelServer::start(ScriptedReply::text("hi"));
    let mut body = messages_body();
    body.as_object_mut().unwrap().remove("max_tokens");
    let heard = post(&server, "/v1/messages/count_tokens", &body).await;
    assert_eq!(heard.json(), json!({"input_tokens": 1234}));
    assert_eq!(server.token_counts(), 1);
    assert_eq!(messages(&server).await.status, 200);
    assert_eq!(server.finish().len(), 1);

    let settings = ModelServerSettings {
        count: Err(404),
        ..ModelServerSettings::default()
    };
    let server = ModelServer::start_with(ScriptedReply::text("hi"), settings);
    assert_eq!(
        post(&server, "/v1/messages/count_tokens", &body)
            .await
            .status,
        404
    );
}
