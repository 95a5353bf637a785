//! A stream that ends too early, at every possible position.

use llm::script::ScriptedReply;
use llm::{ModelErrorKind, RetryingModel};
use testkit::{Framing, ModelServer, ModelServerSettings, ScriptedAnswer};

use crate::ask::{
    ALL_CLIENTS, ModelClient, OwnedReplyEvent, OwnedRequest, ask, assert_rich, rich, text_of,
    thinking_of,
};
use crate::retries::quick_policy;

/// The number of events that a complete reply needs.
fn needed_events(client: ModelClient) -> usize {
    match client {
        // All of them: without `message_stop` a reply is incomplete.
        ModelClient::Anthropic => 35,
        // Up to the chunk with the finish reason; usage and the end marker may be missing.
        ModelClient::OpenAi => 25,
    }
}

fn cut_at(after: usize) -> ScriptedReply {
    ScriptedReply {
        cut_after: Some(after),
        ..rich()
    }
}

#[tokio::test]
async fn cut_at_every_event() {
    for client in ALL_CLIENTS {
        let needed = needed_events(client);
        for after in 0..needed {
            let server = ModelServer::start([
                ScriptedAnswer::reply(cut_at(after)),
                ScriptedAnswer::reply(rich()).end_after(after),
            ]);
            let model = client.of(&server);
            for how in ["broken", "ended"] {
                let error = ask(&*model).await.expect_err("half a reply is none");
                assert_eq!(
                    error.kind,
                    ModelErrorKind::Stream,
                    "{client:?} {how} after {after}"
                );
                assert!(error.is_retryable());
            }
        }
        let server = ModelServer::start(ScriptedAnswer::reply(rich()).end_after(needed));
        assert_rich(client, &ask(&*client.of(&server)).await.unwrap());
    }
}

/// The reply is complete; only token counts and the end marker are missing.
#[tokio::test]
async fn a_whole_reply_outlives_its_connection() {
    for client in ALL_CLIENTS {
        let server = ModelServer::start(cut_at(needed_events(client)));
        assert_rich(client, &ask(&*client.of(&server)).await.unwrap());
    }
}

#[tokio::test]
async fn cut_in_the_middle_of_events() {
    for client in ALL_CLIENTS {
        for framing in [Framing::bytes(1), Framing::bytes(19)] {
            for after in [1, 6, 17, 23] {
                let server = ModelServer::start_with(
                    ScriptedAnswer::reply(rich())
                        .insert(after, "data: {\"type\": \"content_block_del")
                        .end_after(after),
                    ModelServerSettings::framed(framing),
                );
                let error = ask(&*client.of(&server)).await.unwrap_err();
                assert_eq!(
                    error.kind,
                    ModelErrorKind::Stream,
                    "{client:?} after {after}"
                );
            }
        }
    }
}

#[tokio::test]
async fn whoever_is_patient_gets_the_whole_reply() {
    for client in ALL_CLIENTS {
        for after in 0..needed_events(client) {
            let server = ModelServer::start([cut_at(after), rich()]);
            let model = RetryingModel::new(client.of(&server), quick_policy());
            let (reply, heard) = OwnedRequest::default().ask(&model).await;
            assert_rich(client, &reply.unwrap());
            assert_eq!(text_of(&heard), rich().text.unwrap(), "after {after}");
            assert_eq!(thinking_of(&heard), rich().thinking.unwrap());
            let retries: Vec<_> = heard
                .iter()
                .filter_map(|piece| match piece {
                    OwnedReplyEvent::Retrying {
                        attempt, reason, ..
                    } => Some((*attempt, reason.kind)),
                    _ => None,
                })
                .collect();
            assert_eq!(retries, [(1, ModelErrorKind::Stream)]);
            let [first, second] = server.finish().try_into().unwrap();
            assert_eq!(first.body, second.body, "asked again in the same words");
        }
    }
}
