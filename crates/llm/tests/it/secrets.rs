//! The key is sent in one header, and appears nowhere else.

use std::sync::Arc;

use llm::script::ScriptedReply;
use llm::{Anthropic, Model, ModelError, OpenAi, RetryingModel};
use testkit::{ModelServer, RawChunk, ScriptedAnswer};

use crate::ask::{ALL_CLIENTS, ModelClient, TEST_KEY, anthropic_config, ask, openai_config};
use crate::retries::quick_policy;

fn assert_hidden(client: ModelClient, what: &str, text: &str) {
    assert!(!text.contains("hushhush"), "{client:?} {what}: {text}");
}

fn texts(error: &ModelError) -> [String; 2] {
    [error.to_string(), format!("{error:?}")]
}

#[tokio::test]
async fn no_error_shows_the_key() {
    let said = format!("the key `{TEST_KEY}` is not mine");
    let echo =
        |status| ScriptedAnswer::reply(ScriptedReply::error(status, "authentication_error", &said));
    let late = || {
        let mut reply = ScriptedReply::error(500, "api_error", &said);
        reply.error.as_mut().unwrap().after = Some(1);
        ScriptedAnswer::reply(reply)
    };
    for client in ALL_CLIENTS {
        for answer in [
            echo(401),
            echo(400),
            late(),
            ScriptedAnswer::body(403, "text/plain", said.clone()),
            ScriptedAnswer::body(200, "text/html", said.clone()),
            ScriptedAnswer::body(
                200,
                "application/json",
                format!("{{\"error\": \"{said}\"}}"),
            ),
            ScriptedAnswer::raw([RawChunk::bytes(format!("data: {said}\n\n"))]),
            ScriptedAnswer::body(302, "text/plain", "")
                .with_header("location", &format!("http://x/{TEST_KEY}")),
            ScriptedAnswer::hang_up(),
        ] {
            let what = format!("{answer:?}");
            let server = ModelServer::start(answer);
            let error = ask(&*client.of(&server)).await.unwrap_err();
            for text in texts(&error) {
                assert_hidden(client, &what, &text);
            }
        }
    }
}

#[tokio::test]
async fn no_client_shows_the_key() {
    for client in ALL_CLIENTS {
        let model = client.at("http://127.0.0.1:9".to_owned());
        assert_hidden(client, "itself", &format!("{model:?} {model:#?}"));
        let patient: Arc<dyn Model> = Arc::new(RetryingModel::new(model, quick_policy()));
        assert_hidden(client, "in a wrapper", &format!("{patient:?}"));
    }
    let config = anthropic_config("http://127.0.0.1:9".to_owned());
    assert_hidden(ModelClient::Anthropic, "config", &format!("{config:?}"));
    let config = openai_config("http://127.0.0.1:9".to_owned());
    assert_hidden(ModelClient::OpenAi, "config", &format!("{config:?}"));
}

#[tokio::test]
async fn keys_that_are_no_header_are_refused_unseen() {
    for bad in ["hushhush\r\nx-evil: 1", "hushhush\u{0}", "hushhush ключ"] {
        let mut config = anthropic_config("http://127.0.0.1:9".to_owned());
        config.api_key = bad.into();
        let error = Anthropic::new(config).unwrap_err();
        assert_eq!(error.kind, llm::ModelErrorKind::Key);
        for text in texts(&error) {
            assert_hidden(ModelClient::Anthropic, "bad key", &text);
        }
        let mut config = openai_config("http://127.0.0.1:9".to_owned());
        config.api_key = Some(bad.into());
        let error = OpenAi::new(config).unwrap_err();
        assert_eq!(error.kind, llm::ModelErrorKind::Key);
        for text in texts(&error) {
            assert_hidden(ModelClient::OpenAi, "bad key", &text);
        }
    }
}

#[tokio::test]
async fn no_redirect_carries_the_key_away() {
    for client in ALL_CLIENTS {
        for status in [301, 302, 303, 307, 308] {
            let thief = ModelServer::start(ScriptedReply::text("thank you"));
            let answer = ScriptedAnswer::body(status, "text/plain", "")
                .with_header("location", &format!("{}/v1/messages", thief.base_url()));
            let server = ModelServer::start(answer);
            let error = ask(&*client.of(&server)).await.unwrap_err();
            assert!(!error.is_retryable(), "{client:?} {status}: {error}");
            assert_eq!(thief.request_count(), 0);
        }
    }
}
