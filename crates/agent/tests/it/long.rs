//! A thousand turns: nothing accumulates, nothing is lost.

use llm::script::ScriptedReply;
use protocol::{EventKind, Outcome};
use serde_json::json;
use testkit::{ModelServer, ModelServerSettings, Replies};

use crate::harness::{SessionFixture, run_with_timeout};
use crate::models::{Wire, bash, done, scripted};

const TURN_COUNT: usize = 1000;

#[test]
fn a_thousand_prompts() {
    run_with_timeout(async {
        let mut script: Vec<ScriptedReply> = (0..TURN_COUNT)
            .map(|turn| ScriptedReply::text(format!("Answer {turn}.")))
            .collect();
        script.push(done());
        let model = scripted(script);
        let world = SessionFixture::new().await;
        let mut agent = world.start(model.clone()).await;
        for _ in 0..TURN_COUNT {
            assert_eq!(agent.prompt("Next.").await, Outcome::Done);
        }
        agent.end().await;
        let events = world.events().await;
        // Session and sandbox; then prompt, reply and end of each turn.
        assert_eq!(events.len(), 2 + 3 * TURN_COUNT);
        let conversation = agent::Conversation::fold(events.iter().map(|event| &event.kind));
        assert_eq!(conversation.messages().len(), 2 * TURN_COUNT);
        assert_eq!(conversation.last_turn() as usize, TURN_COUNT);

        let mut agent = world.start(model).await;
        assert_eq!(agent.prompt("Once more.").await, Outcome::Done);
        assert!(matches!(agent.undo().await, EventKind::Undone { .. }));
        agent.end().await;
    });
}

#[test]
fn a_thousand_requests_of_one_prompt_over_http() {
    run_with_timeout(async {
        let settings = ModelServerSettings::fast();
        let replies = Replies::decide(|request| match request.number {
            number if number % 100 == 0 => bash(&format!("echo {number} >> log")),
            number if number < TURN_COUNT + 1 => {
                let input = json!({"path": "log", "offset": 1, "limit": number});
                ScriptedReply::call("read_file", input)
            }
            _ => done(),
        });
        let server = ModelServer::start_with(replies, settings);
        let world = SessionFixture::new().await;
        world.write("log", "0\n");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        assert_eq!(server.request_count(), TURN_COUNT + 1);
        assert_eq!(world.read("log").lines().count(), 11);
        agent.end().await;
        let events = world.events().await;
        // Session, sandbox, prompt, end, both checkpoints; then reply and result of each request.
        assert_eq!(events.len(), 6 + 2 * TURN_COUNT + 1);

        // The same server accepts it with its checks enabled.
        let strict = ModelServer::start(done());
        let mut agent = world.start(Wire::Anthropic.client(&strict)).await;
        assert_eq!(agent.prompt("Once more.").await, Outcome::Done);
        agent.end().await;
        strict.finish();
    });
}
