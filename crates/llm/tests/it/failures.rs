//! Failed requests: the kind for each status, and the provider's retry advice.

use std::time::Duration;

use llm::script::ScriptedReply;
use llm::{ErrorKind, ModelError};
use testkit::{Answer, ModelServer};

use crate::ask::{BOTH, Client, ask};

async fn fail(client: Client, answer: impl Into<Answer>) -> ModelError {
    let server = ModelServer::start(answer.into());
    ask(&*client.of(&server)).await.unwrap_err()
}

#[tokio::test]
async fn every_status_has_its_kind() {
    for (status, name, kind, is_retryable) in [
        (400, "invalid_request_error", ErrorKind::Request, false),
        (401, "authentication_error", ErrorKind::Key, false),
        (403, "permission_error", ErrorKind::Key, false),
        (404, "not_found_error", ErrorKind::NotFound, false),
        (405, "", ErrorKind::Request, false),
        (408, "timeout_error", ErrorKind::Server, true),
        (409, "conflict", ErrorKind::Server, true),
        (413, "request_too_large", ErrorKind::Request, false),
        (422, "unprocessable", ErrorKind::Request, false),
        (429, "rate_limit_error", ErrorKind::RateLimit, true),
        (500, "api_error", ErrorKind::Server, true),
        (502, "", ErrorKind::Server, true),
        (503, "", ErrorKind::Overloaded, true),
        (504, "timeout_error", ErrorKind::Server, true),
        (529, "overloaded_error", ErrorKind::Overloaded, true),
    ] {
        for client in BOTH {
            let error = fail(client, ScriptedReply::error(status, name, "it is so")).await;
            assert_eq!(error.kind, kind, "{client:?} {status}: {error}");
            assert_eq!(error.is_retryable(), is_retryable, "{client:?} {status}");
            let message = &error.message;
            assert!(message.contains("it is so"), "{message}");
            assert!(message.contains(&status.to_string()), "{message}");
            assert!(message.contains("req_0001"), "the request's id: {message}");

            let page = Answer::body(status, "text/html", "<h1>Bad\x1b[31m Gateway</h1>");
            let error = fail(client, page).await;
            assert_eq!(error.kind, kind, "{client:?} {status} with a page");
            assert!(!error.message.contains('\x1b'), "{error}");
        }
    }
}

#[tokio::test]
async fn a_request_that_is_too_long_is_told_apart() {
    for client in BOTH {
        for message in [
            "prompt is too long: 208310 tokens > 200000 maximum",
            "This model's maximum context length is 8192 tokens.",
        ] {
            let error = ScriptedReply::error(400, "invalid_request_error", message);
            let error = fail(client, error).await;
            assert_eq!(error.kind, ErrorKind::TooLong, "{client:?}: {message}");
            assert!(!error.is_retryable());
        }
    }
}

#[tokio::test]
async fn the_provider_has_the_last_word_on_trying_again() {
    for client in BOTH {
        for (status, word, is_retryable) in [
            (400, "true", true),
            (401, "true", true),
            (429, "false", false),
            (529, "false", false),
            (529, "perhaps", true),
        ] {
            let error = ScriptedReply::error(status, "x", "no");
            let answer = Answer::reply(error).with_header("x-should-retry", word);
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
async fn the_wait_that_the_provider_asks_for_is_heard() {
    for client in BOTH {
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
            let mut answer = Answer::reply(error);
            for (name, value) in headers {
                answer = answer.with_header(name, value);
            }
            let error = fail(client, answer).await;
            assert_eq!(error.retry_after, expected, "{client:?} {headers:?}");
        }
        let error = ScriptedReply::error(503, "", "");
        let date = "Fri, 31 Dec 2100 23:59:59 GMT";
        let answer = Answer::reply(error).with_header("retry-after", date);
        let wait = fail(client, answer).await.retry_after.unwrap();
        assert!(wait > Duration::from_secs(86_400 * 365), "{wait:?}");
    }
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached() {
    for client in BOTH {
        let error = fail(client, Answer::hang_up()).await;
        assert_eq!(error.kind, ErrorKind::Network, "{client:?}: {error}");
        assert!(error.is_retryable());

        let gone = ModelServer::start(ScriptedReply::text("x"));
        let model = client.of(&gone);
        drop(gone);
        let error = ask(&*model).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Network, "{client:?}: {error}");
        assert!(error.is_retryable());

        let server = ModelServer::start(ScriptedReply::text("x"));
        let lost = client.at(format!("{}/somewhere/else", server.base_url()));
        let error = ask(&*lost).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{client:?}: {error}");
    }
}
