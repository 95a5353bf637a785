//! What is sent back to the provider. The server checks each request against the provider's rules.

use std::sync::Arc;

use llm::script::ScriptedReply;
use llm::{Anthropic, AnthropicConfig, Model};
use protocol::{Block, Image, Message, Stop};
use serde_json::{Value, json};
use testkit::{ModelServer, RawChunk, Replies, ScriptedAnswer};

use crate::ask::{
    ALL_CLIENTS, ModelClient, OwnedRequest, anthropic_config, ask, assistant, results_of, rich,
    user,
};

#[tokio::test]
async fn thinking_goes_back_byte_for_byte() {
    let server = ModelServer::start([rich(), rich(), ScriptedReply::text("done")]);
    let config = AnthropicConfig {
        thinking_budget: Some(2048),
        ..anthropic_config(server.base_url())
    };
    let model = Anthropic::new(config).unwrap();
    let mut asked = OwnedRequest::default();
    for _ in 0..2 {
        let reply = asked.ask(&model).await.0.unwrap();
        asked = asked.with([assistant(reply.content.clone()), results_of(&reply)]);
    }
    asked.ask(&model).await.0.unwrap();
    let [first, _, third] = server.finish().try_into().unwrap();
    let thinking = json!({"type": "enabled", "budget_tokens": 2048});
    assert_eq!(first.json()["thinking"], thinking);
    let sent = &third.json()["messages"];
    for place in [1, 3] {
        let block = &sent[place]["content"][0];
        assert_eq!(block["thinking"].as_str(), rich().thinking.as_deref());
    }
}

#[tokio::test]
async fn blocks_that_only_the_provider_reads_go_back_as_they_came() {
    let blocks = [
        json!({"type": "redacted_thinking", "data": "b3BhcXVl+/=="}),
        json!({"type": "server_tool_use", "id": "srv_1", "name": "web", "input": {"q": [1]}}),
        json!({"type": "text", "text": "found", "citations": [{"type": "x", "y": null}]}),
    ];
    let mut events = vec![json!({"type": "message_start", "message": {"model": "m"}})];
    for (index, block) in blocks.iter().enumerate() {
        let begin = json!({"type": "content_block_start", "index": index, "content_block": block});
        events.push(begin);
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "pause_turn"}}));
    events.push(json!({"type": "message_stop"}));
    let stream: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let server = ModelServer::start([
        ScriptedAnswer::raw([RawChunk::bytes(stream)]),
        ScriptedReply::text("on").into(),
    ]);
    let model = ModelClient::Anthropic.of(&server);
    let reply = ask(&*model).await.unwrap();
    assert_eq!(reply.stop, Stop::PauseTurn);
    // A paused reply is sent back as the last message, and the model continues it.
    OwnedRequest::default()
        .with([assistant(reply.content)])
        .ask(&*model)
        .await
        .0
        .unwrap();
    let sent = server.finish()[1].json();
    assert_eq!(sent["messages"][1]["content"], json!(blocks));
}

fn image_block() -> Block {
    Block::Image {
        source: Image::Base64 {
            media_type: "image/png".to_owned(),
            data: "iVBORw0KGgo=".to_owned(),
        },
    }
}

/// Two calls, one answered with an image, one with an error.
fn image_and_error_results() -> [Arc<Message>; 2] {
    let call = |id: &str| Block::ToolUse {
        id: id.into(),
        name: "bash".to_owned(),
        input: json!({"x": "y"}),
    };
    let result = |id: &str, content: Vec<Block>, is_error| Block::ToolResult {
        tool_use_id: id.into(),
        content,
        is_error,
    };
    [
        assistant([Block::text("two looks"), call("c1"), call("c2")]),
        user([
            result("c1", vec![Block::text("a picture:"), image_block()], false),
            result("c2", vec![Block::text("no such file")], true),
            Block::text("and now?"),
        ]),
    ]
}

#[tokio::test]
async fn results_with_pictures_and_errors() {
    let asked = OwnedRequest::default().with(image_and_error_results());
    let server = ModelServer::start(ScriptedReply::text("nice"));
    asked
        .ask(&*ModelClient::Anthropic.of(&server))
        .await
        .0
        .unwrap();
    let sent = server.finish()[0].json();
    let results = &sent["messages"][2]["content"];
    assert_eq!(results[0]["content"][1]["source"]["data"], "iVBORw0KGgo=");
    assert_eq!(
        (&results[0]["is_error"], &results[1]["is_error"]),
        (&Value::Null, &json!(true))
    );

    let server = ModelServer::start(ScriptedReply::text("nice"));
    asked
        .ask(&*ModelClient::OpenAi.of(&server))
        .await
        .0
        .unwrap();
    let sent = server.finish()[0].json();
    let messages = sent["messages"].as_array().unwrap();
    let roles: Vec<_> = messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles[..5], ["system", "user", "assistant", "tool", "tool"]);
    assert!(roles[5..].iter().all(|role| *role == "user"), "{roles:?}");
    assert_eq!(messages[3]["tool_call_id"], "c1");
    assert!(messages[4]["content"].to_string().contains("no such file"));
    let rest = Value::from(messages[5..].to_vec()).to_string();
    assert!(
        rest.contains("data:image/png;base64,iVBORw0KGgo="),
        "{rest}"
    );
    assert!(rest.contains("and now?"), "{rest}");
    let system = messages[0]["content"].to_string();
    assert!(system.contains("You work.") && system.contains("In a sandbox."));
}

#[tokio::test]
async fn broken_and_thoughtful_replies_can_be_sent_back() {
    // A conversation with one provider continues with the other.
    for (before, after) in [
        (ModelClient::Anthropic, ModelClient::OpenAi),
        (ModelClient::OpenAi, ModelClient::Anthropic),
        (ModelClient::OpenAi, ModelClient::OpenAi),
    ] {
        let mut broken = rich();
        broken.calls[0].raw = Some("{\"x\": ".to_owned());
        let server = ModelServer::start([broken, ScriptedReply::text("on")]);
        let reply = ask(&*before.of(&server)).await.unwrap();
        assert_eq!(reply.broken_calls.len(), 1);
        let asked =
            OwnedRequest::default().with([assistant(reply.content.clone()), results_of(&reply)]);
        asked.ask(&*after.of(&server)).await.0.unwrap();
        server.finish();
    }
}

/// Models produce empty text, commands print nothing, and the provider refuses empty text.
#[tokio::test]
async fn empty_text_never_goes_back() {
    let mut blank = ScriptedReply::call("bash", json!({}));
    blank.text = Some("\n\n".to_owned());
    blank.thinking = Some(String::new());
    for client in ALL_CLIENTS {
        let server = ModelServer::start([blank.clone(), ScriptedReply::text("on")]);
        let model = client.of(&server);
        let reply = ask(&*model).await.unwrap();
        let mut results = (*results_of(&reply)).clone();
        for block in &mut results.content {
            if let Block::ToolResult { content, .. } = block {
                *content = vec![Block::text("")];
            }
        }
        results.content.push(Block::text(" "));
        let asked = OwnedRequest::default().with([assistant(reply.content), Arc::new(results)]);
        asked.ask(&*model).await.0.unwrap();
        server.finish();
    }
}

#[tokio::test]
async fn a_thinking_budget_fits_every_request() {
    for max_tokens in [1, 500, 1024, 1025, 1500, 2048, 2049, 8096] {
        let server = ModelServer::start(ScriptedReply::text("hm"));
        let config = AnthropicConfig {
            thinking_budget: Some(2048),
            ..anthropic_config(server.base_url())
        };
        let asked = OwnedRequest {
            max_tokens,
            ..OwnedRequest::default()
        };
        asked.ask(&Anthropic::new(config).unwrap()).await.0.unwrap();
        server.finish();
    }
}

/// Sends a request with thinking enabled after these replies and their results. Returns whether
/// thinking is still enabled in it.
async fn thinks_after(replies: Vec<ScriptedReply>, others: ModelClient) -> bool {
    let count = replies.len();
    let more = [ScriptedReply::text("done")];
    let server = ModelServer::start(Replies::list(replies.into_iter().chain(more)));
    let config = AnthropicConfig {
        thinking_budget: Some(2048),
        ..anthropic_config(server.base_url())
    };
    let thinker = Anthropic::new(config).unwrap();
    let other = others.of(&server);
    let mut asked = OwnedRequest::default();
    for _ in 0..count {
        let model: &dyn Model = match others {
            ModelClient::Anthropic => &thinker,
            ModelClient::OpenAi => &*other,
        };
        let reply = asked.ask(model).await.0.unwrap();
        asked = asked.with([assistant(reply.content.clone()), results_of(&reply)]);
    }
    asked.ask(&thinker).await.0.unwrap();
    let requests = server.finish();
    requests[count].json()["thinking"]["type"] == "enabled"
}

#[tokio::test]
async fn calls_that_were_made_without_thinking_are_done_with_first() {
    assert!(!thinks_after(vec![rich()], ModelClient::OpenAi).await);
}

/// A model thinks at the start of its turn and not again until the next prompt. The service
/// requires thinking before the first calls of the turn, and accepts later calls without it.
/// Disabling thinking in the middle of a turn would lose thinking and the messages' part of the
/// prompt cache for the rest of the turn.
#[tokio::test]
async fn thinking_stays_on_in_a_turn_that_began_with_it() {
    let unthought = ScriptedReply::call("bash", json!({}));
    let replies = vec![rich(), unthought.clone(), unthought];
    assert!(thinks_after(replies, ModelClient::Anthropic).await);
}

/// The positions of the prompt cache marks, as paths.
fn marks(value: &Value, path: &str) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, field)| match name.as_str() {
                "cache_control" => vec![path.to_owned()],
                _ => marks(field, &format!("{path}/{name}")),
            })
            .collect(),
        Value::Array(elements) => elements
            .iter()
            .enumerate()
            .flat_map(|(place, element)| marks(element, &format!("{path}/{place}")))
            .collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn cache_marks_move_with_the_conversation() {
    let server = ModelServer::start([(); 3].map(|()| rich()));
    let model = ModelClient::Anthropic.of(&server);
    let mut asked = OwnedRequest::default();
    for _ in 0..3 {
        let reply = asked.ask(&*model).await.0.unwrap();
        asked = asked.with([assistant(reply.content.clone()), results_of(&reply)]);
    }
    let requests = server.finish();
    let found = |request: usize| marks(&requests[request].json(), "");
    let stable = ["/tools/1", "/system/1"];
    assert_eq!(found(0), [stable[0], stable[1], "/messages/0/content/0"]);
    assert_eq!(
        found(1),
        [
            stable[0],
            stable[1],
            "/messages/0/content/0",
            "/messages/2/content/1"
        ]
    );
    assert_eq!(
        found(2),
        [
            stable[0],
            stable[1],
            "/messages/2/content/1",
            "/messages/4/content/1"
        ],
        "the mark of the request before is still there"
    );
    // The prefix up to the older mark is unchanged except for the marks.
    let text = |request: usize| {
        let body = String::from_utf8(requests[request].body.to_vec()).unwrap();
        body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
    };
    let before = text(1);
    let shared = before.trim_end_matches(['}', ']']);
    assert!(
        text(2).starts_with(shared),
        "a changed prefix loses the cache"
    );
}
