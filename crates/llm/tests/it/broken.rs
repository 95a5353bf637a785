//! Streams that are not valid replies: each is an error whose kind says whether to retry.

use llm::script::ScriptedReply;
use llm::{ModelError, ModelErrorKind};
use testkit::{ModelServer, RawChunk, ScriptedAnswer};

use crate::ask::{ALL_CLIENTS, ModelClient, ask, rich};

async fn fail(client: ModelClient, answer: ScriptedAnswer) -> ModelError {
    let server = ModelServer::start(answer);
    ask(&*client.of(&server)).await.unwrap_err()
}

#[tokio::test]
async fn bytes_that_are_no_events() {
    for client in ALL_CLIENTS {
        for garbage in [
            &b"data: \xff\xfe\n\n"[..],
            b"data: {\"type\": \n\n",
            b"data: {\"choices\": \n\n",
            b"data: nonsense\n\n",
            b"\0\0\0\0",
            b"hello",
            b"",
        ] {
            let answer = ScriptedAnswer::raw([RawChunk::bytes(garbage)]);
            let error = fail(client, answer).await;
            assert_eq!(
                error.kind,
                ModelErrorKind::Stream,
                "{client:?} {garbage:?}: {error}"
            );
            assert!(error.is_retryable(), "{client:?} {garbage:?}: {error}");
        }
        for after in [0, 3, 9] {
            let answer = ScriptedAnswer::reply(rich()).insert(after, "data: {{{\n\n");
            let error = fail(client, answer).await;
            assert_eq!(error.kind, ModelErrorKind::Stream, "{client:?} {after}");
            assert!(error.is_retryable());
        }
    }
}

#[tokio::test]
async fn a_piece_for_a_block_that_never_began() {
    let stray = "data: {\"type\":\"content_block_delta\",\"index\":7,\
                 \"delta\":{\"type\":\"text_delta\",\"text\":\"lost\"}}\n\n";
    let answer = ScriptedAnswer::reply(rich()).insert(3, stray);
    let error = fail(ModelClient::Anthropic, answer).await;
    assert_eq!(error.kind, ModelErrorKind::Stream);
}

#[tokio::test]
async fn a_page_in_place_of_a_reply() {
    for client in ALL_CLIENTS {
        let answer = ScriptedAnswer::body(200, "text/html", "<h1>Sign in to the <b>hotel</b></h1>");
        let error = fail(client, answer).await;
        assert_eq!(error.kind, ModelErrorKind::Stream, "{client:?}: {error}");
        assert!(!error.is_retryable(), "it will say the same again");
        assert!(error.message.contains("hotel"), "{error}");
    }
}

#[tokio::test]
async fn an_error_with_the_status_of_a_success() {
    for client in ALL_CLIENTS {
        let body = r#"{"error": {"message": "the moon is wrong"}}"#;
        let error = fail(client, ScriptedAnswer::body(200, "application/json", body)).await;
        assert!(
            error.message.contains("the moon is wrong"),
            "{client:?}: {error}"
        );
    }
}

#[tokio::test]
async fn an_error_in_mid_stream_has_its_kind() {
    for client in ALL_CLIENTS {
        for (name, kind, is_retryable) in [
            ("overloaded_error", ModelErrorKind::Overloaded, true),
            ("rate_limit_error", ModelErrorKind::RateLimit, true),
            ("api_error", ModelErrorKind::Server, true),
            ("invalid_request_error", ModelErrorKind::Request, false),
            ("authentication_error", ModelErrorKind::Key, false),
        ] {
            for after in [0, 1, 5] {
                let mut reply = rich();
                reply.error = ScriptedReply::error(529, name, "so it goes").error;
                reply.error.as_mut().unwrap().after = Some(after);
                let error = fail(client, reply.into()).await;
                assert_eq!(error.kind, kind, "{client:?} {name} {after}");
                assert_eq!(error.is_retryable(), is_retryable);
                assert!(error.message.contains("so it goes"), "{error}");
            }
        }
    }
}
