//! Complete replies: every stop reason, every kind of content, usage, counts.

use llm::script::{ScriptedCall, ScriptedReply};
use llm::{Model, ModelReply, OpenAi, ScriptedModel};
use protocol::{Block, Stop, Usage};
use serde_json::{Value, json};
use testkit::{ModelServer, ModelServerSettings};

use crate::ask::{
    ALL_CLIENTS, ModelClient, OwnedReplyEvent, OwnedRequest, TEST_KEY, ask, assert_rich,
    openai_config, rich, text_of, thinking_of, user,
};

#[tokio::test]
async fn a_rich_reply_comes_whole_and_in_pieces() {
    for client in ALL_CLIENTS {
        let server = ModelServer::start(rich());
        let (reply, heard) = OwnedRequest::default().ask(&*client.of(&server)).await;
        let reply = reply.unwrap();
        assert_rich(client, &reply);
        assert_eq!(text_of(&heard), rich().text.unwrap());
        assert_eq!(thinking_of(&heard), rich().thinking.unwrap());
        let pieces = |piece: &&OwnedReplyEvent| matches!(piece, OwnedReplyEvent::Text(_));
        assert!(heard.iter().filter(pieces).count() > 1, "{heard:?}");
        let inputs: Vec<_> = heard
            .iter()
            .filter_map(|piece| match piece {
                OwnedReplyEvent::Input { name, json } if name == "bash" => Some(json.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(inputs[0], "", "the call is told of when it begins");
        let input: Value = serde_json::from_str(&inputs.concat()).unwrap();
        assert_eq!(input, rich().calls[0].input);
        let begun = OwnedReplyEvent::Input {
            name: "read_file".to_owned(),
            json: String::new(),
        };
        assert!(heard.contains(&begun));
        server.finish();
    }
}

#[tokio::test]
async fn usage_and_the_model_are_the_providers() {
    let server = ModelServer::start(rich());
    let reply = ask(&*ModelClient::Anthropic.of(&server)).await.unwrap();
    assert_eq!(Some(reply.usage), rich().usage);
    assert_eq!(reply.model, "claude-test");

    let server = ModelServer::start(rich());
    let reply = ask(&*ModelClient::OpenAi.of(&server)).await.unwrap();
    assert_eq!(
        reply.usage,
        Usage {
            input_tokens: 11,
            cache_read_input_tokens: 2000,
            cache_creation_input_tokens: 0,
            output_tokens: 77,
        }
    );
    assert_eq!(reply.model, "qwen-test");
}

#[tokio::test]
async fn every_stop_reason_is_understood() {
    for (client, reason, expected) in [
        (ModelClient::Anthropic, "end_turn", Stop::EndTurn),
        (ModelClient::Anthropic, "tool_use", Stop::ToolUse),
        (ModelClient::Anthropic, "max_tokens", Stop::MaxTokens),
        (ModelClient::Anthropic, "stop_sequence", Stop::StopSequence),
        (ModelClient::Anthropic, "pause_turn", Stop::PauseTurn),
        (ModelClient::Anthropic, "refusal", Stop::Refusal),
        (
            ModelClient::Anthropic,
            "model_context_window_exceeded",
            Stop::ModelContextWindowExceeded,
        ),
        (
            ModelClient::Anthropic,
            "brand_new",
            Stop::Other("brand_new".to_owned()),
        ),
        (ModelClient::OpenAi, "end_turn", Stop::EndTurn),
        (ModelClient::OpenAi, "max_tokens", Stop::MaxTokens),
        (ModelClient::OpenAi, "refusal", Stop::Refusal),
        (
            ModelClient::OpenAi,
            "brand_new",
            Stop::Other("brand_new".to_owned()),
        ),
    ] {
        let mut reply = ScriptedReply::text("so far");
        reply.stop = Some(reason.to_owned());
        let server = ModelServer::start(reply);
        let reply = ask(&*client.of(&server)).await.unwrap();
        assert_eq!(reply.stop, expected, "{client:?}");
        assert_eq!(reply.content, [Block::text("so far")]);
    }
}

/// A reply with one call whose input is this text.
fn raw_call(raw: &str, stop: Option<&str>) -> ScriptedReply {
    ScriptedReply {
        text: Some("now".to_owned()),
        calls: vec![ScriptedCall {
            tool: "bash".to_owned(),
            input: Value::Null,
            raw: Some(raw.to_owned()),
        }],
        stop: stop.map(str::to_owned),
        ..ScriptedReply::default()
    }
}

#[tokio::test]
async fn inputs_that_cannot_be_run_are_marked() {
    for client in ALL_CLIENTS {
        for (raw, stop, expected, is_broken) in [
            (r#"{"x": "ls"}"#, None, json!({"x": "ls"}), false),
            ("", None, json!({}), false),
            (r#"{"x": "l"#, Some("max_tokens"), json!({}), true),
            ("", Some("max_tokens"), json!({}), true),
            (r#"{"x": "#, None, json!({"unparsed": r#"{"x": "#}), true),
            ("[1, 2]", None, json!({"unparsed": "[1, 2]"}), true),
            ("\"ls\"", None, json!({"unparsed": "\"ls\""}), true),
            ("ls -la", None, json!({"unparsed": "ls -la"}), true),
        ] {
            let server = ModelServer::start(raw_call(raw, stop));
            let reply = ask(&*client.of(&server)).await.unwrap();
            let Some(Block::ToolUse { id, input, .. }) = reply.content.last() else {
                panic!("no call: {reply:?}");
            };
            assert_eq!(*input, expected, "{client:?} {raw}");
            let broken: Vec<_> = reply.broken_calls.keys().collect();
            assert_eq!(
                broken,
                if is_broken { vec![id] } else { vec![] },
                "{client:?} {raw}"
            );
        }
    }
}

#[tokio::test]
async fn base_urls_work_in_all_their_forms() {
    for client in ALL_CLIENTS {
        let server = ModelServer::start([ScriptedReply::text("a"), ScriptedReply::text("b")]);
        for suffix in ["/", "/v1/"] {
            let model = client.at(format!("{}{suffix}", server.base_url()));
            ask(&*model).await.unwrap();
        }
    }
}

#[tokio::test]
async fn keys_go_where_the_provider_looks_and_only_if_there_is_one() {
    let server = ModelServer::start([(); 3].map(|()| ScriptedReply::text("hi")));
    ask(&*ModelClient::Anthropic.of(&server)).await.unwrap();
    ask(&*ModelClient::OpenAi.of(&server)).await.unwrap();
    let mut config = openai_config(server.base_url());
    config.api_key = None;
    ask(&OpenAi::new(config).unwrap()).await.unwrap();
    let [first, second, third] = server.finish().try_into().unwrap();
    assert_eq!(first.header("x-api-key"), Some(TEST_KEY));
    assert_eq!(first.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(
        second.header("authorization"),
        Some(format!("Bearer {TEST_KEY}").as_str())
    );
    assert_eq!(third.header("authorization"), None);
}

#[tokio::test]
async fn tokens_are_counted_there_or_estimated_here() {
    let asked = OwnedRequest::default();
    let none: [ScriptedReply; 0] = [];
    let server = ModelServer::start(none.clone());
    let model = ModelClient::Anthropic.of(&server);
    assert_eq!(model.count(asked.request()).await.unwrap(), 1234);
    assert_eq!((server.token_counts(), server.request_count()), (1, 0));

    for status in [404, 429, 500] {
        let settings = ModelServerSettings {
            count: Err(status),
            ..ModelServerSettings::default()
        };
        let server = ModelServer::start_with(none.clone(), settings);
        let count = ModelClient::Anthropic
            .of(&server)
            .count(asked.request())
            .await
            .unwrap();
        assert!((10..1000).contains(&count), "{status}: {count}");
        assert_eq!(server.token_counts(), 1);
    }

    let server = ModelServer::start(none);
    let count = ModelClient::OpenAi
        .of(&server)
        .count(asked.request())
        .await
        .unwrap();
    assert!((10..1000).contains(&count), "{count}");
}

#[tokio::test]
async fn a_client_that_is_dropped_hangs_up() {
    for client in ALL_CLIENTS {
        let gate = testkit::StreamGate::new();
        let held = testkit::ScriptedAnswer::reply(rich()).hold(4, &gate);
        let server = ModelServer::start([held, ScriptedReply::text("next").into()]);
        let model = client.of(&server);
        let asked = OwnedRequest::default();
        tokio::select! {
            _ = asked.ask(&*model) => panic!("the reply is held"),
            () = gate.reached() => {}
        }
        server.hung_up(1).await;
        let reply = ask(&*model).await.unwrap();
        assert_eq!(reply.content, [Block::text("next")]);
    }
}

#[tokio::test]
async fn many_requests_at_once_stay_apart() {
    for client in ALL_CLIENTS {
        let server = ModelServer::start(testkit::Replies::decide(|request| {
            let body = String::from_utf8_lossy(&request.body);
            let (_, rest) = body.split_once("number ").unwrap();
            ScriptedReply::text(rest.split_once('.').unwrap().0)
        }));
        let model = client.of(&server);
        let asks = (0..20).map(|number| {
            let model = &model;
            async move {
                let asked = OwnedRequest {
                    messages: vec![user([Block::text(format!("number {number}."))])],
                    ..OwnedRequest::default()
                };
                let reply = asked.ask(&**model).await.0.unwrap();
                assert_eq!(reply.content, [Block::text(number.to_string())]);
            }
        });
        futures_util::future::join_all(asks).await;
    }
}

/// The model of `hotcell demo` and the test server use the same script format.
#[tokio::test]
async fn a_script_means_the_same_in_process_and_over_http() {
    let script = llm::script::Script {
        title: String::new(),
        replies: vec![
            rich(),
            raw_call("{\"x\"", Some("max_tokens")),
            ScriptedReply::text("x"),
        ],
    };
    let server = ModelServer::start(script.clone());
    let over_http = ModelClient::Anthropic.of(&server);
    let in_process = ScriptedModel::new(script);
    for _ in 0..3 {
        let one = ask(&*over_http).await.unwrap();
        let other = ask(&in_process).await.unwrap();
        let told = |reply: &ModelReply| -> Vec<Value> {
            let mut blocks = serde_json::to_value(&reply.content).unwrap();
            for block in blocks.as_array_mut().unwrap() {
                // Each provider reports its own.
                block.as_object_mut().unwrap().remove("id");
                block.as_object_mut().unwrap().remove("signature");
            }
            blocks.as_array().unwrap().clone()
        };
        assert_eq!(told(&one), told(&other));
        assert_eq!(one.stop, other.stop);
        assert_eq!(one.broken_calls.len(), other.broken_calls.len());
    }
    let one = ask(&*over_http).await.unwrap_err();
    let other = ask(&in_process).await.unwrap_err();
    assert_eq!(one.kind, other.kind, "the script is over");
}
