//! Failed requests: the kind for each status, and the provider's retry advice.

use std::time::Duration;

use llm::script::ScriptedReply;
use llm::{ModelError, ModelErrorKind};
use testkit::{ModelServer, ScriptedAnswer};

use crate::ask::{ALL_CLIENTS, ModelClient, ask};

async fn fail(client: ModelClient, answer: impl Into<ScriptedAnswer>) -> ModelError {
    let server = ModelServer::start(answer.into());
    ask(&*client.of(&server)).await.unwrap_err()
}

#[tokio::test]
async fn every_status_has_its_kind() {
    for (status, name, kind, is_retryable) in [
        (400, "invalid_request_error", ModelErrorKind::Request, false),
        (401, "authentication_error", ModelErrorKind::Key, false),
        (403, "permission_error", ModelErrorKind::Key, false),
        (404, "not_found_error", ModelErrorKind::NotFound, false),
        (405, "", ModelErrorKind::Request, false),
        (408, "timeout_error", ModelErrorKind::Server, true),
        (409, "conflict", ModelErrorKind::Server, true),
        (413, "request_too_large", ModelErrorKind::Request, false),
        (422, "unprocessable", ModelErrorKind::Request, false),
        (429, "rate_limit_error", ModelErrorKind::RateLimit, true),
        (500, "api_error", ModelErrorKind::Server, true),
        (502, "", ModelErrorKind::Server, true),
        (503, "", ModelErrorKind::Overloaded, true),
        (504, "timeout_error", ModelErrorKind::Server, true),
        (529, "overloaded_error", ModelErrorKind::Overloaded, true),
    ] {
        for client in ALL_CLIENTS {
            let error = fail(client, ScriptedReply::error(status, name, "it is so")).await;
            assert_eq!(error.kind, kind, "{client:?} {status}: {error}");
            assert_eq!(error.is_retryable(), is_retryable, "{client:?} {status}");
            let message = &error.message;
            assert!(message.contains("it is so"), "{message}");
            assert!(message.contains(&status.to_string()), "{message}");
            assert!(message.contains("req_0001"), "the request's id: {message}");

            let page = ScriptedAnswer::body(status, "text/html", "<h1>Bad\x1b[31m Gateway</h1>");
            let error = fail(client, page).await;
            assert_eq!(error.kind, kind, "{client:?} {status} with a page");
            assert!(!error.message.contains('\x1b'), "{error}");
        }
    }
}

#[tokio::test]
async fn a_request_that_is_too_long_is_told_apart() {
    for client in ALL_CLIENTS {
        for message in [
            "prompt is too long: 208310 tokens > 200000 maximum",
            "This model's maximum context length is 8192 tokens.",
        ] {
            let error = ScriptedReply::error(400, "invalid_request_error", message);
            let error = fail(client, error).await;
            assert_eq!(error.kind, ModelErrorKind::TooLong, "{client:?}: {message}");
            assert!(!error.is_retryable());
        }
    }
}

#[tokio::test]
async fn the_provider_has_the_last_word_on_trying_again() {
    for client in ALL_CLIENTS {
        for (status, word, is_retryable) in [
            (400, "true", true),
            (401, "true", true),
            (429, "false", false),
            (529, "false", false),
            (529, "perhaps", true),
        ] {
            let error = ScriptedReply::error(status, "x", "no");
            let answer = ScriptedAnswer::reply(error).with_header("x-should-retry", word);
            let error = fail(client, answer).await;
            assert_eq!(
                error.is_retryable(),
                is_retryable,
                "{client:?} {status} {word}"
            );
        }
    }
}

#[tokio::test]
async fn retry_after_of_the_provider_is_parsed() {
    for client in ALL_CLIENTS {
        for (headers, expected) in [
            (&[("retry-after", "7")][..], Some(Duration::from_secs(7))),
            (&[("retry-after", "0.5")], Some(Duration::from_millis(500))),
            (
                &[("retry-after-ms", "1500")],
                Some(Duration::from_millis(1500)),
            ),
            (
                &[("retry-after", "9"), ("retry-after-ms", "20")],
                Some(Duration::from_millis(20)),
            ),
            // In the past.
            (
                &[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")],
                Some(Duration::ZERO),
            ),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-3")], None),
            (&[], None),
        ] {
            let error = ScriptedReply::error(429, "rate_limit_error", "slow");
            let mut answer = ScriptedAnswer::reply(error);
            for (name, value) in headers {
                answer = answer.with_header(name, value);
            }
            let error = fail(client, answer).await;
            assert_eq!(error.retry_after, expected, "{client:?} {headers:?}");
        }
        let error = ScriptedReply::error(503, "", "");
        let date = "Fri, 31 Dec 2100 23:59:59 GMT";
        let answer = ScriptedAnswer::reply(error).with_header("retry-after", date);
        let wait = fail(client, answer).await.retry_after.unwrap();
        assert!(wait > Duration::from_secs(86_400 * 365), "{wait:?}");
    }
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached() {
    for client in ALL_CLIENTS {
        let error = fail(client, ScriptedAnswer::hang_up()).await;
        assert_eq!(error.kind, ModelErrorKind::Network, "{client:?}: {error}");
        assert!(error.is_retryable());

        let gone = ModelServer::start(ScriptedReply::text("x"));
        let model = client.of(&gone);
        drop(gone);
        let error = ask(&*model).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Network, "{client:?}: {error}");
        assert!(error.is_retryable());

        let server = ModelServer::start(ScriptedReply::text("x"));
        let lost = client.at(format!("{}/somewhere/else", server.base_url()));
        let error = ask(&*lost).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::NotFound, "{client:?}: {error}");
    }
}
