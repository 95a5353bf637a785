//! Servers of chat completions differ; the reply is the same.

use llm::ModelErrorKind;
use llm::script::ScriptedReply;
use protocol::Block;
use serde_json::json;
use testkit::{Dialect, Framing, ModelServer, ModelServerSettings, ScriptedAnswer};

use crate::ask::{
    ModelClient, OwnedRequest, ask, assert_rich, assistant, results_of, rich, thinking_of,
};

/// Every combination of dialect options.
fn dialects() -> impl Iterator<Item = Dialect> {
    (0_u32..1 << 9).map(|bits| {
        let has = |place: u32| bits & (1 << place) != 0;
        Dialect {
            missing_index: has(0),
            repeated_id: has(1),
            no_id: has(2),
            arguments_at_once: has(3),
            object_arguments: has(4),
            stop_despite_calls: has(5),
            no_usage: has(6),
            no_done: has(7),
            no_stream: has(8),
        }
    })
}

#[tokio::test]
async fn all_dialects_say_the_same() {
    for dialect in dialects() {
        let server =
            ModelServer::start_with([rich(), rich()], ModelServerSettings::speaking(dialect));
        let model = ModelClient::OpenAi.of(&server);
        let (first, heard) = OwnedRequest::default().ask(&*model).await;
        let first = first.unwrap_or_else(|error| panic!("{dialect:?}: {error}"));
        assert_rich(ModelClient::OpenAi, &first);
        assert_eq!(Some(thinking_of(&heard)), rich().thinking, "{dialect:?}");
        assert!(
            first.usage.input() > 0 && first.usage.output_tokens > 0,
            "{dialect:?}"
        );
        if !dialect.no_usage {
            assert_eq!(Some(first.usage), rich().usage, "{dialect:?}");
        }
        // Ids, including generated ones, are valid for a whole conversation: the server checks
        // them.
        let asked =
            OwnedRequest::default().with([assistant(first.content.clone()), results_of(&first)]);
        let second = asked.ask(&*model).await.0.unwrap();
        let ids = |content: &[Block]| -> Vec<_> {
            let id = |block: &Block| match block {
                Block::ToolUse { id, .. } => Some(id.clone()),
                _ => None,
            };
            content.iter().filter_map(id).collect()
        };
        for id in ids(&second.content) {
            assert!(
                !ids(&first.content).contains(&id),
                "{dialect:?}: {id:?} twice"
            );
        }
        server.finish();
    }
}

#[tokio::test]
async fn dialects_byte_by_byte() {
    let plain = Dialect::default();
    for dialect in [
        plain,
        Dialect {
            missing_index: true,
            no_id: true,
            no_done: true,
            ..plain
        },
        Dialect {
            no_stream: true,
            ..plain
        },
    ] {
        let settings = ModelServerSettings {
            dialect,
            framing: Framing::bytes(1),
            ..ModelServerSettings::default()
        };
        let server = ModelServer::start_with(rich(), settings);
        assert_rich(
            ModelClient::OpenAi,
            &ask(&*ModelClient::OpenAi.of(&server)).await.unwrap(),
        );
    }
}

#[tokio::test]
async fn half_an_object_is_no_reply() {
    let dialect = Dialect {
        no_stream: true,
        ..Dialect::default()
    };
    let cut = ScriptedReply {
        cut_after: Some(1),
        ..rich()
    };
    let ended = ScriptedAnswer::body(200, "application/json", r#"{"choices": [{"mess"#);
    let server = ModelServer::start_with(
        [ScriptedAnswer::reply(cut), ended],
        ModelServerSettings::speaking(dialect),
    );
    let model = ModelClient::OpenAi.of(&server);
    for how in ["broken", "ended"] {
        let error = ask(&*model).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Stream, "{how}: {error}");
        assert!(error.is_retryable(), "{how}: {error}");
    }
}

#[tokio::test]
async fn many_calls_of_one_tool_stay_apart() {
    for dialect in dialects().filter(|dialect| !dialect.no_stream) {
        let mut reply = ScriptedReply::call("bash", json!({"x": "0"}));
        for number in 1..4 {
            let more = ScriptedReply::call("bash", json!({"x": number.to_string()}));
            reply.calls.extend(more.calls);
        }
        let server = ModelServer::start_with(reply, ModelServerSettings::speaking(dialect));
        let reply = ask(&*ModelClient::OpenAi.of(&server)).await.unwrap();
        let inputs: Vec<_> = reply
            .content
            .iter()
            .map(|block| match block {
                Block::ToolUse { input, .. } => input["x"].as_str().unwrap().to_owned(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(inputs, ["0", "1", "2", "3"], "{dialect:?}");
    }
}
