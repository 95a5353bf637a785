//! A stream that ends too early, at every possible position.

use llm::script::ScriptedReply;
use llm::{ErrorKind, Patient};
use testkit::{Answer, Framing, ModelServer, Settings};

use crate::ask::{Asked, BOTH, Client, Heard, ask, assert_rich, rich, text_of, thinking_of};
use crate::patience::quick;

/// The number of events that a complete reply needs.
fn needed_events(client: Client) -> usize {
    match client {
        // All of them: without `message_stop` a reply is incomplete.
        Client::Anthropic => 35,
        // Up to the chunk with the finish reason; usage and the end marker may be missing.
        Client::OpenAi => 25,
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
    for client in BOTH {
        let needed = needed_events(client);
        for after in 0..needed {
            let server = ModelServer::start([
                Answer::reply(cut_at(after)),
                Answer::reply(rich()).end_after(after),
            ]);
            let model = client.of(&server);
            for how in ["broken", "ended"] {
                let error = ask(&*model).await.expect_err("half a reply is none");
                assert_eq!(
                    error.kind,
                    ErrorKind::Stream,
                    "{client:?} {how} after {after}"
                );
                assert!(error.is_retryable());
            }
        }
        let server = ModelServer::start(Answer::reply(rich()).end_after(needed));
        assert_rich(client, &ask(&*client.of(&server)).await.unwrap());
    }
}

/// The reply is complete; only token counts and the end marker are missing.
#[tokio::test]
async fn a_whole_reply_outlives_its_connection() {
    for client in BOTH {
        let server = ModelServer::start(cut_at(needed_events(client)));
        assert_rich(client, &ask(&*client.of(&server)).await.unwrap());
    }
}

#[tokio::test]
async fn cut_in_the_middle_of_events() {
    for client in BOTH {
        for framing in [Framing::bytes(1), Framing::bytes(19)] {
            for after in [1, 6, 17, 23] {
                let server = ModelServer::start_with(
                    Answer::reply(rich())
                        .insert(after, "data: {\"type\": \"content_block_del")
                        .end_after(after),
                    Settings::framed(framing),
                );
                let error = ask(&*client.of(&server)).await.unwrap_err();
                assert_eq!(error.kind, ErrorKind::Stream, "{client:?} after {after}");
            }
        }
    }
}

#[tokio::test]
async fn whoever_is_patient_gets_the_whole_reply() {
    for client in BOTH {
        for after in 0..needed_events(client) {
            let server = ModelServer::start([cut_at(after), rich()]);
            let model = Patient::new(client.of(&server), quick());
            let (reply, heard) = Asked::default().ask(&model).await;
            assert_rich(client, &reply.unwrap());
            assert_eq!(text_of(&heard), rich().text.unwrap(), "after {after}");
            assert_eq!(thinking_of(&heard), rich().thinking.unwrap());
            let retries: Vec<_> = heard
                .iter()
                .filter_map(|piece| match piece {
                    Heard::Retrying {
                        attempt, reason, ..
                    } => Some((*attempt, reason.kind)),
                    _ => None,
                })
                .collect();
            assert_eq!(retries, [(1, ErrorKind::Stream)]);
            let [first, second] = server.finish().try_into().unwrap();
            assert_eq!(first.body, second.body, "asked again in the same words");
        }
    }
}
