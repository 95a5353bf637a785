//! Each disturbance happens exactly where the script says.

use llm::script::{Script, ScriptedReply};
use testkit::{ModelServer, ModelServerSettings, RawChunk, ScriptedAnswer};

use crate::client::{chat, messages, messages_body, open, post};

#[tokio::test]
async fn an_error_in_place_of_the_reply() {
    let script = r#"
        [[reply]]
        error = { status = 529, type = "overloaded_error", message = "later", headers = [["retry-after", "3"]] }
        [[reply]]
        error = { status = 429, type = "rate_limit_error", message = "slow" }
        "#;
    let server = ModelServer::start(Script::parse(script).unwrap());
    let heard = messages(&server).await;
    assert_eq!((heard.status, heard.is_whole), (529, true));
    assert_eq!(heard.headers["retry-after"], "3");
    assert_eq!(heard.json()["error"]["type"], "overloaded_error");
    let heard = chat(&server).await;
    assert_eq!((heard.status, heard.is_whole), (429, true));
    assert_eq!(heard.json()["error"]["message"], "slow");
    let heard = messages(&server).await;
    assert_eq!(heard.status, 400);
    assert!(heard.text().contains("the script ends after 2 replies"));
}

#[tokio::test]
async fn streams_break_after_as_many_events_as_told() {
    let whole = messages(&ModelServer::start(ScriptedReply::text("one two"))).await;
    let count = whole.chunks.len();
    assert_eq!(count, 8);
    for after in 0..=count {
        let mut reply = ScriptedReply::text("one two");
        let ended = ScriptedAnswer::reply(reply.clone()).end_after(after);
        reply.cut_after = Some(after);
        let server = ModelServer::start([ScriptedAnswer::reply(reply), ended]);
        let cut = messages(&server).await;
        assert!(!cut.is_whole);
        assert_eq!(
            cut.chunks,
            whole.chunks[..after],
            "nothing before the cut is lost"
        );
        let ended = messages(&server).await;
        assert!(ended.is_whole);
        assert_eq!(ended.chunks.len(), after);
    }
}

#[tokio::test]
async fn an_error_in_mid_stream_is_the_last_event() {
    let mut reply = ScriptedReply::error(529, "overloaded_error", "too much");
    reply.text = Some("one two".to_owned());
    reply.error.as_mut().unwrap().after = Some(4);
    let server = ModelServer::start([reply.clone(), reply]);
    let heard = messages(&server).await;
    assert_eq!((heard.status, heard.chunks.len()), (200, 5));
    assert!(heard.chunks[4].starts_with(b"event: error\ndata: {"));
    let heard = chat(&server).await;
    assert_eq!((heard.status, heard.chunks.len()), (200, 5));
    assert_eq!(heard.data()[4]["error"]["message"], "too much");
}

#[tokio::test]
async fn bytes_of_the_test_go_out_as_they_are() {
    let server = ModelServer::start([
        ScriptedAnswer::reply(ScriptedReply::text("x")).insert(1, ": a comment\n\n"),
        ScriptedAnswer::raw([
            RawChunk::bytes(&b"\xff\xfe"[..]),
            RawChunk::bytes("data: {\n\n"),
        ]),
        ScriptedAnswer::raw([RawChunk::bytes("half"), RawChunk::Cut]),
        ScriptedAnswer::body(503, "text/html", "<h1>no</h1>")
            .with_header("x-should-retry", "false"),
    ]);
    assert_eq!(messages(&server).await.chunks[1], ": a comment\n\n");
    let heard = messages(&server).await;
    assert_eq!(heard.chunks.concat(), b"\xff\xfedata: {\n\n");
    let heard = messages(&server).await;
    assert_eq!((heard.text().as_str(), heard.is_whole), ("half", false));
    let heard = messages(&server).await;
    assert_eq!((heard.status, heard.text().as_str()), (503, "<h1>no</h1>"));
    assert_eq!(heard.headers["content-type"], "text/html");
    assert_eq!(heard.headers["x-should-retry"], "false");
}

#[tokio::test]
async fn a_server_can_hang_up_and_refuse() {
    let settings = ModelServerSettings {
        key: Some("another".to_owned()),
        ..ModelServerSettings::default()
    };
    let server = ModelServer::start_with(ScriptedReply::text("x"), settings);
    assert_eq!(messages(&server).await.status, 401);
    assert_eq!(
        post(&server, "/v2/messages", &messages_body()).await.status,
        404
    );

    let server = ModelServer::start(ScriptedAnswer::hang_up());
    let opened = open(&server, "/v1/messages", messages_body().to_string()).await;
    assert!(opened.is_err());
}
