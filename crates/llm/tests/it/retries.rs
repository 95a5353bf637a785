//! Retries of failed requests, over real connections.

use std::time::Duration;

use llm::script::ScriptedReply;
use llm::{ModelErrorKind, RetryPolicy, RetryingModel};
use protocol::Block;
use testkit::{ModelServer, ScriptedAnswer};

use crate::ask::{ALL_CLIENTS, OwnedReplyEvent, OwnedRequest};

/// Delays that are short enough for a test.
pub(crate) fn quick_policy() -> RetryPolicy {
    RetryPolicy {
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(2),
        ..RetryPolicy::default()
    }
}

fn retries(heard: &[OwnedReplyEvent]) -> Vec<(u32, Duration, ModelErrorKind)> {
    let retry = |piece: &OwnedReplyEvent| match piece {
        OwnedReplyEvent::Retrying {
            attempt,
            wait,
            reason,
        } => Some((*attempt, *wait, reason.kind)),
        _ => None,
    };
    heard.iter().filter_map(retry).collect()
}

#[tokio::test]
async fn what_may_pass_is_tried_again_until_it_passes() {
    for client in ALL_CLIENTS {
        let wait = |answer: ScriptedReply, wait: &str| {
            ScriptedAnswer::reply(answer).with_header("retry-after-ms", wait)
        };
        let server = ModelServer::start([
            wait(ScriptedReply::error(429, "rate_limit_error", "slow"), "5"),
            wait(ScriptedReply::error(529, "overloaded_error", "full"), "0"),
            ScriptedAnswer::hang_up(),
            wait(ScriptedReply::error(500, "api_error", "oops"), "7"),
            ScriptedReply::text("at last").into(),
        ]);
        let model = RetryingModel::new(client.of(&server), quick_policy());
        let (reply, heard) = OwnedRequest::default().ask(&model).await;
        assert_eq!(reply.unwrap().content, [Block::text("at last")]);
        let retries = retries(&heard);
        let kinds: Vec<_> = retries.iter().map(|retry| retry.2).collect();
        #[rustfmt::skip]
        assert_eq!(kinds, [
            ModelErrorKind::RateLimit, ModelErrorKind::Overloaded, ModelErrorKind::Network, ModelErrorKind::Server,
        ]);
        let attempts: Vec<_> = retries.iter().map(|retry| retry.0).collect();
        assert_eq!(attempts, [1, 2, 3, 4]);
        let waits = [retries[0].1, retries[1].1, retries[3].1];
        assert_eq!(
            waits,
            [5, 0, 7].map(Duration::from_millis),
            "{client:?}: honoured exactly"
        );
    }
}

#[tokio::test]
async fn what_cannot_pass_is_asked_once() {
    for client in ALL_CLIENTS {
        for answer in [
            ScriptedAnswer::reply(ScriptedReply::error(400, "invalid_request_error", "no")),
            ScriptedAnswer::reply(ScriptedReply::error(401, "authentication_error", "who")),
            ScriptedAnswer::reply(ScriptedReply::error(529, "overloaded_error", "no"))
                .with_header("x-should-retry", "false"),
            ScriptedAnswer::reply(ScriptedReply::error(429, "rate_limit_error", "no"))
                .with_header("retry-after", "3600"),
        ] {
            let server = ModelServer::start([answer, ScriptedReply::text("never").into()]);
            let model = RetryingModel::new(client.of(&server), quick_policy());
            let (reply, heard) = OwnedRequest::default().ask(&model).await;
            reply.unwrap_err();
            assert_eq!(retries(&heard), []);
            assert_eq!(server.request_count(), 1);
        }
    }
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_told() {
    for client in ALL_CLIENTS {
        let error = ScriptedReply::error(429, "rate_limit_error", "slow");
        let server =
            ModelServer::start(ScriptedAnswer::reply(error).with_header("retry-after", "3600"));
        let model = RetryingModel::new(client.of(&server), quick_policy());
        let error = OwnedRequest::default().ask(&model).await.0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::RateLimit);
        assert!(error.message.contains("slow"), "{error}");
        assert!(error.message.contains("3600"), "{error}");
    }
}

#[tokio::test]
async fn retries_are_limited() {
    for client in ALL_CLIENTS {
        let server = ModelServer::start(testkit::Replies::decide(|_| {
            ScriptedReply::error(529, "overloaded_error", "full")
        }));
        let patience = quick_policy();
        let tries = patience.tries;
        let model = RetryingModel::new(client.of(&server), patience);
        let (reply, heard) = OwnedRequest::default().ask(&model).await;
        assert_eq!(reply.unwrap_err().kind, ModelErrorKind::Overloaded);
        assert_eq!(server.request_count(), tries as usize);
        assert_eq!(retries(&heard).len(), tries as usize - 1);
    }
}
