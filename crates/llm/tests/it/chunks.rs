//! A reply does not depend on how its bytes are split, or on other data between its events.

use llm::script::ScriptedReply;
use protocol::{Block, Stop};
use testkit::{
    Chunking, Framing, LineEnding, ModelServer, ModelServerSettings, RawChunk, ScriptedAnswer,
};

use crate::ask::{ALL_CLIENTS, ModelClient, ask, assert_rich, rich};

#[tokio::test]
async fn chunks_of_every_size_and_every_line_end() {
    for client in ALL_CLIENTS {
        for line_ends in [LineEnding::Lf, LineEnding::CrLf, LineEnding::Cr] {
            for chunking in [1, 2, 3, 7, 1000]
                .map(Chunking::Bytes)
                .into_iter()
                .chain([Chunking::Events, Chunking::Whole])
            {
                let framing = Framing {
                    chunking,
                    line_ends,
                };
                let server = ModelServer::start_with(rich(), ModelServerSettings::framed(framing));
                let reply = ask(&*client.of(&server)).await.unwrap();
                assert_rich(client, &reply);
            }
        }
    }
}

/// None of this is part of a reply, and none of it breaks one.
#[tokio::test]
async fn what_is_not_understood_is_passed_over() {
    for client in ALL_CLIENTS {
        for bytes in [
            ": keep-alive\n\n",
            "\n\n\n",
            "id: 7\nretry: 1000\n\n",
            "event: vibes\ndata: {\"type\": \"vibes\", \"index\": 0}\n\n",
            "event: ping\ndata: {\"type\": \"ping\"}\n\n",
            "unheard-of: field\n\n",
        ] {
            for after in 0..8 {
                let answer = ScriptedAnswer::reply(rich()).insert(after, bytes);
                let server = ModelServer::start(answer);
                let reply = ask(&*client.of(&server)).await;
                assert_rich(
                    client,
                    &reply.unwrap_or_else(|error| panic!("{bytes}: {error}")),
                );
            }
        }
        let answer = ScriptedAnswer::reply(rich()).insert(0, "\u{feff}");
        let server = ModelServer::start(answer);
        assert_rich(client, &ask(&*client.of(&server)).await.unwrap());
    }
}

#[tokio::test]
async fn new_kinds_of_pieces_are_passed_over() {
    let strange = "event: content_block_delta\ndata: {\"type\": \"content_block_delta\", \
                   \"index\": 0, \"delta\": {\"type\": \"smell_delta\", \"smell\": \"rose\"}}\n\n";
    let answer = ScriptedAnswer::reply(rich()).insert(4, strange);
    let server = ModelServer::start(answer);
    assert_rich(
        ModelClient::Anthropic,
        &ask(&*ModelClient::Anthropic.of(&server)).await.unwrap(),
    );
}

#[tokio::test]
async fn the_last_event_needs_no_blank_line() {
    let message = concat!(
        "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\n",
        "data:{\"type\":\"content_block_start\",\"index\":0,\n",
        "data: \"content_block\":{\"type\":\"text\",\"text\":\"over two lines\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
        "data: {\"type\":\"message_stop\"}",
    );
    let chat = concat!(
        "data:{\"choices\":[{\"index\":0,\n",
        "data:\"delta\":{\"content\":\"over two lines\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}",
    );
    for (client, stream) in [
        (ModelClient::Anthropic, message),
        (ModelClient::OpenAi, chat),
    ] {
        let server = ModelServer::start(ScriptedAnswer::raw([RawChunk::bytes(stream)]));
        let reply = ask(&*client.of(&server)).await.unwrap();
        assert_eq!(reply.content, [Block::text("over two lines")], "{client:?}");
        assert_eq!(reply.stop, Stop::EndTurn);
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    for client in ALL_CLIENTS {
        let server = ModelServer::start([(); 5].map(|()| ScriptedReply::text("hi")));
        let model = client.of(&server);
        for _ in 0..5 {
            ask(&*model).await.unwrap();
        }
        assert_eq!(server.connection_count(), 1, "{client:?}");
    }
}
