//! Tests act between events, and never sleep.

use http_body_util::BodyExt;
use llm::script::ScriptedReply;
use serde_json::json;
use testkit::{ModelServer, ModelServerSettings, Replies, ScriptedAnswer, StreamGate};

use crate::client::{messages, messages_body, open, post};

#[tokio::test]
async fn a_gate_holds_the_stream_between_two_events() {
    let gate = StreamGate::new();
    let answer = ScriptedAnswer::reply(ScriptedReply::text("one two")).hold(3, &gate);
    let server = ModelServer::start(answer);
    let response = open(&server, "/v1/messages", messages_body().to_string())
        .await
        .unwrap();
    let mut body = response.into_body();
    gate.reached().await;
    for _ in 0..3 {
        body.frame().await.unwrap().unwrap();
    }
    let held = tokio::select! {
        biased;
        _ = body.frame() => false,
        () = tokio::task::yield_now() => true,
    };
    assert!(held);
    gate.open();
    let rest = body.collect().await.unwrap().to_bytes();
    assert!(rest.ends_with(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
}

#[tokio::test]
async fn a_client_that_leaves_at_a_gate_is_noticed() {
    let gate = StreamGate::new();
    let answer = ScriptedAnswer::reply(ScriptedReply::text("one two")).hold(3, &gate);
    let server = ModelServer::start([answer, ScriptedReply::text("next").into()]);
    let response = open(&server, "/v1/messages", messages_body().to_string())
        .await
        .unwrap();
    gate.reached().await;
    drop(response);
    server.hung_up(1).await;
    assert!(messages(&server).await.is_whole);
}

#[tokio::test]
async fn requests_are_seen_before_their_replies() {
    let gate = StreamGate::new();
    let held = ScriptedAnswer::reply(ScriptedReply::text("one")).hold(0, &gate);
    let server = ModelServer::start([held, ScriptedReply::text("two").into()]);
    let test = async {
        let first = server.next_request().await;
        assert_eq!((first.number, first.path.as_str()), (1, "/v1/messages"));
        assert_eq!(first.json()["messages"][0]["content"], "hi");
        gate.open();
        assert_eq!(server.next_request().await.number, 2);
    };
    let client = async {
        messages(&server).await;
        messages(&server).await;
    };
    tokio::join!(test, client);
}

/// As for an external program: no runtime here, and the client is a separate thread.
#[test]
fn a_blocking_test_waits_and_acts() {
    let gate = StreamGate::new();
    let held = ScriptedAnswer::reply(ScriptedReply::text("one")).hold(2, &gate);
    let server = ModelServer::start(held);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(messages(&server)).is_whole
        });
        assert_eq!(server.wait_for(1).header("x-api-key"), Some("a-key"));
        gate.wait_reached();
        assert!(!client.is_finished());
        gate.open();
        assert!(client.join().unwrap());
    });
}

#[tokio::test]
async fn a_closure_answers_a_long_conversation() {
    let replies = Replies::decide(|request| match request.number {
        1000 => ScriptedReply::text("done"),
        number => ScriptedReply::call("bash", json!({"command": format!("echo {number}")})),
    });
    let server = ModelServer::start_with(replies, ModelServerSettings::fast());
    for _ in 0..999 {
        assert!(messages(&server).await.text().contains("\"tool_use\""));
    }
    assert!(messages(&server).await.text().contains("done"));
    assert_eq!(server.request_count(), 1000);
    assert_eq!(server.requests().len(), 1, "only the last is kept");
}

#[tokio::test]
async fn a_closure_that_panics_fails_the_test() {
    let replies = Replies::decide(|_| -> ScriptedReply { panic!("wrong turn") });
    let server = ModelServer::start(replies);
    assert!(
        open(&server, "/v1/messages", messages_body().to_string())
            .await
            .is_err()
    );
    let violations = server.take_violations();
    assert_eq!(violations, ["request 1: the test's own closure panicked"]);
}

#[tokio::test]
#[should_panic(expected = "request 1: messages[0]: the content is empty")]
async fn finishing_fails_the_test_if_a_rule_was_broken() {
    let server = ModelServer::start(ScriptedReply::text("fine"));
    let mut body = messages_body();
    body["messages"][0]["content"] = json!([]);
    assert_eq!(post(&server, "/v1/messages", &body).await.status, 200);
    server.finish();
}
